//! Key material files: those that open the cluster's key, or say how. They are a passphrase's file,
//! one that holds the key itself, and those of `/etc/pgseal` about the cluster. The server's user
//! can read them, or nothing could start the server; so a role that may read files by SQL could
//! read them and have the key. The server itself never needs them: `pgseal` reads them for it. So
//! the server opens them for no role.
//!
//! The record of keys names them. A file that was opened is compared with what each name leads to
//! just then: a file is reached by many paths, and a passphrase that is changed is another file. So
//! the server gives none of them, and nothing on the path to one, another name either.

use crate::disk::{lstat, stat};
use crate::process::PROCESS;
use crate::real::{errno, set_errno};
use libc::c_int;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Makes the server withhold this file from now on. Called by one thread at a time.
pub fn withhold(path: &[u8]) {
    if PROCESS.is_server() {
        PROCESS.server.key_files.push(path.to_vec());
    }
}

/// Is this descriptor one of such a file? Devices and pipes that such a name leads to are not: they
/// are another process's, whatever this one has there.
pub fn has(fd: c_int) -> bool {
    let mut names = names().peekable();
    if names.peek().is_none() {
        return false;
    }
    let Ok(opened) = stat(fd) else { return false };
    let kept = errno();
    let is_it = opened.st_mode & libc::S_IFMT == libc::S_IFREG
        && names.any(|path| {
            let named = fs::metadata(OsStr::from_bytes(path));
            named.is_ok_and(|named| (named.dev(), named.ino()) == (opened.st_dev, opened.st_ino))
        });
    set_errno(kept);
    is_it
}

/// Would a rename of this name, or to it, have one of them come under another name, by which it is
/// not known here? That goes for directories on the way to it, too.
pub fn lie_at(directory: c_int, path: &CStr) -> bool {
    any_at(directory, path, leads_by)
}

/// Is this name one of theirs, or a link that is one?
pub fn are_named(directory: c_int, path: &CStr) -> bool {
    any_at(directory, path, is_at)
}

/// Does what is at this name pass the test with one of them?
fn any_at(directory: c_int, path: &CStr, test: fn(&Path, &libc::stat) -> bool) -> bool {
    let mut names = names().peekable();
    if names.peek().is_none() {
        return false;
    }
    let kept = errno();
    let named = lstat(directory, path);
    let passes = |file| named.as_ref().is_ok_and(|named| test(file, named));
    let any = names.any(|file| passes(Path::new(OsStr::from_bytes(file))));
    set_errno(kept);
    any
}

/// Is this the file, a directory on the way to it, or a link that is one?
fn leads_by(file: &Path, named: &libc::stat) -> bool {
    file.ancestors().any(|part| is_at(part, named))
}

fn is_at(part: &Path, named: &libc::stat) -> bool {
    [fs::symlink_metadata(part), fs::metadata(part)]
        .into_iter()
        .flatten()
        .any(|part| (part.dev(), part.ino()) == (named.st_dev, named.st_ino))
}

fn names() -> impl Iterator<Item = &'static [u8]> {
    PROCESS.server.key_files.iter().map(Vec::as_slice)
}
