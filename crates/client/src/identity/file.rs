//! An identity in a file: readable by its user alone, or it is not taken.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{Identity, IdentityError};

/// No identity is longer.
const LONGEST: u64 = 64 << 10;

/// Why an identity file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityFileError {
    /// Not there, or not readable.
    #[error("the identity {0} cannot be read: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// Not written.
    #[error("the identity {0} cannot be written: {1}")]
    Write(PathBuf, #[source] io::Error),
    /// A file is never replaced: with its keys the data would be lost.
    #[error("{0} exists: an identity is never written over, give another name")]
    Exists(PathBuf),
    /// Others may read it.
    #[error(
        "the identity {0} can be read by others: chmod 600 it, and think about who has read it"
    )]
    Open(PathBuf),
    /// Not an identity.
    #[error("the identity {0} cannot be used: {1}")]
    Text(PathBuf, #[source] IdentityError),
}

impl Identity {
    /// Reads a file that nobody but its user may read.
    pub fn load(path: &Path) -> Result<Self, IdentityFileError> {
        let unreadable = |error| IdentityFileError::Read(path.to_owned(), error);
        let mut file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.mode() & 0o077 != 0 {
            return Err(IdentityFileError::Open(path.to_owned()));
        }
        let not_a_text = |error| IdentityFileError::Text(path.to_owned(), error);
        if metadata.len() > LONGEST {
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
        Self::parse(text).map_err(not_a_text)
    }

    /// Writes a new file that nobody but its user may read.
    pub fn store(&self, path: &Path) -> Result<(), IdentityFileError> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let mut file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => IdentityFileError::Exists(path.to_owned()),
            _ => IdentityFileError::Write(path.to_owned(), error),
        })?;
        file.write_all(self.encode().as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(|error| IdentityFileError::Write(path.to_owned(), error))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{set_permissions, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_its_users_alone_and_is_never_replaced() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("identity");
        let identity = Identity::for_tests(3);
        identity.store(&path).expect("it is new");
        let mode = path.metadata().expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = Identity::load(&path).expect("it was stored");
        assert_eq!(again.owner_id(), identity.owner_id());
        let twice = identity.store(&path);
        assert!(matches!(twice, Err(IdentityFileError::Exists(_))));
        set_permissions(&path, Permissions::from_mode(0o640)).expect("it is ours");
        let open = Identity::load(&path);
        assert!(matches!(open, Err(IdentityFileError::Open(_))));
    }
}
