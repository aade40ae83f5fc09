//! Adding and replacing slots: what `key wrap` and `key rotate` share.

use std::path::Path;
use std::time::Duration;

use pgseal_crypto::MasterKey;
use pgseal_format::{Header, KeyFile, Slot, SlotKind};
use pgseal_keys::audit::{self, Event};
use pgseal_keys::cluster::Root;
use pgseal_keys::command;
use pgseal_keys::exit::{sentence, Code, Exit, Failure};
use pgseal_keys::keybin::{KeyBinError, KeyDir, Locked};
use pgseal_keys::new_key::WRAP_COMMAND;
use pgseal_keys::new_slot::{NewSlot, NewSlotError};
use pgseal_keys::notes::Notebook;
use pgseal_keys::unlock::{outranking, unlock, SlotError, Unlocker, Ways, UNWRAP_COMMAND};
use pgseal_keys::{add_slot, RewriteError};

use super::due;
use crate::cli::key::NewOptions;
use crate::cli::unlock::ClusterOptions;
use crate::output;

/// Why the slots stay as they were.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("say how the key shall be protected: --new-wrap-command and --new-unwrap-command, --new-provider, --new-passphrase, --new-key-command, --new-key-file, or --new-plain for tests")]
    NoWay,
    #[error("the new wrap command needs its unwrap command: give --new-unwrap-command")]
    NoUnwrap,
    #[error("key.bin has no slot {0}: `pgseal key check --show` lists its slots")]
    NoSlot(u8),
    #[error("slot {0} is the only one, and without it nothing opens the cluster: add another first, with `pgseal key add`")]
    LastSlot(u8),
    #[error("slot {0} stays, because no other slot opens with what was given: give the secret of another one")]
    NoOther(u8),
    #[error(
        "key.bin is one raw wrapped key, which has no slots: `pgseal key rotate` makes one of it"
    )]
    Raw,
    #[error(transparent)]
    New(#[from] NewSlotError),
    #[error(transparent)]
    Rewrite(Box<RewriteError<KeyBinError, SlotError>>),
}

impl Exit for ChangeError {
    fn code(&self) -> Code {
        match self {
            Self::NoWay | Self::NoUnwrap | Self::NoSlot(_) | Self::LastSlot(_) | Self::Raw => {
                Code::Usage
            }
            Self::NoOther(_) => Code::WrongKey,
            Self::New(error) => error.code(),
            Self::Rewrite(error) => match &**error {
                RewriteError::Store(error) => error.code(),
                RewriteError::Add(_) => Code::Usage,
                RewriteError::Open(error) => error.code(),
                RewriteError::OtherKey => Code::WrongKey,
                RewriteError::ReadBack => Code::Io,
            },
        }
    }
}

/// Which slot goes.
pub enum Replace {
    None,
    Slot(u8),
    /// The one that opened the key now.
    Opened,
}

/// Makes the slot that `new` says and lets the old one go. The lock is held from before the key
/// file is read until the last generation is published. With an age as `limit` nothing is changed
/// while the slot that would go is not due.
pub fn change(
    cluster: &ClusterOptions,
    new: &NewOptions,
    replace: Replace,
    limit: Option<Duration>,
) -> Result<(), Failure> {
    let root = Root::required(&cluster.pgdata)?;
    let dir = KeyDir::of(&root.path);
    let mut locked = dir.lock()?;
    let opened = unlock(root, &cluster.unlock.ways())?;
    let data = &opened.root.path;
    let raw = opened.file.is_none();
    let (opened_slot, mut file) = match opened.file {
        Some((slot, file)) => (Some(slot), file),
        None => (None, KeyFile::new(opened.header.clone())),
    };
    let old = old_slot(&file, replace, opened_slot)?;
    let mut notebook = Notebook::open(data, &file, &opened.master);
    let unlocker = unlocker(&dir, &opened.header, data, &cluster.unlock.ways())?;
    let replaced = old.and_then(|id| find(&file, id));
    let way = new_slot(new, replaced, Some(&unlocker))?;
    if let (Some(limit), Some(slot)) = (limit, replaced) {
        let has_newer = || unlocker.is_older(&opened.header, slot);
        if let Some(why) = due::stays(slot, &notebook, limit, has_newer)? {
            return Ok(output::print(why)?);
        }
    }
    let mut ready = way.ready(data).map_err(ChangeError::from)?;
    let kind = ready
        .make(&opened.header, &opened.master, data)
        .map_err(ChangeError::from)?;
    let open = |header: &Header, slot: &Slot| ready.open(header, slot, data);
    let outranked = match &kind {
        SlotKind::Command { unwrap, .. } => outranked(&opened.header, data, unwrap)?,
        _ => None,
    };
    opened_slot
        .into_iter()
        .for_each(|slot| notebook.proved(slot));
    locked.store.restore_copy(&opened.header)?;
    let added = add_slot(
        &mut locked.store,
        &mut file,
        &opened.master,
        kind,
        old,
        open,
    );
    // A generation that names the new slot may be published even if the next one was not.
    ready.keep_if_named(dir.read().ok().as_ref());
    let id = added.map_err(|error| ChangeError::Rewrite(Box::new(error)))?;
    let event = match old {
        Some(_) => Event::Rotated { slot: id, old },
        None if raw => Event::Rotated { slot: id, old },
        None => Event::Added { slot: id },
    };
    audit::record(data, Some(&opened.header), event);
    let label = new.label.clone();
    let label = label.or_else(|| notebook.label(old?).map(str::to_owned));
    notebook.made(&file, id, label.as_deref());
    let unnoted = write_notes(notebook, &locked, data, &file, &opened.master);
    let warning = outranked.map_or(String::new(), warning);
    Ok(output::print_done(
        told(id, old, raw) + &warning + &unnoted,
    )?)
}

fn unlocker<'a>(
    dir: &KeyDir,
    header: &Header,
    data: &'a Path,
    ways: &Ways,
) -> Result<Unlocker<'a>, Failure> {
    let (_, source) = dir.open()?;
    Ok(Unlocker::new(header, Some(source), data, ways)?)
}

fn warning(place: &str) -> String {
    format!(
        "warning: another unwrap command, from {place}, takes precedence over the new slot's: \
        remove it or change it before the next start\n"
    )
}

/// Writes the notes after a change, and returns a warning if they could not be, or if those that
/// were there count no more.
pub fn write_notes(
    notebook: Notebook,
    locked: &Locked<'_>,
    data: &Path,
    file: &KeyFile,
    master: &MasterKey,
) -> String {
    let lost = lost(&notebook);
    let written = notebook.write(locked, data, file, master).err();
    let unwritten = written.map(|error| {
        let error = sentence(&error);
        format!("warning: this could not be noted for `pgseal key list`: {error}\n")
    });
    lost + &unwritten.unwrap_or_default()
}

/// Returns a warning if the notes that were there count no more.
pub fn lost(notebook: &Notebook) -> String {
    let why = notebook.lost();
    why.map_or(String::new(), |why| {
        format!("warning: {why}, so the labels and dates of the other slots are lost\n")
    })
}

/// Checks that `file` has this slot.
pub fn known(file: &KeyFile, slot: u8) -> Result<(), ChangeError> {
    match find(file, slot) {
        Some(_) => Ok(()),
        None => Err(ChangeError::NoSlot(slot)),
    }
}

/// Returns the message about the changed slots.
fn told(id: u8, old: Option<u8>, raw: bool) -> String {
    match (old, raw) {
        (Some(old), _) if old == id => format!("slot {id} opens the key now, and not as before\n"),
        (Some(old), _) => format!("slot {id} opens the key now, slot {old} is gone\n"),
        (None, true) => format!("slot {id} opens the key now, the raw key.bin is gone\n"),
        (None, false) => format!("slot {id} opens the key as well\n"),
    }
}

/// Where this process or machine has another command than a new slot's.
fn outranked(header: &Header, data: &Path, unwrap: &str) -> Result<Option<&'static str>, Failure> {
    let unlocker = Unlocker::new(header, None, data, &Ways::default())?;
    let found = unlocker.unwrap_sources().choose(None).ok();
    let other = found.filter(|(line, _)| *line != unwrap);
    Ok(other.and_then(|(_, origin)| outranking(origin)))
}

fn old_slot(
    file: &KeyFile,
    replace: Replace,
    opened: Option<u8>,
) -> Result<Option<u8>, ChangeError> {
    match replace {
        Replace::None => Ok(None),
        Replace::Opened => Ok(opened),
        Replace::Slot(id) if find(file, id).is_some() => Ok(Some(id)),
        Replace::Slot(id) => Err(ChangeError::NoSlot(id)),
    }
}

/// Returns the provider of a slot, at the address that this machine uses.
fn same_provider(
    old: Option<&Slot>,
    unlocker: Option<&Unlocker<'_>>,
) -> Result<NewSlot, ChangeError> {
    let kind = old.map(|slot| &slot.kind);
    let (Some(SlotKind::Provider { uri, .. }), Some(unlocker)) = (kind, unlocker) else {
        return Err(ChangeError::NoWay);
    };
    let found = unlocker.provider_sources().choose(Some(uri));
    let (uri, _) = found.map_err(|_| ChangeError::NoWay)?;
    Ok(NewSlot::Provider(uri.to_owned()))
}

fn find(file: &KeyFile, id: u8) -> Option<&Slot> {
    file.slots().iter().find(|slot| slot.id == id)
}

/// Returns the way that the options name, or the wrap command of the environment, or the provider
/// of the slot that goes.
pub fn new_slot(
    new: &NewOptions,
    old: Option<&Slot>,
    unlocker: Option<&Unlocker<'_>>,
) -> Result<NewSlot, ChangeError> {
    if new.new_plain {
        return Ok(NewSlot::Plain);
    }
    if let Some(line) = &new.new_key_command {
        return Ok(NewSlot::KeyCommand(line.clone()));
    }
    if let Some(uri) = &new.new_provider {
        return Ok(NewSlot::Provider(uri.clone()));
    }
    if new.new_passphrase || new.new_passphrase_file.is_some() {
        return Ok(NewSlot::Passphrase {
            file: new.new_passphrase_file.clone(),
            option: "--new-passphrase-file",
            hardening: new.hardening.hardening(),
        });
    }
    if let Some(path) = &new.new_key_file {
        return Ok(NewSlot::File(path.clone()));
    }
    let command = |option: &Option<String>, variable| match option {
        Some(_) => Ok(option.clone()),
        None => command::of_environment(variable).map_err(NewSlotError::from),
    };
    let wrap = command(&new.new_wrap_command, WRAP_COMMAND)?;
    let Some(wrap) = wrap else {
        return same_provider(old, unlocker);
    };
    let stored = || match old.map(|slot| &slot.kind) {
        Some(SlotKind::Command { unwrap, .. }) => Some(unwrap.clone()),
        _ => None,
    };
    let unwrap = command(&new.new_unwrap_command, UNWRAP_COMMAND)?;
    Ok(NewSlot::Command {
        wrap,
        unwrap: unwrap.or_else(stored).ok_or(ChangeError::NoUnwrap)?,
    })
}
