//! The facts about a cluster before the steps are decided: its state, how it is started, how its
//! key opens, and what a conversion would take.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use pgseal_convert::Kind;
use pgseal_keys::conversion;
use pgseal_keys::exit::Failure;
use pgseal_keys::keybin::DIR;
use pgseal_keys::passphrase::FILE as PASSPHRASE_FILE;
use pgseal_keys::server;
use pgseal_storage::control::Control;
use serde_json::Value;

use super::child::Program;
use super::host::Host;
use super::plan::{Facts, State, Step};
use super::settings::{self, Settings};
use super::{key_id, passphrase, EnableError};
use crate::cli::enable::EnableKey;

/// How the key is protected, or opens.
pub struct Protection {
    /// None: by other options, or by what the key's slot says.
    pub passphrase_file: Option<PathBuf>,
    /// The other options, as `pgseal seal` takes them.
    options: Vec<OsString>,
    length: Option<String>,
}

impl Protection {
    /// The protection of a new key. A cluster that is sealed already keeps its own, and one that
    /// is sealed by half the one that it was begun with.
    pub fn of_new(host: &Host, key: &EnableKey) -> Result<Self, Failure> {
        let options = key.arguments();
        let default = options.is_empty();
        let own = passphrase::path(&host.file_name());
        let passphrase_file = match (&key.key_passphrase_file, state(&host.data)?) {
            (Some(named), _) => Some(named.clone()),
            (None, State::Sealed) => present_file(host)?,
            (None, State::Plain) => default.then_some(own),
            (None, State::Converting(_)) => Some(own).filter(|own| default && own.exists()),
        };
        Self {
            passphrase_file,
            options,
            length: key.data_encryption.clone(),
        }
        .checked()
    }

    /// The way in which the key opens that a cluster has.
    pub fn of_present(host: &Host, named: Option<&Path>) -> Result<Self, Failure> {
        let passphrase_file = match named {
            Some(named) => Some(named.to_owned()),
            None => present_file(host)?,
        };
        Self {
            passphrase_file,
            options: Vec::new(),
            length: None,
        }
        .checked()
    }

    fn checked(self) -> Result<Self, Failure> {
        match self.passphrase_file.as_deref() {
            Some(path) if !path.to_str().is_some_and(settings::is_simple) => {
                Err(EnableError::PassphrasePath(path.to_owned()).into())
            }
            _ => Ok(self),
        }
    }

    /// The options of `pgseal seal`.
    pub fn seal_options(&self) -> Vec<OsString> {
        let file = self.file_option("--key-passphrase-file");
        let none = file.is_none() && self.options.is_empty();
        // A conversion that goes on opens the key by its own slot.
        let rest = none.then(|| "--key-passphrase".into());
        let all = self.options.iter().cloned().chain(file).chain(rest);
        all.chain(self.length_option()).collect()
    }

    /// Those options while the passphrase is still to be made, and protects nothing.
    fn options_of_a_look(&self) -> Vec<OsString> {
        let plain = std::iter::once("--no-key-wrap".into());
        plain.chain(self.length_option()).collect()
    }

    fn length_option(&self) -> Option<OsString> {
        let bits = self.length.as_ref()?;
        Some(format!("--data-encryption={bits}").into())
    }

    /// The options of `pgseal unseal`.
    pub fn unseal_options(&self) -> Vec<OsString> {
        self.file_option("--passphrase-file").into_iter().collect()
    }

    fn file_option(&self, name: &str) -> Option<OsString> {
        let path = self.passphrase_file.as_ref()?;
        Some(format!("{name}={}", path.display()).into())
    }
}

/// The passphrase file that a server is started with, else the one that an `enable` made.
fn present_file(host: &Host) -> Result<Option<PathBuf>, EnableError> {
    let text = host.settings_text()?;
    let named = host.variables(&text)?.remove(PASSPHRASE_FILE);
    let own = passphrase::path(&host.file_name());
    Ok(named
        .map(PathBuf::from)
        .or_else(|| own.exists().then_some(own)))
}

/// The facts.
pub struct Found {
    pub facts: Facts,
    pub protection: Protection,
    /// The variables that the server is started with, without the pin.
    pub environment: BTreeMap<String, String>,
}

pub fn find(host: &Host, protection: Protection) -> Result<Found, Failure> {
    let (data, state) = (&host.data, state(&host.data)?);
    let text = host.settings_text()?;
    let mut environment = host.variables(&text)?;
    for own in [pgseal_contract::variable::EXPECT_KEY.as_str(), "LD_PRELOAD"] {
        environment.remove(own);
    }
    let has_settings =
        state == State::Sealed && host.wanted_text(&text, &settings(host, &protection)?) == text;
    let lacks_passphrase = lacks_passphrase(host, &protection, state)?;
    let facts = Facts {
        state,
        runs: server::of(data)?.pid().is_some(),
        owes_start: host.stop_mark().exists(),
        has_hints: state != State::Plain || has_hints(host)?,
        lacks_passphrase,
        has_wrappers: host.has_wrappers(&text),
        has_some_wrappers: host.has_some_wrappers(),
        shares_wrappers: host.shares_wrappers()?,
        has_settings,
        has_leftovers: host.has_leftovers(&text),
    };
    Ok(Found {
        facts,
        protection,
        environment,
    })
}

/// Must the passphrase be made? Only for a new key, and only the file of our own.
fn lacks_passphrase(
    host: &Host,
    protection: &Protection,
    state: State,
) -> Result<bool, EnableError> {
    let Some(path) = &protection.passphrase_file else {
        return Ok(false);
    };
    let is_own = *path == passphrase::path(&host.file_name());
    if state == State::Plain && is_own && !path.exists() {
        return Ok(true);
    }
    match passphrase::opens(path, &host.owner) {
        true => Ok(false),
        false => Err(EnableError::Passphrase(
            path.clone(),
            host.owner.name.clone(),
        )),
    }
}

/// The settings that a sealed cluster's server is started with.
pub fn settings(host: &Host, protection: &Protection) -> Result<Settings, Failure> {
    let file = protection.passphrase_file.as_ref();
    Ok(Settings {
        passphrase_file: file.map(|path| path.display().to_string()),
        key_id: key_id(&host.data)?,
    })
}

/// Is the cluster plain, sealed, or neither?
pub fn state(data: &Path) -> Result<State, Failure> {
    if let Some(journal) = conversion::journal(data)? {
        return Ok(State::Converting(journal.kind));
    }
    // An unseal that has to remove the rest of its key directory.
    let leaves = data.join(format!("{DIR}.old")).exists();
    Ok(match (data.join(DIR).exists(), leaves) {
        (true, _) => State::Sealed,
        (false, true) => State::Converting(Kind::Unseal),
        (false, false) => State::Plain,
    })
}

/// Has the plain cluster what a sealed one needs?
fn has_hints(host: &Host) -> Result<bool, EnableError> {
    const SIZE: u64 = 8192;
    let path = host.data.join("global/pg_control");
    let mut page = Vec::new();
    let read = || File::open(&path)?.take(SIZE).read_to_end(&mut page);
    let read = host.owner.act(read);
    read.map_err(|error| EnableError::Data(path.clone(), error))?;
    // What cannot be parsed here `pgseal seal --check` names as an obstacle.
    let control = Control::parse(&page);
    Ok(control.is_ok_and(|control| control.data_checksums || control.wal_log_hints))
}

/// The bytes and time that the conversion takes, and what is in its way.
#[derive(Default)]
pub struct Outlook {
    pub files: u64,
    pub bytes: u64,
    pub seconds: Option<f64>,
    pub obstacles: Vec<String>,
    pub unlisted: Vec<String>,
}

impl Outlook {
    /// Asks `pgseal seal --check` or `pgseal unseal --check`, as the server's user. The server may
    /// run meanwhile.
    pub fn of(host: &Host, found: &Found, steps: &[Step]) -> Result<Self, Failure> {
        let (command, key) = match (steps.contains(&Step::Seal), steps.contains(&Step::Unseal)) {
            (true, _) => ("seal", Self::key(found)),
            (false, true) => ("unseal", found.protection.unseal_options()),
            (false, false) => return Ok(Self::default()),
        };
        let name = format!("pgseal {command} --check");
        let (code, text) = Program::pgseal(&host.owner, &found.environment, command)?
            .args(["--check", "--json", "--beside-server", "-D"].map(Into::into))
            .arg(&host.data)
            .args(key)
            .output()?;
        if !matches!(code, Some(0 | 1)) || text.is_empty() {
            return Err(EnableError::program(name, code).into());
        }
        let parsed = serde_json::from_str(&text).ok();
        let outlook = parsed.as_ref().and_then(Self::parse);
        Ok(outlook.ok_or(EnableError::Answer(name))?)
    }

    fn key(found: &Found) -> Vec<OsString> {
        match found.facts.lacks_passphrase {
            true => found.protection.options_of_a_look(),
            false => found.protection.seal_options(),
        }
    }

    fn parse(report: &Value) -> Option<Self> {
        let texts = |name: &str| {
            let values = report[name].as_array()?.iter();
            values
                .map(|value| value.as_str().map(str::to_owned))
                .collect::<Option<Vec<_>>>()
        };
        Some(Self {
            files: report["files"].as_u64()?,
            bytes: report["bytes"].as_u64()?,
            seconds: report["seconds_at_least"].as_f64(),
            obstacles: texts("obstacles")?,
            unlisted: texts("unlisted")?,
        })
    }
}
