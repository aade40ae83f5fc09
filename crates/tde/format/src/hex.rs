//! Bytes as lowercase hexadecimal digits: one spelling, and nothing left of what was read.

use zeroize::Zeroizing;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends the digits of `bytes`.
pub fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// The `N` bytes that `digits` spell, if they spell just as many.
pub fn parse<const N: usize>(digits: &[u8]) -> Option<Zeroizing<[u8; N]>> {
    let mut out = Zeroizing::new([0; N]);
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    (digits.len() == 2 * N).then_some(out)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}
