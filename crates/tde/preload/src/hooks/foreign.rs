//! Files that a server writes into directories of its cluster that PostgreSQL does not have.
//!
//! Such a file is stored as it is, because editors and people share it (docs/format/files.md). An
//! extension that kept data there would leave it in clear without a word, so a server is refused.
//! It writes only what a setting names: its log, its external pid file, and a socket's lock.

use super::names::moving::Name;
use crate::policy::{self, Foreign};
use crate::process::PROCESS;
use crate::{habits, place, report, server};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl Foreign for Name<'_> {
    fn is_foreign(&self) -> bool {
        place::is_foreign(self.directory, self.path)
    }

    fn is_set(&self) -> bool {
        is_set(self.given)
    }

    fn is_archiver(&self) -> bool {
        server::is_archiver()
    }
}

/// Must a server not give a file this name? Then one line says so.
pub fn refuses_name(name: &Name) -> bool {
    let refused = !policy::may_write(PROCESS.role(), name);
    if refused {
        report_refused(name.given);
    }
    refused
}

/// Says that a server may not write this file.
pub fn report_refused(path: &CStr) {
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
    habits::is_socket_lock(path.file_name().unwrap_or_default().as_bytes())
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
