//! The command line of `pgseal bench`. What an option of a recipe means is in the recipe's file.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};

use crate::host::serve::Serve;
use crate::recipes::{checksums, cipher, readonly, tpcb, tprocc, upgrade, worst, Recipe};

/// The recipes, and what is done with their reports.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// pgbench -S: transactions per second by scale and connections
    Readonly(Box<readonly::Readonly>),
    /// pgbench's default script, reindexed before each run: by scale and connections
    Tpcb(Box<tpcb::TpcB>),
    /// pgbench -N out of the kernel's cache: every key length, with data checksums and without
    Checksums(Box<checksums::Checksums>),
    /// A TPC-C load: new orders per minute at a ramp of virtual users and at a steady number
    Tprocc(Box<tprocc::Tprocc>),
    /// pg_upgrade of one plain cluster into plain and sealed ones: elapsed time and CPU
    Upgrade(Box<upgrade::Upgrade>),
    /// Loads that do little else than move pages or WAL
    Worst(Box<worst::Worst>),
    /// What a page costs, beside AWS-LC's own speed and OpenSSL's
    Cipher(cipher::Cipher),
    /// Two reports, before a change and after it; exit status 1 if something got worse
    Compare(CompareArgs),
    /// Show a report again: tables, or a page with charts
    Report(ReportArgs),
    /// Become a server that ends with its benchmark
    #[command(hide = true)]
    Serve(Serve),
}

/// What is to be done.
pub enum Task<'a> {
    /// Run a recipe.
    Run(&'a RunOptions, Box<dyn Recipe>),
    /// Measure the cipher alone.
    Cipher(&'a cipher::Cipher),
    /// Compare two.
    Compare(&'a CompareArgs),
    /// Show a report.
    Report(&'a ReportArgs),
    /// Become a server.
    Serve(&'a Serve),
}

impl Command {
    /// What the command line says.
    pub fn task(&self) -> Task<'_> {
        match self {
            Self::Readonly(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Tpcb(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Checksums(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Tprocc(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Upgrade(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Worst(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Cipher(args) => Task::Cipher(args),
            Self::Compare(args) => Task::Compare(args),
            Self::Report(args) => Task::Report(args),
            Self::Serve(args) => Task::Serve(args),
        }
    }
}

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// What --json wrote before
    #[arg(value_name = "A.json")]
    pub before: PathBuf,
    /// And after
    #[arg(value_name = "B.json")]
    pub after: PathBuf,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// What --json wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What all recipes have.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// The directory of PostgreSQL's programs, such as /usr/lib/postgresql/15/bin
    #[arg(long, value_name = "PGBIN")]
    pub pg: PathBuf,
    /// Where throw-away clusters are made, on the disk that shall be measured
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub data: PathBuf,
    /// Leave the clusters there
    #[arg(long)]
    pub keep: bool,
    /// Some three minutes instead of a published shape
    #[arg(long)]
    pub quick: bool,
    /// How often everything runs; an interval of 95 % takes 6
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// Sets of clusters that share the rounds: clusters made alike differ by some per cent, which
    /// six sets or more show
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub sets: Option<u32>,
    /// Go on until no loss's interval reaches further to either side than that: 0.5%
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub until_ci: Option<f64>,
    /// Begin no round that would end later: 90s, 30min, 2h [default: 1h with --until-ci]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub time_limit: Option<Duration>,
    /// Key lengths of the sealed clusters: 256,192,128
    #[arg(
        long,
        value_name = "BITS",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(["128", "192", "256"])
    )]
    pub key_lengths: Option<Vec<String>>,
    /// A foreign directory of PostgreSQL's programs that stands beside, used as it is; repeatable
    #[arg(long, value_name = "NAME=PGBIN", value_parser = pair)]
    pub peer: Vec<(String, String)>,
    /// Options for a peer's initdb; repeatable
    #[arg(long, value_name = "NAME=OPTION", value_parser = pair, allow_hyphen_values = true)]
    pub peer_initdb: Vec<(String, String)>,
    /// What becomes of it.
    #[command(flatten)]
    pub output: Output,
}

/// What becomes of a run.
#[derive(Debug, Args)]
pub struct Output {
    /// Of the order in a round, and of the loads [default: another each time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// The report with every raw round; - is standard output, and then the only thing there
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The report as a page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// No bar on a terminal, and no lines elsewhere
    #[arg(long)]
    pub no_progress: bool,
}

/// `0.5%`, as a fraction.
fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text
        .strip_suffix('%')
        .and_then(|number| number.parse().ok());
    match number {
        Some(number) if 0.0 < number && number < 100.0 => Ok(number / 100.0),
        _ => Err("write it as 0.5%".to_owned()),
    }
}

/// `NAME=VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_cent_and_pairs() {
        assert_eq!(percent("0.5%"), Ok(0.005));
        for wrong in ["0.5", "%", "0%", "-1%", "100%", "nan%"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
        let of = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(pair("a=--b=c"), of("a", "--b=c"));
        assert!(pair("a=").is_err() && pair("=b").is_err() && pair("a").is_err());
    }
}
