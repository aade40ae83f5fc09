//! pg_upgrade copies `pg_xact` and `pg_multixact` by running `cp -Rf "OLD" "NEW"`. A program that
//! is not ours would bring them over as they are stored: noise under the new cluster's key, which
//! no checksum covers, so the fate of every transaction would be random. So the copy
//! is made here, file by file through the cipher, whatever `cp` is on the machine.

use super::names::moving::{copy_file, Name};
use crate::report;
use libc::c_int;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Is it a `cp`? pg_upgrade runs no other.
pub fn is_copy(command: &[u8]) -> bool {
    command.starts_with(b"cp ")
}

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
    let (old, new) = operands(command).ok_or(io::ErrorKind::Unsupported)?;
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

/// `cp -Rf "OLD" "NEW" >> "LOG" 2>&1`: the form of pg_upgrade's exec_prog, which escapes nothing.
fn operands(command: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = command.strip_prefix(b"cp -Rf \"")?;
    let (paths, _log) = split_once(rest, b"\" >> \"")?;
    split_once(paths, b"\" \"")
}

fn split_once<'a>(text: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = text
        .windows(separator.len())
        .position(|part| part == separator)?;
    Some((&text[..at], &text[at + separator.len()..]))
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn terminated(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_paths_of_pg_upgrades_command() {
        let command = b"cp -Rf \"/old data/pg_xact\" \"/new/pg_xact\" >> \"/new/log\" 2>&1";
        let paths: (&[u8], &[u8]) = (b"/old data/pg_xact", b"/new/pg_xact");
        assert_eq!(operands(command), Some(paths));
    }

    #[test]
    fn nothing_else() {
        for command in [
            "cp -a \"a\" \"b\" >> \"c\"",
            "cp -Rf \"a\" \"b\"",
            "cp -Rf a b >> c",
        ] {
            assert_eq!(operands(command.as_bytes()), None, "{command}");
        }
    }
}
