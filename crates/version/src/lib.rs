//! The version that the programs and the library show: the package's version, the commit of the
//! sources, the profile of the build, and whether it uses a FIPS module. Build scripts call
//! [`declare`], and the sources read the result with `env!("PGSEAL_BUILD")`.
//!
//! Invariant: the same sources give the same text. It has no time and no name of a machine.

#![forbid(unsafe_code)]

use std::env;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names the commit where the sources are no Git checkout.
const COMMIT: &str = "PGSEAL_COMMIT";
/// The number of digits that are shown of a commit. They are cut from the whole name, so that they
/// do not depend on what else a repository contains.
const DIGITS: usize = 12;
/// The word for a commit that is not known.
const UNKNOWN: &str = "unknown";

/// The value of `PGSEAL_COMMIT` is not the name of a commit.
#[derive(PartialEq, Eq)]
pub struct NotACommit(String);

impl Display for NotACommit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{COMMIT}={} is not a commit: give {DIGITS} to 64 hexadecimal digits, or nothing",
            self.0
        )
    }
}

// What `main` of a build script prints when it fails.
impl fmt::Debug for NotACommit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

/// Sets `PGSEAL_BUILD` for the compilation of the package whose build script calls this. Cargo runs
/// the script again when the commit of the checkout changes.
pub fn declare() -> Result<(), NotACommit> {
    println!("cargo:rerun-if-env-changed={COMMIT}");
    let commit = match env::var(COMMIT).unwrap_or_default() {
        given if given.is_empty() => of_checkout(&workspace()),
        given => shown(&given).ok_or(NotACommit(given))?,
    };
    // Cargo sets both for a build script.
    let [version, profile] =
        ["CARGO_PKG_VERSION", "PROFILE"].map(|name| env::var(name).unwrap_or_default());
    // Set for a package that is built with its feature `fips`.
    let module = env::var_os("CARGO_FEATURE_FIPS").map_or("", |_| ", FIPS");
    println!("cargo:rustc-env=PGSEAL_BUILD={version} (commit {commit}, {profile} build{module})");
    Ok(())
}

/// Returns the root of the sources that this crate belongs to.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the digits that are shown of a commit's name; none if it is no such name.
fn shown(commit: &str) -> Option<String> {
    let is_name = (DIGITS..=64).contains(&commit.len())
        && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| commit[..DIGITS].to_ascii_lowercase())
}

/// Returns the commit of the checkout at `root`. Sources that were unpacked somewhere inside
/// another project's checkout have no commit: that of the other project would be wrong.
fn of_checkout(root: &Path) -> String {
    let top = git(root, &["rev-parse", "--show-toplevel"]).map(PathBuf::from);
    let same = |top: &Path| top.canonicalize().ok() == root.canonicalize().ok();
    if !top.is_some_and(|top| same(&top)) {
        return UNKNOWN.to_owned();
    }
    for file in changing(root) {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    let commit = git(root, &["rev-parse", "HEAD"]);
    commit
        .and_then(|commit| shown(&commit))
        .unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Returns the files of Git that change with the commit: the name of the branch, its log, and the
/// branch itself. Cargo takes a file that is missing for one that always changes.
fn changing(root: &Path) -> Vec<PathBuf> {
    let branch = git(root, &["rev-parse", "--symbolic-full-name", "HEAD"]);
    let names = ["HEAD".into(), "logs/HEAD".into(), "packed-refs".into()];
    let paths = names.into_iter().chain(branch).filter_map(|name: String| {
        git(root, &["rev-parse", "--git-path", &name]).map(|path| root.join(path))
    });
    paths.filter(|path| path.exists()).collect()
}

/// Returns what Git prints; none if it fails or is not installed. Git takes the checkout from the
/// directory alone: a hook's environment names another one.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_shown_by_its_first_digits() {
        let whole = "0F04deb9a1b2c3d4e5f60718293a4b5c6d7e8f90";
        assert_eq!(shown(whole).as_deref(), Some("0f04deb9a1b2"));
        assert_eq!(shown("0f04deb9a1b2").as_deref(), Some("0f04deb9a1b2"));
        for other in [
            "",
            "0f04deb",
            "v0.1.0-release",
            "0f04deb9a1bg",
            &"0".repeat(65),
        ] {
            assert_eq!(shown(other), None, "{other}");
        }
    }

    #[test]
    fn sources_within_another_checkout_have_no_commit() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        assert_eq!(of_checkout(root), UNKNOWN);
        let author = ["-c", "user.name=a", "-c", "user.email=a"];
        let commit = [
            &author[..],
            &["commit", "--quiet", "--allow-empty", "-m", "a"],
        ]
        .concat();
        // Neither prints anything.
        assert_eq!(git(root, &["init", "--quiet"]), None);
        assert_eq!(git(root, &commit), None);
        let whole = git(root, &["rev-parse", "HEAD"]).expect("a commit");
        assert_eq!(of_checkout(root), whole[..DIGITS]);
        assert!(changing(root).len() >= 2, "{:?}", changing(root));
        let inner = root.join("pgseal");
        std::fs::create_dir(&inner).expect("a directory");
        assert_eq!(of_checkout(&inner), UNKNOWN);
    }

    #[test]
    fn the_error_says_what_to_give() {
        let sentence =
            "PGSEAL_COMMIT=v1 is not a commit: give 12 to 64 hexadecimal digits, or nothing";
        assert_eq!(NotACommit("v1".into()).to_string(), sentence);
    }
}
