//! An identity in a file: it is refused unless only its user may read it.
//!
//! The keys are never written over. When what the file keeps beside them changes, a whole new file
//! takes its place. A lock on the old one is held, so that two clients never lose what the other
//! has kept.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{fchown, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use zeroize::Zeroizing;

use super::{Identity, IdentityError};
use crate::list::Kept;

/// The longest identity file, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// Why an identity file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityFileError {
    /// The file is missing, or cannot be read.
    #[error("the identity {0} cannot be read: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// The file cannot be written.
    #[error("the identity {0} cannot be written: {1}")]
    Write(PathBuf, #[source] io::Error),
    /// A file is never replaced: with its keys the data would be lost.
    #[error("{0} exists: an identity is never written over, give another name")]
    Exists(PathBuf),
    /// Other users may read the file.
    #[error(
        "the identity {0} can be read by others: chmod 600 it, and think about who has read it"
    )]
    Open(PathBuf),
    /// The file holds no identity.
    #[error("the identity {0} cannot be used: {1}")]
    Text(PathBuf, #[source] IdentityError),
    /// The list to keep does not fit into the file.
    #[error("the identity {0} would be longer than 4 MB: forget columns that are gone")]
    TooLong(PathBuf),
}

/// An identity, its path, and what it keeps.
pub struct IdentityFile {
    path: PathBuf,
    /// The identity of the file
    pub identity: Identity,
    /// The lists of databases that its client keeps
    pub kept: Kept,
}

impl IdentityFile {
    /// Reads a file that only its user may read.
    pub fn load(path: &Path) -> Result<Self, IdentityFileError> {
        let unreadable = |error| IdentityFileError::Read(path.to_owned(), error);
        // A link stays one: what it leads to is replaced.
        let path = path.canonicalize().map_err(unreadable)?;
        Self::read(&path, &File::open(&path).map_err(unreadable)?)
    }

    fn read(path: &Path, mut file: &File) -> Result<Self, IdentityFileError> {
        let unreadable = |error| IdentityFileError::Read(path.to_owned(), error);
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.mode() & 0o077 != 0 {
            return Err(IdentityFileError::Open(path.to_owned()));
        }
        let not_a_text = |error| IdentityFileError::Text(path.to_owned(), error);
        if metadata.len() > MAX_FILE {
            return Err(not_a_text(IdentityError::Malformed));
        }
        // One more than there is: the buffer with the keys never moves.
        let room = usize::try_from(metadata.len()).unwrap_or_default() + 64;
        let mut bytes = Zeroizing::new(Vec::with_capacity(room));
        Read::by_ref(&mut file)
            .take(metadata.len())
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| not_a_text(IdentityError::Malformed))?;
        let (identity, kept) = Identity::parse(text).map_err(not_a_text)?;
        Ok(Self {
            path: path.to_owned(),
            identity,
            kept,
        })
    }

    /// Writes a new file that only its user may read.
    pub fn create(path: &Path, identity: &Identity, kept: &Kept) -> Result<(), IdentityFileError> {
        let unwritten = |error| IdentityFileError::Write(path.to_owned(), error);
        let text = text(path, identity, kept)?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let mut file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => IdentityFileError::Exists(path.to_owned()),
            _ => unwritten(error),
        })?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| sync_directory(path))
            .map_err(unwritten)
    }

    /// Changes what is kept. Another client may have changed it meanwhile, so the change is made
    /// to what is in the file now.
    pub fn update(&mut self, change: impl FnOnce(&mut Kept)) -> Result<(), IdentityFileError> {
        let old = self.locked()?;
        let mut kept = Self::read(&self.path, &old)?.kept;
        let before = kept.clone();
        change(&mut kept);
        if kept != before {
            let text = text(&self.path, &self.identity, &kept)?;
            let written = self.replace(&old, &text);
            written.map_err(|error| IdentityFileError::Write(self.path.clone(), error))?;
        }
        self.kept = kept;
        Ok(())
    }

    /// Opens the file and holds its lock until it is closed. A file that was replaced meanwhile is
    /// left.
    fn locked(&self) -> Result<Flock<File>, IdentityFileError> {
        let unreadable = |error| IdentityFileError::Read(self.path.clone(), error);
        loop {
            let file = File::open(&self.path).map_err(unreadable)?;
            let locked = Flock::lock(file, FlockArg::LockExclusive);
            let file = locked.map_err(|(_, errno)| unreadable(errno.into()))?;
            let held = file.metadata().map_err(unreadable)?;
            let named = fs::metadata(&self.path).map_err(unreadable)?;
            if (held.dev(), held.ino()) == (named.dev(), named.ino()) {
                return Ok(file);
            }
        }
    }

    /// Replaces the file. The lock is held, so a file that is aside is left from an attempt that
    /// was cut short.
    fn replace(&self, old: &File, text: &str) -> io::Result<()> {
        let mut aside = OsString::from(&self.path);
        aside.push(".new");
        match fs::remove_file(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&aside)?;
        let owner = old.metadata()?;
        fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&aside, &self.path)?;
        sync_directory(&self.path)
    }
}

fn text(
    path: &Path,
    identity: &Identity,
    kept: &Kept,
) -> Result<Zeroizing<String>, IdentityFileError> {
    let text = identity.encode(kept);
    let text = text.filter(|text| text.len() as u64 <= MAX_FILE);
    text.ok_or_else(|| IdentityFileError::TooLong(path.to_owned()))
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs::{set_permissions, Permissions};
    use std::os::unix::fs::{symlink, PermissionsExt};

    use super::*;

    fn stored(directory: &Path) -> PathBuf {
        let path = directory.join("identity");
        let created = IdentityFile::create(&path, &Identity::for_tests(3), &Kept::default());
        created.expect("it is new");
        path
    }

    #[test]
    fn a_file_is_its_users_alone_and_is_never_written_over() {
        let home = tempfile::tempdir().expect("a directory");
        let path = stored(home.path());
        let mode = path.metadata().expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = IdentityFile::load(&path).expect("it was stored");
        let identity = Identity::for_tests(3);
        assert_eq!(again.identity.owner_id(), identity.owner_id());
        let twice = IdentityFile::create(&path, &identity, &Kept::default());
        assert!(matches!(twice, Err(IdentityFileError::Exists(_))));
        set_permissions(&path, Permissions::from_mode(0o640)).expect("it is ours");
        let open = IdentityFile::load(&path);
        assert!(matches!(open, Err(IdentityFileError::Open(_))));
    }

    #[test]
    fn what_two_clients_keep_is_all_kept() {
        let home = tempfile::tempdir().expect("a directory");
        let path = stored(home.path());
        let link = home.path().join("link");
        symlink(&path, &link).expect("it is new");
        let load = |path: &Path| IdentityFile::load(path).expect("it was stored");
        let (mut one, mut two) = (load(&path), load(&link));
        let saw = |kept: &mut Kept, name: &str| {
            *kept.database_mut(name) = Kept::for_tests().database("shop");
        };
        fs::write(home.path().join("identity.new"), "cut short").expect("it is ours");
        one.update(|kept| saw(kept, "one")).expect("it is ours");
        two.update(|kept| saw(kept, "two")).expect("it is ours");
        let again = load(&path);
        assert_eq!(again.kept, two.kept);
        assert_eq!(again.identity.subject(), one.identity.subject());
        for name in ["one", "two"] {
            assert_eq!(
                again.kept.database(name),
                Kept::for_tests().database("shop")
            );
        }
        assert!(link.is_symlink(), "a link stays one");
        assert_eq!(path.metadata().expect("it is there").mode() & 0o777, 0o600);
        assert!(!home.path().join("identity.new").exists());
    }
}
