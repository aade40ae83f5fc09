//! Bytes as hexadecimal digits, as bytea and identity files have them.

use zeroize::Zeroizing;

/// Returns two lower-case digits for each byte.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Returns the bytes of pairs of digits, of either case; none if they are something else.
pub fn from_hex(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(pairs.len()));
    for pair in pairs {
        bytes.push(digit(pair[0])? << 4 | digit(pair[1])?);
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        assert_eq!(to_hex(&[0, 0x9f, 255]), "009fff");
        assert_eq!(from_hex("009FfF").as_deref(), Some(&vec![0, 0x9f, 255]));
        assert_eq!(from_hex("").as_deref(), Some(&vec![]));
        for wrong in ["0", "0g", "00 ", "\u{e9}"] {
            assert!(from_hex(wrong).is_none(), "{wrong}");
        }
    }
}
