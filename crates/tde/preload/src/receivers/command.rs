//! Replication commands, as the walsender's grammar reads them (repl_scanner.l, repl_gram.y of 15
//! to 18), and what each kind of session may run. Pure.
//!
//! The server has parsed a command before it shows it to anybody, so text that its grammar does
//! not know never gets here; keywords are in capitals, and there are no comments.

use crate::process::Connection;

/// Why a command is not run, as one sentence to its sender.
pub type Refusal = &'static str;

const UNPROVEN: Refusal =
    "this cluster is sealed, and the connection does not say what it may receive of it";
const STREAM_RAW: Refusal = "a raw session gets no WAL stream: take the base backup with -X fetch \
    or -X none, or connect with a receiver token";
const CHECKSUMS: Refusal = "a raw base backup holds ciphertext, whose checksums cannot be \
    verified here: add VERIFY_CHECKSUMS false (pg_basebackup --no-verify-checksums)";
const INCREMENTAL: Refusal = "an incremental backup cannot be raw: take a full one, or connect \
    with a receiver token";
const UNREADABLE: Refusal = "the options of this base backup cannot be read with certainty: write \
    each as a name and one value";
const TARGET: Refusal = "with a receiver token a base backup goes to the client only: use \
    pgseal.receiver=raw for other targets";

/// May a session in this state run `command`? What is no physical replication always may.
pub fn judge(state: Connection, command: &[u8]) -> Result<(), Refusal> {
    let mut words = Words(command);
    match words.next() {
        Some(Word::Bare(b"START_REPLICATION")) if !is_logical(words) => match state {
            Connection::Clear => Ok(()),
            Connection::Raw => Err(STREAM_RAW),
            _ => Err(UNPROVEN),
        },
        Some(Word::Bare(b"BASE_BACKUP")) => match state {
            Connection::Clear => only_to_client(words),
            Connection::Raw => raw_backup(words),
            _ => Err(UNPROVEN),
        },
        _ => Ok(()),
    }
}

/// Is this a base backup?
pub fn is_base_backup(command: &[u8]) -> bool {
    Words(command).next() == Some(Word::Bare(b"BASE_BACKUP"))
}

/// `SLOT name LOGICAL …`: in a physical command a position or PHYSICAL follows the name.
fn is_logical(mut words: Words) -> bool {
    words.next() == Some(Word::Bare(b"SLOT"))
        && words.next().is_some()
        && words.next() == Some(Word::Bare(b"LOGICAL"))
}

fn only_to_client(words: Words) -> Result<(), Refusal> {
    let mut elsewhere = false;
    for_each_option(words, |name, value| {
        elsewhere |= name.is(b"target_detail")
            || (name.is(b"target") && !value.is_some_and(|value| value.is(b"client")));
    })?;
    if elsewhere {
        return Err(TARGET);
    }
    Ok(())
}

fn raw_backup(words: Words) -> Result<(), Refusal> {
    let (mut incremental, mut unverified) = (false, false);
    for_each_option(words, |name, value| {
        incremental |= name.is(b"incremental") && !is_off(value);
        unverified |= name.is(b"verify_checksums") && is_off(value);
    })?;
    match (incremental, unverified) {
        (true, _) => Err(INCREMENTAL),
        (false, false) => Err(CHECKSUMS),
        (false, true) => Ok(()),
    }
}

/// The spellings of false (define.c); an option alone means true.
fn is_off(value: Option<Word>) -> bool {
    value.is_some_and(|value| value.is(b"false") || value.is(b"off") || value.is(b"0"))
}

/// `( name [value] , … )`. What does not read so is refused: 15 takes `"a""b"` for two names, 18
/// for one.
fn for_each_option<'a>(
    mut words: Words<'a>,
    mut visit: impl FnMut(Word<'a>, Option<Word<'a>>),
) -> Result<(), Refusal> {
    if words.next() != Some(Word::Mark(b'(')) {
        return Ok(());
    }
    loop {
        let name = words.next().ok_or(UNREADABLE)?;
        let (value, end) = match words.next() {
            Some(mark @ Word::Mark(_)) => (None, Some(mark)),
            value => (value, words.next()),
        };
        visit(name, value);
        match end {
            Some(Word::Mark(b',')) => {}
            Some(Word::Mark(b')')) => return Ok(()),
            _ => return Err(UNREADABLE),
        }
    }
}

/// A lexical unit of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word<'a> {
    /// A keyword, an identifier, a number or a position.
    Bare(&'a [u8]),
    /// Text that stood in quotes, without them; doubled single quotes stay as they are.
    Quoted(&'a [u8]),
    /// Any other character.
    Mark(u8),
}

impl Word<'_> {
    /// Is it this name, in whatever case?
    fn is(self, name: &[u8]) -> bool {
        match self {
            Self::Bare(text) | Self::Quoted(text) => text.eq_ignore_ascii_case(name),
            Self::Mark(_) => false,
        }
    }
}

/// The lexical units that are left of a command.
#[derive(Clone, Copy)]
struct Words<'a>(&'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let blanks = self.0.iter().take_while(|&&byte| is_space(byte)).count();
        let text = &self.0[blanks..];
        let (word, len) = match *text.first()? {
            quote @ (b'\'' | b'"') => quoted(text, quote),
            byte if is_bare(byte) => {
                let len = text.iter().take_while(|&&byte| is_bare(byte)).count();
                (Word::Bare(&text[..len]), len)
            }
            byte => (Word::Mark(byte), 1),
        };
        self.0 = &text[len..];
        Some(word)
    }
}

/// Returns what the quotes at the start of `text` hold, and its length with them in bytes. Doubled
/// single quotes stand for one; double quotes end at the first.
fn quoted(text: &[u8], quote: u8) -> (Word<'_>, usize) {
    let mut end = 1;
    while end < text.len() {
        if text[end] == quote {
            if quote == b'"' || text.get(end + 1) != Some(&quote) {
                return (Word::Quoted(&text[1..end]), end + 1);
            }
            end += 1;
        }
        end += 1;
    }
    (Word::Quoted(&text[1..]), text.len())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'/' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(state: Connection, command: &str) -> bool {
        judge(state, command.as_bytes()).is_ok()
    }

    const STATES: [Connection; 3] = [Connection::Unproven, Connection::Raw, Connection::Clear];

    #[test]
    fn streaming_is_for_proven_receivers() {
        for command in [
            "START_REPLICATION 0/1000000",
            "START_REPLICATION 0/1000000 TIMELINE 1",
            "START_REPLICATION SLOT \"a\" 0/1000000 TIMELINE 1",
            "START_REPLICATION SLOT a PHYSICAL 0/1000000",
            "\n\tSTART_REPLICATION\n\rPHYSICAL 0/0",
            "START_REPLICATION SLOT \"LOGICAL\" 0/0",
            "START_REPLICATION SLOT \"x LOGICAL\" PHYSICAL 0/0",
        ] {
            let answers = STATES.map(|state| allowed(state, command));
            assert_eq!(answers, [false, false, true], "{command}");
        }
    }

    #[test]
    fn logical_replication_and_sql_are_free() {
        for command in [
            "START_REPLICATION SLOT a LOGICAL 0/0",
            "START_REPLICATION SLOT \"a b\" LOGICAL 0/0 (proto_version '1')",
            "IDENTIFY_SYSTEM",
            "SHOW pgseal.key_file",
            "CREATE_REPLICATION_SLOT a PHYSICAL",
            "TIMELINE_HISTORY 2",
            "SELECT 'BASE_BACKUP'",
            "-- BASE_BACKUP",
            "",
        ] {
            assert!(STATES.iter().all(|&s| allowed(s, command)), "{command}");
        }
    }

    #[test]
    fn raw_backups_need_what_ciphertext_needs() {
        for (command, good) in [
            ("BASE_BACKUP", false),
            ("BASE_BACKUP ( LABEL 'x' )", false),
            ("BASE_BACKUP (VERIFY_CHECKSUMS)", false),
            ("BASE_BACKUP (VERIFY_CHECKSUMS true)", false),
            ("BASE_BACKUP (LABEL 'VERIFY_CHECKSUMS false')", false),
            ("BASE_BACKUP (LABEL 'it''s', VERIFY_CHECKSUMS)", false),
            ("BASE_BACKUP (LABEL 'it''s', VERIFY_CHECKSUMS 0)", true),
            ("BASE_BACKUP ( VERIFY_CHECKSUMS 0)", true),
            ("BASE_BACKUP (PROGRESS,  VERIFY_CHECKSUMS 'off', WAL)", true),
            ("BASE_BACKUP (verify_checksums FALSE)", true),
            ("BASE_BACKUP (INCREMENTAL, VERIFY_CHECKSUMS 0)", false),
            ("BASE_BACKUP (VERIFY_CHECKSUMS 0, INCREMENTAL 'on')", false),
            ("BASE_BACKUP (VERIFY_CHECKSUMS 0, INCREMENTAL off)", true),
            (
                "BASE_BACKUP (VERIFY_CHECKSUMS 0, TARGET 'server', TARGET_DETAIL '/d')",
                true,
            ),
        ] {
            assert_eq!(allowed(Connection::Raw, command), good, "{command}");
            assert!(!allowed(Connection::Unproven, command), "{command}");
        }
    }

    #[test]
    fn clear_backups_go_to_the_client() {
        for (command, good) in [
            ("BASE_BACKUP", true),
            ("BASE_BACKUP ( LABEL 'target', PROGRESS)", true),
            ("BASE_BACKUP ( TARGET 'client' )", true),
            ("BASE_BACKUP ( TARGET client, WAL )", true),
            ("BASE_BACKUP ( TARGET 'server' )", false),
            (
                "BASE_BACKUP (LABEL 'a, b', target server, TARGET_DETAIL '/x')",
                false,
            ),
            ("BASE_BACKUP ( TARGET )", false),
            (
                "BASE_BACKUP ( LABEL 'x' , WAL 0, \"target\" 'blackhole')",
                false,
            ),
            ("BASE_BACKUP ( INCREMENTAL )", true),
            ("BASE_BACKUP (\"target\"\"server\")", false),
            ("BASE_BACKUP (LABEL \"x\"\"y\", TARGET 'server')", false),
        ] {
            assert_eq!(allowed(Connection::Clear, command), good, "{command}");
        }
    }
}
