//! Standard output, to which subcommands tell what they found or did.
//!
//! Nothing prints past this, because `println!` ends the process with an abort when it fails, in
//! the middle of whatever is going on. A reader that has gone (`pgseal verify … | head`) ends us as
//! it ends any filter; everything else that keeps a report from its reader is an error of its own.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use pgseal_keys::exit::{Code, Exit};
use serde::Serialize;

/// Why a result could not be told.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error("nobody reads standard output")]
    Closed,
    #[error("standard output cannot be written ({0}): make room or send it elsewhere, and run this again")]
    Write(io::Error),
    #[error("the command is done, but its report is lost, because standard output cannot be written ({0}): do not run it again")]
    Done(io::Error),
}

impl Exit for OutputError {
    fn code(&self) -> Code {
        match self {
            Self::Closed => Code::NoReader,
            Self::Write(_) | Self::Done(_) => Code::Io,
        }
    }
}

/// Prints what is said as it is, ends of lines included.
pub fn print(text: impl Display) -> Result<(), OutputError> {
    told(write(text))
}

/// Prints `text` after a change; if that fails, the error says that the change is made.
pub fn print_done(text: impl Display) -> Result<(), OutputError> {
    write(text).map_err(OutputError::Done)
}

/// A secret, which no text that is formatted leaves a copy of.
pub fn print_bytes(bytes: &[u8]) -> Result<(), OutputError> {
    told(write_bytes(bytes))
}

/// A report for people, or the same for machines.
pub fn report(report: &(impl Display + Serialize), as_json: bool) -> Result<(), OutputError> {
    match as_json {
        true => print(json(report)),
        false => print(report),
    }
}

/// Pretty, with the end of its last line.
pub fn json(report: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(report);
    let mut text = text.expect("plain data is JSON: its paths are lossy texts");
    text.push('\n');
    text
}

fn told(written: io::Result<()>) -> Result<(), OutputError> {
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => OutputError::Closed,
        _ => OutputError::Write(error),
    })
}

fn write_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

fn write(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{text}")?;
    out.flush()
}
