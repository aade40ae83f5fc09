//! Lines of a sheet: 24 bytes each, spelled as Bech32m (BIP 350).
//!
//! Line 3 is the Bech32m string with the human-readable part `pgseal03`, of which the sheet prints
//! the number, a colon, and what follows the separator, in groups of five characters. The checksum
//! covers the number too. It finds every line with up to four wrong characters.

use zeroize::Zeroizing;

/// Bytes of a line.
pub const BYTES: usize = 24;

/// Characters of a line without its number: the bytes, and a checksum of 30 bits.
const CHARACTERS: usize = (BYTES * 8).div_ceil(5) + CHECKSUM;
const CHECKSUM: usize = 6;
const GROUP: usize = 5;

const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const GENERATOR: [u32; 5] = [
    0x3b6a_57b2,
    0x2650_8e6d,
    0x1ea1_19fa,
    0x3d42_33dd,
    0x2a14_62b3,
];
/// The constant that tells Bech32m from Bech32.
const BECH32M: u32 = 0x2bc8_30a3;

/// The line is not what was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mistyped;

/// Appends the line of this number, with its end.
pub fn push(out: &mut String, number: usize, bytes: &[u8; BYTES]) {
    let mut digits = Zeroizing::new(Vec::with_capacity(CHARACTERS));
    let mut bits = Bits::default();
    for byte in bytes {
        bits.add(u32::from(*byte), 8);
        while let Some(digit) = bits.take(5) {
            digits.push(digit);
        }
    }
    digits.extend(bits.rest(5));
    let checksum = checksum(number, digits.iter().copied().chain([0; CHECKSUM])) ^ BECH32M;
    digits.extend((0..CHECKSUM).rev().map(|at| (checksum >> (5 * at)) & 31));
    out.push_str(&format!("{number:02}:"));
    for (at, digit) in digits.iter().enumerate() {
        if at % GROUP == 0 {
            out.push(' ');
        }
        out.push(char::from(ALPHABET[usize_of(*digit)]));
    }
    out.push('\n');
}

/// Reads what follows the number and the colon. White space, hyphens and upper case do not count.
/// The alphabet has no `o`, `i` and `1`, so these are read as what they look like.
pub fn parse(number: usize, text: &str) -> Result<Zeroizing<[u8; BYTES]>, Mistyped> {
    let mut digits = Zeroizing::new(Vec::with_capacity(CHARACTERS + 1));
    for character in text.bytes().filter(|byte| !is_filler(*byte)) {
        if digits.len() == CHARACTERS {
            return Err(Mistyped);
        }
        digits.push(digit(character).ok_or(Mistyped)?);
    }
    if digits.len() != CHARACTERS || checksum(number, digits.iter().copied()) != BECH32M {
        return Err(Mistyped);
    }
    let mut bytes = Zeroizing::new([0; BYTES]);
    let mut bits = Bits::default();
    let mut places = bytes.iter_mut();
    for digit in &digits[..CHARACTERS - CHECKSUM] {
        bits.add(*digit, 5);
        if let Some(byte) = bits.take(8) {
            *places.next().ok_or(Mistyped)? = u8::try_from(byte).map_err(|_| Mistyped)?;
        }
    }
    match bits.value {
        0 => Ok(bytes),
        _ => Err(Mistyped),
    }
}

fn is_filler(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b'-'
}

fn digit(character: u8) -> Option<u32> {
    let meant = match character.to_ascii_lowercase() {
        b'o' => b'0',
        b'i' | b'1' => b'l',
        other => other,
    };
    let at = ALPHABET.iter().position(|letter| *letter == meant)?;
    u32::try_from(at).ok()
}

fn usize_of(digit: u32) -> usize {
    usize::try_from(digit).expect("a digit is below 32")
}

/// Bits on their way from one size of digit to another.
#[derive(Default)]
struct Bits {
    value: u32,
    count: u32,
}

impl Bits {
    fn add(&mut self, digit: u32, width: u32) {
        self.value = (self.value << width) | digit;
        self.count += width;
    }

    /// Takes the oldest digit of this width, if it is whole.
    fn take(&mut self, width: u32) -> Option<u32> {
        let rest = self.count.checked_sub(width)?;
        let digit = self.value >> rest;
        self.value &= (1 << rest) - 1;
        self.count = rest;
        Some(digit)
    }

    /// Takes what is left, with zeros behind it.
    fn rest(self, width: u32) -> Option<u32> {
        let missing = width.checked_sub(self.count)?;
        (self.count > 0).then_some(self.value << missing)
    }
}

/// The checksum of BIP 173 over the human-readable part of this line and these digits.
fn checksum(number: usize, digits: impl Iterator<Item = u32>) -> u32 {
    let name = format!("pgseal{number:02}");
    let name = name.bytes().map(u32::from);
    let high = name.clone().map(|byte| byte >> 5);
    let low = name.map(|byte| byte & 31);
    high.chain([0])
        .chain(low)
        .chain(digits)
        .fold(1, |sum, digit| {
            let top = sum >> 25;
            let shifted = ((sum & 0x01ff_ffff) << 5) ^ digit;
            let taps = GENERATOR.iter().enumerate();
            taps.filter(|(at, _)| (top >> at) & 1 == 1)
                .fold(shifted, |sum, (_, tap)| sum ^ tap)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(number: usize, bytes: &[u8; BYTES]) -> String {
        let mut out = String::new();
        push(&mut out, number, bytes);
        out
    }

    fn body(line: &str) -> &str {
        line.split_once(": ").expect("a number").1
    }

    /// `tests/recovery` reads such lines with another decoder.
    #[test]
    fn a_line_has_nine_groups_of_five() {
        let line = line(3, &[0xff; BYTES]);
        assert_eq!(line.trim_end().len(), 3 + 9 * 6, "{line}");
        assert!(line.starts_with("03: lllll lllll lllll lllll "), "{line}");
        assert_eq!(parse(3, body(&line)).as_deref(), Ok(&[0xff; BYTES]));
    }

    #[test]
    fn what_looks_alike_is_read() {
        let bytes: [u8; BYTES] = std::array::from_fn(|at| u8::try_from(at * 10).unwrap_or(0));
        let line = line(1, &bytes);
        let typed = body(&line)
            .to_uppercase()
            .replace('0', "O")
            .replace('L', "1");
        assert_eq!(parse(1, &typed.replace(' ', "-")).as_deref(), Ok(&bytes));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read(number in 1..100usize, bytes: [u8; BYTES]) {
            let line = line(number, &bytes);
            let read = parse(number, body(&line));
            prop_assert_eq!(read.as_deref(), Ok(&bytes));
        }

        #[test]
        fn the_number_is_checked(number in 1..100usize, other in 1..100usize, bytes: [u8; BYTES]) {
            prop_assume!(number != other);
            prop_assert_eq!(parse(other, body(&line(number, &bytes))).err(), Some(Mistyped));
        }

        /// Up to four characters, each replaced by any other of the alphabet.
        #[test]
        fn mistyped_characters_are_found(
            bytes: [u8; BYTES],
            wrong in prop::collection::btree_map(0..CHARACTERS, 1..32usize, 1..=4)
        ) {
            let line = line(7, &bytes);
            let mut typed: Vec<u8> = body(&line).bytes().filter(|byte| !is_filler(*byte)).collect();
            for (at, by) in wrong {
                let old = usize_of(digit(typed[at]).expect("a letter"));
                typed[at] = ALPHABET[(old + by) % 32];
            }
            let typed = String::from_utf8(typed).expect("letters");
            prop_assert_eq!(parse(7, &typed).err(), Some(Mistyped));
        }

        #[test]
        fn swapped_neighbours_are_found(bytes: [u8; BYTES], at in 0..CHARACTERS - 1) {
            let line = line(7, &bytes);
            let mut typed: Vec<u8> = body(&line).bytes().filter(|byte| !is_filler(*byte)).collect();
            prop_assume!(typed[at] != typed[at + 1]);
            typed.swap(at, at + 1);
            let typed = String::from_utf8(typed).expect("letters");
            prop_assert_eq!(parse(7, &typed).err(), Some(Mistyped));
        }

        #[test]
        fn a_character_more_or_less_is_found(bytes: [u8; BYTES], at in 0..CHARACTERS, more: bool) {
            let line = line(7, &bytes);
            let mut typed: Vec<u8> = body(&line).bytes().filter(|byte| !is_filler(*byte)).collect();
            match more {
                true => typed.insert(at, typed[at]),
                false => drop(typed.remove(at)),
            }
            let typed = String::from_utf8(typed).expect("letters");
            prop_assert_eq!(parse(7, &typed).err(), Some(Mistyped));
        }
    }
}
