//! Lines and fields of COPY's text and CSV formats, split as PostgreSQL splits them.

use super::Quotes;
use crate::refusal::Refusal;

/// A line: its fields as they are written, and what ends it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'b> {
    pub(super) fields: Vec<&'b [u8]>,
    pub(super) end: &'b [u8],
}

/// Splits bytes, which come in pieces of any size.
#[derive(Debug)]
pub(super) struct Lines {
    delimiter: u8,
    syntax: Syntax,
    buffer: Vec<u8>,
    /// The bytes of the buffer that were given
    given: usize,
    /// The bytes that were looked at
    seen: usize,
    /// The places where fields of the current line begin, behind its first byte
    starts: Vec<usize>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum Syntax {
    Text,
    Csv(Quotes),
}

/// The part of a line that the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A field, or the start of one
    Field,
    /// Behind a backslash of text, or an escape of CSV within quotes
    Escaped,
    /// Quotes of CSV
    Quoted,
    /// The line feed behind a carriage return, perhaps
    AfterReturn,
}

impl Lines {
    /// Splits text format.
    pub(super) fn text(delimiter: u8) -> Self {
        Self::new(delimiter, Syntax::Text)
    }

    /// Splits CSV.
    pub(super) fn csv(delimiter: u8, quotes: Quotes) -> Self {
        Self::new(delimiter, Syntax::Csv(quotes))
    }

    fn new(delimiter: u8, syntax: Syntax) -> Self {
        Self {
            delimiter,
            syntax,
            buffer: Vec::new(),
            given: 0,
            seen: 0,
            starts: Vec::new(),
            state: State::Field,
        }
    }

    /// Adds bytes as they came.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.given);
        self.seen -= self.given;
        self.starts.iter_mut().for_each(|at| *at -= self.given);
        self.given = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next line; at the end of the rows, one without an end of line too.
    pub(super) fn next(&mut self, is_end: bool) -> Result<Option<Line<'_>>, Refusal> {
        while let Some(&byte) = self.buffer.get(self.seen) {
            if self.state == State::AfterReturn {
                let end = self.seen + usize::from(byte == b'\n');
                return Ok(Some(self.line(self.seen - 1, end)));
            }
            self.seen += 1;
            if self.ends_line(byte) {
                return Ok(Some(self.line(self.seen - 1, self.seen)));
            }
        }
        match (is_end, self.state) {
            (false, _) => Ok(None),
            (true, _) if self.given == self.buffer.len() => Ok(None),
            (true, State::AfterReturn) => Ok(Some(self.line(self.seen - 1, self.seen))),
            (true, State::Field) => Ok(Some(self.line(self.seen, self.seen))),
            (true, _) => Err(Refusal::Copied("a field has no end")),
        }
    }

    /// Looks at a byte. Returns whether it ends the line.
    fn ends_line(&mut self, byte: u8) -> bool {
        let (state, is_line_feed) = match (self.state, self.syntax) {
            (State::Field, _) if byte == self.delimiter => {
                self.starts.push(self.seen);
                (State::Field, false)
            }
            (State::Field, _) if byte == b'\n' => (State::Field, true),
            (State::Field, _) if byte == b'\r' => (State::AfterReturn, false),
            (State::Field, Syntax::Text) if byte == b'\\' => (State::Escaped, false),
            (State::Field, Syntax::Csv(quotes)) if byte == quotes.quote => (State::Quoted, false),
            (State::Escaped, Syntax::Text) => (State::Field, false),
            (State::Escaped, Syntax::Csv(_)) => (State::Quoted, false),
            // Two quotes, where they are escapes too, leave the quotes and come back.
            (State::Quoted, Syntax::Csv(quotes)) if byte == quotes.quote => (State::Field, false),
            (State::Quoted, Syntax::Csv(quotes)) if byte == quotes.escape => {
                (State::Escaped, false)
            }
            (state, _) => (state, false),
        };
        self.state = state;
        is_line_feed
    }

    /// Gives the line whose fields end at `fields` and whose end of line ends at `end`.
    fn line(&mut self, fields: usize, end: usize) -> Line<'_> {
        let mut from = self.given;
        let mut split = Vec::with_capacity(self.starts.len() + 1);
        for start in self.starts.drain(..) {
            split.push(&self.buffer[from..start - 1]);
            from = start;
        }
        split.push(&self.buffer[from..fields]);
        (self.given, self.seen, self.state) = (end, end, State::Field);
        Line {
            fields: split,
            end: &self.buffer[fields..end],
        }
    }
}
