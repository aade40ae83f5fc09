//! Why a cluster is not enabled or disabled.

use std::io;
use std::path::PathBuf;

use pgseal_convert::Kind;
use pgseal_keys::exit::{Code, Exit};
use pgseal_storage::version::Unsupported;

#[derive(Debug, thiserror::Error)]
pub enum EnableError {
    #[error("this changes settings and programs of the machine: run it as root")]
    NotRoot,
    #[error("there is no cluster {0}: pg_lsclusters lists those of this machine")]
    NoCluster(String),
    #[error("there is no unit {0}: systemctl list-units lists those of this machine")]
    NoUnit(String),
    #[error(
        "{0} does not run as {1}, the owner of the data directory: give the unit of this cluster"
    )]
    UnitUser(String, String),
    #[error("the ExecStart of {0} is not one plain command that starts PostgreSQL's own postgres or pg_ctl: set its wrappers up by hand")]
    UnitCommand(String),
    #[error("{0} and {1} have different owners: give both the server's user")]
    OtherOwner(PathBuf, PathBuf),
    #[error("{0} belongs to root or to no user of this machine: give it the server's user")]
    Owner(PathBuf),
    #[error("{0} cannot be read ({1}): check the data directory of the cluster")]
    Data(PathBuf, io::Error),
    #[error("{0} cannot be read ({1}): check its owner and mode")]
    Read(PathBuf, io::Error),
    #[error("{0} cannot be written ({1}): check its directory and free space, and run this again")]
    Write(PathBuf, io::Error),
    #[error(transparent)]
    Version(Unsupported),
    #[error("`pgseal {}` of this cluster was interrupted: run `{}` first", .0.command(), .1)]
    Other(Kind, String),
    #[error("another `pgseal enable` or `pgseal disable` runs: wait until it has finished")]
    Busy,
    #[error("{0}: {1}")]
    Blocked(String, String),
    #[error("{0} does not open for the server's user {1}: make it readable for that user, as by `chgrp` and mode 640")]
    Passphrase(PathBuf, String),
    #[error("{0} has letters that an environment file cannot hold: choose a path of letters, digits and ._-+@:")]
    PassphrasePath(PathBuf),
    #[error("{0} cannot be started ({1}): install it")]
    Start(String, io::Error),
    #[error("`{program}` {}", ended(.code))]
    Program { program: String, code: Option<i32> },
    #[error("`{0}` did not answer in a form that is known: run it to see why")]
    Answer(String),
    #[error("a server still runs on {0} (process {1}), which was started in another way: stop it, and run this again")]
    StillRuns(PathBuf, u32),
    #[error("the server of {0} {1}: its log says why; correct that and run this again, or take it back with `pgseal disable {2}`")]
    NotSealed(String, String, String),
    #[error("{0} is not sealed, and nothing is to be taken back")]
    Plain(String),
    #[error("nothing was changed, because the answer was not yes")]
    Declined,
    #[error("{0}; the plain server was started again, and nothing is encrypted")]
    TakenBack(String, Code),
    #[error("{0}")]
    Failed(String, Code),
    #[error("{0}; the server is stopped: correct that and run `pgseal {1}` again, which goes on")]
    Stopped(String, String, Code),
}

impl EnableError {
    /// A program did not succeed; without a code a signal ended it.
    pub fn program(program: impl Into<String>, code: Option<i32>) -> Self {
        let program = program.into();
        Self::Program { program, code }
    }
}

fn ended(code: &Option<i32>) -> String {
    match code {
        Some(code) => format!("failed with exit code {code}: what it printed says why"),
        None => "was ended by a signal: run this again, which goes on".to_owned(),
    }
}

/// The code of pgseal's own subcommands is passed on.
fn code_of(program: &str, code: Option<i32>) -> Code {
    let own = [
        Code::Found,
        Code::Usage,
        Code::Io,
        Code::NotSealed,
        Code::KeyFile,
        Code::Provider,
        Code::WrongKey,
        Code::NotGuaranteed,
        Code::Busy,
    ];
    let mut own = own.into_iter();
    let same = own.find(|own| code == Some(own.number().into()));
    same.filter(|_| program.starts_with("pgseal "))
        .unwrap_or(Code::Io)
}

impl Exit for EnableError {
    fn code(&self) -> Code {
        match self {
            Self::NotRoot
            | Self::NoCluster(_)
            | Self::NoUnit(_)
            | Self::UnitUser(..)
            | Self::UnitCommand(_)
            | Self::OtherOwner(..)
            | Self::Owner(_)
            | Self::PassphrasePath(_) => Code::Usage,
            Self::Data(..)
            | Self::Read(..)
            | Self::Write(..)
            | Self::Start(..)
            | Self::Answer(_)
            | Self::NotSealed(..) => Code::Io,
            Self::Passphrase(..) => Code::Provider,
            Self::Version(error) => error.code(),
            Self::Other(..) | Self::Busy | Self::StillRuns(..) => Code::Busy,
            Self::Blocked(..) | Self::Declined => Code::Found,
            Self::Program { program, code } => code_of(program, *code),
            Self::Plain(_) => Code::NotSealed,
            Self::TakenBack(_, code) | Self::Failed(_, code) | Self::Stopped(_, _, code) => *code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_codes_are_passed_on() {
        assert_eq!(code_of("pgseal seal", Some(6)), Code::Provider);
        assert_eq!(code_of("pgseal seal", Some(200)), Code::Io);
        assert_eq!(code_of("pgseal seal", None), Code::Io);
        assert_eq!(code_of("pg_checksums --enable", Some(1)), Code::Io);
    }
}
