//! The word by which a connection declares itself to a sealed primary: `-c pgseal.receiver=<word>`.
//!
//! The word is `raw`, or a token that lets this receiver have clear pages because it will store
//! them sealed. A program that holds the primary's key makes its own token at each connection,
//! however long ago it started: walreceiver and pg_rewind from their cluster, others from what a
//! wrapper says of the server ([`OWN`]). Where the key is another one, the wrapper passes on a
//! token ([`GIVEN`]).
//!
//! psql stores no copy: what it asks over a physical replication connection, it asks as raw.
//!
//! pg_basebackup that writes a tar connects twice: once for pages, as raw, and once, while the
//! backup runs, for the WAL that is sealed on its way into a tar of its own ([`WAL`]).
//!
//! A token is for one role, and only libpq knows the role that it will connect as: it is asked.
//!
//! Invariants: a caller that declares something itself is left alone, unless its program stores
//! what it gets as it comes: then our `raw` follows its word, and counts. No matter whose token it
//! is, it goes over TLS or a local socket only ([`private`]): the server, which refuses it
//! elsewhere, sees only its own end of the connection. PostgreSQL sees options without our word
//! ([`withdraw`]): it would write them into `primary_conninfo`, where an expired token would stay.

mod words;

use crate::clusters::{self, Cluster};
use crate::process::PROCESS;
use crate::{control, libpq, programs, rebind, server};
use pgseal_contract::{receiver, variable};
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// The word that a wrapper found out, or [`OWN`]. A token is no key, but lets its bearer in.
const GIVEN: &CStr = variable::RECEIVER.as_c_str();
/// The word for the connection that brings the WAL into a tar.
const WAL: &CStr = variable::WAL_RECEIVER.as_c_str();
/// The word in place of a token, before the primary's system identifier: its key is at hand.
const OWN: &[u8] = b"own.";
/// The program that asks.
const ASKS: &str = "psql";
/// How TLS is asked for.
const SSLMODE: &CStr = c"sslmode";
/// The word of a receiver that takes ciphertext.
const RAW: &str = receiver::RAW.as_str();
/// How long a token may be used to connect, in seconds; the connection may last longer.
const LIFETIME: u64 = receiver::LIFETIME;

/// Takes the words out of the environment. Called once, before `main`.
pub fn start() {
    if let Some(setting) = server::take_out(GIVEN) {
        let _ = PROCESS.taken_out.receiver.set(setting);
    }
    if let Some(setting) = server::take_out(WAL) {
        let _ = PROCESS.taken_out.wal_receiver.set(setting);
        // SAFETY: before `main`; the type of libpq-fe.h.
        unsafe { rebind::lead(c"PQsendQuery", send_query as *const c_void) };
    }
}

/// Notes that the backup begins. If this is never called, the second connection is raw as well, and
/// gets no WAL.
unsafe extern "C" fn send_query(connection: libpq::Connection, query: *const c_char) -> c_int {
    type SendQuery = unsafe extern "C" fn(libpq::Connection, *const c_char) -> c_int;
    // SAFETY: `query` is null or a C string that PQsendQuery's caller owns; libpq's own function
    // gets that caller's arguments.
    unsafe {
        if !query.is_null() && CStr::from_ptr(query).to_bytes().starts_with(b"BASE_BACKUP") {
            PROCESS.taken_out.backup_runs.store(true, Ordering::Relaxed);
        }
        match libpq::function::<SendQuery>(c"PQsendQuery") {
            Some(send) => send(connection, query),
            None => 0,
        }
    }
}

/// A connection parameter: keyword and value.
pub type Setting = (&'static CStr, CString);

/// Returns the parameters to connect with besides the caller's, which they override.
pub fn settings(parameters: &libpq::Parameters) -> Vec<Setting> {
    let Some(resolved) = parameters.resolve() else {
        return Vec::new();
    };
    let ours = options(&resolved);
    let said = ours.as_ref().unwrap_or(&resolved.options);
    let mut settings = Vec::new();
    let shows_token = words::declared(said).any(|word| word != RAW.as_bytes());
    // Without TLS libpq refuses even to read of it.
    if shows_token && (libpq::has_tls() || !parameters.are_local()) {
        settings.extend(private(&resolved));
    }
    let ours = ours.and_then(|options| CString::new(options).ok());
    settings.extend(ours.map(|options| (c"options", options)));
    settings
}

/// Returns the options to connect with instead of the caller's, if there is a word to add.
fn options(resolved: &libpq::Resolved) -> Option<Vec<u8>> {
    let given = given();
    let asks = given.is_none() && programs::is(ASKS) && is_physical(&resolved.replication);
    if given.is_none() && !asks && !receives_for_its_cluster() {
        return None;
    }
    let declares = words::declared(&resolved.options).next().is_some();
    let overrides = PROCESS.taken_out.wal_receiver.get().is_some() || given == Some(RAW.as_bytes());
    if declares && !overrides {
        return None;
    }
    let role = &resolved.role;
    let word = match (given, given.and_then(|word| word.strip_prefix(OWN))) {
        (_, Some(system_id)) => token(|_| decimal(system_id), role)?,
        (Some(word), None) => word.to_owned(),
        (None, _) if asks => RAW.as_bytes().to_owned(),
        (None, _) => token(control::system_id, role)?,
    };
    Some(words::declare(&resolved.options, &word))
}

/// Returns settings that keep a token, and the pages that it opens, from being read on the way.
/// Weaker modes fall back to clear text when an attacker says that the server has no TLS. libpq
/// heeds none of this on a local socket, if it was built with TLS. The server does not count GSS as
/// private; a caller that demands it is left to the server's refusal.
fn private(resolved: &libpq::Resolved) -> impl Iterator<Item = Setting> {
    let weak: [&[u8]; 3] = [b"disable", b"allow", b"prefer"];
    let tls = weak.contains(&&resolved.sslmode[..]);
    let no_gss = resolved.gssencmode == b"prefer";
    let tls = tls.then(|| (SSLMODE, c"require".to_owned()));
    let no_gss = no_gss.then(|| (c"gssencmode", c"disable".to_owned()));
    tls.into_iter().chain(no_gss)
}

/// Do we ask for TLS where the caller could do without?
pub fn raises_sslmode(settings: &[Setting]) -> bool {
    settings.iter().any(|(keyword, _)| *keyword == SSLMODE)
}

/// Does this process connect in a way that may need our word, or show a token of the caller's?
pub fn applies() -> bool {
    match PROCESS.is_server() {
        true => receives_for_its_cluster(),
        false => PROCESS.acts() || programs::is(ASKS),
    }
}

/// libpq's parameter, in the spellings that the server takes for true.
fn is_physical(replication: &[u8]) -> bool {
    let yes: [&[u8]; 4] = [b"1", b"on", b"true", b"yes"];
    yes.iter()
        .any(|word| word.eq_ignore_ascii_case(replication))
}

/// Takes our word out of `options`, and in walreceiver, which shows them to monitors, everybody's.
///
/// # Safety
/// `options` is a C string that the caller may change.
pub unsafe fn withdraw(options: *mut c_char) {
    // SAFETY: `options` is a C string, by this function's contract.
    let text = unsafe { CStr::from_ptr(options) }.to_bytes();
    let left = match PROCESS.is_server() {
        true if receives_for_its_cluster() => words::without_any(text),
        false if given().is_some() || receives_for_its_cluster() => {
            words::without_ours(text).to_vec()
        }
        _ => return,
    };
    // SAFETY: `left` is not longer than the string that it replaces.
    unsafe {
        ptr::copy_nonoverlapping(left.as_ptr().cast(), options, left.len());
        *options.add(left.len()) = 0;
    }
}

/// A server outlives every word that was in its environment when it started.
fn given() -> Option<&'static [u8]> {
    let words = &PROCESS.taken_out;
    let for_wal = words.wal_receiver.get();
    let word = match for_wal.filter(|_| words.backup_runs.load(Ordering::Relaxed)) {
        Some(word) => word,
        None => words.receiver.get()?,
    };
    let setting = word.to_bytes();
    let word = setting.iter().position(|&byte| byte == b'=')? + 1;
    setting.get(word..).filter(|_| !PROCESS.is_server())
}

/// Does this process write what it receives into the one cluster whose key it holds?
fn receives_for_its_cluster() -> bool {
    programs::is("pg_rewind") || server::backend_is(c"walreceiver")
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns a new token under the one key at hand.
fn token(system_id: impl Fn(&Cluster) -> Option<u64>, role: &[u8]) -> Option<Vec<u8>> {
    let cluster = clusters::sole()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let expiry = now.as_secs() + LIFETIME;
    Some(cluster.token(system_id(cluster)?, role, expiry))
}
