//! Settings of the server on which the reading of statements depends.
//!
//! The server reports them, late, and a server that is not honest does not. So a driver that has
//! once asked for other strings or another encoding is taken to have them up to its end.

use std::borrow::Cow;

use pgseal_client::Statement;

use crate::refusal::Refusal;

const STRINGS: &str = "standard_conforming_strings";
const ENCODING: &str = "client_encoding";
/// Words of statements that set the time zone or the style of intervals, or all settings
const SET_TIMES: [&str; 6] = [
    "timezone",
    "time zone",
    "intervalstyle",
    "reset",
    "discard",
    "rollback",
];

/// Words with which a statement begins that ends a transaction, and what it has set locally
const ENDS: [&str; 3] = ["commit", "end", "abort"];

/// Settings, as the server reports them and as the driver may have set them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    is_utf8: bool,
    /// Whether no byte of ASCII is a part of another character
    is_ascii_based: bool,
    standard_strings: bool,
    /// Whether the driver may have set another encoding
    doubts_utf8: bool,
    /// Whether it may have set one in which a byte of ASCII is a part of another character
    doubts_ascii: bool,
    /// Whether the driver may have set other strings
    doubts_strings: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            is_utf8: true,
            is_ascii_based: true,
            standard_strings: true,
            doubts_utf8: false,
            doubts_ascii: false,
            doubts_strings: false,
        }
    }
}

impl Settings {
    /// Notes a setting that the server reports.
    pub(crate) fn set(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"client_encoding" => {
                let value = String::from_utf8_lossy(value);
                self.is_utf8 = is_utf8(&value);
                self.is_ascii_based = is_ascii_based(&value);
            }
            b"standard_conforming_strings" => self.standard_strings = value == b"on",
            _ => {}
        }
    }

    /// Notes what a driver sets as it starts.
    pub(crate) fn start(&mut self, name: &str, value: &str) {
        match name {
            ENCODING => {
                self.doubts_utf8 |= !is_utf8(value);
                self.doubts_ascii |= !is_ascii_based(value);
            }
            STRINGS => self.doubts_strings |= !is_on(value),
            // Some are given as options of a command line.
            _ => {
                let has_encoding = contains(value.as_bytes(), ENCODING);
                self.doubts_utf8 |= has_encoding;
                self.doubts_ascii |= has_encoding;
                self.doubts_strings |= contains(value.as_bytes(), STRINGS);
            }
        }
    }

    /// Notes what the statements of a text may set, in which such a setting is mentioned.
    pub(super) fn doubt(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text).to_ascii_lowercase();
        for statement in text.split(';') {
            let words: Vec<&str> = statement
                .split(|c: char| c.is_whitespace() || c == '=')
                .filter(|word| !word.is_empty() && !matches!(*word, "to" | "session" | "local"))
                .collect();
            let keeps = |name: &str, is_it: fn(&str) -> bool| match words.as_slice() {
                ["show", shown] => *shown == name,
                ["set", set, value] => *set == name && is_it(value.trim_matches('\'')),
                _ => false,
            };
            let (has, names) = (
                |name: &str| statement.contains(name),
                words.get(1) == Some(&"names"),
            );
            self.doubts_strings |= has(STRINGS) && !keeps(STRINGS, is_on);
            let sets_names = names && words[0] == "set";
            self.doubts_utf8 |= has(ENCODING) && !keeps(ENCODING, is_utf8);
            self.doubts_utf8 |= sets_names && !keeps("names", is_utf8);
            self.doubts_ascii |= has(ENCODING) && !keeps(ENCODING, is_ascii_based);
            self.doubts_ascii |= sets_names && !keeps("names", is_ascii_based);
        }
    }

    /// Reads the text of statements. In another encoding than UTF-8, each byte beyond ASCII
    /// is read as one character, whichever it is: such a text must name nothing encrypted.
    pub(super) fn read(self, text: &[u8]) -> Result<(Cow<'_, str>, bool), Refusal> {
        let standard_strings = self.standard_strings && !self.doubts_strings;
        if !standard_strings && text.contains(&b'\\') {
            return Err(Refusal::Strings);
        }
        if self.is_certainly_utf8() || text.is_ascii() {
            let text = std::str::from_utf8(text).map_err(|_| Refusal::Encoding)?;
            return Ok((Cow::Borrowed(text), true));
        }
        let text: String = text.iter().map(|byte| char::from(*byte)).collect();
        let is_ascii_based = self.is_ascii_based && !self.doubts_ascii;
        match is_ascii_based && Statement::new(&text).has_ascii_names() {
            true => Ok((Cow::Owned(text), false)),
            false => Err(Refusal::Encoding),
        }
    }

    fn is_certainly_utf8(self) -> bool {
        self.is_utf8 && !self.doubts_utf8
    }

    /// Refuses text of columns in another encoding than UTF-8.
    pub(super) fn check_text(self, text: &[u8]) -> Result<(), Refusal> {
        match self.is_certainly_utf8() || text.is_ascii() {
            true => Ok(()),
            false => Err(Refusal::Encoding),
        }
    }

    /// Refuses text of columns for a driver that reads another encoding than UTF-8 now.
    pub(super) fn check_result(self, text: &[u8]) -> Result<(), Refusal> {
        match self.is_utf8 || text.is_ascii() {
            true => Ok(()),
            false => Err(Refusal::Encoding),
        }
    }

    /// Refuses rows in an encoding in whose characters a byte of ASCII may be a part.
    pub(super) fn check_rows(self) -> Result<(), Refusal> {
        match self.is_certainly_utf8() {
            true => Ok(()),
            false => Err(Refusal::Encoding),
        }
    }
}

fn is_on(value: &str) -> bool {
    ["on", "true", "yes", "1"]
        .iter()
        .any(|on| value.eq_ignore_ascii_case(on))
}

/// Whether an encoding is UTF-8. PostgreSQL, too, passes over all but letters and digits of its
/// name (`clean_encoding_name`): asyncpg sends quotes.
fn is_utf8(value: &str) -> bool {
    let name: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
    ["utf8", "unicode"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// Whether an encoding is one in which a byte of ASCII always is that character.
fn is_ascii_based(value: &str) -> bool {
    let name: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = name.to_ascii_lowercase();
    let families = [
        "latin",
        "iso8859",
        "win125",
        "windows125",
        "win866",
        "windows866",
        "win874",
        "windows874",
        "koi8",
        "euc",
    ];
    is_utf8(value) || name == "sqlascii" || families.iter().any(|it| name.starts_with(it))
}

/// The settings that a text mentions, in whatever letters and wherever it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mentioned {
    /// Some on which the reading of statements depends
    pub(super) has_reading: bool,
    /// The time zone or the style of intervals, which the server reports afterwards
    pub(super) has_times: bool,
}

impl Mentioned {
    /// Looks through a text.
    pub(super) fn in_text(text: &[u8]) -> Self {
        let mut found = Self::default();
        for (at, pair) in text.windows(2).enumerate() {
            // Nearly every place is passed over by its first two letters.
            if !matches!(
                pair[1] | 0x20,
                b't' | b'l' | b'a' | b'i' | b'e' | b'o' | b'n' | b'b'
            ) {
                continue;
            }
            let begins = |name: &&str| begins(&text[at..], name);
            let reading = match &[pair[0] | 0x20, pair[1] | 0x20] {
                b"st" => &[STRINGS][..],
                b"cl" => &[ENCODING],
                b"na" => &["names"],
                b"ti" | b"in" | b"re" | b"di" | b"ro" => &[],
                b"co" | b"en" | b"ab" => {
                    found.has_times |= begins_statement(text, at) && ENDS.iter().any(begins);
                    continue;
                }
                _ => continue,
            };
            found.has_reading |= reading.iter().any(begins);
            found.has_times |= reading.is_empty() && SET_TIMES.iter().any(begins);
        }
        found
    }
}

/// Whether a name is in a text, in letters of any size.
fn contains(text: &[u8], name: &str) -> bool {
    (0..text.len()).any(|at| begins(&text[at..], name))
}

/// Whether a statement begins at an offset, as far as signs tell.
fn begins_statement(text: &[u8], at: usize) -> bool {
    let before = text[..at].trim_ascii_end();
    before.last().is_none_or(|last| *last == b';')
}

/// Whether a text begins with a name, in letters of any size.
fn begins(text: &[u8], name: &str) -> bool {
    let head = text.get(..name.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(texts: &[&str]) -> Settings {
        let mut settings = Settings::default();
        let mentions = |text: &&&str| Mentioned::in_text(text.as_bytes()).has_reading;
        let doubted = texts.iter().filter(mentions);
        doubted.for_each(|text| settings.doubt(text.as_bytes()));
        settings
    }

    #[test]
    fn settings_are_found_wherever_they_are_mentioned() {
        for name in [STRINGS, ENCODING, "names"].into_iter().chain(SET_TIMES) {
            let is_of_times = SET_TIMES.contains(&name);
            let expected = Mentioned {
                has_reading: !is_of_times,
                has_times: is_of_times,
            };
            for text in [name.to_owned(), name.to_uppercase(), format!("x{name}x")] {
                let found = Mentioned::in_text(text.as_bytes());
                assert_eq!(found, expected, "{text}");
            }
            let short = &name.as_bytes()[..name.len() - 1];
            assert_eq!(Mentioned::in_text(short), Mentioned::default(), "{name}");
        }
    }

    #[test]
    fn the_end_of_a_transaction_takes_back_what_was_set_in_it() {
        let has_times = |text: &str| Mentioned::in_text(text.as_bytes()).has_times;
        for text in [
            "COMMIT",
            " end",
            "SELECT 1; Abort",
            "insert into u values (1);\nCOMMIT;",
        ] {
            assert!(has_times(text), "{text}");
        }
        for text in [
            "SELECT CASE WHEN a THEN b END",
            "SELECT * FROM commits",
            "UPDATE u SET about = 1",
        ] {
            assert!(!has_times(text), "{text}");
        }
    }

    #[test]
    fn what_may_change_how_strings_are_read_is_doubted_from_then_on() {
        for text in [
            "SET standard_conforming_strings = off",
            "set Standard_Conforming_Strings to off; set standard_conforming_strings to on",
            "SELECT set_config('standard_conforming_strings', 'off', false)",
            "SELECT 1; RESET standard_conforming_strings",
        ] {
            let settings = after(&[text, "SET standard_conforming_strings = on"]);
            assert!(settings.read(b"'it\\'s'").is_err(), "{text}");
            assert!(settings.read("'\u{e4}'".as_bytes()).is_ok(), "{text}");
        }
        for text in [
            "SET client_encoding TO 'SJIS'",
            "set names latin1",
            "SET SESSION NAMES 'LATIN1'",
            "UPDATE pg_settings SET setting = 'x' WHERE name = 'client_encoding'",
        ] {
            let settings = after(&[text, "SET client_encoding TO 'UTF8'"]);
            assert!(settings.read("\u{e4}".as_bytes()).is_err(), "{text}");
            assert!(settings.read(b"'it\\'s'").is_ok(), "{text}");
            assert!(settings.check_rows().is_err(), "{text}");
        }
    }

    #[test]
    fn text_of_one_byte_for_a_character_is_read_if_its_names_are_ascii() {
        let text = b"SELECT '\xe4\xff' -- \xdf";
        for set in [
            "SET client_encoding TO 'LATIN1'",
            "SET NAMES koi8",
            "SET NAMES 'WIN1252'",
        ] {
            let (read, is_certain) = after(&[set]).read(text).expect("it is read");
            assert_eq!(
                (&*read, is_certain),
                ("SELECT '\u{e4}\u{ff}' -- \u{df}", false)
            );
            assert!(after(&[set]).read(b"SELECT \xe4").is_err(), "{set}");
            assert!(after(&[set]).read(b"SELECT \"\xe4\"").is_err(), "{set}");
            assert!(after(&[set]).check_text(b"\xe4").is_err(), "{set}");
        }
        for set in [
            "SET client_encoding TO 'SJIS'",
            "SET client_encoding TO 'big5'; SET client_encoding TO 'LATIN1'",
            "SET NAMES gbk",
            "SELECT set_config('client_encoding', 'latin1', false)",
        ] {
            assert!(after(&[set]).read(text).is_err(), "{set}");
        }
        assert!(Settings::default().read(text).is_err());
        let mut settings = Settings::default();
        settings.set(b"client_encoding", b"LATIN1");
        assert!(settings.read(text).is_ok());
        settings.set(b"client_encoding", b"SHIFT_JIS_2004");
        assert!(settings.read(text).is_err());
        settings.set(b"client_encoding", b"UNICODE");
        assert!(settings
            .read("\u{e4}".as_bytes())
            .is_ok_and(|(_, is_certain)| is_certain));
    }

    #[test]
    fn what_drivers_send_as_they_connect_is_not_doubted() {
        let mut settings = after(&[
            "SET client_encoding TO 'UTF8'",
            "set session client_encoding='utf-8'; SET NAMES 'utf8'",
            "SET client_min_messages TO 'warning';SET standard_conforming_strings = on;",
            "show standard_conforming_strings",
            "SELECT names FROM u",
        ]);
        settings.start("client_encoding", "UTF8");
        settings.start("client_encoding", "'utf-8'");
        settings.start("options", "-c search_path=a");
        assert!(settings.read("'it\\'s \u{e4}'".as_bytes()).is_ok());
        settings.start("options", "-c standard_conforming_strings=off");
        assert!(settings.read("'\u{e4}'".as_bytes()).is_ok());
        assert!(settings.read(b"'it\\'s'").is_err());
    }
}
