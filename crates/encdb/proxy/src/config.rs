//! The configuration file of `pgseal proxy`, in TOML.
//!
//! An unknown key is an error: a misspelt setting must not become none. Whatever is wrong is told
//! with the line that it is in.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pgseal_client::{ConnectOptions, Identity, IdentityFile, Kept, Policy};
use pgseal_engine::{Owner, Owners, ServerTrust};
use pgseal_keys::exit::{Code, Exit};
use pgseal_options::{Accept, EvidenceOptions};
use pgseal_serving::tls::TlsFiles;
use serde::Deserialize;
use toml::Spanned;

use crate::greeting::acceptor;
use crate::listener::Address;
use crate::serve::Setup;
use crate::service::Service;

/// Why a configuration file is not used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("{0} cannot be read: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// A line is wrong.
    #[error("{file}, line {line}: {text}")]
    Line {
        /// The file
        file: PathBuf,
        /// The line, from 1
        line: usize,
        /// The setting, and what is wrong with it
        text: String,
    },
}

impl Exit for ConfigError {
    fn code(&self) -> Code {
        match self {
            Self::Read(..) => Code::Io,
            Self::Line { .. } => Code::Usage,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    server: Spanned<String>,
    #[serde(default)]
    listen: Vec<String>,
    metrics: Option<String>,
    tls: Option<Spanned<Tls>>,
    database: Vec<Database>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Tls {
    cert: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// The owner of the connections to a database, of a user, or of all that no table before names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Database {
    name: Option<String>,
    user: Option<String>,
    identity: Spanned<PathBuf>,
    #[serde(default)]
    accept: Vec<Spanned<String>>,
    policy: Option<PathBuf>,
    amd_certificates: Option<PathBuf>,
    intel_collateral: Option<PathBuf>,
    rules: Option<String>,
    #[serde(default)]
    trust_server_types: bool,
    #[serde(default)]
    session_pool: bool,
}

/// The owners of a configuration file: the first whose database and user are those of a
/// connection.
struct ByDatabase(Vec<OneOfThem>);

struct OneOfThem {
    name: Option<String>,
    user: Option<String>,
    identity: Arc<Identity>,
    kept: Kept,
    policy: Arc<Policy>,
    trust: ServerTrust,
}

impl Owners for ByDatabase {
    fn owner(&self, user: &str, database: &str) -> Option<Owner> {
        let is = |given: &Option<String>, asked| given.as_deref().is_none_or(|it| it == asked);
        let mut all = self.0.iter();
        let found = all.find(|it| is(&it.name, database) && is(&it.user, user))?;
        Some(Owner {
            identity: Arc::clone(&found.identity),
            policy: Arc::clone(&found.policy),
            list: found.kept.database(database),
            trust: found.trust,
            keyname: format!("|{user}|{database}|"),
        })
    }
}

/// A file that is being read.
struct Reading<'f> {
    file: &'f Path,
    text: &'f str,
}

/// Reads a configuration file, and the files that it names.
pub fn configured(file: &Path) -> Result<Setup, ConfigError> {
    let text = fs::read_to_string(file).map_err(|error| ConfigError::Read(file.into(), error))?;
    let reading = Reading { file, text: &text };
    let parsed: File = toml::from_str(&text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        reading.wrong(&span, error.message())
    })?;
    reading.setup(parsed)
}

impl Reading<'_> {
    fn setup(&self, parsed: File) -> Result<Setup, ConfigError> {
        let options = ConnectOptions {
            dbname: Some(parsed.server.get_ref().clone()),
            ..ConnectOptions::default()
        };
        let target = options.target();
        let target = target.map_err(|error| self.wrong(&parsed.server.span(), error))?;
        let tls = parsed.tls.map(|table| {
            let span = table.span();
            let Tls {
                cert,
                key,
                client_ca,
            } = table.into_inner();
            let files = TlsFiles {
                certificate: cert,
                key,
                client_ca,
            };
            acceptor(&files).map_err(|error| self.wrong(&span, error))
        });
        let tls = tls.transpose()?;
        let owners = parsed.database.into_iter().map(|it| self.owner(it));
        let owners = ByDatabase(owners.collect::<Result<_, _>>()?);
        let listen = parsed.listen.iter().map(|address| Address::of(address));
        Ok(Setup {
            listen: listen.collect(),
            metrics: parsed.metrics.as_deref().map(Address::of),
            service: Service {
                target,
                owners: Arc::new(owners),
                tls,
            },
        })
    }

    fn owner(&self, table: Database) -> Result<OneOfThem, ConfigError> {
        let span = table.identity.span();
        let wrong = |error: &dyn ToString| self.wrong(&span, error.to_string());
        let policy = self.policy(&table)?;
        let loaded = IdentityFile::load(table.identity.get_ref());
        let IdentityFile { identity, kept, .. } = loaded.map_err(|error| wrong(&error))?;
        Ok(OneOfThem {
            name: table.name,
            user: table.user,
            identity: Arc::new(identity),
            kept,
            policy: Arc::new(policy),
            trust: ServerTrust {
                types: table.trust_server_types,
                session_pool: table.session_pool,
            },
        })
    }

    /// Returns the policy of a table: a file, or the evaluators that it accepts.
    fn policy(&self, table: &Database) -> Result<Policy, ConfigError> {
        let mut accept = Vec::new();
        for text in &table.accept {
            let parsed = text.get_ref().parse::<Accept>();
            accept.push(parsed.map_err(|error| self.wrong(&text.span(), error))?);
        }
        let span = table.identity.span();
        if accept.is_empty() == table.policy.is_none() {
            let text = "the table of this identity needs either accept or policy";
            return Err(self.wrong(&span, text));
        }
        let options = EvidenceOptions {
            policy: table.policy.clone(),
            accept,
            amd_certificates: table.amd_certificates.clone(),
            intel_collateral: table.intel_collateral.clone(),
            rules: table.rules.clone(),
        };
        options.policy().map_err(|error| self.wrong(&span, error))
    }

    /// Returns the error of a part of the file, with the line and the key that it is in.
    fn wrong(&self, span: &Range<usize>, error: impl ToString) -> ConfigError {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let whole = self.text.lines().nth(line - 1).unwrap_or_default();
        let key = whole.split_once('=').map(|(key, _)| key.trim());
        let error = error.to_string();
        ConfigError::Line {
            file: self.file.to_owned(),
            line,
            text: match key {
                Some(key) => format!("{key}: {error}"),
                None => error,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("proxy.toml");
        fs::write(&file, text).expect("it can be written");
        let error = configured(&file).err().expect("it is refused").to_string();
        let name = file.display().to_string();
        error.replace(&name, "FILE")
    }

    #[test]
    fn what_is_wrong_is_told_with_its_key_and_line() {
        for (text, said) in [
            ("server = 5\ndatabase = []\n", "FILE, line 1: server: invalid type: integer `5`, expected a string"),
            ("server = 'host=x'\nlisten = ['/s']\nsever = 1\n", "FILE, line 3: sever: unknown field `sever`"),
            ("server = 'host=x'\n[[database]]\nname = 'a'\n", "FILE, line 2: missing field `identity`"),
            ("server = 'sslmode=on host=x'\ndatabase = []\n", "FILE, line 1: server: \"on\" is no sslmode"),
            ("server = 'host=x'\n[[database]]\nidentity = '/nonexistent'\n", "FILE, line 3: identity: the table of"),
            ("server = 'host=x'\n[[database]]\nidentity = '/nonexistent'\naccept = ['software']\n", "FILE, line 3: identity: "),
            ("server = 'host=x'\n[[database]]\nidentity = '/x'\naccept = ['hardware']\n", "FILE, line 4: accept: give software"),
            ("server = 'host=x'\n[tls]\ncert = '/nonexistent'\nkey = '/y'\n[[database]]\nidentity = '/x'\n", "FILE, line 2: /nonexistent cannot be read"),
            ("server = \n", "FILE, line 1: server: "),
        ] {
            let error = refused(text);
            assert!(error.starts_with(said), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
