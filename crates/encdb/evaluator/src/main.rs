//! `pgseal-evaluator`: the isolated evaluator, a process of its own beside the server.
//!
//! `pgseal-evaluator --socket PATH --allow-uid USER …` serves; `pgseal-evaluator log verify FILE…`
//! reads audit logs. Exit status: 0 done, 1 a log is broken or the evaluator cannot go on, 2 usage.

#![forbid(unsafe_code)]

mod logs;
mod server;

use std::process::ExitCode;

use clap::Parser;
use pgseal_evaluator::cli;
use pgseal_evaluator::os::{close_inherited, route_crypto, LockedHeap};

#[global_allocator]
static HEAP: LockedHeap = LockedHeap::new();

fn main() -> ExitCode {
    // Before any file is open, and before any key is made.
    close_inherited();
    abort_on_panic();
    route_crypto();
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed output is no reason for another exit status.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let done = match cli.command {
        Some(cli::Command::Log {
            command: cli::LogCommand::Verify { files, head },
        }) => logs::verify(&files, head.as_deref()),
        None => server::serve(&cli.serve).map_err(|error| error.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("pgseal-evaluator: {sentence}");
            ExitCode::from(1)
        }
    }
}

/// A panic ends the process in every build, as the release profile has it: a thread that silently
/// ends alone would hide from tests what ends everything in use.
fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}
