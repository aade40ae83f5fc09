//! An RSA key of Azure Key Vault or of a Managed HSM, by its REST API.
//!
//! `azurekms://VAULT.vault.azure.net/KEY[/VERSION]`. The service wraps with RSA-OAEP-256. It must
//! be told which version of the key unwraps, so a wrapped key is the text `azurekms:VERSION:VALUE`.

mod login;

use std::path::PathBuf;

use base64::prelude::{Engine, BASE64_URL_SAFE_NO_PAD};
use serde_json::{json, Value};
use zeroize::Zeroizing;

use crate::error::KmsError;
use crate::http::{Answer, Body, Service, Tls};
use crate::uri::{decode, Uri, UriError};
use crate::{Provider, Secret};
use login::Login;

const NAME: &str = "Azure Key Vault";
/// The version of the API; it is 7.4 since 2022, and later ones keep these requests.
const API: &str = "api-version=7.4";
const ALGORITHM: &str = "RSA-OAEP-256";
const PREFIX: &str = "azurekms:";

/// A key of a vault.
pub struct Key {
    service: Service,
    name: String,
    /// The version that wraps, if the URI names one. The vault's current one wraps otherwise.
    version: Option<String>,
    login: Login,
}

impl Key {
    /// Reads a URI; nothing is sent. The service cannot bind a wrapping to a cluster's id.
    pub fn new(mut uri: Uri) -> Result<Self, KmsError> {
        let form = UriError::Missing("the key", "write azurekms://VAULT.vault.azure.net/KEY");
        let body = decode(&uri.body)?;
        let parts: Vec<&str> = body.split('/').collect();
        let (host, name, version) = match parts[..] {
            [host, name] => (host, name, None),
            [host, name, version] => (host, name, Some(version)),
            _ => return Err(form.into()),
        };
        let is_name = |text: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            !text.is_empty() && text.bytes().all(plain)
        };
        if host.contains('@') {
            return Err(UriError::Secret("what is before @".to_owned()).into());
        }
        if host.is_empty() || !is_name(name) || !version.is_none_or(is_name) {
            return Err(form.into());
        }
        let tls = Tls {
            authorities: uri.take("ca").map(PathBuf::from),
            client: None,
        };
        let key = Self {
            service: Service::new(NAME, format!("https://{host}"), &tls)?,
            name: name.to_owned(),
            version: version.map(str::to_owned),
            login: Login::new(&mut uri, host)?,
        };
        uri.finish()?;
        Ok(key)
    }

    /// Asks the vault about the key, or with a body to do something with it.
    fn ask(&self, what: &'static str, path: &str, body: Body) -> Result<Value, KmsError> {
        let token = self.login.token()?;
        let bearer = Zeroizing::new(format!("Bearer {}", token.as_str()));
        let path = format!("keys/{}{path}?{API}", self.name);
        let headers = [("Authorization", bearer.as_str())];
        let answer = self.service.call(&path, &headers, body)?;
        match answer.status.is_success() {
            true => Ok(answer.body),
            false => Err(refused(self.service.name(), what, &answer)),
        }
    }

    /// Returns the key's current version: the last part of its identifier.
    fn current(&self) -> Result<String, KmsError> {
        let answer = self.ask("read the key", "", Body::None)?;
        let kid = answer["key"]["kid"].as_str();
        let version = kid.and_then(|kid| kid.rsplit_once(&format!("/keys/{}/", self.name)));
        let version = version.map(|(_, version)| version.to_owned());
        version.ok_or_else(|| KmsError::Answer(self.service.name()))
    }

    /// Wraps or unwraps with a version of the key.
    fn value(
        &self,
        what: &'static str,
        verb: &str,
        version: &str,
        value: &str,
    ) -> Result<Value, KmsError> {
        let body = json!({ "alg": ALGORITHM, "value": value });
        self.ask(what, &format!("/{version}/{verb}"), Body::Json(&body))
    }

    /// Returns the bytes in an answer.
    fn bytes(&self, answer: &Value) -> Result<Secret, KmsError> {
        let bytes = answer["value"].as_str();
        let bytes = bytes.and_then(|text| BASE64_URL_SAFE_NO_PAD.decode(text).ok());
        let bytes = bytes.map(Zeroizing::new);
        bytes.ok_or_else(|| KmsError::Answer(self.service.name()))
    }
}

impl Provider for Key {
    fn wrap(&self, payload: &[u8]) -> Result<Vec<u8>, KmsError> {
        let version = match &self.version {
            Some(version) => version.clone(),
            None => self.current()?,
        };
        let value = Zeroizing::new(BASE64_URL_SAFE_NO_PAD.encode(payload));
        let answer = self.value("wrap", "wrapkey", &version, &value)?;
        let wrapped = self.bytes(&answer)?;
        let value = BASE64_URL_SAFE_NO_PAD.encode(&*wrapped);
        Ok(format!("{PREFIX}{version}:{value}").into_bytes())
    }

    fn unwrap(&self, wrapped: &[u8]) -> Result<Secret, KmsError> {
        let (version, value) = divided(wrapped).ok_or(KmsError::Wrapped(NAME))?;
        let answer = self.value("unwrap", "unwrapkey", version, value)?;
        self.bytes(&answer)
    }

    fn is_older(&self, wrapped: &[u8]) -> Result<bool, KmsError> {
        let (version, _) = divided(wrapped).ok_or(KmsError::Wrapped(NAME))?;
        match &self.version {
            Some(named) => Ok(named != version),
            None => Ok(self.current()? != version),
        }
    }
}

/// Divides a wrapped key into version and value.
fn divided(wrapped: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(wrapped).ok()?.strip_prefix(PREFIX)?;
    let (version, value) = text.split_once(':')?;
    let is_version =
        !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_version.then_some((version, value))
}

/// Returns an error of the vault's form, `{"error": {"code", "message"}}`. The inner error says
/// more, where there is one.
fn refused(service: String, what: &'static str, answer: &Answer) -> KmsError {
    let error = &answer.body["error"];
    let code = error["innererror"]["code"].as_str();
    let code = code.or_else(|| error["code"].as_str());
    let status = answer.status.as_u16().to_string();
    KmsError::Refused {
        service,
        what,
        status: code.map_or(status, str::to_owned),
        why: KmsError::words(error["message"].as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_keys() {
        assert_eq!(divided(b"azurekms:0f:AbC-_"), Some(("0f", "AbC-_")));
        for text in [
            &b"azurekms::a"[..],
            b"azurekms:a",
            b"vault:v1:a",
            b"azurekms:../x:a",
            b"\xff",
        ] {
            assert_eq!(divided(text), None);
        }
    }

    #[test]
    fn settings() {
        let error = |text: &str| {
            let uri = Uri::parse(text).expect("it has a scheme");
            Key::new(uri).err().map(|error| error.to_string())
        };
        assert_eq!(error("azurekms://v.vault.azure.net/k"), None);
        assert_eq!(error("azurekms://v.vault.azure.net/k/0f?client-id=c"), None);
        for (text, part) in [
            ("azurekms://v.vault.azure.net", "does not say the key"),
            ("azurekms:///k", "does not say the key"),
            (
                "azurekms://v.vault.azure.net/k/0f/x",
                "does not say the key",
            ),
            ("azurekms://v.vault.azure.net/k.x", "does not say the key"),
            (
                "azurekms://a:b@v.vault.azure.net/k",
                "must not contain a secret",
            ),
            ("azurekms://v.vault.azure.net/k?auth=x", "auth in"),
            ("azurekms://v.vault.azure.net/k?x=1", "a setting x"),
        ] {
            let said = error(text).expect("it is refused");
            assert!(said.contains(part), "{said}");
        }
    }
}
