//! libpq's ways to connect, led here ([`crate::rebind`]): a receiver declares itself to a sealed
//! primary ([`crate::declaration`]).
//!
//! Tools call libpq by their executables; of a server, walreceiver does by the module
//! libpqwalreceiver, which is loaded when it is needed.

use crate::libpq::{self, Connect, ConnectParams, Connection, Conninfo, Info, Parameters};
use crate::process::PROCESS;
use crate::rebind::{self, Object};
use crate::{declaration, report};
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::Ordering;

/// libpq says that TLS was required, and not by whom.
const TLS: &str = "a receiver token goes over TLS or a local socket only, so sslmode counts as \
    require: set ssl = on at the server, and connect with sslmode=verify-full";

/// The server's module that connects.
const MODULE: &[u8] = b"libpqwalreceiver.so";
/// The text for a libpq that was built without TLS.
const NO_TLS: &str = "a receiver token goes over TLS or a local socket only, and this program's \
    libpq was built without TLS: connect over a local socket, or use a PostgreSQL built with it";
/// The function that the server looks up in each module as soon as it is loaded (fmgr.h).
const MAGIC: &CStr = c"Pg_magic_func";

/// Leads the calls here. Called before `main`.
pub fn take() {
    if PROCESS.is_server() {
        // SAFETY: before `main`; the type of dlsym.
        unsafe { rebind::lead(c"dlsym", dlsym as *const c_void) };
    } else if let Some(executable) = Object::executable().filter(|_| declaration::applies()) {
        // SAFETY: before `main`.
        unsafe { take_of(executable) };
    }
}

/// # Safety
/// No other thread runs.
unsafe fn take_of(object: Object) {
    let calls: [(&CStr, *const c_void); 4] = [
        (c"PQconnectdbParams", connect_params as *const c_void),
        (c"PQconnectStartParams", start_params as *const c_void),
        (c"PQconnectdb", connect as *const c_void),
        (c"PQconninfo", conninfo as *const c_void),
    ];
    for (name, hook) in calls {
        // SAFETY: no other thread runs, by this contract; the hooks have the types of libpq-fe.h.
        unsafe { object.lead(name, hook) };
    }
}

/// The server's own: a process has one thread. What it loads is led before it is called.
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let taken = &PROCESS.server.walreceiver_led;
    // SAFETY: `name` is a C string that dlsym(3)'s caller owns; the server has one thread.
    unsafe {
        if !taken.load(Ordering::Relaxed) && CStr::from_ptr(name) == MAGIC {
            if let Some(module) = Object::library(MODULE) {
                take_of(module);
                taken.store(true, Ordering::Relaxed);
            }
        }
        libc::dlsym(handle, name)
    }
}

unsafe extern "C" fn connect_params(
    keywords: *const *const c_char,
    values: *const *const c_char,
    expand_dbname: c_int,
) -> Connection {
    // SAFETY: PQconnectdbParams' caller passes arrays of C strings, the first with a null at its
    // end; `explain_failure` takes what that function returns.
    unsafe {
        let name = c"PQconnectdbParams";
        with_params(name, explain_failure, keywords, values, expand_dbname)
    }
}

unsafe extern "C" fn start_params(
    keywords: *const *const c_char,
    values: *const *const c_char,
    expand_dbname: c_int,
) -> Connection {
    // SAFETY: PQconnectStartParams' caller passes arrays of C strings, the first with a null at its
    // end; `explain_ahead` takes what that function returns.
    unsafe {
        let name = c"PQconnectStartParams";
        with_params(name, explain_ahead, keywords, values, expand_dbname)
    }
}

unsafe fn with_params(
    name: &CStr,
    explain: unsafe fn(Connection),
    keywords: *const *const c_char,
    values: *const *const c_char,
    expand_dbname: c_int,
) -> Connection {
    // SAFETY: both functions have this type; the caller keeps libpq's contract.
    unsafe {
        let Some(connect) = next::<ConnectParams>(name) else {
            return ptr::null_mut();
        };
        if declaration::applies() && !keywords.is_null() && !values.is_null() {
            let parameters = Parameters::new(keywords, values, expand_dbname);
            return declared(&parameters, connect, explain);
        }
        connect(keywords, values, expand_dbname)
    }
}

/// Connects. Text that is no connection string goes to libpq as it is, for its error.
unsafe extern "C" fn connect(conninfo: *const c_char) -> Connection {
    // SAFETY: `conninfo` is null or a C string that PQconnectdb's caller owns; the functions have
    // the types of libpq-fe.h, and `explain_failure` takes what they return.
    unsafe {
        let Some(connect) = next::<Connect>(c"PQconnectdb") else {
            return ptr::null_mut();
        };
        if declaration::applies() && !conninfo.is_null() {
            let text = CStr::from_ptr(conninfo);
            let params = next::<ConnectParams>(c"PQconnectdbParams");
            if let Some(params) = params.filter(|_| libpq::is_conninfo(text)) {
                return declared(&Parameters::of_string(text), params, explain_failure);
            }
        }
        connect(conninfo)
    }
}

/// # Safety
/// `explain` takes what `connect` gives.
unsafe fn declared(
    parameters: &Parameters,
    connect: ConnectParams,
    explain: unsafe fn(Connection),
) -> Connection {
    let settings = declaration::settings(parameters);
    let connection = parameters.connect(connect, &settings);
    if declaration::raises_sslmode(&settings) {
        // SAFETY: `explain` takes what `connect` returned, by this function's contract.
        unsafe { explain(connection) };
    }
    connection
}

/// Explains why a connection failed that was waited for.
unsafe fn explain_failure(connection: Connection) {
    // SAFETY: `connection` is what libpq just returned, null or not: PQerrorMessage takes both.
    let error = unsafe { libpq::said(c"PQerrorMessage", connection) };
    let has_tls = libpq::has_tls();
    if !has_tls || error.windows(3).any(|word| word == b"SSL") {
        report::line(if has_tls { TLS } else { NO_TLS });
    }
}

/// Says what a connection to a server elsewhere needs, before it is made.
unsafe fn explain_ahead(connection: Connection) {
    // SAFETY: `connection` is what libpq just returned, null or not: PQhost takes both.
    let host = unsafe { libpq::said(c"PQhost", connection) };
    if !libpq::is_socket(&host) {
        report::line(if libpq::has_tls() { TLS } else { NO_TLS });
    }
}

/// PostgreSQL writes what it is told here into `primary_conninfo`: without our word.
unsafe extern "C" fn conninfo(connection: Connection) -> *mut Info {
    // SAFETY: `connection` is null or valid, as PQconninfo's caller guarantees. libpq's array ends
    // with a null keyword, and its values are ours to change until we return it.
    unsafe {
        let Some(conninfo) = next::<Conninfo>(c"PQconninfo") else {
            return ptr::null_mut();
        };
        let infos = conninfo(connection);
        let mut at = infos;
        while PROCESS.acts() && !at.is_null() && !(*at).keyword.is_null() {
            if CStr::from_ptr((*at).keyword) == c"options" && !(*at).val.is_null() {
                declaration::withdraw((*at).val);
            }
            at = at.add(1);
        }
        infos
    }
}

/// # Safety
/// `F` is the type of libpq's function `name`.
unsafe fn next<F: Copy>(name: &CStr) -> Option<F> {
    // SAFETY: `F` is the type of libpq's function `name`, by this function's contract.
    let found = unsafe { libpq::function(name) };
    if found.is_none() {
        let name = name.to_string_lossy();
        report::line(&format!(
            "no libpq with {name} is loaded: nothing is connected"
        ));
    }
    found
}
