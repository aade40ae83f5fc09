//! bytea and uuid as text: byteain, byteaout, uuid_in, uuid_out.

use zeroize::Zeroizing;

use crate::{Type, ValueError};

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Reads bytea: `\x` and hexadecimal digits, or characters with octal escapes.
pub(crate) fn parse_bytea(text: &str) -> Result<Vec<u8>, ValueError> {
    match text.strip_prefix("\\x") {
        Some(digits) => parse_hex(digits.as_bytes()),
        None => parse_escaped(text.as_bytes()),
    }
}

fn parse_hex(digits: &[u8]) -> Result<Vec<u8>, ValueError> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
    let mut rest = digits.iter();
    while let Some(first) = rest.next() {
        if matches!(first, b' ' | b'\n' | b'\t' | b'\r') {
            continue;
        }
        let high = nibble(*first)?;
        let second = rest.next().ok_or(ValueError::Hexadecimal)?;
        bytes.push(high << 4 | nibble(*second)?);
    }
    Ok(std::mem::take(&mut bytes))
}

fn nibble(digit: u8) -> Result<u8, ValueError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(ValueError::Hexadecimal),
    }
}

fn parse_escaped(text: &[u8]) -> Result<Vec<u8>, ValueError> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let (byte, len) = match (first, after) {
            (b'\\', [b'\\', ..]) => (b'\\', 2),
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), 4)
            }
            (b'\\', _) => return Err(ValueError::Syntax(Type::Bytea)),
            (byte, _) => (*byte, 1),
        };
        bytes.push(byte);
        rest = &rest[len..];
    }
    Ok(std::mem::take(&mut bytes))
}

/// bytea in hexadecimal.
pub(crate) fn print_bytea(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        push_hex(&mut text, *byte);
    }
    text
}

fn push_hex(text: &mut String, byte: u8) {
    for nibble in [byte >> 4, byte & 15] {
        text.push(char::from(HEX[usize::from(nibble)]));
    }
}

/// Reads a uuid: 32 digits, in braces or not, with a hyphen after any four of them or none.
pub(crate) fn parse_uuid(text: &str) -> Result<[u8; 16], ValueError> {
    let syntax = ValueError::Syntax(Type::Uuid);
    let text = match text.strip_prefix('{') {
        Some(inner) => inner.strip_suffix('}').ok_or(syntax)?,
        None => text,
    };
    let mut rest = text.as_bytes();
    let mut uuid = [0; 16];
    for (index, byte) in uuid.iter_mut().enumerate() {
        let [high, low, after @ ..] = rest else {
            return Err(syntax);
        };
        let digit = |digit: &u8| nibble(*digit).map_err(|_| syntax);
        *byte = digit(high)? << 4 | digit(low)?;
        rest = match after {
            [b'-', after @ ..] if index % 2 == 1 && index < 15 => after,
            _ => after,
        };
    }
    if rest.is_empty() {
        Ok(uuid)
    } else {
        Err(syntax)
    }
}

/// A uuid in groups of 8, 4, 4, 4 and 12 digits.
pub(crate) fn print_uuid(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        push_hex(&mut text, *byte);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_bytea_are_read() {
        assert_eq!(parse_bytea("\\x00 fF\n"), Ok(vec![0, 255]));
        assert_eq!(parse_bytea("a\\\\\\000\\377"), Ok(b"a\\\0\xff".to_vec()));
        assert_eq!(parse_bytea(""), Ok(vec![]));
        assert_eq!(print_bytea(b"\0\xff"), "\\x00ff");
        for text in ["\\x0", "\\x0g", "\\x0 0"] {
            assert_eq!(parse_bytea(text), Err(ValueError::Hexadecimal), "{text}");
        }
        for text in ["\\", "\\400", "\\08", "\\y"] {
            let error = ValueError::Syntax(Type::Bytea);
            assert_eq!(parse_bytea(text), Err(error), "{text}");
        }
    }

    #[test]
    fn uuids_are_read_with_and_without_hyphens() {
        let printed = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        let forms = [
            printed.to_owned(),
            printed.to_uppercase(),
            format!("{{{printed}}}"),
            printed.replace('-', ""),
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11".to_owned(),
        ];
        for form in forms {
            let uuid = parse_uuid(&form);
            assert_eq!(uuid.map(|uuid| print_uuid(&uuid)), Ok(printed.to_owned()));
        }
        let truncated = &printed[..35];
        for text in [
            "",
            "{",
            truncated,
            &format!("{printed} "),
            &format!("{{{printed}"),
        ] {
            assert_eq!(
                parse_uuid(text),
                Err(ValueError::Syntax(Type::Uuid)),
                "{text}"
            );
        }
    }
}
