//! `pgseal bench`: the measuring is crates/bench's; here it learns where pgseal's own files are.

use std::io::ErrorKind;
use std::process::ExitCode;

use pgseal_bench::cli::Command;
use pgseal_bench::error::BenchError;
use pgseal_bench::host::Tools;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_wrapper::launch;

/// A measuring ended early.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct BenchFailure(#[from] BenchError);

impl Exit for BenchFailure {
    fn code(&self) -> Code {
        match &self.0 {
            BenchError::Usage(_)
            | BenchError::Root
            | BenchError::Needs(_)
            | BenchError::Incomparable(_)
            | BenchError::NotAReport(..) => Code::Usage,
            BenchError::Busy => Code::Busy,
            BenchError::Interrupted => Code::Interrupted,
            BenchError::Output(error) if error.kind() == ErrorKind::BrokenPipe => Code::NoReader,
            BenchError::Files(..)
            | BenchError::Start(..)
            | BenchError::Program { .. }
            | BenchError::ServerDied { .. }
            | BenchError::Output(_)
            | BenchError::Report(..) => Code::Io,
        }
    }
}

pub fn run(command: &Command) -> Result<ExitCode, Failure> {
    let tools = Tools {
        pgseal: launch::pgseal()?,
        library: launch::library()?,
    };
    Ok(
        match pgseal_bench::main(command, tools).map_err(BenchFailure)? {
            true => ExitCode::SUCCESS,
            false => Code::Found.into(),
        },
    )
}
