//! Finds files that lie in a data directory in clear and are none of PostgreSQL's: configuration,
//! certificates and logs of an administrator, and what an extension keeps beside `base/`. Only its
//! owner knows whether such a file holds data, so `doctor`, `audit` and `seal` name it.
//!
//! A directory to which a link of PostgreSQL's leads, in `pg_tblspc` or as `pg_wal`, is encrypted
//! by the name of the link, whatever its own is.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pgseal_storage::classify::{classify, Class};

use crate::scan::walk::{inode, places, Inode, LOGS};

/// How the names of a server's sockets and of their lock files begin.
const SOCKET: &[u8] = b".s.PGSQL.";

/// The names at the top of the data directory `data`; a directory's ends with a slash.
pub fn unlisted(data: &Path) -> io::Result<BTreeSet<String>> {
    let places = places(data);
    let name = |entry: DirEntry| unlisted_name(&entry, &places);
    let names = fs::read_dir(data)?.map(|entry| entry.map(name));
    Ok(names
        .collect::<io::Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect())
}

fn unlisted_name(entry: &DirEntry, places: &HashSet<Inode>) -> Option<String> {
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
    let is_named = is_unlisted && !leads_to_places(&entry.path(), places);
    is_named.then(|| format!("{}{slash}", name.to_string_lossy()))
}

/// Is this one of the `places`, or a directory that holds nothing else?
fn leads_to_places(path: &Path, places: &HashSet<Inode>) -> bool {
    if fs::metadata(path).is_ok_and(|metadata| places.contains(&inode(&metadata))) {
        return true;
    }
    let is_directory = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let entries = fs::read_dir(path).into_iter().flatten();
    let mut entries = entries.filter(|_| is_directory).peekable();
    let leads = |entry: io::Result<DirEntry>| {
        entry.is_ok_and(|entry| leads_to_places(&entry.path(), places))
    };
    entries.peek().is_some() && entries.all(leads)
}

/// The directories of logs, which are in clear and can hold rows, that are not empty. A
/// `log_directory` of another name is among the unlisted.
pub fn logs(data: &Path) -> BTreeSet<String> {
    let is_filled =
        |name: &&str| fs::read_dir(data.join(name)).is_ok_and(|mut all| all.next().is_some());
    let named = LOGS.into_iter().chain(["pg_upgrade_output.d"]);
    named
        .filter(is_filled)
        .map(|name| format!("{name}/"))
        .collect()
}

/// Joins names for a sentence: `certs/, server.key`.
pub fn listed(names: &BTreeSet<String>) -> String {
    names
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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

    #[test]
    fn logs_are_told_when_there_are_any() {
        let data = tempfile::tempdir().expect("a directory");
        for directory in ["log", "pg_log", "pg_upgrade_output.d/1/log"] {
            fs::create_dir_all(data.path().join(directory)).expect("it is new");
        }
        assert_eq!(listed(&logs(data.path())), "pg_upgrade_output.d/");
        fs::write(data.path().join("log/postgresql.log"), "x").expect("it is new");
        assert_eq!(listed(&logs(data.path())), "log/, pg_upgrade_output.d/");
    }

    #[test]
    fn what_postgresqls_links_lead_to_is_encrypted() {
        let data = tempfile::tempdir().expect("a directory");
        let at = |name: &str| data.path().join(name);
        for directory in [
            "pg_tblspc",
            "ts",
            "spaces/a",
            "mixed/a",
            "mixed/certs",
            "wal",
            "empty",
        ] {
            fs::create_dir_all(at(directory)).expect("it is new");
        }
        for (link, to) in [
            ("pg_tblspc/1", "ts"),
            ("pg_tblspc/2", "spaces/a"),
            ("pg_tblspc/3", "mixed/a"),
            ("pg_wal", "wal"),
            ("other", "ts"),
        ] {
            symlink(at(to), at(link)).expect("it is new");
        }
        let names = unlisted(data.path()).expect("it can be read");
        assert_eq!(listed(&names), "empty/, mixed/");
        fs::write(at("spaces/note"), "x").expect("it is new");
        let names = unlisted(data.path()).expect("it can be read");
        assert_eq!(listed(&names), "empty/, mixed/, spaces/");
    }
}
