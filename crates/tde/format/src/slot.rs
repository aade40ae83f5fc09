//! One key slot of a key file.
//!
//! `u8 id || u8 type || u16 parameters' length || parameters || u16 blob's length || blob`
//!
//! | type | parameters | blob |
//! | --- | --- | --- |
//! | 1 plain | none | the payload in clear |
//! | 2 command | the unwrap command | what the wrap command wrote |
//! | 3 passphrase | salt, u32 KiB, u32 passes, u32 lanes | AES-256-GCM of the payload |
//! | 4 command key | as 3, then the command that prints the key | AES-256-GCM of the payload |
//! | 5 file | the path of a file that holds the payload in clear | none |
//! | 6 provider | the URI of a key in a service or device | what `pgseal-kms` made of the payload |
//! | 7 PBKDF2 passphrase | salt, u32 iterations | AES-256-GCM of the payload, nonce at its end |
//! | 8 PBKDF2 command key | as 7, then the command that prints the key | as 7 |
//!
//! Types 3 and 4, and 7 and 8, differ in where the secret comes from. A key that a command prints
//! is hardened like a passphrase: nobody can know how random it really is.

use pgseal_crypto::passphrase::{Argon2Params, ParamsError, SALT};
use pgseal_crypto::pbkdf2::{IterationsError, Pbkdf2Params};
use pgseal_crypto::sha256;
use zeroize::Zeroizing;

use crate::reader::Reader;
use crate::Header;

/// The most bytes of parameters or of a blob; well below what the length field can say.
const MAX_PART: usize = 60_000;

const PLAIN: u8 = 1;
const COMMAND: u8 = 2;
const PASSPHRASE: u8 = 3;
const COMMAND_KEY: u8 = 4;
const FILE: u8 = 5;
const PROVIDER: u8 = 6;
const PBKDF2_PASSPHRASE: u8 = 7;
const PBKDF2_COMMAND_KEY: u8 = 8;

/// A key slot and its number.
pub struct Slot {
    /// 1 to 16
    pub id: u8,
    /// how it is opened
    pub kind: SlotKind,
}

/// The ways to open a slot.
pub enum SlotKind {
    /// Nothing is needed: the payload is in clear.
    Plain {
        /// the payload
        payload: Zeroizing<Vec<u8>>,
    },
    /// A command that prints the payload.
    Command {
        /// as it was given to initdb, with its placeholders
        unwrap: String,
        /// what the wrap command wrote
        wrapped: Vec<u8>,
    },
    /// A secret, hardened by Argon2id or PBKDF2.
    Derived {
        /// where it comes from
        source: SecretSource,
        /// how it is hardened
        kdf: Kdf,
        /// the payload under AES-256-GCM
        wrapped: Vec<u8>,
    },
    /// A file elsewhere that holds the payload in clear.
    File {
        /// its absolute path
        path: Vec<u8>,
    },
    /// A key that a service or a device keeps.
    Provider {
        /// names the key, and no secret
        uri: String,
        /// the payload, as `pgseal-kms` wrapped it
        wrapped: Vec<u8>,
    },
}

/// Where the secret of a derived slot comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SecretSource {
    /// A person or a file that holds a passphrase.
    Passphrase,
    /// A command that prints a key in hexadecimal.
    Command(String),
}

/// How a secret is hardened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kdf {
    /// fresh for every wrapping
    pub salt: [u8; SALT],
    /// within the limits
    pub cost: Cost,
}

/// A function that hardens secrets, and what it costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// Argon2id: time and memory
    Argon2id(Argon2Params),
    /// PBKDF2-HMAC-SHA512: time alone, and approved by FIPS 140-3
    Pbkdf2(Pbkdf2Params),
}

/// Why a slot cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotError {
    Cut,
    Type(u8),
    Argon2(ParamsError),
    Pbkdf2(IterationsError),
    Bad(&'static str),
}

impl Kdf {
    /// Returns the associated data of a wrapping under this slot, which its tag covers beside the
    /// payload: the bound header, the slot's type and its parameters.
    pub fn aad(&self, header: &Header, source: &SecretSource) -> Vec<u8> {
        let mut aad = header.bound().to_vec();
        aad.push(self.slot_type(source));
        self.write(source, &mut aad);
        aad
    }

    fn slot_type(&self, source: &SecretSource) -> u8 {
        match (source, self.cost) {
            (SecretSource::Passphrase, Cost::Argon2id(_)) => PASSPHRASE,
            (SecretSource::Command(_), Cost::Argon2id(_)) => COMMAND_KEY,
            (SecretSource::Passphrase, Cost::Pbkdf2(_)) => PBKDF2_PASSPHRASE,
            (SecretSource::Command(_), Cost::Pbkdf2(_)) => PBKDF2_COMMAND_KEY,
        }
    }

    fn write(&self, source: &SecretSource, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.salt);
        self.cost.write(out);
        if let SecretSource::Command(command) = source {
            out.extend_from_slice(command.as_bytes());
        }
    }

    fn read(slot_type: u8, reader: &mut Reader<'_>) -> Result<Self, SlotError> {
        let salt = *reader.array().ok_or(SlotError::Cut)?;
        let cost = Cost::read(slot_type, reader)?;
        Ok(Self { salt, cost })
    }
}

impl Cost {
    fn write(self, out: &mut Vec<u8>) {
        let mut push = |number: u32| out.extend_from_slice(&number.to_le_bytes());
        match self {
            Self::Argon2id(params) => {
                push(params.memory_kib());
                push(params.passes());
                push(params.lanes());
            }
            Self::Pbkdf2(params) => push(params.iterations()),
        }
    }

    fn read(slot_type: u8, reader: &mut Reader<'_>) -> Result<Self, SlotError> {
        let mut number = || reader.u32().ok_or(SlotError::Cut);
        if matches!(slot_type, PBKDF2_PASSPHRASE | PBKDF2_COMMAND_KEY) {
            let params = Pbkdf2Params::for_reading(number()?).map_err(SlotError::Pbkdf2)?;
            return Ok(Self::Pbkdf2(params));
        }
        let (memory, passes, lanes) = (number()?, number()?, number()?);
        let params = Argon2Params::for_reading(memory, passes, lanes).map_err(SlotError::Argon2)?;
        Ok(Self::Argon2id(params))
    }
}

impl SlotKind {
    /// The name of this kind in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Plain { .. } => "plain",
            Self::Command { .. } => "command",
            Self::Derived { source, kdf, .. } => match (source, kdf.cost) {
                (SecretSource::Passphrase, Cost::Argon2id(_)) => "passphrase",
                (SecretSource::Command(_), Cost::Argon2id(_)) => "command key",
                (SecretSource::Passphrase, Cost::Pbkdf2(_)) => "pbkdf2 passphrase",
                (SecretSource::Command(_), Cost::Pbkdf2(_)) => "pbkdf2 command key",
            },
            Self::File { .. } => "file",
            Self::Provider { .. } => "provider",
        }
    }

    pub(crate) fn fits(&self) -> bool {
        self.params().len() <= MAX_PART && self.blob().len() <= MAX_PART
    }

    fn slot_type(&self) -> u8 {
        match self {
            Self::Plain { .. } => PLAIN,
            Self::Command { .. } => COMMAND,
            Self::Derived { source, kdf, .. } => kdf.slot_type(source),
            Self::File { .. } => FILE,
            Self::Provider { .. } => PROVIDER,
        }
    }

    fn params(&self) -> Vec<u8> {
        match self {
            Self::Plain { .. } => Vec::new(),
            Self::Command { unwrap, .. } => unwrap.as_bytes().to_vec(),
            Self::Derived { source, kdf, .. } => {
                let mut params = Vec::new();
                kdf.write(source, &mut params);
                params
            }
            Self::File { path } => path.clone(),
            Self::Provider { uri, .. } => uri.as_bytes().to_vec(),
        }
    }

    fn blob(&self) -> &[u8] {
        match self {
            Self::Plain { payload } => payload,
            Self::Command { wrapped, .. }
            | Self::Derived { wrapped, .. }
            | Self::Provider { wrapped, .. } => wrapped,
            Self::File { .. } => &[],
        }
    }
}

impl Slot {
    /// Bytes in the key file.
    pub(crate) fn size(&self) -> usize {
        2 + 2 + self.kind.params().len() + 2 + self.kind.blob().len()
    }

    /// Returns the name of this slot's exact bytes, by which notes about it are kept.
    pub fn fingerprint(&self) -> [u8; 16] {
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.size()));
        self.write(&mut bytes);
        let digest = sha256(&[&bytes]);
        std::array::from_fn(|at| digest[at])
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.id, self.kind.slot_type()]);
        for part in [&self.kind.params()[..], self.kind.blob()] {
            let len = u16::try_from(part.len()).expect("checked when the slot was added");
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(part);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, SlotError> {
        let id = reader.u8().ok_or(SlotError::Cut)?;
        if !(1..=16).contains(&id) {
            return Err(SlotError::Bad("a slot's id is not 1 to 16"));
        }
        let slot_type = reader.u8().ok_or(SlotError::Cut)?;
        let params = reader.counted().ok_or(SlotError::Cut)?;
        let blob = reader.counted().ok_or(SlotError::Cut)?;
        if params.len() > MAX_PART || blob.len() > MAX_PART {
            return Err(SlotError::Bad("a slot is too large"));
        }
        let kind = kind(slot_type, params, blob)?;
        Ok(Self { id, kind })
    }
}

fn kind(slot_type: u8, params: &[u8], blob: &[u8]) -> Result<SlotKind, SlotError> {
    match slot_type {
        PLAIN if params.is_empty() => Ok(SlotKind::Plain {
            payload: Zeroizing::new(blob.to_vec()),
        }),
        COMMAND => Ok(SlotKind::Command {
            unwrap: text(params)?,
            wrapped: blob.to_vec(),
        }),
        PASSPHRASE | COMMAND_KEY | PBKDF2_PASSPHRASE | PBKDF2_COMMAND_KEY => {
            derived(slot_type, params, blob)
        }
        FILE if blob.is_empty() && params.starts_with(b"/") => Ok(SlotKind::File {
            path: params.to_vec(),
        }),
        PROVIDER => Ok(SlotKind::Provider {
            uri: text(params)?,
            wrapped: blob.to_vec(),
        }),
        PLAIN | FILE => Err(SlotError::Bad(
            "a slot has parts that its type does not have",
        )),
        0 => Err(SlotError::Bad("a slot has type 0")),
        other => Err(SlotError::Type(other)),
    }
}

fn derived(slot_type: u8, params: &[u8], blob: &[u8]) -> Result<SlotKind, SlotError> {
    let mut reader = Reader::new(params);
    let kdf = Kdf::read(slot_type, &mut reader)?;
    let rest = reader.rest();
    let source = match slot_type {
        COMMAND_KEY | PBKDF2_COMMAND_KEY => SecretSource::Command(text(rest)?),
        _ if rest.is_empty() => SecretSource::Passphrase,
        _ => {
            return Err(SlotError::Bad(
                "a slot has parts that its type does not have",
            ))
        }
    };
    Ok(SlotKind::Derived {
        source,
        kdf,
        wrapped: blob.to_vec(),
    })
}

fn text(bytes: &[u8]) -> Result<String, SlotError> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| SlotError::Bad("a command or URI is not UTF-8"))?;
    if text.is_empty() || text.contains('\0') {
        return Err(SlotError::Bad(
            "a command or URI is empty or holds a zero byte",
        ));
    }
    Ok(text.to_owned())
}
