//! Messages of the server.

use std::sync::Arc;

use pgseal_client::Type;

use super::{Columns, Expected, Portal, Relay, RelayError, Settings, Statement};
use crate::catalog::Cells;
use crate::observer::Event;
use crate::refusal::Refusal;
use crate::sql::{Cast, Conversion, Parameter};
use crate::values::{self, plain_oid, Keys};
use crate::wire::{self, Frame, Frames, Reader, Take, Writer};

impl Relay {
    /// Takes bytes that the server sent.
    pub fn from_server(&mut self, bytes: &[u8]) -> Result<(), RelayError> {
        let mut server = std::mem::take(&mut self.server);
        server.add(bytes);
        let taken = self.server_frames(&mut server);
        self.server = server;
        taken
    }

    fn server_frames(&mut self, server: &mut Frames) -> Result<(), RelayError> {
        loop {
            let opens = self.rows().is_some_and(|rows| rows.encrypted().is_some());
            let how = |tag| match tag {
                b'D' if !opens => Take::Run,
                b'd' => Take::Parts,
                _ => Take::Whole,
            };
            match server.next(how)? {
                None => return Ok(()),
                Some(Frame::Message(message)) => {
                    self.server_message(message)?;
                    self.driver_messages()?;
                }
                Some(Frame::Part {
                    tag: b'd',
                    bytes,
                    ends,
                }) => self.rows_from_server(bytes, ends)?,
                Some(Frame::Part { .. }) if self.drops_server => {}
                Some(Frame::Part { bytes, .. }) => {
                    self.replay.spoil();
                    self.to_driver.extend_from_slice(bytes);
                }
            }
        }
    }

    /// Returns the rows that come now.
    fn rows(&self) -> Option<&Portal> {
        match self.expected.front() {
            Some(Expected::Rows(portal)) => Some(portal),
            Some(Expected::Query(query)) => query.result.as_ref(),
            _ => None,
        }
    }

    fn server_message(&mut self, message: &[u8]) -> Result<(), RelayError> {
        if self.replay.is_restoring() {
            return self.restore(message);
        }
        match message[0] {
            b'N' | b'A' => self.to_driver.extend_from_slice(message),
            b'S' => self.reported(message)?,
            b'Z' => self.ready(message),
            b'E' => self.error(message),
            b'D' => self.row(message)?,
            b'T' => self.description(message)?,
            b't' => self.parameters(message)?,
            b'n' => self.no_data(message)?,
            b'1' | b'2' | b'3' => self.one(message)?,
            b'G' => self.copy_in_begins(message)?,
            b'H' => self.copy_out_begins(message)?,
            b'c' => self.rows_ended(message)?,
            b'C' | b'I' | b's' => self.end_of_rows(message)?,
            _ => self.forward(message),
        }
        Ok(())
    }

    /// Takes a setting that the server reports.
    pub(super) fn reported(&mut self, message: &[u8]) -> Result<(), RelayError> {
        let mut reader = Reader::new(message);
        let (name, value) = (reader.string()?, reader.string()?);
        self.settings.set(name, value);
        self.times.set(name, value);
        self.to_driver.extend_from_slice(message);
        Ok(())
    }

    pub(super) fn forward(&mut self, message: &[u8]) {
        if !self.drops_server && !self.replay.gives(message) {
            self.to_driver.extend_from_slice(message);
        }
    }

    /// Takes the end of a cycle. Portals end with their transaction.
    fn ready(&mut self, message: &[u8]) {
        self.drops_server = false;
        if message.last() == Some(&b'I') && self.expected.len() <= 1 {
            self.portals.clear();
        }
        while let Some(expected) = self.expected.pop_front() {
            if matches!(expected, Expected::Ready | Expected::Query(_)) {
                break;
            }
        }
        self.forward(message);
        if self.expected.is_empty() {
            // Whatever the driver has set is reported by now.
            self.keys.set_times(self.times.clone());
        }
        self.is_idle(message.last() == Some(&b'I'));
    }

    /// Takes an error, after which the server answers nothing more up to `Sync`.
    fn error(&mut self, message: &[u8]) {
        self.copies.stop();
        let is_own = matches!(self.expected.front(), Some(Expected::Refused(_)));
        if !is_own && self.loses_session(message) {
            return;
        }
        let own = match self.expected.front_mut() {
            Some(Expected::Refused(error)) => Some(std::mem::take(error)),
            _ => None,
        };
        self.forward(own.as_deref().unwrap_or(message));
        if own.is_some() {
            self.expected.pop_front();
        }
        if let Some(Expected::Query(_)) = self.expected.front() {
            return;
        }
        let is_ready = |it: &Expected| matches!(it, Expected::Ready);
        let end = self.expected.iter().position(is_ready);
        let skipped: Vec<Expected> = self
            .expected
            .drain(..end.unwrap_or(self.expected.len()))
            .collect();
        // The server takes nothing more before the driver's `Sync`.
        self.drops_driver |= end.is_none();
        skipped.into_iter().rev().for_each(|it| self.undo(it));
    }

    /// Gives a name back that a skipped message would have changed, unless a later one has it.
    pub(super) fn undo(&mut self, skipped: Expected) {
        match skipped {
            Expected::Parsed(named) => self.statements.undo_parse(named),
            Expected::Closed(name, Some(before)) => self.statements.undo_close(name, before),
            _ => {}
        }
    }

    /// Takes `ParseComplete`, `BindComplete` or `CloseComplete`.
    fn one(&mut self, message: &[u8]) -> Result<(), RelayError> {
        let tag = message[0];
        let is_it = match self.expected.front() {
            Some(Expected::Parsed(..)) => tag == b'1',
            Some(Expected::Closed(..)) => tag == b'3',
            Some(Expected::One(one)) => tag == *one,
            _ => false,
        };
        if !is_it {
            return Err(RelayError::Unasked(tag));
        }
        if let Some(Expected::Parsed(named)) = self.expected.pop_front() {
            self.statements.parsed(named);
        }
        self.forward(message);
        Ok(())
    }

    /// Takes what ends the rows of one statement.
    fn end_of_rows(&mut self, message: &[u8]) -> Result<(), RelayError> {
        let statement = match self.expected.front() {
            Some(Expected::Rows(portal)) => Some(&portal.statement),
            Some(Expected::Query(query)) => Some(&query.statement),
            _ => None,
        };
        if message.get(wire::HEADER..) == Some(b"DISCARD ALL\0") {
            self.replay.discarded();
        }
        let names = |it: &Arc<Statement>| Some((it.deallocates.clone()?, it.number));
        let deallocates = statement
            .filter(|_| is_deallocation(message))
            .and_then(names);
        if let Some((name, number)) = deallocates {
            self.statements.deallocated(&name, number);
        }
        if self.copies.takes_rows() {
            return Err(RelayError::Unasked(message[0])); // The driver has not ended its rows.
        }
        if let Some(Expected::Rows(_)) = self.expected.front() {
            self.expected.pop_front();
        }
        self.forward(message);
        Ok(())
    }

    fn row(&mut self, message: &[u8]) -> Result<(), RelayError> {
        let Some(portal) = self.rows() else {
            return Err(RelayError::Unasked(b'D'));
        };
        let (columns, keys) = (portal.encrypted(), &*self.keys);
        let opened =
            columns.map(|columns| opened_row(message, portal, columns, (keys, self.settings)));
        match opened.transpose() {
            Ok(Some(row)) => self.forward(&row),
            Ok(None) => self.forward(message),
            Err(refusal) => {
                self.keys.note(Event::Refused(refusal.sqlstate()));
                self.forward(&refusal.response());
                self.drops_server = true;
            }
        }
        Ok(())
    }

    fn description(&mut self, message: &[u8]) -> Result<(), RelayError> {
        // A cursor of SQL's has formats of its own.
        let given = match self.expected.front() {
            Some(Expected::Portal(portal)) if portal.given != portal.formats => {
                Some(portal.given.as_slice())
            }
            _ => None,
        };
        let described = wire::describe_plain(message, &self.catalog, given)?;
        let is_hidden = match self.expected.front_mut() {
            Some(Expected::Statement { of, is_hidden }) => {
                _ = of.columns.set(described.columns);
                let is_hidden = *is_hidden;
                self.expected.pop_front();
                is_hidden
            }
            Some(Expected::Portal(portal)) => {
                _ = portal.statement.columns.set(described.columns);
                self.expected.pop_front();
                false
            }
            // Each statement of a simple query has its own.
            Some(Expected::Query(query)) => {
                query.result = Some(Portal::of_query(described.columns, described.formats));
                false
            }
            _ => return Err(RelayError::Unasked(b'T')),
        };
        if !is_hidden {
            self.forward(&described.message);
        }
        Ok(())
    }

    /// Takes the types of a statement's parameters; the description of its columns follows. The
    /// driver is told plain types, and those that it declared as it did.
    fn parameters(&mut self, message: &[u8]) -> Result<(), RelayError> {
        let Some(Expected::Statement { of, is_hidden }) = self.expected.front() else {
            return Err(RelayError::Unasked(b't'));
        };
        let types = Reader::new(message).list(Reader::int32)?;
        _ = of.told.set(types.clone());
        let plain = |(at, oid): (usize, &u32)| {
            let declared = of.declared.get(at).copied().filter(|oid| *oid != 0);
            let known = match (declared, of.parameters.get(at)) {
                (Some(declared), _) => Some(declared),
                (None, Some(Parameter::Cells(cells, Conversion { by: Some(by), .. }))) => {
                    values::oid_of_cast(*by, cells)
                }
                (None, Some(Parameter::OnlyNull(by))) => {
                    let ty = by.map_or(Type::Text, Cast::ty);
                    plain_oid(&Cells::mixed(self.catalog.default_key()).of(ty))
                }
                _ => self.catalog.type_of(*oid).and_then(plain_oid),
            };
            known.unwrap_or(*oid)
        };
        let plain: Vec<u32> = types.iter().enumerate().map(plain).collect();
        if !*is_hidden && plain == types {
            // As it came: the count of more than 65,535 is not that of the types.
            self.forward(message);
        } else if !*is_hidden {
            let mut writer = Writer::new(b't');
            writer.int16(u16::try_from(plain.len()).unwrap_or(u16::MAX));
            plain.iter().for_each(|oid| _ = writer.int32(*oid));
            let message = writer.end()?;
            self.forward(&message);
        }
        Ok(())
    }

    fn no_data(&mut self, message: &[u8]) -> Result<(), RelayError> {
        match self.expected.pop_front() {
            Some(Expected::Statement {
                is_hidden: true, ..
            }) => {}
            Some(Expected::Statement { .. } | Expected::Portal(_)) => self.forward(message),
            _ => return Err(RelayError::Unasked(b'n')),
        }
        Ok(())
    }
}

/// Returns a row with what its cells hold.
fn opened_row(
    message: &[u8],
    portal: &Portal,
    columns: &Columns,
    (keys, settings): (&dyn Keys, Settings),
) -> Result<Vec<u8>, Refusal> {
    let values = Reader::new(message).list(Reader::value)?;
    let mut writer = Writer::new(b'D');
    writer.int16(u16::try_from(values.len()).unwrap_or(u16::MAX));
    for (at, value) in values.iter().enumerate() {
        match (value, columns.get(at)) {
            (Some(bytes), Some(Some(cells))) => {
                let formats = (
                    wire::format_of(&portal.formats, at),
                    wire::format_of(&portal.given, at),
                );
                let plain = values::opened(bytes, formats, cells, keys)?;
                if formats.1 != values::BINARY || cells.ty.is_none_or(|ty| ty == Type::Text) {
                    settings.check_result(&plain)?;
                }
                writer.value(Some(&plain))?;
            }
            (value, _) => _ = writer.value(*value)?,
        }
    }
    Ok(writer.end()?)
}

/// Whether this is the completion of DEALLOCATE or DISCARD.
fn is_deallocation(message: &[u8]) -> bool {
    let tag = message.get(5..).unwrap_or_default();
    message[0] == b'C' && (tag.starts_with(b"DEALLOCATE") || tag.starts_with(b"DISCARD"))
}
