//! What a server writes into directories of its cluster that PostgreSQL does not have.
//!
//! Such a file is stored as it is, because editors and people share it (docs/format/files.md). An
//! extension that kept data there would leave it in clear without a word, so a server is refused.
//! It writes only what a setting names: its log, its external pid file, and a socket's lock.

use crate::{place, programs, report, server};
use libc::c_int;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Must a server not open this file of no class with these flags? Then one line says so.
pub fn refuses(directory: c_int, path: &CStr, flags: c_int) -> bool {
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_CREAT != 0;
    if !writes || !programs::is_server() || !place::is_foreign(directory, path) {
        return false;
    }
    // The archiver sees what is stored, and writes that.
    if is_set(path) || server::is_archiver() {
        return false;
    }
    report::line(&format!(
        "{} would be in clear, in a directory that PostgreSQL does not have: keep it outside the data directory",
        report::shown(path)
    ));
    true
}

/// Does a setting of this server name the file, or its directory?
fn is_set(path: &CStr) -> bool {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    is_lock_of_a_socket(path)
        || named_by(c"log_directory").is_some_and(|logs| path.parent() == Some(logs))
        || named_by(c"external_pid_file").is_some_and(|file| path == file)
}

/// A server opens its files by the names that its settings give, from its data directory.
fn named_by(setting: &CStr) -> Option<&'static Path> {
    let value = server::setting(setting)?.to_bytes();
    (!value.is_empty()).then(|| Path::new(OsStr::from_bytes(value)))
}

/// It holds process numbers and paths.
fn is_lock_of_a_socket(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    name.starts_with(b".s.PGSQL.") && name.ends_with(b".lock")
}
