//! `pgseal wal-get`: a `restore_command` for an archive of another key, or of none.
//!
//! What it leaves in `%p` is sealed with the own cluster's key, so that it is right under the name
//! that the server (which would only take own bytes) or pg_rewind reads it by. Nothing vouches for
//! a segment in clear: it is taken only where the operator says so.
//!
//! PostgreSQL takes an exit status from 1 to 125 for the end of the archive, and then ends
//! recovery. So 1 says that the archive does not hold the file, and nothing else does: every
//! failure is 200 and its code, which stops the server.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pgseal_keys::cluster::Root;
use pgseal_keys::control_file;
use pgseal_keys::exit::{Code, Failure};
use pgseal_keys::unlock::{unlock, unlock_named, Unlocked, Ways};
use pgseal_storage::wal::{LongHeader, WalName};

use crate::archive::{ArchiveError, Archived, Form, Segment, Source};
use crate::cli::archive::WalGetArgs;

pub fn run(args: &WalGetArgs) -> ExitCode {
    match bring(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(Code::Found),
        Err(failure) => {
            // The number is another to a server that recovers.
            let _ = failure.report();
            failure.code().to_recovery()
        }
    }
}

/// False: the archive does not hold it.
fn bring(args: &WalGetArgs) -> Result<bool, Failure> {
    let archived = Archived::parse(&args.file)?;
    let Some(source) = find(&args.from, Path::new(&args.file))? else {
        return Ok(false);
    };
    match archived {
        Archived::Clear => write(&args.path, &source, |target| source.copy(target))?,
        Archived::Segment(name) => segment(args, name, source)?,
    }
    Ok(true)
}

/// The file in the archive, or the archive if it is a file itself. A directory that is missing is
/// no empty archive.
fn find(from: &Path, name: &Path) -> Result<Option<Source>, ArchiveError> {
    let metadata = fs::metadata(from);
    let is_file = metadata.map_err(|error| ArchiveError::Read(from.to_owned(), error))?;
    if is_file.is_file() {
        return Source::open(from.to_owned()).map(Some);
    }
    let path = from.join(name);
    match Source::open(path.clone()) {
        // A link that leads nowhere is a file whose medium is away.
        Err(ArchiveError::Read(_, error))
            if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() =>
        {
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

fn segment(args: &WalGetArgs, name: WalName, source: Source) -> Result<(), Failure> {
    let Some(root) = Root::around(&args.path)? else {
        return Err(ArchiveError::NotSealed(args.path.clone()).into());
    };
    let own = unlock(root, &Ways::default().or_agent())?;
    let control = control_file::read(&own.root.path, &own.master, own.header.length)?.said?;
    if source.size != u64::from(control.wal_segment_size) {
        // PostgreSQL judges by the size: a standby waits for the rest, others stop.
        return Ok(write(&args.path, &source, |target| source.copy(target))?);
    }
    let segment = Segment::new(name, &source)?;
    let to = Form::Sealed(&own);
    let named = match segment.form_among([Form::Clear, to]) {
        Some(_) => Vec::new(),
        None => unlock_nameds(args)?,
    };
    let forms = named.iter().map(Form::Sealed).chain([Form::Clear, to]);
    let Some((from, header)) = segment.form_among(forms) else {
        return Err(ArchiveError::NoKey(source.path).into());
    };
    if header.system_id != control.system_id {
        let (of, own) = (header.system_id, control.system_id);
        return Err(ArchiveError::Foreign(source.path, of, own).into());
    }
    if let Form::Clear = from {
        admit_clear(args, &header)?;
    }
    let store = |target: &File| segment.store(from, target, to);
    Ok(write(&args.path, &source, store)?)
}

/// Fails if clear WAL is refused; otherwise reports it on stderr, which is PostgreSQL's log.
fn admit_clear(args: &WalGetArgs, header: &LongHeader) -> Result<(), ArchiveError> {
    let rule = args.accept_clear.unwrap_or_default();
    if !rule.admits(args.file.as_bytes(), header) {
        return Err(ArchiveError::ClearRefused(args.file.clone().into()));
    }
    let name = Path::new(&args.file).display();
    // A server whose log is lost recovers all the same.
    let _ = writeln!(
        io::stderr(),
        "pgseal: WAL segment {name} came in clear, and is encrypted and brought, because \
         --accept-clear is {rule}"
    );
    Ok(())
}

fn unlock_nameds(args: &WalGetArgs) -> Result<Vec<Unlocked>, Failure> {
    let ways = args.unlock.ways();
    let keys = args.key_file_name.iter();
    keys.map(|file| unlock_named(file, &ways)).collect()
}

/// Writes aside and renames, because the archive may be the very file. Without fsync: PostgreSQL
/// does that when it gives the segment its name.
fn write(
    path: &Path,
    source: &Source,
    content: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(), ArchiveError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".pgseal");
    let aside = PathBuf::from(aside);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let opened = options.mode(source.mode).open(&aside);
    let written = opened
        .and_then(|file| content(&file))
        .and_then(|()| fs::rename(&aside, path));
    written.map_err(|error| ArchiveError::Copy(source.path.clone(), path.to_owned(), error))
}
