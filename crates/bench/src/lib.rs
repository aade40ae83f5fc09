//! `pgseal bench`: what encryption costs, measured on the user's own machine, stock beside sealed.
//!
//! `model` is what a recipe measured and what its JSON file holds; `figures`, `schedule`,
//! `compare`, `published` and `report` are pure and compute from it. `recipes` says what is
//! measured, `host` is the machine, `run` drives.

#![forbid(unsafe_code)]

pub mod cipher_speed;
pub mod cli;
pub mod compare;
pub mod error;
pub mod figures;
pub mod host;
pub mod model;
pub mod options;
mod output;
mod progress;
pub mod published;
pub mod recipes;
pub mod report;
mod run;
pub mod schedule;
pub mod statistics;

use cli::{Command, Task};
use error::BenchError;
use host::Tools;

/// Does what the command line says; false if a comparison found something worse.
pub fn main<E: From<BenchError>>(
    command: &Command,
    tools: impl FnOnce() -> Result<Tools, E>,
) -> Result<bool, E> {
    match command.task() {
        Task::Run(options, mut recipe) => run::run(options, recipe.as_mut(), tools()?)?,
        Task::Cipher(args) => args.run()?,
        Task::Compare(args) => return Ok(output::compare(args)?),
        Task::Report(args) => output::show(args)?,
        Task::Serve(args) => args.run()?,
    }
    Ok(true)
}
