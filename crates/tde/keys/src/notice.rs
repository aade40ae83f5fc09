//! The notice for people in a sealed data directory, `SEALED.README`.
//!
//! PostgreSQL's own programs take a sealed cluster for a damaged one, and `pg_resetwal` "repairs"
//! it: it writes a new `pg_control` in clear, and removes the WAL. So the file is in the data
//! directory itself, where an administrator looks. It appears with the key directory and goes with
//! it; programs in which the library acts see neither.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use pgseal_contract::file;

use crate::keybin::write_durably;

const TEXT: &str = "\
This data directory is sealed: pgseal encrypts its files. The directory
pg_encryption beside this file holds the key, wrapped. Keep a copy of it
elsewhere: if you lose the key, you lose the data.

PostgreSQL's own programs, without pgseal, report that pg_control has an
incorrect checksum. The file is not damaged.

  * Do not run pg_resetwal. It would write a new pg_control in clear and remove
    the WAL, and it repairs nothing.
  * Do not remove pg_encryption, and do not put files of another cluster here.
  * Start the server as it was set up, or by the wrappers that `pgseal bindir`
    makes. If it does not start, these commands say why; they change nothing:

        pgseal status --check -D DIRECTORY
        pgseal doctor -D DIRECTORY

`pgseal unseal -D DIRECTORY` decrypts the directory, and removes this file.
";

/// Returns the path of the notice in the data directory `data`.
pub fn path(data: &Path) -> PathBuf {
    data.join(file::NOTICE.as_str())
}

/// Puts the notice into a data directory, unless it is there already.
pub fn write(data: &Path) -> io::Result<()> {
    let path = path(data);
    match fs::read(&path) {
        Ok(text) if text == TEXT.as_bytes() => Ok(()),
        _ => write_durably(&path, TEXT.as_bytes()),
    }
}

/// Removes the notice; there may be none.
pub fn remove(data: &Path) -> io::Result<()> {
    match fs::remove_file(path(data)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};

    #[test]
    fn it_has_the_rights_of_the_directory_and_fits_a_terminal() {
        let data = tempfile::tempdir().expect("a directory");
        for (directory, file) in [(0o700, 0o600), (0o750, 0o640)] {
            let mode = fs::Permissions::from_mode(directory);
            fs::set_permissions(data.path(), mode).expect("a mode");
            write(data.path()).expect("a file");
            let mode = fs::metadata(path(data.path()))
                .expect("it is there")
                .permissions();
            assert_eq!(mode.mode() & 0o777, file);
            remove(data.path()).expect("it is removed");
            remove(data.path()).expect("it is gone");
        }
        assert!(TEXT.lines().all(|line| line.len() <= 80));
    }

    /// A file that is right is left alone, because a backup's manifest may list it.
    #[test]
    fn what_is_there_already_is_not_written_again() {
        let data = tempfile::tempdir().expect("a directory");
        let path = path(data.path());
        write(data.path()).expect("a file");
        // It keeps its number while it has this name too.
        fs::hard_link(&path, data.path().join("kept")).expect("a link");
        let inode = || fs::metadata(&path).expect("it is there").ino();
        let first = inode();
        write(data.path()).expect("it is there already");
        assert_eq!(inode(), first);
        fs::write(&path, "other").expect("a file");
        write(data.path()).expect("a file");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), TEXT);
        fs::remove_file(&path).expect("a file");
        fs::create_dir(&path).expect("a directory");
        assert!(remove(data.path()).is_err(), "it is not ours");
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let data = tempfile::tempdir().expect("a directory");
        let other = data.path().join("other");
        fs::write(&other, "kept").expect("a file");
        symlink(&other, path(data.path())).expect("a link");
        write(data.path()).expect("a file");
        assert_eq!(fs::read_to_string(&other).expect("it is there"), "kept");
        assert!(!path(data.path()).is_symlink());
    }
}
