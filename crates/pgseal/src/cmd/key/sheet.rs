//! Recovery sheets on disk: making them for `pgseal key backup`, and taking the key out of them for
//! `pgseal key restore`.
//!
//! A recovery secret is random, and no two sheets have the same one. It wraps the master key as a
//! key command's key does (docs/format/recovery-sheet.md).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pgseal_crypto::{equal, random_bytes, MasterKey, RandomError};
use pgseal_format::Header;
use pgseal_keys::approved::{self, NotApproved};
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::unlock::Unlocked;
use pgseal_keys::{open_derived, seal_derived, DerivedError};
use pgseal_recovery::{
    join, split, About, Count, JoinError, Part, Sheet, SheetError, Wrapped, MAX_TEXT,
};
use zeroize::Zeroizing;

use super::new_file::NewFile;
use crate::VERSION;

/// Why a sheet cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error("the recovery secret cannot wrap the key: {0}")]
    Wrap(DerivedError),
    #[error("{0} does not give the key back, so no sheet was made: check the file system")]
    ReadBack(PathBuf),
    #[error("{0} cannot be read ({1}): check its path, owner and mode")]
    Read(PathBuf, io::Error),
    #[error("{0} {1}")]
    Sheet(PathBuf, SheetError),
    #[error("{0} is one share of {made}, and {needed} of them give the key: give each with --share", made = .1.made(), needed = .1.needed())]
    IsShare(PathBuf, Count),
    #[error("{0} is a whole sheet and no share: give it with --sheet")]
    IsWhole(PathBuf),
    #[error("{0} is of another set of shares than {1}: give shares that were made together")]
    OtherSet(PathBuf, PathBuf),
    #[error("{0} is a share that was given before: give another share of the set")]
    Twice(PathBuf),
    #[error("{have} of {needed} shares were given, which say nothing about the key: give {needed} with --share")]
    TooFew { have: usize, needed: u8 },
    #[error("the shares contradict each other, so one of them was altered: give other shares of the set")]
    Contradict,
    #[error("{0} does not open the key that it holds, so it was altered: use another copy")]
    Altered(PathBuf),
    #[error("the key cannot be taken out of {0}: {1}")]
    Open(PathBuf, DerivedError),
}

impl Exit for RecoveryError {
    fn code(&self) -> Code {
        match self {
            Self::Random(_) | Self::Wrap(_) | Self::ReadBack(_) | Self::Read(..) => Code::Io,
            Self::Sheet(..) | Self::Altered(_) | Self::Contradict => Code::KeyFile,
            Self::IsShare(..)
            | Self::IsWhole(_)
            | Self::OtherSet(..)
            | Self::Twice(_)
            | Self::TooFew { .. } => Code::Usage,
            Self::Open(..) => Code::Io,
        }
    }
}

/// A request for sheets: the paths of pages and codes, and the number of shares.
pub struct Wanted<'a> {
    pub page: &'a Path,
    pub code: Option<&'a Path>,
    pub count: Option<Count>,
    pub force: bool,
}

/// Makes the sheet or the shares of the cluster's key, and sees that they give it back. None is in
/// its place yet.
pub fn make(opened: &Unlocked, wanted: &Wanted<'_>) -> Result<Vec<NewFile>, Failure> {
    approved::refuse(NotApproved::Sheet)?;
    let sheets = sheets(opened, wanted.count)?;
    let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let about = About {
        version: VERSION,
        date: &date,
    };
    let (mut pages, mut codes) = (Vec::new(), Vec::new());
    let file = |path: &Path, at: usize, text: &str| {
        let path = numbered(path, wanted.count.map(|_| at + 1));
        NewFile::write(&path, text.as_bytes(), wanted.force, &opened.root.path)
    };
    for (at, sheet) in sheets.iter().enumerate() {
        pages.push(file(wanted.page, at, &sheet.page(&about))?);
        if let Some(path) = wanted.code {
            codes.push(file(path, at, &sheet.code())?);
        }
    }
    prove(&mut pages, opened, wanted)?;
    pages.extend(codes);
    Ok(pages)
}

fn sheets(opened: &Unlocked, count: Option<Count>) -> Result<Vec<Sheet>, RecoveryError> {
    let secret = Zeroizing::new(random_bytes::<32>()?);
    let (header, cost) = (&opened.header, Wrapped::COST);
    let slot = seal_derived(header, &opened.master, Wrapped::source(), cost, &secret[..]);
    let key = Wrapped::of(header, &slot.map_err(RecoveryError::Wrap)?);
    let key = key.expect("a slot that was made so");
    Ok(match count {
        Some(count) => split(&key, &secret, count),
        None => vec![Sheet {
            key,
            part: Part::Whole(secret),
        }],
    })
}

/// Checks that the pages, as the disk has them, give the key back. Of shares, as many as are needed
/// are tried from both ends.
fn prove(pages: &mut [NewFile], opened: &Unlocked, wanted: &Wanted<'_>) -> Result<(), Failure> {
    let mut read = Vec::new();
    for page in pages {
        let text = page.read()?;
        read.push(parse(page.path(), &text)?);
    }
    let needed = wanted.count.map_or(1, |count| usize::from(count.needed()));
    let ends = [&read[..needed], &read[read.len() - needed..]];
    let tried = if read.len() == needed { 1 } else { 2 };
    for sheets in &ends[..tried] {
        let given = given(sheets, wanted.count.is_some());
        let (key, secret) = given.map_err(|_| RecoveryError::ReadBack(wanted.page.to_owned()))?;
        let master = open(wanted.page, key, &secret)?;
        if *key.header() != opened.header || !equal(master.expose(), opened.master.expose()) {
            return Err(RecoveryError::ReadBack(wanted.page.to_owned()).into());
        }
    }
    Ok(())
}

/// Takes the key out of a sheet, or out of shares.
pub fn take(paths: &[PathBuf], as_shares: bool) -> Result<(Header, MasterKey), Failure> {
    approved::refuse(NotApproved::Sheet)?;
    Ok(taken(paths, as_shares)?)
}

fn taken(paths: &[PathBuf], as_shares: bool) -> Result<(Header, MasterKey), RecoveryError> {
    let read = |path: &PathBuf| parse(path, &read_text(path)?);
    let sheets = paths.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let path = |at: usize| paths.get(at).cloned().unwrap_or_default();
    let given = given(&sheets, as_shares).map_err(|error| match error {
        Refused::IsShare(count) => RecoveryError::IsShare(path(0), count),
        Refused::Join(JoinError::Whole(at)) => RecoveryError::IsWhole(path(at)),
        Refused::Join(JoinError::OtherSet(at)) => RecoveryError::OtherSet(path(at), path(0)),
        Refused::Join(JoinError::Twice(at)) => RecoveryError::Twice(path(at)),
        Refused::Join(JoinError::TooFew { have, needed }) => RecoveryError::TooFew { have, needed },
        Refused::Join(JoinError::None | JoinError::Contradict) => RecoveryError::Contradict,
    });
    let (key, secret) = given?;
    let master = open(&path(0), key, &secret)?;
    Ok((key.header().clone(), master))
}

enum Refused {
    IsShare(Count),
    Join(JoinError),
}

/// The wrapped key and the secret that opens it.
type Given<'a> = (&'a Wrapped, Zeroizing<[u8; 32]>);

fn given(sheets: &[Sheet], as_shares: bool) -> Result<Given<'_>, Refused> {
    match (sheets, as_shares) {
        ([sheet], false) => match &sheet.part {
            Part::Whole(secret) => Ok((&sheet.key, secret.clone())),
            Part::Share { count, .. } => Err(Refused::IsShare(*count)),
        },
        _ => join(sheets).map_err(Refused::Join),
    }
}

fn open(path: &Path, key: &Wrapped, secret: &[u8; 32]) -> Result<MasterKey, RecoveryError> {
    let source = Wrapped::source();
    let opened = open_derived(key.header(), &source, &key.kdf(), key.wrapped(), secret);
    opened.map_err(|error| match error {
        DerivedError::Wrong(_) | DerivedError::Payload(_) => {
            RecoveryError::Altered(path.to_owned())
        }
        error => RecoveryError::Open(path.to_owned(), error),
    })
}

fn parse(path: &Path, text: &[u8]) -> Result<Sheet, RecoveryError> {
    let text = std::str::from_utf8(text).map_err(|_| SheetError::NoLines);
    let sheet = text.and_then(Sheet::parse);
    sheet.map_err(|error| RecoveryError::Sheet(path.to_owned(), error))
}

fn read_text(path: &Path) -> Result<Zeroizing<Vec<u8>>, RecoveryError> {
    // Never reallocated: a growing buffer would leave copies of a key behind.
    let mut text = Zeroizing::new(Vec::with_capacity(MAX_TEXT + 1));
    let limit = u64::try_from(MAX_TEXT).unwrap_or(u64::MAX);
    let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut text));
    read.map_err(|error| RecoveryError::Read(path.to_owned(), error))?;
    Ok(text)
}

/// Returns the path of a share: its number is put before the ending, `sheet.2.txt`.
fn numbered(path: &Path, number: Option<usize>) -> PathBuf {
    let Some(number) = number else {
        return path.to_owned();
    };
    let mut name = OsString::from(path.file_stem().unwrap_or_default());
    name.push(format!(".{number}"));
    if let Some(end) = path.extension() {
        name.push(".");
        name.push(end);
    }
    path.with_file_name(name)
}
