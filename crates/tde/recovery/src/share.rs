//! Shamir's secret sharing over GF(256) of a recovery secret: any `needed` of `made` shares give it
//! back, and fewer say nothing about it.

use std::convert::Infallible;

use blahaj::{Share, Sharks};
use pgseal_crypto::random_bytes;
use rand_core::{TryCryptoRng, TryRng};
use zeroize::Zeroizing;

use crate::{Part, Sheet, Wrapped};

/// The number of shares, and the number that gives the secret back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    needed: u8,
    made: u8,
}

/// A number of shares that protects nothing, or cannot be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shares are given as K/N, where any K of N rebuild the key: K is at least 2, and N from K to {}", Count::MOST)]
pub struct CountError;

impl Count {
    /// The most shares that are made.
    pub const MOST: u8 = 32;

    /// At least two must be needed: one that is enough is a whole sheet.
    pub fn new(needed: u8, made: u8) -> Result<Self, CountError> {
        match needed >= 2 && needed <= made && made <= Self::MOST {
            true => Ok(Self { needed, made }),
            false => Err(CountError),
        }
    }

    /// Reads `K/N`.
    pub fn parse(text: &str) -> Result<Self, CountError> {
        let (needed, made) = text.split_once('/').ok_or(CountError)?;
        let number = |text: &str| text.trim().parse().map_err(|_| CountError);
        Self::new(number(needed)?, number(made)?)
    }

    /// Returns the number of shares that gives the secret back.
    pub fn needed(self) -> u8 {
        self.needed
    }

    /// Returns the number of shares.
    pub fn made(self) -> u8 {
        self.made
    }
}

/// Why sheets give no recovery secret. Numbers are places in the order of the sheets, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// There is no sheet at all.
    None,
    /// A whole sheet is among shares.
    Whole(usize),
    /// This share is of another set than the first.
    OtherSet(usize),
    /// This share is one that came before.
    Twice(usize),
    /// There are not enough shares.
    TooFew {
        /// how many were given
        have: usize,
        /// how many are needed
        needed: u8,
    },
    /// The shares contradict each other, which no mistyped one does.
    Contradict,
}

/// Splits the secret by which `key` is wrapped.
pub fn split(key: &Wrapped, secret: &[u8; 32], count: Count) -> Vec<Sheet> {
    let shares = Sharks(count.needed).dealer_rng(secret, &mut Kernel);
    let shares = shares.take(usize::from(count.made));
    let sheet = |share: Share| {
        let bytes = Zeroizing::new(Vec::from(&share));
        let (index, values) = bytes.split_first().expect("a share has a number");
        Sheet {
            key: key.clone(),
            part: Part::Share {
                count,
                index: *index,
                values: Zeroizing::new(values.try_into().expect("as long as the secret")),
            },
        }
    };
    shares.map(sheet).collect()
}

/// Returns the wrapped key and the secret that these shares give.
pub fn join(sheets: &[Sheet]) -> Result<(&Wrapped, Zeroizing<[u8; 32]>), JoinError> {
    let first = sheets.first().ok_or(JoinError::None)?;
    let Part::Share { count, .. } = first.part else {
        return Err(JoinError::Whole(0));
    };
    let mut shares = Vec::with_capacity(sheets.len());
    let mut seen = Vec::with_capacity(sheets.len());
    for (at, sheet) in sheets.iter().enumerate() {
        let Part::Share {
            count: its,
            index,
            values,
        } = &sheet.part
        else {
            return Err(JoinError::Whole(at));
        };
        if *its != count || sheet.key != first.key {
            return Err(JoinError::OtherSet(at));
        }
        if seen.contains(index) {
            return Err(JoinError::Twice(at));
        }
        seen.push(*index);
        let mut bytes = Zeroizing::new(vec![*index]);
        bytes.extend_from_slice(&values[..]);
        shares.push(Share::try_from(&bytes[..]).map_err(|_| JoinError::Contradict)?);
    }
    let (have, needed) = (shares.len(), count.needed);
    if have < usize::from(needed) {
        return Err(JoinError::TooFew { have, needed });
    }
    let sharks = Sharks(needed);
    let joined = sharks.recover(&shares);
    let joined = Zeroizing::new(joined.map_err(|_| JoinError::Contradict)?);
    let secret = joined[..].try_into().map_err(|_| JoinError::Contradict)?;
    Ok((&first.key, Zeroizing::new(secret)))
}

/// The kernel's random numbers, for what takes a generator: no state of our own, which a fork could
/// copy.
struct Kernel;

fn random<const N: usize>() -> [u8; N] {
    random_bytes().expect("the kernel gave random bytes a moment ago, for the secret")
}

impl TryRng for Kernel {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::from_le_bytes(random()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_le_bytes(random()))
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for byte in dst {
            [*byte] = random();
        }
        Ok(())
    }
}

impl TryCryptoRng for Kernel {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::tests::{sheet, wrapped};

    const SECRET: [u8; 32] = [0xa5; 32];

    fn shares(byte: u8, needed: u8, made: u8) -> Vec<Sheet> {
        let count = Count::new(needed, made).expect("a count");
        split(&wrapped(byte), &SECRET, count)
    }

    /// The shares at these places, read again from their lines.
    fn some(shares: &[Sheet], places: &[usize]) -> Vec<Sheet> {
        let read = |at: &usize| Sheet::parse(&shares[*at].lines()).expect("a share");
        places.iter().map(read).collect()
    }

    fn error(sheets: &[Sheet]) -> JoinError {
        join(sheets).err().expect("an error")
    }

    #[test]
    fn any_two_of_three_give_the_secret() {
        let all = shares(1, 2, 3);
        for places in [&[0, 1][..], &[0, 2], &[2, 1], &[2, 0, 1]] {
            let given = some(&all, places);
            let (key, secret) = join(&given).expect("enough");
            assert!(*key == wrapped(1));
            assert_eq!(*secret, SECRET);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let all = shares(1, 3, 5);
        let few = JoinError::TooFew { have: 2, needed: 3 };
        assert_eq!(error(&some(&all, &[0, 4])), few);
        assert_eq!(error(&some(&all, &[0, 4, 0])), JoinError::Twice(2));
        let mut mixed = some(&all, &[0, 4]);
        mixed.extend(some(&shares(2, 3, 5), &[1]));
        assert_eq!(error(&mixed), JoinError::OtherSet(2));
        mixed[2] = sheet(1);
        assert_eq!(error(&mixed), JoinError::Whole(2));
        assert_eq!(error(&[]), JoinError::None);
    }

    #[test]
    fn shares_differ_each_time() {
        let values = |sheet: &Sheet| match &sheet.part {
            Part::Share { values, .. } => **values,
            Part::Whole(_) => unreachable!("split gives shares"),
        };
        let [one, other] = [shares(1, 2, 2), shares(1, 2, 2)];
        assert_ne!(values(&one[0]), values(&other[0]));
        assert_ne!(values(&one[0]), SECRET);
    }

    #[test]
    fn counts_that_make_no_sense_are_refused() {
        for text in ["2/3", "2/2", "32/32"] {
            assert!(Count::parse(text).is_ok(), "{text}");
        }
        for text in ["1/3", "3/2", "2/33", "2", "0/0", "2/x", "-2/3", "256/256"] {
            assert_eq!(Count::parse(text), Err(CountError), "{text}");
        }
    }
}
