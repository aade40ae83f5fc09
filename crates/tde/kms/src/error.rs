//! Why a provider does not wrap or unwrap.

use pgseal_keys::exit::Failure;
use std::io;
use std::path::PathBuf;

use crate::uri::UriError;

/// One sentence for the operator, with the provider's own words where there are any. No variant
/// holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum KmsError {
    /// The URI names no key.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// The machine's policy refuses this program or its provider, or cannot be read.
    #[error("{0}")]
    Policy(Failure),
    /// No provider has this scheme.
    #[error(
        "there is no key provider {0}: use vault, pkcs11, kmip, awskms, gcpkms, azurekms or tpm"
    )]
    Scheme(String),
    /// The provider was left out of the build.
    #[cfg(not(feature = "aws"))]
    #[error("this pgseal-kms was built without {0}: install one that was built with it")]
    NotBuilt(&'static str),
    /// The command line is wrong.
    #[error("usage: pgseal-kms wrap|unwrap|age URI CLUSTER")]
    Usage,
    /// Standard input or output fails.
    #[error("the wrapped key cannot be passed ({0}): run this by pgseal")]
    Pipe(io::Error),
    /// The process cannot be hidden from others.
    #[error("this process cannot be hidden from debuggers ({0}), so no key is asked for")]
    Harden(nix::Error),
    /// A file of a secret or of certificates is of no use.
    #[error("{0} cannot be read ({1}): check its path, owner and mode")]
    File(PathBuf, io::Error),
    /// Others can read a file of a secret.
    #[error("{0} holds a secret, and other users can read it: chmod 600 it")]
    Readable(PathBuf),
    /// A file has no content of the kind that is needed.
    #[error("{0} has no {1}: check what it contains")]
    Content(PathBuf, &'static str),
    /// No credential is known.
    #[error("no credential for {0} was found: {1}")]
    NoCredential(&'static str, &'static str),
    /// The service does not answer in time.
    #[error("{service} does not answer ({why}): check its address, the network and that it runs")]
    Unreachable {
        /// The service and its address.
        service: String,
        /// The client's own words.
        why: String,
    },
    /// The service's certificate is not trusted.
    #[error("{service} is not trusted ({why}): check the host name and the authority in ca=")]
    Untrusted {
        /// The service and its address.
        service: String,
        /// The words of rustls.
        why: String,
    },
    /// The service answers with a redirect, which credentials must not follow.
    #[error("{0} redirects to another address: name the address of the active server")]
    Redirect(String),
    /// The service refuses.
    #[error("{service} refuses to {what} ({status}): {why}")]
    Refused {
        /// The service and its address.
        service: String,
        /// The request.
        what: &'static str,
        /// The status of the answer.
        status: String,
        /// The service's own words.
        why: String,
    },
    /// The service's answer has not the documented form.
    #[error("{0} gave an answer that is not of its documented form: check the address")]
    Answer(String),
    /// The sums that go with a request or an answer do not fit.
    #[error("what was sent to {0} or came back was damaged on its way: try again, and check the network's hardware if it stays")]
    Damaged(String),
    /// The wrapped key is of another provider or damaged.
    #[error("the wrapped key is not one that {0} made: restore key.bin from a copy")]
    Wrapped(&'static str),
    /// A device or its driver fails.
    #[error("{device} cannot {what}: {why}")]
    Device {
        /// The token or the driver.
        device: String,
        /// The call.
        what: &'static str,
        /// The driver's own words.
        why: String,
    },
    /// A device is missing, or there are several.
    #[error("{0}")]
    Choice(String),
    /// A PIN would be tried that failed before.
    #[error("{0} has counted a wrong PIN since its last login, and one more may lock it: correct the file of the PIN, then log in once by hand, with `pgseal key check` and --key-provider without pin-source")]
    PinCounted(String),
    /// The token is locked.
    #[error("{0} is locked after wrong PINs: unlock it with its own tools")]
    PinLocked(String),
    /// No PIN was typed.
    #[error("no PIN: {0}")]
    Pin(String),
    /// PCRs of the TPM have other values than those that the key was sealed to.
    #[error("the TPM does not give the key, because the PCRs have other values than when the slot was made: if firmware or boot was changed on purpose, open the cluster by another slot and run `pgseal key rotate` with --new-provider")]
    PcrsChanged,
    /// The present values of the PCRs are not signed.
    #[error("{0} does not sign the values that the PCRs have now: sign the policy of these values and put the signature there")]
    PcrsNotSigned(PathBuf),
    /// The kernel gives no random bytes.
    #[error("the system gives no random bytes ({0})")]
    Random(getrandom::Error),
}

impl KmsError {
    /// Returns a service's own words, on one line and without a full stop.
    pub fn words(text: Option<&str>) -> String {
        let text = text.unwrap_or("it gives no reason");
        text.trim_end_matches('.').replace(char::is_control, " ")
    }
}
