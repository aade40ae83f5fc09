//! A stack for the engine: threads of a program may have little of it. sysbench gives 64 KiB, and
//! PostgreSQL's parser alone needs more.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::{self, NonNull};

/// As much as a program's first thread usually has. The kernel gives memory to what is used.
const SIZE: usize = 8 << 20;
/// What is below, and cannot be used: running out of the stack ends the program.
const GUARD: usize = 64 << 10;

/// A stack that one call at a time runs on.
pub struct Stack {
    /// The mapping, with the guard at its begin
    begin: NonNull<c_void>,
}

// SAFETY: the memory belongs to this value alone, whatever thread has it.
unsafe impl Send for Stack {}

impl Stack {
    /// Maps a stack.
    pub fn new() -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: a new mapping, at an address that the kernel chooses, overlays nothing.
        let begin = unsafe { libc::mmap(ptr::null_mut(), SIZE, protection, flags, -1, 0) };
        if begin == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let begin = NonNull::new(begin).ok_or(io::ErrorKind::OutOfMemory)?;
        let stack = Self { begin };
        // SAFETY: the guard is the first part of the mapping just made.
        match unsafe { libc::mprotect(begin.as_ptr(), GUARD, libc::PROT_NONE) } {
            0 => Ok(stack),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Calls `act` on this stack. Where a build unwinds, a panic goes on on the caller's stack.
    pub fn run<T>(&mut self, act: impl FnOnce() -> T) -> T {
        let caught = || catch_unwind(AssertUnwindSafe(act));
        // SAFETY: the memory is writable, aligned to a page and used by nobody else while `self` is
        // borrowed, and nothing unwinds out of the closure.
        let done = unsafe { psm::on_stack(self.begin.as_ptr().cast(), SIZE, caught) };
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing runs on it any more.
        unsafe { libc::munmap(self.begin.as_ptr(), SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes about a page of stack for each level.
    fn deep(levels: usize) -> usize {
        let page = std::hint::black_box([levels; 512]);
        match levels {
            0 => 0,
            _ => page[1] - levels + 1 + deep(levels - 1),
        }
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let mut stack = Stack::new().expect("memory");
        let panicked = catch_unwind(AssertUnwindSafe(|| stack.run(|| panic!("of the test"))));
        assert!(panicked.is_err());
        assert_eq!(stack.run(|| 5), 5);
    }

    #[test]
    fn a_thread_with_little_stack_gets_much() {
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        let counted = thread.spawn(|| {
            let mut stack = Stack::new().expect("memory");
            (stack.run(|| deep(1000)), stack.run(|| deep(1000)))
        });
        let counted = counted.expect("a thread").join().expect("it ends");
        assert_eq!(counted, (1000, 1000));
    }
}
