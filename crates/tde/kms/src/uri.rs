//! The URI of a key: a scheme, a part that each provider reads in its own way, and settings after
//! `?`. It is stored in `key.bin` in clear, so it names files of secrets and never a secret.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

/// Why a URI does not name a key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// There is no scheme.
    #[error(
        "the key provider's URI must begin with a scheme, such as vault://, pkcs11: or awskms://"
    )]
    NoScheme,
    /// A sequence after `%` does not decode to text.
    #[error("the key provider's URI is not UTF-8 after decoding: check what follows each %")]
    NotText,
    /// A setting represents a secret.
    #[error(
        "the key provider's URI must not contain a secret, and {0} is one: name a file instead"
    )]
    Secret(String),
    /// A setting is given twice.
    #[error("the key provider's URI gives {0} twice")]
    Twice(String),
    /// No provider takes this setting.
    #[error("the key provider's URI has a setting {0}, which {1} does not take")]
    Unknown(String, String),
    /// A setting is missing.
    #[error("the key provider's URI does not say {0}: {1}")]
    Missing(&'static str, &'static str),
    /// A setting has a value that is none of its values.
    #[error("{0} in the key provider's URI must be {1}")]
    Value(&'static str, &'static str),
}

/// Settings whose values are secrets. They are refused in every URI.
const SECRETS: [&str; 7] = [
    "pin",
    "pin-value",
    "password",
    "passphrase",
    "secret-id",
    "token-value",
    "client-secret",
];

/// A URI, divided. The settings are taken one by one; [`Uri::finish`] refuses those that are left.
#[derive(Debug)]
pub struct Uri {
    /// The scheme in lower case, without the colon.
    pub scheme: String,
    /// The part between the scheme and `?`, not decoded, without the slashes that open it.
    pub body: String,
    settings: BTreeMap<String, String>,
}

impl Uri {
    /// Divides a URI.
    pub fn parse(text: &str) -> Result<Self, UriError> {
        let (scheme, rest) = text.split_once(':').ok_or(UriError::NoScheme)?;
        let is_scheme =
            |character: char| character.is_ascii_alphanumeric() || "+-.".contains(character);
        if scheme.is_empty() || !scheme.chars().all(is_scheme) {
            return Err(UriError::NoScheme);
        }
        let (body, query) = rest.split_once('?').unwrap_or((rest, ""));
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            body: body.strip_prefix("//").unwrap_or(body).to_owned(),
            settings: settings(query, '&')?,
        })
    }

    /// Divides the body into settings, as a URI of PKCS #11 has them, and adds them to the others.
    pub fn body_settings(&mut self, separator: char) -> Result<(), UriError> {
        for (name, value) in settings(&self.body, separator)? {
            if self.settings.insert(name.clone(), value).is_some() {
                return Err(UriError::Twice(name));
            }
        }
        Ok(())
    }

    /// Takes a setting, if it is there.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.settings.remove(name)
    }

    /// Refuses settings that nothing has taken.
    pub fn finish(&self) -> Result<(), UriError> {
        match self.settings.keys().next() {
            Some(name) => Err(UriError::Unknown(name.clone(), self.scheme.clone())),
            None => Ok(()),
        }
    }
}

/// Divides `name=value` pairs.
fn settings(text: &str, separator: char) -> Result<BTreeMap<String, String>, UriError> {
    let mut settings = BTreeMap::new();
    for pair in text.split(separator).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        if SECRETS.contains(&name.as_str()) {
            return Err(UriError::Secret(name));
        }
        if settings.insert(name.clone(), value).is_some() {
            return Err(UriError::Twice(name));
        }
    }
    Ok(settings)
}

/// Decodes the codes of characters that a URI cannot have.
pub fn decode(text: &str) -> Result<String, UriError> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| UriError::NotText)?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_uri() {
        let mut uri = Uri::parse("Vault://host:8200/a/b?role=x%20y&ca=/c").expect("it is one");
        assert_eq!(
            (uri.scheme.as_str(), uri.body.as_str()),
            ("vault", "host:8200/a/b")
        );
        assert_eq!(uri.take("role").as_deref(), Some("x y"));
        assert_eq!(uri.take("role"), None);
        let left = UriError::Unknown("ca".to_owned(), "vault".to_owned());
        assert_eq!(uri.finish(), Err(left));
    }

    #[test]
    fn the_attributes_of_pkcs11() {
        let mut uri = Uri::parse("pkcs11:token=a%3Bb;object=c?pin-source=file:/p").expect("one");
        uri.body_settings(';').expect("they are settings");
        for (name, value) in [("token", "a;b"), ("object", "c"), ("pin-source", "file:/p")] {
            assert_eq!(uri.take(name).as_deref(), Some(value));
        }
        assert_eq!(uri.finish(), Ok(()));
    }

    #[test]
    fn what_is_refused() {
        let error = |text| Uri::parse(text).map(|mut uri| uri.body_settings(';')).err();
        assert_eq!(error("no scheme"), Some(UriError::NoScheme));
        assert_eq!(error("a b:c"), Some(UriError::NoScheme));
        assert_eq!(
            error("vault://h?x=1&x=2"),
            Some(UriError::Twice("x".to_owned()))
        );
        assert_eq!(error("vault://h?x=%ff"), Some(UriError::NotText));
        let secret = UriError::Secret("pin-value".to_owned());
        assert_eq!(error("pkcs11:a=b?pin-value=1"), Some(secret));
    }
}
