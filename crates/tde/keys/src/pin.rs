//! `PGSEAL_EXPECT_KEY`: the one key that the operator expects.
//!
//! An attacker who can replace a whole data directory could put a plain one in its place, or one
//! under another key. With the pin, the wrappers refuse both.

use std::env;
use std::path::PathBuf;

use pgseal_contract::variable;
use pgseal_crypto::KeyId;

use crate::cluster::Root;
use crate::exit::{Code, Exit, Failure};
use crate::key_set::KeySet;
use crate::unlock::Unlocked;

const EXPECT_KEY: &str = variable::EXPECT_KEY.as_str();

/// Why a directory is not the expected one.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    #[error("{EXPECT_KEY} must be a key id of 32 hexadecimal digits, as `pgseal status` shows it, not {0:?}")]
    NotAKeyId(String),
    #[error("{0} is not sealed, but {EXPECT_KEY} demands a sealed cluster: somebody may have replaced the directory")]
    Plain(PathBuf),
    #[error("{0} has key {1}, not {2} as {EXPECT_KEY} demands: somebody may have replaced the directory")]
    Other(PathBuf, KeyId, KeyId),
    #[error(
        "the server is not sealed, but {EXPECT_KEY} demands key {0}: somebody may have replaced it"
    )]
    PlainServer(KeyId),
    #[error("initdb would make a new key, but {EXPECT_KEY} demands another: unset it, or copy the key with --copy-key-from")]
    New,
}

impl Exit for PinError {
    fn code(&self) -> Code {
        match self {
            Self::NotAKeyId(_) => Code::Usage,
            Self::Plain(_) | Self::Other(..) | Self::PlainServer(_) | Self::New => Code::WrongKey,
        }
    }
}

/// Refuses a directory of the command line that is a plain cluster.
pub fn check_plain(paths: &[PathBuf]) -> Result<(), Failure> {
    if expected()?.is_none() {
        return Ok(());
    }
    for path in paths {
        if path.join("PG_VERSION").exists() && Root::around(path)?.is_none() {
            return Err(PinError::Plain(path.clone()).into());
        }
    }
    Ok(())
}

/// Refuses keys that are not the expected one.
pub fn check_keys(keys: &KeySet) -> Result<(), PinError> {
    let Some(expected) = expected()? else {
        return Ok(());
    };
    match keys.keys().iter().find(|key| key.key_id != expected) {
        None => Ok(()),
        Some(other) => Err(PinError::Other(other.root.clone(), other.key_id, expected)),
    }
}

/// Refuses a cluster that would be made, or added to, under another key.
pub fn check_key(cluster: &Unlocked) -> Result<(), PinError> {
    let key = cluster.header.key_id;
    match other_than(key, expected()?) {
        Some(expected) => Err(PinError::Other(cluster.root.path.clone(), key, expected)),
        None => Ok(()),
    }
}

/// Refuses a new cluster under another key.
pub fn check_new(key: KeyId) -> Result<(), PinError> {
    match other_than(key, expected()?) {
        Some(_) => Err(PinError::New),
        None => Ok(()),
    }
}

/// Returns the expected key if it is another one than `key`.
fn other_than(key: KeyId, expected: Option<KeyId>) -> Option<KeyId> {
    expected.filter(|expected| *expected != key)
}

/// Returns the expected key, if one is set.
pub fn expected() -> Result<Option<KeyId>, PinError> {
    let Some(text) = env::var_os(EXPECT_KEY).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let text = text.to_string_lossy().into_owned();
    parse(&text).map(Some).ok_or(PinError::NotAKeyId(text))
}

fn parse(text: &str) -> Option<KeyId> {
    let mut id = [0; 16];
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(KeyId(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_expected_key_is_taken() {
        let [key, other] = [KeyId([1; 16]), KeyId([2; 16])];
        assert_eq!(other_than(key, None), None);
        assert_eq!(other_than(key, Some(key)), None);
        assert_eq!(other_than(key, Some(other)), Some(other));
    }

    #[test]
    fn key_ids() {
        let id = parse("07c3ae1ad793c43def72e2be8064c70a").expect("a key id");
        assert_eq!(id.to_string(), "07c3ae1ad793c43def72e2be8064c70a");
        for bad in [
            "",
            "07c3",
            "+7c3ae1ad793c43def72e2be8064c70a",
            "äääääääääääääääää",
        ] {
            assert_eq!(parse(bad), None);
        }
    }
}
