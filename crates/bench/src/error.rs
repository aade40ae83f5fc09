//! Why a benchmark ended: one sentence for the operator each. Exit codes are the command's matter.

use std::io;
use std::path::PathBuf;

use crate::compare::Incomparable;

/// An error that ends a recipe or its preparation.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Asked for something that cannot be.
    #[error("{0}")]
    Usage(String),
    /// PostgreSQL refuses it, too.
    #[error("PostgreSQL's servers do not run as root: run it as the user that will own the files, as in setpriv --reuid=postgres --regid=postgres --init-groups pgseal bench …")]
    Root,
    /// Two at once would measure each other.
    #[error("another pgseal bench runs on this machine, and each would disturb the other: wait until it has ended")]
    Busy,
    /// Too little disk or memory, computed before anything is made.
    #[error("{0}")]
    Needs(String),
    /// Files of its own.
    #[error("{0}: {1}: fix it, or choose another directory with --data")]
    Files(PathBuf, io::Error),
    /// A program cannot be started at all.
    #[error("{0} cannot be started ({1}): check that it is there, and --pg")]
    Start(PathBuf, io::Error),
    /// A program failed; its last lines, and the server's.
    #[error("{program} failed ({status}):\n{output}")]
    Program {
        /// Its name.
        program: String,
        /// As the system says it.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// A server ended by itself.
    #[error("the server of {contender} ended by itself ({status}); its log ends with:\n{log}")]
    ServerDied {
        /// The contender's name.
        contender: String,
        /// As the system says it.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// A load ended within the time of a client that does nothing.
    #[error("\"{0}\" takes no longer than a client that does nothing, so its time cannot be measured: make the load larger, for example with --megabytes")]
    TooShort(String),
    /// A query has another result on encrypted columns.
    #[error("the result of \"{query}\" on {variant} differs from that on plain columns:\n{rows}")]
    Differs {
        /// Its name.
        query: String,
        /// The contender's name.
        variant: String,
        /// The first rows that differ.
        rows: String,
    },
    /// Ctrl-C, or SIGTERM.
    #[error("interrupted")]
    Interrupted,
    /// The results could not be stored.
    #[error("{0} cannot be written ({1}): the figures are on standard output only")]
    Report(PathBuf, io::Error),
    /// Standard output has no reader, or it is full.
    #[error("standard output cannot be written ({0}): `pgseal bench report` shows again what --json keeps")]
    Output(io::Error),
    /// Two reports that have nothing in common.
    #[error(transparent)]
    Incomparable(#[from] Incomparable),
    /// A file given to `compare` or `report`.
    #[error("{0} is not a report of pgseal bench ({1}): give a file that --json wrote")]
    NotAReport(PathBuf, String),
}

/// An I/O error of a path.
pub fn files(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> BenchError {
    let path = path.into();
    |error| BenchError::Files(path, error)
}
