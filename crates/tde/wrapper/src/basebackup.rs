//! The wrapper of `pg_basebackup`: a copy that is sealed as its options say.
//!
//! A copy in plain format from a sealed server is sealed under the server's own key, unless
//! `--data-encryption` asks for a new one, or `--copy-key-from` for another's. A copy that
//! `pg_basebackup` does not lay out in a directory (tar, standard output, a target on the server)
//! is raw: ciphertext as the server stores it, with its key file. A raw copy needs no key, except
//! for WAL that is streamed into a tar of its own: that comes in clear, and is sealed on its way.
//!
//! States of a sealed copy, as of initdb's: (1) the key is at hand; (2) `pg_basebackup` has
//! finished, and what it wrote cannot be opened, because its key file is missing; (3) `key.bin` is
//! in place. Whatever ends the wrapper before (3) leaves nothing that starts.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::slice;

use pgseal_keys::cluster::Root;
use pgseal_keys::control_file;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::key_set::KeySet;
use pgseal_keys::keybin::{KeyBinError, KeyDir, DIR};
use pgseal_keys::new_key::{new_key, NewKey};
use pgseal_keys::pin;
use pgseal_keys::unlock::{unlock_received, UnlockError, Unlocked, Ways};
use pgseal_storage::control::check_blocks;
use pgseal_storage::version;
use zeroize::Zeroizing;

use crate::getopt::{Given, PG_BASEBACKUP};
use crate::launch::Sealed;
use crate::options::{self, Name, OptionError, Split};
use crate::source::{self, Source, RAW, RECEIVER, SEGMENT_SIZE, WAL_RECEIVER};
use crate::supervise::code_of;
use crate::{help, Wrapper};

/// Why there is no sealed copy.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{0} exists, and a base backup never overwrites a key: choose an empty directory")]
    Exists(PathBuf),
    #[error("pg_basebackup left {0} in clear, so the library was not at work: remove the copy, and check that libpgseal.so can be loaded")]
    NotSealed(PathBuf),
    #[error("{0} cannot be read back ({1}): remove the copy, and check the file system")]
    ReadBack(PathBuf, io::Error),
    #[error("the copy is not a cluster without its key: {0}; then copy again")]
    Commit(KeyBinError),
    #[error("a backup in this form is a copy of what the sealed server stores, with its key file: leave --{0} out, or use the plain format")]
    RawKey(&'static str),
    #[error("{0} is not sealed, and the result would be like it, though other backups of the chain are: end the chain with a sealed backup")]
    LastInput(PathBuf),
    #[error("{0} is not sealed, and what it holds would be, though anybody can have written it: take a full backup of the sealed cluster, and begin the chain with that")]
    PlainInput(PathBuf),
    #[error("{0} is not sealed under the key of the last backup, so the result cannot share files with it: leave --{1} out")]
    Sharing(PathBuf, &'static str),
    #[error("{0}; a backup in this form needs no key if it takes its WAL along by -X fetch")]
    WalKey(Box<UnlockError>),
    #[error("the server has neither data checksums nor wal_log_hints, and a sealed copy of it would not start: set wal_log_hints = on in its postgresql.conf and restart it, or stop it and run pg_checksums --enable")]
    NoHints,
    #[error("an incremental backup of a sealed server can only be laid out in a directory: use the plain format")]
    RawIncremental,
}

impl Exit for BackupError {
    fn code(&self) -> Code {
        match self {
            Self::NotSealed(_) | Self::NoHints => Code::NotGuaranteed,
            Self::ReadBack(..) => Code::Io,
            Self::Commit(error) => error.code(),
            Self::WalKey(error) => error.code(),
            Self::Exists(_)
            | Self::LastInput(_)
            | Self::PlainInput(_)
            | Self::Sharing(..)
            | Self::RawKey(_)
            | Self::RawIncremental => Code::Usage,
        }
    }
}

/// Runs `pg_basebackup`, sealed if the server is or an option asks for it.
pub fn run(wrapper: &Wrapper, args: Vec<OsString>) -> Result<ExitCode, Failure> {
    let split = options::split("pg_basebackup", args)?;
    if help::is_informative(&split.rest) {
        return Err(wrapper.sealed(&split.rest)?.exec());
    }
    let given = PG_BASEBACKUP.read(&split.rest);
    if is_raw(&given) {
        return raw(wrapper, &split, &given);
    }
    if !given.has("D") {
        return Err(wrapper.sealed(&split.rest)?.exec());
    }
    let Some(source) = wrapper.ask(&split, &given)? else {
        return wrapper.plain(&split);
    };
    match copy(wrapper, &split, &given, &source)? {
        Some(code) => Ok(code),
        None => wrapper.plain(&split),
    }
}

/// Makes a sealed copy of `source` in the directory that the options name; none if they ask for a
/// plain one. `pg_basebackup`'s exit code is passed on.
pub fn copy(
    wrapper: &Wrapper,
    split: &Split,
    given: &Given,
    source: &Source,
) -> Result<Option<ExitCode>, Failure> {
    let root = Root::pending(Path::new(given.value("D").unwrap_or_default()))?;
    let key_dir = root.path.join(DIR);
    if key_dir.exists() {
        return Err(BackupError::Exists(key_dir).into());
    }
    if !is_encrypted(split, source) {
        return Ok(None);
    }
    check_server(source)?;
    Copy::of(split, given, source, root)?
        .make(wrapper, &split.rest, source)
        .map(Some)
}

/// Whether options or server want an encrypted copy.
fn is_encrypted(split: &Split, source: &Source) -> bool {
    source.key_file.is_some() || ANOTHER_KEY.iter().any(|name| split.has(*name))
}

/// Would a server start on an encrypted copy?
fn check_server(source: &Source) -> Result<(), Failure> {
    version::check(&source.version.to_string())?;
    let [data, wal] = source.block_sizes;
    check_blocks(data, wal)?;
    match source.logs_hints {
        true => Ok(()),
        false => Err(BackupError::NoHints.into()),
    }
}

/// Whether `pg_basebackup` hands on what the server sends instead of laying it out.
pub fn is_raw(given: &Given) -> bool {
    let tar = given
        .value("F")
        .is_some_and(|format| format == "t" || format == "tar");
    tar || has_target(given)
}

/// Whether the backup goes elsewhere. `client` is PostgreSQL's word for no target.
fn has_target(given: &Given) -> bool {
    given.value("t").is_some_and(|target| target != "client")
}

/// Makes a raw copy of what a sealed server stores. If the server is not sealed, PostgreSQL makes
/// the copy.
fn raw(wrapper: &Wrapper, split: &Split, given: &Given) -> Result<ExitCode, Failure> {
    let Some(source) = wrapper.ask(split, given)? else {
        return wrapper.plain(split);
    };
    if let Some(option) = split.first_of(&[&OF_A_NEW_KEY[..], &ANOTHER_KEY].concat()) {
        return Err(BackupError::RawKey(option).into());
    }
    let Some(theirs) = &source.key_file else {
        return wrapper.plain(split);
    };
    let mut args = split.rest.clone();
    if given.has("i") {
        return Err(BackupError::RawIncremental.into());
    }
    let streams = streams_wal(given);
    if !streams && !given.has("X") && !has_target(given) {
        args.insert(0, "--wal-method=fetch".into());
    }
    if !given.has("no-verify-checksums") {
        args.insert(0, "--no-verify-checksums".into());
    }
    let mut sealed = wrapper.sealed(&args)?;
    sealed.tell(RECEIVER, RAW);
    if streams {
        seal_stream(&mut sealed, split, given, &source, theirs)?;
    }
    Err(sealed.exec())
}

/// Whether `pg_basebackup` streams WAL into a tar beside the others. It cannot do so into a pipe
/// or to a target.
fn streams_wal(given: &Given) -> bool {
    let method = given.value("X").and_then(OsStr::to_str);
    matches!(method, None | Some("s" | "stream"))
        && given.value("D").is_some_and(|directory| directory != "-")
}

/// Makes the library in `pg_basebackup` seal the stream as the server stores it.
fn seal_stream(
    sealed: &mut Sealed,
    split: &Split,
    given: &Given,
    source: &Source,
    theirs: &[u8],
) -> Result<(), Failure> {
    let root = Root::pending(Path::new(given.value("D").unwrap_or_default()))?;
    let cluster = unlock_received(theirs, &Source::origin(), root, &split.ways());
    let cluster = cluster.map_err(|error| BackupError::WalKey(Box::new(error)))?;
    pin::check_key(&cluster)?;
    sealed.keys(&KeySet::of(slice::from_ref(&cluster)))?;
    sealed.tell(SEGMENT_SIZE, source.segment_size.to_string());
    sealed.tell(WAL_RECEIVER, source.own_token());
    Ok(())
}

/// Options of a key that the server does not have.
const ANOTHER_KEY: [Name; 2] = [Name::DataEncryption, Name::CopyKeyFrom];
const OF_A_NEW_KEY: [Name; 7] = [
    Name::WrapCommand,
    Name::NoKeyWrap,
    Name::KeyPassphrase,
    Name::KeyPassphraseFile,
    Name::Argon2Memory,
    Name::AllowWeak,
    Name::KeyFile,
];

/// A sealed copy to be made.
struct Copy {
    key: NewKey,
    /// the token that opens the server, if that is sealed
    token: Option<OsString>,
}

impl Copy {
    /// Decides the key and the token of a copy that options or server want
    /// [encrypted](is_encrypted).
    fn of(split: &Split, given: &Given, source: &Source, root: Root) -> Result<Self, Failure> {
        if !ANOTHER_KEY.iter().any(|name| split.has(*name)) {
            let theirs = source.key_file.as_ref();
            return Self::same_key(
                split,
                source,
                theirs.expect("the server is encrypted"),
                root,
            );
        }
        let key = new_key(&split.protection()?, root)?;
        pin::check_key(&key.cluster)?;
        let token = match &source.key_file {
            Some(theirs) => token(source, theirs, &key.cluster, given)?,
            None => None,
        };
        Ok(Self { key, token })
    }

    fn same_key(
        split: &Split,
        source: &Source,
        theirs: &[u8],
        root: Root,
    ) -> Result<Self, Failure> {
        if let Some(option) = split.first_of(&OF_A_NEW_KEY) {
            return Err(OptionError::NotSealed(option).into());
        }
        let cluster = unlock_received(theirs, &Source::origin(), root, &split.ways())?;
        pin::check_key(&cluster)?;
        let token = Some(source.own_token());
        let key = NewKey::existing(cluster, Zeroizing::new(theirs.to_vec()));
        Ok(Self { key, token })
    }

    /// Runs `pg_basebackup` and commits the key file.
    fn make(
        self,
        wrapper: &Wrapper,
        args: &[OsString],
        source: &Source,
    ) -> Result<ExitCode, Failure> {
        wrapper.asked()?;
        let cluster = &self.key.cluster;
        let mut sealed = wrapper.sealed(args)?;
        sealed.keys(&KeySet::of(slice::from_ref(cluster)))?;
        sealed.tell(SEGMENT_SIZE, source.segment_size.to_string());
        match &self.token {
            Some(token) => sealed.tell(RECEIVER, token),
            None => sealed.scrub(RECEIVER),
        }
        let status = sealed.run()?;
        if !status.success() {
            return Ok(code_of(status));
        }
        let data = &cluster.root.path;
        check_sealed(data)?;
        let created = KeyDir::of(data).create(&self.key.image, &cluster.header);
        created.map_err(BackupError::Commit)?;
        self.key.keep();
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the token that opens a server with the key file `theirs`. An operator who was granted a
/// token declares it, and need not be able to open the server's key; then there is none here.
fn token(
    source: &Source,
    theirs: &[u8],
    ours: &Unlocked,
    given: &Given,
) -> Result<Option<OsString>, UnlockError> {
    if source::is_declared(given) {
        return Ok(None);
    }
    if source::key_id(theirs) == Some(ours.header.key_id) {
        return Ok(Some(source.own_token()));
    }
    let root = Root {
        path: ours.root.path.clone(),
        aliases: Vec::new(),
    };
    let server = unlock_received(theirs, &Source::origin(), root, &Ways::default())?;
    Ok(Some(source.token(&server.master)))
}

/// Was the library at work in the program that made `data`?
pub fn check_sealed(data: &Path) -> Result<(), BackupError> {
    let path = control_file::path(data);
    match control_file::is_sealed(data) {
        Ok(true) => Ok(()),
        Ok(false) => Err(BackupError::NotSealed(path)),
        Err(error) => Err(BackupError::ReadBack(path, error)),
    }
}
