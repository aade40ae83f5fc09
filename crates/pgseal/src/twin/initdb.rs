//! The twin of initdb: makes a master key, runs the real initdb sealed, and commits the key file.
//!
//! States: (1) the key file's bytes exist in memory and were opened once; (2) the real initdb has
//! made a cluster that nobody can open, for its key file is missing; (3) `key.bin` is in place.
//! A failure before (3) removes what initdb made, so that nothing is left that starts.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use pgseal_crypto::{random_bytes, KeyLength, MasterKey, RandomError, Suite};
use pgseal_format::{ClusterId, Header, KeyFile, Payload, SlotKind};

use super::options::{self, Name, OptionError, Split};
use super::pin::{self, PinError};
use super::Twin;
use crate::cluster::Root;
use crate::exit::Failure;
use crate::unlock::{UnlockError, Unlocked};

const OPTIONS: &str = "PGSEAL_INITDB_OPTIONS";

/// Why there is no sealed cluster.
#[derive(Debug, thiserror::Error)]
pub enum InitdbError {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Unlock(#[from] UnlockError),
    #[error("initdb left {0} in clear, so the library was not at work: the new directory was emptied; check that libpgseal.so can be loaded")]
    NotSealed(PathBuf),
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error(
        "{0} cannot be written ({1}): the new directory was emptied; make room or check its owner"
    )]
    Io(PathBuf, io::Error),
}

/// initdb, sealed if an option or `PGSEAL_INITDB_OPTIONS` asks for it.
pub fn run(twin: &Twin, args: Vec<OsString>) -> Result<ExitCode, Failure> {
    let split = options::split("initdb", with_default_options(args)?)?;
    let data = data_directory(&split.rest);
    if !makes_a_cluster(&split.rest) {
        return Err(twin.sealed(&split.rest)?.exec());
    }
    let (true, Some(data)) = (asks_for_sealing(&split), data) else {
        if pin::expected()?.is_some() {
            return Err(PinError::New.into());
        }
        return Err(twin.sealed(&split.rest)?.exec());
    };
    let (cluster, image) = new_key(&split, Root::pending(&data)?)?;
    make(twin, split.rest, cluster, &image)
}

/// `PGSEAL_INITDB_OPTIONS`, then the command line.
fn with_default_options(args: Vec<OsString>) -> Result<Vec<OsString>, OptionError> {
    let text = env::var(OPTIONS).unwrap_or_default();
    let defaults = shlex::split(&text).ok_or(OptionError::OpenQuote)?;
    Ok(defaults
        .into_iter()
        .map(OsString::from)
        .chain(args)
        .collect())
}

fn asks_for_sealing(split: &Split) -> bool {
    split.has(Name::DataEncryption) || split.has(Name::KeyCommand)
}

/// Not `--help`, `--version`, `--show` or `--sync-only`.
fn makes_a_cluster(args: &[OsString]) -> bool {
    const OTHERS: [&str; 8] = [
        "--help",
        "-?",
        "--version",
        "-V",
        "--show",
        "-s",
        "--sync-only",
        "-S",
    ];
    !args
        .iter()
        .filter_map(|arg| arg.to_str())
        .any(|arg| OTHERS.contains(&arg))
}

/// Where initdb will make the cluster: `-D`, else the first bare argument, else PGDATA.
fn data_directory(args: &[OsString]) -> Option<PathBuf> {
    let mut bare = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy();
        if let Some(value) = text.strip_prefix("--pgdata=") {
            return Some(value.into());
        }
        if text == "--pgdata" {
            return args.next().map(PathBuf::from);
        }
        if text.starts_with("--") || !text.starts_with('-') {
            bare = bare.or_else(|| (!text.starts_with('-')).then(|| PathBuf::from(arg)));
            continue;
        }
        let valued = super::programs::short_with_value("initdb");
        let Some(at) = text.find(|letter| valued.contains(letter)) else {
            continue;
        };
        let attached = &text[at + 1..];
        let value = if attached.is_empty() {
            args.next().map(PathBuf::from)
        } else {
            Some(attached.into())
        };
        if text[at..].starts_with('D') {
            return value;
        }
    }
    bare.or_else(|| env::var_os("PGDATA").map(PathBuf::from))
}

/// The new cluster's key, and the bytes of its key file.
fn new_key(split: &Split, root: Root) -> Result<(Unlocked, Vec<u8>), InitdbError> {
    let master = MasterKey::generate()?;
    let header = Header {
        suite: Suite::AesXts,
        length: key_length(split)?,
        cluster: ClusterId(random_bytes()?),
        key_id: master.key_id(),
        created: now(),
    };
    let mut file = KeyFile::new(header.clone());
    let payload = Payload::encode(&master, &header);
    if !split.has(Name::NoKeyWrap) {
        return Err(InitdbError::Usage("give --no-key-wrap".into()));
    }
    file.add(SlotKind::Plain { payload })
        .expect("the first slot fits");
    let image = file.write(&master).to_vec();
    Ok((
        Unlocked {
            root,
            header,
            master,
        },
        image,
    ))
}

/// 256 unless told otherwise.
fn key_length(split: &Split) -> Result<KeyLength, InitdbError> {
    let Some(text) = split.value(Name::DataEncryption) else {
        return Ok(KeyLength::Bits256);
    };
    let length = text
        .parse()
        .ok()
        .and_then(|bits: u16| KeyLength::try_from(bits).ok());
    length.ok_or_else(|| {
        InitdbError::Usage(format!(
            "{text} is not a key length: use --data-encryption=128, 192 or 256"
        ))
    })
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Runs the real initdb and commits the key file.
fn make(
    twin: &Twin,
    mut args: Vec<OsString>,
    cluster: Unlocked,
    image: &[u8],
) -> Result<ExitCode, Failure> {
    add_checksums(&mut args);
    let clusters = [cluster];
    let mut sealed = twin.sealed(&args)?;
    sealed.keys(&clusters)?;
    sealed.inherited_keys(&clusters)?;
    let status = sealed.run()?;
    if !status.success() {
        return Ok(code_of(status));
    }
    let data = &clusters[0].root.path;
    if let Err(error) = check_sealed(data).and_then(|()| commit(data, image)) {
        empty(data);
        return Err(error.into());
    }
    Ok(ExitCode::SUCCESS)
}

/// A sealed cluster runs with data checksums unless told not to.
fn add_checksums(args: &mut Vec<OsString>) {
    let decided = |arg: &OsString| {
        matches!(
            arg.to_str(),
            Some("--data-checksums" | "--no-data-checksums" | "-k")
        )
    };
    if !args.iter().any(decided) {
        args.insert(0, "-k".into());
    }
}

/// The control file in clear ends in zeros.
fn check_sealed(data: &Path) -> Result<(), InitdbError> {
    let path = data.join("global/pg_control");
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|error| InitdbError::Io(path.clone(), error))?;
    match bytes.get(4096..) {
        Some(tail) if tail.iter().any(|&byte| byte != 0) => Ok(()),
        _ => Err(InitdbError::NotSealed(path)),
    }
}

/// Puts the key file in place, so that it is there after a power cut or not at all.
fn commit(data: &Path, image: &[u8]) -> Result<(), InitdbError> {
    let dir = data.join("pg_encryption");
    write_key_file(data, &dir, image).map_err(|error| InitdbError::Io(dir, error))
}

fn write_key_file(data: &Path, dir: &Path, image: &[u8]) -> io::Result<()> {
    let mode = fs::metadata(data)?.permissions().mode();
    fs::DirBuilder::new().mode(mode & 0o750).create(dir)?;
    let aside = dir.join("key.bin.new");
    let mut options = File::options();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(mode & 0o640)
        .open(&aside)?;
    file.write_all(image)?;
    file.sync_all()?;
    fs::rename(&aside, dir.join("key.bin"))?;
    File::open(dir)?.sync_all()?;
    File::open(data)?.sync_all()
}

/// Removes what initdb made, as initdb itself does when it fails.
fn empty(data: &Path) {
    let Ok(entries) = fs::read_dir(data) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    }
}

fn code_of(status: std::process::ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}
