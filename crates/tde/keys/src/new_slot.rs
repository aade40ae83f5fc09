//! Making slots: the ways in which initdb, `key wrap` and `key rotate` can protect a master key.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pgseal_crypto::{fips_module, MasterKey};
use pgseal_format::{Header, KeyImage, Payload, SecretSource, Slot, SlotKind};
use zeroize::Zeroizing;

use crate::approved::{Demand, NotApproved};
use crate::command::{self, CommandError};
use crate::cost;
use crate::exit::{Code, Exit};
use crate::keybin::give_as;
use crate::machine::MachineError;
use crate::passphrase::{read_new, PassphraseError};
use crate::provider;
use crate::unlock::{SlotError, Unlocker, Ways};
use crate::{command_key, open_derived, seal_derived, DerivedError, NotAnAesKey};

/// Why a slot cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum NewSlotError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Derived(#[from] DerivedError),
    #[error(transparent)]
    Passphrase(#[from] PassphraseError),
    #[error(transparent)]
    NotAnAesKey(#[from] NotAnAesKey),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    NotApproved(#[from] NotApproved),
    #[error("a FIPS build hardens passphrases by PBKDF2, which needs no memory: leave --argon2-memory out")]
    NoArgon2,
    #[error("the key file {0} cannot be written ({1}): give the path of a new file outside the data directory")]
    KeyFile(PathBuf, io::Error),
    #[error("{0} is in the data directory that it shall protect: give a path outside")]
    KeyFileInside(PathBuf),
}

impl Exit for NewSlotError {
    fn code(&self) -> Code {
        match self {
            Self::Command(error) => error.code(),
            Self::Derived(error) => error.code(),
            Self::Passphrase(_) | Self::NotAnAesKey(_) => Code::Provider,
            Self::Machine(error) => error.code(),
            Self::NotApproved(error) => error.code(),
            Self::KeyFile(..) => Code::Io,
            Self::KeyFileInside(_) | Self::NoArgon2 => Code::Usage,
        }
    }
}

/// A way to protect a key, as the operator asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewSlot {
    /// The key is in clear in the key file.
    Plain,
    /// A pair of commands wraps and unwraps the key.
    Command { wrap: String, unwrap: String },
    /// A command prints a key that protects it.
    KeyCommand(String),
    /// A passphrase protects the key. It comes from a file or, without one, from the terminal.
    Passphrase {
        file: Option<PathBuf>,
        /// the option that would have named a file
        option: &'static str,
        hardening: Hardening,
    },
    /// The key is in clear in a file elsewhere.
    File(PathBuf),
    /// A service or a device protects the key; the URI names it.
    Provider(String),
}

/// The operator's demands on a new passphrase and on its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hardening {
    /// the memory in KiB that opening takes, instead of what this machine can spare
    pub memory_kib: Option<u32>,
    /// takes a passphrase that can be guessed
    pub allow_weak: bool,
}

/// A way with its secret, if it has one, at hand, so that the secret is asked for once. A key file
/// that it has made is removed again, unless it is kept.
pub struct Ready {
    way: NewSlot,
    secret: Option<Zeroizing<Vec<u8>>>,
    key_file: Option<PathBuf>,
}

impl Drop for Ready {
    fn drop(&mut self) {
        if let Some(path) = &self.key_file {
            // Ours alone, and useless: left behind, it would only be in the way.
            let _ = fs::remove_file(path);
        }
    }
}

impl NewSlot {
    /// Asks for the passphrase or runs the key command.
    pub fn ready(self, data: &Path) -> Result<Ready, NewSlotError> {
        let secret = match &self {
            Self::Passphrase {
                file,
                option,
                hardening,
            } => {
                if hardening.memory_kib.is_some() && fips_module().is_some() {
                    return Err(NewSlotError::NoArgon2);
                }
                Some(read_new(file.as_deref(), option, hardening.allow_weak)?)
            }
            Self::KeyCommand(line) => Some(command_key(&command::key(line, None, data)?)?),
            Self::Plain | Self::Command { .. } | Self::File(_) | Self::Provider(_) => None,
        };
        Ok(Ready {
            way: self,
            secret,
            key_file: None,
        })
    }
}

impl Ready {
    /// Returns the length in bits of the key that a key command printed.
    pub fn key_bits(&self) -> Option<u16> {
        match (&self.way, &self.secret) {
            (NewSlot::KeyCommand(_), Some(key)) => u16::try_from(8 * key.len()).ok(),
            _ => None,
        }
    }

    /// Keeps the key file that was made, because it belongs to a cluster from now on.
    pub fn keep(&mut self) {
        self.key_file = None;
    }

    /// Keeps the key file that was made, unless `image` is known not to name it.
    pub fn keep_if_named(&mut self, image: Option<&KeyImage>) {
        let Some(KeyImage::File(file)) = image else {
            return self.keep();
        };
        let named = file.slots().iter().any(|slot| match &slot.kind {
            SlotKind::File { path } => {
                Some(OsStr::from_bytes(path)) == self.key_file.as_deref().map(Path::as_os_str)
            }
            _ => false,
        });
        if named {
            self.keep();
        }
    }

    /// Makes the slot for the cluster at `data`, if the machine's policy allows it.
    pub fn make(
        &mut self,
        header: &Header,
        master: &MasterKey,
        data: &Path,
    ) -> Result<SlotKind, NewSlotError> {
        let demand = Demand::of_machine()?;
        demand.header(header)?;
        if let NewSlot::Provider(uri) = &self.way {
            // Before the key leaves for the service.
            demand.provider(uri)?;
        }
        let kind = self.made(header, master, data)?;
        demand.slot(&kind)?;
        Ok(kind)
    }

    fn made(
        &mut self,
        header: &Header,
        master: &MasterKey,
        data: &Path,
    ) -> Result<SlotKind, NewSlotError> {
        let payload = Payload::encode(master, header);
        let (source, cost) = match &self.way {
            NewSlot::Plain => return Ok(SlotKind::Plain { payload }),
            NewSlot::Command { wrap, unwrap } => {
                let wrapped = command::wrap(wrap, &payload, data)?;
                return Ok(SlotKind::Command {
                    unwrap: unwrap.clone(),
                    wrapped,
                });
            }
            NewSlot::File(path) => {
                let path = write_payload(path, &payload, data)?;
                self.key_file = Some(path.clone());
                return Ok(SlotKind::File {
                    path: path.into_os_string().into_vec(),
                });
            }
            NewSlot::Provider(uri) => {
                return Ok(SlotKind::Provider {
                    wrapped: provider::wrap((uri, header.cluster), &payload, data)?,
                    uri: uri.clone(),
                });
            }
            NewSlot::KeyCommand(line) => (SecretSource::Command(line.clone()), cost::least()),
            NewSlot::Passphrase { hardening, .. } => {
                (SecretSource::Passphrase, cost::asked(hardening.memory_kib))
            }
        };
        let secret = self
            .secret
            .as_ref()
            .expect("these ways have a secret once they are ready");
        Ok(seal_derived(header, master, source, cost, secret)?)
    }

    /// Opens a slot that was made so, as it will be opened later.
    pub fn open(&self, header: &Header, slot: &Slot, data: &Path) -> Result<MasterKey, SlotError> {
        if let (
            SlotKind::Derived {
                source,
                kdf,
                wrapped,
            },
            Some(secret),
        ) = (&slot.kind, &self.secret)
        {
            return Ok(open_derived(header, source, kdf, wrapped, secret)?);
        }
        let mut ways = Ways::default();
        match &self.way {
            NewSlot::Command { unwrap, .. } => ways.unwrap_command = Some(unwrap.clone()),
            NewSlot::Provider(uri) => ways.key_provider = Some(uri.clone()),
            _ => {}
        }
        Unlocker::fixed(data, ways).slot(header, slot)
    }
}

/// Writes the payload to a new file, never over an existing one: that may be the only key of
/// another cluster.
fn write_payload(path: &Path, payload: &[u8], data: &Path) -> Result<PathBuf, NewSlotError> {
    let failed = |error| NewSlotError::KeyFile(path.to_owned(), error);
    let absolute = std::path::absolute(path).map_err(failed)?;
    let dir = absolute
        .parent()
        .unwrap_or(Path::new("/"))
        .canonicalize()
        .map_err(failed)?;
    if dir.starts_with(data) {
        return Err(NewSlotError::KeyFileInside(path.to_owned()));
    }
    let mut options = File::options();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&absolute)
        .map_err(failed)?;
    let written = fill(file, payload, data).and_then(|()| File::open(&dir)?.sync_all());
    if written.is_err() {
        // It would be in the way of the next try.
        let _ = fs::remove_file(&absolute);
    }
    written.map_err(failed)?;
    fs::canonicalize(&absolute).map_err(failed)
}

/// Fills the file. If root makes it, it belongs to the server's user, who has to read it.
fn fill(mut file: File, payload: &[u8], data: &Path) -> io::Result<()> {
    give_as(&file, data)?;
    file.write_all(payload)?;
    file.sync_all()
}
