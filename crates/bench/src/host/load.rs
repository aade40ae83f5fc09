//! A client and its server, which alternate with others.
//!
//! A machine with neighbours changes from second to second, so what is compared runs in turns of a
//! tenth of one. While it is the turn of others, every process of the server is stopped where it is
//! (SIGSTOP); its client waits for an answer then, and keeps its sessions. Only the server's own
//! turns count as time. What it had asked the disk for goes on meanwhile, for all of them alike.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::host::cluster::Server;
use crate::host::process::Program;
use crate::host::Host;

const TURN: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(20);
/// The time that a client has to end once it is asked to.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client on a server that is paused when it is not its turn.
#[derive(Debug)]
pub struct Load<'l, 's> {
    server: &'l mut Server<'s>,
    command: Command,
    /// None before the first turn.
    client: Option<Program>,
    ended: bool,
    ran: Duration,
}

/// The result of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// The text that the client printed.
    pub output: String,
    /// The sum of the times of its server's turns.
    pub seconds: f64,
}

impl<'l, 's> Load<'l, 's> {
    /// The client is started in the first turn.
    pub fn new(server: &'l mut Server<'s>, mut command: Command) -> Self {
        command.env("PGPORT", server.port());
        Self {
            server,
            command,
            client: None,
            ended: false,
            ran: Duration::ZERO,
        }
    }

    /// Has it run so long, or to its end?
    pub fn is_through(&self, time: Option<Duration>) -> bool {
        self.ended || time.is_some_and(|time| self.ran >= time)
    }

    /// Goes on for a turn.
    pub fn turn(&mut self) -> Result<(), BenchError> {
        let since = Instant::now();
        self.server.resume();
        let client = match self.client.take() {
            Some(client) => client,
            None => Program::start(&mut self.command)?,
        };
        self.ended = client.wait(TURN);
        let at_its_end = since.elapsed();
        self.server.pause();
        self.client = Some(client);
        self.ran += match self.ended {
            true => at_its_end,
            false => since.elapsed(),
        };
        Ok(())
    }

    /// Does something beside the client, which hears how long that has run.
    pub fn beside<T>(
        &mut self,
        act: impl FnOnce(Duration) -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let since = Instant::now();
        self.server.resume();
        let done = act(self.ran);
        self.server.pause();
        self.ran += since.elapsed();
        done.map_err(|error| self.server.explain(error))
    }

    /// Returns the sum of the times of the server's turns.
    pub fn ran(&self) -> Duration {
        self.ran
    }

    /// Asks a client to end that would go on by itself, and returns what it did.
    pub fn end(mut self, ask: impl FnOnce(&Program), host: &Host) -> Result<Done, BenchError> {
        let client = self.client.take().expect("it had its turns");
        if !self.ended {
            let since = Instant::now();
            ask(&client);
            self.server.resume();
            while !client.wait(LOOK) {
                if host.stop.is_set() || since.elapsed() > PATIENCE {
                    return Err(BenchError::Interrupted);
                }
            }
            self.ran += since.elapsed();
            self.server.pause();
        }
        let finished = client.finish()?.checked();
        let finished = finished.map_err(|error| self.server.explain(error))?;
        Ok(Done {
            output: format!("{}{}", finished.stdout, finished.stderr),
            seconds: self.ran.as_secs_f64(),
        })
    }
}
