//! A data directory as a conversion sees it: names below it become calls on real files.
//!
//! Links are followed where PostgreSQL has them, because a name leads through them; the last part
//! of a name is never a link.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{fchown, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno as Name;
use nix::fcntl::{posix_fadvise, OFlag, PosixFadviseAdvice};
use pgseal_convert::Files;
use pgseal_storage::{Disk, Errno, Lock};
use rustix::fs::{fgetxattr, flistxattr, fsetxattr, XattrFlags};

/// A data directory.
pub struct Tree(pub PathBuf);

impl Tree {
    /// Where the file of this name is.
    pub fn path(&self, name: &[u8]) -> PathBuf {
        self.0.join(OsStr::from_bytes(name))
    }
}

/// A file that no other process has open: it needs no locks.
pub struct Open(File);

impl Files for Tree {
    type File = Open;

    fn open(&self, name: &[u8]) -> Result<Open, Errno> {
        let mut options = OpenOptions::new();
        opened(options.read(true), &self.path(name))
    }

    fn create(&self, name: &[u8], like: &Open) -> Result<Open, Errno> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true);
        let file = opened(options.mode(0o600), &self.path(name))?;
        take_after(&file.0, &like.0).map_err(|error| errno(&error))?;
        Ok(file)
    }

    fn is_sparse(&self, file: &Open) -> Result<bool, Errno> {
        const UNIT_OF_BLOCKS: u64 = 512;
        let metadata = file.0.metadata().map_err(|error| errno(&error))?;
        Ok(metadata.blocks() * UNIT_OF_BLOCKS < metadata.len())
    }

    fn begin_sync(&self, file: &Open) {
        // Linux begins to write what is dirty before it drops what is not.
        let _ = posix_fadvise(&file.0, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }

    fn sync(&self, file: &Open) -> Result<(), Errno> {
        file.0.sync_all().map_err(|error| errno(&error))
    }

    fn exists(&self, name: &[u8]) -> Result<bool, Errno> {
        match fs::symlink_metadata(self.path(name)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(errno(&error)),
        }
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        fs::rename(self.path(from), self.path(to)).map_err(|error| errno(&error))
    }

    fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        fs::remove_file(self.path(name)).map_err(|error| errno(&error))
    }

    fn sync_directory(&self, name: &[u8]) -> Result<(), Errno> {
        sync_directory(&self.path(name)).map_err(|error| errno(&error))
    }
}

/// Returns when the names in a directory are on the medium.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn opened(options: &mut OpenOptions, path: &Path) -> Result<Open, Errno> {
    let options = options.custom_flags(OFlag::O_NOFOLLOW.bits());
    options.open(path).map(Open).map_err(|error| errno(&error))
}

/// Group, mode, access list and attributes; the owner is who runs this.
fn take_after(file: &File, like: &File) -> io::Result<()> {
    let (own, wanted) = (file.metadata()?, like.metadata()?);
    if own.gid() != wanted.gid() {
        fchown(file, None, Some(wanted.gid()))?;
    }
    file.set_permissions(Permissions::from_mode(wanted.mode() & 0o7777))?;
    // The most that the kernel has of names, and of one value (XATTR_LIST_MAX, XATTR_SIZE_MAX).
    let (mut names, mut value) = (vec![0; 65536], vec![0; 65536]);
    let names = match flistxattr(like, &mut names) {
        Err(error) if error.raw_os_error() == Name::EOPNOTSUPP as i32 => return Ok(()),
        len => &names[..len?],
    };
    for name in names.split(|byte| *byte == 0).filter(|name| is_kept(name)) {
        let len = match fgetxattr(like, name, &mut value) {
            Err(error) if error.raw_os_error() == Name::ENODATA as i32 => continue,
            len => len?,
        };
        fsetxattr(file, name, &value[..len], XattrFlags::empty())?;
    }
    Ok(())
}

/// Others are the kernel's to give, to a new file as to an old one.
fn is_kept(name: &[u8]) -> bool {
    name == b"system.posix_acl_access" || name.starts_with(b"user.")
}

impl Disk for Open {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        uninterrupted(|| self.0.read_at(buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize, Errno> {
        uninterrupted(|| self.0.write_at(buf, offset))
    }

    fn size(&self) -> Result<u64, Errno> {
        let metadata = self.0.metadata().map_err(|error| errno(&error))?;
        Ok(metadata.len())
    }

    fn set_size(&self, size: u64) -> Result<(), Errno> {
        uninterrupted(|| self.0.set_len(size))
    }

    /// Nothing that a conversion writes reserves space.
    fn allocate(&self, _: u64, _: u64) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn lock(&self, _: Lock) -> Result<(), Errno> {
        Ok(())
    }
}

fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map_err(|error| errno(&error)),
        }
    }
}

pub fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno)
}
