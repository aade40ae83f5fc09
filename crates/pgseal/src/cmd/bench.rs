//! `pgseal bench`: the measuring is crates/bench's; here it learns where pgseal's own files are.

use std::process::ExitCode;

use pgseal_bench::cli::Command;
use pgseal_bench::host::Tools;

use crate::exit::{Failure, FOUND};
use crate::launch;

pub fn run(command: &Command) -> Result<ExitCode, Failure> {
    let tools = Tools {
        pgseal: launch::pgseal()?,
        library: launch::library()?,
    };
    Ok(match pgseal_bench::main(command, tools)? {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FOUND),
    })
}
