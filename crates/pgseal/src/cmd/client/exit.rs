//! The exit codes of `pgseal client`.

use pgseal_client::ProtectError;
use pgseal_keys::exit::{Code, Exit};
use pgseal_options::exit::{of_identity, of_session};

use super::ClientFailure;

impl Exit for ClientFailure {
    fn code(&self) -> Code {
        match self {
            Self::Client(error) => of_session(error),
            Self::Identity(error) => of_identity(error),
            Self::Output(error) => error.code(),
            Self::Io(_) => Code::Io,
            Self::Evidence(error) => error.code(),
            Self::Protect(error) => of_protect(error),
            Self::Not(..) | Self::Script(_) => Code::Usage,
        }
    }
}

fn of_protect(error: &ProtectError) -> Code {
    match error {
        ProtectError::Client(error) | ProtectError::After(error) => of_session(error),
        ProtectError::NoTable(_) => Code::Usage,
        ProtectError::Obstacles(_) => Code::Found,
        ProtectError::Others(_)
        | ProtectError::Ready(_)
        | ProtectError::Locked
        | ProtectError::Running
        | ProtectError::Late(_) => Code::Busy,
        ProtectError::Count | ProtectError::Comment(_) => Code::Refused,
        ProtectError::Unknown(_) => Code::Io,
    }
}
