//! `libpgseal_client.so`: the engine inside a process, for drivers of any language. The interface
//! is `include/pgseal_client.h`.
//!
//! [`Running`] is a thread that serves one socket; `abi` gives it to C. No language has logic of
//! its own.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod abi;
mod options;
mod running;

pub use options::{Options, OptionsError};
pub use running::{Running, StartError};
