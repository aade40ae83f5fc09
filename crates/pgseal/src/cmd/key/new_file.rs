//! New files of a backup, which hold a key: complete or absent.
//!
//! A file has no name until it is whole and on the disk, so that a killed command leaves nothing
//! that holds a key. Where the file system knows no files without names, it is written as
//! `FILE.new` and renamed.
//!
//! Invariant: an existing file is replaced only with `--force`, and only by a whole one.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{AtFlags, OFlag, AT_FDCWD};
use nix::unistd::linkat;
use pgseal_keys::exit::{Code, Exit};
use zeroize::Zeroizing;

/// Why a file of a backup is not there.
#[derive(Debug, thiserror::Error)]
pub enum NewFileError {
    #[error("{0} exists: give another name, or --force to replace it")]
    Exists(PathBuf),
    #[error("{0} is in the data directory whose key it shall keep: give a path outside, best on another machine")]
    Inside(PathBuf),
    #[error("{0} cannot be written ({1}): check the owner, mode and free space of its directory")]
    Write(PathBuf, io::Error),
}

impl Exit for NewFileError {
    fn code(&self) -> Code {
        match self {
            Self::Exists(_) | Self::Inside(_) => Code::Usage,
            Self::Write(..) => Code::Io,
        }
    }
}

/// A file that is written but not there yet. Dropped before it is published, it leaves nothing.
pub struct NewFile {
    file: File,
    path: PathBuf,
    force: bool,
    /// the name under which it is written, where the file system demands one
    aside: Option<PathBuf>,
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(aside) = &self.aside {
            // After a rename it is gone.
            let _ = fs::remove_file(aside);
        }
    }
}

impl NewFile {
    /// Writes `bytes` to a file of mode 0600 that will be at `path`, outside the data directory.
    pub fn write(
        path: &Path,
        bytes: &[u8],
        force: bool,
        data: &Path,
    ) -> Result<Self, NewFileError> {
        let failed = |error| NewFileError::Write(path.to_owned(), error);
        let absolute = std::path::absolute(path).map_err(failed)?;
        let dir = directory(&absolute).canonicalize().map_err(failed)?;
        if dir.starts_with(data) {
            return Err(NewFileError::Inside(path.to_owned()));
        }
        if !force && absolute.symlink_metadata().is_ok() {
            return Err(NewFileError::Exists(path.to_owned()));
        }
        let mut new = Self::create(absolute, &dir, force).map_err(failed)?;
        let written = new.file.write_all(bytes);
        written.and_then(|()| new.file.sync_all()).map_err(failed)?;
        Ok(new)
    }

    fn create(path: PathBuf, dir: &Path, force: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).mode(0o600);
        let nameless = { options.clone() }
            .custom_flags(OFlag::O_TMPFILE.bits())
            .open(dir);
        let (file, aside) = match nameless {
            Ok(file) => (file, None),
            Err(error) if is_unknown(&error) => {
                let aside = beside(&path);
                remove(&aside)?;
                (options.create_new(true).open(&aside)?, Some(aside))
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            file,
            path,
            force,
            aside,
        })
    }

    /// Returns the path that the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what was written.
    pub fn read(&mut self) -> Result<Zeroizing<Vec<u8>>, NewFileError> {
        let file = &mut self.file;
        let size = file.metadata().map(|metadata| metadata.len());
        let size = size.map(|size| usize::try_from(size).unwrap_or_default());
        // Never reallocated: a growing buffer would leave copies of a key behind.
        let read = size.and_then(|size| {
            let mut bytes = Zeroizing::new(Vec::with_capacity(size + 1));
            file.rewind()?;
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        });
        read.map_err(|error| NewFileError::Write(self.path.clone(), error))
    }

    /// Puts the file in its place, durably.
    pub fn publish(self) -> Result<(), NewFileError> {
        let placed = self.place();
        let placed = placed.and_then(|()| File::open(directory(&self.path))?.sync_all());
        placed.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => NewFileError::Exists(self.path.clone()),
            _ => NewFileError::Write(self.path.clone(), error),
        })
    }

    fn place(&self) -> io::Result<()> {
        match (&self.aside, self.force) {
            (None, false) => self.link(&self.path),
            (None, true) => {
                let aside = beside(&self.path);
                remove(&aside)?;
                self.link(&aside)?;
                fs::rename(&aside, &self.path)
            }
            (Some(aside), true) => fs::rename(aside, &self.path),
            (Some(_), false) if self.path.symlink_metadata().is_ok() => {
                Err(ErrorKind::AlreadyExists.into())
            }
            (Some(aside), false) => fs::rename(aside, &self.path),
        }
    }

    /// Gives the file without a name this one, unless another file has it.
    fn link(&self, path: &Path) -> io::Result<()> {
        let own = PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        Ok(linkat(
            AT_FDCWD,
            &own,
            AT_FDCWD,
            path,
            AtFlags::AT_SYMLINK_FOLLOW,
        )?)
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Returns the name under which a file is written or named first.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    PathBuf::from(name)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Does the file system not know files without names? Kernels say so in one of these ways.
fn is_unknown(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let known = [
        Errno::EOPNOTSUPP,
        Errno::EISDIR,
        Errno::EINVAL,
        Errno::ENOENT,
    ];
    let code = error.raw_os_error();
    known.iter().any(|errno| Some(*errno as i32) == code)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn names(dir: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_there_once_it_is_published() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("copy");
        let data = Path::new("/nonexistent");
        let mut new = NewFile::write(&path, b"key", false, data).unwrap();
        assert_eq!(&new.read().unwrap()[..], b"key");
        assert!(!path.exists());
        new.publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"key");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(NewFile::write(&dir.path().join("other"), b"key", false, data).unwrap());
        assert_eq!(names(dir.path()), ["copy"]);
    }

    #[test]
    fn an_existing_file_is_replaced_by_force_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("copy");
        let data = Path::new("/nonexistent");
        let raced = NewFile::write(&path, b"second", false, data).unwrap();
        fs::write(&path, "first").unwrap();
        assert!(matches!(raced.publish(), Err(NewFileError::Exists(_))));
        let again = NewFile::write(&path, b"second", false, data);
        assert!(matches!(again, Err(NewFileError::Exists(_))));
        assert_eq!(fs::read(&path).unwrap(), b"first");
        let forced = NewFile::write(&path, b"second", true, data).unwrap();
        forced.publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(dir.path()), ["copy"]);
    }

    #[test]
    fn a_backup_lies_outside_the_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().canonicalize().unwrap();
        let inside = NewFile::write(&dir.path().join("copy"), b"key", false, &data);
        assert!(matches!(inside, Err(NewFileError::Inside(_))));
    }
}
