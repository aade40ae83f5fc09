//! `pgseal-kms`: asks a key service or device to wrap and unwrap the key of a cluster. The command
//! and the wrappers run it as `pgseal-kms wrap|unwrap|age URI CLUSTER`; it reads standard input,
//! writes standard output, and ends.
//!
//! Clients of services and drivers of devices are in this process and in no other: what preloads
//! into PostgreSQL, and what starts it, stays small. Nobody can attach to this process or get a
//! core of it. No credential is in its arguments.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod again;
#[cfg(feature = "aws")]
mod aws;
mod azure;
mod credential;
mod error;
mod gcp;
mod http;
pub mod kmip;
mod pkcs11;
mod tool;
mod tpm;
pub mod uri;
mod vault;

use std::env;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{setrlimit, Resource};
use pgseal_keys::approved;
use pgseal_keys::exit::{sentence, Code};
use zeroize::Zeroizing;

use crate::error::KmsError;
use crate::uri::Uri;

/// The most that is read from standard input: a wrapped key is shorter.
const MAX_INPUT: u64 = 64 * 1024;

type Secret = Zeroizing<Vec<u8>>;

/// A key that a service or a device keeps. `cluster` is the cluster's id in hexadecimal; where a
/// service can bind a wrapping to a text, it is that one.
trait Provider {
    /// Wraps a payload.
    fn wrap(&self, payload: &[u8]) -> Result<Vec<u8>, KmsError>;
    /// Returns the payload.
    fn unwrap(&self, wrapped: &[u8]) -> Result<Secret, KmsError>;
    /// Returns whether the service has a newer version of the key than the one that wrapped.
    fn is_older(&self, wrapped: &[u8]) -> Result<bool, KmsError>;
}

/// Finds the provider of a URI.
fn provider(text: &str, cluster: &str) -> Result<Box<dyn Provider>, KmsError> {
    let uri = Uri::parse(text)?;
    match uri.scheme.as_str() {
        "vault" | "vault+http" => Ok(Box::new(vault::Vault::new(uri, cluster)?)),
        "kmip" => Ok(Box::new(kmip::Key::new(uri, cluster)?)),
        #[cfg(feature = "aws")]
        "awskms" => Ok(Box::new(aws::Key::new(uri, cluster)?)),
        #[cfg(not(feature = "aws"))]
        "awskms" => Err(KmsError::NotBuilt("awskms")),
        "gcpkms" => Ok(Box::new(gcp::Key::new(uri, cluster)?)),
        "azurekms" => Ok(Box::new(azure::Key::new(uri)?)),
        "tpm" => Ok(Box::new(tpm::Tpm::new(uri)?)),
        "pkcs11" => Ok(Box::new(pkcs11::Token::new(uri, cluster)?)),
        _ => Err(KmsError::Scheme(uri.scheme)),
    }
}

/// Does what the command line says. Only [`uri`] and the messages of [`kmip`] are of use to others:
/// fuzzers.
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let line = format!("pgseal-kms: {}\n", sentence(&error));
            // Only the exit code is left, if standard error has no reader.
            let _ = io::stderr().write_all(line.as_bytes());
            Code::Provider.into()
        }
    }
}

fn run() -> Result<(), KmsError> {
    hide()?;
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (request, uri, cluster) = match arguments[..] {
        ["--version"] => return version(),
        [request, uri, cluster] => (request, uri, cluster),
        _ => return Err(KmsError::Usage),
    };
    let demand = approved::check_build().map_err(KmsError::Policy)?;
    demand
        .provider(uri)
        .map_err(|refused| KmsError::Policy(refused.into()))?;
    let provider = provider(uri, cluster)?;
    let output = match request {
        "wrap" => Zeroizing::new(provider.wrap(&input()?)?),
        "unwrap" => provider.unwrap(&input()?)?,
        "age" => Zeroizing::new(age(provider.is_older(&input()?)?).to_vec()),
        _ => return Err(KmsError::Usage),
    };
    io::stdout().write_all(&output).map_err(KmsError::Pipe)
}

fn age(is_older: bool) -> &'static [u8] {
    match is_older {
        true => b"older\n",
        false => b"current\n",
    }
}

fn version() -> Result<(), KmsError> {
    let line = concat!("pgseal-kms ", env!("PGSEAL_BUILD"), "\n");
    io::stdout()
        .write_all(line.as_bytes())
        .map_err(KmsError::Pipe)
}

/// Hides the memory of this process from debuggers and cores, before a key is in it.
fn hide() -> Result<(), KmsError> {
    set_dumpable(false).map_err(KmsError::Harden)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(KmsError::Harden)
}

/// Reads all of standard input. The buffer never grows: copies of a key would stay behind.
fn input() -> Result<Secret, KmsError> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(64 * 1024));
    let mut limited = io::stdin().take(MAX_INPUT);
    limited.read_to_end(&mut bytes).map_err(KmsError::Pipe)?;
    Ok(bytes)
}
