//! COPY between a server and a client that seals and opens: which statement is one, and the fields
//! of its text format. The module is pure.

use zeroize::Zeroizing;

use crate::array::Array;
use crate::column::{Encrypted, Shape};
use crate::hex::{from_hex, to_hex};
use crate::statement::{is_word, name_of, Statement, Token};
use crate::{ClientError, KeyRing, Type, Value};

/// The text that means NULL.
const NULL: &str = "\\N";

/// A COPY from or to the client, in text format.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Copy<'s> {
    /// Reads standard input into a table, or into these columns of it
    In(Vec<String>, Option<Vec<String>>),
    /// Writes a table, or these columns of it, to standard output
    Table(Vec<String>, Option<Vec<String>>),
    /// Writes the rows of this query to standard output
    Query(&'s str),
}

impl<'s> Copy<'s> {
    /// Parses a statement that begins with COPY. A form that is not understood is an error.
    pub(crate) fn read(sql: &'s str) -> Result<Self, ClientError> {
        let sql = sql.trim_end().trim_end_matches(';');
        let statement = Statement::new(sql);
        let tokens: Vec<Token<'s>> = statement.tokens().collect();
        let (middle, end) = tokens
            .get(1..)
            .and_then(|rest| rest.split_last_chunk::<2>())
            .ok_or(ClientError::Copy)?;
        let goes_in = is_word(end[0], "from") && is_word(end[1], "stdin");
        let goes_out = is_word(end[0], "to") && is_word(end[1], "stdout");
        match (middle, goes_in, goes_out) {
            ([Token::Sign('('), .., Token::Sign(')')], false, true) => {
                let starts = statement.starts();
                let (from, to) = (starts[1] + 1, starts[middle.len()]);
                Ok(Self::Query(&sql[from..to]))
            }
            (_, true, false) => table(middle).map(|(names, columns)| Self::In(names, columns)),
            (_, false, true) => table(middle).map(|(names, columns)| Self::Table(names, columns)),
            _ => Err(ClientError::Copy),
        }
    }
}

/// Reads the names of the table and of the columns from `a.b (c, d)`.
fn table(tokens: &[Token<'_>]) -> Result<(Vec<String>, Option<Vec<String>>), ClientError> {
    let bracket = tokens.iter().position(|token| *token == Token::Sign('('));
    let (head, columns) = tokens.split_at(bracket.unwrap_or(tokens.len()));
    let names = listed(head, '.').ok_or(ClientError::Copy)?;
    match columns {
        [] => Ok((names, None)),
        [Token::Sign('('), columns @ .., Token::Sign(')')] => {
            Ok((names, Some(listed(columns, ',').ok_or(ClientError::Copy)?)))
        }
        _ => Err(ClientError::Copy),
    }
}

/// Reads names with this sign between them.
fn listed(tokens: &[Token<'_>], sign: char) -> Option<Vec<String>> {
    let parts = tokens.split(|token| *token == Token::Sign(sign));
    let name = |part: &[Token<'_>]| match part {
        [only] => name_of(*only),
        _ => None,
    };
    parts.map(name).collect()
}

/// Returns a table or columns as a statement needs them. All are quoted: unquoted, `user` is a
/// function, and `order` ends the list.
pub(crate) fn joined(names: &[String], between: &str) -> String {
    let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let names: Vec<String> = names.iter().map(quoted).collect();
    names.join(between)
}

/// The column that a field goes to.
pub(crate) struct Place<'a> {
    /// The column's number, from 1 on
    pub(crate) number: usize,
    pub(crate) shape: Shape,
    pub(crate) keyname: &'a str,
    /// Whether the caller says that the fields are no secret
    pub(crate) is_plain: bool,
    /// The type of the values, where the column takes values of all types
    pub(crate) ty: Option<Type>,
}

impl Place<'_> {
    /// Appends a field as it goes to the server: sealed, or refused.
    pub(crate) fn seal(
        &self,
        field: &str,
        keys: &KeyRing,
        out: &mut String,
    ) -> Result<(), ClientError> {
        if field == NULL {
            out.push_str(NULL);
            return Ok(());
        }
        let seal = |of, text: &Zeroizing<String>| self.cell(of, text, keys);
        match (self.shape, self.is_plain) {
            (Shape::Mixed, _) => return Err(ClientError::ParameterMixed(self.number)),
            (Shape::Plain, true) => out.push_str(field),
            (Shape::Plain, false) => return Err(ClientError::NotEncrypted(self.number)),
            (_, true) => return Err(ClientError::NotPlain(self.number)),
            (Shape::Cell(of), _) => escape(&seal(of, &unescaped(field)?)?, out),
            (Shape::Cells(of, _), _) => {
                let array = Array::parse(&unescaped(field)?)?.map(|item| seal(of, item))?;
                escape(&array.to_text(Clone::clone), out);
            }
        }
        Ok(())
    }

    fn cell(
        &self,
        of: Encrypted,
        text: &str,
        keys: &KeyRing,
    ) -> Result<Zeroizing<String>, ClientError> {
        let ty = match of {
            Encrypted::Of(ty) => ty,
            Encrypted::Any => self.ty.ok_or(ClientError::WhichType(self.number))?,
        };
        let mut cell = Vec::with_capacity(64);
        keys.seal(self.keyname, &Value::parse(ty, text)?, &mut cell)?;
        Ok(Zeroizing::new(format!("\\x{}", to_hex(&cell))))
    }
}

/// Appends a field that came from the server: cells are opened.
pub(crate) fn open(
    field: &str,
    shape: Shape,
    keys: &KeyRing,
    out: &mut Zeroizing<String>,
) -> Result<(), ClientError> {
    if field == NULL || shape == Shape::Plain {
        out.push_str(field);
        return Ok(());
    }
    let value = |of, text: &str| -> Result<Zeroizing<String>, ClientError> {
        let cell = text.strip_prefix("\\x").and_then(from_hex);
        let cell = cell.ok_or(ClientError::Cell(pgseal_cell::CellError::Malformed))?;
        let value = match of {
            Encrypted::Of(ty) => keys.open_as(ty, &cell)?,
            Encrypted::Any => keys.open(&cell)?,
        };
        Ok(Zeroizing::new(value.to_text()))
    };
    let text = unescaped(field)?;
    match shape {
        Shape::Cell(of) => escape(&value(of, &text)?, out),
        Shape::Cells(of, _) => {
            let array = Array::parse(&text)?.map(|item| value(of, item))?;
            escape(&array.to_text(Clone::clone), out);
        }
        Shape::Plain | Shape::Mixed => return Err(ClientError::Copy),
    }
    Ok(())
}

/// Reads a field as COPY does, with the escapes that COPY writes.
fn unescaped(field: &str) -> Result<Zeroizing<String>, ClientError> {
    let mut text = Zeroizing::new(String::with_capacity(field.len()));
    let mut rest = field.chars();
    while let Some(character) = rest.next() {
        let plain = match (character, character == '\\') {
            (_, true) => match rest.next().ok_or(ClientError::CopyEscape)? {
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\x0b',
                // A number of a character is nothing that COPY writes.
                'x' | '0'..='9' => return Err(ClientError::CopyEscape),
                other => other,
            },
            (character, false) => character,
        };
        text.push(plain);
    }
    Ok(text)
}

fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, NewKey};

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_is_asked_for_is_read_or_refused() {
        let read = |sql: &'static str| Copy::read(sql).ok();
        let t = names(&["s", "T"]);
        assert_eq!(
            read("COPY S.\"T\" (a, B) FROM stdin"),
            Some(Copy::In(t.clone(), Some(names(&["a", "b"]))))
        );
        assert_eq!(read("copy s.\"T\" to STDOUT; "), Some(Copy::Table(t, None)));
        assert_eq!(
            read("COPY ( SELECT f(')') ) TO STDOUT"),
            Some(Copy::Query(" SELECT f(')') "))
        );
        for sql in [
            "COPY",
            "COPY t",
            "COPY t FROM 'file'",
            "COPY t TO STDOUT (FORMAT binary)",
            "COPY t FROM STDIN WITH CSV",
            "COPY t FROM STDOUT",
            "COPY t FROM PROGRAM 'x'",
            "COPY t (a b) FROM STDIN",
            "COPY t (a FROM STDIN",
            "COPY (SELECT 1) FROM STDIN",
            "COPY t FROM STDIN WHERE a",
            "COPY FROM STDIN",
        ] {
            assert_eq!(read(sql), None, "{sql}");
        }
    }

    fn keys() -> KeyRing {
        let identity = Identity::for_tests(1);
        let key = NewKey {
            name: "k",
            group: 0,
            deterministic: false,
        };
        let wrapped = key.generate(&identity).expect("random bytes");
        let mut keys = KeyRing::new();
        assert!(keys.take(&identity, "k", &wrapped));
        keys
    }

    fn place(shape: Shape, is_plain: bool) -> Place<'static> {
        Place {
            number: 1,
            shape,
            keyname: "k",
            is_plain,
            ty: None,
        }
    }

    #[test]
    fn fields_are_sealed_and_opened() {
        let (keys, of) = (keys(), Encrypted::Of(Type::Text));
        for (shape, field) in [
            (Shape::Cell(of), "a\\tb\\\\c"),
            (Shape::Cell(of), ""),
            (Shape::Cell(of), "\\N"),
            (Shape::Cells(of, 1), "{secret,NULL,\"a\\\\\\\\b\"}"),
        ] {
            let (mut sent, mut shown) = (String::new(), Zeroizing::new(String::new()));
            place(shape, false)
                .seal(field, &keys, &mut sent)
                .expect("it fits");
            assert!(sent == NULL || sent.contains("\\\\x"), "{sent}");
            assert!(!sent.contains("secret") && !sent.contains(['\t', '\n']));
            open(&sent, shape, &keys, &mut shown).expect("it was sealed so");
            assert_eq!(*shown, field);
        }
    }

    #[test]
    fn nothing_goes_in_clear_unless_it_is_called_plain() {
        let (keys, mut out) = (keys(), String::new());
        let mut seal = |shape, is_plain| place(shape, is_plain).seal("x", &keys, &mut out);
        let refused = seal(Shape::Plain, false);
        assert!(matches!(refused, Err(ClientError::NotEncrypted(1))));
        assert!(matches!(
            seal(Shape::Mixed, true),
            Err(ClientError::ParameterMixed(1))
        ));
        let cell = Shape::Cell(Encrypted::Of(Type::Text));
        assert!(matches!(seal(cell, true), Err(ClientError::NotPlain(1))));
        let any = Shape::Cell(Encrypted::Any);
        assert!(matches!(seal(any, false), Err(ClientError::WhichType(1))));
        assert!(seal(Shape::Plain, true).is_ok());
        assert_eq!(out, "x");
    }

    #[test]
    fn escapes_that_copy_does_not_write_are_refused() {
        for field in ["a\\", "\\x41", "\\101"] {
            assert!(matches!(unescaped(field), Err(ClientError::CopyEscape)));
        }
    }
}
