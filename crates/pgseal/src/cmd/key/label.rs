//! `pgseal key label`: a name for a slot, so that people know whose secret opens it.

use std::process::ExitCode;

use pgseal_keys::audit::{self, Event};
use pgseal_keys::cluster::Root;
use pgseal_keys::exit::Failure;
use pgseal_keys::keybin::KeyDir;
use pgseal_keys::notes::Notebook;
use pgseal_keys::unlock::unlock;

use super::slots::{known, lost, ChangeError};
use crate::cli::key::LabelArgs;
use crate::output;

pub fn run(args: &LabelArgs) -> Result<ExitCode, Failure> {
    let root = Root::required(&args.cluster.pgdata)?;
    let dir = KeyDir::of(&root.path);
    let locked = dir.lock()?;
    let opened = unlock(root, &args.cluster.unlock.ways())?;
    let (through, file) = opened.file.as_ref().ok_or(ChangeError::Raw)?;
    known(file, args.slot)?;
    let data = &opened.root.path;
    let mut notebook = Notebook::open(data, file, &opened.master);
    let lost = lost(&notebook);
    notebook.proved(*through);
    notebook.labelled(args.slot, &args.text);
    notebook.write(&locked, data, file, &opened.master)?;
    audit::record(
        data,
        Some(&opened.header),
        Event::Labelled { slot: args.slot },
    );
    output::print_done(lost)?;
    Ok(ExitCode::SUCCESS)
}
