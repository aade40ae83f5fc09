//! One line to the operator. The library has no log of its own: stderr is the server's.

use std::ffi::CStr;

/// Writes one line to stderr, whole, by the system call: no hook, no buffer, errno kept. One line
/// it stays: a path in it may be anybody's, and what follows a line's end in the server's log would
/// pass for the server's own.
pub fn line(text: &str) {
    let errno = crate::real::errno();
    crate::counters::line();
    let text = text.replace(char::is_control, "?");
    let line = format!("pgseal: {text}\n");
    // SAFETY: the pointer and length are the line's.
    unsafe { libc::syscall(libc::SYS_write, 2, line.as_ptr(), line.len()) };
    crate::real::set_errno(errno);
}

/// A path as it can be printed.
pub fn shown(path: &CStr) -> String {
    path.to_string_lossy().into_owned()
}
