//! `pgseal key backup`: a copy of the key file that was seen to open, and recovery sheets.

use std::path::Path;
use std::process::ExitCode;

use pgseal_format::{KeyImage, SlotKind, UnverifiedKeyFile};
use pgseal_keys::audit::{self, Event};
use pgseal_keys::cluster::Root;
use pgseal_keys::conversion::refuse_converting;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::keybin::{KeyBinError, KeyDir};
use pgseal_keys::unlock::{unlock, unlock_copy, Unlocked};

use super::check::{every_slot, note};
use super::new_file::NewFile;
use super::sheet::{self, Wanted};
use super::slots::ChangeError;
use crate::cli::key::BackupArgs;
use crate::output;

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("slot {0} of key.bin holds the key unencrypted, and so would the copy: protect the key first with `pgseal key rotate`, or give --allow-clear")]
    Clear(u8),
    #[error("the copy cannot be read back as it was written: check the file system of {0}")]
    ReadBack(String),
}

impl Exit for BackupError {
    fn code(&self) -> Code {
        match self {
            Self::Clear(_) => Code::Usage,
            Self::ReadBack(_) => Code::Io,
        }
    }
}

pub fn run(args: &BackupArgs) -> Result<ExitCode, Failure> {
    let root = Root::required(&args.cluster.pgdata)?;
    refuse_converting(&root.path)?;
    let ways = args.cluster.unlock.ways();
    let (opened, copied) = match &args.file {
        Some(path) => copied(args, path, root)?,
        None => (unlock(root, &ways)?, None),
    };
    let mut proved: Vec<u8> = opened.file.iter().map(|(slot, _)| *slot).collect();
    if args.proof.all {
        every_slot(&opened, &ways, &args.proof, &mut proved)?;
    }
    let sheets = match &args.sheet {
        Some(page) => sheet::make(&opened, &args.wanted(page))?,
        None => Vec::new(),
    };
    record(&opened, copied.is_some(), args);
    let text = told(&opened, &proved, copied.as_ref(), &sheets);
    for new in copied.into_iter().chain(sheets) {
        new.publish()?;
    }
    note(&opened, &proved);
    output::print_done(text)?;
    Ok(ExitCode::SUCCESS)
}

impl BackupArgs {
    fn wanted<'a>(&'a self, page: &'a Path) -> Wanted<'a> {
        Wanted {
            page,
            code: self.qr.as_deref(),
            count: self.shares,
            force: self.force,
        }
    }
}

/// Writes the copy and opens it.
fn copied(
    args: &BackupArgs,
    path: &Path,
    root: Root,
) -> Result<(Unlocked, Option<NewFile>), Failure> {
    let (file, source) = match KeyDir::of(&root.path).open()? {
        (KeyImage::File(file), source) => (file, source),
        (KeyImage::Raw(_), _) => return Err(ChangeError::Raw.into()),
    };
    refuse_clear(&file, args.allow_clear)?;
    let mut new = NewFile::write(path, file.bytes(), args.force, &root.path)?;
    let copy = read_back(&mut new, &file)?;
    let ways = args.cluster.unlock.ways();
    let opened = unlock_copy(copy, new.path(), source, root, &ways)?;
    Ok((opened, Some(new)))
}

/// Records what leaves the cluster, before it is there.
fn record(opened: &Unlocked, copied: bool, args: &BackupArgs) {
    let (data, header) = (&opened.root.path, Some(&opened.header));
    if let (true, Some((slot, _))) = (copied, &opened.file) {
        audit::record(data, header, Event::Copied { slot: *slot });
    }
    if args.sheet.is_some() {
        let shares = args.shares.map(|count| (count.needed(), count.made()));
        audit::record(data, header, Event::SheetMade { shares });
    }
}

fn refuse_clear(file: &UnverifiedKeyFile, allowed: bool) -> Result<(), BackupError> {
    let plain = |kind: &SlotKind| matches!(kind, SlotKind::Plain { .. });
    match file.slots().iter().find(|slot| plain(&slot.kind)) {
        Some(slot) if !allowed => Err(BackupError::Clear(slot.id)),
        _ => Ok(()),
    }
}

/// Returns the copy as the disk has it.
fn read_back(new: &mut NewFile, file: &UnverifiedKeyFile) -> Result<UnverifiedKeyFile, Failure> {
    let bytes = new.read()?;
    let path = new.path().to_owned();
    let image = KeyImage::decode(&bytes);
    match image.map_err(|error| KeyBinError::Format(path.clone(), error))? {
        KeyImage::File(copy) if bytes[..] == *file.bytes() => Ok(copy),
        _ => Err(BackupError::ReadBack(path.display().to_string()).into()),
    }
}

/// Returns what was made, which slots opened, and of which that is not known.
fn told(opened: &Unlocked, proved: &[u8], copied: Option<&NewFile>, sheets: &[NewFile]) -> String {
    let mut text = String::new();
    if let Some(copy) = copied {
        text += &format!("{} is a copy of key.bin\n", copy.path().display());
    }
    for slot in opened.file.iter().flat_map(|(_, file)| file.slots()) {
        let (id, name) = (slot.id, slot.kind.name());
        let outcome = match (proved.contains(&id), copied) {
            (true, Some(_)) => "opens the copy",
            (true, None) => "opens the key",
            (false, _) => "was not tried: --all tries every slot",
        };
        text += &format!("slot {id} ({name}) {outcome}\n");
    }
    for sheet in sheets {
        text += &format!("{}\n", sheet.path().display());
    }
    if !sheets.is_empty() {
        text += "these files are the key: print them, keep the paper in safe places, and remove the files\n";
    }
    text
}
