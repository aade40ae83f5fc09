//! The key of a new cluster: how long, made or copied, and how it is protected.

use pgseal_contract::variable;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pgseal_crypto::{random_bytes, KeyLength, MasterKey, RandomError, Suite, UnknownKeyLength};
use pgseal_format::{AddError, ClusterId, Header, KeyFile, KeyImage};
use zeroize::Zeroizing;

use super::options::{Name, Split};
use crate::cluster::Root;
use crate::command;
use crate::keybin::KeyDir;
use crate::new_slot::{NewSlot, NewSlotError, Ready};
use crate::passphrase;
use crate::unlock::{unlock_from, SlotError, UnlockError, Unlocked, UNWRAP_COMMAND};

/// Variable of the wrap command, as in other products.
pub const WRAP_COMMAND: &str = variable::WRAP_COMMAND.as_str();

/// Why a new cluster has no key.
#[derive(Debug, thiserror::Error)]
pub enum NewKeyError {
    #[error("{0}")]
    Length(UnknownKeyLength),
    #[error("{0:?} is not a key length: use 128, 192 or 256")]
    LengthText(String),
    #[error("--data-encryption={wanted}, but the key is of {have} bits: leave the length out, or use a key of that length")]
    LengthDiffers { wanted: u16, have: u16 },
    #[error("choose how to protect the key: give --key-wrap-command and --key-unwrap-command (or {WRAP_COMMAND} and {UNWRAP_COMMAND}), --key-passphrase, -K, --key-file, or --no-key-wrap for tests")]
    NoWay,
    #[error("wrap and unwrap command go together: give both, or - for both to leave the key unprotected")]
    HalfAPair,
    #[error("--no-key-wrap leaves the key unprotected, so no other protection can be given")]
    PlainAndMore,
    #[error("--copy-key-from copies the key with its protection: change that afterwards with `pgseal key rotate`")]
    CopyAndMore,
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error(transparent)]
    NewSlot(#[from] NewSlotError),
    #[error(transparent)]
    Add(#[from] AddError),
    #[error("the key cannot be unwrapped again: {0}")]
    Check(Box<SlotError>),
    #[error(transparent)]
    Unlock(#[from] UnlockError),
}

/// A key that is not committed yet, with the bytes of its key file.
pub struct NewKey {
    pub cluster: Unlocked,
    pub image: Zeroizing<Vec<u8>>,
    ready: Vec<Ready>,
}

impl NewKey {
    /// The key that another cluster's key file `image` holds.
    pub fn existing(cluster: Unlocked, image: Zeroizing<Vec<u8>>) -> Self {
        Self {
            cluster,
            image,
            ready: Vec::new(),
        }
    }

    /// The key is committed: what was made for it stays.
    pub fn keep(mut self) -> Unlocked {
        self.ready.iter_mut().for_each(Ready::keep);
        self.cluster
    }
}

/// The key that the options ask for, opened once from the bytes that will be stored.
pub fn new_key(split: &Split, root: Root) -> Result<NewKey, NewKeyError> {
    let length = asked_length(split)?;
    if let Some(path) = split.value(Name::CopyKeyFrom) {
        return copied(split, Path::new(path), root, length);
    }
    let ready = ways(split)?
        .into_iter()
        .map(|way| way.ready(&root.path))
        .collect::<Result<Vec<_>, _>>()?;
    let length = effective_length(length, ready.iter().find_map(Ready::key_bits))?;
    made(ready, root, length)
}

/// The length that was asked for, if one was.
fn asked_length(split: &Split) -> Result<Option<KeyLength>, NewKeyError> {
    let Some(text) = split.value(Name::DataEncryption) else {
        return Ok(None);
    };
    let bits: u16 = text
        .parse()
        .map_err(|_| NewKeyError::LengthText(text.to_owned()))?;
    KeyLength::try_from(bits)
        .map(Some)
        .map_err(NewKeyError::Length)
}

/// What was asked for, or the length of the key that came in, or 256.
fn effective_length(asked: Option<KeyLength>, key: Option<u16>) -> Result<KeyLength, NewKeyError> {
    match (asked, key) {
        (Some(wanted), Some(have)) if wanted.bits() != have => Err(NewKeyError::LengthDiffers {
            wanted: wanted.bits(),
            have,
        }),
        (Some(wanted), _) => Ok(wanted),
        (None, Some(have)) => KeyLength::try_from(have).map_err(NewKeyError::Length),
        (None, None) => Ok(KeyLength::Bits256),
    }
}

/// The ways that the options name. The environment counts only if they name none.
fn ways(split: &Split) -> Result<Vec<NewSlot>, NewKeyError> {
    let mut ways = Vec::new();
    if let Some(line) = split.value(Name::KeyCommand) {
        ways.push(NewSlot::KeyCommand(line.to_owned()));
    }
    let file = split.value(Name::KeyPassphraseFile).map(PathBuf::from);
    if file.is_some() || split.has(Name::KeyPassphrase) {
        ways.push(NewSlot::Passphrase {
            file: file.or_else(passphrase::file_of_environment),
            option: "--key-passphrase-file",
        });
    }
    if let Some(path) = split.value(Name::KeyFile) {
        ways.push(NewSlot::File(PathBuf::from(path)));
    }
    let pair_named = split.has(Name::WrapCommand) || split.has(Name::UnwrapCommand);
    if split.has(Name::NoKeyWrap) {
        ways.push(NewSlot::Plain);
    } else if pair_named || ways.is_empty() {
        ways.push(pair(split)?);
    }
    if ways.contains(&NewSlot::Plain)
        && (ways.len() > 1 || split.has(Name::NoKeyWrap) && pair_named)
    {
        return Err(NewKeyError::PlainAndMore);
    }
    Ok(ways)
}

/// Wrap and unwrap command, each from its option or else from its variable.
fn pair(split: &Split) -> Result<NewSlot, NewKeyError> {
    let command = |name, variable| match split.value(name) {
        Some(option) => Ok(Some(option.to_owned()).filter(|command| !command.is_empty())),
        None => command::of_environment(variable).map_err(NewSlotError::from),
    };
    let wrap = command(Name::WrapCommand, WRAP_COMMAND)?;
    let unwrap = command(Name::UnwrapCommand, UNWRAP_COMMAND)?;
    match (wrap, unwrap) {
        (None, None) => Err(NewKeyError::NoWay),
        (Some(wrap), Some(unwrap)) => match (wrap == "-", unwrap == "-") {
            (true, true) => Ok(NewSlot::Plain),
            (false, false) => Ok(NewSlot::Command { wrap, unwrap }),
            _ => Err(NewKeyError::HalfAPair),
        },
        _ => Err(NewKeyError::HalfAPair),
    }
}

fn made(mut ready: Vec<Ready>, root: Root, length: KeyLength) -> Result<NewKey, NewKeyError> {
    let master = MasterKey::generate()?;
    let header = Header {
        suite: Suite::AesXts,
        length,
        cluster: ClusterId(random_bytes()?),
        key_id: master.key_id(),
        created: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
    };
    let mut file = KeyFile::new(header.clone());
    for way in &mut ready {
        file.add(way.make(&header, &master, &root.path)?)?;
    }
    let image = file.write(&master);
    check(&image, &ready, &root.path)?;
    let cluster = Unlocked {
        root,
        header,
        master,
        file: None,
        source: None,
        openers: Vec::new(),
    };
    Ok(NewKey {
        cluster,
        image,
        ready,
    })
}

/// Every slot must open from the bytes that will be stored.
fn check(image: &[u8], ready: &[Ready], data: &Path) -> Result<(), NewKeyError> {
    let Ok(KeyImage::File(file)) = KeyImage::decode(image) else {
        unreachable!("a key file that was just written is read back");
    };
    for (slot, way) in file.slots().iter().zip(ready) {
        let opened = way.open(file.header(), slot, data);
        opened.map_err(|error| NewKeyError::Check(Box::new(error)))?;
    }
    Ok(())
}

/// The key file of another cluster as it is: the target of pg_upgrade shares the source's key.
fn copied(
    split: &Split,
    path: &Path,
    root: Root,
    asked: Option<KeyLength>,
) -> Result<NewKey, NewKeyError> {
    const MORE: [Name; 5] = [
        Name::NoKeyWrap,
        Name::KeyCommand,
        Name::KeyPassphrase,
        Name::KeyPassphraseFile,
        Name::KeyFile,
    ];
    if MORE.iter().any(|name| split.has(*name)) {
        return Err(NewKeyError::CopyAndMore);
    }
    let source = KeyDir::around(path);
    let cluster = unlock_from(&source, root, &split.ways())?;
    effective_length(asked, Some(cluster.header.length.bits()))?;
    let image = source.bytes().map_err(UnlockError::from)?;
    Ok(NewKey::existing(cluster, image))
}
