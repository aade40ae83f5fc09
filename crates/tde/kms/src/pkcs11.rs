//! A key in a hardware security module, by PKCS #11 (RFC 7512 has the URIs).
//!
//! `pkcs11:token=T;object=K?module-path=/usr/lib/x.so&pin-source=file:/path`. The key is an AES
//! key, used as AES-GCM with the cluster's id as associated data, or a pair of RSA keys, used as
//! OAEP with the cluster's id as label. It never leaves the device.
//!
//! A wrapped key is a number for the mechanism, then for AES-GCM the 12 bytes of the nonce, then
//! what the device made.
//!
//! Invariant: a PIN from a file is not tried if the device has counted a wrong one since its last
//! login. A device locks itself after a few, and a server that is started again and again would
//! use them up.

use std::path::PathBuf;

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::aead::GcmParams;
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsOaepParams, PkcsOaepSource};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::{Slot, TokenInfo};
use cryptoki::types::AuthPin;
use pgseal_keys::passphrase;
use zeroize::Zeroizing;

use crate::credential;
use crate::error::KmsError;
use crate::uri::{Uri, UriError};
use crate::{Provider, Secret};

const NAME: &str = "an HSM";
const NONCE: usize = 12;
const TAG_BITS: u64 = 128;

/// The mechanism that wraps; the first byte of a wrapped key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrapping {
    AesGcm = 1,
    OaepSha256 = 2,
    /// The form for devices whose OAEP knows no other hash. No attack on OAEP needs collisions.
    OaepSha1 = 3,
}

impl Wrapping {
    fn of(number: u8) -> Option<Self> {
        let all = [Self::AesGcm, Self::OaepSha256, Self::OaepSha1];
        all.into_iter().find(|wrapping| *wrapping as u8 == number)
    }
}

/// The token and the key of it that a URI means. An attribute that is not given may be anything.
#[derive(Default)]
struct Choice {
    token: Option<String>,
    serial: Option<String>,
    manufacturer: Option<String>,
    model: Option<String>,
    object: Option<String>,
    id: Option<Vec<u8>>,
}

/// A key in a device.
pub struct Token {
    module: PathBuf,
    choice: Choice,
    pin: Option<PathBuf>,
    cluster: String,
}

impl Token {
    /// Reads a URI; the device is not touched.
    pub fn new(mut uri: Uri, cluster: &str) -> Result<Self, KmsError> {
        let id = id_of(&uri.body)?;
        uri.body_settings(';')?;
        let module = uri.take("module-path");
        let absent = UriError::Missing("module-path", "name the device's driver, a file .so");
        // The id is taken as bytes; as a text it may not even be one.
        let _ = uri.take("id");
        let _ = uri.take("type");
        let choice = Choice {
            token: uri.take("token"),
            serial: uri.take("serial"),
            manufacturer: uri.take("manufacturer"),
            model: uri.take("model"),
            object: uri.take("object"),
            id,
        };
        if choice.object.is_none() && choice.id.is_none() {
            return Err(UriError::Missing("object or id", "name the key").into());
        }
        let pin = uri.take("pin-source");
        let token = Self {
            module: module.ok_or(absent)?.into(),
            choice,
            pin: pin.map(|source| source.strip_prefix("file:").unwrap_or(&source).into()),
            cluster: cluster.to_owned(),
        };
        uri.finish()?;
        Ok(token)
    }

    /// Runs `work` in a session that is logged in.
    fn session<T>(
        &self,
        work: impl FnOnce(&Device<'_>) -> Result<T, KmsError>,
    ) -> Result<T, KmsError> {
        let driver = self.module.display().to_string();
        let failed = |what| failure(driver.clone(), what);
        let pkcs11 = Pkcs11::new(&self.module).map_err(failed("be loaded as a driver"))?;
        let flags = CInitializeFlags::OS_LOCKING_OK;
        let initialized = pkcs11.initialize(CInitializeArgs::new(flags));
        initialized.map_err(failed("be initialized"))?;
        let (slot, info) = self.choose(&pkcs11)?;
        let name = format!("the token {:?}", info.label());
        let session = pkcs11.open_ro_session(slot);
        let session = session.map_err(failure(name.clone(), "open a session"))?;
        self.log_in(&session, &info, &name)?;
        let device = Device {
            session: &session,
            name: &name,
        };
        work(&device)
    }

    /// Returns the one token that the URI means.
    fn choose(&self, pkcs11: &Pkcs11) -> Result<(Slot, TokenInfo), KmsError> {
        let driver = self.module.display().to_string();
        let slots = pkcs11.get_slots_with_initialized_token();
        let slots = slots.map_err(failure(driver.clone(), "list its tokens"))?;
        let mut found = Vec::new();
        for slot in slots {
            let info = pkcs11.get_token_info(slot);
            let info = info.map_err(failure(driver.clone(), "describe a token"))?;
            if self.choice.is_token(&info) {
                found.push((slot, info));
            }
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(KmsError::Choice(format!(
                "{driver} has no token that the URI means: check token= and serial="
            ))),
            many => Err(KmsError::Choice(format!(
                "{driver} has {many} tokens that the URI means: add serial="
            ))),
        }
    }

    fn log_in(&self, session: &Session, info: &TokenInfo, name: &str) -> Result<(), KmsError> {
        if info.user_pin_locked() {
            return Err(KmsError::PinLocked(name.to_owned()));
        }
        if !info.login_required() {
            return Ok(());
        }
        let was_wrong = info.user_pin_count_low() || info.user_pin_final_try();
        let pin = match &self.pin {
            Some(_) if was_wrong => return Err(KmsError::PinCounted(name.to_owned())),
            Some(path) => credential::file(path)?,
            None => typed(name)?,
        };
        let pin = AuthPin::new(pin.as_str().into());
        match session.login(UserType::User, Some(&pin)) {
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(()),
            Err(error) => Err(failure(name.to_owned(), "log in")(error)),
        }
    }
}

/// Asks for a PIN at the terminal.
fn typed(name: &str) -> Result<credential::Text, KmsError> {
    let typed = passphrase::ask(&format!("PIN of {name}: "));
    let advice = "name a file of it with pin-source=file:PATH, or run this at a terminal";
    let typed = typed.map_err(|_| KmsError::Pin(advice.to_owned()))?;
    let text = std::str::from_utf8(&typed);
    let text = text.map_err(|_| KmsError::Pin("a PIN must be UTF-8".to_owned()))?;
    Ok(Zeroizing::new(text.to_owned()))
}

impl Choice {
    fn is_token(&self, info: &TokenInfo) -> bool {
        let matches = |wanted: &Option<String>, is: &str| {
            wanted
                .as_deref()
                .is_none_or(|wanted| wanted == is.trim_end())
        };
        matches(&self.token, info.label())
            && matches(&self.serial, info.serial_number())
            && matches(&self.manufacturer, info.manufacturer_id())
            && matches(&self.model, info.model())
    }

    fn template(&self, class: ObjectClass) -> Vec<Attribute> {
        let mut template = vec![Attribute::Class(class)];
        let label = self.object.as_ref().map(|label| label.as_bytes().to_vec());
        template.extend(label.map(Attribute::Label));
        template.extend(self.id.clone().map(Attribute::Id));
        template
    }
}

/// A session with a token.
struct Device<'a> {
    session: &'a Session,
    name: &'a str,
}

impl Device<'_> {
    fn failed(&self, what: &'static str) -> impl FnOnce(Error) -> KmsError {
        failure(self.name.to_owned(), what)
    }

    /// Returns the one key of this class that the URI means, if there is one.
    fn find(&self, choice: &Choice, class: ObjectClass) -> Result<Option<ObjectHandle>, KmsError> {
        let found = self.session.find_objects(&choice.template(class));
        let found = found.map_err(self.failed("look for the key"))?;
        match found[..] {
            [] => Ok(None),
            [key] => Ok(Some(key)),
            _ => Err(KmsError::Choice(format!(
                "{} has {} keys that the URI means: add id=",
                self.name,
                found.len()
            ))),
        }
    }

    fn none(&self) -> KmsError {
        let name = self.name;
        KmsError::Choice(format!(
            "{name} has no AES key and no pair of RSA keys that the URI means: check object= and id="
        ))
    }

    fn is_aes(&self, key: ObjectHandle) -> Result<bool, KmsError> {
        let kind = self.session.get_attributes(key, &[AttributeType::KeyType]);
        let kind = kind.map_err(self.failed("describe the key"))?;
        Ok(kind.contains(&Attribute::KeyType(KeyType::AES)))
    }

    fn encrypt(&self, mechanism: &Mechanism<'_>, key: ObjectHandle, data: &[u8]) -> Encrypted {
        self.session.encrypt(mechanism, key, data)
    }
}

type Encrypted = Result<Vec<u8>, Error>;

/// Makes the error of a call that failed.
fn failure(device: String, what: &'static str) -> impl FnOnce(Error) -> KmsError {
    move |error| KmsError::Device {
        device,
        what,
        why: match error {
            Error::Pkcs11(code, _) => words(code),
            other => other.to_string(),
        },
    }
}

/// Returns a driver's error as it is known to anyone who looks it up.
fn words(code: RvError) -> String {
    match code {
        RvError::PinIncorrect => "the PIN is wrong; it is not tried again".to_owned(),
        RvError::PinLocked => "the PIN is locked".to_owned(),
        other => format!("the driver says {other:?}"),
    }
}

fn oaep<'a>(wrapping: Wrapping, cluster: &'a [u8]) -> Mechanism<'a> {
    let (hash, mgf) = match wrapping {
        Wrapping::OaepSha1 => (MechanismType::SHA1, PkcsMgfType::MGF1_SHA1),
        _ => (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256),
    };
    // A device whose OAEP knows SHA-1 alone knows no label either.
    let label = match wrapping {
        Wrapping::OaepSha1 => PkcsOaepSource::empty(),
        _ => PkcsOaepSource::data_specified(cluster),
    };
    Mechanism::RsaPkcsOaep(PkcsOaepParams::new(hash, mgf, label))
}

impl Token {
    fn wrap_by_aes(
        &self,
        device: &Device<'_>,
        key: ObjectHandle,
        payload: &[u8],
    ) -> Result<Vec<u8>, KmsError> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(KmsError::Random)?;
        let sent = nonce;
        let gcm = GcmParams::new(&mut nonce, self.cluster.as_bytes(), TAG_BITS.into());
        let mechanism = Mechanism::AesGcm(gcm.map_err(device.failed("use AES-GCM"))?);
        let made = device.encrypt(&mechanism, key, payload);
        let made = made.map_err(device.failed("encrypt by AES-GCM"))?;
        let mut wrapped = vec![Wrapping::AesGcm as u8];
        wrapped.extend_from_slice(&sent);
        wrapped.extend_from_slice(&made);
        Ok(wrapped)
    }

    fn wrap_by_rsa(
        &self,
        device: &Device<'_>,
        key: ObjectHandle,
        payload: &[u8],
    ) -> Result<Vec<u8>, KmsError> {
        let cluster = self.cluster.as_bytes();
        let by = |wrapping: Wrapping| {
            let made = device.encrypt(&oaep(wrapping, cluster), key, payload)?;
            Ok([&[wrapping as u8][..], &made].concat())
        };
        let made = match by(Wrapping::OaepSha256) {
            Err(Error::Pkcs11(RvError::ArgumentsBad | RvError::MechanismParamInvalid, _)) => {
                by(Wrapping::OaepSha1)
            }
            made => made,
        };
        made.map_err(device.failed("encrypt by RSA-OAEP"))
    }
}

impl Provider for Token {
    fn wrap(&self, payload: &[u8]) -> Result<Vec<u8>, KmsError> {
        self.session(|device| {
            if let Some(key) = device.find(&self.choice, ObjectClass::SECRET_KEY)? {
                return match device.is_aes(key)? {
                    true => self.wrap_by_aes(device, key, payload),
                    false => Err(device.none()),
                };
            }
            match device.find(&self.choice, ObjectClass::PUBLIC_KEY)? {
                Some(key) => self.wrap_by_rsa(device, key, payload),
                None => Err(device.none()),
            }
        })
    }

    fn unwrap(&self, wrapped: &[u8]) -> Result<Secret, KmsError> {
        let (number, made) = wrapped.split_first().ok_or(KmsError::Wrapped(NAME))?;
        let wrapping = Wrapping::of(*number).ok_or(KmsError::Wrapped(NAME))?;
        self.session(|device| {
            let class = match wrapping {
                Wrapping::AesGcm => ObjectClass::SECRET_KEY,
                Wrapping::OaepSha256 | Wrapping::OaepSha1 => ObjectClass::PRIVATE_KEY,
            };
            let key = device
                .find(&self.choice, class)?
                .ok_or_else(|| device.none())?;
            let cluster = self.cluster.as_bytes();
            let payload = if wrapping == Wrapping::AesGcm {
                let (nonce, made) = made
                    .split_at_checked(NONCE)
                    .ok_or(KmsError::Wrapped(NAME))?;
                let mut nonce = nonce.to_vec();
                let gcm = GcmParams::new(&mut nonce, cluster, TAG_BITS.into());
                let gcm = gcm.map_err(device.failed("use AES-GCM"))?;
                device.session.decrypt(&Mechanism::AesGcm(gcm), key, made)
            } else {
                device.session.decrypt(&oaep(wrapping, cluster), key, made)
            };
            let payload = payload.map_err(device.failed("decrypt the wrapped key"))?;
            Ok(Zeroizing::new(payload))
        })
    }

    /// A device has no versions of a key: a new one has another label or id.
    fn is_older(&self, _: &[u8]) -> Result<bool, KmsError> {
        Ok(false)
    }
}

/// Returns the attribute `id`, which is bytes and not a text.
fn id_of(body: &str) -> Result<Option<Vec<u8>>, UriError> {
    let id = body.split(';').find_map(|pair| pair.strip_prefix("id="));
    let id = id.map(|text| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>());
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_token_and_a_key() {
        let uri = "pkcs11:token=t;object=k;id=%01%02?module-path=/m.so&pin-source=file:/p";
        let token = Token::new(Uri::parse(uri).expect("a URI"), "00").expect("it is whole");
        assert_eq!(token.choice.token.as_deref(), Some("t"));
        assert_eq!(token.choice.id.as_deref(), Some(&[1, 2][..]));
        assert_eq!(token.pin, Some("/p".into()));
    }

    #[test]
    fn a_uri_that_is_not_enough() {
        for (uri, part) in [
            ("pkcs11:token=t?module-path=/m.so", "object or id"),
            ("pkcs11:object=k", "module-path"),
            ("pkcs11:object=k;x=y?module-path=/m.so", "a setting x"),
        ] {
            let token = Token::new(Uri::parse(uri).expect("a URI"), "00");
            let said = token.err().expect("it is refused").to_string();
            assert!(said.contains(part), "{said}");
        }
    }
}
