//! Chained logs: lines of JSON, each of which ends in a hash over the line before it and its own
//! text (docs/format/audit-log.md). The evaluator and the unlocking of clusters write such logs.
//!
//! Anyone who changes, drops, or adds a line has to change all after it: somebody who keeps the
//! last hash elsewhere sees that. [`Chain`] writes and [`verify`] reads; neither touches a file.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::{self, BufRead};

use pgseal_crypto::sha256;

/// A hash of the chain.
pub type Head = [u8; 32];

const LABEL: &[u8] = b"pgseal audit log 1\0";
const CHAIN: &str = ",\"chain\":\"";

/// The bytes behind a record's own text: the name of the hash, its digits, and the line feed.
const END: usize = CHAIN.len() + 64 + 3;

/// The end of a log that is being written.
pub struct Chain {
    head: Head,
    records: u64,
}

impl Chain {
    /// The chain of a new log.
    pub const fn new() -> Self {
        Self {
            head: [0; 32],
            records: 0,
        }
    }

    /// The chain of a log that ends with this line, if it is a record. That the line is what was
    /// written only [`verify`] says, which reads all before it.
    pub fn after(line: &[u8]) -> Option<Self> {
        let (text, end) = line.split_at_checked(line.len().checked_sub(END)?)?;
        let digits = end.strip_prefix(CHAIN.as_bytes())?.strip_suffix(b"\"}\n")?;
        let text = std::str::from_utf8(text).ok()?;
        let (number, _) = text.strip_prefix("{\"record\":")?.split_once(',')?;
        Some(Self {
            head: unhex(std::str::from_utf8(digits).ok()?)?,
            records: number.parse().ok().filter(|&number| number < u64::MAX)?,
        })
    }

    /// The hash of the last record.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The line of the next record, with its line feed. `now`: microseconds since 1970.
    pub fn append(
        &mut self,
        now: u64,
        event: &str,
        fields: impl FnOnce(&mut Fields<'_>),
    ) -> String {
        self.records += 1;
        let mut line = format!("{{\"record\":{},\"time\":{now}", self.records);
        let mut open = Fields(&mut line);
        open.text("event", event);
        fields(&mut open);
        self.head = link(&self.head, line.as_bytes());
        line.push_str(CHAIN);
        line.push_str(&hex(&self.head));
        line.push_str("\"}\n");
        line
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

/// A line that grows. No text needs an escape: a letter that would is written as a question mark.
pub struct Fields<'a>(&'a mut String);

impl Fields<'_> {
    /// Adds a number.
    pub fn number(&mut self, name: &str, value: u64) {
        write!(self.0, ",\"{name}\":{value}").expect("a string takes text");
    }

    /// Adds a text.
    pub fn text(&mut self, name: &str, value: &str) {
        write!(self.0, ",\"{name}\":\"").expect("a string takes text");
        let plain = |letter: char| (' '..='~').contains(&letter) && !matches!(letter, '"' | '\\');
        let letters = value
            .chars()
            .map(|letter| if plain(letter) { letter } else { '?' });
        self.0.extend(letters);
        self.0.push('"');
    }
}

fn link(previous: &Head, text: &[u8]) -> Head {
    sha256(&[LABEL, previous, text])
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes text");
        text
    })
}

/// A log whose chain holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Verified {
    /// how many records it has
    pub records: u64,
    /// the hash of the last
    pub head: Head,
    /// the hash that its first record says the log before it ended with
    pub previous: Option<Head>,
    /// the writer was killed while it wrote: what follows the last line feed is no record
    pub torn: bool,
}

/// Why a log is not what was written.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// A line is no record, or not the one that was written there.
    #[error("line {0} is not what was written: it, or one before it, was changed or is missing")]
    Line(u64),
    /// Nothing was written.
    #[error("it holds no record")]
    Empty,
    /// The log cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Reads a whole log and recomputes its chain.
pub fn verify(mut log: impl BufRead) -> Result<Verified, Broken> {
    let mut follower = Follower::default();
    let (mut line, mut torn) = (Vec::new(), false);
    loop {
        line.clear();
        if log.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.last() != Some(&b'\n') {
            torn = true;
            break;
        }
        follower.follow(&line)?;
    }
    if follower.chain.records == 0 {
        return Err(Broken::Empty);
    }
    Ok(Verified {
        records: follower.chain.records,
        head: follower.chain.head,
        previous: follower.previous,
        torn,
    })
}

/// Recomputes the chain of a log line by line, for a reader who comes back as the log grows.
#[derive(Default)]
pub struct Follower {
    chain: Chain,
    previous: Option<Head>,
}

impl Follower {
    /// Takes the next line, with its line feed, and returns the text of its record: JSON without
    /// the hash.
    pub fn follow<'a>(&mut self, line: &'a [u8]) -> Result<&'a [u8], Broken> {
        let number = self.chain.records + 1;
        let head = follow(&self.chain.head, number, line);
        self.chain.head = head.ok_or(Broken::Line(number))?;
        self.chain.records = number;
        if number == 1 {
            self.previous = previous_of(line);
        }
        Ok(&line[..line.len() - END])
    }
}

/// The hash of a line if it follows the one with `head`.
fn follow(head: &Head, number: u64, line: &[u8]) -> Option<Head> {
    let (text, end) = line.split_at_checked(line.len().checked_sub(END)?)?;
    let next = link(head, text);
    let expected = format!("{CHAIN}{}\"}}\n", hex(&next));
    let begins = text.starts_with(format!("{{\"record\":{number},").as_bytes());
    (begins && end == expected.as_bytes()).then_some(next)
}

fn previous_of(line: &[u8]) -> Option<Head> {
    let text = std::str::from_utf8(line).ok()?;
    let (_, rest) = text.split_once("\"previous\":\"")?;
    unhex(rest.get(..64)?)
}

fn unhex(digits: &str) -> Option<Head> {
    let mut head = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (index, byte) in head.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> String {
        let mut chain = Chain::new();
        let line = |now| chain.append(now, "unlock", |fields| fields.number("slot", now));
        (1..=3).map(line).collect()
    }

    #[test]
    fn a_log_goes_on_from_its_last_line() {
        let mut log = log();
        let last = log.lines().last().map(|line| format!("{line}\n"));
        let mut chain = Chain::after(last.expect("a line").as_bytes()).expect("a record");
        log.push_str(&chain.append(9, "unlock", |_| ()));
        let found = verify(log.as_bytes()).expect("it holds");
        assert_eq!((found.records, &found.head), (4, chain.head()));
    }

    #[test]
    fn what_is_no_record_is_not_gone_on_from() {
        for line in [
            "",
            "\n",
            "{\"record\":1,\"time\":2}\n",
            "[2026] a log of another kind\n",
        ] {
            assert!(Chain::after(line.as_bytes()).is_none(), "{line}");
        }
        let log = log();
        let line = log.lines().next().expect("a line");
        assert!(
            Chain::after(line.as_bytes()).is_none(),
            "it has no line feed"
        );
    }

    #[test]
    fn a_text_cannot_end_its_line() {
        let mut chain = Chain::new();
        let line = chain.append(1, "unlock", |fields| fields.text("login", "a\"\n\\ä"));
        assert!(line.contains("\"login\":\"a????\""), "{line}");
        assert!(verify(line.as_bytes()).is_ok());
    }
}
