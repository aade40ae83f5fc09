//! The options of programs that open an owner's sessions: the server, and which evaluators get the
//! keys. Their exit codes are here too.

#![forbid(unsafe_code)]

pub mod exit;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, fs, io};

use clap::Args;
use pgseal_client::{
    from_hex, to_hex, ClientError, ConnectOptions, Policy, PolicyError, PublicKey, Target,
};
use pgseal_keys::exit::{Code, Exit};

/// Why the options name no policy.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// A file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// The policy is none.
    #[error("the policy cannot be used: {0}")]
    Policy(#[from] PolicyError),
    /// The hash of the rules is none.
    #[error("{0:?} is not a hash of 64 hexadecimal digits")]
    Rules(String),
}

impl Exit for EvidenceError {
    fn code(&self) -> Code {
        match self {
            Self::Read(..) => Code::Io,
            Self::Policy(_) | Self::Rules(_) => Code::Usage,
        }
    }
}

/// The server, by psql's options.
#[derive(Args)]
pub struct ConnectionOptions {
    /// Host or socket directory of the server [default: $PGHOST, or the local socket]
    #[arg(short = 'h', long, value_name = "HOSTNAME")]
    pub host: Option<String>,
    /// Port of the server [default: $PGPORT, or 5432]
    #[arg(short = 'p', long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Role to connect as [default: $PGUSER]
    #[arg(short = 'U', long, value_name = "NAME")]
    pub username: Option<String>,
    /// Database, or a connection string [default: $PGDATABASE]
    #[arg(short = 'd', long, value_name = "DBNAME")]
    pub dbname: Option<String>,
}

impl ConnectionOptions {
    /// Returns the server that libpq would make of the options and its variables.
    pub fn target(&self) -> Result<Target, ClientError> {
        let options = ConnectOptions {
            host: self.host.clone(),
            port: self.port,
            user: self.username.clone(),
            dbname: self.dbname.clone(),
        };
        options.target()
    }
}

/// Which evaluators get the keys, by their evidence.
#[derive(Args)]
pub struct EvidenceOptions {
    /// Policy that says which evaluators get the keys, by their evidence
    #[arg(
        long,
        value_name = "FILE",
        env = "PGSEAL_POLICY",
        required_unless_present = "accept",
        conflicts_with = "accept"
    )]
    pub policy: Option<PathBuf>,
    /// Instead of a policy: `software:KEY` trusts the evaluator that printed this key when it
    /// started; `software` trusts any evaluator that answers; repeatable
    #[arg(
        long,
        value_name = "KIND",
        env = "PGSEAL_ACCEPT",
        value_delimiter = ','
    )]
    pub accept: Vec<Accept>,
    /// AMD's certificates for the policy, concatenated in DER
    #[arg(long, value_name = "FILE")]
    pub amd_certificates: Option<PathBuf>,
    /// Intel's collateral for the policy, in JSON
    #[arg(long, value_name = "FILE")]
    pub intel_collateral: Option<PathBuf>,
    /// Hash of the rules that the evaluator must follow, as `connect` shows it [default: any]
    #[arg(long, value_name = "HEX", env = "PGSEAL_ACCEPT_RULES")]
    pub rules: Option<String>,
}

/// Who says which columns are encrypted.
#[derive(Args)]
pub struct ListOptions {
    /// Where the identity has no list of a database's encrypted columns, let the
    /// server say which they are: a false server gets their values in clear
    #[arg(long)]
    pub trust_server_types: bool,
}

/// A pool before the server.
#[derive(Args)]
pub struct PoolOptions {
    /// The server is behind a pool that gives each connection one of the server's up
    /// to its end: pool_mode = session
    #[arg(long)]
    pub session_pool: bool,
}

/// Ordinary processes: any, or that with a key.
#[derive(Clone, Copy)]
pub struct Accept(pub Option<PublicKey>);

impl fmt::Display for Accept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("software"),
            Some(key) => write!(f, "software:{}", to_hex(&key.0)),
        }
    }
}

impl FromStr for Accept {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = "give software, or software: and the 64 digits that the evaluator prints";
        let key = text.strip_prefix("software").ok_or(refused)?;
        let Some(key) = key.strip_prefix(':') else {
            return key.is_empty().then_some(Self(None)).ok_or(refused);
        };
        let key = from_hex(key).and_then(|key| key.as_slice().try_into().ok());
        Ok(Self(Some(PublicKey(key.ok_or(refused)?))))
    }
}

impl EvidenceOptions {
    /// Reads the files that are named, and returns the policy.
    pub fn policy(&self) -> Result<Policy, EvidenceError> {
        let keys: Option<Vec<PublicKey>> = self.accept.iter().map(|it| it.0).collect();
        let mut policy = match (&self.policy, keys) {
            (Some(path), _) => Policy::parse(&text(path)?)?,
            (None, Some(keys)) if keys.is_empty() => Policy::parse("")?,
            (None, Some(keys)) => Policy::software_of(&keys),
            (None, None) => Policy::software(),
        };
        if let Some(path) = &self.amd_certificates {
            let certificates = fs::read(path);
            policy = policy.amd(certificates.map_err(|error| unreadable(path, error))?);
        }
        if let Some(path) = &self.intel_collateral {
            policy = policy.intel(text(path)?);
        }
        let Some(rules) = &self.rules else {
            return Ok(policy);
        };
        let hash = from_hex(rules).and_then(|hash| hash.as_slice().try_into().ok());
        Ok(policy.rules(hash.ok_or_else(|| EvidenceError::Rules(rules.clone()))?))
    }
}

fn text(path: &Path) -> Result<String, EvidenceError> {
    fs::read_to_string(path).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: io::Error) -> EvidenceError {
    EvidenceError::Read(path.to_owned(), error)
}
