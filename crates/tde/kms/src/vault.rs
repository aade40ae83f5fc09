//! The transit engine of HashiCorp Vault and OpenBao, by their HTTP API.
//!
//! `vault://HOST[:PORT]/MOUNT/KEY`, and `vault+http://` for an agent on this machine. A wrapped key
//! is the service's own text, `vault:vN:...`, in which N is the version of the key.

use std::path::PathBuf;

use base64::prelude::{Engine, BASE64_STANDARD};
use serde_json::{json, Value};
use zeroize::Zeroizing;

use crate::credential::{self, Text};
use crate::error::KmsError;
use crate::http::{Answer, Body, Service, Tls};
use crate::uri::{decode, Uri, UriError};
use crate::{Provider, Secret};

const NAME: &str = "Vault";
const DEFAULT_PORT: &str = "8200";
/// The token of a pod's service account.
const POD_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The source of a token. Files are named in the URI; their contents never are.
enum Login {
    /// A token that exists: in a file, or where Vault's own tools look for it.
    Token(Option<PathBuf>),
    /// A role with two secrets in files.
    AppRole { role: PathBuf, secret: PathBuf },
    /// A signed token of the platform's.
    Jwt {
        path: &'static str,
        role: String,
        file: PathBuf,
    },
    /// The client's certificate.
    Certificate { role: Option<String> },
}

/// A key of the transit engine.
pub struct Vault {
    service: Service,
    mount: String,
    key: String,
    namespace: Option<String>,
    login: Login,
    /// The path at which the method of login is mounted, if not at its own name.
    login_path: Option<String>,
    /// The text that a derived key is derived by.
    context: Option<String>,
}

impl Vault {
    /// Reads a URI; nothing is sent.
    pub fn new(mut uri: Uri, cluster: &str) -> Result<Self, KmsError> {
        let (host, path) = uri.body.split_once('/').unwrap_or((&uri.body, ""));
        let form = UriError::Missing("MOUNT/KEY", "write vault://HOST:PORT/transit/KEY");
        let (mount, key) = path.rsplit_once('/').ok_or(form)?;
        let (mount, key) = (decode(mount)?, decode(key)?);
        let base = base(&uri.scheme, host)?;
        let authorities = uri.take("ca").map(PathBuf::from);
        let client = client(&mut uri)?;
        let login = login(&mut uri, client.is_some())?;
        let derived = uri.take("derived");
        let context = match derived.as_deref() {
            None | Some("false") => None,
            Some("true") => Some(BASE64_STANDARD.encode(cluster)),
            Some(_) => return Err(UriError::Value("derived", "true or false").into()),
        };
        let vault = Self {
            service: Service::new(
                NAME,
                base,
                &Tls {
                    authorities,
                    client,
                },
            )?,
            mount,
            key,
            namespace: uri.take("namespace"),
            login,
            login_path: uri.take("auth-path"),
            context,
        };
        uri.finish()?;
        Ok(vault)
    }

    /// Asks the service, as the holder of `token`.
    fn ask(
        &self,
        what: &'static str,
        path: &str,
        token: Option<&Text>,
        body: Option<&Value>,
    ) -> Result<Value, KmsError> {
        let mut headers = vec![("X-Vault-Request", "true")];
        headers.extend(token.map(|token| ("X-Vault-Token", token.as_str())));
        let namespace = self.namespace.as_deref();
        headers.extend(namespace.map(|name| ("X-Vault-Namespace", name)));
        let body = body.map_or(Body::None, Body::Json);
        let answer = self.service.call(&format!("v1/{path}"), &headers, body)?;
        match answer.status.is_success() {
            true => Ok(answer.body),
            false => Err(self.refused(what, &answer)),
        }
    }

    fn refused(&self, what: &'static str, answer: &Answer) -> KmsError {
        let errors = answer.body["errors"].as_array();
        let errors = errors.into_iter().flatten().filter_map(Value::as_str);
        let why = errors.collect::<Vec<_>>().join("; ");
        KmsError::Refused {
            service: self.service.name(),
            what,
            status: answer.status.as_u16().to_string(),
            why: match why.is_empty() {
                true => "it gives no reason".to_owned(),
                false => why,
            },
        }
    }

    /// Returns a text in an answer.
    fn text(&self, answer: &Value, pointer: &str) -> Result<Text, KmsError> {
        let text = answer.pointer(pointer).and_then(Value::as_str);
        let text = text.ok_or_else(|| KmsError::Answer(self.service.name()))?;
        Ok(Zeroizing::new(text.to_owned()))
    }

    /// Runs `work` with a token, and gives up the token afterwards if it was got for this.
    fn with_token<T>(
        &self,
        work: impl FnOnce(&Text) -> Result<T, KmsError>,
    ) -> Result<T, KmsError> {
        let (token, is_ours) = self.token()?;
        let result = work(&token);
        let (path, body) = match is_ours {
            true => ("auth/token/revoke-self", json!({})),
            false => ("auth/token/renew-self", json!({})),
        };
        if result.is_ok() {
            // A token that is not renewable, or that expires by itself soon, is not our concern.
            let _ = self.ask("renew the token", path, Some(&token), Some(&body));
        }
        result
    }

    /// Returns a token, and whether it was got by a login.
    fn token(&self) -> Result<(Text, bool), KmsError> {
        let (method, body) = match &self.login {
            Login::Token(file) => return Ok((existing(file.as_ref())?, false)),
            Login::AppRole { role, secret } => {
                let (role, secret) = (credential::file(role)?, credential::file(secret)?);
                let body = json!({ "role_id": *role, "secret_id": *secret });
                ("approle", body)
            }
            Login::Jwt { path, role, file } => {
                let body = json!({ "role": role, "jwt": *credential::file(file)? });
                (*path, body)
            }
            Login::Certificate { role: Some(role) } => ("cert", json!({ "name": role })),
            Login::Certificate { role: None } => ("cert", json!({})),
        };
        let path = format!(
            "auth/{}/login",
            self.login_path.as_deref().unwrap_or(method)
        );
        let answer = self.ask("log in", &path, None, Some(&body))?;
        Ok((self.text(&answer, "/auth/client_token")?, true))
    }

    fn body(&self, name: &str, value: &str) -> Value {
        let mut body = json!({ name: value });
        if let Some(context) = &self.context {
            body["context"] = json!(context);
        }
        body
    }
}

impl Provider for Vault {
    fn wrap(&self, payload: &[u8]) -> Result<Vec<u8>, KmsError> {
        let text = Zeroizing::new(BASE64_STANDARD.encode(payload));
        let body = self.body("plaintext", &text);
        let path = format!("{}/encrypt/{}", self.mount, self.key);
        let answer =
            self.with_token(|token| self.ask("encrypt", &path, Some(token), Some(&body)))?;
        let wrapped = self.text(&answer, "/data/ciphertext")?;
        version(wrapped.as_bytes()).ok_or_else(|| KmsError::Answer(self.service.name()))?;
        Ok(wrapped.as_bytes().to_vec())
    }

    fn unwrap(&self, wrapped: &[u8]) -> Result<Secret, KmsError> {
        version(wrapped).ok_or(KmsError::Wrapped(NAME))?;
        let wrapped = String::from_utf8_lossy(wrapped);
        let body = self.body("ciphertext", &wrapped);
        let path = format!("{}/decrypt/{}", self.mount, self.key);
        let answer =
            self.with_token(|token| self.ask("decrypt", &path, Some(token), Some(&body)))?;
        let text = self.text(&answer, "/data/plaintext")?;
        let payload = BASE64_STANDARD.decode(text.as_bytes());
        payload
            .map(Zeroizing::new)
            .map_err(|_| KmsError::Answer(self.service.name()))
    }

    fn is_older(&self, wrapped: &[u8]) -> Result<bool, KmsError> {
        let version = version(wrapped).ok_or(KmsError::Wrapped(NAME))?;
        let path = format!("{}/keys/{}", self.mount, self.key);
        let answer = self.with_token(|token| self.ask("read the key", &path, Some(token), None))?;
        let latest = answer
            .pointer("/data/latest_version")
            .and_then(Value::as_u64);
        let latest = latest.ok_or_else(|| KmsError::Answer(self.service.name()))?;
        Ok(version < latest)
    }
}

/// Returns the version of the key in a ciphertext of the transit engine.
fn version(wrapped: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(wrapped).ok()?;
    let (version, _) = text.strip_prefix("vault:v")?.split_once(':')?;
    version.parse().ok()
}

/// Returns the URL of the service. Only an agent on this machine is asked without TLS.
fn base(scheme: &str, host: &str) -> Result<String, UriError> {
    let host = decode(host)?;
    if host.contains('@') {
        return Err(UriError::Secret("what is before @".to_owned()));
    }
    let name = host
        .rsplit_once(':')
        .map_or(host.as_str(), |(name, _)| name);
    let is_local = matches!(name, "localhost" | "127.0.0.1" | "[::1]");
    let port = match host.rsplit_once(':') {
        Some((_, port)) if !port.contains(']') => String::new(),
        _ => format!(":{DEFAULT_PORT}"),
    };
    match (scheme, is_local) {
        ("vault", _) => Ok(format!("https://{host}{port}")),
        (_, true) => Ok(format!("http://{host}{port}")),
        (_, false) => Err(UriError::Value("the host of vault+http://", "localhost")),
    }
}

/// Takes the files of a client's certificate.
fn client(uri: &mut Uri) -> Result<Option<(PathBuf, PathBuf)>, UriError> {
    match (uri.take("client-cert"), uri.take("client-key")) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => Ok(Some((chain.into(), key.into()))),
        (Some(_), None) => Err(UriError::Missing("client-key", "it goes with client-cert")),
        (None, Some(_)) => Err(UriError::Missing("client-cert", "it goes with client-key")),
    }
}

/// Takes the settings of the login.
fn login(uri: &mut Uri, has_certificate: bool) -> Result<Login, UriError> {
    let method = uri.take("auth");
    let mut required = |name, why| {
        let value = uri.take(name);
        value.ok_or(UriError::Missing(name, why))
    };
    match method.as_deref() {
        None | Some("token") => Ok(Login::Token(uri.take("token-file").map(PathBuf::from))),
        Some("approle") => Ok(Login::AppRole {
            role: required("role-id-file", "auth=approle needs it")?.into(),
            secret: required("secret-id-file", "auth=approle needs it")?.into(),
        }),
        Some("kubernetes") => Ok(Login::Jwt {
            path: "kubernetes",
            role: required("role", "auth=kubernetes needs it")?,
            file: uri
                .take("jwt-file")
                .unwrap_or_else(|| POD_TOKEN.to_owned())
                .into(),
        }),
        Some("jwt") => Ok(Login::Jwt {
            path: "jwt",
            role: required("role", "auth=jwt needs it")?,
            file: required("jwt-file", "auth=jwt needs it")?.into(),
        }),
        Some("cert") if has_certificate => Ok(Login::Certificate {
            role: uri.take("role"),
        }),
        Some("cert") => Err(UriError::Missing("client-cert", "auth=cert needs it")),
        Some(_) => Err(UriError::Value(
            "auth",
            "token, approle, kubernetes, jwt or cert",
        )),
    }
}

/// Returns a token that exists already.
fn existing(file: Option<&PathBuf>) -> Result<Text, KmsError> {
    if let Some(file) = file {
        return credential::file(file);
    }
    if let Some(token) = credential::of_systemd("vault-token")? {
        return Ok(token);
    }
    if let Some(token) = credential::of_environment("VAULT_TOKEN") {
        return Ok(token);
    }
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".vault-token"));
    match home {
        Some(path) if path.exists() => credential::file(&path),
        _ => Err(KmsError::NoCredential(
            NAME,
            "name a file with token-file=, pass systemd's credential vault-token, or set VAULT_TOKEN",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (scheme, host, expected) in [
            ("vault", "a.b", Some("https://a.b:8200")),
            ("vault", "a.b:1", Some("https://a.b:1")),
            ("vault", "[::1]", Some("https://[::1]:8200")),
            ("vault", "[::1]:1", Some("https://[::1]:1")),
            ("vault+http", "127.0.0.1:1", Some("http://127.0.0.1:1")),
            ("vault+http", "a.b:1", None),
            ("vault", "user:secret@a.b", None),
        ] {
            assert_eq!(base(scheme, host).ok().as_deref(), expected, "{host}");
        }
    }

    #[test]
    fn versions() {
        assert_eq!(version(b"vault:v12:abc"), Some(12));
        for text in [&b"vault:v:abc"[..], b"vault:v1", b"v1:abc", b"\xff"] {
            assert_eq!(version(text), None);
        }
    }

    #[test]
    fn settings_that_do_not_fit() {
        let error = |text| {
            let uri = Uri::parse(text).expect("it has a scheme");
            Vault::new(uri, "00").err().map(|error| error.to_string())
        };
        assert_eq!(error("vault://h/transit/k"), None);
        assert_eq!(error("vault://h/a/b/k?auth=kubernetes&role=r"), None);
        for (text, part) in [
            ("vault://h/k", "MOUNT/KEY"),
            ("vault://h/t/k?auth=approle", "role-id-file"),
            ("vault://h/t/k?auth=cert", "client-cert"),
            ("vault://h/t/k?client-key=/k", "client-cert"),
            ("vault://h/t/k?auth=x", "auth in"),
            ("vault://h/t/k?derived=x", "derived in"),
            ("vault://h/t/k?role=x", "a setting role"),
        ] {
            let said = error(text).expect("it is refused");
            assert!(said.contains(part), "{said}");
        }
    }
}
