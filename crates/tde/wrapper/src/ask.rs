//! Asking a program before it is relied on: its version, whether the library is in it, and where
//! it looks for its files if it is a server.
//!
//! The loader drops a library that it cannot map: a file system is mounted noexec, or a rule of
//! the machine forbids it. It reports that on standard error at best, and runs the program without
//! the library. What is to be sealed would be written in clear. So the library itself answers,
//! before `main`, from inside the program, which is run for no more than `--version`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use pgseal_contract::variable;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::memfd;

use crate::launch::Sealed;

/// The descriptor that takes the library's answer.
const ANSWER: &str = variable::ANSWER_FD.as_str();
/// The path that a server takes for its own.
const STARTED_AS: &str = variable::STARTED_AS.as_str();

/// Why a program is not relied on.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("{0} runs without libpgseal.so, so it would write in clear ({1}): see that this machine lets programs load the library")]
    NotLoaded(PathBuf, String),
    #[error("{0} fails ({1}): run it by hand to see why")]
    Fails(PathBuf, String),
    #[error("{0} cannot be asked ({1}): check the limit of open files")]
    Io(PathBuf, io::Error),
}

impl Exit for AskError {
    fn code(&self) -> Code {
        match self {
            Self::Io(..) => Code::Io,
            Self::NotLoaded(..) | Self::Fails(..) => Code::NotGuaranteed,
        }
    }
}

/// The answer that a program gives about itself.
pub struct Answer {
    /// The version, as `--version` prints it.
    pub version: String,
    /// Where it looks for its files, if it is a server.
    pub files: Option<Files>,
    /// The version of the library; none if it is older than this answer.
    pub library: Option<String>,
}

/// Where a server looks for its files.
#[derive(Debug, PartialEq, Eq)]
pub struct Files {
    pub share: PathBuf,
    pub library: PathBuf,
}

/// Asks `program`, which takes the path `started_as` for its own.
pub fn ask(program: &Path, started_as: &Path) -> Result<Answer, Failure> {
    let failed = |error| AskError::Io(program.to_owned(), error);
    let answer = memfd::open().map_err(failed)?;
    let mut sealed = Sealed::new(program, program.as_os_str(), &["--version".into()])?;
    sealed.tell(ANSWER, answer.as_raw_fd().to_string());
    sealed.tell(STARTED_AS, started_as);
    let output = sealed.output()?;
    let answer = content(&answer).map_err(failed)?;
    if answer.is_empty() {
        return Err(AskError::NotLoaded(program.to_owned(), first_line(&output)).into());
    }
    if !output.status.success() {
        return Err(AskError::Fails(program.to_owned(), first_line(&output)).into());
    }
    Ok(Answer {
        version: version(&output.stdout),
        files: files(&answer),
        library: library(&answer),
    })
}

fn content(answer: &File) -> io::Result<Vec<u8>> {
    fs::read(format!("/proc/self/fd/{}", answer.as_raw_fd()))
}

/// Returns the first line that the loader or the program wrote to standard error, or else the exit
/// status.
fn first_line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| !line.trim().is_empty());
    line.map_or_else(|| output.status.to_string(), |line| line.trim().to_owned())
}

/// Returns the version in `postgres (PostgreSQL) 15.8 (Debian 15.8-1)`: the third word.
fn version(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    said.split_whitespace()
        .nth(2)
        .unwrap_or_default()
        .to_owned()
}

fn files(answer: &[u8]) -> Option<Files> {
    let mut paths = answer
        .split(|&byte| byte == 0)
        .map(|path| PathBuf::from(OsStr::from_bytes(path)));
    let files = Files {
        share: paths.next()?,
        library: paths.next()?,
    };
    (!files.share.as_os_str().is_empty()).then_some(files)
}

/// Returns the third string of the answer, behind the paths.
fn library(answer: &[u8]) -> Option<String> {
    let version = answer.split(|&byte| byte == 0).nth(2)?;
    let version = String::from_utf8_lossy(version).into_owned();
    Some(version).filter(|version| !version.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_two_paths_and_a_version() {
        let server = b"/usr/share\0/usr/lib\x000.1.0 (release build)\0";
        let found = files(server).expect("a server");
        assert_eq!(found.library, Path::new("/usr/lib"));
        assert_eq!(library(server).as_deref(), Some("0.1.0 (release build)"));
        let tool = b"\0\x000.1.0 (release build)\0";
        assert_eq!(files(tool), None);
        assert_eq!(library(tool).as_deref(), Some("0.1.0 (release build)"));
    }

    #[test]
    fn an_older_library_says_no_version() {
        assert_eq!(library(b"/usr/share\0/usr/lib\0"), None);
        assert_eq!(library(b"\0\0"), None);
    }
}
