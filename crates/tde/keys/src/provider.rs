//! Running `pgseal-kms`, the program that talks to key services and devices.
//!
//! It is a program of its own, beside this one, so that no client of a service and no driver of a
//! device is ever in the process that starts PostgreSQL. It gets bytes on standard input, gives
//! bytes on standard output, and says in one line on standard error why it cannot. The URI is one
//! argument of it: no shell reads the URI.

use std::path::Path;

use pgseal_format::ClusterId;

use crate::command::{self, CommandError, Secret};
use crate::writer::Rights;

/// The program, as it is installed.
pub const PROGRAM: &str = "pgseal-kms";

/// A request to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Wrap a payload.
    Wrap,
    /// Give the payload back.
    Unwrap,
    /// Print `current` or `older`: whether the service has a newer version of the key than the one
    /// that wrapped.
    Age,
}

impl Request {
    /// The argument that is replaced by the request.
    pub fn argument(self) -> &'static str {
        match self {
            Self::Wrap => "wrap",
            Self::Unwrap => "unwrap",
            Self::Age => "age",
        }
    }
}

/// The URI of a key, and the cluster that it is asked for: a service that can binds the wrapping to
/// the cluster's id.
pub type Key<'a> = (&'a str, ClusterId);

/// Wraps `payload` by the key that `key` names.
pub fn wrap(key: Key<'_>, payload: &[u8], data: &Path) -> Result<Vec<u8>, CommandError> {
    let wrapped = command::provider(Request::Wrap, key, None, payload, data)?;
    Ok(wrapped.to_vec())
}

/// Unwraps `wrapped` by the key that `key` names.
pub fn unwrap(
    key: Key<'_>,
    rights: Option<Rights>,
    wrapped: &[u8],
    data: &Path,
) -> Result<Secret, CommandError> {
    command::provider(Request::Unwrap, key, rights, wrapped, data)
}

/// Returns whether the service has a newer version of the key that `key` names than the one in
/// `wrapped`.
pub fn is_older(
    key: Key<'_>,
    rights: Option<Rights>,
    wrapped: &[u8],
    data: &Path,
) -> Result<bool, CommandError> {
    let answer = command::provider(Request::Age, key, rights, wrapped, data)?;
    match answer.trim_ascii() {
        b"current" => Ok(false),
        b"older" => Ok(true),
        _ => Err(CommandError::Answer(PROGRAM)),
    }
}
