//! Unlocking a cluster: from its key file to an authenticated master key.
//!
//! Slots are tried in the order of their cost: plain, file, command, provider, key command,
//! passphrase. The first that opens wins; if none does, each says why.

mod age;
mod error;
mod order;
mod payload;
mod ways;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pgseal_contract::variable;
use pgseal_crypto::MasterKey;
use pgseal_format::{
    Altered, Header, KeyFile, KeyImage, SecretSource, Slot, SlotKind, UnverifiedKeyFile,
};
use zeroize::Zeroizing;

use crate::agent;
use crate::approved::Demand;
use crate::audit::{self, Event};
use crate::cluster::Root;
use crate::command::{self, CommandError};
use crate::conversion::refuse_converting;
use crate::exit::{Exit, Failure};
use crate::keybin::{KeyBinError, KeyDir};
use crate::machine::Machine;
use crate::passphrase::{self, Source};
use crate::provider;
use crate::writer::{self, Rights, WriterError};
use crate::{command_key, expand, open_derived, open_text, passphrase_files};
use crate::{DerivedError, Kind, Origin, Sources};
pub use error::{KeyFileReadError, OutrankingError, SlotError, UnlockError};
use payload::read_payload;
pub use ways::Ways;

/// Variable of the unwrap command, as in other products.
pub const UNWRAP_COMMAND: &str = variable::UNWRAP_COMMAND.as_str();

/// A cluster whose key is at hand.
pub struct Unlocked {
    pub root: Root,
    pub header: Header,
    pub master: Arc<MasterKey>,
    /// The slot that opened and the authenticated file; a raw `key.bin` has neither.
    pub file: Option<(u8, KeyFile)>,
    /// Whether an agent gave the key, and no slot was tried.
    pub by_agent: bool,
    /// The path and the owner of that file, if it was read here.
    pub source: Option<writer::Source>,
    /// The key material files, which open it or tell how: a server shows them to no client.
    pub key_material: Vec<PathBuf>,
}

impl Unlocked {
    /// Returns the slot that opened it; a raw `key.bin` has none.
    #[must_use]
    pub fn opened_by(&self) -> Option<&Slot> {
        let (number, file) = self.file.as_ref()?;
        file.slots().iter().find(|slot| slot.id == *number)
    }
}

/// Opens the key file of `root`, unless its files are under two keys at present.
pub fn unlock(root: Root, ways: &Ways) -> Result<Unlocked, UnlockError> {
    refuse_converting(&root.path)?;
    unlock_from(&KeyDir::of(&root.path), root, ways)
}

/// Opens the key file in `dir` for the cluster at `root`, and records it.
pub fn unlock_from(dir: &KeyDir, root: Root, ways: &Ways) -> Result<Unlocked, UnlockError> {
    let data = root.path.clone();
    recorded(&data, open(dir, root, ways))
}

/// Records whether the key of the cluster at `data` was opened.
fn recorded(data: &Path, opened: Result<Unlocked, UnlockError>) -> Result<Unlocked, UnlockError> {
    match &opened {
        Ok(unlocked) => {
            let slot = unlocked.file.as_ref().map(|(slot, _)| *slot);
            let by_agent = unlocked.by_agent;
            let event = Event::Unlocked { slot, by_agent };
            audit::record(data, Some(&unlocked.header), event);
        }
        Err(error) => audit::record(data, None, Event::Failed { code: error.code() }),
    }
    opened
}

fn open(dir: &KeyDir, root: Root, ways: &Ways) -> Result<Unlocked, UnlockError> {
    let (image, source) = dir.open()?;
    let source = Some(source);
    match image {
        KeyImage::File(file) => {
            let unlocker = Unlocker::new(file.header(), source.clone(), &root.path, ways)?;
            let opened = unlocker.file(file, &dir.key_bin())?;
            Ok(opened.of(root, source))
        }
        KeyImage::Raw(wrapped) => {
            let header = dir.header()?;
            let unlocker = Unlocker::new(&header, source.clone(), &root.path, ways)?;
            let found = unlocker.of_agent(&header);
            let by_agent = found.is_some();
            let opened = match found {
                Some(found) => Ok(found.master),
                None => unlocker.command_slot(&header, None, &wrapped),
            };
            let master = opened.map_err(|error| slot_error(dir.key_bin(), error))?;
            let master = Arc::new(master);
            let key_material = unlocker.key_material(&[]);
            Ok(Unlocked {
                root,
                header,
                master,
                file: None,
                by_agent,
                source,
                key_material,
            })
        }
    }
}

/// Opens the key file that `--key-file-name` names, wherever it is.
pub fn unlock_named(file: &Path, ways: &Ways) -> Result<Unlocked, Failure> {
    let file = std::path::absolute(file).unwrap_or(file.to_owned());
    let root = Root::pending(file.parent().unwrap_or(&file))?;
    Ok(unlock_from(&KeyDir::around(&file), root, ways)?)
}

/// Opens a key file that came over the network, and which `origin` names, for the cluster at
/// `root`, and records it. No command that it holds is run.
pub fn unlock_received(
    bytes: &[u8],
    origin: &Path,
    root: Root,
    ways: &Ways,
) -> Result<Unlocked, UnlockError> {
    let data = root.path.clone();
    recorded(&data, open_received(bytes, origin, root, ways))
}

fn open_received(
    bytes: &[u8],
    origin: &Path,
    root: Root,
    ways: &Ways,
) -> Result<Unlocked, UnlockError> {
    let image = KeyImage::decode(bytes);
    match image.map_err(|error| KeyBinError::Format(origin.to_owned(), error))? {
        KeyImage::File(file) => {
            let mut unlocker = Unlocker::new(file.header(), None, &root.path, ways)?;
            unlocker.unwrap.external = true;
            unlocker.key.external = true;
            unlocker.provider.external = true;
            let opened = unlocker.file(file, origin)?;
            Ok(opened.of(root, None))
        }
        KeyImage::Raw(_) => Err(UnlockError::RawReceived(origin.to_owned())),
    }
}

/// Opens a copy of the key file that `source` names, for the cluster at `root`, and records it. The
/// copy, at `origin`, was written by this process from what it read there, so the commands in it
/// are those of that file.
pub fn unlock_copy(
    copy: UnverifiedKeyFile,
    origin: &Path,
    source: writer::Source,
    root: Root,
    ways: &Ways,
) -> Result<Unlocked, UnlockError> {
    let data = root.path.clone();
    let opened = || {
        let unlocker = Unlocker::new(copy.header(), Some(source.clone()), &data, ways)?;
        unlocker.file(copy, origin)
    };
    let opened = opened();
    recorded(&data, opened.map(|opened| opened.of(root, Some(source))))
}

/// A key file that opened, before its cluster is known.
struct Opened {
    slot: u8,
    master: MasterKey,
    file: KeyFile,
    by_agent: bool,
    key_material: Vec<PathBuf>,
}

impl Opened {
    fn of(self, root: Root, source: Option<writer::Source>) -> Unlocked {
        Unlocked {
            root,
            header: self.file.header().clone(),
            master: Arc::new(self.master),
            file: Some((self.slot, self.file)),
            by_agent: self.by_agent,
            source,
            key_material: self.key_material,
        }
    }
}

/// Opens the slots of one cluster.
pub struct Unlocker<'a> {
    source: Option<writer::Source>,
    data: &'a Path,
    unwrap: Sources,
    key: Sources,
    provider: Sources,
    passphrase: Source,
    agent: bool,
    /// Must only approved functions open them?
    demand: Demand,
    /// The files that may hold the passphrase.
    files: Vec<PathBuf>,
    /// This machine's file about the cluster, if it exists.
    of_machine: Option<PathBuf>,
}

impl<'a> Unlocker<'a> {
    /// Gathers what command line, environment and machine name. Commands of the key file itself
    /// are run only if `source` says who wrote it.
    pub fn new(
        header: &Header,
        source: Option<writer::Source>,
        data: &'a Path,
        ways: &Ways,
    ) -> Result<Self, UnlockError> {
        let machine = Machine::this();
        let (external, demand) = (machine.is_external()?, Demand::of_machine()?);
        demand.header(header)?;
        let cluster = machine.cluster(header.cluster)?;
        let files = ways.passphrase_files(cluster.passphrase_file.as_ref());
        let command_line = ways.unwrap_command.clone().and_then(given);
        let environment = match command_line {
            Some(_) => None,
            None => command::of_environment(UNWRAP_COMMAND).map_err(UnlockError::Variable)?,
        };
        let unwrap = Sources {
            kind: Kind::UnwrapCommand,
            command_line,
            environment: environment.and_then(given),
            machine: cluster.key_unwrap_command,
            external,
        };
        let key = Sources {
            kind: Kind::KeyCommand,
            command_line: ways.key_command.clone(),
            environment: None,
            machine: cluster.encryption_key_command,
            external,
        };
        let provider = Sources {
            kind: Kind::Provider,
            command_line: ways.key_provider.clone(),
            environment: None,
            machine: cluster.key_provider,
            external,
        };
        let passphrase = ways.passphrase.or_file(cluster.passphrase_file);
        let of_machine = Some(machine.of_cluster(header.cluster)).filter(|path| path.exists());
        Ok(Self {
            source,
            data,
            unwrap,
            key,
            provider,
            files,
            of_machine,
            passphrase,
            agent: ways.agent,
            demand,
        })
    }

    /// Makes an unlocker that knows the unwrap command or the provider of `ways`, and nothing else.
    pub fn fixed(data: &'a Path, ways: Ways) -> Self {
        let only = |command_line| Sources {
            command_line,
            ..Sources::default()
        };
        Self {
            source: None,
            data,
            unwrap: only(ways.unwrap_command),
            key: Sources::default(),
            provider: only(ways.key_provider),
            passphrase: Source::default(),
            agent: false,
            demand: Demand::default(),
            files: Vec::new(),
            of_machine: None,
        }
    }

    /// Returns the commands that rank before a stored unwrap command.
    pub fn unwrap_sources(&self) -> &Sources {
        &self.unwrap
    }

    /// Returns the commands that rank before a stored key command.
    pub fn key_sources(&self) -> &Sources {
        &self.key
    }

    /// Returns the URIs that rank before a stored one.
    pub fn provider_sources(&self) -> &Sources {
        &self.provider
    }

    /// Opens and authenticates a key file, which `origin` names.
    fn file(&self, file: UnverifiedKeyFile, origin: &Path) -> Result<Opened, UnlockError> {
        let found = self.of_agent(file.header());
        let found = found.filter(|found| self.demand.allows(file.slots(), found.slot));
        let by_agent = found.is_some();
        let (slot, master) = match found {
            Some(found) => (found.slot, found.master),
            None => self.any_slot(&file, origin)?,
        };
        let authentic = file.authenticate(&master);
        let file = authentic.map_err(|Altered| UnlockError::Altered(origin.to_owned()))?;
        let key_material = self.key_material(file.slots());
        Ok(Opened {
            slot,
            master,
            file,
            by_agent,
            key_material,
        })
    }

    /// Asks the agent for the key, if that is allowed and there is one that has it.
    fn of_agent(&self, header: &Header) -> Option<agent::Found> {
        let agent = self.agent.then(agent::socket).flatten()?;
        agent::ask(&agent, header)
    }

    /// Returns all key material files of these slots, as far as they are named.
    fn key_material(&self, slots: &[Slot]) -> Vec<PathBuf> {
        let mut key_material = self.secret_files(slots);
        key_material.extend(self.of_machine.clone());
        key_material
    }

    /// Returns all files that hold a secret which opens these slots, as far as they are named.
    pub fn secret_files(&self, slots: &[Slot]) -> Vec<PathBuf> {
        let given = [&self.unwrap, &self.key].into_iter();
        let given = given.flat_map(|from| [&from.command_line, &from.environment, &from.machine]);
        let given = given.flatten().map(String::as_str);
        let stored = slots.iter().filter_map(|slot| match &slot.kind {
            SlotKind::Command { unwrap, .. } => Some(unwrap.as_str()),
            SlotKind::Derived {
                source: SecretSource::Command(line),
                ..
            } => Some(line.as_str()),
            _ => None,
        });
        let mut files = self.files.clone();
        let data = self.data.to_string_lossy();
        let of_commands = given.chain(stored).flat_map(passphrase_files);
        files.extend(of_commands.map(|file| self.data.join(expand(file, "", &data))));
        files.extend(slots.iter().filter_map(|slot| match &slot.kind {
            SlotKind::File { path } => Some(PathBuf::from(OsStr::from_bytes(path))),
            _ => None,
        }));
        files
    }

    fn any_slot(
        &self,
        file: &UnverifiedKeyFile,
        path: &Path,
    ) -> Result<(u8, MasterKey), UnlockError> {
        let mut slots: Vec<&Slot> = file.slots().iter().collect();
        slots.sort_by_key(|slot| order::cost(&slot.kind));
        let mut failures = Vec::new();
        for slot in slots {
            match self.slot(file.header(), slot) {
                Ok(master) => return Ok((slot.id, master)),
                Err(error) => failures.push((slot.id, error)),
            }
        }
        Err(match failures.len() {
            1 => slot_error(path.to_owned(), failures.remove(0).1),
            _ => UnlockError::Slots(path.to_owned(), failures),
        })
    }

    /// Opens one slot.
    pub fn slot(&self, header: &Header, slot: &Slot) -> Result<MasterKey, SlotError> {
        self.demand.slot(&slot.kind)?;
        match &slot.kind {
            SlotKind::Plain { payload } => Ok(open_text(payload, header)?),
            SlotKind::File { path } => {
                let path = Path::new(OsStr::from_bytes(path));
                Ok(open_text(&read_payload(path)?, header)?)
            }
            SlotKind::Command { unwrap, wrapped } => {
                self.command_slot(header, Some(unwrap), wrapped)
            }
            SlotKind::Provider { uri, wrapped } => {
                let found = self.provider.choose(Some(uri))?;
                self.demand.provider(found.0)?;
                let rights = self.rights(found)?;
                let text = provider::unwrap((found.0, header.cluster), rights, wrapped, self.data);
                Ok(open_text(&text.map_err(by(found))?, header)?)
            }
            SlotKind::Derived {
                source,
                kdf,
                wrapped,
            } => {
                let mut tries = self.tries(source);
                loop {
                    let secret = self.secret(source, slot.id)?;
                    tries -= 1;
                    match open_derived(header, source, kdf, wrapped, &secret) {
                        Err(DerivedError::Wrong(_)) if tries > 0 => {
                            passphrase::tell_wrong(slot.id);
                        }
                        opened => return Ok(opened?),
                    }
                }
            }
        }
    }

    /// Returns how often a secret is taken: a user may mistype a passphrase.
    fn tries(&self, source: &SecretSource) -> u8 {
        let typed = matches!(source, SecretSource::Passphrase) && self.passphrase.is_asked();
        if typed {
            3
        } else {
            1
        }
    }

    fn command_slot(
        &self,
        header: &Header,
        stored: Option<&str>,
        wrapped: &[u8],
    ) -> Result<MasterKey, SlotError> {
        let found = self.unwrap.choose(stored)?;
        let rights = self.rights(found)?;
        let text = command::unwrap(found.0, rights, wrapped, self.data).map_err(by(found))?;
        Ok(open_text(&text, header)?)
    }

    /// Returns the rights that a command runs with; none means those of this process.
    fn rights(&self, (_, origin): (&str, Origin)) -> Result<Option<Rights>, WriterError> {
        match origin {
            Origin::KeyFile => {
                let source = self.source.as_ref().ok_or(WriterError::NotRead)?;
                writer::check(source, self.data).map(Some)
            }
            Origin::CommandLine | Origin::Environment | Origin::Machine => Ok(None),
        }
    }

    fn secret(&self, source: &SecretSource, slot: u8) -> Result<Zeroizing<Vec<u8>>, SlotError> {
        match source {
            SecretSource::Passphrase => {
                let prompt = format!("Passphrase for {} (slot {slot}): ", self.data.display());
                Ok(self.passphrase.read(&prompt)?)
            }
            SecretSource::Command(stored) => {
                let found = self.key.choose(Some(stored))?;
                let rights = self.rights(found)?;
                let text = command::key(found.0, rights, self.data).map_err(by(found))?;
                Ok(command_key(&text)?)
            }
        }
    }
}

/// Returns where a command of this origin is, if it ranks before a slot's own and is no
/// option.
pub fn outranking(origin: Origin) -> Option<&'static str> {
    match origin {
        Origin::Environment => Some(UNWRAP_COMMAND),
        Origin::Machine => Some("/etc/pgseal"),
        Origin::CommandLine | Origin::KeyFile => None,
    }
}

/// Returns the error of a command that was found so.
fn by((_, origin): (&str, Origin)) -> impl FnOnce(CommandError) -> SlotError {
    move |error| match outranking(origin) {
        Some(place) => OutrankingError { error, place }.into(),
        None => error.into(),
    }
}

/// Returns the command. An empty one or `-` means none, as in other products.
fn given(command: String) -> Option<String> {
    (!command.is_empty() && command != "-").then_some(command)
}

fn slot_error(path: PathBuf, error: SlotError) -> UnlockError {
    UnlockError::Slot(path, Box::new(error))
}

#[cfg(test)]
mod tests;
