//! The command `pgseal`; see the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pgseal_command::command()
}
