//! What the twins know about PostgreSQL's programs.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// How a program meets data directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Talks to servers only, or mostly, as repmgr, or looks at names alone, as pg_archivecleanup:
    /// it runs with the library and without keys.
    Client,
    /// Talks to servers, and writes or reads pg_upgrade's dumps: it keeps the keys that pg_upgrade
    /// hands down, and asks for none.
    Dump,
    /// The server.
    Server,
    /// Starts and stops servers; the library fetches the key if `promote` needs it.
    PgCtl,
    /// Reads or writes files of the clusters that it is given.
    Tool,
}

const CLIENTS: [&str; 21] = [
    "clusterdb",
    "createdb",
    "createuser",
    "dropdb",
    "dropuser",
    "ecpg",
    "oid2name",
    "pg_amcheck",
    "pg_archivecleanup",
    "pg_catcheck",
    "pg_config",
    "pg_isready",
    "pg_recvlogical",
    "pg_test_fsync",
    "pg_test_timing",
    "pgbench",
    "reindexdb",
    "repmgr",
    "repmgrd",
    "vacuumdb",
    "vacuumlo",
];

/// The role of the program `name`; what is unknown is taken for a tool.
pub fn role(name: &str) -> Role {
    match name {
        "postgres" | "postmaster" => Role::Server,
        "pg_ctl" => Role::PgCtl,
        "pg_dump" | "pg_dumpall" | "pg_restore" | "psql" => Role::Dump,
        _ if CLIENTS.contains(&name) => Role::Client,
        _ => Role::Tool,
    }
}

/// The short options of `name` that take a value, in all of PostgreSQL 15 to 18.
pub fn short_with_value(name: &str) -> &'static str {
    match name {
        "initdb" => "ADELTUXc",
        "pg_basebackup" => "cDdFhilprsStTUXZ",
        "pg_combinebackup" => "oT",
        "pg_ctl" => "DelmNopPStU",
        "pg_receivewal" => "dDEhpsSUZ",
        "pg_resetwal" => "cDelmoOux",
        "pg_rewind" => "D",
        "pg_upgrade" => "bBdDjoOpPsU",
        "pg_verifybackup" => "imwF",
        "pg_waldump" => "BeFnprRst",
        _ => "",
    }
}

/// Whether `option`, a long one of `name` without a value, takes the next word for another
/// program's options, which may be spelt like ours. getopt takes a beginning for the whole.
pub fn passes_options_on(name: &str, option: &[u8]) -> bool {
    let (shortest, whole): (&[u8], &[u8]) = match (name, option.first()) {
        ("pg_ctl", _) => (b"o", b"options"),
        ("pg_upgrade", Some(b'o')) => (b"old-o", b"old-options"),
        ("pg_upgrade", _) => (b"new-o", b"new-options"),
        _ => return false,
    };
    whole.starts_with(option) && option.starts_with(shortest)
}

/// Whether `program` is a program itself, and no wrapper or script, which a preloaded library does
/// not come through.
pub fn is_elf(program: &Path) -> bool {
    let mut magic = [0; 4];
    let read = File::open(program).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}
