//! The text of an array, as PostgreSQL's `array_in` reads and `array_out` writes it.

use std::iter::Peekable;
use std::str::Chars;

use zeroize::Zeroizing;

use super::{Array, Dimension, MAX_DIMENSIONS};
use crate::ClientError;

impl Array<Zeroizing<String>> {
    /// Reads `{a,"b c",NULL}`, with braces in braces for more dimensions, and `[0:1]=` before it
    /// for subscripts that do not begin at 1.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        let mut parser = Parser::new(text);
        parser.array().ok_or(ClientError::Array)
    }
}

impl<T> Array<T> {
    /// Returns the text that PostgreSQL shows.
    pub fn to_text(&self, show: impl Fn(&T) -> Zeroizing<String>) -> Zeroizing<String> {
        let mut out = Zeroizing::new(String::with_capacity(64));
        if self.dimensions.iter().any(|dimension| dimension.lower != 1) {
            for Dimension { length, lower } in &self.dimensions {
                let upper = i64::from(*lower) + i64::from(*length) - 1;
                out.push_str(&format!("[{lower}:{upper}]"));
            }
            out.push('=');
        }
        if self.items.is_empty() {
            out.push_str("{}");
            return out;
        }
        let mut items = self.items.iter();
        write(&self.dimensions, &mut items, &show, &mut out);
        out
    }
}

fn write<'a, T: 'a>(
    dimensions: &[Dimension],
    items: &mut impl Iterator<Item = &'a Option<T>>,
    show: &impl Fn(&T) -> Zeroizing<String>,
    out: &mut String,
) {
    let Some((first, inner)) = dimensions.split_first() else {
        match items.next() {
            Some(Some(item)) => write_item(&show(item), out),
            _ => out.push_str("NULL"),
        }
        return;
    };
    out.push('{');
    for place in 0..first.length {
        if place > 0 {
            out.push(',');
        }
        write(inner, items, show, out);
    }
    out.push('}');
}

/// Writes an element, in quotes where `array_out` quotes.
fn write_item(item: &str, out: &mut String) {
    let special = |c: char| matches!(c, '"' | '\\' | '{' | '}' | ',') || is_space(c);
    if !item.is_empty() && !item.eq_ignore_ascii_case("null") && !item.contains(special) {
        out.push_str(item);
        return;
    }
    out.push('"');
    for character in item.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

/// Whether PostgreSQL's `array_isspace` takes the character for space.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    size: usize,
    /// The length of the lists of each depth, once the first one has ended
    lengths: Vec<Option<i32>>,
    /// The depth of the elements, once one was met
    leaf: Option<usize>,
    items: Vec<Option<Zeroizing<String>>>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            rest: text.chars().peekable(),
            size: text.len(),
            lengths: Vec::new(),
            leaf: None,
            items: Vec::new(),
        }
    }

    fn array(&mut self) -> Option<Array<Zeroizing<String>>> {
        let lowers = self.lowers()?;
        self.list(0)?;
        self.spaces();
        if self.rest.next().is_some() {
            return None;
        }
        let items = std::mem::take(&mut self.items);
        let lengths: Option<Vec<i32>> = self.lengths.iter().copied().collect();
        let lengths = lengths.filter(|_| !items.is_empty()).unwrap_or_default();
        let dimension = |(place, length): (usize, i32)| match lowers.get(place) {
            None => Some(Dimension { length, lower: 1 }),
            Some((lower, upper)) => {
                let is_so = i64::from(*upper) - i64::from(*lower) + 1 == i64::from(length);
                is_so.then_some(Dimension {
                    length,
                    lower: *lower,
                })
            }
        };
        let count = lengths.len();
        let dimensions: Option<Vec<Dimension>> =
            lengths.into_iter().enumerate().map(dimension).collect();
        let fits = lowers.is_empty() || lowers.len() == count;
        Some(Array {
            dimensions: dimensions.filter(|_| fits)?,
            items,
        })
    }

    /// Reads `[l:u]` once for each dimension, and `=`; or nothing.
    fn lowers(&mut self) -> Option<Vec<(i32, i32)>> {
        let mut lowers = Vec::new();
        self.spaces();
        while self.take('[') {
            let lower = self.number(':')?;
            lowers.push((lower, self.number(']')?));
        }
        let has_sign = lowers.is_empty() || self.take('=');
        has_sign.then_some(lowers)
    }

    fn number(&mut self, end: char) -> Option<i32> {
        let mut digits = String::new();
        loop {
            match self.rest.next()? {
                character if character == end => return digits.parse().ok(),
                character => digits.push(character),
            }
        }
    }

    fn spaces(&mut self) {
        while self.rest.next_if(|c| is_space(*c)).is_some() {}
    }

    fn take(&mut self, character: char) -> bool {
        self.rest.next_if_eq(&character).is_some()
    }

    /// Reads `{…}` at this depth: lists or elements. All lists of one depth have one length.
    fn list(&mut self, depth: usize) -> Option<()> {
        self.spaces();
        if depth == MAX_DIMENSIONS || !self.take('{') {
            return None;
        }
        if self.lengths.len() == depth {
            self.lengths.push(None);
        }
        let mut length = 0;
        self.spaces();
        while !self.take('}') {
            if length > 0 && !self.take(',') {
                return None;
            }
            self.spaces();
            match self.rest.peek()? {
                '{' if self.leaf.is_none_or(|leaf| depth < leaf) => self.list(depth + 1)?,
                '{' => return None,
                _ if *self.leaf.get_or_insert(depth) != depth => return None,
                _ => self.item()?,
            }
            length += 1;
            self.spaces();
        }
        let known = self.lengths[depth].get_or_insert(length);
        // An empty list is an array only by itself.
        (*known == length && (length > 0 || self.lengths.len() == 1)).then_some(())
    }

    fn item(&mut self) -> Option<()> {
        // Large enough that it never moves.
        let mut item = Zeroizing::new(String::with_capacity(self.size));
        if self.take('"') {
            self.quoted(&mut item)?;
            self.items.push(Some(item));
            return Some(());
        }
        let (mut escaped, mut length) = (false, 0);
        while let Some(c) = self.rest.next_if(|c| !matches!(c, ',' | '{' | '}' | '"')) {
            let is_escape = c == '\\';
            escaped |= is_escape;
            item.push(if is_escape { self.rest.next()? } else { c });
            if is_escape || !is_space(c) {
                length = item.len();
            }
        }
        item.truncate(length);
        let is_null = !escaped && item.eq_ignore_ascii_case("null");
        let ended = !item.is_empty() && matches!(self.rest.peek(), Some(',' | '}'));
        self.items.push(Some(item).filter(|_| !is_null));
        ended.then_some(())
    }

    fn quoted(&mut self, item: &mut String) -> Option<()> {
        loop {
            match self.rest.next()? {
                '"' => return Some(()),
                '\\' => item.push(self.rest.next()?),
                character => item.push(character),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        let array = Array::parse(text).ok()?;
        Some(array.to_text(|item| item.clone()).to_string())
    }

    #[test]
    fn what_postgresql_reads() {
        for (text, shown) in [
            (" { a , b } ", "{a,b}"),
            ("{\"a,b\",\"c\\\"d\", \"\"}", "{\"a,b\",\"c\\\"d\",\"\"}"),
            ("{null,\"null\",NULL}", "{NULL,\"null\",NULL}"),
            ("{a\\,b}", "{\"a,b\"}"),
            ("{{1,2},{3,4}}", "{{1,2},{3,4}}"),
            ("[2:3][0:1]={{1,2},{3,4}}", "[2:3][0:1]={{1,2},{3,4}}"),
            ("[1:2]={1,2}", "{1,2}"),
            ("{}", "{}"),
            ("{a b }", "{\"a b\"}"),
            ("{a\\  }", "{\"a \"}"),
        ] {
            assert_eq!(read(text).as_deref(), Some(shown), "{text}");
        }
    }

    #[test]
    fn what_it_refuses() {
        for text in [
            "",
            "a",
            "{",
            "{a",
            "{a,}",
            "{,a}",
            "{a}b",
            "{a,{b}}",
            "{{a},b}",
            "{{a},{{b}}}",
            "{{a},{b,c}}",
            "{\"a}",
            "{a\"b\"}",
            "{{},{}}",
            "{{}}",
            "[1:3]={a,b}",
            "[1:2]{a,b}",
            "[1:1][1:1]={a}",
            "{a\\",
            "{{{{{{{a}}}}}}}",
            "{\"a\"b}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
