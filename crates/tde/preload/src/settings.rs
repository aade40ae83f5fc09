//! Settings by which a server says that its cluster is sealed, and the line in its log at its
//! start. Every session sees them by SHOW and in `pg_settings`, and nobody can set them: they are
//! internal, like `block_size`.
//!
//! They are made in the postmaster, when it has its shared memory, and inherited. A server of a
//! plain cluster that has the library says `pgseal.sealed = off`, so that no placeholder of this
//! name can say otherwise.
//!
//! Invariants:
//! 1. Nothing here keeps a server from starting: what it does not export is done without.
//! 2. A value that somebody gave these names earlier, in a file or at a role, is dropped by
//!    PostgreSQL with a warning when the settings are made.

mod announcement;
pub mod flags;

use crate::clusters::Cluster;
use crate::receivers::postgres::{CheckHook, Server, ShowHook, GATE};
use crate::{report, server, version};
use announcement::Waiting;
use flags::{Flags, PGC_INTERNAL};
use libc::{c_char, c_int};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::Mutex;

/// The settings of a server: the variables that it keeps the values in.
pub struct Values {
    are_defined: AtomicBool,
    sealed: AtomicBool,
    key_id: AtomicPtr<c_char>,
    version: AtomicPtr<c_char>,
    waiting: Mutex<Waiting>,
}

impl Values {
    /// Returns those of a server that has no settings yet.
    pub const fn new() -> Self {
        Self {
            are_defined: AtomicBool::new(false),
            sealed: AtomicBool::new(false),
            key_id: AtomicPtr::new(std::ptr::null_mut()),
            version: AtomicPtr::new(std::ptr::null_mut()),
            waiting: Mutex::new(Waiting::new()),
        }
    }
}

type DefineBool = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const c_char,
    *mut bool,
    bool,
    c_int,
    c_int,
    Option<CheckHook>,
    Option<CheckHook>,
    Option<ShowHook>,
);

/// Makes the settings once, and has the postmaster say in its log what it runs.
pub fn define(server: &Server, cluster: Option<&Cluster>) {
    if GATE.settings.are_defined.swap(true, Ordering::Relaxed) {
        return;
    }
    define_sealed(cluster.is_some());
    let key_id = cluster.map_or_else(String::new, |cluster| cluster.key_id.to_string());
    define_text(
        server,
        c"pgseal.key_id",
        c"Shows the id of the key that this cluster is encrypted under.",
        &GATE.settings.key_id,
        key_id,
    );
    define_text(
        server,
        c"pgseal.version",
        c"Shows the version of the library that encrypts this cluster's files.",
        &GATE.settings.version,
        version::VERSION.to_owned(),
    );
    if let Some(cluster) = cluster.filter(|_| server::is_postmaster()) {
        announcement::prepare(text(cluster));
    }
}

/// Returns what the log says of this cluster.
fn text(cluster: &Cluster) -> String {
    let (key, id) = (cluster.key_id, cluster.facts.cluster);
    let opened = match &cluster.facts.opened_by {
        Some((slot, kind)) => format!("opened by slot {slot} ({kind})"),
        None => "opened by an unwrap command".to_owned(),
    };
    let version = version::VERSION;
    format!("pgseal: sealed cluster, key id {key}, cluster id {id}, {opened}, library {version}")
}

fn define_sealed(is_sealed: bool) {
    let Some(define) = server::symbol(c"DefineCustomBoolVariable") else {
        return report::line("this server exports too little to have the setting pgseal.sealed");
    };
    // SAFETY: exported by every supported server with this type (guc.h); the strings and the
    // variable stay, and an AtomicBool has the layout of a bool.
    unsafe {
        let define: DefineBool = std::mem::transmute(define);
        define(
            c"pgseal.sealed".as_ptr(),
            c"Shows whether the files of this cluster are encrypted by pgseal.".as_ptr(),
            std::ptr::null(),
            GATE.settings.sealed.as_ptr(),
            is_sealed,
            PGC_INTERNAL,
            Flags::of_this_version().shown_only(),
            None,
            None,
            None,
        );
    }
}

fn define_text(
    server: &Server,
    name: &'static CStr,
    description: &'static CStr,
    variable: &'static AtomicPtr<c_char>,
    value: String,
) {
    // The server takes it for the default, which it keeps a pointer to.
    let value = CString::new(value).unwrap_or_default().into_raw();
    // SAFETY: the strings and the variable stay.
    unsafe {
        (server.DefineCustomStringVariable)(
            name.as_ptr(),
            description.as_ptr(),
            std::ptr::null(),
            variable.as_ptr(),
            value,
            PGC_INTERNAL,
            Flags::of_this_version().shown_only(),
            None,
            None,
            None,
        );
    }
}
