//! pg_upgrade copies `pg_xact` and `pg_multixact` by running `cp -Rf "OLD" "NEW"`. A program that
//! is not ours would bring them over as they are stored: noise under the new cluster's key, which
//! no checksum covers, so the fate of every transaction would be random. So the copy
//! is made here, file by file through the cipher, whatever `cp` is on the machine.

use super::names::moving::{copy_file, Name};
use crate::{habits, report};
use libc::c_int;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Copies as the command asks, and returns what `system` returns for it.
pub fn copy(command: &[u8]) -> c_int {
    match copy_directory(command) {
        Ok(()) => 0,
        Err(error) => {
            let command = String::from_utf8_lossy(command);
            report::line(&format!("{command}: {error}"));
            EXIT_FAILURE
        }
    }
}

/// The status that `system` returns for a child that exits with 1.
const EXIT_FAILURE: c_int = 1 << 8;

fn copy_directory(command: &[u8]) -> io::Result<()> {
    let (old, new) = habits::copied_directories(command).ok_or(io::ErrorKind::Unsupported)?;
    let (old, new) = (path(old), path(new));
    let mode = old.metadata()?.permissions().mode();
    std::fs::DirBuilder::new().mode(mode & 0o7777).create(new)?;
    for entry in old.read_dir()? {
        let entry = entry?;
        let copy = new.join(entry.file_name());
        copy_file(
            &Name::of(&terminated(&entry.path())?),
            &Name::of(&terminated(&copy)?),
        )
        .map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
    }
    Ok(())
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn terminated(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}
