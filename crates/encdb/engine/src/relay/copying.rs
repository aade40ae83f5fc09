//! Rows of COPY in either direction.
//!
//! Rows of the driver wait until the server has said that it takes them: before that, nothing
//! says which of the driver's statements they are for. Rows that nobody takes, because the
//! statement failed meanwhile, are not sent, though the server would pass over them.

use std::sync::Arc;

use super::{Expected, Relay, RelayError};
use crate::copy::{Converter, CopyPlan, Copying, Direction, Taken};
use crate::observer::Event;
use crate::wire::{self, Reader, HEADER};

/// The most bytes of rows in one message to the server. PostgreSQL takes 1 GB; cells are longer
/// than values.
const MAX_ROWS: usize = 1 << 20;
/// The text of `CopyFail`. The driver gets the engine's own error in place of the server's.
const FAILS: &[u8] = b"pgseal refused a row\0";
/// The text of `CopyFail` in place of a driver's.
const GIVEN_UP: &[u8] = b"the application gave up\0";
/// The SQLSTATE that PostgreSQL gives after `CopyFail`
const CANCELED: &str = "57014";

/// The conversion of rows.
#[derive(Debug)]
pub(super) enum Rows {
    /// They pass.
    Plain,
    /// Some of their columns are encrypted.
    Cells(Copying),
}

/// The rows of the driver, and of the server.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// The rows that the server takes now; none if it takes none
    from_driver: Option<Rows>,
    /// The rows that the server sends now, if they have cells in them
    from_server: Option<Copying>,
    /// A message with rows of the driver has begun, and goes on: it passes, or not.
    passes: Option<bool>,
    /// A message with rows of the server has begun, and goes on.
    is_within: bool,
}

impl Copies {
    /// Whether the server takes rows, and passes over `Sync` until their end.
    pub(super) fn takes_rows(&self) -> bool {
        self.from_driver.is_some()
    }

    /// Takes an error or the end of a statement, after which there are no rows.
    pub(super) fn stop(&mut self) {
        (self.from_driver, self.from_server) = (None, None);
    }
}

impl Relay {
    /// Whether a message that waits is one of rows, and the server has still to say whether it
    /// takes them.
    pub(super) fn rows_wait(&self) -> bool {
        let of_rows = matches!(self.driver.peek(), Some(b'd' | b'c' | b'f'));
        let may_copy = |expected: &Expected| match expected {
            Expected::Query(_) => true,
            Expected::Rows(portal) => portal.statement.may_copy,
            _ => false,
        };
        let is_open = self.copies.from_driver.is_none() && !self.drops_driver;
        of_rows && is_open && self.expected.iter().any(may_copy)
    }

    /// Takes `CopyInResponse`. A server that takes rows passes over each `Sync` before their end.
    pub(super) fn copy_in_begins(&mut self, message: &[u8]) -> Result<(), RelayError> {
        let plan = self.next_copy(Direction::ToServer)?;
        if self.drops_server {
            // The driver does not hear of it.
            self.to_server.extend(wire::message(b'f', FAILS)?);
            return Ok(());
        }
        self.copies.from_driver =
            Some(plan.map_or(Rows::Plain, |it| Rows::Cells(Copying::new(it))));
        if let Some(Expected::Rows(_)) = self.expected.front() {
            self.expected.retain(|it| !matches!(it, Expected::Ready));
        }
        self.forward(message);
        Ok(())
    }

    /// Takes `CopyOutResponse`.
    pub(super) fn copy_out_begins(&mut self, message: &[u8]) -> Result<(), RelayError> {
        let mut reader = Reader::new(message);
        let (_, columns) = (reader.byte()?, usize::from(reader.int16()?));
        // A table may have other columns by now, and then its cells are given as they are.
        let plan = self.next_copy(Direction::ToDriver)?;
        let plan = plan.filter(|plan| plan.columns.len() == columns);
        self.copies.from_server = plan.map(Copying::new);
        self.forward(message);
        Ok(())
    }

    /// Returns what becomes of the rows of the COPY that begins. A server that begins another one
    /// than the statement's, or one before the driver has ended its rows, would get rows in clear.
    fn next_copy(&mut self, direction: Direction) -> Result<Option<Arc<CopyPlan>>, RelayError> {
        let unasked = RelayError::Unasked(match direction {
            Direction::ToServer => b'G',
            Direction::ToDriver => b'H',
        });
        let (statement, at) = match self.expected.front_mut() {
            Some(Expected::Query(query)) => {
                query.copies += 1;
                (&query.statement, query.copies - 1)
            }
            Some(Expected::Rows(portal)) => (&portal.statement, 0),
            _ => return Err(unasked),
        };
        match &statement.copies {
            _ if self.copies.takes_rows() => Err(unasked),
            None => Ok(None),
            Some(copies) => match copies.get(at) {
                Some(rows) if rows.direction == direction => Ok(rows.plan.clone()),
                _ => Err(unasked),
            },
        }
    }

    /// Takes a part of a message with rows of the driver.
    pub(super) fn rows_from_driver(&mut self, bytes: &[u8], ends: bool) -> Result<(), RelayError> {
        self.replay.spoil();
        let is_start = self.copies.passes.is_none();
        let may_pass = || matches!(self.copies.from_driver, Some(Rows::Plain));
        // A message that has begun to pass goes on, whatever comes between.
        let passes = self.copies.passes.unwrap_or_else(may_pass);
        self.copies.passes = (!ends).then_some(passes);
        if passes {
            self.to_server.extend_from_slice(bytes);
            return Ok(());
        }
        let by = &self.converter(Direction::ToServer);
        let Some(Rows::Cells(rows)) = &mut self.copies.from_driver else {
            return Ok(());
        };
        let taken = rows.take(&bytes[if is_start { HEADER } else { 0 }..], by);
        self.send_rows(taken)
    }

    /// Takes the driver's end of its rows, `CopyDone` or `CopyFail`. Drivers say in the latter
    /// which value they cannot encode, and the server would log it: only the driver gets it back.
    pub(super) fn rows_end(&mut self, message: &[u8]) -> Result<(), RelayError> {
        let by = &self.converter(Direction::ToServer);
        let taken = match &mut self.copies.from_driver {
            None => return Ok(()),
            Some(Rows::Cells(rows)) if message[0] == b'c' => rows.end(by),
            Some(_) => Taken::default(),
        };
        self.send_rows(taken)?;
        match self.copies.from_driver.take() {
            Some(Rows::Cells(_)) if message[0] == b'f' => {
                let text = String::from_utf8_lossy(Reader::new(message).string()?);
                let error = wire::error(CANCELED, &format!("COPY from stdin failed: {text}"));
                self.to_server.extend(wire::message(b'f', GIVEN_UP)?);
                self.expected.push_front(Expected::Refused(error));
            }
            Some(_) => self.to_server.extend_from_slice(message),
            None => {}
        }
        Ok(())
    }

    fn send_rows(&mut self, taken: Taken) -> Result<(), RelayError> {
        for part in taken.rows.chunks(MAX_ROWS) {
            self.to_server.extend(wire::message(b'd', part)?);
        }
        if let Some(refusal) = taken.refused {
            self.keys.note(Event::Refused(refusal.sqlstate()));
            self.copies.from_driver = None;
            self.to_server.extend(wire::message(b'f', FAILS)?);
            self.expected
                .push_front(Expected::Refused(refusal.response()));
        }
        Ok(())
    }

    /// Takes a part of a message with rows of the server.
    pub(super) fn rows_from_server(&mut self, bytes: &[u8], ends: bool) -> Result<(), RelayError> {
        self.replay.spoil();
        let is_start = !self.copies.is_within;
        self.copies.is_within = !ends;
        if self.drops_server {
            return Ok(());
        }
        let by = &self.converter(Direction::ToDriver);
        let Some(rows) = &mut self.copies.from_server else {
            self.to_driver.extend_from_slice(bytes);
            return Ok(());
        };
        let taken = rows.take(&bytes[if is_start { HEADER } else { 0 }..], by);
        self.give_rows(taken)
    }

    /// Takes the server's end of its rows.
    pub(super) fn rows_ended(&mut self, message: &[u8]) -> Result<(), RelayError> {
        let by = &self.converter(Direction::ToDriver);
        if let Some(mut rows) = self.copies.from_server.take() {
            self.give_rows(rows.end(by))?;
        }
        self.forward(message);
        Ok(())
    }

    fn give_rows(&mut self, taken: Taken) -> Result<(), RelayError> {
        if !taken.rows.is_empty() {
            self.to_driver.extend(wire::message(b'd', &taken.rows)?);
        }
        if let Some(refusal) = taken.refused {
            self.keys.note(Event::Refused(refusal.sqlstate()));
            self.forward(&refusal.response());
            self.drops_server = true;
        }
        Ok(())
    }

    fn converter(&self, direction: Direction) -> Converter {
        Converter {
            direction,
            catalog: Arc::clone(&self.catalog),
            keys: Arc::clone(&self.keys),
        }
    }
}
