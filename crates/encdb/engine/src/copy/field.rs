//! Fields of COPY's text and CSV formats: the value that a field means, and how it is written.

use super::split::Line;
use super::{Converter, CopyColumn, CopyFormat, CopyPlan, Direction, Header, Marks, Quotes};
use crate::catalog::Cells;
use crate::refusal::Refusal;
use crate::values::{self, TEXT};

/// The line that ends the rows of a text format before their end.
const END_OF_ROWS: &[u8] = b"\\.";

/// Appends a line with its cells sealed or opened. Fields of plain columns stay as they are.
pub(super) fn convert(
    line: &Line<'_>,
    is_first: bool,
    plan: &CopyPlan,
    by: &Converter,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let syntax = match &plan.format {
        CopyFormat::Text(marks) => Syntax::Text(marks),
        CopyFormat::Csv(marks, quotes) => Syntax::Csv(marks, *quotes),
        CopyFormat::Binary => return Err(Refusal::Copied("a line in binary format")),
    };
    let marks = syntax.marks();
    let header = match (is_first, by.direction) {
        (true, Direction::ToServer) => marks.header,
        (true, Direction::ToDriver) if marks.header != Header::None => {
            out.extend_from_slice(&line.fields.join(&marks.delimiter));
            out.extend_from_slice(line.end);
            return Ok(());
        }
        _ => Header::None,
    };
    if line.fields == [END_OF_ROWS] {
        out.extend_from_slice(END_OF_ROWS);
    } else if line.fields.len() != plan.columns.len() {
        return Err(Refusal::Copied("a row has not as many fields as columns"));
    } else {
        for (at, (field, column)) in line.fields.iter().zip(&plan.columns).enumerate() {
            if at > 0 {
                out.push(marks.delimiter);
            }
            match (&column.cells, header) {
                (None, _) => out.extend_from_slice(field),
                (Some(_), Header::None) => syntax.value(field, column, by, out)?,
                (Some(_), header) => syntax.name(field, column, header, out)?,
            }
        }
    }
    out.extend_from_slice(line.end);
    Ok(())
}

/// How fields are written.
enum Syntax<'p> {
    Text(&'p Marks),
    Csv(&'p Marks, Quotes),
}

impl Syntax<'_> {
    fn marks(&self) -> &Marks {
        match self {
            Self::Text(marks) | Self::Csv(marks, _) => marks,
        }
    }

    /// Appends the field of an encrypted column.
    fn value(
        &self,
        field: &[u8],
        column: &CopyColumn,
        by: &Converter,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let cells = column.cells.as_ref().filter(|cells| !cells.is_mixed);
        match cells.filter(|_| field != self.marks().null) {
            None => out.extend_from_slice(field),
            Some(cells) => {
                let value = converted(&self.read(field)?, cells, by)?;
                match self.wants_quotes(field, &value, by.direction) {
                    true => self.write(&value, out),
                    false => out.extend_from_slice(&value),
                }
            }
        }
        Ok(())
    }

    /// Appends the name of an encrypted column. What is in its place may be a value, if the
    /// rows have no names.
    fn name(
        &self,
        field: &[u8],
        column: &CopyColumn,
        header: Header,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let name = column.name.as_bytes();
        if header == Header::Match && self.read(field)? != name {
            return Err(Refusal::Copied(
                "the names in the first row are not the columns'",
            ));
        }
        self.write(name, out);
        Ok(())
    }

    /// Returns the value that a field means.
    fn read(&self, field: &[u8]) -> Result<Vec<u8>, Refusal> {
        match self {
            Self::Text(_) => unescaped(field),
            Self::Csv(_, quotes) => Ok(unquoted(field, *quotes)),
        }
    }

    /// Whether a value needs what [`Syntax::write`] puts around it. A driver gets quotes where
    /// PostgreSQL would write them.
    fn wants_quotes(&self, field: &[u8], value: &[u8], direction: Direction) -> bool {
        let Self::Csv(marks, Quotes { quote, .. }) = self else {
            return true;
        };
        let is_special = |it: &u8| [*quote, marks.delimiter, b'\n', b'\r'].contains(it);
        direction == Direction::ToServer
            || field.first() == Some(quote)
            || value == marks.null
            || value == END_OF_ROWS
            || value.iter().any(is_special)
    }

    /// Appends a value as a field.
    fn write(&self, value: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Text(marks) => escape(value, marks.delimiter, out),
            Self::Csv(_, quotes) => quote(value, *quotes, out),
        }
    }
}

fn converted(value: &[u8], cells: &Cells, by: &Converter) -> Result<Vec<u8>, Refusal> {
    match by.direction {
        Direction::ToDriver => values::opened(value, (TEXT, TEXT), cells, &*by.keys),
        Direction::ToServer => {
            let seal = |value: &_| by.keys.seal(&cells.keyname, value);
            Ok(values::sealed_text(
                values::text(value)?,
                cells,
                None,
                (&|| by.keys.times(), seal),
            )?
            .into_bytes())
        }
    }
}

/// Reads a field of text format.
fn unescaped(field: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut value = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'\\' {
            value.push(byte);
            continue;
        }
        let Some((&escaped, behind)) = rest.split_first() else {
            value.push(byte); // PostgreSQL takes a backslash at the end as it is.
            continue;
        };
        rest = behind;
        value.push(match escaped {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'0'..=b'7' => number(u32::from(escaped - b'0'), 8, 2, &mut rest),
            b'x' if rest.first().is_some_and(u8::is_ascii_hexdigit) => number(0, 16, 2, &mut rest),
            b'.' => return Err(Refusal::Copied("an end-of-copy marker is in a field")),
            other => other,
        });
    }
    Ok(value)
}

/// Reads at most `digits` further digits of a byte's number, as `strtol` of a C string would: what
/// is beyond a byte is cut off.
fn number(mut number: u32, radix: u32, digits: usize, rest: &mut &[u8]) -> u8 {
    for _ in 0..digits {
        let digit = rest.first().and_then(|it| char::from(*it).to_digit(radix));
        let Some(digit) = digit else { break };
        number = number * radix + digit;
        *rest = &rest[1..];
    }
    number.to_le_bytes()[0]
}

/// Appends a value as a field of text format.
fn escape(value: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    for &byte in value {
        let escaped = match byte {
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            b'\\' => b'\\',
            byte if byte == delimiter => byte,
            byte => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escaped]);
    }
}

/// Reads a field of CSV, which may have quotes anywhere.
fn unquoted(field: &[u8], quotes: Quotes) -> Vec<u8> {
    let mut value = Vec::with_capacity(field.len());
    let (mut is_quoted, mut bytes) = (false, field.iter().copied().peekable());
    while let Some(byte) = bytes.next() {
        let is_special = |it: &u8| *it == quotes.quote || *it == quotes.escape;
        if is_quoted && byte == quotes.escape {
            if let Some(next) = bytes.next_if(is_special) {
                value.push(next);
                continue;
            }
        }
        match byte == quotes.quote {
            true => is_quoted = !is_quoted,
            false => value.push(byte),
        }
    }
    value
}

/// Appends a value as a field of CSV. It always has quotes, and so is never NULL.
fn quote(value: &[u8], quotes: Quotes, out: &mut Vec<u8>) {
    out.push(quotes.quote);
    for &byte in value {
        if byte == quotes.quote || byte == quotes.escape {
            out.push(quotes.escape);
        }
        out.push(byte);
    }
    out.push(quotes.quote);
}
