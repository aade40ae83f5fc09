//! The words that the command, the wrappers and the preloaded library must agree on: names of
//! environment variables and of files, limits, and the table of PostgreSQL's programs.
//!
//! Each is declared here once. The crate holds constants and look-ups, and depends on nothing.

#![forbid(unsafe_code)]
#![no_std]

pub mod file;
pub mod program;
pub mod receiver;
pub mod variable;

use core::ffi::CStr;

/// A word that one side needs as Rust's text, and another as C's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(&'static CStr);

impl Word {
    /// The word as a terminated string.
    #[must_use]
    pub const fn as_c_str(self) -> &'static CStr {
        self.0
    }

    /// The word as text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self.0.to_str() {
            Ok(text) => text,
            Err(_) => panic!("words are ASCII"),
        }
    }
}
