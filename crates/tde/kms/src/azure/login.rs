//! Access tokens of Microsoft Entra ID: for a workload by a token of its platform, for an
//! application by its secret, and for a machine by its managed identity.
//!
//! The variables are those of Microsoft's own clients.

use std::env;
use std::path::PathBuf;

use percent_encoding::{utf8_percent_encode, AsciiSet, NON_ALPHANUMERIC};
use zeroize::Zeroizing;

use super::{refused, NAME};
use crate::credential::{self, Text};
use crate::error::KmsError;
use crate::http::{is_confidential, Answer, Body, Service, Tls};
use crate::uri::{Uri, UriError};

const AUTHORITY: &str = "https://login.microsoftonline.com";
/// The metadata of a machine, without a name and without TLS.
const METADATA: &str = "http://169.254.169.254";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The source of tokens.
pub struct Login {
    method: Option<Method>,
    client: Option<String>,
    tenant: Option<String>,
    secret: Option<PathBuf>,
    authority: String,
    metadata: String,
    /// The service that tokens are for.
    resource: String,
}

#[derive(Clone, Copy)]
enum Method {
    Workload,
    Secret,
    ManagedIdentity,
}

impl Login {
    /// Takes the settings of the login to `host` out of a URI.
    pub fn new(uri: &mut Uri, host: &str) -> Result<Self, UriError> {
        let method = match uri.take("auth").as_deref() {
            None => None,
            Some("workload") => Some(Method::Workload),
            Some("secret") => Some(Method::Secret),
            Some("managed-identity") => Some(Method::ManagedIdentity),
            Some(_) => {
                return Err(UriError::Value(
                    "auth",
                    "workload, secret or managed-identity",
                ));
            }
        };
        let authority = uri
            .take("authority")
            .or_else(|| variable("AZURE_AUTHORITY_HOST"));
        let authority = authority.unwrap_or_else(|| AUTHORITY.to_owned());
        if !is_confidential(&authority) {
            return Err(UriError::Value(
                "authority",
                "https://, or http:// of localhost",
            ));
        }
        let metadata = variable("AZURE_POD_IDENTITY_AUTHORITY_HOST");
        Ok(Self {
            method,
            client: uri
                .take("client-id")
                .or_else(|| variable("AZURE_CLIENT_ID")),
            tenant: uri
                .take("tenant-id")
                .or_else(|| variable("AZURE_TENANT_ID")),
            secret: uri.take("client-secret-file").map(PathBuf::from),
            authority: authority.trim_end_matches('/').to_owned(),
            metadata: metadata.unwrap_or_else(|| METADATA.to_owned()),
            resource: uri.take("resource").unwrap_or_else(|| resource(host)),
        })
    }

    /// Returns a token for one request.
    pub fn token(&self) -> Result<Text, KmsError> {
        let method = self.method.unwrap_or_else(|| self.found());
        match method {
            Method::ManagedIdentity => self.of_the_machine(),
            Method::Workload => {
                let path = variable("AZURE_FEDERATED_TOKEN_FILE");
                let path = path.ok_or(missing("set AZURE_FEDERATED_TOKEN_FILE"))?;
                let token = credential::file(&PathBuf::from(path))?;
                self.of_the_authority(&[
                    ("client_assertion_type", ASSERTION),
                    ("client_assertion", token.as_str()),
                ])
            }
            Method::Secret => {
                let secret = self.secret()?;
                self.of_the_authority(&[("client_secret", secret.as_str())])
            }
        }
    }

    /// Returns the method that the environment is made for.
    fn found(&self) -> Method {
        if self.secret.is_some() || variable("AZURE_CLIENT_SECRET").is_some() {
            Method::Secret
        } else if variable("AZURE_FEDERATED_TOKEN_FILE").is_some() {
            Method::Workload
        } else {
            Method::ManagedIdentity
        }
    }

    fn secret(&self) -> Result<Text, KmsError> {
        if let Some(path) = &self.secret {
            return credential::file(path);
        }
        if let Some(secret) = credential::of_systemd("azure-client-secret")? {
            return Ok(secret);
        }
        let secret = credential::of_environment("AZURE_CLIENT_SECRET");
        secret.ok_or(missing(
            "name a file with client-secret-file=, pass systemd's credential azure-client-secret, or set AZURE_CLIENT_SECRET",
        ))
    }

    /// Asks for the token of an application, which proves itself by `proof`.
    fn of_the_authority(&self, proof: &[(&str, &str)]) -> Result<Text, KmsError> {
        let client = self.client.as_deref();
        let client = client.ok_or(missing("set client-id= or AZURE_CLIENT_ID"))?;
        let tenant = self.tenant.as_deref();
        let tenant = tenant.ok_or(missing("set tenant-id= or AZURE_TENANT_ID"))?;
        let scope = format!("{}/.default", self.resource);
        let mut form = vec![
            ("client_id", client),
            ("scope", scope.as_str()),
            ("grant_type", "client_credentials"),
        ];
        form.extend_from_slice(proof);
        let service = Service::new(
            "Microsoft Entra ID",
            self.authority.clone(),
            &Tls::default(),
        )?;
        let path = format!("{}/oauth2/v2.0/token", encoded(tenant));
        let answer = service.call(&path, &[], Body::Form(&form))?;
        token(&service, &answer)
    }

    /// Asks for the token of the machine, or of the identity `client` among its identities.
    fn of_the_machine(&self) -> Result<Text, KmsError> {
        let service = Service::new(
            "the managed identity",
            self.metadata.clone(),
            &Tls::default(),
        )?;
        let mut path = format!(
            "metadata/identity/oauth2/token?api-version=2018-02-01&resource={}",
            encoded(&self.resource)
        );
        if let Some(client) = &self.client {
            path = format!("{path}&client_id={}", encoded(client));
        }
        let service = service.once_only();
        match service.call(&path, &[("Metadata", "true")], Body::None) {
            Err(KmsError::Unreachable { .. }) => Err(missing(
                "this machine has no managed identity that answers, so name an application with auth=workload or auth=secret",
            )),
            answer => token(&service, &answer?),
        }
    }
}

/// Returns a text as it can stand in a URL, whatever is in it.
fn encoded(text: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');
    utf8_percent_encode(text, KEPT).to_string()
}

fn missing(what: &'static str) -> KmsError {
    KmsError::NoCredential(NAME, what)
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the service that a host belongs to: its own name without the vault's.
fn resource(host: &str) -> String {
    let name = host.split(':').next().unwrap_or(host);
    match name.split_once('.') {
        Some((_, rest)) => format!("https://{rest}"),
        None => "https://vault.azure.net".to_owned(),
    }
}

/// Returns the token in an answer, or the error in it: of RFC 6749, or of the vault's form.
fn token(service: &Service, answer: &Answer) -> Result<Text, KmsError> {
    let token = answer.body["access_token"].as_str();
    if let Some(token) = token.filter(|_| answer.status.is_success()) {
        return Ok(Zeroizing::new(token.to_owned()));
    }
    match answer.body["error"].as_str() {
        Some(code) => Err(KmsError::Refused {
            service: service.name(),
            what: "give a token",
            status: code.to_owned(),
            why: KmsError::words(answer.body["error_description"].as_str()),
        }),
        None => Err(refused(service.name(), "give a token", answer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_hosts() {
        for (host, expected) in [
            ("v.vault.azure.net", "https://vault.azure.net"),
            (
                "v.vault.usgovcloudapi.net:443",
                "https://vault.usgovcloudapi.net",
            ),
            ("h.managedhsm.azure.net", "https://managedhsm.azure.net"),
            ("localhost:1", "https://vault.azure.net"),
        ] {
            assert_eq!(resource(host), expected, "{host}");
        }
    }
}
