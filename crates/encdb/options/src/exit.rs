//! The exit codes of programs that open an owner's sessions.

use std::io::ErrorKind;

use pgseal_client::{ClientError, IdentityFileError, ListError};
use pgseal_keys::exit::Code;

/// Returns the exit code of an identity file that cannot be used.
pub fn of_identity(error: &IdentityFileError) -> Code {
    match error {
        IdentityFileError::Read(_, error) if error.kind() == ErrorKind::NotFound => Code::KeyFile,
        IdentityFileError::Read(..) | IdentityFileError::Write(..) => Code::Io,
        IdentityFileError::Exists(_) | IdentityFileError::TooLong(_) => Code::Usage,
        IdentityFileError::Open(_) | IdentityFileError::Text(..) => Code::KeyFile,
    }
}

fn of_list(error: &ListError) -> Code {
    match error {
        ListError::Name
        | ListError::TableName
        | ListError::Plain(..)
        | ListError::NotPlain(_)
        | ListError::Literal(_)
        | ListError::Code(_) => Code::Usage,
        _ => Code::NotGuaranteed,
    }
}

/// Returns the exit code of a session, or of a statement in one, that fails.
pub fn of_session(error: &ClientError) -> Code {
    match error {
        ClientError::Server(error) if error.code().is_none() => Code::Io,
        ClientError::Random(_) | ClientError::Tls(_) => Code::Io,
        ClientError::Server(_)
        | ClientError::NotAllowed(_)
        | ClientError::KeyExists(_)
        | ClientError::RevocationNotKept
        | ClientError::Message(_)
        | ClientError::Refused { .. } => Code::Refused,
        ClientError::Line(_, error) => of_session(error),
        ClientError::NotInstalled => Code::NotSealed,
        ClientError::Evidence(_) | ClientError::Pooled | ClientError::Switched => {
            Code::NotGuaranteed
        }
        ClientError::List(error) => of_list(error),
        ClientError::NoKey(_)
        | ClientError::KeyRefused(..)
        | ClientError::OpensOnly(_)
        | ClientError::NoKeyOfCell(_)
        | ClientError::NoLegacyKey
        | ClientError::Cell(_) => Code::WrongKey,
        ClientError::Connection(_)
        | ClientError::Value(_)
        | ClientError::Arguments { .. }
        | ClientError::NotEncrypted(_)
        | ClientError::NotPlain(_)
        | ClientError::ParameterMixed(_)
        | ClientError::WhichType(_)
        | ClientError::Array
        | ClientError::Copy
        | ClientError::CopyEscape
        | ClientError::CopyFields { .. }
        | ClientError::ColumnArray(_)
        | ClientError::ColumnMixed { .. }
        | ClientError::PlainColumn(_)
        | ClientError::ParameterType { .. }
        | ClientError::ColumnType { .. }
        | ClientError::NotTheOwner
        | ClientError::Grant(_) => Code::Usage,
    }
}
