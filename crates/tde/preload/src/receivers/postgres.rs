//! The few symbols of the server that gating needs, found once by name. All are exported by 15 to
//! 18 for extensions, with the types that stand here.

use crate::server::symbol;
use crate::settings::Values;
use libc::{c_char, c_int, c_void};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicPtr};
use std::sync::{Mutex, OnceLock};

/// `ClientAuthentication_hook_type`: the connection, and what came of authentication.
pub type AuthenticationHook = unsafe extern "C" fn(*mut c_void, c_int);
/// `shmem_startup_hook_type`.
pub type StartupHook = unsafe extern "C" fn();
/// `GucStringCheckHook`.
pub type CheckHook = unsafe extern "C" fn(*mut *mut c_char, *mut *mut c_void, c_int) -> bool;
/// `GucShowHook`.
pub type ShowHook = unsafe extern "C" fn() -> *const c_char;
/// `XactCallback`.
pub type TransactionCallback = unsafe extern "C" fn(c_int, *mut c_void);

type DefineString = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const c_char,
    *mut *mut c_char,
    *const c_char,
    c_int,
    c_int,
    Option<CheckHook>,
    Option<CheckHook>,
    Option<ShowHook>,
);
type Message = unsafe extern "C" fn(*const c_char, ...) -> c_int;

macro_rules! symbols {
    ($($name:ident: $type:ty,)*) => {
        /// Addresses in the server.
        #[allow(non_snake_case)] // PostgreSQL's own names
        pub struct Server {
            $(pub $name: $type,)*
            /// Exported only by builds with TLS.
            pub be_tls_get_version: Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>,
        }

        fn resolve() -> Option<Server> {
            Some(Server {
                $($name: {
                    let name = concat!(stringify!($name), "\0").as_bytes();
                    let address = symbol(CStr::from_bytes_with_nul(name).ok()?)?;
                    // SAFETY: the type is a pointer to what the server exports by this name, or a
                    // function of this type (PostgreSQL's headers).
                    unsafe { std::mem::transmute_copy::<*mut c_void, $type>(&address) }
                },)*
                be_tls_get_version: symbol(c"be_tls_get_version").map(|address| {
                    // SAFETY: the function has this type (libpq-be.h).
                    unsafe { std::mem::transmute::<*mut c_void, _>(address) }
                }),
            })
        }
    };
}

symbols! {
    ClientAuthentication_hook: *mut Option<AuthenticationHook>,
    CritSectionCount: *const u32,
    DefineCustomStringVariable: DefineString,
    GetSystemIdentifier: unsafe extern "C" fn() -> u64,
    IsUnderPostmaster: *const bool,
    MyProcPort: *const *mut c_void,
    ParallelWorkerNumber: *const c_int,
    RegisterXactCallback: unsafe extern "C" fn(TransactionCallback, *mut c_void),
    am_walsender: *const bool,
    debug_query_string: *const *const c_char,
    errcode: unsafe extern "C" fn(c_int) -> c_int,
    errfinish: unsafe extern "C" fn(*const c_char, c_int, *const c_char),
    errhint: Message,
    errmsg: Message,
    errstart: unsafe extern "C" fn(c_int, *const c_char) -> bool,
    pgstat_track_activities: *const bool,
    shmem_startup_hook: *mut Option<StartupHook>,
}

// SAFETY: the addresses stay; what they lead to is the server's, whose processes have one thread.
unsafe impl Sync for Server {}
// SAFETY: the addresses are valid in every thread, and no second thread of a server uses them.
unsafe impl Send for Server {}

/// The gate of this process.
pub static GATE: Gate = Gate {
    server: OnceLock::new(),
    receiver: AtomicPtr::new(std::ptr::null_mut()),
    is_defined: AtomicBool::new(false),
    key_file: AtomicPtr::new(std::ptr::null_mut()),
    settings: Values::new(),
    receivers: AtomicPtr::new(std::ptr::null_mut()),
    rows: Mutex::new(Vec::new()),
    shown: AtomicPtr::new(std::ptr::null_mut()),
    next_authentication: Mutex::new(None),
    next_startup: Mutex::new(None),
};

/// The server, and what the library has put into it.
pub struct Gate {
    server: OnceLock<Option<Server>>,
    /// The value that the connection's start gave for `pgseal.receiver`; the server's own string.
    pub receiver: AtomicPtr<c_char>,
    /// Is that setting defined?
    pub is_defined: AtomicBool,
    /// Never set: `pgseal.key_file` is made when it is shown.
    pub key_file: AtomicPtr<c_char>,
    /// Those that every session sees.
    pub settings: Values,
    /// The table of [`super::shown`].
    pub receivers: AtomicPtr<c_void>,
    /// The rows that the extension `pgseal` asked for last.
    pub rows: Mutex<Vec<u8>>,
    /// The value of `pgseal.key_file` that was shown last.
    pub shown: AtomicPtr<c_char>,
    /// The hook that stood before ours.
    pub next_authentication: Mutex<Option<AuthenticationHook>>,
    /// The hook that stood before ours.
    pub next_startup: Mutex<Option<StartupHook>>,
}

/// Looks all of them up; false if one is missing.
pub fn find() -> bool {
    GATE.server.get_or_init(resolve).is_some()
}

/// Returns the server, in a process where it was found.
pub fn server() -> Option<&'static Server> {
    GATE.server.get()?.as_ref()
}

/// Ends the process with a message to log and client.
pub fn fatal(message: &str, hint: &CStr) {
    const FATAL: c_int = 22;
    report(FATAL, message, hint);
}

/// Sends a warning to log and client.
pub fn warn(message: &str, hint: &CStr) {
    const WARNING: c_int = 19;
    report(WARNING, message, hint);
}

/// Sends a notice to the client.
pub fn report_to_client(message: &str, hint: &CStr) {
    const NOTICE: c_int = 18;
    report(NOTICE, message, hint);
}

/// Writes a line into the log.
pub fn log(message: &str) {
    const LOG: c_int = 15;
    let Some(server) = server() else { return };
    let text = CString::new(message).unwrap_or_default();
    // SAFETY: the server's own sequence for a report, of a level that returns.
    unsafe {
        if (server.errstart)(LOG, std::ptr::null()) {
            (server.errmsg)(c"%s".as_ptr(), text.as_ptr());
            (server.errfinish)(c"pgseal".as_ptr(), 0, c"settings".as_ptr());
        }
    }
}

fn report(level: c_int, message: &str, hint: &CStr) {
    let Some(server) = server() else { return };
    let text = CString::new(message).unwrap_or_default();
    // SAFETY: the server's own sequence for a report. None of the levels jumps over our frames: a
    // notice and a warning return, FATAL ends the process in errfinish.
    unsafe {
        if (server.errstart)(level, std::ptr::null()) {
            (server.errcode)(INSUFFICIENT_PRIVILEGE);
            (server.errmsg)(c"%s".as_ptr(), text.as_ptr());
            if !hint.is_empty() {
                (server.errhint)(c"%s".as_ptr(), hint.as_ptr());
            }
            (server.errfinish)(c"pgseal".as_ptr(), 0, c"receivers".as_ptr());
        }
    }
}

/// 42501, six bits a character (elog.h).
const INSUFFICIENT_PRIVILEGE: c_int = sqlstate(*b"42501");

const fn sqlstate(code: [u8; 5]) -> c_int {
    let mut packed = 0;
    let mut at = 0;
    while at < 5 {
        packed |= ((code[at] - b'0') as c_int & 0x3f) << (6 * at);
        at += 1;
    }
    packed
}
