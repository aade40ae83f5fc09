//! The audit log's records and the chain through them (docs/format/audit-log.md).
//!
//! A log is lines of JSON. Every line ends in a hash over the line before it and its own text, so
//! that whoever changes, drops, or adds a line has to change all after it: who keeps the last hash
//! elsewhere sees that. [`Chain`] writes, [`verify`] reads; neither touches a file. No field holds
//! a name, a text, or a value from a cell.

use std::fmt::Write as _;
use std::io::{self, BufRead};

use pgseal_crypto::sha256;

/// A hash of the chain.
pub type Head = [u8; 32];

const LABEL: &[u8] = b"pgseal audit log 1\0";
const CHAIN: &str = ",\"chain\":\"";

/// Something that an owner may want to know. Numbers that name parties are fingerprints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The evaluator began this log; `previous` is the last hash of the log before it.
    Start {
        /// version of the program
        version: &'static str,
        /// hash of what it lets sessions do without a grant
        policy: [u8; 32],
        /// where the log before this one ended
        previous: Option<Head>,
    },
    /// An owner's keys were opened for a subject.
    Open {
        /// number of the session
        session: u64,
        /// fingerprint of the owner's public key
        owner: [u8; 32],
        /// fingerprint of the subject's public key
        subject: [u8; 32],
        /// seconds since 1970 when it ends by itself
        expiry: u64,
    },
    /// Keys that owners left came into a session, be it of a client or of background work.
    Handed {
        /// number of the session
        session: u64,
        /// how many grants they came with
        grants: u64,
    },
    /// Connections came into a session, each of a parallel worker of its backend.
    Worker {
        /// number of the session
        session: u64,
        /// workers since the last such record
        count: u64,
    },
    /// A grant was used so many times more.
    Use {
        /// number of the session
        session: u64,
        /// serial of the grant
        grant: [u8; 16],
        /// what it allowed
        operation: &'static str,
        /// uses since the last such record
        count: u64,
    },
    /// Cells under a data key were compared, hashed and ranked, so many more of each.
    Cells {
        /// number of the session
        session: u64,
        /// the data key's id
        key: u32,
        /// cells that were compared: two for each comparison
        compared: u64,
        /// cells that were hashed
        hashed: u64,
        /// cells that were put in order together
        ranked: u64,
    },
    /// Requests were refused so many times more.
    Refused {
        /// number of the session; 0 where there was none
        session: u64,
        /// the refusal's name in docs/encdb-errors.md
        refusal: &'static str,
        /// the operation that had no grant
        operation: Option<&'static str>,
        /// refusals since the last such record
        count: u64,
    },
    /// A grant was taken in.
    Granted {
        /// number of the session that brought it
        session: u64,
        /// its serial
        grant: [u8; 16],
    },
    /// A list of an owner's revoked grants was taken in.
    Revoked {
        /// number of the session that brought it
        session: u64,
        /// fingerprint of the owner's public key
        owner: [u8; 32],
        /// the list's number
        sequence: u64,
    },
    /// A data key was made.
    KeyMade {
        /// number of the session
        session: u64,
        /// its id
        key: u32,
    },
    /// A session ended.
    Close {
        /// its number
        session: u64,
    },
    /// The evaluator ended as it was told to.
    Stop,
}

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

    /// The hash of the last record.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The line of the next record, with its line feed. `now`: microseconds since 1970.
    pub fn append(&mut self, now: u64, event: &Event) -> String {
        self.records += 1;
        let mut line = format!("{{\"record\":{},\"time\":{now}", self.records);
        fields(event, &mut line);
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

fn fields(event: &Event, line: &mut String) {
    let mut fields = Fields(line);
    fields.text("event", name(event));
    match event {
        Event::Start {
            version,
            policy,
            previous,
        } => {
            fields.text("version", version);
            fields.text("policy", &hex(policy));
            if let Some(previous) = previous {
                fields.text("previous", &hex(previous));
            }
        }
        Event::Open {
            session,
            owner,
            subject,
            expiry,
        } => {
            fields.number("session", *session);
            fields.text("owner", &hex(owner));
            fields.text("subject", &hex(subject));
            fields.number("expiry", *expiry);
        }
        Event::Handed { session, grants } => {
            fields.number("session", *session);
            fields.number("grants", *grants);
        }
        Event::Use { .. } | Event::Cells { .. } | Event::Refused { .. } => {
            count(event, &mut fields);
        }
        Event::Granted { session, grant } => {
            fields.number("session", *session);
            fields.text("grant", &hex(grant));
        }
        Event::Revoked {
            session,
            owner,
            sequence,
        } => {
            fields.number("session", *session);
            fields.text("owner", &hex(owner));
            fields.number("sequence", *sequence);
        }
        Event::KeyMade { session, key } => {
            fields.number("session", *session);
            fields.text("key", &format!("{key:08x}"));
        }
        Event::Worker { session, count } => {
            fields.number("session", *session);
            fields.number("count", *count);
        }
        Event::Close { session } => fields.number("session", *session),
        Event::Stop => {}
    }
}

/// Writes the fields of an event that was counted.
fn count(event: &Event, fields: &mut Fields<'_>) {
    match event {
        Event::Use {
            session,
            grant,
            operation,
            count,
        } => {
            fields.number("session", *session);
            fields.text("grant", &hex(grant));
            fields.text("operation", operation);
            fields.number("count", *count);
        }
        Event::Cells {
            session,
            key,
            compared,
            hashed,
            ranked,
        } => {
            fields.number("session", *session);
            fields.text("key", &format!("{key:08x}"));
            fields.number("compared", *compared);
            fields.number("hashed", *hashed);
            fields.number("ranked", *ranked);
        }
        Event::Refused {
            session,
            refusal,
            operation,
            count,
        } => {
            fields.number("session", *session);
            fields.text("refusal", refusal);
            if let Some(operation) = operation {
                fields.text("operation", operation);
            }
            fields.number("count", *count);
        }
        _ => {}
    }
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::Start { .. } => "start",
        Event::Open { .. } => "open",
        Event::Handed { .. } => "handed",
        Event::Worker { .. } => "worker",
        Event::Use { .. } => "use",
        Event::Cells { .. } => "cells",
        Event::Refused { .. } => "refused",
        Event::Granted { .. } => "granted",
        Event::Revoked { .. } => "revoked",
        Event::KeyMade { .. } => "key made",
        Event::Close { .. } => "close",
        Event::Stop => "stop",
    }
}

/// A line that grows. No text needs an escape: all are ours, or hexadecimal.
struct Fields<'a>(&'a mut String);

impl Fields<'_> {
    fn number(&mut self, name: &str, value: u64) {
        write!(self.0, ",\"{name}\":{value}").expect("a string takes text");
    }

    fn text(&mut self, name: &str, value: &str) {
        write!(self.0, ",\"{name}\":\"{value}\"").expect("a string takes text");
    }
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
    let mut chain = Chain::new();
    let (mut line, mut torn, mut previous) = (Vec::new(), false, None);
    loop {
        line.clear();
        if log.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.last() != Some(&b'\n') {
            torn = true;
            break;
        }
        let number = chain.records + 1;
        chain.head = follow(&chain.head, number, &line).ok_or(Broken::Line(number))?;
        if number == 1 {
            previous = previous_of(&line);
        }
        chain.records = number;
    }
    if chain.records == 0 {
        return Err(Broken::Empty);
    }
    Ok(Verified {
        records: chain.records,
        head: chain.head,
        previous,
        torn,
    })
}

/// The hash of a line if it follows the one with `head`.
fn follow(head: &Head, number: u64, line: &[u8]) -> Option<Head> {
    // `,"chain":"`, 64 digits, `"}` and the line feed
    let (text, end) = line.split_at_checked(line.len().checked_sub(CHAIN.len() + 64 + 3)?)?;
    let next = link(head, text);
    let expected = format!("{CHAIN}{}\"}}\n", hex(&next));
    let begins = text.starts_with(format!("{{\"record\":{number},").as_bytes());
    (begins && end == expected.as_bytes()).then_some(next)
}

fn previous_of(line: &[u8]) -> Option<Head> {
    let text = std::str::from_utf8(line).ok()?;
    let (_, rest) = text.split_once("\"previous\":\"")?;
    let mut head = [0; 32];
    for (index, byte) in head.iter_mut().enumerate() {
        *byte = u8::from_str_radix(rest.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(head)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn log() -> String {
        let mut chain = Chain::new();
        let events = [
            Event::Start {
                version: "0.1.0",
                policy: [7; 32],
                previous: Some([9; 32]),
            },
            Event::Open {
                session: 1,
                owner: [1; 32],
                subject: [2; 32],
                expiry: 99,
            },
            Event::Granted {
                session: 1,
                grant: [3; 16],
            },
            Event::Use {
                session: 1,
                grant: [3; 16],
                operation: "ARITHMETIC",
                count: 12,
            },
            Event::Cells {
                session: 1,
                key: 0x0a,
                compared: 14,
                hashed: 1,
                ranked: 0,
            },
            Event::Refused {
                session: 1,
                refusal: "NoGrant",
                operation: Some("CAST"),
                count: 1,
            },
            Event::Refused {
                session: 0,
                refusal: "NoSession",
                operation: None,
                count: 2,
            },
            Event::KeyMade {
                session: 1,
                key: 0x0a,
            },
            Event::Revoked {
                session: 1,
                owner: [1; 32],
                sequence: 4,
            },
            Event::Close { session: 1 },
            Event::Stop,
        ];
        (100..)
            .zip(&events)
            .map(|(now, event)| chain.append(now, event))
            .collect()
    }

    #[test]
    fn a_log_holds() {
        let log = log();
        let found = verify(log.as_bytes()).unwrap();
        assert_eq!(
            (found.records, found.torn, found.previous),
            (11, false, Some([9; 32]))
        );
        assert!(log.ends_with(&format!("\"chain\":\"{}\"}}\n", hex(&found.head))));
    }

    #[test]
    fn one_flipped_bit_is_found_on_its_line() {
        let log = log();
        for at in 0..log.len() {
            let mut bytes = log.clone().into_bytes();
            bytes[at] ^= 1;
            let line = log[..at].matches('\n').count() as u64 + 1;
            match verify(bytes.as_slice()) {
                Err(Broken::Line(found)) => assert_eq!(found, line, "byte {at}"),
                // The last line feed, of which nothing is left but a torn line.
                Ok(found) => assert!(found.torn && at == log.len() - 1, "byte {at}"),
                Err(other) => panic!("byte {at}: {other}"),
            }
        }
    }

    #[test]
    fn a_missing_a_doubled_and_a_moved_line_are_found() {
        let log = log();
        let lines: Vec<&str> = log.split_inclusive('\n').collect();
        for at in 0..lines.len() - 1 {
            let mut missing = lines.clone();
            missing.remove(at);
            assert!(verify(missing.concat().as_bytes()).is_err());
            let mut moved = lines.clone();
            moved.swap(at, at + 1);
            assert!(verify(moved.concat().as_bytes()).is_err());
            let mut doubled = lines.clone();
            doubled.insert(at, lines[at]);
            assert!(verify(doubled.concat().as_bytes()).is_err());
        }
    }

    #[test]
    fn a_torn_end_is_told_and_an_empty_log_is_none() {
        let log = log();
        let found = verify(&log.as_bytes()[..log.len() - 5]).unwrap();
        assert_eq!((found.records, found.torn), (10, true));
        assert!(matches!(verify(&b""[..]), Err(Broken::Empty)));
    }
}
