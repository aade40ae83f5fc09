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
pub(crate) enum Token<'s> {
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

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Steps over characters as long as `is` says so.
    fn skip(&mut self, is: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !is(c)).unwrap_or(rest.len());
    }

    fn token(&mut self) -> Option<(usize, Token<'s>)> {
        while self.space() {}
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
    fn quoted(&mut self, quote: char, escapes: bool) -> bool {
        self.at += 1;
        while let Some(next) = self.peek() {
            self.at += next.len_utf8();
            match next {
                '\\' if escapes => self.at += self.peek().map_or(0, char::len_utf8),
                next if next == quote && self.peek() == Some(quote) => self.at += 1,
                next if next == quote => return true,
                _ => {}
            }
        }
        false
    }

    /// Reads a string. One that goes on behind a new line keeps its escapes.
    fn text(&mut self, escapes: bool) -> Token<'s> {
        loop {
            let ends = self.quoted('\'', escapes);
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
        match self.quoted('"', false) && !escapes {
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

fn is_start(c: char) -> bool {
    c == '_' || c.is_ascii_alphabetic() || !c.is_ascii()
}

fn is_part(c: char) -> bool {
    is_start(c) || c.is_ascii_digit() || c == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        Statement::new(text).tokens().collect()
    }

    #[test]
    fn strings_of_every_kind_are_literals() {
        for text in [
            "'a'",
            "''",
            "'it''s'",
            "E'a\\'b'",
            "e'\\\\'",
            "U&'\\0061'",
            "u&'a'",
            "B'01'",
            "x'1F'",
            "N'a'",
            "$$a$$",
            "$tag$ a $$ 'b' $tag$",
            "$ä$x$ä$",
            "'open",
            "$$open",
            "E'open\\'",
        ] {
            assert_eq!(tokens(text), [Token::Text], "{text}");
        }
        for text in ["1", "1.5", ".5", "1e-5", "1E+5", "0x1F", "1_000", "1."] {
            assert_eq!(tokens(text), [Token::Number], "{text}");
        }
    }

    #[test]
    fn a_string_goes_on_behind_a_new_line() {
        for text in [
            "E'a'\n'b\\'c'",
            "E'a' \t\r 'b\\' FROM person'",
            "'a'\n  'b'\n'c'",
            "E'a' -- it's\n'b\\''",
        ] {
            assert_eq!(tokens(text), [Token::Text], "{text}");
        }
        assert_eq!(tokens("'a' 'b'"), [Token::Text, Token::Text]);
        assert_eq!(tokens("E'a'\n"), [Token::Text]);
        assert_eq!(tokens("E'a' /* \n */ 'b'").len(), 2);
        let shown = "SELECT E'a'\n'b\\'', 1 FROM person WHERE name = 'c'";
        assert!(Statement::new(shown).names("person"));
    }

    #[test]
    fn hexadecimal_numbers_have_no_exponent() {
        assert!(Statement::new("SELECT 0x1e-store(1)").names("store"));
        assert!(Statement::new("SELECT 0X1E+store(1)").names("store"));
        assert_eq!(tokens("1_0e-5"), [Token::Number]);
        assert_eq!(tokens(".5E+3"), [Token::Number]);
    }

    #[test]
    fn names_that_depend_on_the_encoding_are_doubtful() {
        let doubtful = |text| Statement::new(text).has_doubtful_name();
        let long = "\u{e9}".repeat(40);
        let long = format!("SELECT \"{long}\"");
        assert!(doubtful("SELECT 1 FROM K\u{c4}UFER") && doubtful(&long));
        for text in [
            "SELECT \"K\u{c4}UFER\", k\u{e4}ufer, '\u{c4}'",
            &"a".repeat(70),
        ] {
            assert!(!doubtful(text), "{text}");
        }
    }

    #[test]
    fn names_comments_and_signs_are_none() {
        for text in [
            "SELECT c FROM t WHERE c = $1",
            "-- 'a'\nSELECT c",
            "/* 'a' /* 1 */ 2 */ c",
            "\"it's 1\"",
            "a$1",
            "t1",
            "SELECT c::enc_text[] FROM \"a\"\"b\"",
            "a $ b",
            "SELECT c LIMIT 10 OFFSET 5",
            "e",
            "u & v",
        ] {
            assert!(!Statement::new(text).has_literals(), "{text}");
        }
        for text in [
            "c = 'a'",
            "c=E'a'",
            "c -- x\n = 1",
            "c/**/=/**/$$x$$",
            "LIMIT 'a'",
            "LIMIT -1",
            "c = -1",
            "a-1",
            "U&\"c\"",
            "\"open",
            "b = true",
            "b IS NOT False",
        ] {
            assert!(Statement::new(text).has_literals(), "{text}");
        }
        assert!(!Statement::new("SELECT \"true\"").has_literals());
        assert_eq!(tokens("a--b"), [Token::Word("a")]);
        assert_eq!(tokens(" /* c */ -- d"), []);
    }

    #[test]
    fn statements_that_run_code_are_told() {
        for (text, word) in [
            ("do $$ x $$", Some("DO")),
            (
                "CREATE OR REPLACE function f() AS 'x'",
                Some("CREATE FUNCTION"),
            ),
            ("CREATE PROCEDURE f() AS 'x'", Some("CREATE PROCEDURE")),
            ("Explain Execute q(1)", Some("EXECUTE")),
            ("CALL p(1)", Some("CALL")),
            ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", None),
            ("SELECT \"call\", 'execute' FROM t", None),
        ] {
            assert_eq!(Statement::new(text).runs_code(), word, "{text}");
        }
    }

    #[test]
    fn names_are_folded_as_postgresql_folds_them() {
        let names = |text, name| Statement::new(text).names(name);
        assert!(names("SELECT * FROM Test1", "test1") && names("\"Test1\"", "Test1"));
        assert!(
            !names("\"Test1\"", "test1") && !names("'test1'", "test1") && !names("test12", "test1")
        );
        assert!(names("U&\"te\\0073t1\"", "test1") && names("\"a\"\"b\"", "a\"b"));
        let cut = "t".repeat(64);
        assert!(Statement::new(&cut).names("test1"));
        assert!(names("SELECT ÄB", "Äb") && names("SELECT ÄB", "äb"));
    }

    #[test]
    fn a_schema_before_a_table_is_seen() {
        let bare = |text| Statement::new(text).names_bare("s", "t");
        assert!(!bare("SELECT c FROM s.t") && !bare("S . \"t\"") && !bare("other"));
        assert!(bare("FROM t") && bare("FROM o.t") && bare("s.t, t") && bare("t.c FROM s.t"));
        assert!(bare("U&\"s\".t"));
    }

    #[test]
    fn statements_end_outside_of_strings_and_brackets() {
        let end = |text: &str| Statement::end(text).map(|end| text[..end].to_owned());
        for (text, first) in [
            ("a; b", "a"),
            (
                "a ';' \";\" $$;$$ /*;*/ --;\n(;) ; b",
                "a ';' \";\" $$;$$ /*;*/ --;\n(;) ",
            ),
            ("a \\bind 1;", "a "),
        ] {
            assert_eq!(end(text).as_deref(), Some(first), "{text}");
        }
        assert_eq!(end("a"), None);
        assert!(Statement::new(" -- a").is_empty());
    }

    #[test]
    fn qualified_names_are_that_and_nothing_else() {
        let names = |text| Statement::new(text).qualified_name().join("|");
        assert_eq!(names("A.\"b C\" . d"), "a|b C|d");
        for text in ["a b", "a.", ".a", "a..b", "a.1", "", "a.b;"] {
            assert_eq!(names(text), "", "{text}");
        }
    }
}
