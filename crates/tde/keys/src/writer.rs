//! The owner of a key file, and whether the commands in it may run.
//!
//! A stored command runs with the rights of the data directory's owner, so no other user may be
//! able to have put it there: a directory that all may write to, such as `/tmp`, may lie above a
//! cluster or archive. [`check`] is called before each stored command.
//!
//! A path can be led elsewhere between two looks at it. So the owner of a key file is that of the
//! open file that was read, and rights are those of the data directory whose owner was compared.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

/// Why a stored command is not run.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    #[error("{0} is owned by uid {1}, and a command from a key file runs only if the file and the directories above it are owned by uid {2} or root: read the command with `pgseal key check --show`, and if you trust it give it with --key-unwrap-command or -K")]
    Stranger(PathBuf, u32, u32),
    #[error("the owner of {0} cannot be determined ({1}): check the directories above it")]
    Unknown(PathBuf, io::Error),
    #[error("a command runs only from a key file that was read here: give it by --key-unwrap-command or -K")]
    NotRead,
}

/// A key file that was read. Its path may lead to another file by now.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    owner: u32,
}

impl Source {
    /// Returns the source that the open file is, to which `path` led.
    pub fn of(path: &Path, file: &File) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            owner: file.metadata()?.uid(),
        })
    }
}

/// The user and group that a stored command runs as, where root runs it.
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    pub uid: u32,
    pub gid: u32,
}

/// Returns the rights with which the commands of a key file run for the cluster at `data`. Only
/// root and one other user may have written the file: the cluster's owner if this process is
/// root's, else this process's user.
pub fn check(source: &Source, data: &Path) -> Result<Rights, WriterError> {
    let (euid, [link, directory]) = (geteuid(), told(data)?);
    let user = match euid.is_root() {
        true => directory.uid(),
        false => euid.as_raw(),
    };
    let key_bin = source.path.as_path();
    let mut owners = vec![(data, link.uid()), (data, directory.uid())];
    for path in [key_bin.parent().unwrap_or(data), key_bin] {
        owners.extend(told(path)?.map(|metadata| (path, metadata.uid())));
    }
    owners.push((key_bin, source.owner));
    match owners.iter().find(|(_, uid)| *uid != user && *uid != 0) {
        Some((path, uid)) => Err(WriterError::Stranger(path.to_path_buf(), *uid, user)),
        None => Ok(Rights {
            uid: directory.uid(),
            gid: directory.gid(),
        }),
    }
}

/// Returns the metadata of a link, and of what it leads to.
fn told(path: &Path) -> Result<[Metadata; 2], WriterError> {
    fs::symlink_metadata(path)
        .and_then(|link| Ok([link, fs::metadata(path)?]))
        .map_err(|error| WriterError::Unknown(path.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, lchown, symlink};

    const SOMEBODY: u32 = 4242;
    const STRANGER: u32 = 65534;

    /// Makes a cluster whose directory, key directory and key file have these owners.
    fn cluster(data: u32, directory: u32, file: u32) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        let keys = root.path().join("pg_encryption");
        fs::create_dir(&keys).expect("a directory");
        fs::write(keys.join("key.bin"), "").expect("a file");
        for (path, uid) in [
            (root.path().to_owned(), data),
            (keys.clone(), directory),
            (keys.join("key.bin"), file),
        ] {
            chown(path, Some(uid), None).expect("root may");
        }
        root
    }

    fn read(root: &tempfile::TempDir) -> Source {
        let path = root.path().join("pg_encryption/key.bin");
        Source::of(&path, &File::open(&path).expect("it is there")).expect("it is open")
    }

    fn judged(root: &tempfile::TempDir) -> Result<Rights, WriterError> {
        check(&read(root), root.path())
    }

    /// An attacker who may write above a directory lets its path lead elsewhere after the key file
    /// was read, to the cluster of the user who runs the command.
    #[test]
    fn a_directory_that_was_swapped_after_the_key_file_was_read() {
        if !geteuid().is_root() {
            return;
        }
        let planted = read(&cluster(STRANGER, STRANGER, STRANGER));
        for victim in [SOMEBODY, 0] {
            let own = cluster(victim, victim, victim);
            let swapped = Source {
                path: read(&own).path,
                ..planted.clone()
            };
            let judged = check(&swapped, own.path());
            assert!(
                matches!(judged, Err(WriterError::Stranger(_, STRANGER, user)) if user == victim)
            );
        }
    }

    #[test]
    fn ones_own_runs() {
        let me = geteuid().as_raw();
        assert!(judged(&cluster(me, me, me)).is_ok());
    }

    #[test]
    fn root_runs_what_is_all_of_one_user_or_of_root() {
        if !geteuid().is_root() {
            return;
        }
        for owners in [
            [SOMEBODY, SOMEBODY, SOMEBODY],
            [SOMEBODY, 0, 0],
            [SOMEBODY, SOMEBODY, 0],
        ] {
            let [data, directory, file] = owners;
            assert!(
                judged(&cluster(data, directory, file)).is_ok(),
                "{owners:?}"
            );
        }
        for owners in [
            [0, STRANGER, STRANGER],
            [0, 0, STRANGER],
            [SOMEBODY, STRANGER, SOMEBODY],
            [SOMEBODY, SOMEBODY, STRANGER],
            [SOMEBODY, STRANGER, 0],
        ] {
            let [data, directory, file] = owners;
            let refused = judged(&cluster(data, directory, file));
            assert!(
                matches!(refused, Err(WriterError::Stranger(_, STRANGER, user)) if user == data),
                "{owners:?}"
            );
        }
    }

    #[test]
    fn a_strangers_link_to_ones_own_is_a_strangers() {
        if !geteuid().is_root() {
            return;
        }
        let own = cluster(SOMEBODY, SOMEBODY, SOMEBODY);
        let planted = tempfile::tempdir().expect("a directory");
        chown(planted.path(), Some(SOMEBODY), None).expect("root may");
        let link = planted.path().join("pg_encryption");
        symlink(own.path().join("pg_encryption"), &link).expect("a link");
        lchown(&link, Some(SOMEBODY), None).expect("root may");
        assert!(judged(&planted).is_ok());
        lchown(&link, Some(STRANGER), None).expect("root may");
        assert!(matches!(judged(&planted), Err(WriterError::Stranger(..))));
    }
}
