//! The options of a client, by keywords, with the variables of `pgseal client` for missing ones.

use std::path::PathBuf;
use std::sync::Arc;

use pgseal_client::{ClientError, ConnectOptions, IdentityFileError, Target};
use pgseal_options::{EvidenceError, EvidenceOptions};
use pgseal_proxy::{OneOwner, ServerTrust, Service};

/// Why the options are none.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// A keyword that is not known
    #[error(
        "{0:?} is no option: the options are server, identity, accept, policy, rules, \
         trust_server_types and session_pool"
    )]
    Unknown(String),
    /// A value that is neither true nor false
    #[error("{0}: give true or false")]
    Truth(&'static str),
    /// No identity
    #[error("no identity is named: give the option identity, or set PGSEAL_IDENTITY")]
    Identity,
    /// No evaluator is trusted.
    #[error("no evaluator is trusted: give the option accept or policy, or set PGSEAL_ACCEPT")]
    Evidence,
    /// Both a policy and an evaluator
    #[error("accept and policy exclude each other: give one of them")]
    Both,
    /// An evaluator that is named wrongly
    #[error("accept: {0}")]
    Accept(&'static str),
    /// The server's connection string
    #[error("server: {0}")]
    Server(#[from] ClientError),
    /// The identity file
    #[error(transparent)]
    File(#[from] IdentityFileError),
    /// The policy
    #[error(transparent)]
    Policy(#[from] EvidenceError),
}

/// The options as they are given.
#[derive(Debug, Default)]
pub struct Options {
    server: Option<String>,
    identity: Option<String>,
    accept: Option<String>,
    policy: Option<String>,
    rules: Option<String>,
    trust_server_types: Option<String>,
    session_pool: Option<String>,
}

impl Options {
    /// Sets an option.
    pub fn set(&mut self, keyword: &str, value: &str) -> Result<(), OptionsError> {
        let option = match keyword {
            "server" => &mut self.server,
            "identity" => &mut self.identity,
            "accept" => &mut self.accept,
            "policy" => &mut self.policy,
            "rules" => &mut self.rules,
            "trust_server_types" => &mut self.trust_server_types,
            "session_pool" => &mut self.session_pool,
            _ => return Err(OptionsError::Unknown(keyword.to_owned())),
        };
        *option = Some(value.to_owned());
        Ok(())
    }

    /// Takes what is not set from the environment. An evaluator that is named excludes the
    /// environment's policy, and a policy its evaluator.
    #[must_use]
    pub fn with_environment(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let of = |name: &str| variable(name).filter(|value| !value.is_empty());
        self.identity = self.identity.or_else(|| of("PGSEAL_IDENTITY"));
        if self.accept.is_none() && self.policy.is_none() {
            (self.accept, self.policy) = (of("PGSEAL_ACCEPT"), of("PGSEAL_POLICY"));
        }
        self.rules = self.rules.or_else(|| of("PGSEAL_ACCEPT_RULES"));
        self
    }

    /// Returns the server as libpq would find it.
    pub fn target(&self) -> Result<Target, OptionsError> {
        let options = ConnectOptions {
            dbname: self.server.clone(),
            ..ConnectOptions::default()
        };
        Ok(options.target()?)
    }

    /// Reads the files that the options name.
    pub fn service(&self, target: Target) -> Result<Service, OptionsError> {
        let identity = self.identity.as_ref().ok_or(OptionsError::Identity)?;
        let accept = self.accept.as_deref().map(str::parse).transpose();
        let evidence = EvidenceOptions {
            policy: self.policy.as_ref().map(PathBuf::from),
            accept: accept.map_err(OptionsError::Accept)?.into_iter().collect(),
            amd_certificates: None,
            intel_collateral: None,
            rules: self.rules.clone(),
        };
        match (evidence.accept.is_empty(), &evidence.policy) {
            (true, None) => return Err(OptionsError::Evidence),
            (false, Some(_)) => return Err(OptionsError::Both),
            _ => {}
        }
        let trust = ServerTrust {
            types: truth("trust_server_types", self.trust_server_types.as_deref())?,
            session_pool: truth("session_pool", self.session_pool.as_deref())?,
        };
        Ok(Service {
            target,
            owners: Arc::new(OneOwner::load(
                identity.as_ref(),
                evidence.policy()?,
                trust,
            )?),
            tls: None,
        })
    }
}

fn truth(keyword: &'static str, value: Option<&str>) -> Result<bool, OptionsError> {
    match value {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(OptionsError::Truth(keyword)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_the_environments() {
        let variable = |name: &str| Some(format!("of {name}"));
        let options = Options::default().with_environment(variable);
        assert_eq!(options.identity.as_deref(), Some("of PGSEAL_IDENTITY"));
        assert_eq!(options.policy.as_deref(), Some("of PGSEAL_POLICY"));
        let mut named = Options::default();
        named.set("accept", "software").expect("it is known");
        let options = named.with_environment(variable);
        assert_eq!(
            (options.accept.as_deref(), options.policy),
            (Some("software"), None)
        );
    }

    #[test]
    fn each_failure_has_a_sentence() {
        let mut options = Options::default();
        assert!(matches!(
            options.set("port", "1"),
            Err(OptionsError::Unknown(_))
        ));
        let fails = |options: &Options| {
            let target = options.target().expect("there are defaults");
            options.service(target).err().expect("it fails").to_string()
        };
        assert!(fails(&options).contains("PGSEAL_IDENTITY"));
        options
            .set("identity", "/nonexistent")
            .expect("it is known");
        assert!(fails(&options).contains("PGSEAL_ACCEPT"));
        options.set("accept", "hardware").expect("it is known");
        assert!(fails(&options).contains("software"));
        options.set("accept", "software").expect("it is known");
        assert!(fails(&options).contains("/nonexistent"));
        options.set("policy", "/nonexistent").expect("it is known");
        assert!(fails(&options).contains("exclude"));
        let mut options = Options::default();
        for (keyword, value) in [
            ("identity", "/nonexistent"),
            ("accept", "software"),
            ("trust_server_types", "yes"),
        ] {
            options.set(keyword, value).expect("it is known");
        }
        assert!(fails(&options).contains("true or false"));
    }
}
