//! Receivers: who is given clear pages and WAL by an encrypted server (docs/format/receiver.md).
//!
//! A connection says what it is in `pgseal.receiver`, which it can set at its start only: a token
//! that somebody with the master key made, or the word `raw`. A bad token ends a walsender; any
//! other session is told, and goes on without. A walsender that shows nothing may ask
//! (IDENTIFY_SYSTEM) and runs no physical replication; a raw one gives base backups of what is
//! stored. Logical replication is SQL's business and stays free.
//!
//! How the server is gated without a change to it: [`session`] takes `ClientAuthentication_hook`,
//! defines the setting, and decides when the connection's start-up transaction commits, because
//! its options have been read by then. What each command may do is pure ([`command`]). Three
//! places ask before anything of a command leaves the process ([`guard`]): `gettimeofday`, which
//! a walsender calls when it reports a command's start, so that a refusal is a message; `send`, for
//! certain; and `open`, for the files of a base backup. No gate on files alone would do: 17 and 18
//! send WAL from shared memory. [`shown`] remembers who was admitted, for SQL.
//!
//! Invariants:
//! 1. A process that cannot say what it is counts as unproven: a hook that somebody else took
//!    away opens nothing.
//! 2. Processes that are no walsenders pay one relaxed load a call.
//! 3. No error is raised through Rust frames: only FATAL, which ends the process.

pub mod command;
pub mod guard;
pub mod postgres;
mod session;
pub mod shown;

use crate::process::{Connection, PROCESS};
use crate::server;
pub use session::own_cluster;
use std::ffi::CStr;

/// Called once, before `main`.
pub fn start() {
    if PROCESS.is_server() && postgres::find() {
        PROCESS.set_connection(Connection::Undecided);
        shown::start();
        session::install();
    }
}

/// Is a file given as it is stored to whatever opens it as a stream? `pg_read_binary_file` and COPY
/// do, in sessions and in workers; the server opens its tables and WAL otherwise. It reads
/// statistics so: in the startup process, which runs no SQL, and in the postmaster.
///
/// This asks for no path: whatever a name leads to when it is opened, the stream gives what is
/// stored.
pub fn hides_from_sql() -> bool {
    let Some(server) = postgres::server() else {
        return false;
    };
    let gated = !matches!(
        PROCESS.connection(),
        Connection::Off | Connection::Trusted | Connection::Clear
    );
    gated
        && is_child(server)
        && !server::backend_is(c"startup")
        && !session::works_for_trusted(server)
}

/// Does SQL decide what this process opens, renames and removes? Not in the processes that look
/// after the cluster's own files.
pub fn runs_sql() -> bool {
    const OTHERS: [&CStr; 4] = [c"startup", c"checkpointer", c"archiver", c"walreceiver"];
    let serves = || postgres::server().is_some_and(is_child);
    PROCESS.connection() != Connection::Off
        && serves()
        && !OTHERS.into_iter().any(server::backend_is)
}

/// Has the postmaster started this process?
fn is_child(server: &postgres::Server) -> bool {
    // SAFETY: the flag is the server's own.
    unsafe { *server.IsUnderPostmaster }
}

/// Can this server be gated? A server that exports too little is not run on a sealed cluster.
pub fn can_gate() -> bool {
    PROCESS.connection() != Connection::Off
}
