//! The exit codes of `pgseal client`.

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
            Self::Not(..) | Self::Script(_) => Code::Usage,
        }
    }
}
