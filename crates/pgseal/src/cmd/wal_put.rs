//! `pgseal wal-put`: an `archive_command` that never overwrites, is durable when it succeeds, and
//! may store segments with another cluster's key: a standby with a key of its own then continues
//! its primary's archive.
//!
//! A file that is there with the same content is success: PostgreSQL archives a segment again
//! after a crash. The same records under the same key are the same bytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use pgseal_keys::cluster::Root;
use pgseal_keys::exit::Failure;
use pgseal_keys::unlock::{unlock, unlock_named, Unlocked, Ways};
use pgseal_storage::wal::WalName;
use tempfile::PersistError;

use crate::archive::{aside, ArchiveError, Archived, Form, Segment, Source};
use crate::cli::archive::WalPutArgs;

pub fn run(args: &WalPutArgs) -> Result<ExitCode, Failure> {
    let archived = Archived::parse(&args.file)?;
    let source = Source::open(args.path.clone())?;
    let stored = store(args, archived, &source);
    aside::end(&args.to);
    stored.map(|()| ExitCode::SUCCESS)
}

fn store(args: &WalPutArgs, archived: Archived, source: &Source) -> Result<(), Failure> {
    let target = args.to.join(&args.file);
    let failed = |error| ArchiveError::Copy(source.path.clone(), target.clone(), error);
    let aside = aside::create(&args.to, source.mode).map_err(failed)?;
    match archived {
        Archived::Clear => source.copy(aside.as_file()).map_err(failed)?,
        Archived::Segment(name) => segment(args, name, source, aside.as_file())?,
    }
    aside.as_file().sync_all().map_err(failed)?;
    if let Err(PersistError { error, file }) = aside.persist_noclobber(&target) {
        let there = error.kind() == io::ErrorKind::AlreadyExists;
        if !there || !is_same(file.path(), &target).map_err(failed)? {
            return Err(match there {
                true => ArchiveError::Exists(target),
                false => failed(error),
            }
            .into());
        }
        // Anyone who put it there may not have.
        sync(&target).map_err(failed)?;
    }
    Ok(sync(&args.to).map_err(failed)?)
}

fn segment(args: &WalPutArgs, name: WalName, source: &Source, to: &File) -> Result<(), Failure> {
    let segment = Segment::new(name, source)?;
    let failed = |error| ArchiveError::Copy(source.path.clone(), args.to.clone(), error);
    let Some(file) = &args.key_file_name else {
        if segment.form_among([Form::Clear]).is_some() {
            return Err(ArchiveError::Clear(source.path.clone()).into());
        }
        return Ok(source.copy(to).map_err(failed)?);
    };
    let (own, archive) = (own(&args.path)?, unlock_named(file, &args.unlock.ways())?);
    let forms = own.iter().map(Form::Sealed).chain([Form::Clear]);
    let Some((from, _)) = segment.form_among(forms) else {
        return Err(ArchiveError::NoKey(source.path.clone()).into());
    };
    let stored = segment.store(from, to, Form::Sealed(&archive));
    Ok(stored.map_err(failed)?)
}

/// The key of the cluster that archives; none if it is a plain one.
fn own(path: &Path) -> Result<Option<Unlocked>, Failure> {
    let root = Root::around(path)?;
    let own = root.map(|root| unlock(root, &Ways::default().or_agent()));
    Ok(own.transpose()?)
}

fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut ours, mut theirs) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let have = one.read(&mut ours)?;
        if have == 0 {
            return Ok(true);
        }
        other.read_exact(&mut theirs[..have])?;
        if ours[..have] != theirs[..have] {
            return Ok(false);
        }
    }
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
