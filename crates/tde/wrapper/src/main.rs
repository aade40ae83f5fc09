//! The program that wrappers of PostgreSQL's programs run: `pgseal-twin PROGRAM WRAPPER ARGUMENT…`,
//! by which the kernel starts it for a file of `pgseal bindir`.
//!
//! `make build` links it statically: a wrapper is done before a loader would have begun, and a
//! library that is preloaded for the program is not loaded into its wrapper first.

#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;

use pgseal_keys::{interrupt, memory};

fn main() -> ExitCode {
    memory::keep();
    interrupt::heed_children();
    let result = pgseal_wrapper::run(env::args_os().skip(1));
    result.unwrap_or_else(|failure| failure.report())
}
