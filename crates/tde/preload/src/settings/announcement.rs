//! The line that a sealed server writes into its log when it starts.
//!
//! When the settings are made, the postmaster has no log yet: what it says before its logging
//! collector runs goes to the terminal. So the line waits for the first message that goes into the
//! log (`emit_log_hook`), and comes before it. In children the hook does nothing.

use crate::receivers::postgres::{self, GATE};
use crate::{real, server};
use libc::c_void;
use std::ffi::CStr;

/// `emit_log_hook_type`: the message.
type LogHook = unsafe extern "C" fn(*mut c_void);

/// The line that waits for the log.
pub struct Waiting {
    /// The line, until it is said.
    text: Option<String>,
    /// The hook that stood before ours.
    next: Option<LogHook>,
}

impl Waiting {
    pub const fn new() -> Self {
        Self {
            text: None,
            next: None,
        }
    }
}

/// Has the postmaster say `text` before its next message, once its log exists.
pub fn prepare(text: String) {
    let Some(hook) = server::symbol(c"emit_log_hook") else {
        return postgres::log(&text);
    };
    if let Ok(mut waiting) = GATE.settings.waiting.lock() {
        waiting.text = Some(text);
        // SAFETY: exported by every supported server with this type (elog.h); this process has one
        // thread.
        waiting.next = unsafe { (*hook.cast::<Option<LogHook>>()).replace(emitted) };
    }
}

/// Says the line, then lets the other hook have the message.
unsafe extern "C" fn emitted(message: *mut c_void) {
    let errno = real::errno();
    if is_log_there() && server::is_postmaster() {
        let text = GATE
            .settings
            .waiting
            .lock()
            .ok()
            .and_then(|mut one| one.text.take());
        if let Some(text) = text {
            withdraw();
            postgres::log(&text);
        }
    }
    real::set_errno(errno);
    let next = GATE
        .settings
        .waiting
        .lock()
        .ok()
        .and_then(|waiting| waiting.next);
    if let Some(next) = next {
        // SAFETY: the server would call this other hook with the same message.
        unsafe { next(message) };
    }
}

/// Takes the hook back, unless another one has come before it.
fn withdraw() {
    let (Some(hook), Ok(waiting)) = (
        server::symbol(c"emit_log_hook"),
        GATE.settings.waiting.lock(),
    ) else {
        return;
    };
    let hook = hook.cast::<Option<LogHook>>();
    // SAFETY: exported by every supported server with this type (elog.h); this process has one
    // thread.
    unsafe {
        if (*hook).is_some_and(|now| std::ptr::fn_addr_eq(now, emitted as LogHook)) {
            *hook = waiting.next;
        }
    }
}

/// Does what the postmaster says go into its log? Its logging collector starts late.
fn is_log_there() -> bool {
    !is_set(c"Logging_collector") || is_set(c"redirection_done")
}

fn is_set(flag: &CStr) -> bool {
    // SAFETY: exported by every supported server as a bool (syslogger.h).
    server::symbol(flag).is_some_and(|flag| unsafe { *flag.cast::<u8>() != 0 })
}
