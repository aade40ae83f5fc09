//! Access tokens of Google Cloud: for a service account by its key, for a workload by a token of
//! its platform, and for a machine or pod by its metadata.
//!
//! The order is that of Google's Application Default Credentials (AIP-4110), without what is for
//! people: a file that is named, the file of `gcloud`, the metadata.

use std::env;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RsaKeyPair, RSA_PKCS1_SHA256};
use base64::prelude::{Engine, BASE64_URL_SAFE_NO_PAD};
use serde_json::{json, Value};
use ureq::tls::{parse_pem, PemItem};
use zeroize::Zeroizing;

use super::{refused, NAME};
use crate::credential::{self, Text};
use crate::error::KmsError;
use crate::http::{is_confidential, Body, Service, Tls};

const SCOPE: &str = "https://www.googleapis.com/auth/cloudkms";
/// The service that a token signed by a service account itself is for (AIP-4111).
const AUDIENCE: &str = "https://cloudkms.googleapis.com/";
/// The life of such a token, in seconds: one request.
const LIFE: u64 = 600;
/// The words of RFC 8693 for the exchange of tokens.
const GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const METADATA: &str = "metadata.google.internal";
const METADATA_PATH: &str = "computeMetadata/v1/instance/service-accounts/default/token";

/// The place of the credentials.
pub struct Credentials {
    named: Option<PathBuf>,
}

impl Credentials {
    /// Takes the file that the URI names, if it names one.
    pub fn new(named: Option<PathBuf>) -> Self {
        Self { named }
    }

    /// Returns a token for one request.
    pub fn token(&self) -> Result<Text, KmsError> {
        let Some((path, text)) = self.file()? else {
            return of_the_metadata();
        };
        let fields = serde_json::from_str(&text);
        let fields = fields.map_err(|_| KmsError::Content(path.clone(), "JSON"))?;
        let file = File { path, fields };
        match file.fields["type"].as_str() {
            Some("service_account") => file.signed(now()),
            Some("external_account") => file.exchanged(),
            _ => Err(file.without("type service_account or external_account")),
        }
    }

    /// Returns the file of the credentials and its text. One that is named must be there.
    fn file(&self) -> Result<Option<(PathBuf, Text)>, KmsError> {
        let variable = env::var_os("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
        if let Some(path) = self.named.clone().or(variable) {
            let text = credential::file(&path)?;
            return Ok(Some((path, text)));
        }
        if let Some(text) = credential::of_systemd("google-credentials")? {
            return Ok(Some(("google-credentials".into(), text)));
        }
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let path = home.join(".config/gcloud/application_default_credentials.json");
        match path.exists() {
            true => credential::file(&path).map(|text| Some((path, text))),
            false => Ok(None),
        }
    }
}

/// A file of credentials, and what it says.
struct File {
    path: PathBuf,
    fields: Value,
}

impl File {
    fn without(&self, what: &'static str) -> KmsError {
        KmsError::Content(self.path.clone(), what)
    }

    fn text(&self, name: &'static str) -> Result<&str, KmsError> {
        let text = self.fields[name].as_str();
        text.ok_or_else(|| self.without(name))
    }

    /// Returns an address that the file names, if what is sent there is safe on its way.
    fn address(&self, name: &'static str) -> Result<&str, KmsError> {
        let address = self.text(name)?;
        match is_confidential(address) {
            true => Ok(address),
            false => Err(self.without("addresses that begin with https://")),
        }
    }

    /// Signs a token by a service account's own key. It goes to the service as it is, so no server
    /// of tokens takes part.
    fn signed(&self, now: u64) -> Result<Text, KmsError> {
        let account = self.text("client_email")?;
        let key = self.text("private_key_id")?;
        let pair = rsa(self.text("private_key")?);
        let pair = pair.ok_or_else(|| self.without("private_key of RSA in PKCS #8"))?;
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": key });
        let claims = json!({
            "iss": account, "sub": account, "aud": AUDIENCE, "iat": now, "exp": now + LIFE,
        });
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(&header), part(&claims));
        let mut signature = vec![0; pair.public_modulus_len()];
        let random = SystemRandom::new();
        let done = pair.sign(
            &RSA_PKCS1_SHA256,
            &random,
            message.as_bytes(),
            &mut signature,
        );
        done.map_err(|_| self.without("private_key that signs"))?;
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
        Ok(Zeroizing::new(format!("{message}.{signature}")))
    }

    /// Exchanges the platform's token in a file for Google's (workload identity federation), and
    /// that for a service account's if this file names one.
    fn exchanged(&self) -> Result<Text, KmsError> {
        let subject = self.subject()?;
        let form = [
            ("grant_type", GRANT),
            ("requested_token_type", ACCESS_TOKEN),
            ("subject_token_type", self.text("subject_token_type")?),
            ("subject_token", subject.as_str()),
            ("audience", self.text("audience")?),
            ("scope", "https://www.googleapis.com/auth/cloud-platform"),
        ];
        let address = self.address("token_url")?;
        let token = asked(address, &[], Body::Form(&form), "access_token")?;
        if self.fields["service_account_impersonation_url"].is_null() {
            return Ok(token);
        }
        let address = self.address("service_account_impersonation_url")?;
        let bearer = Zeroizing::new(format!("Bearer {}", token.as_str()));
        let headers = [("Authorization", bearer.as_str())];
        let body = json!({ "scope": [SCOPE] });
        asked(address, &headers, Body::Json(&body), "accessToken")
    }

    /// Returns the platform's token, which is in a file of its own: the whole text, or a field
    /// of JSON.
    fn subject(&self) -> Result<Text, KmsError> {
        let source = &self.fields["credential_source"];
        let path = source["file"].as_str();
        let path = path.ok_or_else(|| self.without("credential_source with a file"))?;
        let text = credential::file(&PathBuf::from(path))?;
        if source["format"]["type"] != json!("json") {
            return Ok(text);
        }
        let fields: Value = serde_json::from_str(&text).unwrap_or_default();
        let name = source["format"]["subject_token_field_name"].as_str();
        let token = name.and_then(|name| fields[name].as_str());
        let token = token.ok_or_else(|| self.without("format that fits the file of the token"))?;
        Ok(Zeroizing::new(token.to_owned()))
    }
}

/// The seconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

fn rsa(pem: &str) -> Option<RsaKeyPair> {
    let mut keys = parse_pem(pem.as_bytes()).filter_map(|item| match item {
        Ok(PemItem::PrivateKey(key)) => RsaKeyPair::from_pkcs8(key.der()).ok(),
        _ => None,
    });
    keys.next()
}

/// Returns the token of the machine's or the pod's own service account.
fn of_the_metadata() -> Result<Text, KmsError> {
    let host = env::var("GCE_METADATA_HOST").unwrap_or_else(|_| METADATA.to_owned());
    let service = Service::new(NAME, format!("http://{host}"), &Tls::default())?.once_only();
    let path = format!("{METADATA_PATH}?scopes={SCOPE}");
    let answer = match service.call(&path, &[("Metadata-Flavor", "Google")], Body::None) {
        Err(KmsError::Unreachable { .. }) => {
            let why = "name a file with credentials= or GOOGLE_APPLICATION_CREDENTIALS, or give this machine a service account";
            return Err(KmsError::NoCredential(NAME, why));
        }
        answer => answer?,
    };
    let token = answer.body["access_token"].as_str();
    match token.filter(|_| answer.status.is_success()) {
        Some(token) => Ok(Zeroizing::new(token.to_owned())),
        None => Err(refused(service.name(), "give a token", &answer)),
    }
}

/// Asks for a token at an address of its own.
fn asked(
    address: &str,
    headers: &[(&str, &str)],
    body: Body,
    field: &str,
) -> Result<Text, KmsError> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("https", address));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let service = Service::new(NAME, format!("{scheme}://{host}"), &Tls::default())?;
    let answer = service.call(path, headers, body)?;
    let token = answer.body[field].as_str();
    match token.filter(|_| answer.status.is_success()) {
        Some(token) => Ok(Zeroizing::new(token.to_owned())),
        // A server of tokens answers as RFC 6749 has it, and other services as all of Google's.
        None if answer.body["error"].is_string() => Err(KmsError::Refused {
            service: service.name(),
            what: "give a token",
            status: KmsError::words(answer.body["error"].as_str()),
            why: KmsError::words(answer.body["error_description"].as_str()),
        }),
        None => Err(refused(service.name(), "give a token", &answer)),
    }
}
