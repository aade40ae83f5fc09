//! The program `pgseal-kms`; see the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pgseal_kms::main()
}
