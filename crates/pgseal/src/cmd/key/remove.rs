//! `pgseal key remove`: a slot less. Another one must open first, so that no mistyped number and no
//! forgotten passphrase costs the data.

use std::process::ExitCode;

use pgseal_crypto::equal;
use pgseal_format::{KeyFile, Slot};
use pgseal_keys::audit::{self, Event};
use pgseal_keys::cluster::Root;
use pgseal_keys::exit::Failure;
use pgseal_keys::keybin::KeyDir;
use pgseal_keys::notes::Notebook;
use pgseal_keys::remove_slot;
use pgseal_keys::unlock::{unlock, SlotError, Unlocked, Unlocker, Ways};

use super::slots::{known, write_notes, ChangeError};
use crate::cli::key::RemoveArgs;
use crate::output;

pub fn run(args: &RemoveArgs) -> Result<ExitCode, Failure> {
    let root = Root::required(&args.cluster.pgdata)?;
    let dir = KeyDir::of(&root.path);
    let mut locked = dir.lock()?;
    let ways = args.cluster.unlock.ways();
    let mut opened = unlock(root, &ways)?;
    let (through, mut file) = opened.file.take().ok_or(ChangeError::Raw)?;
    known(&file, args.slot)?;
    if file.slots().len() == 1 {
        return Err(ChangeError::LastSlot(args.slot).into());
    }
    let proved = match through == args.slot {
        true => another(&opened, &file, args.slot, &ways)?,
        false => through,
    };
    let data = &opened.root.path;
    let mut notebook = Notebook::open(data, &file, &opened.master);
    notebook.proved(proved);
    locked.store.restore_copy(&opened.header)?;
    let (store, master) = (&mut locked.store, &opened.master);
    remove_slot::<_, SlotError>(store, &mut file, master, args.slot, proved)
        .map_err(|error| ChangeError::Rewrite(Box::new(error)))?;
    audit::record(
        data,
        Some(&opened.header),
        Event::Removed { slot: args.slot },
    );
    let warning = write_notes(notebook, &locked, data, &file, master);
    output::print_done(format!(
        "slot {} is gone, slot {proved} opens the key\n{warning}",
        args.slot
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a slot other than `slot` that opens now.
fn another(opened: &Unlocked, file: &KeyFile, slot: u8, ways: &Ways) -> Result<u8, Failure> {
    let source = opened.source.clone();
    let unlocker = Unlocker::new(file.header(), source, &opened.root.path, ways)?;
    let opens = |other: &&Slot| {
        let key = unlocker.slot(file.header(), other);
        key.is_ok_and(|key| equal(key.expose(), opened.master.expose()))
    };
    let mut others = file.slots().iter().filter(|other| other.id != slot);
    let found = others.find(opens);
    Ok(found.ok_or(ChangeError::NoOther(slot))?.id)
}
