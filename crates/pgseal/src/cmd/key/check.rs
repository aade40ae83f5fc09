//! `pgseal key check`: does the key open? Nothing is changed but the notes about slots, which say
//! when each was last seen to open.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pgseal_check::describe;
use pgseal_format::{Header, SecretSource, Slot, SlotKind};
use pgseal_keys::cluster::Root;
use pgseal_keys::exit::{self, Code, Exit, Failure};
use pgseal_keys::keybin::{CopyError, KeyDir, DIR, SETTINGS};
use pgseal_keys::notes::note_proofs;
use pgseal_keys::passphrase::{PassphraseError, Source};
use pgseal_keys::unlock::{unlock, SlotError, UnlockError, Unlocked, Unlocker, Ways};
use pgseal_keys::DerivedError;

use crate::cli::key::{CheckArgs, ProofOptions};
use crate::output;

/// Some slots open, and of others that is not known.
#[derive(Debug, thiserror::Error)]
pub enum SlotsDoNotOpen {
    #[error("the key opens, but not through {0}: the line of each says why")]
    Shut(String),
    #[error(
        "the key opens, but {0} was not tried: give its passphrase with --more-passphrase-file"
    )]
    NotTried(String),
}

/// The result of one slot.
enum Outcome {
    Opens,
    /// A passphrase was given for each other slot and none for this one.
    NotTried,
    Shut(SlotError),
}

/// `pgseal.toml` is of no use.
#[derive(Debug, thiserror::Error)]
#[error("the key opens, but {DIR}/{SETTINGS} {0}")]
pub struct NoCopy(#[from] CopyError);

impl Exit for SlotsDoNotOpen {
    fn code(&self) -> Code {
        Code::Found
    }
}

impl Exit for NoCopy {
    fn code(&self) -> Code {
        Code::Found
    }
}

pub fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let root = Root::required(&args.cluster.pgdata)?;
    let ways = args.cluster.unlock.ways();
    if let Some(path) = KeyDir::of(&root.path).leftover() {
        let path = path.display();
        output::print(format_args!("warning: {path} is left over from a change of the key that was interrupted, and may hold the key: remove it\n"))?;
    }
    if args.show {
        return show(&root.path, &ways);
    }
    let opened = unlock(root, &ways)?;
    let through = match &opened.file {
        Some((slot, _)) => format!("slot {slot}"),
        None => "the raw key.bin".into(),
    };
    let key = opened.header.key_id;
    output::print(format_args!("key {key} opens through {through}\n"))?;
    let first = opened.file.iter().map(|(slot, _)| *slot);
    let mut proved: Vec<u8> = first.collect();
    let all = match args.proof.all {
        true => every_slot(&opened, &ways, &args.proof, &mut proved),
        false => Ok(()),
    };
    note(&opened, &proved);
    all?;
    KeyDir::of(&opened.root.path)
        .check_copy(&opened.header)
        .map_err(NoCopy)?;
    Ok(ExitCode::SUCCESS)
}

/// Notes which slots opened. Nothing depends on it, and the check may be run by a user who may not
/// write, so a failure is a warning.
pub fn note(opened: &Unlocked, proved: &[u8]) {
    let Some((_, file)) = &opened.file else {
        return;
    };
    if let Err(error) = note_proofs(&opened.root.path, file, &opened.master, proved) {
        let error = exit::sentence(&error);
        let _ = writeln!(
            io::stderr(),
            "pgseal: warning: that it opens could not be noted for `pgseal key list`: {error}"
        );
    }
}

fn show(data: &Path, ways: &Ways) -> Result<ExitCode, Failure> {
    let dir = KeyDir::of(data);
    for slot in describe::slots(&dir.read()?, &dir, data, ways)? {
        output::print(format_args!("{}\n", slot.line()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens every slot of the file that `opened` has, prints what came of each, and adds those that
/// open to `proved`. Fails unless all open.
pub fn every_slot(
    opened: &Unlocked,
    ways: &Ways,
    proof: &ProofOptions,
    proved: &mut Vec<u8>,
) -> Result<(), Failure> {
    let Some((_, file)) = &opened.file else {
        return Ok(());
    };
    let unlockers = unlockers(opened, file.header(), ways, &proof.more_passphrase_file)?;
    let tried = { file.slots().iter() }.map(|slot| opened_by(&unlockers, file.header(), slot));
    let tried: Vec<_> = tried.collect();
    // A passphrase that opens another slot was not given for this one.
    let slots = file.slots().iter().zip(&tried);
    let used = slots.filter(|(slot, _)| takes_passphrase(slot));
    let used: BTreeSet<_> = used.filter_map(|(_, found)| found.as_ref().ok()).collect();
    let spare = ways.passphrase.is_asked() || used.len() < unlockers.len();
    let (mut shut, mut untried) = (Vec::new(), Vec::new());
    for (slot, found) in file.slots().iter().zip(tried) {
        let (name, id) = (slot.kind.name(), slot.id);
        let outcome = outcome(found.map(|_| ()), spare || !takes_passphrase(slot));
        match &outcome {
            Outcome::Opens => {
                proved.push(id);
                output::print(format_args!("slot {id} ({name}): opens\n"))?;
            }
            Outcome::NotTried => {
                output::print(format_args!(
                    "slot {id} ({name}): not tried, no passphrase given\n"
                ))?;
                untried.push(format!("slot {id}"));
            }
            Outcome::Shut(error) => {
                let error = exit::sentence(error);
                output::print(format_args!("slot {id} ({name}): {error}\n"))?;
                shut.push(format!("slot {id}"));
            }
        }
    }
    match (shut.is_empty(), untried.is_empty()) {
        (true, true) => Ok(()),
        (false, _) => Err(SlotsDoNotOpen::Shut(shut.join(", ")).into()),
        (true, false) => Err(SlotsDoNotOpen::NotTried(untried.join(", ")).into()),
    }
}

/// One for each passphrase that was given; the first knows everything else, too.
fn unlockers<'a>(
    opened: &'a Unlocked,
    header: &Header,
    ways: &Ways,
    more: &[PathBuf],
) -> Result<Vec<Unlocker<'a>>, UnlockError> {
    let more = more.iter().map(|file| Ways {
        passphrase: Source::of_options(Some(file.clone()), None),
        ..ways.clone()
    });
    let all = [ways.clone()].into_iter().chain(more);
    let unlocker =
        |ways: Ways| Unlocker::new(header, opened.source.clone(), &opened.root.path, &ways);
    all.map(unlocker).collect()
}

/// Which of the unlockers opens a slot, by its number, or why the first that could tell does not.
fn opened_by(unlockers: &[Unlocker<'_>], header: &Header, slot: &Slot) -> Result<usize, SlotError> {
    let count = if takes_passphrase(slot) {
        unlockers.len()
    } else {
        1
    };
    let mut failure = None;
    for (at, unlocker) in unlockers[..count].iter().enumerate() {
        match unlocker.slot(header, slot) {
            Ok(_) => return Ok(at),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.expect("there is one unlocker at least"))
}

fn takes_passphrase(slot: &Slot) -> bool {
    let source = match &slot.kind {
        SlotKind::Derived { source, .. } => source,
        _ => return false,
    };
    matches!(source, SecretSource::Passphrase)
}

/// `given`: was there a secret that may be this slot's?
fn outcome(found: Result<(), SlotError>, given: bool) -> Outcome {
    match found {
        Ok(()) => Outcome::Opens,
        Err(SlotError::Passphrase(PassphraseError::NoTerminal(_) | PassphraseError::Nothing)) => {
            Outcome::NotTried
        }
        Err(SlotError::Derived(DerivedError::Wrong(_))) if !given => Outcome::NotTried,
        Err(error) => Outcome::Shut(error),
    }
}
