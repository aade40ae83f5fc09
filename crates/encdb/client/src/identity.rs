//! The identity that a client has for evaluators: an owner's master key, and a key that signs.
//!
//! The owner's own identity signs with the owner's key: it may make grants. The identity of an
//! application opens the same data, but signs with a key of its own: it can do what the owner has
//! granted to that key, and can grant nothing. `docs/format/identity.md` restates the text.

mod file;

use pgseal_cell::{MasterKey, OwnerId, PublicKey};
use pgseal_crypto::sign::SigningKey;
use pgseal_crypto::{RandomError, Secret};
use zeroize::Zeroizing;

pub use file::{IdentityFile, IdentityFileError};

use crate::hex::{from_hex, to_hex};
use crate::list::Kept;

const HEAD: &str =
    "# pgseal identity: whoever reads this file can read its owner's encrypted data\n";
/// The version of a file that keeps no list, and of one that does: it has the last two lines.
const VERSIONS: [&str; 2] = ["1", "2"];
/// Names of lines, in the order in which they are written.
const NAMES: [&str; 8] = [
    "version",
    "owner",
    "subject",
    "check",
    "master",
    "signing",
    "list",
    "signature",
];
/// The label that a signature of the list begins with.
const LABEL: &[u8] = b"pgseal/owners-list/1\0";

/// Why a text is no identity. No variant holds a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Not lines of names and values, or not all of them.
    #[error("it is malformed: restore it from a copy")]
    Malformed,
    /// Written by a later pgseal.
    #[error("it is of a form that this pgseal does not know: install a newer pgseal")]
    Unknown,
    /// The keys are not those that it names.
    #[error("its keys are not those that it names: it was altered, restore it from a copy")]
    Altered,
}

/// The keys by which a session is opened.
pub struct Identity {
    master: MasterKey,
    owner: PublicKey,
    seed: Secret,
    signing: SigningKey,
}

impl Identity {
    /// Makes a new owner.
    pub fn generate() -> Result<Self, RandomError> {
        let seed = Secret::generate()?;
        let owner = SigningKey::from_seed(&seed).public();
        Ok(Self::new(MasterKey::generate()?, owner, seed))
    }

    /// Makes a new application of the same owner's data. It can do nothing but compare until the
    /// owner grants more to its [subject](Self::subject).
    pub fn application(&self) -> Result<Self, RandomError> {
        let mut master = Zeroizing::new(*self.master.expose());
        let master = MasterKey::from_bytes(&mut master);
        Ok(Self::new(master, self.owner, Secret::generate()?))
    }

    /// Returns the same owner for the same number, for tests: its keys are public.
    #[doc(hidden)]
    pub fn for_tests(number: u8) -> Self {
        let seed = Secret::from_bytes(&mut [!number; 32]);
        let owner = SigningKey::from_seed(&seed).public();
        Self::new(MasterKey::from_bytes(&mut [number; 32]), owner, seed)
    }

    fn new(master: MasterKey, owner: PublicKey, seed: Secret) -> Self {
        Self {
            signing: SigningKey::from_seed(&seed),
            master,
            owner,
            seed,
        }
    }

    /// Returns the owner whose data it opens.
    pub fn owner(&self) -> PublicKey {
        self.owner
    }

    /// Returns the key that it signs with, by which grants name it.
    pub fn subject(&self) -> PublicKey {
        self.signing.public()
    }

    /// Whether it is the owner's own identity, which can make grants.
    pub fn is_owner(&self) -> bool {
        self.subject() == self.owner
    }

    /// Returns the public name of owner and master key together.
    pub fn owner_id(&self) -> OwnerId {
        self.master.owner_id(&self.owner)
    }

    /// Returns the owner's master key.
    pub(crate) fn master(&self) -> &MasterKey {
        &self.master
    }

    /// Returns the secret key that it signs with.
    pub(crate) fn signing(&self) -> &SigningKey {
        &self.signing
    }

    /// Returns the text of an identity file that keeps this; none if that is too long for it.
    pub fn encode(&self, kept: &Kept) -> Option<Zeroizing<String>> {
        let secret = |secret: &[u8; 32]| Zeroizing::new(to_hex(secret));
        let public = |text: String| Zeroizing::new(text);
        let mut values = vec![
            public(VERSIONS[usize::from(!kept.is_empty())].to_owned()),
            public(self.owner.to_string()),
            public(self.subject().to_string()),
            public(to_hex(&self.owner_id().0)),
            secret(self.master.expose()),
            secret(self.seed.expose()),
        ];
        if !kept.is_empty() {
            let list = kept.encode()?;
            let signature = self.signing.sign(&[LABEL, &list].concat());
            values.extend([public(to_hex(&list)), public(to_hex(&signature))]);
        }
        // Large enough that it never moves.
        let size: usize = values.iter().map(|value| value.len()).sum();
        let mut text = Zeroizing::new(String::with_capacity(1024 + size));
        text.push_str(HEAD);
        for (name, value) in NAMES.iter().zip(&values) {
            for part in [name, " = \"", value, "\"\n"] {
                text.push_str(part);
            }
        }
        Some(text)
    }

    /// Reads the text of an identity file, and what it keeps.
    pub fn parse(text: &str) -> Result<(Self, Kept), IdentityError> {
        let mut values = [None; NAMES.len()];
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, value) = name_and_value(line).ok_or(IdentityError::Malformed)?;
            let place = NAMES.iter().position(|known| *known == name);
            let place = place.ok_or(IdentityError::Unknown)?;
            if values[place].replace(value).is_some() {
                return Err(IdentityError::Malformed);
            }
        }
        let [version, keys @ .., list, signature] = values;
        let version = version.ok_or(IdentityError::Malformed)?;
        let keeps = VERSIONS.iter().position(|known| *known == version);
        let keeps = keeps.ok_or(IdentityError::Unknown)? == 1;
        let [Some(owner), Some(subject), Some(check), Some(master), Some(signing)] = keys else {
            return Err(IdentityError::Malformed);
        };
        let identity = Self::of(owner, subject, check, master, signing)?;
        let kept = match (keeps, list, signature) {
            (true, Some(list), Some(signature)) => identity.kept(list, signature)?,
            (false, None, None) => Kept::default(),
            _ => return Err(IdentityError::Malformed),
        };
        Ok((identity, kept))
    }

    fn of(
        owner: &str,
        subject: &str,
        check: &str,
        master: &str,
        signing: &str,
    ) -> Result<Self, IdentityError> {
        let (mut master, mut seed) = (key(master)?, key(signing)?);
        let identity = Self::new(
            MasterKey::from_bytes(&mut master),
            PublicKey(*key(owner)?),
            Secret::from_bytes(&mut seed),
        );
        let is_named = identity.subject().0 == *key(subject)?
            && from_hex(check).is_some_and(|id| id[..] == identity.owner_id().0);
        is_named.then_some(identity).ok_or(IdentityError::Altered)
    }

    /// Reads the list if this identity signed it.
    fn kept(&self, list: &str, signature: &str) -> Result<Kept, IdentityError> {
        let list = from_hex(list).ok_or(IdentityError::Malformed)?;
        let signature = from_hex(signature).ok_or(IdentityError::Malformed)?;
        let signature = signature.as_slice().try_into();
        let signature = signature.map_err(|_| IdentityError::Malformed)?;
        if !self.subject().verify(&[LABEL, &list].concat(), signature) {
            return Err(IdentityError::Altered);
        }
        Kept::parse(&list).ok_or(IdentityError::Unknown)
    }
}

/// Reads `name = "value"`.
fn name_and_value(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let value = value.trim().strip_prefix('"')?.strip_suffix('"')?;
    Some((name.trim(), value))
}

fn key(text: &str) -> Result<Zeroizing<[u8; 32]>, IdentityError> {
    let bytes = from_hex(text).ok_or(IdentityError::Malformed)?;
    let mut key = Zeroizing::new([0; 32]);
    if bytes.len() != key.len() {
        return Err(IdentityError::Malformed);
    }
    key.copy_from_slice(&bytes);
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: u8, kept: &Kept) -> Zeroizing<String> {
        let text = Identity::for_tests(number).encode(kept);
        text.expect("it is short")
    }

    #[test]
    fn texts_lead_back_to_identities() {
        let owner = Identity::for_tests(7);
        let application = owner.application().expect("the kernel gives random bytes");
        for identity in [&owner, &application] {
            for kept in [Kept::default(), Kept::for_tests()] {
                let text = identity.encode(&kept).expect("it is short");
                let (again, known) = Identity::parse(&text).expect("it was written so");
                assert_eq!(again.owner_id(), identity.owner_id());
                assert_eq!(again.subject(), identity.subject());
                assert_eq!(again.is_owner(), identity.is_owner());
                assert_eq!(known, kept);
            }
        }
        assert!(owner.is_owner() && !application.is_owner());
        assert_eq!(owner.owner_id(), application.owner_id());
    }

    #[test]
    fn the_examples_of_the_document_are_these_texts() {
        let document = include_str!("../../../../docs/format/identity.md");
        let blocks: Vec<String> = document
            .split("\n\n")
            .filter(|block| block.starts_with("    # pgseal identity"))
            .map(|block| {
                block
                    .lines()
                    .flat_map(|line| [line.trim_start(), "\n"])
                    .collect()
            })
            .collect();
        let texts = [text(1, &Kept::default()), text(1, &Kept::for_tests())];
        assert_eq!(blocks, texts.map(|text| text.to_string()));
    }

    #[test]
    fn each_altered_digit_is_found() {
        let text = text(7, &Kept::for_tests());
        for (at, digit) in text.char_indices().skip(HEAD.len()) {
            if digit.is_ascii_hexdigit()
                && text[..at].lines().last().is_some_and(|l| l.contains('"'))
            {
                let mut other = text.to_string();
                other.replace_range(at..=at, if digit == '0' { "1" } else { "0" });
                assert!(Identity::parse(&other).is_err(), "{at}");
            }
        }
    }

    #[test]
    fn what_is_no_identity_says_why() {
        let refused = |text: &str| Identity::parse(text).err();
        let bare = text(7, &Kept::default());
        assert_eq!(refused(""), Some(IdentityError::Malformed));
        let doubled = [bare.as_str(), "version = \"1\"\n"].concat();
        assert_eq!(refused(&doubled), Some(IdentityError::Malformed));
        let later = bare.replace("version = \"1\"", "version = \"3\"");
        assert_eq!(refused(&later), Some(IdentityError::Unknown));
        let more = [bare.as_str(), "curve = \"x\"\n"].concat();
        assert_eq!(refused(&more), Some(IdentityError::Unknown));
        let other = Identity::for_tests(8).owner().to_string();
        let other = bare.replace(&Identity::for_tests(7).owner().to_string(), &other);
        assert_eq!(refused(&other), Some(IdentityError::Altered));
    }

    #[test]
    fn what_is_kept_is_neither_left_out_nor_anothers() {
        let refused = |text: &str| Identity::parse(text).err();
        let (mine, others) = (text(7, &Kept::for_tests()), text(8, &Kept::for_tests()));
        let end = mine.find("list = ").expect("it has the line");
        assert_eq!(refused(&mine[..end]), Some(IdentityError::Malformed));
        let as_first = mine[..end].replace("version = \"2\"", "version = \"1\"");
        assert!(
            refused(&as_first).is_none(),
            "who cuts the file has its keys"
        );
        let theirs = others.find("list = ").expect("it has the line");
        let moved = [&mine[..end], &others[theirs..]].concat();
        assert_eq!(refused(&moved), Some(IdentityError::Altered));
    }
}
