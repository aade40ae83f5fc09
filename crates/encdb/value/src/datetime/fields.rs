//! The fields of a date's text: ParseDateTime.

use zeroize::Zeroizing;

use super::decode::Fault;
use super::words::{word, Word};

/// How a field looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Digits, and letters or digits behind `-`, `/` or `.`
    Date,
    /// Digits with a colon
    Time,
    /// Digits, perhaps with a point
    Number,
    /// Letters
    Word,
    /// Letters behind a sign
    Special,
    /// Digits behind a sign
    Zone,
}

/// A field, in lower case.
pub(super) struct Field {
    pub(super) form: Form,
    pub(super) text: Zeroizing<Vec<u8>>,
}

const MAX_FIELDS: usize = 25;

/// Splits text into fields; with a zero behind each they must fit into `room`.
pub(super) fn split(text: &str, room: usize) -> Result<Vec<Field>, Fault> {
    let mut scanner = Scanner {
        rest: text.as_bytes(),
        used: 0,
        room,
        field: empty_field(room),
    };
    let mut fields = Vec::new();
    while let Some(first) = scanner.peek() {
        if first.is_ascii_whitespace() || first == 0x0b {
            scanner.rest = &scanner.rest[1..];
            continue;
        }
        if fields.len() >= MAX_FIELDS {
            return Err(Fault::Format);
        }
        if let Some(form) = scanner.field(first)? {
            scanner.used += 1;
            let text = std::mem::replace(&mut scanner.field, empty_field(room));
            fields.push(Field { form, text });
        }
    }
    Ok(fields)
}

/// A field that never has to move while it grows.
fn empty_field(room: usize) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(Vec::with_capacity(room))
}

struct Scanner<'a> {
    rest: &'a [u8],
    used: usize,
    room: usize,
    field: Zeroizing<Vec<u8>>,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn next_is(&self, test: impl Fn(u8) -> bool) -> bool {
        self.peek().is_some_and(test)
    }

    /// Takes a character into the field.
    fn take(&mut self) -> Result<(), Fault> {
        if self.used + 1 >= self.room {
            return Err(Fault::Format);
        }
        if let Some((first, rest)) = self.rest.split_first() {
            self.field.push(first.to_ascii_lowercase());
            self.rest = rest;
            self.used += 1;
        }
        Ok(())
    }

    fn take_while(&mut self, test: impl Fn(u8) -> bool) -> Result<(), Fault> {
        while self.next_is(&test) {
            self.take()?;
        }
        Ok(())
    }

    /// Takes a field that begins with this character; nothing if that only divides fields.
    fn field(&mut self, first: u8) -> Result<Option<Form>, Fault> {
        Ok(Some(match first {
            b'0'..=b'9' => self.number()?,
            b'.' => {
                self.take()?;
                self.take_while(|c| c.is_ascii_digit())?;
                Form::Number
            }
            b'+' | b'-' => self.signed()?,
            _ if first.is_ascii_alphabetic() => self.word()?,
            _ if first.is_ascii_punctuation() => {
                self.rest = &self.rest[1..];
                return Ok(None);
            }
            _ => return Err(Fault::Format),
        }))
    }

    fn number(&mut self) -> Result<Form, Fault> {
        self.take_while(|c| c.is_ascii_digit())?;
        let delimiter = match self.peek() {
            Some(b':') => {
                self.take_while(|c| c.is_ascii_digit() || c == b':' || c == b'.')?;
                return Ok(Form::Time);
            }
            Some(delimiter @ (b'-' | b'/' | b'.')) => delimiter,
            _ => return Ok(Form::Number),
        };
        self.take()?;
        if !self.next_is(|c| c.is_ascii_digit()) {
            self.take_while(|c| c.is_ascii_alphanumeric() || c == delimiter)?;
            return Ok(Form::Date);
        }
        self.take_while(|c| c.is_ascii_digit())?;
        if self.peek() == Some(delimiter) {
            self.take_while(|c| c.is_ascii_digit() || c == delimiter)?;
            return Ok(Form::Date);
        }
        Ok(if delimiter == b'.' {
            Form::Number
        } else {
            Form::Date
        })
    }

    fn word(&mut self) -> Result<Form, Fault> {
        self.take_while(|c| c.is_ascii_alphabetic())?;
        let is_date = match self.peek() {
            Some(b'-' | b'/' | b'.') => true,
            // Behind a word of a date a number may begin at once; else this is a zone.
            Some(b'+' | b'0'..=b'9') => matches!(word(&self.field), None | Some(Word::Utc)),
            _ => false,
        };
        if !is_date {
            return Ok(Form::Word);
        }
        self.take_while(|c| c.is_ascii_alphanumeric() || b"+-/_.:".contains(&c))?;
        Ok(Form::Date)
    }

    fn signed(&mut self) -> Result<Form, Fault> {
        self.take()?;
        while self.next_is(|c| c.is_ascii_whitespace() || c == 0x0b) {
            self.rest = &self.rest[1..];
        }
        match self.peek() {
            Some(b'0'..=b'9') => {
                self.take_while(|c| c.is_ascii_digit() || b":.-".contains(&c))?;
                Ok(Form::Zone)
            }
            Some(c) if c.is_ascii_alphabetic() => {
                self.take_while(|c| c.is_ascii_alphabetic())?;
                Ok(Form::Special)
            }
            _ => Err(Fault::Format),
        }
    }
}
