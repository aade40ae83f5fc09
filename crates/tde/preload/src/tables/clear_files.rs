//! The files of a sealed cluster that are stored in clear, each with the reason.

use super::rows::Rows;
use pgseal_storage::classify::{classify, Class, Classified};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Directories deeper than PostgreSQL's own are not looked into.
const DEEPEST: usize = 12;

/// Adds a row for each clear file below the data directory: its path, its size in bytes, why.
/// A file that goes away meanwhile is left out.
pub fn list(root: &Path, rows: &mut Rows) {
    walk(root, &mut Vec::new(), rows);
}

fn walk(root: &Path, below: &mut Vec<u8>, rows: &mut Rows) {
    let directory = root.join(OsStr::from_bytes(below));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let len = below.len();
        if !below.is_empty() {
            below.push(b'/');
        }
        below.extend_from_slice(entry.file_name().as_bytes());
        let is_deep = below.iter().filter(|&&byte| byte == b'/').count() >= DEEPEST;
        let found = match leads_to_ours(below) {
            true => fs::metadata(entry.path()),
            false => entry.metadata(),
        };
        match found {
            Ok(found) if found.is_dir() && !is_deep => walk(root, below, rows),
            Ok(found) if found.is_file() => row(below, found.len(), rows),
            _ => {}
        }
        below.truncate(len);
    }
}

/// Is a link of this name PostgreSQL's own: a tablespace, or a WAL directory elsewhere? Others may
/// lead anywhere, and are not followed.
fn leads_to_ours(path: &[u8]) -> bool {
    let tablespace = path.strip_prefix(b"pg_tblspc/");
    path == b"pg_wal" || tablespace.is_some_and(|oid| !oid.contains(&b'/'))
}

fn row(path: &[u8], size: u64, rows: &mut Rows) {
    let Some(reason) = reason(path) else { return };
    let path = String::from_utf8_lossy(path);
    rows.text(path.as_bytes()).number(size).text(reason);
}

/// Returns why the file at this path is stored in clear; none if it is not.
fn reason(path: &[u8]) -> Option<&'static str> {
    match classify(path) {
        Classified {
            class: Class::Clear,
            row: Some(row),
        } => Some(row.holds),
        Classified {
            class: Class::Clear,
            row: None,
        } => Some("not a file of PostgreSQL's: stored as it is"),
        Classified {
            class: Class::Refused(advice),
            ..
        } => Some(advice),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_links_are_not_followed() {
        for (path, ours) in [
            (&b"pg_wal"[..], true),
            (b"pg_tblspc/16384", true),
            (b"pg_tblspc/16384/PG_15_202209061", false),
            (b"mine", false),
            (b"base", false),
        ] {
            assert_eq!(leads_to_ours(path), ours, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn only_clear_files_have_a_reason() {
        assert_eq!(reason(b"base/5/16384"), None);
        assert_eq!(reason(b"pg_wal/000000010000000000000001"), None);
        assert_eq!(reason(b"pg_encryption/key.bin"), None);
        assert_eq!(reason(b"postgresql.conf"), Some("configuration"));
        assert!(reason(b"notes/list.txt").is_some());
        assert!(reason(b"pg_dynshmem/mmap.1").is_some_and(|why| why.contains("posix")));
    }
}
