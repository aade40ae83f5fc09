//! The point where a walsender's command is judged before anything of it leaves the process.

use super::command::{is_base_backup, judge, Refusal};
use super::postgres::{fatal, report_to_client, server, Server};
use super::session::{has_key_file, HINT};
use crate::policy::Opens;
use crate::process::{Connection, PROCESS};
use crate::real::{self, libc_call};
use crate::{habits, rebind, report};
use libc::{c_int, c_void, size_t, ssize_t, timeval};
use std::ffi::CStr;

/// The refusal of a raw base backup without a key file. It is looked for here: `command` is pure.
const NO_KEY_FILE: Refusal = "pg_encryption/key.bin of this cluster is missing or cannot be read, \
    and nobody could open the backup without it: restore key.bin from a copy, or dump the \
    databases before the server stops";

/// The server calls this when it reports that a command begins, before the command does anything:
/// the one place where a refusal can be told to the client. Without `track_activities` it is not
/// called there, and might be called anywhere else: then `send` refuses. Walsenders alone come here
/// ([`watch`]), because sessions ask for the time often.
unsafe extern "C" fn gettimeofday(time: *mut timeval, zone: *mut c_void) -> c_int {
    if is_watched(PROCESS.connection()) {
        refuse_with_a_message();
    }
    // SAFETY: libc's own function gets the arguments that gettimeofday(2)'s caller passed.
    unsafe { libc::gettimeofday(time, zone.cast()) }
}

/// Makes this process, a walsender, judge its commands from now on.
pub fn watch() {
    // SAFETY: a server's process has one thread; the hook has the type of its libc function.
    unsafe { rebind::lead(c"gettimeofday", gettimeofday as *const c_void) };
}

/// All that a server sends goes through here, encrypted or not.
pub unsafe fn send(socket: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    if PROCESS.connection() != Connection::Off && refuses_to_send() {
        real::set_errno(libc::EPIPE);
        return -1;
    }
    libc_call!(send(socket, buf, len, flags))
}

/// Is this a walsender whose commands are judged?
pub fn is_watched(state: Connection) -> bool {
    matches!(
        state,
        Connection::Unproven | Connection::Raw | Connection::Clear
    )
}

#[cold]
fn refuse_with_a_message() {
    let Some(server) = server() else { return };
    // SAFETY: the variables are the server's own. In a critical section FATAL would be PANIC.
    let possible = unsafe { *server.pgstat_track_activities && *server.CritSectionCount == 0 };
    if let (true, Err(reason)) = (
        possible,
        verdict(server).and_then(|()| key_goes_along(server)),
    ) {
        let hint = if PROCESS.connection() == Connection::Unproven {
            HINT
        } else {
            c""
        };
        PROCESS.set_connection(Connection::Ending);
        // Stock receivers drop the text of an error that ends the connection, but print notices.
        report_to_client(reason, hint);
        fatal(reason, hint);
    }
}

/// Also in a walsender that no hook of ours has seen: it counts as unproven.
fn refuses_to_send() -> bool {
    let (state, Some(server)) = (PROCESS.connection(), server()) else {
        return false;
    };
    // SAFETY: the flag is the server's own.
    let unseen = state == Connection::Undecided && unsafe { *server.am_walsender };
    if state == Connection::Cut {
        return true;
    }
    if !unseen && !is_watched(state) {
        return false;
    }
    let Err(reason) = verdict(server) else {
        return false;
    };
    PROCESS.set_connection(Connection::Cut);
    report::line(reason);
    true
}

/// May the command that runs now run?
fn verdict(server: &Server) -> Result<(), Refusal> {
    current_command(server).map_or(Ok(()), |command| {
        judge(PROCESS.connection(), command.to_bytes())
    })
}

/// A raw base backup is worth as much as the key file in it.
fn key_goes_along(server: &Server) -> Result<(), Refusal> {
    let backs_up = |command: &CStr| is_base_backup(command.to_bytes());
    let raw =
        PROCESS.connection() == Connection::Raw && current_command(server).is_some_and(backs_up);
    match raw && !has_key_file() {
        true => Err(NO_KEY_FILE),
        false => Ok(()),
    }
}

fn current_command(server: &Server) -> Option<&'static CStr> {
    // SAFETY: the server's own variable is null, or the text of the command that runs.
    unsafe {
        let text = *server.debug_query_string;
        (!text.is_null()).then(|| CStr::from_ptr(text))
    }
}

/// How is `path` opened here? One walsender reads catalogs and sends a backup, so each opening is
/// judged, not the process.
pub fn opens(path: &CStr, flags: c_int) -> Opens {
    if !is_watched(PROCESS.connection()) || flags & libc::O_ACCMODE != libc::O_RDONLY {
        return Opens::Usual;
    }
    if !habits::is_backups_name(path.to_bytes()) {
        return Opens::Usual;
    }
    in_backup()
}

/// Is a raw base backup at work, for which the key directory is an ordinary one?
pub fn shows_key_directory() -> bool {
    is_watched(PROCESS.connection()) && in_backup() == Opens::Raw
}

fn in_backup() -> Opens {
    let Some(server) = server() else {
        return Opens::Refused;
    };
    match current_command(server).filter(|command| is_base_backup(command.to_bytes())) {
        None => Opens::Usual,
        Some(command) => match (
            judge(PROCESS.connection(), command.to_bytes()),
            PROCESS.connection(),
        ) {
            (Err(_), _) => Opens::Refused,
            // Asked for each file: it may have been lost since, and is asked for nowhere else if
            // the server does not track its activities.
            (Ok(()), Connection::Raw) if has_key_file() => Opens::Raw,
            (Ok(()), Connection::Raw) => Opens::Refused,
            (Ok(()), _) => Opens::Usual,
        },
    }
}
