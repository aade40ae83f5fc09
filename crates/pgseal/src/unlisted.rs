//! What lies in a data directory in clear and is none of PostgreSQL's files: configuration,
//! certificates and logs of an administrator, and what an extension keeps beside `base/`. Only its
//! owner knows whether it holds data, so `doctor`, `audit` and `seal` name it.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pgseal_storage::classify::{classify, Class};

/// How the names of a server's sockets and of their lock files begin.
const SOCKET: &[u8] = b".s.PGSQL.";

/// The names at the top of the data directory `data`; a directory's ends with a slash.
pub fn unlisted(data: &Path) -> io::Result<BTreeSet<String>> {
    let entries = fs::read_dir(data)?.map(|entry| entry.map(|entry| unlisted_name(&entry)));
    Ok(entries
        .collect::<io::Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect())
}

fn unlisted_name(entry: &DirEntry) -> Option<String> {
    let name = entry.file_name();
    let kind = fs::metadata(entry.path()).ok()?.file_type();
    let is_directory = kind.is_dir();
    if !is_directory && (!kind.is_file() || name.as_bytes().starts_with(SOCKET)) {
        return None;
    }
    let path = match is_directory {
        true => [name.as_bytes(), b"/x"].concat(),
        false => name.as_bytes().to_vec(),
    };
    let answer = classify(&path);
    let is_unlisted = answer.row.is_none() && answer.class == Class::Clear;
    let slash = if is_directory { "/" } else { "" };
    is_unlisted.then(|| format!("{}{slash}", name.to_string_lossy()))
}

/// For a sentence: `certs/, server.key`.
pub fn listed(names: &BTreeSet<String>) -> String {
    names
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_postgresql_does_not_have() {
        let data = tempfile::tempdir().expect("a directory");
        for directory in [
            "base",
            "log",
            "pg_wal",
            "pg_stat",
            "certs",
            "orioledb_data",
            "pg_conf.d",
        ] {
            fs::create_dir(data.path().join(directory)).expect("it is new");
        }
        for file in [
            "PG_VERSION",
            "postgresql.conf",
            "server.key",
            "standby.signal",
        ] {
            fs::write(data.path().join(file), "x").expect("it is new");
        }
        let names = unlisted(data.path()).expect("it can be read");
        assert_eq!(
            listed(&names),
            "certs/, orioledb_data/, pg_conf.d/, server.key"
        );
    }
}
