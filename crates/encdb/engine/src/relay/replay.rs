//! Statements that are sent again after the owner's session was lost.
//!
//! A session ends with `DISCARD ALL`, with its time, and with the evaluator. The next statement
//! that meets cells fails then. If the driver has been given nothing yet that comes from data, the
//! transaction is rolled back, a session is opened on the same connection, and the driver's
//! messages since the connection was idle are taken again. What the driver was given before is not
//! given twice. Otherwise the driver gets the error, and its next transaction finds a session.

use std::sync::Arc;

use pgseal_client::ClientError;

use super::{Expected, Relay, RelayError};
use crate::catalog::Catalog;
use crate::sql::may_commit;
use crate::values::Keys;
use crate::wire::{self, Frames, Reader};

/// The most bytes of messages that are kept to be taken again.
const MAX_KEPT: usize = 1 << 20;
/// The errors of encdb that a new session repairs: there is none, it has expired, or the evaluator
/// that had it does not answer any more. Another one may.
const LOST: [&[u8]; 3] = [b"PE009", b"PE010", b"PE015"];
/// Statements whose completion says nothing of data.
const EMPTY: [&[u8]; 4] = [b"BEGIN", b"START TRANSACTION", b"SET", b"SAVEPOINT"];

/// A connection's messages since it was idle.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// The driver's messages
    messages: Vec<u8>,
    /// The number of messages that the driver was given
    given: usize,
    /// The number of messages that it was given before, and that come again now
    repeated: usize,
    /// They cannot be taken again.
    is_spoilt: bool,
    /// They were taken again once.
    is_second: bool,
    /// `DISCARD ALL` has ended the session, and no statement has failed for it.
    is_discarded: bool,
    /// The SQLSTATE that the statement failed with
    sqlstate: String,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Relaying,
    /// A statement has failed, and `ReadyForQuery` is still to come.
    Failed,
    /// The transaction is being rolled back.
    RollingBack,
    /// A session is to be opened.
    Wanted,
}

impl Replay {
    /// Keeps a message of the driver.
    pub(super) fn keep(&mut self, message: &[u8]) {
        if self.is_spoilt {
            return;
        }
        match self.messages.len() + message.len() <= MAX_KEPT {
            true => self.messages.extend_from_slice(message),
            false => self.spoil(),
        }
    }

    /// Gives up what was kept.
    pub(super) fn spoil(&mut self) {
        self.is_spoilt = true;
        self.messages = Vec::new();
    }

    /// Takes note of a message for the driver. Returns whether it was given before.
    pub(super) fn gives(&mut self, message: &[u8]) -> bool {
        let says_nothing = match message[0] {
            b'1' | b'2' | b'3' | b't' | b'T' | b'n' | b'I' | b'Z' => true,
            b'C' => {
                let tag = message[wire::HEADER..].split_last().map(|(_, tag)| tag);
                tag.is_some_and(|tag| EMPTY.contains(&tag))
            }
            _ => false,
        };
        if !says_nothing {
            self.spoil();
            self.repeated = 0;
        }
        self.given += 1;
        let is_repeated = self.repeated > 0;
        self.repeated = self.repeated.saturating_sub(1);
        is_repeated
    }

    /// Begins anew: the connection is idle.
    fn idle(&mut self) {
        let mut messages = std::mem::take(&mut self.messages);
        messages.clear();
        messages.shrink_to(wire::HEADER << 10);
        *self = Self {
            messages,
            ..Self::default()
        };
    }

    /// Whether a text that was kept calls a procedure, which may have committed before it failed.
    fn may_have_committed(&self) -> bool {
        let mut kept = Frames::default();
        kept.add(&self.messages);
        while let Ok(Some(message)) = kept.message() {
            let mut reader = Reader::new(message);
            let text = match message[0] {
                b'P' => reader.string().and_then(|_| reader.string()),
                b'Q' => reader.string(),
                _ => continue,
            };
            if text.map_or(true, may_commit) {
                return true;
            }
        }
        false
    }

    /// Notes that `DISCARD ALL` is done.
    pub(super) fn discarded(&mut self) {
        self.is_discarded = true;
    }

    /// Whether a session is being restored, and nothing of the driver is taken.
    pub(super) fn is_restoring(&self) -> bool {
        self.state != State::Relaying
    }
}

impl Relay {
    /// Whether a session must be opened before anything is relayed.
    pub(crate) fn wants_session(&self) -> bool {
        self.replay.state == State::Wanted
    }

    /// Takes an error that says that the session was lost, if the driver need not hear of it.
    pub(super) fn loses_session(&mut self, message: &[u8]) -> bool {
        let is_end = |it: &Expected| matches!(it, Expected::Ready | Expected::Query(_));
        let is_last = self.expected.back().is_some_and(is_end)
            && self.expected.iter().filter(|it| is_end(it)).count() == 1;
        let replay = &self.replay;
        let can = is_last && !replay.is_spoilt && !replay.is_second && !self.drops_server;
        let is_lost = wire::sqlstate(message).is_some_and(|it| LOST.contains(&it));
        if !(can && is_lost) || self.replay.may_have_committed() {
            return false;
        }
        let skipped: Vec<Expected> = self.expected.drain(..).collect();
        skipped.into_iter().rev().for_each(|it| self.undo(it));
        self.replay.state = State::Failed;
        self.replay.sqlstate = wire::sqlstate(message)
            .map(String::from_utf8_lossy)
            .unwrap_or_default()
            .into_owned();
        true
    }

    /// Takes a message of the server while a session is being restored.
    pub(super) fn restore(&mut self, message: &[u8]) -> Result<(), RelayError> {
        match (message[0], self.replay.state, message.last()) {
            (b'N' | b'A', ..) => self.to_driver.extend_from_slice(message),
            (b'S', ..) => self.reported(message)?,
            (b'Z', _, Some(b'I')) => self.replay.state = State::Wanted,
            (b'Z', State::Failed, _) => {
                self.to_server.extend(wire::message(b'Q', b"ROLLBACK\0")?);
                self.replay.state = State::RollingBack;
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes that the server is ready, with nothing open. A session that was discarded, as pools do
    /// between two clients, is opened again at once: the next transaction may need it late.
    pub(super) fn is_idle(&mut self, is_idle: bool) {
        match (is_idle, self.expected.is_empty()) {
            (true, true) => {
                let is_discarded = self.replay.is_discarded && !self.catalog.is_empty();
                self.replay.idle();
                if is_discarded {
                    (self.replay.is_discarded, self.replay.state) = (true, State::Wanted);
                }
            }
            (_, false) => self.replay.spoil(),
            (false, true) => {}
        }
    }

    /// Takes a new session, and sends again what the lost one could not answer.
    pub(crate) fn restored(
        &mut self,
        catalog: Arc<Catalog>,
        keys: Arc<dyn Keys + Send + Sync>,
    ) -> Result<(), RelayError> {
        (self.catalog, self.keys) = (catalog, keys);
        self.keys.set_times(self.times.clone());
        self.portals.clear();
        let before = std::mem::take(&mut self.replay);
        self.replay.repeated = before.given;
        self.replay.is_second = !before.is_discarded;
        let mut kept = Frames::default();
        kept.add(&before.messages);
        while let Some(message) = kept.message()? {
            self.driver_message(message)?;
        }
        self.driver_messages()
    }

    /// Gives up: the statement fails as it did, and says why there is no other session. Where none
    /// has failed, the next one that needs the session does.
    pub(crate) fn not_restored(&mut self, why: &ClientError) -> Result<(), RelayError> {
        let before = std::mem::take(&mut self.replay);
        if before.is_discarded {
            return self.driver_messages();
        }
        let text = format!("the owner's session was lost, and cannot be opened again: {why}");
        self.to_driver.extend(wire::error(&before.sqlstate, &text));
        self.to_driver.extend(wire::message(b'Z', b"I")?);
        self.driver_messages()
    }

    /// Takes the bytes of the server that were not taken as messages yet.
    pub(crate) fn take_server_rest(&mut self) -> Vec<u8> {
        self.server.take_rest()
    }
}
