//! Shell commands that PostgreSQL's programs wait for, and that concern files of a cluster.

use super::{commit_logs, restored};
use crate::process::PROCESS;
use crate::real::libc_call;
use crate::{habits, programs};
use libc::{c_char, c_int};
use std::ffi::CStr;

pub unsafe fn system(command: *const c_char) -> c_int {
    if !PROCESS.acts() || command.is_null() {
        return libc_call!(system(command));
    }
    // SAFETY: `command` is not null, so it is a C string that system(3)'s caller owns.
    let text = unsafe { CStr::from_ptr(command) }.to_bytes();
    if habits::is_directory_copy(text) && programs::is("pg_upgrade") {
        return commit_logs::copy(text);
    }
    let status = libc_call!(system(command));
    if programs::is("pg_rewind") {
        restored::expect();
    }
    status
}
