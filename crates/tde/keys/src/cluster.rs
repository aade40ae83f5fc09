//! The sealed cluster that a path is in: that of the nearest ancestor with `pg_encryption/`. (A
//! missing key file inside is an error to report, not a plain cluster.)
//!
//! A cluster can be reached by several spellings of its path (symbolic links, `..`). PostgreSQL
//! changes into its data directory, so the real path matters most; the spelling that the operator
//! used is passed on as well.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use crate::control_file;
use crate::exit::{Code, Exit};
use crate::keybin::DIR;

/// A data directory, by its real path and by the spellings that led to it.
#[derive(Debug, PartialEq, Eq)]
pub struct Root {
    /// Absolute, without symbolic links.
    pub path: PathBuf,
    /// Other absolute spellings.
    pub aliases: Vec<PathBuf>,
}

/// Why no sealed cluster was found.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "{0} is not a sealed cluster: it has no {DIR} directory; give the data directory with -D"
    )]
    NotSealed(PathBuf),
    #[error("{} does not exist: give the data directory with -D", .0.display())]
    Missing(PathBuf),
    #[error("{} cannot be read ({}): run this as the server's user or root", .0.display(), .1)]
    Unreadable(PathBuf, io::Error),
    #[error(
        "{} is not a data directory: it has no global/pg_control; give the data directory with -D",
        .0.display()
    )]
    NotACluster(PathBuf),
    #[error(
        "{} is sealed but has no {DIR}: restore {DIR} from the cluster or backup that this one was \
         copied from",
        .0.display()
    )]
    NoKeyDirectory(PathBuf),
    #[error("the working directory cannot be read ({0}): change to another one")]
    WorkingDirectory(io::Error),
}

impl Exit for ClusterError {
    fn code(&self) -> Code {
        match self {
            Self::NotSealed(_) => Code::NotSealed,
            Self::NotACluster(_) => Code::Usage,
            Self::NoKeyDirectory(_) => Code::KeyFile,
            Self::Missing(_) | Self::Unreadable(..) | Self::WorkingDirectory(_) => Code::Io,
        }
    }
}

impl Root {
    /// Returns the cluster that `path` is in, if it is sealed.
    pub fn around(path: &Path) -> Result<Option<Self>, ClusterError> {
        let spelled = absolute(path)?;
        let real = real(&spelled);
        for start in [&real, &spelled] {
            let sealed = |dir: &&Path| dir.join(DIR).is_dir();
            if let Some(dir) = start.ancestors().find(sealed) {
                return Ok(Some(Self::new(dir, &spelled)));
            }
        }
        Ok(None)
    }

    /// Returns the sealed cluster that `path` is, or is in. Fails with
    /// [`ClusterError::NotSealed`] only for what was seen to be a plain cluster.
    pub fn required(path: &Path) -> Result<Self, ClusterError> {
        Self::around(path)?.ok_or_else(|| why_none(path))
    }

    /// Returns the data directory `path`, whether or not it is sealed or exists.
    pub fn pending(path: &Path) -> Result<Self, ClusterError> {
        let spelled = absolute(path)?;
        Ok(Self::new(&spelled, &spelled))
    }

    /// Makes a root of `dir`. Of `spelled`, any path within, the part that means `dir` becomes an
    /// alias.
    fn new(dir: &Path, spelled: &Path) -> Self {
        let path = real(dir);
        let aliases = spelled
            .ancestors()
            .filter(|spelling| *spelling != path && real(spelling) == path)
            .map(Path::to_owned)
            .collect();
        Self { path, aliases }
    }
}

/// Returns why `path` is in no sealed cluster, after no key directory was found in or above it.
fn why_none(path: &Path) -> ClusterError {
    let given = path.to_owned();
    let seen = fs::metadata(path).and_then(|_| match fs::metadata(path.join(DIR)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    });
    match seen.map(|()| control_file::is_sealed(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => ClusterError::Missing(given),
        Err(error) => ClusterError::Unreadable(given, error),
        Ok(Ok(true)) => ClusterError::NoKeyDirectory(given),
        Ok(Ok(false)) => ClusterError::NotSealed(given),
        Ok(Err(error)) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => ClusterError::NotACluster(given),
            _ => ClusterError::Unreadable(control_file::path(path), error),
        },
    }
}

/// Joins a path with the working directory, and resolves `.` and `..` by spelling.
fn absolute(path: &Path) -> Result<PathBuf, ClusterError> {
    let joined = std::path::absolute(path).map_err(ClusterError::WorkingDirectory)?;
    let mut out = PathBuf::new();
    for component in joined.components() {
        match component {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    Ok(out)
}

/// Returns the path without symbolic links, as far down as it exists.
fn real(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            let missing = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
            return if missing.as_os_str().is_empty() {
                real
            } else {
                real.join(missing)
            };
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn sealed(dir: &Path) {
        fs::create_dir_all(dir.join(DIR)).expect("a directory");
    }

    #[test]
    fn the_nearest_ancestor_counts() {
        let tmp = tempfile::tempdir().expect("a directory");
        let (outer, inner) = (tmp.path().join("a"), tmp.path().join("a/b/c"));
        sealed(&outer);
        sealed(&inner);
        let find = |path: PathBuf| Root::around(&path).expect("a working directory");
        let root = |path: &Path| path.canonicalize().expect("it exists");
        assert_eq!(
            find(inner.join("base/1/2")).map(|r| r.path),
            Some(root(&inner))
        );
        assert_eq!(find(outer.join("b/x")).map(|r| r.path), Some(root(&outer)));
        assert_eq!(
            find(inner.join("../..")).map(|r| r.path),
            Some(root(&outer))
        );
        assert_eq!(find(tmp.path().to_owned()), None);
    }

    #[test]
    fn a_link_is_an_alias() {
        let tmp = tempfile::tempdir().expect("a directory");
        let tmp = tmp.path().canonicalize().expect("it exists");
        sealed(&tmp.join("real"));
        symlink(tmp.join("real"), tmp.join("link")).expect("a link");
        let found = Root::around(&tmp.join("link/base")).expect("a working directory");
        let expected = Root {
            path: tmp.join("real"),
            aliases: vec![tmp.join("link")],
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn a_pending_root_need_not_exist() {
        let tmp = tempfile::tempdir().expect("a directory");
        let tmp = tmp.path().canonicalize().expect("it exists");
        let root = Root::pending(&tmp.join("new/./data/")).expect("a working directory");
        assert_eq!(
            root,
            Root {
                path: tmp.join("new/data"),
                aliases: vec![]
            }
        );
    }

    #[test]
    fn why_a_directory_is_no_sealed_cluster() {
        let tmp = tempfile::tempdir().expect("a directory");
        let why =
            |name: &str| Root::required(&tmp.path().join(name)).expect_err("it is not sealed");
        let control = |name: &str, bytes: &[u8]| {
            fs::create_dir_all(tmp.path().join(name).join("global")).expect("a directory");
            fs::write(control_file::path(&tmp.path().join(name)), bytes).expect("a file");
        };
        fs::create_dir(tmp.path().join("empty")).expect("a directory");
        fs::write(tmp.path().join("file"), "").expect("a file");
        control("plain", &[0; 8192]);
        let mut sealed = [0; 8192];
        sealed[8191] = 1;
        control("sealed", &sealed);
        control("locked", &[0; 8192]);
        // As a directory that may not be entered does, a link to itself hides what is there.
        symlink("loop", tmp.path().join("loop")).expect("a link");
        symlink(DIR, tmp.path().join("locked").join(DIR)).expect("a link");
        assert!(matches!(why("none"), ClusterError::Missing(_)));
        assert!(matches!(why("empty"), ClusterError::NotACluster(_)));
        assert!(matches!(why("plain"), ClusterError::NotSealed(_)));
        assert!(matches!(why("sealed"), ClusterError::NoKeyDirectory(_)));
        assert!(matches!(why("loop"), ClusterError::Unreadable(..)));
        assert!(matches!(why("locked"), ClusterError::Unreadable(..)));
    }
}
