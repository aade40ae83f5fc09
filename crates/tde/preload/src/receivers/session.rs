//! A connection's start: the settings it may carry, and what it has proved.
//!
//! The setting is made in the postmaster, when it has its shared memory, and inherited: 15 sorts
//! all of its settings for each new one. `ClientAuthentication_hook` runs before the options of the
//! start-up packet are read; the transaction that InitPostgres commits after reading them is where
//! the verdict falls.

use super::guard;
use super::postgres::{fatal, server, warn, Server, GATE};
use super::shown::{self, Receiver};
use crate::clusters::Cluster;
use crate::disk::stored;
use crate::place::{self, Place};
use crate::process::{Connection, PROCESS};
use crate::real::libc_call;
use crate::server::setting;
use crate::settings;
use crate::settings::flags::{Flags, PGC_BACKEND, PGC_INTERNAL};
use libc::{c_char, c_int, c_void};
use pgseal_contract::{file, variable};
use pgseal_format::{hex, ReceiverToken, TokenId};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

/// The hint that says how a receiver may connect.
pub const HINT: &CStr =
    c"Connect with options='-c pgseal.receiver=TOKEN', a token of pgseal receiver \
    grant, for clear pages and WAL over TLS or a local socket, or with \
    options='-c pgseal.receiver=raw' for a base backup of what is stored, with its key file.";

const SESSION_HINT: &CStr = c"The session goes on without it, and reads sealed files as they are \
    stored: connect with options='-c pgseal.receiver=TOKEN', a token of pgseal receiver grant.";

/// The word of a receiver that takes ciphertext.
const RAW: &[u8] = b"raw";

/// Takes the hooks. Extensions that come later save ours and call them.
pub fn install() {
    let Some(server) = server() else {
        return;
    };
    let hooks = (GATE.next_authentication.lock(), GATE.next_startup.lock());
    if let (Ok(mut next), Ok(mut next_startup)) = hooks {
        // SAFETY: the variables are the server's own, and `main` has not begun.
        unsafe {
            *next = server
                .ClientAuthentication_hook
                .replace(Some(authenticated));
            *next_startup = server.shmem_startup_hook.replace(Some(memory_is_shared));
        }
    }
}

/// Defines the settings in the postmaster, at its start. After a crash of a process they are there.
unsafe extern "C" fn memory_is_shared() {
    let next = GATE.next_startup.lock().ok().and_then(|next| *next);
    if let Some(next) = next {
        // SAFETY: the server would call this other hook in the same way.
        unsafe { next() };
    }
    let Some(server) = server() else { return };
    match place::of(c"global/pg_control") {
        Place::Sealed(cluster, _) => {
            settings::define(server, Some(cluster));
            define_receiver(server);
        }
        Place::Clear => settings::define(server, None),
        Place::Denied(_) => {}
    }
}

unsafe extern "C" fn authenticated(port: *mut c_void, status: c_int) {
    let next = GATE.next_authentication.lock().ok().and_then(|next| *next);
    if let Some(next) = next {
        // SAFETY: the server would call this other hook with the same arguments.
        unsafe { next(port, status) };
    }
    const STATUS_OK: c_int = 0;
    if let (STATUS_OK, Some(server)) = (status, server()) {
        begin(server);
    }
}

fn begin(server: &'static Server) {
    if matches!(place::of(c"global/pg_control"), Place::Clear) {
        return PROCESS.set_connection(Connection::Off);
    }
    settings::define(server, own_cluster());
    define_receiver(server);
    // SAFETY: ProcessStartupPacket has set the variable, before authentication.
    if unsafe { *server.am_walsender } {
        define_key_file(server);
    }
    // SAFETY: the function that is registered has the right type, and stays.
    unsafe { (server.RegisterXactCallback)(options_are_read, std::ptr::null_mut()) };
}

/// Returns the sealed cluster that this server runs; its processes stand in the data directory.
pub fn own_cluster() -> Option<&'static Cluster> {
    match place::of(c"global/pg_control") {
        Place::Sealed(cluster, _) => Some(cluster),
        _ => None,
    }
}

/// Defines the setting once. A connection makes it itself only where an extension dropped our hook
/// in the postmaster.
fn define_receiver(server: &Server) {
    if GATE.is_defined.swap(true, Ordering::Relaxed) {
        return;
    }
    let flags = Flags::of_this_version();
    // SAFETY: the strings and variables stay; the hooks have the types of guc.h.
    unsafe {
        (server.DefineCustomStringVariable)(
            c"pgseal.receiver".as_ptr(),
            c"What this connection may receive of a sealed cluster: a token, or raw.".as_ptr(),
            std::ptr::null(),
            GATE.receiver.as_ptr(),
            c"".as_ptr(),
            PGC_BACKEND,
            flags.no_show_all | flags.disallow_in_file | flags.superuser_only,
            Some(from_client_only),
            None,
            None,
        );
    }
}

fn define_key_file(server: &Server) {
    let flags = Flags::of_this_version();
    // SAFETY: the strings and the variable stay; the hook has the type of guc.h.
    unsafe {
        (server.DefineCustomStringVariable)(
            c"pgseal.key_file".as_ptr(),
            c"The cluster's key file, with the wrapped key, in hexadecimal.".as_ptr(),
            std::ptr::null(),
            GATE.key_file.as_ptr(),
            c"".as_ptr(),
            PGC_INTERNAL,
            flags.no_show_all | flags.disallow_in_file,
            None,
            None,
            Some(show_key_file),
        );
    }
}

/// Lines in configuration files, on the server's command line and at roles and databases would
/// declare receivers that know nothing of it.
unsafe extern "C" fn from_client_only(
    _: *mut *mut c_char,
    _: *mut *mut c_void,
    source: c_int,
) -> bool {
    const PGC_S_DEFAULT: c_int = 0;
    const PGC_S_CLIENT: c_int = 9;
    matches!(source, PGC_S_DEFAULT | PGC_S_CLIENT)
}

/// Reads the file anew each time: a rotation replaces it.
unsafe extern "C" fn show_key_file() -> *const c_char {
    let text = own_cluster().and_then(key_file).unwrap_or_default();
    let text = CString::new(text).unwrap_or_default().into_raw();
    let last = GATE.shown.swap(text, Ordering::Relaxed);
    if !last.is_null() {
        // SAFETY: the pointer was made by `into_raw` above; the server copied the text when shown.
        drop(unsafe { CString::from_raw(last) });
    }
    text
}

/// Is there a key file that can be shown? Without one no program can open what is stored.
pub fn has_key_file() -> bool {
    let Some(path) = own_cluster().and_then(key_path) else {
        return false;
    };
    // SAFETY: the path is terminated.
    let readable = unsafe { libc::access(path.as_ptr(), libc::R_OK) } == 0;
    let has_content = |file: std::fs::Metadata| file.is_file() && file.len() > 0;
    readable && std::fs::metadata(OsStr::from_bytes(path.to_bytes())).is_ok_and(has_content)
}

fn key_path(cluster: &Cluster) -> Option<CString> {
    let path = [&cluster.root[..], b"/", file::KEY_PATH.as_str().as_bytes()].concat();
    CString::new(path).ok()
}

fn key_file(cluster: &Cluster) -> Option<Vec<u8>> {
    let path = key_path(cluster)?;
    let fd = libc_call!(open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0));
    let mut bytes = vec![0; pgseal_format::MAX_FILE];
    let len = libc_call!(read(fd, bytes.as_mut_ptr().cast(), bytes.len()));
    libc_call!(close(fd));
    let mut digits = Vec::new();
    hex::push(&mut digits, bytes.get(..usize::try_from(len).ok()?)?);
    Some(digits)
}

/// Gives the verdict at the first commit, which InitPostgres makes when it has read the
/// connection's options. The verdict holds as long as the connection: a session that is given clear
/// bytes now and stored ones later would take the one for the other.
unsafe extern "C" fn options_are_read(event: c_int, _: *mut c_void) {
    const XACT_EVENT_PRE_COMMIT: c_int = 5;
    let (Connection::Undecided, XACT_EVENT_PRE_COMMIT, Some(server)) =
        (PROCESS.connection(), event, server())
    else {
        return;
    };
    // SAFETY: ProcessStartupPacket has set the variable, before authentication.
    if unsafe { *server.am_walsender } {
        return admit_walsender(server);
    }
    PROCESS.set_connection(admit_session(server));
}

/// A session lives without trust, so a bad token does not end it: `PGOPTIONS` with an old one would
/// lock psql out. A user who counted on it must learn why the session is given what is stored.
fn admit_session(server: &Server) -> Connection {
    shown::enter(None);
    let Some(token) = given().filter(|word| *word != RAW) else {
        return Connection::Session;
    };
    match proven(server, token) {
        Ok(()) => {
            show(Some(token));
            Connection::Trusted
        }
        Err(reason) => {
            withdraw();
            warn(&reason, SESSION_HINT);
            Connection::Session
        }
    }
}

fn admit_walsender(server: &Server) {
    let verdict = match given() {
        None => Ok(Connection::Unproven),
        Some(RAW) => Ok(Connection::Raw),
        Some(token) => proven(server, token).map(|()| Connection::Clear),
    };
    match verdict {
        Ok(state) => {
            show(given().filter(|_| state != Connection::Unproven));
            guard::watch();
            PROCESS.set_connection(state);
        }
        Err(reason) => {
            PROCESS.set_connection(Connection::Ending);
            fatal(&reason, HINT);
        }
    }
}

/// Enters this connection into the table of receivers, by the word that it gave and that counts.
fn show(word: Option<&[u8]>) {
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    let receiver = word.map(|word| Receiver {
        pid,
        token: ReceiverToken::parse(word)
            .ok()
            .map(|token| (TokenId::of(word), token.expiry())),
    });
    shown::enter(receiver);
}

const NOTHING_SHOWN: &str =
    "this cluster is sealed, and the connection does not say what it may receive of it";

/// Returns the word that the connection gave, if it gave one.
fn given() -> Option<&'static [u8]> {
    let value = GATE.receiver.load(Ordering::Relaxed);
    if value.is_null() {
        return None;
    }
    // SAFETY: `value` is the setting's current value, which a connection cannot change any more.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    (!value.is_empty()).then_some(value)
}

/// Empties the setting, whose word has proved nothing: parallel workers inherit it.
fn withdraw() {
    let value = GATE.receiver.load(Ordering::Relaxed);
    if !value.is_null() {
        // SAFETY: `value` is the setting's current value, a C string in the server's own memory
        // that nobody else changes; a shorter one is a C string, too.
        unsafe { *value = 0 };
    }
}

/// Is this a parallel worker of a session that showed a good token? The server gives a worker its
/// leader's settings. Only a connection's start sets this one, and a leader keeps no token that has
/// proved nothing ([`withdraw`]).
pub fn works_for_trusted(server: &Server) -> bool {
    // SAFETY: exported by every supported server with this type (parallel.h): -1 in all others.
    let is_worker = unsafe { *server.ParallelWorkerNumber } >= 0;
    is_worker && given().is_some_and(|word| word != RAW)
}

/// May connections have clear pages, by what the operator set? What cannot be understood was meant
/// to forbid something.
fn switched_on(switch: &str) -> Result<(), String> {
    match switch {
        "" => Ok(()),
        "off" => Err("this server gives no clear pages: PGSEAL_RECEIVERS is off".to_owned()),
        other => Err(format!(
            "PGSEAL_RECEIVERS is `{other}` and cannot be understood: set it to `off`, or not at all"
        )),
    }
}

/// Does this token let this very connection have clear pages?
fn proven(server: &Server, token: &[u8]) -> Result<(), String> {
    let switch = std::env::var_os(variable::RECEIVERS.as_str()).unwrap_or_default();
    switched_on(&switch.to_string_lossy())?;
    let id = TokenId::of(token);
    let token = ReceiverToken::parse(token).map_err(|error| error.to_string())?;
    let cluster = own_cluster().ok_or(NOTHING_SHOWN)?;
    let role = setting(c"session_authorization").unwrap_or_default();
    // SAFETY: the function takes no arguments; the server has read its `pg_control`.
    let system_id = unsafe { (server.GetSystemIdentifier)() };
    let now = std::time::UNIX_EPOCH
        .elapsed()
        .map_or(u64::MAX, |age| age.as_secs());
    cluster
        .verify_token(&token, system_id, role.to_bytes(), now)
        .map_err(|error| error.to_string())?;
    not_revoked(cluster, id)?;
    if !is_private(server) {
        return Err("a receiver token counts over TLS or a local socket only: \
                    connect with sslmode=require"
            .to_owned());
    }
    Ok(())
}

/// Is this good token of `cluster` not revoked? No list revokes nothing; one that cannot be used
/// was meant to forbid something.
fn not_revoked(cluster: &Cluster, id: TokenId) -> Result<(), String> {
    let name = file::RECEIVER_LIST_PATH.as_str();
    let path = [&cluster.root[..], b"/", name.as_bytes()].concat();
    let list = CString::new(path).map_err(io::Error::from);
    let list = match list.and_then(|path| stored(&path, pgseal_format::MAX_LIST)) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => {
            return Err(format!(
                "{name} of this cluster cannot be read, so no token counts"
            ))
        }
    };
    match cluster.check_list(&list, id) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!(
            "the receiver token {id} is revoked: take a new one from pgseal receiver grant"
        )),
        Err(error) => Err(format!(
            "{name} of this cluster {error}, so no token counts: restore it from a copy"
        )),
    }
}

/// Is the connection one that no third party can read?
fn is_private(server: &Server) -> bool {
    // SAFETY: the port is set in every session; the socket is its first field (libpq-be.h).
    let (port, socket) = unsafe {
        let port = *server.MyProcPort;
        if port.is_null() {
            return false;
        }
        (port, *port.cast::<c_int>())
    };
    // SAFETY: the function is the server's, and gets the server's own connection.
    let tls = server
        .be_tls_get_version
        .is_some_and(|version| unsafe { !version(port).is_null() });
    tls || is_local(socket)
}

fn is_local(socket: c_int) -> bool {
    // SAFETY: getsockname fills as much as there is room for.
    unsafe {
        let mut name: libc::sockaddr_storage = std::mem::zeroed();
        let mut len = libc::socklen_t::try_from(size_of_val(&name)).unwrap_or(0);
        libc::getsockname(socket, (&raw mut name).cast(), &raw mut len) == 0
            && c_int::from(name.ss_family) == libc::AF_UNIX
    }
}
