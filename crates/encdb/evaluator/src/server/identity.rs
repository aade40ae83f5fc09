//! The key that an evaluator signs its evidence with: 32 bytes in a file that its user alone reads.
//!
//! Anyone who has the file can stand in for the evaluator. Clients name its public half, so a file
//! that is there is never written over, and one that cannot be used ends the start.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pgseal_crypto::sign::SigningKey;
use pgseal_crypto::{RandomError, Secret};
use zeroize::Zeroizing;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Not there, or not readable.
    #[error("the identity {0} cannot be read ({1}): check its owner and mode")]
    Read(PathBuf, io::Error),
    /// Others may have read it.
    #[error(
        "the identity {0} can be read by others: chmod 600 it, and think about who has read it"
    )]
    Open(PathBuf),
    /// Not a key.
    #[error("the identity {0} is not 32 bytes long: bring it back from a copy, or move it away, and tell clients the new key")]
    NotAKey(PathBuf),
    /// Not written.
    #[error(
        "the identity {0} cannot be made ({1}): give a file in a directory of the evaluator's user"
    )]
    Make(PathBuf, io::Error),
    /// No random bytes.
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// The key of the file, which is made first if it is not there.
pub fn load_or_make(path: &Path) -> Result<SigningKey, IdentityError> {
    if let Some(key) = load(path)? {
        return Ok(key);
    }
    make(path)?;
    load(path)?.ok_or_else(|| IdentityError::Read(path.to_owned(), io::ErrorKind::NotFound.into()))
}

fn load(path: &Path) -> Result<Option<SigningKey>, IdentityError> {
    let unreadable = |error| IdentityError::Read(path.to_owned(), error);
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(unreadable)?,
    };
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.mode() & 0o077 != 0 {
        return Err(IdentityError::Open(path.to_owned()));
    }
    let mut seed = Zeroizing::new([0; 33]);
    let mut length = 0;
    let mut file = file.take(33);
    loop {
        match file.read(&mut seed[length..]).map_err(unreadable)? {
            0 => break,
            read => length += read,
        }
    }
    let (seed, _) = seed.split_first_chunk_mut::<32>().expect("33 bytes");
    match length {
        32 => Ok(Some(SigningKey::from_seed(&Secret::from_bytes(seed)))),
        _ => Err(IdentityError::NotAKey(path.to_owned())),
    }
}

/// Aside, and then under its name if no other has it by then.
fn make(path: &Path) -> Result<(), IdentityError> {
    let seed = Secret::generate()?;
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = PathBuf::from(aside);
    write(&aside, &seed)
        .and_then(|()| match fs::hard_link(&aside, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        })
        .and_then(|()| fs::remove_file(&aside))
        .and_then(|()| File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all())
        .map_err(|error| IdentityError::Make(path.to_owned(), error))
}

fn write(aside: &Path, seed: &Secret) -> io::Result<()> {
    match fs::remove_file(aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(aside)?;
    file.write_all(seed.expose())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs::{set_permissions, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_made_once() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("identity");
        fs::write(place.path().join("identity.new"), "left by a crash").expect("a file");
        let made = load_or_make(&path).expect("a key").public();
        assert_eq!(load_or_make(&path).expect("the same").public(), made);
        let names = fs::read_dir(place.path()).expect("a directory");
        assert_eq!(names.count(), 1);
        assert_eq!(fs::metadata(&path).expect("a file").mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_key_is_kept_and_refused() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("identity");
        for length in [0, 31, 33] {
            fs::write(&path, vec![1; length]).expect("a file");
            set_permissions(&path, Permissions::from_mode(0o600)).expect("a mode");
            assert!(matches!(
                load_or_make(&path),
                Err(IdentityError::NotAKey(_))
            ));
            assert_eq!(fs::read(&path).expect("it is there").len(), length);
        }
        fs::write(&path, [1; 32]).expect("a file");
        set_permissions(&path, Permissions::from_mode(0o640)).expect("a mode");
        assert!(matches!(load_or_make(&path), Err(IdentityError::Open(_))));
        let nowhere = place.path().join("none/identity");
        assert!(matches!(
            load_or_make(&nowhere),
            Err(IdentityError::Make(..))
        ));
    }
}
