//! The program `pgseal-twin`, which the twins run by; see the library.
//!
//! `make build` links it statically: a twin is done before a loader would have begun, and a library
//! that is preloaded for the program is not loaded into its twin first.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pgseal_command::twin()
}
