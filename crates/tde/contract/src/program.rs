//! PostgreSQL's programs, and what the wrappers and the library know of each (15 to 19).

/// How a program meets data directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Talks to servers, or looks at names of files alone, as `pg_archivecleanup` does: it gets no
    /// key, and the library does not act in it.
    Client,
    /// Talks to servers, and writes or reads the dumps of `pg_upgrade`: below that program the
    /// library acts in it, with the keys that `pg_upgrade` has.
    Dump,
    /// Is the server.
    Server,
    /// Starts and stops servers.
    PgCtl,
    /// Reads or writes files of the clusters that it is given.
    Tool,
}

/// One program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// How it meets data directories.
    pub role: Role,
    /// Whether it starts other programs, which then need keys and commands too.
    pub starts_others: bool,
    /// Whether it refuses root, in each version, before it opens anything of a cluster.
    pub refuses_root: bool,
    /// Its short options that take a value, where its wrapper takes options of pgseal's own out of
    /// its command line.
    pub short_with_value: &'static str,
}

const fn program(name: &'static str, role: Role, short_with_value: &'static str) -> Program {
    Program {
        name,
        role,
        starts_others: true,
        refuses_root: false,
        short_with_value,
    }
}

const fn client(name: &'static str) -> Program {
    program(name, Role::Client, "")
}

const fn dump(name: &'static str) -> Program {
    program(name, Role::Dump, "")
}

const fn tool(name: &'static str, short_with_value: &'static str) -> Program {
    program(name, Role::Tool, short_with_value)
}

/// A tool that starts no other program.
const fn lone(name: &'static str, short_with_value: &'static str) -> Program {
    Program {
        starts_others: false,
        ..tool(name, short_with_value)
    }
}

const fn not_for_root(program: Program) -> Program {
    Program {
        refuses_root: true,
        ..program
    }
}

/// All programs that are known. `pg_checksums_ext` and `pg_catcheck` are not PostgreSQL's own, but
/// Debian puts them beside its programs; `repmgr` and `repmgrd` lie there too.
pub const PROGRAMS: [Program; 41] = [
    not_for_root(program("postgres", Role::Server, "")),
    not_for_root(program("pg_ctl", Role::PgCtl, "DelmNopPStU")),
    not_for_root(tool("initdb", "ADELTUXc")),
    not_for_root(tool("pg_createsubscriber", "")),
    not_for_root(tool("pg_rewind", "D")),
    not_for_root(tool("pg_upgrade", "bBdDjoOpPsU")),
    tool("pg_verifybackup", "imwF"),
    lone("pg_basebackup", "cDdFhilprsStTUXZ"),
    lone("pg_checksums", ""),
    lone("pg_checksums_ext", ""),
    lone("pg_combinebackup", "oT"),
    lone("pg_controldata", ""),
    lone("pg_receivewal", "dDEhpsSUZ"),
    not_for_root(lone("pg_resetwal", "cDelmoOux")),
    lone("pg_waldump", "BeFnprRst"),
    lone("pg_walsummary", ""),
    dump("pg_dump"),
    dump("pg_dumpall"),
    dump("pg_restore"),
    dump("psql"),
    client("clusterdb"),
    client("createdb"),
    client("createuser"),
    client("dropdb"),
    client("dropuser"),
    client("ecpg"),
    client("oid2name"),
    client("pg_amcheck"),
    client("pg_archivecleanup"),
    client("pg_catcheck"),
    client("pg_config"),
    client("pg_isready"),
    client("pg_recvlogical"),
    client("pg_test_fsync"),
    client("pg_test_timing"),
    client("pgbench"),
    client("reindexdb"),
    client(REPMGR),
    client("repmgrd"),
    client("vacuumdb"),
    client("vacuumlo"),
];

/// The name of repmgr, which reads the state of a server from `pg_control`, and removes data
/// directories whole.
pub const REPMGR: &str = "repmgr";
/// The programs of pgseal that unlock: they read key files and control files as they are stored.
pub const UNLOCKING: [&str; 2] = ["pgseal", "pgseal-twin"];

/// The program of this name. `postmaster` is an older name of the server.
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Program> {
    let name = match name {
        b"postmaster" => b"postgres",
        name => name,
    };
    PROGRAMS
        .iter()
        .find(|program| program.name.as_bytes() == name)
}

/// The role of the program of this name; an unknown one is taken for a tool.
#[must_use]
pub fn role(name: &str) -> Role {
    find(name.as_bytes()).map_or(Role::Tool, |program| program.role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_listed_once() {
        for (at, program) in PROGRAMS.iter().enumerate() {
            let mut others = PROGRAMS[..at].iter();
            assert!(
                others.all(|other| other.name != program.name),
                "{}",
                program.name
            );
        }
    }

    #[test]
    fn unknown_programs_are_tools() {
        assert_eq!(role("postmaster"), Role::Server);
        assert_eq!(role("pg_bulkload"), Role::Tool);
        assert_eq!(role("psql"), Role::Dump);
        assert!(find(b"pg_bulkload").is_none());
    }
}
