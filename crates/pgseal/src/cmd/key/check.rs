//! `pgseal key check`: does the key open? Nothing is changed.

use std::path::Path;
use std::process::ExitCode;

use crate::cli::CheckArgs;
use crate::cluster::Root;
use crate::describe;
use crate::exit::Failure;
use crate::keybin::{CopyError, KeyDir, DIR, SETTINGS};
use crate::output;
use crate::unlock::{unlock, Opener, Unlocked, Ways};

/// Some slots open and some do not.
#[derive(Debug, thiserror::Error)]
#[error("the key opens, but not through {0}: replace with `pgseal key wrap --replace` what nobody can open")]
pub struct SlotsDoNotOpen(String);

/// `pgseal.toml` is of no use.
#[derive(Debug, thiserror::Error)]
#[error("the key opens, but {DIR}/{SETTINGS} {0}")]
pub struct NoCopy(#[from] CopyError);

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
    if args.all {
        every_slot(&opened, &ways)?;
    }
    KeyDir::of(&opened.root.path)
        .check_copy(&opened.header)
        .map_err(NoCopy)?;
    Ok(ExitCode::SUCCESS)
}

fn show(data: &Path, ways: &Ways) -> Result<ExitCode, Failure> {
    let dir = KeyDir::of(data);
    for slot in describe::slots(&dir.read()?, &dir, data, ways)? {
        output::print(format_args!("{}\n", slot.line()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn every_slot(opened: &Unlocked, ways: &Ways) -> Result<(), Failure> {
    let Some((_, file)) = &opened.file else {
        return Ok(());
    };
    let source = opened.source.clone();
    let opener = Opener::new(file.header(), source, &opened.root.path, ways)?;
    let mut shut = Vec::new();
    for slot in file.slots() {
        let name = slot.kind.name();
        match opener.slot(file.header(), slot) {
            Ok(_) => output::print(format_args!("slot {} ({name}): opens\n", slot.id))?,
            Err(error) => {
                output::print(format_args!("slot {} ({name}): {error}\n", slot.id))?;
                shut.push(format!("slot {}", slot.id));
            }
        }
    }
    if shut.is_empty() {
        return Ok(());
    }
    Err(SlotsDoNotOpen(shut.join(", ")).into())
}
