//! The tokens of an SQL statement, before anything of it is sent: which names it has, whether it
//! has literals, and where it ends.
//!
//! The module is pure. A parser is not needed for that, and a parser of other dialects would have
//! to be believed. These are the rules of PostgreSQL's own scanner (scan.l), and what is in doubt
//! counts as a literal and as every name. So a refusal may be unnecessary, and none is missing.

mod strings;

/// The length of the longest name, in bytes.
const MAX_NAME: usize = 63;

/// A token of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'s> {
    /// An unquoted name or key word, as written
    Word(&'s str),
    /// A quoted name, without its outer quotes
    Quoted(&'s str),
    /// A quoted name with escapes, or something that does not end: it may be any name
    Unknown,
    /// A string, of any kind
    Text,
    /// A number
    Number,
    /// `$1`
    Parameter,
    /// One other character
    Sign(char),
}

/// A statement, in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement<'s> {
    tokens: Vec<Token<'s>>,
    /// The offset at which each token begins
    starts: Vec<usize>,
}

impl<'s> Statement<'s> {
    /// Reads all of a text.
    pub fn new(text: &'s str) -> Self {
        let mut scanner = Scanner { text, at: 0 };
        let (starts, tokens) = std::iter::from_fn(|| scanner.token()).unzip();
        Self { tokens, starts }
    }

    /// Returns the tokens of a text one after another, each with its own text.
    pub fn scan(text: &'s str) -> impl Iterator<Item = (Token<'s>, &'s str)> {
        let mut scanner = Scanner { text, at: 0 };
        std::iter::from_fn(move || {
            let (start, token) = scanner.token()?;
            Some((token, &text[start..scanner.at]))
        })
    }

    /// Returns the statements of a text of several, as far as its signs tell them apart: those that
    /// [`Self::end`] finds. Their offsets are those of the whole text.
    pub fn split(&self) -> Vec<Self> {
        let mut depth = 0_usize;
        let ends = |token: &Token<'_>| {
            match token {
                Token::Sign('(') => depth += 1,
                Token::Sign(')') => depth = depth.saturating_sub(1),
                Token::Sign(';') if depth == 0 => return true,
                Token::Sign('\\') => {
                    depth = 0;
                    return true;
                }
                _ => {}
            }
            false
        };
        let mut at = 0;
        let parts = self.tokens.split(ends).map(|tokens| {
            let starts = self.starts[at..at + tokens.len()].to_vec();
            at += tokens.len() + 1;
            Self {
                tokens: tokens.to_vec(),
                starts,
            }
        });
        parts.collect()
    }

    /// Returns the key word that a text begins with. What follows it is not read.
    pub fn first_word_of(text: &'s str) -> Option<&'s str> {
        match (Scanner { text, at: 0 }).token()? {
            (_, Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Returns its tokens.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = Token<'s>> + '_ {
        self.tokens.iter().copied()
    }

    /// Returns the number of its parameters, each as often as it occurs.
    pub fn parameters(&self) -> usize {
        let is_one = |token: &Token<'_>| matches!(token, Token::Parameter);
        self.tokens().filter(is_one).count()
    }

    /// Returns all of its names and key words, as the catalog has them.
    pub fn names_in_order(&self) -> impl Iterator<Item = String> + '_ {
        self.tokens().filter_map(name_of)
    }

    /// Returns where the first of several statements ends: at a `;` outside of brackets, or at a
    /// backslash, which no statement has; none if neither comes.
    pub fn end(text: &str) -> Option<usize> {
        let mut scanner = Scanner { text, at: 0 };
        let mut depth = 0_usize;
        while let Some((start, token)) = scanner.token() {
            match token {
                Token::Sign('(') => depth += 1,
                Token::Sign(')') => depth = depth.saturating_sub(1),
                Token::Sign(';') if depth == 0 => return Some(start),
                Token::Sign('\\') => return Some(start),
                _ => {}
            }
        }
        None
    }

    /// Returns the offsets at which the tokens begin.
    pub(crate) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// Returns the key word that it begins with.
    pub fn first_word(&self) -> Option<&'s str> {
        match self.tokens.first() {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Whether it has nothing but space and comments.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Whether it has a name that the server may read as another one: what it folds and where it
    /// cuts depends on its encoding.
    pub fn has_doubtful_name(&self) -> bool {
        self.tokens().any(|token| match token {
            Token::Word(word) if word.chars().any(|c| !c.is_ascii() && c.is_uppercase()) => true,
            Token::Word(word) | Token::Quoted(word) => !word.is_ascii() && word.len() > MAX_NAME,
            _ => false,
        })
    }

    /// Whether all of its names and key words are in ASCII, and known.
    pub fn has_ascii_names(&self) -> bool {
        self.tokens().all(|token| match token {
            Token::Word(word) | Token::Quoted(word) => word.is_ascii(),
            token => token != Token::Unknown,
        })
    }

    /// Returns whether it has such a name or key word, as the catalog has it. What may be any name
    /// is none.
    pub fn has_name(&self, is_it: impl Fn(&str) -> bool) -> bool {
        self.tokens().any(|token| match token {
            Token::Word(word) => is_it(&Small::new(word)),
            token => name_of(token).is_some_and(|name| is_it(&name)),
        })
    }

    /// Returns whether it may have such a name. `is_it` gets each name in small letters, whether it
    /// has quotes or not, so it may be one that [`Self::names`] distinguishes; what may be any name
    /// is one.
    pub fn may_have_name(&self, is_it: impl Fn(&str) -> bool) -> bool {
        self.tokens().any(|token| match token {
            Token::Word(name) | Token::Quoted(name) if name.len() > MAX_NAME => true,
            Token::Word(name) if name.is_ascii() => is_it(&Small::new(name)),
            Token::Unknown => true,
            token => name_of(token).is_some_and(|name| is_it(&name.to_lowercase())),
        })
    }

    /// Whether this name occurs in it.
    pub fn names(&self, name: &str) -> bool {
        self.tokens().any(|token| is_name(token, name))
    }

    /// Returns a name that begins as those of encdb's types, of arrays of them and of their
    /// functions do.
    pub fn encrypted_type(&self) -> Option<String> {
        let begins = |name: &String| {
            let name = name.strip_prefix('_').unwrap_or(name);
            name.starts_with("enc_") || matches!(name, "det_type" | "rnd_type")
        };
        self.tokens().filter_map(name_of).find(begins)
    }

    /// Returns the key word of a statement that does not tell what its literals are for. That is
    /// in a body of code, in a statement that was prepared, or behind a procedure.
    pub fn runs_code(&self) -> Option<&'static str> {
        let has = |word: &str| self.tokens().any(|token| is_word(token, word));
        let begins = |word: &str| {
            self.first_word()
                .is_some_and(|it| it.eq_ignore_ascii_case(word))
        };
        let makes = |what: &str| begins("create") && has(what);
        match () {
            () if begins("do") => Some("DO"),
            () if makes("function") => Some("CREATE FUNCTION"),
            () if makes("procedure") => Some("CREATE PROCEDURE"),
            () if has("execute") => Some("EXECUTE"),
            () if has("call") => Some("CALL"),
            () => None,
        }
    }

    /// Whether this table's name occurs without its schema before it.
    pub(crate) fn names_bare(&self, schema: &str, table: &str) -> bool {
        let tokens = &self.tokens;
        let is_bare = |at: usize| match tokens.get(at.wrapping_sub(2)..at) {
            Some([before, Token::Sign('.')]) => {
                !is_name(*before, schema) || *before == Token::Unknown
            }
            _ => true,
        };
        tokens
            .iter()
            .enumerate()
            .any(|(at, token)| is_name(*token, table) && is_bare(at))
    }

    /// Whether it has a string, a boolean, or a number that does not follow LIMIT or OFFSET.
    pub fn has_literals(&self) -> bool {
        let mut before = None;
        self.tokens().any(|token| {
            let counts = matches!(before, Some(Token::Word(word))
                if word.eq_ignore_ascii_case("limit") || word.eq_ignore_ascii_case("offset"));
            before = Some(token);
            match token {
                Token::Text | Token::Unknown => true,
                Token::Number => !counts,
                token => is_word(token, "true") || is_word(token, "false"),
            }
        })
    }

    /// Returns the names of `a.b.c`, if it is nothing else; otherwise none.
    pub(crate) fn qualified_name(&self) -> Vec<String> {
        let tokens = &self.tokens;
        let name = |(at, token): (usize, &Token<'s>)| match (at % 2, token) {
            (0, token) => name_of(*token).map(Some),
            (_, Token::Sign('.')) => Some(None),
            _ => None,
        };
        let names: Option<Vec<Option<String>>> = tokens.iter().enumerate().map(name).collect();
        let names = names.filter(|_| tokens.len() % 2 == 1);
        names.unwrap_or_default().into_iter().flatten().collect()
    }
}

/// A name with its letters of ASCII in small ones, which needs no memory of its own while it is as
/// short as PostgreSQL's.
struct Small {
    short: [u8; MAX_NAME],
    length: usize,
    long: String,
}

impl Small {
    fn new(name: &str) -> Self {
        let mut small = Self {
            short: [0; MAX_NAME],
            length: name.len(),
            long: String::new(),
        };
        match small.short.get_mut(..name.len()) {
            Some(place) => {
                place.copy_from_slice(name.as_bytes());
                place.make_ascii_lowercase();
            }
            None => small.long = name.to_ascii_lowercase(),
        }
        small
    }
}

impl std::ops::Deref for Small {
    type Target = str;

    fn deref(&self) -> &str {
        let short = self.short.get(..self.length).map(std::str::from_utf8);
        short.and_then(Result::ok).unwrap_or(&self.long)
    }
}

/// Returns the name that a token is, as the catalog has it.
pub(crate) fn name_of(token: Token<'_>) -> Option<String> {
    match token {
        // PostgreSQL folds other letters in encodings of one byte only.
        Token::Word(word) => Some(word.to_ascii_lowercase()),
        Token::Quoted(name) => Some(name.replace("\"\"", "\"")),
        _ => None,
    }
}

/// Whether a token is this key word.
pub(crate) fn is_word(token: Token<'_>, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.eq_ignore_ascii_case(word))
}

fn is_name(token: Token<'_>, name: &str) -> bool {
    match token {
        // The server cuts it: what is left may be any name.
        Token::Word(word) | Token::Quoted(word) if word.len() > MAX_NAME => true,
        // What it folds beyond ASCII depends on its encoding.
        Token::Word(word) => word.to_lowercase() == name.to_lowercase(),
        Token::Unknown => true,
        token => name_of(token).is_some_and(|token| token == name),
    }
}

struct Scanner<'s> {
    text: &'s str,
    at: usize,
}

impl<'s> Scanner<'s> {
    fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    /// Returns the byte at an offset from here: signs of ASCII are no part of other characters.
    fn byte(&self, offset: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + offset).copied()
    }

    fn peek(&self) -> Option<char> {
        match self.byte(0)? {
            byte if byte.is_ascii() => Some(char::from(byte)),
            _ => self.rest().chars().next(),
        }
    }

    /// Steps over characters as long as `is` says so.
    fn skip(&mut self, is: impl Fn(char) -> bool) {
        while let Some(next) = self.peek().filter(|next| is(*next)) {
            self.at += next.len_utf8();
        }
    }

    fn token(&mut self) -> Option<(usize, Token<'s>)> {
        while self.byte(0).is_some_and(may_be_space) && self.space() {}
        let start = self.at;
        let first = self.peek()?;
        let token = match first {
            '\'' => self.text(false),
            '"' => self.name(false),
            '$' => self.dollar(),
            '0'..='9' => self.number(),
            '.' if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(),
            c if is_start(c) => self.word(),
            c => {
                self.at += c.len_utf8();
                Token::Sign(c)
            }
        };
        Some((start, token))
    }

    /// Skips space and comments that end with their line.
    fn lines(&mut self) {
        loop {
            self.skip(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c'));
            if !self.rest().starts_with("--") {
                return;
            }
            self.skip(|c| !matches!(c, '\n' | '\r'));
        }
    }

    /// Skips space and comments, which nest. Returns whether there was any.
    fn space(&mut self) -> bool {
        let start = self.at;
        self.skip(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c'));
        if self.rest().starts_with("--") {
            self.skip(|c| !matches!(c, '\n' | '\r'));
        }
        if self.rest().starts_with("/*") {
            self.comment();
        }
        self.at > start
    }

    fn comment(&mut self) {
        let mut depth = 0_usize;
        while let Some(next) = self.peek() {
            let step = match (self.rest().get(..2), depth) {
                (Some("/*"), _) => {
                    depth += 1;
                    2
                }
                (Some("*/"), _) => {
                    depth -= 1;
                    2
                }
                _ => next.len_utf8(),
            };
            self.at += step;
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips to the quote that is neither doubled nor escaped. Returns whether it came.
    fn quoted(&mut self, quote: u8, escapes: bool) -> bool {
        self.at += 1;
        while let Some(next) = self.byte(0) {
            self.at += 1;
            match next {
                b'\\' if escapes => self.at += self.peek().map_or(0, char::len_utf8),
                next if next == quote && self.byte(0) == Some(quote) => self.at += 1,
                next if next == quote => return true,
                _ => {}
            }
        }
        false
    }

    /// Reads a string. One that goes on behind a new line keeps its escapes.
    fn text(&mut self, escapes: bool) -> Token<'s> {
        loop {
            let ends = self.quoted(b'\'', escapes);
            let end = self.at;
            self.lines();
            let goes_on = self.text[end..self.at].contains(['\n', '\r']) && ends;
            if !goes_on || self.peek() != Some('\'') {
                self.at = end;
                return Token::Text;
            }
        }
    }

    fn name(&mut self, escapes: bool) -> Token<'s> {
        let start = self.at + 1;
        match self.quoted(b'"', false) && !escapes {
            true => Token::Quoted(&self.text[start..self.at - 1]),
            false => Token::Unknown,
        }
    }

    /// Reads `$1`, `$$…$$`, `$tag$…$tag$`, or a sign.
    fn dollar(&mut self) -> Token<'s> {
        let start = self.at;
        self.at += 1;
        if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.skip(is_part);
            return Token::Parameter;
        }
        let is_tag = self.peek().is_some_and(|c| is_start(c) || c == '$');
        self.skip(|c| is_part(c) && c != '$');
        if !is_tag || self.peek() != Some('$') {
            self.at = start + 1;
            return Token::Sign('$');
        }
        self.at += 1;
        let tag = &self.text[start..self.at];
        let end = self.rest().find(tag).map(|end| end + tag.len());
        self.at += end.unwrap_or(self.rest().len());
        Token::Text
    }

    /// Reads a number, with a sign in its exponent and whatever letters follow: `1e-5`, `0x1F`,
    /// `1_000`.
    fn number(&mut self) -> Token<'s> {
        let start = self.at;
        loop {
            self.skip(|c| is_part(c) || c == '.');
            let exponent = self.text[..self.at].ends_with(['e', 'E']);
            let sign = self.peek().is_some_and(|c| matches!(c, '+' | '-'));
            // Where every digit may be a letter, there is no exponent.
            let is_decimal = self.text[start..self.at].bytes().all(|digit| {
                matches!(digit, b'0'..=b'9' | b'.' | b'_' | b'e' | b'E' | b'+' | b'-')
            });
            if !exponent || !sign || !is_decimal {
                return Token::Number;
            }
            self.at += 1;
        }
    }

    /// Reads a name, or a string with letters before it: `E'…'`, `B'…'`, `X'…'`, `N'…'`, `U&'…'`,
    /// `U&"…"`.
    fn word(&mut self) -> Token<'s> {
        let start = self.at;
        self.skip(is_part);
        let word = &self.text[start..self.at];
        let is = |letters: &str| word.eq_ignore_ascii_case(letters);
        let unicode = is("u") && self.rest().starts_with('&');
        if unicode && self.rest()[1..].starts_with(['\'', '"']) {
            self.at += 1;
            return match self.peek() {
                Some('"') => self.name(true),
                _ => self.text(false),
            };
        }
        let before_text = ["e", "b", "x", "n"].into_iter().any(is);
        match before_text && self.peek() == Some('\'') {
            true => self.text(is("e")),
            false => Token::Word(word),
        }
    }
}

/// Whether space or a comment may begin with a byte.
fn may_be_space(byte: u8) -> bool {
    byte <= b' ' || matches!(byte, b'-' | b'/')
}

fn is_start(c: char) -> bool {
    c == '_' || c.is_ascii_alphabetic() || !c.is_ascii()
}

fn is_part(c: char) -> bool {
    is_start(c) || c.is_ascii_digit() || c == '$'
}

#[cfg(test)]
mod tests;
