//! Options that recipes share, and those of `compare` and `report`. This file knows no recipe.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::Args;

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Report that --json wrote before the change
    #[arg(value_name = "A.json")]
    pub before: PathBuf,
    /// Report that --json wrote after the change
    #[arg(value_name = "B.json")]
    pub after: PathBuf,
    /// Print the table with all columns side by side, wider than 80 columns
    #[arg(long)]
    pub wide: bool,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Report that --json wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write a page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print tables with all columns side by side, wider than 80 columns
    #[arg(long)]
    pub wide: bool,
}

/// Options of every recipe that runs servers.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// Directory of PostgreSQL's programs, such as /usr/lib/postgresql/15/bin
    #[arg(long, value_name = "PGBIN")]
    pub pg: PathBuf,
    /// Directory for throw-away clusters, on the disk to measure
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub data: PathBuf,
    /// Keep the clusters
    #[arg(long)]
    pub keep: bool,
    /// Run about three minutes instead of the published shape
    #[arg(long)]
    pub quick: bool,
    /// Number of rounds; an interval of 95 % needs 6
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// Sets of clusters that share the rounds: equal clusters differ by some per cent, which six
    /// sets or more show
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub sets: Option<u32>,
    /// Continue until each loss is known to within this: 0.5%
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub until_ci: Option<f64>,
    /// Start no round that would end later: 90s, 30min, 2h [default: 1h with --until-ci]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub time_limit: Option<Duration>,
    /// Key lengths of the encrypted clusters: 256,192,128
    #[arg(
        long,
        value_name = "BITS",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(["128", "192", "256"])
    )]
    pub key_lengths: Option<Vec<String>>,
    /// Directory of another PostgreSQL's programs to compare with; repeatable
    #[arg(long, value_name = "NAME=PGBIN", value_parser = pair)]
    pub peer: Vec<(String, String)>,
    /// Options for a peer's initdb; repeatable
    #[arg(long, value_name = "NAME=OPTION", value_parser = pair, allow_hyphen_values = true)]
    pub peer_initdb: Vec<(String, String)>,
    /// Where the report goes.
    #[command(flatten)]
    pub output: Output,
}

/// Options of every recipe: where its report goes.
#[derive(Debug, Args)]
pub struct Output {
    /// Seed of the order in a round and of the loads [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Write the report with every round as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as a page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print tables with all columns side by side, wider than 80 columns
    #[arg(long)]
    pub wide: bool,
    /// Do not show progress
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
