//! What a connection says of itself to a sealed primary: `-c pgseal.receiver=<word>`.
//!
//! The word is `raw`, or a token that lets this receiver have clear pages because it will store
//! them sealed. A twin that knows the word hands it over ([`GIVEN`]); walreceiver and pg_rewind,
//! whose cluster shares its primary's key, make a token of their own at each connection.
//!
//! psql stores no copy: what it asks over a physical replication connection, it asks as raw.
//!
//! pg_basebackup that writes a tar connects twice: once for pages, as raw, and once, while the
//! backup runs, for the WAL that is sealed on its way into a tar of its own ([`WAL`]).
//!
//! A token is for one role, and only libpq knows the role that it will connect as: it is asked.
//!
//! Invariants: a caller who declares something himself is left alone, unless his program stores
//! what it gets as it comes: then our raw stands after his word, and counts. PostgreSQL sees
//! options without our word ([`withdraw`]): it would write them into `primary_conninfo`, where
//! an expired token would stay.

use crate::{clusters, control, libpq, programs, rebind, server};
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The word that a twin found out. A token is no key, but lets its bearer in.
const GIVEN: &CStr = c"PGSEAL_RECEIVER";
/// The same, out of `/proc/PID/environ`.
static TAKEN: OnceLock<CString> = OnceLock::new();
/// The word for the connection that brings the WAL into a tar.
const WAL: &CStr = c"PGSEAL_WAL_RECEIVER";
static TAKEN_FOR_WAL: OnceLock<CString> = OnceLock::new();
/// Has the backup begun? Its own connection was made before.
static BACKUP_RUNS: AtomicBool = AtomicBool::new(false);
/// The setting that carries the word.
const SETTING: &str = "pgseal.receiver=";
/// The program that asks.
const ASKS: &str = "psql";
/// What takes ciphertext.
const RAW: &str = "raw";
/// How long a token may be used to connect, in seconds; the connection may last longer.
const LIFETIME: u64 = 3600;

/// Takes the words out of the environment. Called once, before `main`.
pub fn start() {
    if let Some(setting) = server::take_out(GIVEN) {
        let _ = TAKEN.set(setting);
    }
    if let Some(setting) = server::take_out(WAL) {
        let _ = TAKEN_FOR_WAL.set(setting);
        // SAFETY: before `main`; the type of libpq-fe.h.
        unsafe { rebind::lead(c"PQsendQuery", send_query as *const c_void) };
    }
}

/// Notes that the backup begins. If this is never called, the second connection is raw as well, and
/// gets no WAL.
unsafe extern "C" fn send_query(connection: libpq::Connection, query: *const c_char) -> c_int {
    type SendQuery = unsafe extern "C" fn(libpq::Connection, *const c_char) -> c_int;
    // SAFETY: the caller's C string; libpq's function with the caller's arguments.
    unsafe {
        if !query.is_null() && CStr::from_ptr(query).to_bytes().starts_with(b"BASE_BACKUP") {
            BACKUP_RUNS.store(true, Ordering::Relaxed);
        }
        match libpq::function::<SendQuery>(c"PQsendQuery") {
            Some(send) => send(connection, query),
            None => 0,
        }
    }
}

/// The options to connect with instead of the caller's, if there is a word to add.
pub fn options(parameters: &libpq::Parameters) -> Option<CString> {
    let given = given();
    let asks = given.is_none() && programs::is(ASKS) && parameters.mention("replication");
    if given.is_none() && !asks && !receives_for_its_cluster() {
        return None;
    }
    let libpq::Resolved {
        role,
        options,
        replication,
    } = parameters.resolve()?;
    let declares = options
        .windows(SETTING.len())
        .any(|part| part == SETTING.as_bytes());
    let overrides = TAKEN_FOR_WAL.get().is_some() || given == Some(RAW.as_bytes());
    if declares && !overrides || asks && !is_physical(&replication) {
        return None;
    }
    let word = match given {
        Some(word) => word.to_owned(),
        None if asks => RAW.as_bytes().to_owned(),
        None => own_token(&role)?,
    };
    CString::new([&options, prefix().as_bytes(), &escaped(&word)].concat()).ok()
}

/// Does this process connect in a way that may need our word?
pub fn applies() -> bool {
    programs::acts() || programs::is(ASKS)
}

/// libpq's parameter, in the spellings that the server takes for true.
fn is_physical(replication: &[u8]) -> bool {
    let yes: [&[u8]; 4] = [b"1", b"on", b"true", b"yes"];
    yes.iter()
        .any(|word| word.eq_ignore_ascii_case(replication))
}

/// Takes our word out of `options`, where it is the last.
///
/// # Safety
/// `options` is a C string that the caller may change.
pub unsafe fn withdraw(options: *mut c_char) {
    // SAFETY: as above.
    let text = unsafe { CStr::from_ptr(options) }.to_bytes();
    let prefix = prefix();
    let at = text
        .windows(prefix.len())
        .rposition(|part| part == prefix.as_bytes());
    if let Some(at) = at.filter(|_| given().is_some() || receives_for_its_cluster()) {
        // SAFETY: within the string, which gets shorter.
        unsafe { *options.add(at) = 0 };
    }
}

/// Two blanks tell it from what people write.
fn prefix() -> String {
    format!("  -c {SETTING}")
}

/// A server outlives every word that was in its environment when it started.
fn given() -> Option<&'static [u8]> {
    let for_wal = TAKEN_FOR_WAL.get();
    let word = match for_wal.filter(|_| BACKUP_RUNS.load(Ordering::Relaxed)) {
        Some(word) => word,
        None => TAKEN.get()?,
    };
    let setting = word.to_bytes();
    let word = setting.iter().position(|&byte| byte == b'=')? + 1;
    setting.get(word..).filter(|_| !programs::is_server())
}

/// Does this process write what it receives into the one cluster whose key it holds?
fn receives_for_its_cluster() -> bool {
    programs::is("pg_rewind") || server::backend_is(c"walreceiver")
}

fn own_token(role: &[u8]) -> Option<Vec<u8>> {
    let cluster = clusters::sole()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let expiry = now.as_secs() + LIFETIME;
    let system_id = control::system_id(cluster)?;
    Some(cluster.token(system_id, role, expiry))
}

/// In libpq's options a backslash makes the next character part of the word.
fn escaped(word: &[u8]) -> Vec<u8> {
    let special = |byte: &u8| *byte == b'\\' || byte.is_ascii_whitespace();
    let each = word.iter().flat_map(|byte| {
        let escape = special(byte).then_some(b'\\');
        escape.into_iter().chain([*byte])
    });
    each.collect()
}
