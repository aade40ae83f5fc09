//! libpq's ways to connect, led here ([`crate::rebind`]): a receiver declares itself to a sealed
//! primary ([`crate::declaration`]).
//!
//! Tools call libpq by their executables; of a server, walreceiver does by the module
//! libpqwalreceiver, which is loaded when it is needed.

use crate::libpq::{self, Connect, ConnectParams, Connection, Conninfo, Info, Parameters};
use crate::rebind::{self, Object};
use crate::{declaration, programs, report};
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// libpq says that TLS was required, and not by whom.
const TLS: &str = "a receiver token goes over TLS or a local socket only, so sslmode counts as \
    require: set ssl = on at the server, and connect with sslmode=verify-full";

/// The server's module that connects.
const MODULE: &[u8] = b"libpqwalreceiver.so";
/// The same of a libpq that can do nothing of the kind.
const NO_TLS: &str = "a receiver token goes over TLS or a local socket only, and this program's \
    libpq was built without TLS: connect over a local socket, or use a PostgreSQL built with it";
/// What the server asks of each module as soon as it is loaded (fmgr.h).
const MAGIC: &CStr = c"Pg_magic_func";

/// Leads the calls here. Called before `main`.
pub fn take() {
    if programs::is_server() {
        // SAFETY: before `main`; the type of dlsym.
        unsafe { rebind::lead(c"dlsym", dlsym as *const c_void) };
    } else if let Some(executable) = Object::executable().filter(|_| declaration::applies()) {
        // SAFETY: before `main`.
        unsafe { take_of(executable) };
    }
}

/// # Safety
/// Nobody else runs.
unsafe fn take_of(object: Object) {
    let calls: [(&CStr, *const c_void); 4] = [
        (c"PQconnectdbParams", connect_params as *const c_void),
        (c"PQconnectStartParams", start_params as *const c_void),
        (c"PQconnectdb", connect as *const c_void),
        (c"PQconninfo", conninfo as *const c_void),
    ];
    for (name, hook) in calls {
        // SAFETY: as the caller promises; the types of libpq-fe.h.
        unsafe { object.lead(name, hook) };
    }
}

/// The server's own: a process has one thread. What it loads is led before it is called.
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    // SAFETY: the caller's arguments.
    unsafe {
        if !TAKEN.load(Ordering::Relaxed) && CStr::from_ptr(name) == MAGIC {
            if let Some(module) = Object::library(MODULE) {
                take_of(module);
                TAKEN.store(true, Ordering::Relaxed);
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
    // SAFETY: as the caller promises.
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
    // SAFETY: as the caller promises.
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

/// What is no connection string goes to libpq as it is, for its error.
unsafe extern "C" fn connect(conninfo: *const c_char) -> Connection {
    // SAFETY: as the caller promises.
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
        // SAFETY: as the caller promises.
        unsafe { explain(connection) };
    }
    connection
}

/// Of a connection that was waited for.
unsafe fn explain_failure(connection: Connection) {
    // SAFETY: as the caller promises; both functions take null too.
    let error = unsafe { libpq::said(c"PQerrorMessage", connection) };
    let has_tls = libpq::has_tls();
    if !has_tls || error.windows(3).any(|word| word == b"SSL") {
        report::line(if has_tls { TLS } else { NO_TLS });
    }
}

/// Of one that is not made yet, to a server elsewhere.
unsafe fn explain_ahead(connection: Connection) {
    // SAFETY: as the caller promises.
    let host = unsafe { libpq::said(c"PQhost", connection) };
    if !libpq::is_socket(&host) {
        report::line(if libpq::has_tls() { TLS } else { NO_TLS });
    }
}

/// PostgreSQL writes what it is told here into `primary_conninfo`: without our word.
unsafe extern "C" fn conninfo(connection: Connection) -> *mut Info {
    // SAFETY: as the caller promises; libpq's array ends with a null keyword, and its values are
    // the caller's to change.
    unsafe {
        let Some(conninfo) = next::<Conninfo>(c"PQconninfo") else {
            return ptr::null_mut();
        };
        let infos = conninfo(connection);
        let mut at = infos;
        while programs::acts() && !at.is_null() && !(*at).keyword.is_null() {
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
    // SAFETY: as above.
    let found = unsafe { libpq::function(name) };
    if found.is_none() {
        let name = name.to_string_lossy();
        report::line(&format!(
            "no libpq with {name} is loaded: nothing is connected"
        ));
    }
    found
}
