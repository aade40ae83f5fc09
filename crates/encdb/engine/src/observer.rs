//! Events of connections, for a program that counts them. No event holds a value or a statement.

/// Something that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The driver had a statement run.
    Statement,
    /// A value became a cell.
    Sealed,
    /// A cell became a value.
    Opened,
    /// A statement was refused with this SQLSTATE, or a cell could not be opened.
    Refused(&'static str),
    /// An owner's session was opened.
    Session,
    /// An owner's session could not be opened.
    NoSession,
}

/// A program that is told of events.
pub trait Observer: Send + Sync {
    /// Takes an event.
    fn note(&self, event: Event);
}

/// A program that counts nothing.
pub(crate) struct Nobody;

impl Observer for Nobody {
    fn note(&self, _: Event) {}
}
