//! The transports to an evaluator: the engine in this process, or the process behind a socket.

use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use pgseal_evaluator::client::{Ends, Life, Ring};
use pgseal_evaluator::engine::{most_memory, CollationId, Config, Connection, Engine};
use pgseal_evaluator::evidence::Software;
use pgseal_evaluator::os;
use pgseal_evaluator_proto::ring::MAX_MESSAGE;
use pgseal_evaluator_proto::{Collation, Refusal};

use crate::shell::Failure;

/// The number of cells that a backend keeps open, and of aggregates that it may have at once.
const CACHE: usize = 4096;
const STATES: usize = 1 << 20;

/// Where requests go.
pub(crate) enum Transport {
    None,
    Inline(Box<Inline>),
    Isolated(Box<Isolated>),
}

impl Transport {
    /// Asks for the memory that a request of so many bytes takes, before it is made.
    pub(crate) fn room(&self, request: usize) -> Result<(), Refusal> {
        let bytes = match self {
            Self::None => 0,
            Self::Inline(_) => return Inline::room(request),
            Self::Isolated(_) if request > MAX_MESSAGE => return Err(Refusal::TooLarge),
            Self::Isolated(_) => request + MAX_MESSAGE,
        };
        os::has_room(bytes)
            .then_some(())
            .ok_or(Refusal::OutOfMemory)
    }

    /// Answers one request, in place of what `response` held.
    pub(crate) fn call(&mut self, request: &[u8], response: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::None => Err(Refusal::EvaluatorAbsent.into()),
            Self::Inline(inline) => {
                inline.call(request, response);
                Ok(())
            }
            Self::Isolated(isolated) => isolated.call(request, response),
        }
    }
}

/// The engine in this process.
pub(crate) struct Inline {
    pub(crate) connection: Connection,
    /// The locale that was asked for last: nearly always the next one too.
    last: Option<(String, CollationId)>,
}

impl Inline {
    /// Asks for memory as [`Transport::room`] does.
    #[inline]
    pub(crate) fn room(request: usize) -> Result<(), Refusal> {
        let is_there = os::has_room(most_memory(request));
        is_there.then_some(()).ok_or(Refusal::OutOfMemory)
    }

    pub(crate) fn new() -> Self {
        os::route_crypto();
        let engine = Engine::new(Config {
            evidence: Box::new(Software),
            collation: os::collation,
            inline: true,
            cache: CACHE,
            states: STATES,
            pages: 0,
            connections: usize::MAX,
            memory: usize::MAX,
            logs: false,
        });
        let mut connection = engine.connect();
        connection.set_time(now());
        Self {
            connection,
            last: None,
        }
    }

    fn call(&mut self, request: &[u8], response: &mut Vec<u8>) {
        self.connection.call(request, response);
        // No log is kept here, and events must not pile up in a backend that lives for days.
        if self.connection.has_news() {
            drop(self.connection.take_events());
        }
    }

    #[inline]
    pub(crate) fn collation(&mut self, collation: Collation<'_>) -> Result<CollationId, Refusal> {
        let Collation::Libc(name) = collation else {
            return Ok(CollationId::C);
        };
        match &self.last {
            Some((last, id)) if last == name => Ok(*id),
            _ => {
                let id = self.connection.collation(collation)?;
                self.last = Some((name.to_owned(), id));
                Ok(id)
            }
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The process behind a socket.
pub(crate) struct Isolated {
    ring: Ring,
    interrupts: Interrupts,
}

/// The flags that PostgreSQL's signal handlers set when a query or a backend is to end.
#[derive(Clone, Copy)]
pub(crate) struct Interrupts {
    pub(crate) cancel: &'static AtomicI32,
    pub(crate) die: &'static AtomicI32,
}

impl Interrupts {
    /// Returns whether neither is to end.
    pub(crate) fn go_on(self) -> bool {
        self.cancel.load(Relaxed) == 0 && self.die.load(Relaxed) == 0
    }
}

impl Isolated {
    pub(crate) fn connect(socket: &Path, interrupts: Interrupts) -> Result<Self, Refusal> {
        let ring = Ring::connect_while(socket, || interrupts.go_on())?;
        Ok(Self { ring, interrupts })
    }

    /// Goes on with a connection that another process has begun.
    pub(crate) fn over(ends: Ends, interrupts: Interrupts) -> Result<Self, Refusal> {
        let ring = Ring::over(ends)?;
        Ok(Self { ring, interrupts })
    }

    /// Returns false if the evaluator has gone: whatever it held is gone too.
    pub(crate) fn is_open(&self) -> bool {
        self.ring.is_open()
    }

    /// Returns the connection's life for the workers, by [`Ring::life`].
    pub(crate) fn life(&self) -> Result<Life, Refusal> {
        self.ring.life().map_err(|_| Refusal::EvaluatorAbsent)
    }

    fn call(&mut self, request: &[u8], response: &mut Vec<u8>) -> Result<(), Failure> {
        let goes_on = || self.interrupts.go_on();
        Ok(self.ring.call(request, response, goes_on)?)
    }
}

/// The session ends with its backend's side, also while the thread that waits for workers has a
/// [`Life`] of the connection.
impl Drop for Isolated {
    fn drop(&mut self) {
        self.ring.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_inline_does_not_pile_up() {
        let mut inline = Inline::new();
        inline.call(b"no request", &mut Vec::new());
        assert!(!inline.connection.has_news() && !inline.connection.has_events());
    }
}
