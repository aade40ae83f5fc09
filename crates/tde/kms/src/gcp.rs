//! A symmetric key of Google Cloud Key Management Service, by its REST API.
//!
//! `gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K`. A wrapped key is the service's own
//! ciphertext; the cluster's id is its additional authenticated data. CRC32C sums go both ways, as
//! Google asks of clients, so damage on the way is noticed before a slot is written.

mod credentials;

use std::path::PathBuf;

use base64::prelude::{Engine, BASE64_STANDARD};
use serde_json::{json, Value};
use zeroize::Zeroizing;

use crate::error::KmsError;
use crate::http::{is_confidential, Answer, Body, Service, Tls};
use crate::uri::{decode, Uri, UriError};
use crate::{Provider, Secret};
use credentials::Credentials;

const NAME: &str = "Google Cloud KMS";
const ENDPOINT: &str = "https://cloudkms.googleapis.com";
/// The names at every other part of a key's path.
const COLLECTIONS: [&str; 4] = ["projects", "locations", "keyRings", "cryptoKeys"];

/// A key of the service.
pub struct Key {
    service: Service,
    /// The key's resource name.
    name: String,
    cluster: String,
    credentials: Credentials,
}

impl Key {
    /// Reads a URI; nothing is sent.
    pub fn new(mut uri: Uri, cluster: &str) -> Result<Self, KmsError> {
        let name = decode(&uri.body)?;
        if !is_key_name(&name) {
            let form = "write gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K";
            return Err(UriError::Missing("the key", form).into());
        }
        let endpoint = uri.take("endpoint").unwrap_or_else(|| ENDPOINT.to_owned());
        if !is_confidential(&endpoint) {
            return Err(UriError::Value("endpoint", "https://, or http:// of localhost").into());
        }
        let tls = Tls {
            authorities: uri.take("ca").map(PathBuf::from),
            client: None,
        };
        let key = Self {
            service: Service::new(NAME, endpoint.trim_end_matches('/').to_owned(), &tls)?,
            name,
            cluster: cluster.to_owned(),
            credentials: Credentials::new(uri.take("credentials").map(PathBuf::from)),
        };
        uri.finish()?;
        Ok(key)
    }

    /// Asks the service to `verb` with the key. `what` names it in a message.
    fn ask(&self, what: &'static str, verb: &str, body: &Value) -> Result<Value, KmsError> {
        let token = self.credentials.token()?;
        let bearer = Zeroizing::new(format!("Bearer {}", token.as_str()));
        let path = format!("v1/{}:{verb}", self.name);
        let headers = [("Authorization", bearer.as_str())];
        let answer = self.service.call(&path, &headers, Body::Json(body))?;
        match answer.status.is_success() {
            true => Ok(answer.body),
            false => Err(refused(self.service.name(), what, &answer)),
        }
    }

    fn decrypt(&self, wrapped: &[u8]) -> Result<Value, KmsError> {
        let cluster = self.cluster.as_bytes();
        let body = json!({
            "ciphertext": BASE64_STANDARD.encode(wrapped),
            "ciphertextCrc32c": sum(wrapped),
            "additionalAuthenticatedData": BASE64_STANDARD.encode(cluster),
            "additionalAuthenticatedDataCrc32c": sum(cluster),
        });
        self.ask("decrypt", "decrypt", &body)
    }

    /// Returns bytes in an answer, whose sum is in `crc`.
    fn bytes(&self, answer: &Value, field: &str, crc: &str) -> Result<Secret, KmsError> {
        let absent = || KmsError::Answer(self.service.name());
        let text = answer[field].as_str().ok_or_else(absent)?;
        let bytes = BASE64_STANDARD.decode(text).map(Zeroizing::new);
        let bytes = bytes.map_err(|_| absent())?;
        match answer[crc].as_str() == Some(&sum(&bytes)) {
            true => Ok(bytes),
            false => Err(KmsError::Damaged(self.service.name())),
        }
    }
}

impl Provider for Key {
    fn wrap(&self, payload: &[u8]) -> Result<Vec<u8>, KmsError> {
        let (text, cluster) = (BASE64_STANDARD.encode(payload), self.cluster.as_bytes());
        let body = json!({
            "plaintext": *Zeroizing::new(text),
            "plaintextCrc32c": sum(payload),
            "additionalAuthenticatedData": BASE64_STANDARD.encode(cluster),
            "additionalAuthenticatedDataCrc32c": sum(cluster),
        });
        let answer = self.ask("encrypt", "encrypt", &body)?;
        let verified = [
            "verifiedPlaintextCrc32c",
            "verifiedAdditionalAuthenticatedDataCrc32c",
        ];
        if verified.iter().any(|field| answer[field] != json!(true)) {
            return Err(KmsError::Damaged(self.service.name()));
        }
        let wrapped = self.bytes(&answer, "ciphertext", "ciphertextCrc32c")?;
        Ok(wrapped.to_vec())
    }

    fn unwrap(&self, wrapped: &[u8]) -> Result<Secret, KmsError> {
        let answer = self.decrypt(wrapped)?;
        self.bytes(&answer, "plaintext", "plaintextCrc32c")
    }

    /// Decrypts: the answer says whether the key's primary version did it, and nothing else does.
    fn is_older(&self, wrapped: &[u8]) -> Result<bool, KmsError> {
        // proto3 leaves out what is false.
        Ok(self.decrypt(wrapped)?["usedPrimary"] != json!(true))
    }
}

/// Returns the CRC32C of bytes as the API writes a number of 64 bits: a text.
fn sum(bytes: &[u8]) -> String {
    crc32c::crc32c(bytes).to_string()
}

/// Returns an error of Google's form, `{"error": {"code", "status", "message"}}`.
fn refused(service: String, what: &'static str, answer: &Answer) -> KmsError {
    let text = |field| answer.body["error"][field].as_str();
    let status = answer.status.as_u16().to_string();
    KmsError::Refused {
        service,
        what,
        status: text("status").map_or(status, str::to_owned),
        why: KmsError::words(text("message")),
    }
}

/// Whether `name` is the resource name of a key, of characters that a URL takes as they are.
fn is_key_name(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let is_part = |part: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(plain)
    };
    let collections = parts.iter().step_by(2);
    parts.len() == 2 * COLLECTIONS.len()
        && parts.iter().all(is_part)
        && collections.eq(COLLECTIONS.iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "projects/p/locations/global/keyRings/r/cryptoKeys/k";

    #[test]
    fn names_of_keys() {
        assert!(is_key_name(KEY));
        assert!(is_key_name(
            "projects/example.com:p/locations/eu/keyRings/r/cryptoKeys/k"
        ));
        for name in [
            "",
            "projects/p/locations/l/keyRings/r",
            "projects/p/locations/l/keyRings/r/cryptoKeys/",
            "projects/p/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1",
            "projects/p/locations/l/keyRings/../cryptoKeys/k",
            "projects/p/locations/l/keyRings/r/cryptoKeys/k?x",
            "keyRings/p/locations/l/keyRings/r/cryptoKeys/k",
        ] {
            assert!(!is_key_name(name), "{name}");
        }
    }

    #[test]
    fn settings() {
        let error = |text: &str| {
            let uri = Uri::parse(text).expect("it has a scheme");
            Key::new(uri, "00").err().map(|error| error.to_string())
        };
        assert_eq!(error(&format!("gcpkms://{KEY}?credentials=/c")), None);
        for (text, part) in [
            ("gcpkms://k".to_owned(), "does not say the key"),
            (format!("gcpkms://{KEY}?endpoint=http://h"), "endpoint in"),
            (format!("gcpkms://{KEY}?x=1"), "a setting x"),
        ] {
            let said = error(&text).expect("it is refused");
            assert!(said.contains(part), "{said}");
        }
    }

    /// The check value of CRC-32/ISCSI in the catalogue of parametrised CRC algorithms.
    #[test]
    fn sums_are_texts() {
        assert_eq!(sum(b"123456789"), 0xe306_9283_u32.to_string());
    }
}
