//! Why a cluster or a slot stays locked.

use std::io;
use std::path::PathBuf;

use pgseal_format::{Altered, PayloadError};

use crate::approved::NotApproved;
use crate::command::CommandError;
use crate::conversion::Converting;
use crate::exit::{Code, Exit};
use crate::keybin::KeyBinError;
use crate::machine::MachineError;
use crate::passphrase::PassphraseError;
use crate::writer::WriterError;
use crate::{DerivedError, NotAnAesKey, SourceError};

/// Why a cluster stays locked.
#[derive(Debug, thiserror::Error)]
pub enum UnlockError {
    #[error(transparent)]
    Converting(#[from] Converting),
    #[error(transparent)]
    KeyBin(#[from] KeyBinError),
    #[error("{}: {}", .0.display(), Altered)]
    Altered(PathBuf),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    NotApproved(#[from] NotApproved),
    #[error(transparent)]
    Variable(CommandError),
    #[error("{}: {}", .0.display(), .1)]
    Slot(PathBuf, Box<SlotError>),
    #[error("{}: no slot opens: {}", .0.display(), listed(.1))]
    Slots(PathBuf, Vec<(u8, SlotError)>),
    #[error("{0} is one raw wrapped key, which no other machine can read: wrap it anew with `pgseal key wrap` there, or give --copy-key-from")]
    RawReceived(PathBuf),
}

/// Why one slot stays shut.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum SlotError {
    Command(#[from] CommandError),
    Outranking(#[from] OutrankingError),
    Writer(#[from] WriterError),
    Payload(#[from] PayloadError),
    Derived(#[from] DerivedError),
    Source(#[from] SourceError),
    Passphrase(#[from] PassphraseError),
    NotAnAesKey(#[from] NotAnAesKey),
    KeyFile(#[from] KeyFileReadError),
    NotApproved(#[from] NotApproved),
}

/// A command that is not the slot's own fails.
#[derive(Debug, thiserror::Error)]
#[error("{error}; that command comes from {place}, which takes precedence over key.bin")]
pub struct OutrankingError {
    pub error: CommandError,
    pub(super) place: &'static str,
}

/// The file of a file slot gives nothing.
#[derive(Debug, thiserror::Error)]
#[error("the file {0} that holds the key cannot be read ({1}): mount or restore it")]
pub struct KeyFileReadError(pub(super) PathBuf, pub(super) io::Error);

impl Exit for UnlockError {
    fn code(&self) -> Code {
        match self {
            Self::Converting(error) => error.code(),
            Self::KeyBin(error) => error.code(),
            Self::Altered(_) | Self::RawReceived(_) => Code::KeyFile,
            Self::Machine(error) => error.code(),
            Self::NotApproved(error) => error.code(),
            Self::Variable(error) => error.code(),
            Self::Slot(_, error) => error.code(),
            Self::Slots(_, errors) => {
                let first = errors.first();
                first.map_or(Code::Provider, |(_, error)| error.code())
            }
        }
    }
}

impl Exit for SlotError {
    fn code(&self) -> Code {
        match self {
            Self::Command(error) | Self::Outranking(OutrankingError { error, .. }) => error.code(),
            Self::Derived(error) => error.code(),
            Self::NotApproved(error) => error.code(),
            Self::Payload(_) => Code::WrongKey,
            Self::Source(_)
            | Self::Writer(_)
            | Self::Passphrase(_)
            | Self::NotAnAesKey(_)
            | Self::KeyFile(_) => Code::Provider,
        }
    }
}

impl Exit for DerivedError {
    fn code(&self) -> Code {
        match self {
            Self::Wrong(_) | Self::Payload(_) => Code::WrongKey,
            Self::Derive(_) | Self::Short(_) => Code::Provider,
            Self::Random(_) => Code::Io,
        }
    }
}

fn listed(failures: &[(u8, SlotError)]) -> String {
    let each = failures
        .iter()
        .map(|(id, error)| format!("slot {id}: {error}"));
    each.collect::<Vec<_>>().join("; ")
}
