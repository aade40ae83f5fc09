//! Lines of a sheet: 24 bytes each, spelled as Bech32m (BIP 350).
//!
//! Line 3 is the Bech32m string with the human-readable part `pgseal03`, of which the sheet prints
//! the number, a colon, and what follows the separator, in groups of five characters. The checksum
//! covers the number too. It finds every line with up to four wrong characters.

use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32m, ByteIterExt, Fe32IterExt, Hrp};
use zeroize::Zeroizing;

/// Bytes of a line.
pub const BYTES: usize = 24;

/// Characters of a line without its number: the bytes, and a checksum of 30 bits.
const CHARACTERS: usize = (BYTES * 8).div_ceil(5) + CHECKSUM;
const CHECKSUM: usize = 6;
const GROUP: usize = 5;

/// The line is not what was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mistyped;

/// Appends the line of this number, with its end.
pub fn push(out: &mut String, number: usize, bytes: &[u8; BYTES]) {
    let line = spelled(number, bytes);
    out.push_str(&format!("{number:02}:"));
    for (at, letter) in line[line.len() - CHARACTERS..].chars().enumerate() {
        if at % GROUP == 0 {
            out.push(' ');
        }
        out.push(letter);
    }
    out.push('\n');
}

/// Reads what follows the number and the colon. White space, hyphens and upper case do not count.
/// The alphabet has no `o`, `i` and `1`, so these are read as what they look like.
pub fn parse(number: usize, text: &str) -> Result<Zeroizing<[u8; BYTES]>, Mistyped> {
    let mut line = begun(number);
    let length = line.len() + CHARACTERS;
    for letter in text.chars().filter(|letter| !is_filler(*letter)) {
        if line.len() == length || !letter.is_ascii() {
            return Err(Mistyped);
        }
        line.push(meant(letter));
    }
    let read = CheckedHrpstring::new::<Bech32m>(&line).map_err(|_| Mistyped)?;
    let mut bytes = Zeroizing::new([0; BYTES]);
    let mut read = read.byte_iter();
    for byte in bytes.iter_mut() {
        *byte = read.next().ok_or(Mistyped)?;
    }
    // The last character has three bits more than the bytes, which are zeros in what was printed.
    match *spelled(number, &bytes) == *line {
        true => Ok(bytes),
        false => Err(Mistyped),
    }
}

/// The Bech32m string of this number and these bytes. It never grows, so that no copy is left.
fn spelled(number: usize, bytes: &[u8; BYTES]) -> Zeroizing<String> {
    let name = Hrp::parse_unchecked(&name(number));
    let digits = bytes.iter().copied().bytes_to_fes();
    let digits = digits.with_checksum::<Bech32m>(&name);
    let mut line = begun(number);
    let begun = line.len();
    line.extend(digits.chars().skip(begun));
    line
}

/// A Bech32m string up to its separator, with room for what follows.
fn begun(number: usize) -> Zeroizing<String> {
    let name = name(number);
    let mut line = Zeroizing::new(String::with_capacity(name.len() + 1 + CHARACTERS));
    line.push_str(&name);
    line.push('1');
    line
}

/// The human-readable part.
fn name(number: usize) -> String {
    format!("pgseal{number:02}")
}

fn is_filler(letter: char) -> bool {
    letter.is_ascii_whitespace() || letter == '-'
}

fn meant(letter: char) -> char {
    match letter.to_ascii_lowercase() {
        'o' => '0',
        'i' | '1' => 'l',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use bech32::Fe32;
    use proptest::prelude::*;

    use super::*;

    const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

    fn line(number: usize, bytes: &[u8; BYTES]) -> String {
        let mut out = String::new();
        push(&mut out, number, bytes);
        out
    }

    fn body(line: &str) -> &str {
        line.split_once(": ").expect("a number").1
    }

    fn typed(line: &str) -> Vec<u8> {
        let letters = body(line).chars().filter(|letter| !is_filler(*letter));
        letters.collect::<String>().into_bytes()
    }

    /// `tests/recovery` reads such lines with another decoder.
    #[test]
    fn a_line_has_nine_groups_of_five() {
        let line = line(3, &[0xff; BYTES]);
        assert_eq!(line.trim_end().len(), 3 + 9 * 6, "{line}");
        assert!(line.starts_with("03: lllll lllll lllll lllll "), "{line}");
        assert_eq!(parse(3, body(&line)).as_deref(), Ok(&[0xff; BYTES]));
    }

    /// A checksum that fits does not excuse bits which no line has.
    #[test]
    fn bits_behind_the_bytes_are_zeros() {
        let name = Hrp::parse_unchecked("pgseal03");
        for (last, fits) in [(Fe32::Q, true), (Fe32::P, false)] {
            let digits = [Fe32::Q; CHARACTERS - CHECKSUM - 1]
                .into_iter()
                .chain([last]);
            let text: String = digits.with_checksum::<Bech32m>(&name).chars().collect();
            assert_eq!(parse(3, &text["pgseal031".len()..]).is_ok(), fits);
        }
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
            let mut typed = typed(&line);
            for (at, by) in wrong {
                let old = ALPHABET.iter().position(|letter| *letter == typed[at]);
                let old = old.expect("a letter");
                typed[at] = ALPHABET[(old + by) % 32];
            }
            let typed = String::from_utf8(typed).expect("letters");
            prop_assert_eq!(parse(7, &typed).err(), Some(Mistyped));
        }

        #[test]
        fn swapped_neighbours_are_found(bytes: [u8; BYTES], at in 0..CHARACTERS - 1) {
            let line = line(7, &bytes);
            let mut typed = typed(&line);
            prop_assume!(typed[at] != typed[at + 1]);
            typed.swap(at, at + 1);
            let typed = String::from_utf8(typed).expect("letters");
            prop_assert_eq!(parse(7, &typed).err(), Some(Mistyped));
        }

        #[test]
        fn a_character_more_or_less_is_found(bytes: [u8; BYTES], at in 0..CHARACTERS, more: bool) {
            let line = line(7, &bytes);
            let mut typed = typed(&line);
            match more {
                true => typed.insert(at, typed[at]),
                false => drop(typed.remove(at)),
            }
            let typed = String::from_utf8(typed).expect("letters");
            prop_assert_eq!(parse(7, &typed).err(), Some(Mistyped));
        }
    }
}
