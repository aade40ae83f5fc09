//! The 240 bytes of a sheet, and the ten lines that spell them.
//!
//! `u8 format = 1 || u8 index || u8 needed || u8 made || bound header || 32 salt || 120 wrapped key
//! || 32 secret or share || 3 check`. A whole sheet has index, needed and made 0. The check is
//! SHA-256 of all before it, cut: lines of different sheets do not pass as one.

use pgseal_crypto::passphrase::{Argon2Params, SALT};
use pgseal_crypto::sha256;
use pgseal_format::{Cost, Header, Kdf, SecretSource, SlotKind, BOUND_HEADER, PAYLOAD};
use zeroize::Zeroizing;

use crate::line::{self, Mistyped, BYTES};
use crate::share::Count;

/// The most that a file with a typed sheet may hold.
pub const MAX_TEXT: usize = 64 * 1024;

const FORMAT: u8 = 1;
const LINES: usize = 10;
const SIZE: usize = LINES * BYTES;
/// AES-256-GCM adds a tag.
const WRAPPED: usize = PAYLOAD + 16;
const SECRET: usize = 32;
const CHECK: usize = 3;
const DOMAIN: &[u8] = b"pgseal recovery sheet 1\0";

/// Why a text is no sheet that can be used. The text goes on from the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SheetError {
    /// The text has no lines of a sheet.
    #[error("has no lines of a recovery sheet: type the lines that begin with 01: to {LINES}:")]
    NoLines,
    /// A line is not what was printed.
    #[error("is mistyped in line {0:02}: compare that line with the sheet")]
    Mistyped(usize),
    /// A line is not there.
    #[error("lacks line {0:02}: type all lines from 01: to {LINES}:")]
    Missing(usize),
    /// One number is there twice, or is not one of a sheet.
    #[error("has a line {0:02} too many: a sheet has each line from 01: to {LINES}: once")]
    TooMany(usize),
    /// Every line is right and they do not belong together.
    #[error("has lines of different sheets: type the lines of one")]
    Mixed,
    /// Made by a later pgseal.
    #[error("is of format {0}, newer than this pgseal knows: install a newer pgseal")]
    NewerFormat(u8),
    /// Values that no version writes.
    #[error("is damaged ({0}): use another copy of the sheet")]
    Damaged(&'static str),
}

/// A master key wrapped under a recovery secret, and the header of its cluster: what all parts of
/// one sheet have in common.
#[derive(Clone, PartialEq, Eq)]
pub struct Wrapped {
    header: Header,
    salt: [u8; SALT],
    wrapped: [u8; WRAPPED],
}

impl Wrapped {
    /// The source under which a recovery secret wraps a key: as a key command's key does, with no
    /// command.
    pub fn source() -> SecretSource {
        SecretSource::Command(String::new())
    }

    /// The cost of a recovery secret. It is random, so the least is enough.
    pub const COST: Cost = Cost::Argon2id(Argon2Params::FLOOR);

    /// Takes a slot over, which must have been made for [`Wrapped::source`] with
    /// [`Wrapped::COST`].
    pub fn of(header: &Header, slot: &SlotKind) -> Option<Self> {
        match slot {
            SlotKind::Derived {
                source,
                kdf,
                wrapped,
            } if *source == Self::source() && kdf.cost == Self::COST => Some(Self {
                header: header.clone(),
                salt: kdf.salt,
                wrapped: wrapped[..].try_into().ok()?,
            }),
            _ => None,
        }
    }

    /// Returns the header, as the sheet claims it.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns how the recovery secret is hardened.
    pub fn kdf(&self) -> Kdf {
        Kdf {
            salt: self.salt,
            cost: Self::COST,
        }
    }

    /// Returns the wrapped payload.
    pub fn wrapped(&self) -> &[u8] {
        &self.wrapped
    }
}

/// A recovery secret, or one share of it.
pub enum Part {
    /// The secret.
    Whole(Zeroizing<[u8; SECRET]>),
    /// A share, by its number from 1.
    Share {
        /// how many there are
        count: Count,
        /// which one this is
        index: u8,
        /// the values of the polynomials at `index`
        values: Zeroizing<[u8; SECRET]>,
    },
}

/// One sheet, whole or a share.
pub struct Sheet {
    /// The part that all shares have in common.
    pub key: Wrapped,
    /// The secret, or the share of it, on this sheet.
    pub part: Part,
}

impl Sheet {
    /// Returns the ten lines, each with its end.
    pub fn lines(&self) -> Zeroizing<String> {
        let mut out = Zeroizing::new(String::with_capacity(LINES * 3 * BYTES));
        for (at, chunk) in self.encode().chunks_exact(BYTES).enumerate() {
            let chunk = chunk.try_into().expect("chunks of this size");
            line::push(&mut out, at + 1, chunk);
        }
        out
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let (index, needed, made, secret) = match &self.part {
            Part::Whole(secret) => (0, 0, 0, secret),
            Part::Share {
                count,
                index,
                values,
            } => (*index, count.needed(), count.made(), values),
        };
        let mut out = Zeroizing::new(Vec::with_capacity(SIZE));
        out.extend_from_slice(&[FORMAT, index, needed, made]);
        out.extend_from_slice(&self.key.header.bound());
        out.extend_from_slice(&self.key.salt);
        out.extend_from_slice(&self.key.wrapped);
        out.extend_from_slice(&secret[..]);
        let check = check(&out);
        out.extend_from_slice(&check);
        out
    }

    /// Reads a sheet that was typed or scanned. Only lines that begin with one or two digits and a
    /// colon count, in any order.
    pub fn parse(text: &str) -> Result<Self, SheetError> {
        let mut found = [const { None }; LINES];
        for (number, rest) in text.lines().filter_map(numbered) {
            let place = number.checked_sub(1).and_then(|at| found.get_mut(at));
            let place = place.ok_or(SheetError::TooMany(number))?;
            let bytes = line::parse(number, rest);
            let bytes = bytes.map_err(|Mistyped| SheetError::Mistyped(number))?;
            if place.replace(bytes).is_some() {
                return Err(SheetError::TooMany(number));
            }
        }
        if found.iter().all(Option::is_none) {
            return Err(SheetError::NoLines);
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(SIZE));
        for (at, line) in found.iter().enumerate() {
            let line = line.as_ref().ok_or(SheetError::Missing(at + 1))?;
            bytes.extend_from_slice(&line[..]);
        }
        Self::decode(&bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self, SheetError> {
        const CUT: SheetError = SheetError::Damaged("a field is cut short");
        let (body, tag) = bytes.split_last_chunk::<CHECK>().ok_or(CUT)?;
        if check(body) != *tag {
            return Err(SheetError::Mixed);
        }
        let (&[format, index, needed, made], rest) = body.split_first_chunk().ok_or(CUT)?;
        if format != FORMAT {
            return Err(SheetError::NewerFormat(format));
        }
        let (header, rest) = rest.split_first_chunk::<BOUND_HEADER>().ok_or(CUT)?;
        let header = Header::from_bound(header);
        let header = header.ok_or(SheetError::Damaged("its header is unknown"))?;
        let (salt, rest) = rest.split_first_chunk().ok_or(CUT)?;
        let (wrapped, rest) = rest.split_first_chunk().ok_or(CUT)?;
        let secret: &[u8; SECRET] = rest.try_into().map_err(|_| CUT)?;
        let secret = Zeroizing::new(*secret);
        let part = match (index, needed, made) {
            (0, 0, 0) => Part::Whole(secret),
            (1.., needed, made) if index <= made => Part::Share {
                count: Count::new(needed, made).map_err(|_| UNCOUNTED)?,
                index,
                values: secret,
            },
            _ => return Err(UNCOUNTED),
        };
        let key = Wrapped {
            header,
            salt: *salt,
            wrapped: *wrapped,
        };
        Ok(Self { key, part })
    }
}

const UNCOUNTED: SheetError = SheetError::Damaged("its number of shares makes no sense");

/// Returns the number of a line of a sheet, and what follows the colon.
fn numbered(line: &str) -> Option<(usize, &str)> {
    let (number, rest) = line.trim_start().split_once(':')?;
    let digits = number.trim_end();
    let is_number = matches!(digits.len(), 1 | 2) && digits.bytes().all(|b| b.is_ascii_digit());
    Some((is_number.then(|| digits.parse().ok())??, rest))
}

fn check(body: &[u8]) -> [u8; CHECK] {
    let digest = sha256(&[DOMAIN, body]);
    *digest.first_chunk().expect("a digest has 32 bytes")
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use pgseal_crypto::{KeyLength, MasterKey, Suite};
    use pgseal_format::ClusterId;
    use proptest::prelude::*;

    pub fn wrapped(byte: u8) -> Wrapped {
        let header = Header {
            suite: Suite::AesXts,
            length: KeyLength::Bits256,
            cluster: ClusterId([byte; 16]),
            key_id: MasterKey::from_bytes(&mut [byte; 32]).key_id(),
            created: 1_800_000_000,
        };
        let kdf = Kdf {
            salt: [byte; SALT],
            cost: Wrapped::COST,
        };
        let slot = SlotKind::Derived {
            source: Wrapped::source(),
            kdf,
            wrapped: vec![byte; WRAPPED],
        };
        Wrapped::of(&header, &slot).expect("a slot of this kind")
    }

    pub fn sheet(byte: u8) -> Sheet {
        Sheet {
            key: wrapped(byte),
            part: Part::Whole(Zeroizing::new([byte; SECRET])),
        }
    }

    fn error(text: &str) -> SheetError {
        Sheet::parse(text).err().expect("no sheet")
    }

    #[test]
    fn the_lines_of_a_sheet_are_read_in_any_order_among_others() {
        let lines = sheet(3).lines();
        let mut reversed: Vec<&str> = lines.lines().rev().collect();
        reversed.push("a sheet: it is the key");
        let read = Sheet::parse(&reversed.join("\n")).expect("a sheet");
        assert!(read.key == wrapped(3));
        assert!(matches!(read.part, Part::Whole(secret) if *secret == [3; SECRET]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let lines = sheet(3).lines();
        assert_eq!(error("pgseal\nmade 12:00\n"), SheetError::NoLines);
        let without = lines.replace("\n04: ", "\n04 ");
        assert_eq!(error(&without), SheetError::Missing(4));
        let first = lines.lines().next().expect("a line");
        assert_eq!(error(&format!("{}{first}", *lines)), SheetError::TooMany(1));
        let more = lines.replace("10: ", "11: ");
        assert_eq!(error(&more), SheetError::TooMany(11));
        let others = sheet(4).lines();
        let half: Vec<&str> = others
            .lines()
            .take(5)
            .chain(lines.lines().skip(5))
            .collect();
        assert_eq!(error(&half.join("\n")), SheetError::Mixed);
    }

    proptest! {
        #[test]
        fn a_mistyped_line_is_named(at in 0..LINES, place in 4..50usize, by in 1..32usize) {
            let lines = sheet(5).lines();
            let mut typed: Vec<_> = lines.lines().map(|line| line.as_bytes().to_vec()).collect();
            let alphabet = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
            let old = alphabet.iter().position(|letter| *letter == typed[at][place]);
            prop_assume!(old.is_some());
            typed[at][place] = alphabet[(old.unwrap_or(0) + by) % 32];
            let typed = String::from_utf8(typed.join(&b'\n')).expect("letters");
            prop_assert_eq!(error(&typed), SheetError::Mistyped(at + 1));
        }

        #[test]
        fn any_text_is_refused_or_read(text in "([0-9]{1,3}: ?[a-z0-9 ]{0,60}\n){0,12}") {
            let _ = Sheet::parse(&text);
        }
    }
}
