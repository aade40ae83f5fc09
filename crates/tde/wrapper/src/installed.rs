//! The layout of an installation by packages.
//!
//! Each version has a directory of its own, `/usr/lib/pgseal/VERSION`, because an upgrade must not
//! change a library that a server has mapped. The link `/usr/lib/pgseal/current` leads to the
//! version in use. A file that names one of our programs names it by that link, so that the file
//! outlives the version.

use std::path::{Path, PathBuf};

use pgseal_contract::file;

const CURRENT: &str = file::CURRENT.as_str();

/// Returns a path of `program`, which is `VERSION/bin/NAME`, that stays right after an upgrade:
/// `current/bin/NAME`. A program that is not installed so, or that is not of the version in use,
/// keeps its own path.
pub fn lasting_path(program: &Path) -> PathBuf {
    by_link(program).unwrap_or_else(|| program.to_owned())
}

fn by_link(program: &Path) -> Option<PathBuf> {
    let (versions, version, name) = part(program)?;
    let link = versions.join(CURRENT);
    let in_use = link.is_symlink() && link.canonicalize().ok()? == version.canonicalize().ok()?;
    in_use.then(|| link.join(name))
}

/// Whether two files are the same part of two versions, which packages installed side by side.
pub fn are_of_two_versions(one: &Path, other: &Path) -> bool {
    match (part(one), part(other)) {
        (Some(one), Some(other)) => one.0 == other.0 && one.2 == other.2 && one.1 != other.1,
        _ => false,
    }
}

/// Returns the directory of all versions, that of one version, and the path in it.
fn part(file: &Path) -> Option<(&Path, &Path, &Path)> {
    let version = file.parent()?.parent()?;
    Some((version.parent()?, version, file.strip_prefix(version).ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_program_of_the_version_in_use_is_named_by_the_link() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        for version in ["0.1.0", "0.2.0"] {
            fs::create_dir_all(root.join(version).join("bin")).expect("a directory");
        }
        let program = |version: &str| root.join(version).join("bin/pgseal-twin");
        assert_eq!(lasting_path(&program("0.1.0")), program("0.1.0"));
        symlink("0.1.0", root.join(CURRENT)).expect("a link");
        assert_eq!(lasting_path(&program("0.1.0")), program(CURRENT));
        assert_eq!(lasting_path(&program("0.2.0")), program("0.2.0"));
        fs::remove_file(root.join(CURRENT)).expect("removed");
        symlink("0.2.0", root.join(CURRENT)).expect("a link");
        assert_eq!(lasting_path(&program("0.1.0")), program("0.1.0"));
    }

    #[test]
    fn a_directory_called_current_is_no_link() {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("current/bin/pgseal-twin");
        fs::create_dir_all(program.parent().expect("a parent")).expect("a directory");
        assert_eq!(lasting_path(&program), program);
        assert_eq!(lasting_path(Path::new("/")), Path::new("/"));
    }

    #[test]
    fn the_libraries_of_two_versions() {
        let library = |version: &str| PathBuf::from(format!("/usr/lib/pgseal/{version}/lib/a.so"));
        let two = |one: &str, other: &str| are_of_two_versions(Path::new(one), Path::new(other));
        assert!(are_of_two_versions(&library("1"), &library("2")));
        assert!(!are_of_two_versions(&library("1"), &library("1")));
        assert!(!two("/usr/lib/pgseal/1/lib/a.so", "/usr/local/lib/a.so"));
        assert!(!two("/a.so", "/b.so"));
    }
}
