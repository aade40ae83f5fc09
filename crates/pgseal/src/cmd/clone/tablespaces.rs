//! What the server tells of its tablespaces, over an ordinary connection: one for replication takes
//! no SQL. The role that copies may have no right to make such a connection, or to see sizes; then
//! less is known, and nothing is refused for it.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::exit::Failure;
use crate::twin::getopt::Given;
use crate::twin::source;
use crate::twin::Twin;

/// The database that is asked where the operator names none.
const DATABASE: &str = "PGDATABASE";
/// The size is shown to who may use the tablespace, or see all statistics.
const QUESTION: &str = "
    SELECT spcname, pg_tablespace_location(oid),
        CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') OR has_tablespace_privilege(oid, 'CREATE')
                OR oid = (SELECT dattablespace FROM pg_database WHERE datname = current_database())
            THEN pg_tablespace_size(oid) END
    FROM pg_tablespace ORDER BY oid";

/// A tablespace of the server.
#[derive(Debug, PartialEq, Eq)]
pub struct Tablespace {
    pub name: String,
    /// Its directory; none in the data directory.
    pub location: Option<PathBuf>,
    /// What its files take, if the role may see that.
    pub bytes: Option<u64>,
}

/// All tablespaces, or why the server does not tell them.
pub fn ask(twin: &Twin, given: &Given) -> Result<Result<Vec<Tablespace>, String>, Failure> {
    let psql = source::psql(twin)?;
    let mut args = source::connection(given, given.value("d").map(OsStr::to_owned));
    // A password that is typed would be asked for once more.
    args.extend(["-w", "-0", "-z", "-c", QUESTION].map(Into::into));
    let mut sealed = psql.sealed(&args)?;
    if env::var_os(DATABASE).is_none() {
        sealed.tell(DATABASE, "postgres");
    }
    let output = sealed.output()?;
    if output.status.success() {
        return Ok(parse(&output.stdout).ok_or_else(|| "its answer cannot be understood".into()));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Ok(Err(said.trim().to_owned()))
}

fn parse(answer: &[u8]) -> Option<Vec<Tablespace>> {
    let fields: Vec<&[u8]> = answer
        .strip_suffix(b"\0")?
        .split(|&byte| byte == 0)
        .collect();
    let rows = fields.chunks(3).map(|row| {
        let [name, location, bytes] = row else {
            return None;
        };
        let location = PathBuf::from(OsStr::from_bytes(location));
        Some(Tablespace {
            name: String::from_utf8_lossy(name).into_owned(),
            location: Some(location).filter(|path| path.is_absolute()),
            bytes: match bytes {
                [] => None,
                digits => Some(std::str::from_utf8(digits).ok()?.parse().ok()?),
            },
        })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let answer =
            b"pg_default\0\0001024\0pg_global\0\0\0a\0/a b\n\00017\0in\0pg_tblspc/16384\00017\0";
        let tablespace = |name: &str, location: Option<&str>, bytes| Tablespace {
            name: name.to_owned(),
            location: location.map(PathBuf::from),
            bytes,
        };
        let expected = vec![
            tablespace("pg_default", None, Some(1024)),
            tablespace("pg_global", None, None),
            tablespace("a", Some("/a b\n"), Some(17)),
            tablespace("in", None, Some(17)),
        ];
        assert_eq!(parse(answer), Some(expected));
        for bad in [&b""[..], b"\0", b"a\0\0", b"a\0\0x\0", b"a\0\0001\0b\0"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
