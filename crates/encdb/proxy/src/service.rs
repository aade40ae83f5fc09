//! The server that connections reach, and the owners whose keys they use.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pgseal_client::{Identity, IdentityFile, IdentityFileError, Kept, Policy, Target};
use pgseal_engine::{Owner, Owners, ServerTrust};
use tokio_rustls::TlsAcceptor;

/// All that a connection needs to know. It keeps the one that it began with.
pub struct Service {
    /// The server
    pub target: Target,
    /// The owners whose keys connections use
    pub owners: Arc<dyn Owners + Send + Sync>,
    /// TLS with drivers that come over a network; none: they come over loopback alone
    pub tls: Option<TlsAcceptor>,
}

/// The service of connections that begin now.
#[derive(Clone)]
pub struct Current(Arc<Mutex<Arc<Service>>>);

impl Current {
    /// Begins with a service.
    pub fn new(service: Service) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(service))))
    }

    /// Returns it.
    pub fn get(&self) -> Arc<Service> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another one in its place.
    pub fn set(&self, service: Service) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(service);
    }
}

/// One owner for all databases.
pub struct OneOwner {
    identity: Arc<Identity>,
    kept: Kept,
    policy: Arc<Policy>,
    trust: ServerTrust,
}

impl OneOwner {
    /// Reads the identity.
    pub fn load(
        identity: &Path,
        policy: Policy,
        trust: ServerTrust,
    ) -> Result<Self, IdentityFileError> {
        let IdentityFile { identity, kept, .. } = IdentityFile::load(identity)?;
        Ok(Self {
            identity: Arc::new(identity),
            kept,
            policy: Arc::new(policy),
            trust,
        })
    }
}

impl Owners for OneOwner {
    fn owner(&self, user: &str, database: &str) -> Option<Owner> {
        Some(Owner {
            identity: Arc::clone(&self.identity),
            policy: Arc::clone(&self.policy),
            list: self.kept.database(database),
            trust: self.trust,
            keyname: format!("|{user}|{database}|"),
        })
    }
}
