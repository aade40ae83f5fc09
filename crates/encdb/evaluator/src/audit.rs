//! The audit log's records (docs/format/audit-log.md). `pgseal_chain` chains and verifies them;
//! neither touches a file. No field holds a name, a text, or a value from a cell.

use pgseal_chain::Fields;
pub use pgseal_chain::{hex, verify, Broken, Head, Verified};

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
#[derive(Default)]
pub struct Chain(pgseal_chain::Chain);

impl Chain {
    /// The chain of a new log.
    pub const fn new() -> Self {
        Self(pgseal_chain::Chain::new())
    }

    /// The hash of the last record.
    pub fn head(&self) -> &Head {
        self.0.head()
    }

    /// The line of the next record, with its line feed. `now`: microseconds since 1970.
    pub fn append(&mut self, now: u64, event: &Event) -> String {
        let write = |line: &mut Fields<'_>| fields(event, line);
        self.0.append(now, name(event), write)
    }
}

fn fields(event: &Event, fields: &mut Fields<'_>) {
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
            count(event, fields);
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
