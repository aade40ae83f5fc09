//! Files that a server writes into directories of its cluster that PostgreSQL does not have.
//!
//! Such a file is stored as it is, because editors and people share it (docs/format/files.md). An
//! extension that kept data there would leave it in clear without a word, so a server is refused.
//! It writes only what a setting names: its log, its external pid file, and a socket's lock.

use super::names::moving::Name;
use crate::{place, programs, report, server};
use libc::c_int;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The flags with which a server opens this file of no class. None: it must not open it, and one
/// line says so. Recovery opens every file that is there for reading and writing, and only syncs it
/// (SyncDataDirectory): so a file is opened for reading.
pub fn allowed(directory: c_int, path: &CStr, flags: c_int) -> Option<c_int> {
    let changes = flags & (libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND) != 0;
    match flags & libc::O_ACCMODE {
        libc::O_RDONLY if !changes => Some(flags),
        _ if is_free(&Name::at(directory, path)) => Some(flags),
        libc::O_RDWR if !changes => Some(flags & !libc::O_ACCMODE | libc::O_RDONLY),
        _ => {
            report_refused(path);
            None
        }
    }
}

/// Must a server not give a file this name? Then one line says so.
pub fn refuses_name(name: &Name) -> bool {
    let refused = !is_free(name);
    if refused {
        report_refused(name.given);
    }
    refused
}

/// May this process write the file? The archiver sees what is stored, and writes that.
fn is_free(name: &Name) -> bool {
    !programs::is_server()
        || !place::is_foreign(name.directory, name.path)
        || is_set(name.given)
        || server::is_archiver()
}

fn report_refused(path: &CStr) {
    report::line(&format!(
        "{} would be in clear, in a directory that PostgreSQL does not have: keep it outside the data directory",
        report::shown(path)
    ));
}

/// Settings that name a directory of logs: PostgreSQL's, and that of pgauditlogtofile.
const LOG_DIRECTORIES: [&CStr; 2] = [c"log_directory", c"pgaudit.log_directory"];

/// Does a setting of this server name the file, or a directory above it? `log_filename` may have
/// directories in it.
fn is_set(path: &CStr) -> bool {
    let path = without_dot(Path::new(OsStr::from_bytes(path.to_bytes())));
    let mut logs = LOG_DIRECTORIES.into_iter().filter_map(named_by);
    is_lock_of_a_socket(path)
        || logs.any(|logs| path.starts_with(logs))
        || named_by(c"external_pid_file").is_some_and(|file| path == file)
}

/// `./log/a` is `log/a`: recovery spells names so.
fn without_dot(path: &Path) -> &Path {
    path.strip_prefix(".").unwrap_or(path)
}

/// A server opens its files by the names that its settings give, from its data directory.
fn named_by(setting: &CStr) -> Option<&'static Path> {
    let value = server::setting(setting)?.to_bytes();
    (!value.is_empty()).then(|| without_dot(Path::new(OsStr::from_bytes(value))))
}

/// It holds process numbers and paths.
fn is_lock_of_a_socket(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    name.starts_with(b".s.PGSQL.") && name.ends_with(b".lock")
}
