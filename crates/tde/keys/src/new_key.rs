//! The key of a new cluster: its length, whether it is made or copied, and how it is protected.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pgseal_contract::variable;
use pgseal_crypto::{random_bytes, KeyLength, MasterKey, RandomError, Suite, UnknownKeyLength};
use pgseal_format::{AddError, ClusterId, Header, KeyFile, KeyImage};
use zeroize::Zeroizing;

use crate::cluster::Root;
use crate::command;
use crate::cost::memory_kib;
use crate::exit::{Code, Exit};
use crate::keybin::{self, KeyDir};
use crate::new_slot::{Hardening, NewSlot, NewSlotError, Ready};
use crate::passphrase::{self, Source};
use crate::unlock::{unlock_from, SlotError, UnlockError, Unlocked, Ways, UNWRAP_COMMAND};

/// Variable of the wrap command, as in other products.
pub const WRAP_COMMAND: &str = variable::WRAP_COMMAND.as_str();

/// The option that names the file of a new key's passphrase.
const PASSPHRASE_FILE: &str = "--key-passphrase-file";

/// Why a new cluster has no key.
#[derive(Debug, thiserror::Error)]
pub enum NewKeyError {
    #[error("{0}")]
    Length(UnknownKeyLength),
    #[error("{0:?} is not a key length: use 128, 192 or 256")]
    LengthText(String),
    #[error("--data-encryption={wanted}, but the key is of {have} bits: leave the length out, or use a key of that length")]
    LengthDiffers { wanted: u16, have: u16 },
    #[error("--argon2-memory={0} cannot be used: {1}")]
    Memory(String, String),
    #[error("choose how to protect the key: give --key-wrap-command and --key-unwrap-command (or {WRAP_COMMAND} and {UNWRAP_COMMAND}), --key-provider, --key-passphrase, -K, --key-file, or --no-key-wrap for tests")]
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

impl Exit for NewKeyError {
    fn code(&self) -> Code {
        match self {
            Self::Random(_) => Code::Io,
            Self::NewSlot(error) => error.code(),
            Self::Check(error) => error.code(),
            Self::Unlock(error) => error.code(),
            Self::Length(_)
            | Self::LengthText(_)
            | Self::Memory(..)
            | Self::LengthDiffers { .. }
            | Self::NoWay
            | Self::HalfAPair
            | Self::PlainAndMore
            | Self::CopyAndMore
            | Self::Add(_) => Code::Usage,
        }
    }
}

/// A key that is not committed yet, with the bytes of its key file.
pub struct NewKey {
    pub cluster: Unlocked,
    pub image: Zeroizing<Vec<u8>>,
    ready: Vec<Ready>,
}

impl NewKey {
    /// Returns the key that another cluster's key file `image` holds.
    pub fn existing(cluster: Unlocked, image: Zeroizing<Vec<u8>>) -> Self {
        Self {
            cluster,
            image,
            ready: Vec::new(),
        }
    }

    /// Keeps what was made for the key, because the key is committed.
    pub fn keep(mut self) -> Unlocked {
        self.ready.iter_mut().for_each(Ready::keep);
        self.cluster
    }
}

/// The request for a new key: its length, and how it is protected. Both command lines, the
/// command's and the wrappers', are parsed into this.
#[derive(Default)]
pub struct KeyProtection {
    pub length: Option<KeyLength>,
    /// Wrap and unwrap command; an empty one is none, and is before the variable's.
    pub wrap_command: Option<String>,
    pub unwrap_command: Option<String>,
    /// The command that prints the key by which the new one is protected.
    pub key_command: Option<String>,
    /// The URI of a key in a service or a device.
    pub key_provider: Option<String>,
    /// A passphrase, from the terminal unless a file is named here or by the environment.
    pub passphrase: bool,
    pub passphrase_file: Option<PathBuf>,
    pub hardening: Hardening,
    /// The file that holds the key in clear.
    pub key_file: Option<PathBuf>,
    /// The key in clear in `key.bin`.
    pub plain: bool,
    /// The key file of another cluster, which is copied as it is.
    pub copy_from: Option<PathBuf>,
    /// The data directory of a cluster whose key is copied, if one is there and is sealed.
    pub same_as: Option<PathBuf>,
}

impl KeyProtection {
    /// Returns the ways by which a key that was made so opens.
    #[must_use]
    pub fn ways(&self) -> Ways {
        Ways {
            unwrap_command: self.unwrap_command.clone(),
            key_command: self.key_command.clone(),
            key_provider: self.key_provider.clone(),
            passphrase: Source::of_options(self.passphrase_file.clone(), None)
                .by_option(PASSPHRASE_FILE),
            agent: false,
        }
    }

    /// Returns the slots that are named. The environment counts only if none is.
    fn slots(&self) -> Result<Vec<NewSlot>, NewKeyError> {
        let mut slots = Vec::new();
        slots.extend(self.key_command.clone().map(NewSlot::KeyCommand));
        slots.extend(self.key_provider.clone().map(NewSlot::Provider));
        if self.passphrase || self.passphrase_file.is_some() {
            let file = self.passphrase_file.clone();
            slots.push(NewSlot::Passphrase {
                file: file.or_else(passphrase::file_of_environment),
                option: PASSPHRASE_FILE,
                hardening: self.hardening,
            });
        }
        slots.extend(self.key_file.clone().map(NewSlot::File));
        let pair_named = self.wrap_command.is_some() || self.unwrap_command.is_some();
        if self.plain {
            slots.push(NewSlot::Plain);
        } else if pair_named || slots.is_empty() {
            slots.push(self.pair()?);
        }
        let more = slots.len() > 1 || self.plain && pair_named;
        match slots.contains(&NewSlot::Plain) && more {
            true => Err(NewKeyError::PlainAndMore),
            false => Ok(slots),
        }
    }

    /// Returns the wrap and unwrap commands, each from its option or else from its variable.
    fn pair(&self) -> Result<NewSlot, NewKeyError> {
        let command = |option: &Option<String>, variable| match option {
            Some(option) => Ok(Some(option.clone()).filter(|command| !command.is_empty())),
            None => command::of_environment(variable).map_err(NewSlotError::from),
        };
        let wrap = command(&self.wrap_command, WRAP_COMMAND)?;
        let unwrap = command(&self.unwrap_command, UNWRAP_COMMAND)?;
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

    /// Returns the key directory of the cluster whose key is taken if it is sealed. A directory
    /// that holds no key file, or that cannot be looked at, is one of these: no new key is made.
    fn sealed_other(&self) -> Option<KeyDir> {
        let data = self.same_as.as_ref()?;
        match data.join(keybin::DIR).symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            _ => Some(KeyDir::of(data)),
        }
    }

    /// Whether a protection is named that a copied key file cannot get.
    fn is_more_than_a_copy(&self) -> bool {
        self.plain
            || self.key_command.is_some()
            || self.key_provider.is_some()
            || self.passphrase
            || self.passphrase_file.is_some()
            || self.key_file.is_some()
    }
}

/// Reads the length that an option asks for, in bits.
pub fn key_length(text: &str) -> Result<KeyLength, NewKeyError> {
    let bits = text.parse::<u16>();
    let bits = bits.map_err(|_| NewKeyError::LengthText(text.to_owned()))?;
    KeyLength::try_from(bits).map_err(NewKeyError::Length)
}

/// Reads the memory in KiB that an option asks for.
pub fn argon2_memory(text: &str) -> Result<u32, NewKeyError> {
    memory_kib(text).map_err(|why| NewKeyError::Memory(text.to_owned(), why))
}

/// Makes or copies the key that is asked for, and opens it once from the bytes that will be
/// stored.
pub fn new_key(protection: &KeyProtection, root: Root) -> Result<NewKey, NewKeyError> {
    if let Some(path) = &protection.copy_from {
        return copied(protection, path, root);
    }
    if let Some(dir) = protection.sealed_other() {
        return existing(&dir, root, &Ways::default());
    }
    let slots = protection.slots()?.into_iter();
    let ready = slots.map(|slot| slot.ready(&root.path));
    let ready = ready.collect::<Result<Vec<_>, _>>()?;
    let have = ready.iter().find_map(Ready::key_bits);
    let length = effective_length(protection.length, have)?;
    made(ready, root, length)
}

/// Returns the length that was asked for, else the length of the key that came in, else 256 bits.
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
        master: Arc::new(master),
        file: None,
        by_agent: false,
        source: None,
        key_material: Vec::new(),
    };
    Ok(NewKey {
        cluster,
        image,
        ready,
    })
}

/// Checks that every slot opens from the bytes that will be stored.
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

/// Copies the key file of another cluster as it is: the target of `pg_upgrade` shares the source's
/// key.
fn copied(protection: &KeyProtection, path: &Path, root: Root) -> Result<NewKey, NewKeyError> {
    if protection.is_more_than_a_copy() {
        return Err(NewKeyError::CopyAndMore);
    }
    let source = KeyDir::around(path);
    // No option of a copy names a passphrase.
    let ways = Ways {
        passphrase: Source::default(),
        ..protection.ways()
    };
    let key = existing(&source, root, &ways)?;
    effective_length(protection.length, Some(key.cluster.header.length.bits()))?;
    Ok(key)
}

/// Opens another cluster's key file, which becomes that of the cluster at `root`.
fn existing(source: &KeyDir, root: Root, ways: &Ways) -> Result<NewKey, NewKeyError> {
    let cluster = unlock_from(source, root, ways)?;
    let image = source.bytes().map_err(UnlockError::from)?;
    Ok(NewKey::existing(cluster, image))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut KeyProtection);

    fn with(changes: &[Change]) -> KeyProtection {
        let mut protection = KeyProtection::default();
        changes.iter().for_each(|change| change(&mut protection));
        protection
    }

    const PLAIN: Change = |asked| asked.plain = true;
    const COMMAND: Change = |asked| asked.key_command = Some("command".into());
    const PROVIDER: Change = |asked| asked.key_provider = Some("provider:x".into());
    const PASSPHRASE: Change = |asked| asked.passphrase = true;
    const PASSPHRASE_FROM: Change = |asked| asked.passphrase_file = Some("/file".into());
    const FILE: Change = |asked| asked.key_file = Some("/key".into());
    const WRAP: Change = |asked| asked.wrap_command = Some("wrap".into());
    const UNWRAP: Change = |asked| asked.unwrap_command = Some("unwrap".into());
    const NO_WRAP: Change = |asked| asked.wrap_command = Some("-".into());
    const NO_UNWRAP: Change = |asked| asked.unwrap_command = Some("-".into());

    #[test]
    fn each_protection_is_more_than_a_copy() {
        let named = [PLAIN, COMMAND, PROVIDER, PASSPHRASE, PASSPHRASE_FROM, FILE];
        for (at, one) in named.into_iter().enumerate() {
            assert!(with(&[one]).is_more_than_a_copy(), "{at}");
        }
        assert!(!with(&[]).is_more_than_a_copy());
        assert!(!with(&[|asked| asked.copy_from = Some("/other".into())]).is_more_than_a_copy());
    }

    /// Only a passphrase that is asked for, or read from a file, makes its slot.
    #[test]
    fn either_of_two_options_names_a_passphrase() {
        for (change, expected) in [(PASSPHRASE, true), (PASSPHRASE_FROM, true), (FILE, false)] {
            let slots = with(&[change]).slots().expect("one way");
            let is_passphrase = |slot: &NewSlot| matches!(slot, NewSlot::Passphrase { .. });
            assert_eq!(slots.iter().any(is_passphrase), expected);
        }
        assert!(matches!(argon2_memory("64MiB"), Ok(65_536)));
        assert!(matches!(
            argon2_memory("1MiB"),
            Err(NewKeyError::Memory(..))
        ));
    }

    /// Where it cannot be seen whether the other cluster is sealed, no new key is made.
    #[test]
    fn the_key_of_a_cluster_that_cannot_be_looked_at_is_not_made_anew() {
        let data = tempfile::tempdir().expect("a directory");
        let same_as = |path: PathBuf| {
            let mut protection = with(&[]);
            protection.same_as = Some(path);
            protection.sealed_other().is_some()
        };
        assert!(!same_as(data.path().to_owned()), "a plain cluster");
        std::fs::write(data.path().join("file"), "").expect("a file");
        assert!(same_as(data.path().join("file")), "not a directory");
        std::fs::create_dir(data.path().join(keybin::DIR)).expect("a directory");
        assert!(same_as(data.path().to_owned()), "a sealed cluster");
    }

    #[test]
    fn all_slots_that_are_named_are_made() {
        let file = with(&[PASSPHRASE_FROM, COMMAND, PROVIDER, FILE, WRAP, UNWRAP]);
        let expected = [
            NewSlot::KeyCommand("command".into()),
            NewSlot::Provider("provider:x".into()),
            NewSlot::Passphrase {
                file: Some("/file".into()),
                option: PASSPHRASE_FILE,
                hardening: Hardening::default(),
            },
            NewSlot::File("/key".into()),
            NewSlot::Command {
                wrap: "wrap".into(),
                unwrap: "unwrap".into(),
            },
        ];
        assert_eq!(file.slots().expect("a choice"), expected);
        let provider = with(&[PROVIDER]).slots().expect("a choice");
        assert_eq!(provider, [NewSlot::Provider("provider:x".into())]);
    }

    #[test]
    fn an_unprotected_key_is_asked_for_alone() {
        let slots = |changes: &[Change]| with(changes).slots();
        assert_eq!(slots(&[PLAIN]).expect("a choice"), [NewSlot::Plain]);
        assert_eq!(
            slots(&[NO_WRAP, NO_UNWRAP]).expect("a choice"),
            [NewSlot::Plain]
        );
        for more in [COMMAND, PROVIDER, PASSPHRASE_FROM, FILE] {
            assert!(matches!(
                slots(&[PLAIN, more]),
                Err(NewKeyError::PlainAndMore)
            ));
            let dashes = slots(&[NO_WRAP, NO_UNWRAP, more]);
            assert!(matches!(dashes, Err(NewKeyError::PlainAndMore)));
        }
        let pair = slots(&[PLAIN, WRAP, UNWRAP]);
        assert!(matches!(pair, Err(NewKeyError::PlainAndMore)));
        for half in [
            [NO_WRAP, UNWRAP],
            [WRAP, NO_UNWRAP],
            [WRAP, FILE],
            [UNWRAP, FILE],
        ] {
            assert!(matches!(slots(&half), Err(NewKeyError::HalfAPair)));
        }
    }

    #[test]
    fn the_length_is_what_was_asked_for_or_what_came() {
        let length = |asked, key| effective_length(asked, key).map(KeyLength::bits);
        assert_eq!(length(None, None).expect("the default"), 256);
        assert_eq!(length(None, Some(128)).expect("the key's"), 128);
        assert_eq!(
            length(Some(KeyLength::Bits192), None).expect("asked for"),
            192
        );
        assert_eq!(
            length(Some(KeyLength::Bits192), Some(192)).expect("both"),
            192
        );
        let differs = length(Some(KeyLength::Bits192), Some(256)).expect_err("two lengths");
        let (wanted, have) = match differs {
            NewKeyError::LengthDiffers { wanted, have } => (wanted, have),
            other => panic!("{other}"),
        };
        assert_eq!((wanted, have), (192, 256));
    }
}
