//! Exit codes: a documented interface, decided here and nowhere else.
//!
//! 0 ok · 1 the check found something · 2 usage · 3 I/O error · 4 not a sealed cluster · 5 key file
//! damaged, incomplete or newer · 6 a provider or its command failed · 7 wrong key · 8 sealed
//! execution cannot be guaranteed · 9 busy. `exec` and the twins pass on their program's own code.

use std::process::ExitCode;

use crate::cluster::ClusterError;
use crate::cmd::bindir::BindirError;
use crate::handover::HandoverFdError;
use crate::keybin::KeyBinError;
use crate::launch::LaunchError;
use crate::twin::initdb::InitdbError;
use crate::twin::options::OptionError;
use crate::twin::pin::PinError;
use crate::unlock::UnlockError;

const USAGE: u8 = 2;
const IO: u8 = 3;
const NOT_SEALED: u8 = 4;
const KEY_FILE: u8 = 5;
const WRONG_KEY: u8 = 7;
const NOT_GUARANTEED: u8 = 8;

/// Why a subcommand ended: one sentence for the operator, and a code.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum Failure {
    Bindir(#[from] BindirError),
    Cluster(#[from] ClusterError),
    HandoverFd(#[from] HandoverFdError),
    Initdb(#[from] InitdbError),
    Launch(#[from] LaunchError),
    Option(#[from] OptionError),
    Pin(#[from] PinError),
    Unlock(#[from] UnlockError),
}

impl Failure {
    /// Says it on standard error.
    pub fn report(&self) -> ExitCode {
        eprintln!("pgseal: {self}");
        ExitCode::from(self.code())
    }

    fn code(&self) -> u8 {
        match self {
            Self::Bindir(error) => bindir(error),
            Self::Cluster(error) => cluster(error),
            Self::HandoverFd(_) => IO,
            Self::Initdb(error) => initdb(error),
            Self::Launch(error) => launch(error),
            Self::Option(_) => USAGE,
            Self::Pin(PinError::NotAKeyId(_)) => USAGE,
            Self::Pin(_) => WRONG_KEY,
            Self::Unlock(error) => unlock(error),
        }
    }
}

fn bindir(error: &BindirError) -> u8 {
    match error {
        BindirError::Read(..) | BindirError::Write(..) => IO,
        BindirError::NoPrograms(_) => USAGE,
        BindirError::Unusable { .. } | BindirError::PgConfig(_) | BindirError::Name(_) => {
            NOT_GUARANTEED
        }
        BindirError::Launch(error) => launch(error),
    }
}

fn cluster(error: &ClusterError) -> u8 {
    match error {
        ClusterError::NotSealed(_) => NOT_SEALED,
        ClusterError::WorkingDirectory(_) => IO,
    }
}

fn initdb(error: &InitdbError) -> u8 {
    match error {
        InitdbError::Usage(_) => USAGE,
        InitdbError::Unlock(error) => unlock(error),
        InitdbError::NotSealed(_) => NOT_GUARANTEED,
        InitdbError::Random(_) | InitdbError::Io(..) => IO,
    }
}

fn launch(error: &LaunchError) -> u8 {
    match error {
        LaunchError::Exec(..) => IO,
        _ => NOT_GUARANTEED,
    }
}

fn unlock(error: &UnlockError) -> u8 {
    match error {
        UnlockError::KeyBin(KeyBinError::Missing(_)) => KEY_FILE,
        UnlockError::KeyBin(KeyBinError::Read(..)) => IO,
        UnlockError::KeyBin(KeyBinError::Format(_)) | UnlockError::Altered(_) => KEY_FILE,
        UnlockError::Payload(_) => WRONG_KEY,
    }
}
