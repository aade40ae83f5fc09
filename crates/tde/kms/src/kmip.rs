//! An AES key in a server of KMIP 1.4 or 2.0, which never leaves it: the server encrypts and
//! decrypts.
//!
//! `kmip://HOST[:5696]/KEY-UNIQUE-ID?ca=FILE&client-cert=FILE&client-key=FILE`. A wrapped key is a
//! number for the cipher, then the nonce of AES-GCM and its tag, or the initialization vector of
//! AES-CBC, then what the server made.

mod connection;
pub mod ttlv;

use std::path::PathBuf;

use zeroize::Zeroizing;

use crate::credential::{self, Text};
use crate::error::KmsError;
use crate::uri::{decode, Uri, UriError};
use crate::{Provider, Secret};

use connection::{Files, Message, Server};
use ttlv::{Fields, Tag, Writer};

const NAME: &str = "a KMIP server";
const DEFAULT_PORT: u16 = 5696;
/// Bytes of the tag of AES-GCM.
const TAG: usize = 16;

/// How the server encrypts; the first byte of a wrapped key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cipher {
    /// AES-GCM, with the cluster's id as associated data.
    Gcm = 1,
    /// AES-CBC for servers without GCM, with a random vector and PKCS #5 padding. It shows no
    /// change and no cluster, and need not: the payload has a MAC and a cluster's name of its own,
    /// which are checked after it is unwrapped. The server shows whether the padding is right only
    /// to clients that may decrypt anyway.
    Cbc = 2,
}

impl Cipher {
    fn of(number: u8) -> Option<Self> {
        [Self::Gcm, Self::Cbc]
            .into_iter()
            .find(|cipher| *cipher as u8 == number)
    }

    /// Bytes of the nonce or initialization vector.
    fn vector(self) -> usize {
        match self {
            Self::Gcm => 12,
            Self::Cbc => 16,
        }
    }
}

/// A request to the server, by its number in the protocol.
#[derive(Clone, Copy)]
enum Operation {
    Encrypt = 0x1f,
    Decrypt = 0x20,
}

impl Operation {
    fn words(self) -> &'static str {
        match self {
            Self::Encrypt => "encrypt",
            Self::Decrypt => "decrypt",
        }
    }
}

/// A wrapped key, divided.
struct Wrapped<'a> {
    cipher: Cipher,
    vector: &'a [u8],
    tag: Option<&'a [u8]>,
    data: &'a [u8],
}

impl<'a> Wrapped<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first()?;
        let cipher = Cipher::of(*number)?;
        let (vector, rest) = rest.split_at_checked(cipher.vector())?;
        let (tag, data) = match cipher {
            Cipher::Gcm => rest
                .split_at_checked(TAG)
                .map(|(tag, data)| (Some(tag), data))?,
            Cipher::Cbc => (None, rest),
        };
        (!data.is_empty()).then_some(Self {
            cipher,
            vector,
            tag,
            data,
        })
    }

    fn bytes(&self) -> Vec<u8> {
        let tag = self.tag.unwrap_or_default();
        [&[self.cipher as u8], self.vector, tag, self.data].concat()
    }
}

/// A key in a server.
pub struct Key {
    server: Server,
    id: String,
    /// The major and the minor version of the protocol.
    version: (i32, i32),
    /// How keys are wrapped; wrapped ones say it themselves.
    cipher: Cipher,
    login: Option<(String, PathBuf)>,
    cluster: String,
}

impl Key {
    /// Reads a URI and the files that it names; nothing is sent.
    pub fn new(mut uri: Uri, cluster: &str) -> Result<Self, KmsError> {
        let form = UriError::Missing("KEY-UNIQUE-ID", "write kmip://HOST:PORT/KEY-UNIQUE-ID");
        let (address, id) = uri.body.split_once('/').ok_or(form)?;
        let (host, port) = host_and_port(address)?;
        let id = decode(id)?;
        let (version, cipher) = (version(&mut uri)?, cipher(&mut uri)?);
        let login = login(&mut uri)?;
        let files = files(&mut uri)?;
        uri.finish()?;
        if id.is_empty() {
            return Err(
                UriError::Missing("KEY-UNIQUE-ID", "it is the server's name of a key").into(),
            );
        }
        Ok(Self {
            server: Server::new(host, port, &files)?,
            id,
            version,
            cipher,
            login,
            cluster: cluster.to_owned(),
        })
    }

    /// Asks the server, and returns the answer with its payload in it.
    fn ask(&self, operation: Operation, input: &Wrapped<'_>) -> Result<Message, KmsError> {
        let login = match &self.login {
            Some((user, file)) => Some((user.as_str(), credential::file(file)?)),
            None => None,
        };
        let request = self.request(operation, input, login.as_ref());
        let answer = self.server.call(&request, RESPONSE_MESSAGE)?;
        let item = Fields(&answer).structure(BATCH_ITEM);
        let item = item.ok_or_else(|| self.no_answer())?;
        match item.enumeration(RESULT_STATUS) {
            Some(0) => Ok(answer),
            Some(_) => Err(self.refused(operation, item)),
            None => Err(self.no_answer()),
        }
    }

    fn request(
        &self,
        operation: Operation,
        input: &Wrapped<'_>,
        login: Option<&(&str, Text)>,
    ) -> Message {
        let mut writer = Writer::new();
        writer.structure(REQUEST_MESSAGE, |to| {
            to.structure(REQUEST_HEADER, |to| {
                to.structure(PROTOCOL_VERSION, |to| {
                    to.integer(PROTOCOL_VERSION_MAJOR, self.version.0);
                    to.integer(PROTOCOL_VERSION_MINOR, self.version.1);
                });
                if let Some((user, password)) = login {
                    authentication(to, user, password);
                }
                to.integer(BATCH_COUNT, 1);
            });
            to.structure(BATCH_ITEM, |to| {
                to.enumeration(OPERATION, operation as u32);
                to.structure(REQUEST_PAYLOAD, |to| self.payload(to, input));
            });
        });
        writer.into_bytes()
    }

    fn payload(&self, to: &mut Writer, input: &Wrapped<'_>) {
        to.text(UNIQUE_IDENTIFIER, &self.id);
        to.structure(CRYPTOGRAPHIC_PARAMETERS, |to| parameters(to, input.cipher));
        to.bytes(DATA, input.data);
        to.bytes(IV_COUNTER_NONCE, input.vector);
        if input.cipher == Cipher::Gcm {
            to.bytes(ADDITIONAL_DATA, self.cluster.as_bytes());
        }
        if let Some(tag) = input.tag {
            to.bytes(AUTHENTICATION_TAG, tag);
        }
    }

    /// Returns bytes of the payload of an answer.
    fn field<'a>(&self, answer: &'a Message, tag: Tag) -> Result<&'a [u8], KmsError> {
        let item = Fields(answer).structure(BATCH_ITEM);
        let payload = item.and_then(|item| item.structure(RESPONSE_PAYLOAD));
        let found = payload.and_then(|payload| payload.bytes(tag));
        found
            .filter(|bytes| !bytes.is_empty())
            .ok_or_else(|| self.no_answer())
    }

    fn no_answer(&self) -> KmsError {
        KmsError::Answer(self.server.name())
    }

    fn refused(&self, operation: Operation, item: Fields<'_>) -> KmsError {
        let why = item.text(RESULT_MESSAGE).unwrap_or_default().trim();
        let why: String = why.replace(char::is_control, " ");
        KmsError::Refused {
            service: self.server.name(),
            what: operation.words(),
            status: reason(item.enumeration(RESULT_REASON)),
            why: match why.is_empty() {
                true => "it gives no message".to_owned(),
                false => why.trim_end_matches('.').to_owned(),
            },
        }
    }
}

impl Provider for Key {
    fn wrap(&self, payload: &[u8]) -> Result<Vec<u8>, KmsError> {
        let cipher = self.cipher;
        let mut vector = vec![0; cipher.vector()];
        getrandom::fill(&mut vector).map_err(KmsError::Random)?;
        let mut input = Wrapped {
            cipher,
            vector: &vector,
            tag: None,
            data: payload,
        };
        let answer = self.ask(Operation::Encrypt, &input)?;
        input.data = self.field(&answer, DATA)?;
        if cipher == Cipher::Gcm {
            let tag = self.field(&answer, AUTHENTICATION_TAG)?;
            let tag = (tag.len() == TAG).then_some(tag);
            input.tag = Some(tag.ok_or_else(|| self.no_answer())?);
        }
        Ok(input.bytes())
    }

    fn unwrap(&self, wrapped: &[u8]) -> Result<Secret, KmsError> {
        let input = Wrapped::parse(wrapped).ok_or(KmsError::Wrapped(NAME))?;
        let answer = self.ask(Operation::Decrypt, &input)?;
        Ok(Zeroizing::new(self.field(&answer, DATA)?.to_vec()))
    }

    /// Returns `false`: a key that is rotated in the server gets another identifier, and the URI
    /// names one identifier.
    fn is_older(&self, _: &[u8]) -> Result<bool, KmsError> {
        Ok(false)
    }
}

fn authentication(to: &mut Writer, user: &str, password: &Text) {
    to.structure(AUTHENTICATION, |to| {
        to.structure(CREDENTIAL, |to| {
            to.enumeration(CREDENTIAL_TYPE, USERNAME_AND_PASSWORD);
            to.structure(CREDENTIAL_VALUE, |to| {
                to.text(USERNAME, user);
                to.text(PASSWORD, password);
            });
        });
    });
}

fn parameters(to: &mut Writer, cipher: Cipher) {
    match cipher {
        Cipher::Gcm => {
            to.enumeration(BLOCK_CIPHER_MODE, MODE_GCM);
            to.enumeration(CRYPTOGRAPHIC_ALGORITHM, ALGORITHM_AES);
            to.integer(TAG_LENGTH, 16);
        }
        Cipher::Cbc => {
            to.enumeration(BLOCK_CIPHER_MODE, MODE_CBC);
            to.enumeration(PADDING_METHOD, PADDING_PKCS5);
            to.enumeration(CRYPTOGRAPHIC_ALGORITHM, ALGORITHM_AES);
        }
    }
}

/// Divides `HOST:PORT`; a host may be an IPv6 address in brackets.
fn host_and_port(address: &str) -> Result<(String, u16), UriError> {
    let address = decode(address)?;
    if address.contains('@') {
        return Err(UriError::Secret("what is before @".to_owned()));
    }
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (address.as_str(), None),
    };
    let port = port.map_or(Ok(DEFAULT_PORT), str::parse);
    let port = port.map_err(|_| UriError::Value("the port", "a number up to 65535"))?;
    match host.is_empty() {
        true => Err(UriError::Missing(
            "a host",
            "write kmip://HOST:PORT/KEY-UNIQUE-ID",
        )),
        false => Ok((host.to_owned(), port)),
    }
}

fn version(uri: &mut Uri) -> Result<(i32, i32), UriError> {
    match uri.take("version").as_deref() {
        None | Some("1.4") => Ok((1, 4)),
        Some("2.0") => Ok((2, 0)),
        Some(_) => Err(UriError::Value("version", "1.4 or 2.0")),
    }
}

fn cipher(uri: &mut Uri) -> Result<Cipher, UriError> {
    match uri.take("cipher").as_deref() {
        None | Some("gcm") => Ok(Cipher::Gcm),
        Some("cbc") => Ok(Cipher::Cbc),
        Some(_) => Err(UriError::Value("cipher", "gcm or cbc")),
    }
}

fn login(uri: &mut Uri) -> Result<Option<(String, PathBuf)>, UriError> {
    match (uri.take("username"), uri.take("password-file")) {
        (None, None) => Ok(None),
        (Some(user), Some(file)) => Ok(Some((user, file.into()))),
        (Some(_), None) => Err(UriError::Missing("password-file", "it goes with username")),
        (None, Some(_)) => Err(UriError::Missing("username", "it goes with password-file")),
    }
}

fn files(uri: &mut Uri) -> Result<Files, UriError> {
    let mut required = |name| {
        let path = uri.take(name).map(PathBuf::from);
        path.ok_or(UriError::Missing(
            name,
            "KMIP asks for a client's certificate",
        ))
    };
    Ok(Files {
        chain: required("client-cert")?,
        key: required("client-key")?,
        authorities: uri.take("ca").map(PathBuf::from),
    })
}

/// Returns the words for a result reason, as the specification names it.
fn reason(number: Option<u32>) -> String {
    let words = match number {
        Some(0x01) => "item not found",
        Some(0x03) => "authentication not successful",
        Some(0x04) => "invalid message",
        Some(0x05) => "operation not supported",
        Some(0x06) => "missing data",
        Some(0x07) => "invalid field",
        Some(0x08) => "feature not supported",
        Some(0x0a) => "cryptographic failure",
        Some(0x0b) => "illegal operation",
        Some(0x0c) => "permission denied",
        Some(0x0d) => "object archived",
        Some(0x100) => "general failure",
        Some(0x1a) => "usage limit exceeded",
        Some(0x24) => "bad cryptographic parameters",
        Some(0x29) => "incompatible cryptographic usage mask",
        Some(0x36) => "object destroyed",
        Some(0x37) => "object not found",
        Some(0x39) => "not authorised",
        Some(0x3e) => "unsupported cryptographic parameters",
        Some(0x3f) => "unsupported protocol version",
        Some(0x43) => "wrong key lifecycle state",
        Some(number) => return format!("result reason {number:#04x}"),
        None => "no result reason",
    };
    words.to_owned()
}

const ADDITIONAL_DATA: Tag = Tag(0x42_00fe);
const AUTHENTICATION: Tag = Tag(0x42_000c);
const AUTHENTICATION_TAG: Tag = Tag(0x42_00ff);
const BATCH_COUNT: Tag = Tag(0x42_000d);
const BATCH_ITEM: Tag = Tag(0x42_000f);
const BLOCK_CIPHER_MODE: Tag = Tag(0x42_0011);
const CREDENTIAL: Tag = Tag(0x42_0023);
const CREDENTIAL_TYPE: Tag = Tag(0x42_0024);
const CREDENTIAL_VALUE: Tag = Tag(0x42_0025);
const CRYPTOGRAPHIC_ALGORITHM: Tag = Tag(0x42_0028);
const CRYPTOGRAPHIC_PARAMETERS: Tag = Tag(0x42_002b);
const DATA: Tag = Tag(0x42_00c2);
const IV_COUNTER_NONCE: Tag = Tag(0x42_003d);
const OPERATION: Tag = Tag(0x42_005c);
const PADDING_METHOD: Tag = Tag(0x42_005f);
const PASSWORD: Tag = Tag(0x42_00a1);
const PROTOCOL_VERSION: Tag = Tag(0x42_0069);
const PROTOCOL_VERSION_MAJOR: Tag = Tag(0x42_006a);
const PROTOCOL_VERSION_MINOR: Tag = Tag(0x42_006b);
const REQUEST_HEADER: Tag = Tag(0x42_0077);
const REQUEST_MESSAGE: Tag = Tag(0x42_0078);
const REQUEST_PAYLOAD: Tag = Tag(0x42_0079);
const RESPONSE_MESSAGE: Tag = Tag(0x42_007b);
const RESPONSE_PAYLOAD: Tag = Tag(0x42_007c);
const RESULT_MESSAGE: Tag = Tag(0x42_007d);
const RESULT_REASON: Tag = Tag(0x42_007e);
const RESULT_STATUS: Tag = Tag(0x42_007f);
const TAG_LENGTH: Tag = Tag(0x42_00ce);
const UNIQUE_IDENTIFIER: Tag = Tag(0x42_0094);
const USERNAME: Tag = Tag(0x42_0099);

const ALGORITHM_AES: u32 = 3;
const MODE_CBC: u32 = 1;
const MODE_GCM: u32 = 9;
const PADDING_PKCS5: u32 = 3;
const USERNAME_AND_PASSWORD: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (address, expected) in [
            ("a.b", Some(("a.b", 5696))),
            ("a.b:1", Some(("a.b", 1))),
            ("[::1]", Some(("[::1]", 5696))),
            ("[::1]:1", Some(("[::1]", 1))),
            ("a.b:70000", None),
            (":1", None),
            ("user@a.b", None),
        ] {
            let found = host_and_port(address).ok();
            let found = found.as_ref().map(|(host, port)| (host.as_str(), *port));
            assert_eq!(found, expected, "{address}");
        }
    }

    #[test]
    fn wrapped_keys() {
        let gcm = [&[1][..], &[2; 12], &[3; 16], &[4; 5]].concat();
        let found = Wrapped::parse(&gcm).expect("it is one");
        assert_eq!(
            (found.vector, found.tag),
            (&[2; 12][..], Some(&[3; 16][..]))
        );
        assert_eq!((found.data, found.bytes()), (&[4; 5][..], gcm.clone()));
        let cbc = [&[2][..], &[3; 16], &[4; 16]].concat();
        let found = Wrapped::parse(&cbc).expect("it is one");
        assert_eq!((found.vector, found.tag), (&[3; 16][..], None));
        assert_eq!((found.data, found.bytes()), (&[4; 16][..], cbc.clone()));
        for bytes in [&b""[..], &gcm[..29], &cbc[..17], b"vault:v1:AAAA"] {
            assert!(Wrapped::parse(bytes).is_none());
        }
    }

    #[test]
    fn settings_that_do_not_fit() {
        let error = |text| {
            let uri = Uri::parse(text).expect("it has a scheme");
            let error = Key::new(uri, "00").err().expect("no file is there");
            error.to_string()
        };
        for (text, part) in [
            ("kmip://h", "KEY-UNIQUE-ID"),
            ("kmip://h/?client-cert=c&client-key=k", "KEY-UNIQUE-ID"),
            ("kmip://h/1", "client-cert"),
            ("kmip://h/1?client-cert=c", "client-key"),
            ("kmip://h/1?version=1.3", "version in"),
            ("kmip://h/1?cipher=ecb", "cipher in"),
            ("kmip://h/1?username=u", "password-file"),
            ("kmip://h/1?password-file=p", "username"),
            ("kmip://h/1?client-cert=c&client-key=k&x=1", "a setting x"),
            (
                "kmip://h/1?client-cert=/absent&client-key=k",
                "/absent cannot be read",
            ),
        ] {
            assert!(error(text).contains(part), "{text}: {}", error(text));
        }
    }
}
