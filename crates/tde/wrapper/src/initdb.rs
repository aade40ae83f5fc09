//! The wrapper of initdb: makes a master key, runs the real initdb sealed, commits the key file.
//!
//! States: (1) the key file's bytes exist in memory and were opened once; (2) the real initdb has
//! made a cluster that cannot be opened, because its key file is missing; (3) `key.bin` is in
//! place. A failure before (3) removes what was made, so that nothing is left that starts.

use std::env::{self, VarError};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::slice;

use pgseal_keys::cluster::Root;
use pgseal_keys::control_file;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::interrupt::PutOff;
use pgseal_keys::key_set::KeySet;
use pgseal_keys::keybin::{KeyBinError, KeyDir, DIR};
use pgseal_keys::machine::Machine;
use pgseal_keys::new_key::{new_key, NewKey, WRAP_COMMAND};
use pgseal_keys::pin::{self, PinError};
use pgseal_keys::unlock::UNWRAP_COMMAND;
use pgseal_storage::version;

use crate::getopt::INITDB;
use crate::options::{self, Name, OptionError, Split};
use crate::supervise::code_of;
use crate::Wrapper;

const OPTIONS: &str = "PGSEAL_INITDB_OPTIONS";
const MACHINE_OPTIONS: &str = "initdb_options in /etc/pgseal/default.toml";
const NO_CHECKSUMS: &str = "--no-data-checksums";

/// Why there is no sealed cluster.
#[derive(Debug, thiserror::Error)]
pub enum InitdbError {
    #[error("initdb left {0} in clear, so the library was not at work, and the new directory was emptied: check that libpgseal.so can be loaded")]
    NotSealed(PathBuf),
    #[error(
        "{0} cannot be read back ({1}), and the new directory was emptied: check the file system"
    )]
    ReadBack(PathBuf, io::Error),
    #[error("{0} exists, and initdb never overwrites a key: choose an empty directory")]
    Exists(PathBuf),
    #[error("{0} cannot be made ({1}): check the owner of the directory above it")]
    MakeDirectory(PathBuf, io::Error),
    #[error("the new directory was emptied: {0}")]
    Commit(KeyBinError),
}

impl Exit for InitdbError {
    fn code(&self) -> Code {
        match self {
            Self::NotSealed(_) => Code::NotGuaranteed,
            Self::Exists(_) => Code::Usage,
            Self::ReadBack(..) | Self::MakeDirectory(..) | Self::Commit(_) => Code::Io,
        }
    }
}

/// Runs initdb, sealed if an option, `PGSEAL_INITDB_OPTIONS` or the machine asks for it.
pub fn run(wrapper: &Wrapper, args: Vec<OsString>) -> Result<ExitCode, Failure> {
    let named = options::split("initdb", args.clone())?;
    if !makes_a_cluster(&named.rest) {
        return Err(wrapper.sealed(&named.rest)?.exec());
    }
    let split = options::split("initdb", with_default_options(args)?)?;
    if !makes_a_cluster(&split.rest) {
        return Err(wrapper.sealed(&split.rest)?.exec());
    }
    let asked = split.has(Name::DataEncryption) || split.has(Name::KeyCommand);
    if let (false, Some(option)) = (asked, split.first()) {
        return Err(OptionError::NotSealed(option).into());
    }
    let (true, Some(data)) = (asked, data_directory(&split.rest)) else {
        return plain(wrapper, &split);
    };
    let root = Root::pending(&data)?;
    let key_dir = root.path.join(DIR);
    if key_dir.exists() {
        return Err(InitdbError::Exists(key_dir).into());
    }
    if !is_new(&root.path) {
        // The real one refuses, or does what is meant for clusters that are there.
        return Err(wrapper.sealed(&split.rest)?.exec());
    }
    version::check(&wrapper.asked()?.version)?;
    let mut args = split.rest.clone();
    checksums(wrapper, &mut args)?;
    if let Some(code) = refusal(wrapper, &args)? {
        return Ok(code);
    }
    let _directory = NewDirectory::make(&root.path)?;
    let key = new_key(&split.protection()?, root)?;
    pin::check_new(key.cluster.header.key_id)?;
    make(wrapper, &args, key)
}

/// Runs initdb with `--show`, which refuses root and unusable options, and makes nothing. Returns
/// the exit code of a refusal. So a refusal comes before a key is made, or a passphrase asked for.
fn refusal(wrapper: &Wrapper, args: &[OsString]) -> Result<Option<ExitCode>, Failure> {
    let show = [&["--show".into()], args].concat();
    let output = wrapper.sealed(&show)?.output()?;
    if output.status.success() {
        return Ok(None);
    }
    // Only the exit code is left, if the output has no reader.
    let _ = io::stdout().write_all(&output.stdout);
    let _ = io::stderr().write_all(&output.stderr);
    Ok(Some(code_of(output.status)))
}

/// Runs initdb as PostgreSQL does, unless the operator expects a sealed cluster.
fn plain(wrapper: &Wrapper, split: &Split) -> Result<ExitCode, Failure> {
    if pin::expected()?.is_some() {
        return Err(PinError::New.into());
    }
    Err(wrapper.sealed(&split.rest)?.exec())
}

/// Returns the options of the machine, of `PGSEAL_INITDB_OPTIONS`, and of the command line: the
/// last counts where an option has one value.
fn with_default_options(args: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let of_environment = match env::var(OPTIONS) {
        Err(VarError::NotUnicode(_)) => return Err(OptionError::DefaultsNotText.into()),
        given => given.unwrap_or_default(),
    };
    let of_machine = Machine::this().initdb_options()?.unwrap_or_default();
    let mut all = Vec::new();
    for (place, text) in [(MACHINE_OPTIONS, of_machine), (OPTIONS, of_environment)] {
        let options = shlex::split(&text).ok_or(OptionError::OpenQuote(place))?;
        all.extend(options.into_iter().map(OsString::from));
    }
    all.extend(args);
    Ok(all)
}

/// Whether none of `--help`, `--version`, `--show` and `--sync-only` is given.
fn makes_a_cluster(args: &[OsString]) -> bool {
    let given = INITDB.read(args);
    !["?", "V", "s", "S"].iter().any(|other| given.has(other))
}

/// Returns where initdb will make the cluster: `-D`, else the first bare word, else PGDATA.
fn data_directory(args: &[OsString]) -> Option<PathBuf> {
    let given = INITDB.read(args);
    let named = given.value("D").or(given.words.first().map(OsStr::new));
    let default = || env::var_os("PGDATA").filter(|data| !data.is_empty());
    named
        .map(OsStr::to_owned)
        .or_else(default)
        .map(PathBuf::from)
}

/// Whether the directory is missing or empty, so that whatever is in it afterwards was made here.
fn is_new(data: &Path) -> bool {
    match fs::read_dir(data) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The data directory, made so that the wrap and unwrap commands run in it as they will later. If
/// the wrapper made it and it is empty in the end, it is removed, before a signal ends the
/// wrapper.
struct NewDirectory {
    made: Option<PathBuf>,
    _signals: PutOff,
}

impl NewDirectory {
    fn make(path: &Path) -> Result<Self, InitdbError> {
        let failed = |error| InitdbError::MakeDirectory(path.to_owned(), error);
        let signals = PutOff::new().map_err(failed)?;
        let made = !path.exists();
        if made {
            let mut builder = DirBuilder::new();
            builder
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(failed)?;
        }
        Ok(Self {
            made: made.then(|| path.to_owned()),
            _signals: signals,
        })
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            // Refused by the kernel, as it must be, when there is something in it.
            let _ = fs::remove_dir(path);
        }
    }
}

/// Runs the real initdb and commits the key file.
fn make(wrapper: &Wrapper, args: &[OsString], key: NewKey) -> Result<ExitCode, Failure> {
    let cluster = &key.cluster;
    let mut sealed = wrapper.sealed(args)?;
    sealed.keys(&KeySet::of(slice::from_ref(cluster)))?;
    sealed.scrub(WRAP_COMMAND);
    sealed.scrub(UNWRAP_COMMAND);
    let status = sealed.run()?;
    if !status.success() {
        return Ok(code_of(status));
    }
    let data = &cluster.root.path;
    let commit = || KeyDir::of(data).create(&key.image, &cluster.header);
    if let Err(error) = check_sealed(data).and_then(|()| commit().map_err(InitdbError::Commit)) {
        empty(data);
        return Err(error.into());
    }
    key.keep();
    Ok(ExitCode::SUCCESS)
}

/// Turns data checksums on unless an option declines them. Before PostgreSQL 18, which has them by
/// default, initdb does not know that option, so it is taken out here.
fn checksums(wrapper: &Wrapper, args: &mut Vec<OsString>) -> Result<(), Failure> {
    let asked = args
        .iter()
        .any(|arg| arg == "--data-checksums" || arg == "-k");
    let declined = args.iter().any(|arg| arg == NO_CHECKSUMS);
    if !asked && !declined {
        args.insert(0, "-k".into());
    } else if declined {
        let help = wrapper.sealed(&["--help".into()])?.output()?.stdout;
        if !String::from_utf8_lossy(&help).contains(NO_CHECKSUMS) {
            args.retain(|arg| arg != NO_CHECKSUMS);
        }
    }
    Ok(())
}

fn check_sealed(data: &Path) -> Result<(), InitdbError> {
    let path = control_file::path(data);
    match control_file::is_sealed(data) {
        Ok(true) => Ok(()),
        Ok(false) => Err(InitdbError::NotSealed(path)),
        Err(error) => Err(InitdbError::ReadBack(path, error)),
    }
}

/// Removes what initdb made in a directory that [was empty](is_new), as initdb itself does when it
/// fails.
fn empty(data: &Path) {
    let Ok(entries) = fs::read_dir(data) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    }
}
