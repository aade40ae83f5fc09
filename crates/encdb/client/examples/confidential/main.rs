//! The published load on encrypted columns, beside the same on plain ones, on a server that runs.
//!
//!     confidential prepare …     makes the databases: plain, encrypted, with page requests …
//!     confidential run …         measures, and prints a report that `pgseal bench report` shows
//!
//! The same rows stand beside them in clear, as bytes as long as cells: the cost of cells by their
//! size alone, whatever opens them. Ranges are counted there and k is set, because bytes are not
//! calculated with.
//!
//! Three scenarios as published: all columns but the key encrypted; all encrypted, asked by id;
//! all encrypted, asked by k. Each round runs every case. In each case the variants take turns of
//! a tenth of a second in random order on the same server, at first unmeasured. A transaction is
//! one statement, prepared; results are opened. The processor time is that of the whole server and
//! of the evaluator.
//!
//! Give the server huge pages: in small ones a backend that has just begun pays for its first look
//! at each page of shared buffers, and more of them where rows are larger.
//!
//! The role must be a superuser: the form of the evaluator is set for each connection.

mod load;
mod prepare;
mod report;
mod sessions;

use std::error::Error;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

type Outcome<T> = Result<T, Box<dyn Error>>;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the databases
    Prepare(Options),
    /// Measure
    Run(Run),
}

/// The server and the size of the load.
#[derive(Args)]
struct Options {
    /// The directory of the server's socket, or its host
    #[arg(long)]
    host: Option<String>,
    /// Its port
    #[arg(long)]
    port: Option<u16>,
    /// A superuser
    #[arg(long, default_value = "postgres")]
    user: String,
    /// The socket of pgseal-evaluator, for the isolated form
    #[arg(long)]
    evaluator: Option<PathBuf>,
    /// Tables
    #[arg(long, default_value_t = 8)]
    tables: u32,
    /// Rows of a table
    #[arg(long, default_value_t = 100_000)]
    rows: u32,
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    options: Options,
    /// Connections at once
    #[arg(long, default_value_t = 8)]
    connections: u32,
    /// Seconds of a sample
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Seconds that a load runs before it is measured, on the same connections
    #[arg(long, default_value_t = 0)]
    warm: u32,
    /// How often everything runs
    #[arg(long, default_value_t = 6)]
    rounds: u32,
    /// The seed of the order of variants, and of the loads
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these scenarios
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3])]
    scenario: Vec<u32>,
    /// Only these kinds of statements
    #[arg(long, value_delimiter = ',', default_values_t = [Kind::Point, Kind::Range, Kind::Write])]
    kind: Vec<Kind>,
    /// Only these forms
    #[arg(long, value_delimiter = ',', default_values_t = [Form::Inline, Form::Isolated])]
    form: Vec<Form>,
    /// The evaluator's process, whose time counts in the isolated form
    #[arg(long)]
    evaluator_pid: Option<u32>,
}

/// The process in which cells are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Inline,
    Isolated,
}

/// The kinds of statements that were published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Point,
    Range,
    Write,
}

/// Returns the name on the command line.
fn name(value: &impl ValueEnum) -> String {
    let name = value.to_possible_value();
    name.map(|name| name.get_name().to_owned())
        .unwrap_or_default()
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&name(self))
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&name(self))
    }
}

fn main() -> Outcome<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    match Cli::parse().command {
        Command::Prepare(options) => local.block_on(&runtime, prepare::all(&options)),
        Command::Run(run) => local.block_on(&runtime, report::run(&run)),
    }
}
