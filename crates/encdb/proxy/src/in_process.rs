//! The settings of a program whose connections have their engine inside the program: a
//! configuration file of the proxy, in the directory of a socket at which nobody listens.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pgseal_client::Target;
use pgseal_engine::ServerTrust;
use pgseal_options::EvidenceOptions;
use toml::{Table, Value};

use crate::directory::socket_name;

/// The variable that names the directory.
pub const VARIABLE: &str = "PGSEAL_IN_PROCESS";
/// The library that a program is to load before others.
pub const LIBRARY: &str = "libpgseal_in_process.so";

/// The owner of a program's connections, by its options.
pub struct Settings<'a> {
    /// The identity file
    pub identity: &'a Path,
    /// The evaluators that get the keys
    pub evidence: &'a EvidenceOptions,
    /// The owner's choices about the server
    pub trust: ServerTrust,
}

/// Returns the path of the settings.
pub fn settings(directory: &Path) -> PathBuf {
    directory.join("settings.toml")
}

/// Returns the path of the socket, as libpq finds it.
pub fn socket(directory: &Path) -> PathBuf {
    directory.join(socket_name())
}

/// Writes the settings, for their user alone.
pub(crate) fn write(directory: &Path, target: &Target, owner: &Settings<'_>) -> io::Result<()> {
    let evidence = owner.evidence;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let absolute = |path: &Path| std::path::absolute(path).map(|path| Value::String(text(&path)));
    let mut database = Table::new();
    database.insert("identity".to_owned(), absolute(owner.identity)?);
    for (key, path) in [
        ("policy", &evidence.policy),
        ("amd-certificates", &evidence.amd_certificates),
        ("intel-collateral", &evidence.intel_collateral),
    ] {
        if let Some(path) = path {
            database.insert(key.to_owned(), absolute(path)?);
        }
    }
    if !evidence.accept.is_empty() {
        let accept = evidence
            .accept
            .iter()
            .map(|it| Value::String(it.to_string()));
        database.insert("accept".to_owned(), Value::Array(accept.collect()));
    }
    if let Some(rules) = &evidence.rules {
        database.insert("rules".to_owned(), Value::String(rules.clone()));
    }
    for (key, is_said) in [
        ("trust-server-types", owner.trust.types),
        ("session-pool", owner.trust.session_pool),
    ] {
        if is_said {
            database.insert(key.to_owned(), Value::Boolean(true));
        }
    }
    let mut file = Table::new();
    file.insert("server".to_owned(), Value::String(target.network()));
    let databases = Value::Array(vec![Value::Table(database)]);
    file.insert("database".to_owned(), databases);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
        .open(settings(directory))?
        .write_all(file.to_string().as_bytes())
}
