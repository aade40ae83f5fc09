//! The key file on disk: reading it, locking it, and writing it so that a crash leaves the old
//! file or the new one.
//!
//! `pg_encryption/pgseal.toml` keeps a copy of the bound header for one case: a `key.bin` that is
//! one raw wrapping, as other products' rotation recipes leave it. The binding inside the payload
//! vouches for that copy.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{fchown, DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use pgseal_contract::file;
use pgseal_format::{Header, KeyFileError, KeyImage, BOUND_HEADER, MAX_FILE};
use zeroize::Zeroizing;

use crate::exit::{Code, Exit};
use crate::notice;
use crate::settings::Settings;
use crate::writer::Source;
use crate::Store;

/// The directory of a sealed cluster's key file, below its data directory.
pub const DIR: &str = file::KEY_DIRECTORY.as_str();
/// The key file in it.
pub const NAME: &str = file::KEY_FILE.as_str();
/// The name under which the next key file is written before it takes its place.
pub const ASIDE: &str = file::NEW_KEY_FILE.as_str();
/// The name of the header beside the key file.
pub const SETTINGS: &str = file::KEY_SETTINGS.as_str();

/// Why a key file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyBinError {
    #[error("{0} is missing: restore it from a copy")]
    Missing(PathBuf),
    #[error("{0} cannot be read ({1}): check its owner and mode")]
    Read(PathBuf, io::Error),
    #[error("{0} cannot be written ({1}): check the owner, mode and free space of its directory")]
    Write(PathBuf, io::Error),
    #[error("{0} is left over from a change of {NAME}, may hold the key, and cannot be removed ({1}): remove it")]
    Leftover(PathBuf, io::Error),
    #[error("{0} {1}")]
    Format(PathBuf, KeyFileError),
    #[error("{0} holds a raw wrapped key, and {1} beside it does not say the cluster's header: restore both from a copy")]
    NoHeader(PathBuf, &'static str),
    #[error("another pgseal is changing {0}: wait until it has finished")]
    Busy(PathBuf),
}

impl Exit for KeyBinError {
    fn code(&self) -> Code {
        match self {
            Self::Read(..) | Self::Write(..) | Self::Leftover(..) => Code::Io,
            Self::Missing(_) | Self::Format(..) | Self::NoHeader(..) => Code::KeyFile,
            Self::Busy(_) => Code::Busy,
        }
    }
}

/// The reason why `pgseal.toml` is of no use. The key opens all the same.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}, so a key.bin that is rotated by hand would not open: `pgseal key rotate` or `pgseal key wrap` writes it anew")]
pub struct CopyError(&'static str);

/// The setting in `pgseal.toml`: the bound header in hexadecimal.
const HEADER: &str = "header";

/// The directory of a cluster's key file.
pub struct KeyDir {
    path: PathBuf,
    key_bin: PathBuf,
}

impl KeyDir {
    /// Returns the key directory of the cluster at `root`.
    pub fn of(root: &Path) -> Self {
        Self::around(&root.join(DIR).join(NAME))
    }

    /// Returns the key directory of the key file at `path`.
    pub fn around(path: &Path) -> Self {
        let dir = path.parent().unwrap_or(Path::new(""));
        Self {
            path: dir.to_owned(),
            key_bin: path.to_owned(),
        }
    }

    /// Returns the key file's path.
    pub fn key_bin(&self) -> PathBuf {
        self.key_bin.clone()
    }

    /// Reads the key file.
    pub fn read(&self) -> Result<KeyImage, KeyBinError> {
        self.open().map(|(image, _)| image)
    }

    /// Reads the key file, and the user who wrote it.
    pub fn open(&self) -> Result<(KeyImage, Source), KeyBinError> {
        let (bytes, source) = read(&self.key_bin)?;
        let image = KeyImage::decode(&bytes);
        let image = image.map_err(|error| KeyBinError::Format(self.key_bin(), error))?;
        Ok((image, source))
    }

    /// Reads the bytes of the key file, whatever they are.
    pub fn bytes(&self) -> Result<Zeroizing<Vec<u8>>, KeyBinError> {
        read(&self.key_bin).map(|(bytes, _)| bytes)
    }

    /// Returns the header that a raw `key.bin` lacks.
    pub fn header(&self) -> Result<Header, KeyBinError> {
        let [beside, own] = [SETTINGS.to_owned(), self.settings_of_the_same_end()]
            .map(|name| fs::read_to_string(self.path.join(name)).ok());
        own.or(beside)
            .as_deref()
            .and_then(|text| Settings::parse(text).ok()?.take(HEADER).ok()?)
            .and_then(|header| unhex(&header))
            .and_then(|bytes| Header::from_bound(&bytes))
            .ok_or_else(|| KeyBinError::NoHeader(self.key_bin(), SETTINGS))
    }

    /// Checks that `pgseal.toml` has `header`, that of a key file which is not raw. The copy is
    /// read only once `key.bin` is made raw, and then it is the only one.
    pub fn check_copy(&self, header: &Header) -> Result<(), CopyError> {
        match self.header() {
            Ok(copy) if copy == *header => Ok(()),
            Ok(_) => Err(CopyError("says another header than key.bin")),
            Err(_) if !self.path.join(SETTINGS).exists() => Err(CopyError("is missing")),
            Err(_) => Err(CopyError("is damaged or cannot be read")),
        }
    }

    /// Returns the name of the settings for this key file. One that was kept under another name,
    /// `key.bin.<key id>`, has its own, which all files kept of that key share.
    fn settings_of_the_same_end(&self) -> String {
        let name = self.key_bin.file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        let name = kept_name(&name).unwrap_or(&name);
        format!("{SETTINGS}{}", name.strip_prefix(NAME).unwrap_or_default())
    }

    /// Makes the directory for a new cluster, with `image` and `header` in it.
    pub fn create(&self, image: &[u8], header: &Header) -> Result<(), KeyBinError> {
        let failed = |error| KeyBinError::Write(self.key_bin(), error);
        let data = self.path.parent().unwrap_or(Path::new("/"));
        self.make_directory().map_err(failed)?;
        let text = settings(header);
        write_durably(&self.path.join(SETTINGS), text.as_bytes()).map_err(failed)?;
        notice::write(data).map_err(|error| KeyBinError::Write(notice::path(data), error))?;
        let mut store = KeyStore { dir: self };
        store.write_aside(image)?;
        store.publish()?;
        File::open(data)
            .and_then(|dir| dir.sync_all())
            .map_err(failed)
    }

    /// Makes the directory of a cluster that has lost it.
    pub fn make(&self) -> Result<(), KeyBinError> {
        if self.path.is_dir() {
            return Ok(());
        }
        let data = self.path.parent().unwrap_or(Path::new("/"));
        self.make_directory()
            .and_then(|()| File::open(data)?.sync_all())
            .map_err(|error| KeyBinError::Write(self.key_bin(), error))
    }

    /// Group access and owner are those of the data directory.
    fn make_directory(&self) -> io::Result<()> {
        let data = self.path.parent().unwrap_or(Path::new("/"));
        let mode = fs::metadata(data)?.permissions().mode() & 0o750;
        DirBuilder::new().mode(mode).create(&self.path)?;
        give_as(&File::open(&self.path)?, data)?;
        set_mode(&self.path, mode)
    }

    /// Returns the path of what a killed change left beside the key file: a wrapping that was not
    /// checked.
    pub fn leftover(&self) -> Option<PathBuf> {
        let path = self.path.join(ASIDE);
        path.symlink_metadata().is_ok().then_some(path)
    }

    /// Keeps other processes from changing the key file, and removes what a killed change left.
    pub fn lock(&self) -> Result<Locked<'_>, KeyBinError> {
        let mut locked = self.lock_as_it_is()?;
        locked.store.discard()?;
        Ok(locked)
    }

    /// Keeps other processes from changing the key file, and leaves everything as it is.
    pub fn lock_as_it_is(&self) -> Result<Locked<'_>, KeyBinError> {
        let dir =
            File::open(&self.path).map_err(|error| KeyBinError::Read(self.path.clone(), error))?;
        match Flock::lock(dir, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Locked {
                store: KeyStore { dir: self },
                _lock: lock,
            }),
            Err((_, Errno::EWOULDBLOCK)) => Err(KeyBinError::Busy(self.key_bin())),
            Err((_, errno)) => Err(KeyBinError::Read(self.path.clone(), errno.into())),
        }
    }
}

/// The right to change a key file.
pub struct Locked<'a> {
    pub store: KeyStore<'a>,
    _lock: Flock<File>,
}

/// The store that rotation writes to.
pub struct KeyStore<'a> {
    dir: &'a KeyDir,
}

impl KeyStore<'_> {
    fn failed(&self, error: io::Error) -> KeyBinError {
        KeyBinError::Write(self.dir.key_bin(), error)
    }

    /// Writes the copy of the header anew if it differs from `header`, which has been proved.
    pub fn restore_copy(&mut self, header: &Header) -> Result<(), KeyBinError> {
        if self.dir.check_copy(header).is_ok() {
            return Ok(());
        }
        let path = self.dir.path.join(SETTINGS);
        write_durably(&path, settings(header).as_bytes())
            .and_then(|()| File::open(&self.dir.path)?.sync_all())
            .map_err(|error| KeyBinError::Write(path, error))
    }
}

impl Store for KeyStore<'_> {
    type Error = KeyBinError;

    fn write_aside(&mut self, bytes: &[u8]) -> Result<(), KeyBinError> {
        write_durably(&self.dir.path.join(ASIDE), bytes).map_err(|error| self.failed(error))
    }

    fn read_aside(&mut self) -> Result<Vec<u8>, KeyBinError> {
        read(&self.dir.path.join(ASIDE)).map(|(bytes, _)| bytes.to_vec())
    }

    fn publish(&mut self) -> Result<(), KeyBinError> {
        fs::rename(self.dir.path.join(ASIDE), self.dir.key_bin())
            .and_then(|()| File::open(&self.dir.path)?.sync_all())
            .map_err(|error| self.failed(error))
    }

    fn discard(&mut self) -> Result<(), KeyBinError> {
        let aside = self.dir.path.join(ASIDE);
        let removed = match fs::remove_file(&aside) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed,
        };
        removed
            .and_then(|()| File::open(&self.dir.path)?.sync_all())
            .map_err(|error| KeyBinError::Leftover(aside, error))
    }
}

/// Returns the name of a file that was kept when another key came, `key.bin.<key id>`, without the
/// number that further files of that key have.
pub fn kept_name(name: &str) -> Option<&str> {
    const ID: usize = 32;
    [NAME, SETTINGS].iter().find_map(|file| {
        let end = name.strip_prefix(file)?.strip_prefix('.')?;
        let (id, number) = end.split_at_checked(ID)?;
        let is_id = id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_number = number.is_empty() || number.strip_prefix('.')?.parse::<u32>().is_ok();
        (is_id && is_number).then(|| &name[..name.len() - number.len()])
    })
}

/// Reads the bytes of a key file. One byte more than the largest file is enough to refuse it.
fn read(path: &Path) -> Result<(Zeroizing<Vec<u8>>, Source), KeyBinError> {
    let mut bytes = Zeroizing::new(Vec::new());
    let limit = u64::try_from(MAX_FILE).map_or(u64::MAX, |limit| limit + 1);
    let read = File::open(path).and_then(|file| {
        let source = Source::of(path, &file)?;
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(source)
    });
    match read {
        Ok(source) => Ok((bytes, source)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(KeyBinError::Missing(path.to_owned()))
        }
        Err(error) => Err(KeyBinError::Read(path.to_owned(), error)),
    }
}

/// Returns the text of `pgseal.toml`.
pub fn settings(header: &Header) -> String {
    let bound = hex(&header.bound());
    format!("# Written with the key; used only if key.bin is one raw wrapped key.\n{HEADER} = \"{bound}\"\n")
}

/// Gives a file that was just made to the owner of `like`, if this process is root. A server does
/// not start if root owns files in its cluster.
pub fn give_as(file: &File, like: &Path) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = fs::metadata(like)?;
    fchown(file, Some(owner.uid()), Some(owner.gid()))
}

/// Writes a file of the key directory, as its owner would, in place of what an earlier crash left
/// at `path`. A link at `path` is replaced, never followed.
pub fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let mode = fs::metadata(dir)?.permissions().mode() & 0o640;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    give_as(&file, dir)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Sets the mode whatever the umask: a cluster with group access has it on its key file too.
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; BOUND_HEADER]> {
    let mut out = [0; BOUND_HEADER];
    if text.len() != 2 * BOUND_HEADER || !text.is_ascii() {
        return None;
    }
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgseal_crypto::{KeyLength, MasterKey, Suite};
    use pgseal_format::ClusterId;

    fn header(byte: u8) -> Header {
        Header {
            suite: Suite::AesXts,
            length: KeyLength::Bits256,
            cluster: ClusterId([byte; 16]),
            key_id: MasterKey::from_bytes(&mut [byte; 32]).key_id(),
            created: 1,
        }
    }

    /// A data directory of mode `mode`, and the key directory in it, which is made.
    fn made(mode: u32) -> (tempfile::TempDir, KeyDir) {
        let data = tempfile::tempdir().expect("a directory");
        set_mode(data.path(), mode).expect("it is ours");
        let dir = KeyDir::of(data.path());
        dir.create(b"image", &header(1)).expect("it is new");
        (data, dir)
    }

    #[test]
    fn a_new_directory_has_the_access_of_the_cluster() {
        for (cluster, directory, file) in [(0o700, 0o700, 0o600), (0o750, 0o750, 0o640)] {
            let (_data, dir) = made(cluster);
            let mode = |path: &Path| {
                fs::metadata(path)
                    .expect("it is there")
                    .permissions()
                    .mode()
            };
            assert_eq!(mode(&dir.path) & 0o7777, directory);
            assert_eq!(mode(&dir.key_bin()) & 0o7777, file);
            assert_eq!(mode(&dir.path.join(SETTINGS)) & 0o7777, file);
            assert_eq!(dir.bytes().expect("a file").as_slice(), b"image");
            assert_eq!(dir.leftover(), None);
            dir.make().expect("it is there already");
        }
    }

    #[test]
    fn a_copy_of_the_header_that_is_lost_or_wrong_is_written_again() {
        let (_data, dir) = made(0o700);
        let path = dir.path.join(SETTINGS);
        let says = |text: &str| {
            dir.check_copy(&header(1))
                .is_err_and(|error| error.0 == text)
        };
        assert!(dir.check_copy(&header(1)).is_ok());
        let restore = || {
            let mut locked = dir.lock().expect("nobody else changes it");
            locked.store.restore_copy(&header(1)).expect("room");
            assert!(dir.check_copy(&header(1)).is_ok());
        };
        fs::write(&path, settings(&header(2))).expect("room");
        assert!(says("says another header than key.bin"));
        restore();
        fs::write(&path, "header = \"07\"\n").expect("room");
        assert!(says("is damaged or cannot be read"));
        restore();
        fs::remove_file(&path).expect("a file");
        assert!(says("is missing"));
        restore();
    }

    #[test]
    fn one_process_at_a_time_changes_a_key_file() {
        let (_data, dir) = made(0o700);
        let aside = dir.path.join(ASIDE);
        fs::write(&aside, "half").expect("room");
        assert_eq!(dir.leftover(), Some(aside.clone()));
        let locked = dir.lock_as_it_is().expect("nobody else changes it");
        assert!(aside.exists(), "nothing is changed");
        assert!(matches!(dir.lock(), Err(KeyBinError::Busy(_))));
        drop(locked);
        let mut locked = dir.lock().expect("nobody else changes it");
        assert_eq!(dir.leftover(), None);
        locked.store.write_aside(b"new").expect("room");
        assert_eq!(locked.store.read_aside().expect("a file"), b"new");
        assert_eq!(dir.bytes().expect("a file").as_slice(), b"image");
        locked.store.publish().expect("room");
        assert_eq!(dir.bytes().expect("a file").as_slice(), b"new");
        assert!(matches!(
            locked.store.read_aside(),
            Err(KeyBinError::Missing(_))
        ));
    }

    /// A cluster that has lost its key directory gets one again, with the access and the owner of
    /// its data directory.
    #[test]
    fn what_is_made_belongs_to_the_clusters_owner() {
        let data = tempfile::tempdir().expect("a directory");
        set_mode(data.path(), 0o750).expect("it is ours");
        if geteuid().is_root() {
            let dir = File::open(data.path()).expect("a directory");
            fchown(&dir, Some(4711), Some(4712)).expect("root may");
        }
        let owner = |path: &Path| {
            let found = fs::metadata(path).expect("it is there");
            (found.uid(), found.gid())
        };
        let dir = KeyDir::of(data.path());
        dir.make().expect("room");
        let mode = fs::metadata(&dir.path).expect("it is made").permissions();
        assert_eq!(mode.mode() & 0o7777, 0o750);
        let file = dir.path.join(SETTINGS);
        write_durably(&file, b"text").expect("room");
        assert_eq!([owner(&dir.path), owner(&file)], [owner(data.path()); 2]);
    }

    /// What is not a file is neither taken for a missing one nor removed.
    #[test]
    fn a_directory_in_place_of_a_file_is_an_error() {
        let (_data, dir) = made(0o700);
        let aside = dir.path.join(ASIDE);
        fs::create_dir(&aside).expect("room");
        assert!(matches!(dir.lock(), Err(KeyBinError::Leftover(..))));
        let error = write_durably(&aside, b"new").expect_err("it is no file");
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        fs::remove_file(dir.key_bin()).expect("a file");
        assert!(matches!(dir.bytes(), Err(KeyBinError::Missing(_))));
        fs::create_dir(dir.key_bin()).expect("room");
        assert!(matches!(dir.bytes(), Err(KeyBinError::Read(..))));
    }

    /// A file that is too long is read so far that this shows, and no further.
    #[test]
    fn a_file_that_is_too_long_is_not_read_to_its_end() {
        let (_data, dir) = made(0o700);
        for (stored, read) in [(MAX_FILE, MAX_FILE), (MAX_FILE + 9, MAX_FILE + 1)] {
            fs::write(dir.key_bin(), vec![1; stored]).expect("room");
            assert_eq!(dir.bytes().expect("a file").len(), read);
        }
    }

    /// A rekey keeps the old header beside the new one; a key file that was copied by hand has
    /// none.
    #[test]
    fn a_kept_key_file_has_a_header_of_its_own() {
        let dir = tempfile::tempdir().expect("a directory");
        let kept = header(1).key_id;
        for (end, byte) in [(String::new(), 2), (format!(".{kept}"), 1)] {
            let path = dir.path().join(format!("{SETTINGS}{end}"));
            fs::write(path, settings(&header(byte))).expect("a file");
        }
        for (name, byte) in [
            (NAME.to_owned(), 2),
            (format!("{NAME}.{kept}"), 1),
            (format!("{NAME}.{kept}.2"), 1),
            (format!("{NAME}.{kept}.copy"), 2),
            (format!("{NAME}.copy"), 2),
            ("copy".to_owned(), 2),
        ] {
            let found = KeyDir::around(&dir.path().join(&name)).header();
            let cluster = found.expect("a header").cluster;
            assert_eq!(cluster.0, [byte; 16], "{name}");
        }
    }
}
