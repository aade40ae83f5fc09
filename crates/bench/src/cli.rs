//! The command line of `pgseal bench`: which recipe or task a subcommand means. The options
//! that recipes share are in [`crate::options`], those of one recipe in its own file.

use clap::{Parser, Subcommand};

use crate::host::serve::Serve;
use crate::options::{CompareArgs, ReportArgs, RunOptions};
use crate::recipes::{
    checksums, cipher, confidential, readonly, tpcb, tpch, tprocc, upgrade, worst, Recipe,
};

/// Measure the cost of encryption on this machine
#[derive(Parser)]
#[command(
    name = "pgseal-bench",
    bin_name = "pgseal bench",
    version = env!("PGSEAL_BUILD"),
    arg_required_else_help = true,
    term_width = 80
)]
pub struct Cli {
    #[command(subcommand)]
    /// The recipe or the task.
    pub command: Command,
}

/// The recipes, and what is done with their reports.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// pgbench -S, by scale and number of connections
    Readonly(Box<readonly::Readonly>),
    /// pgbench's default script, by scale and number of connections
    Tpcb(Box<tpcb::TpcB>),
    /// pgbench -N from the kernel's cache, by key length and data checksums
    Checksums(Box<checksums::Checksums>),
    /// TPC-C: new orders per minute, in a ramp and in a steady state
    Tprocc(Box<tprocc::Tprocc>),
    /// pg_upgrade into plain and encrypted clusters: elapsed time and CPU time
    Upgrade(Box<upgrade::Upgrade>),
    /// Loads that do little more than move pages or WAL
    Worst(Box<worst::Worst>),
    /// Encrypted columns, through the proxy, beside plain ones
    Confidential(Box<confidential::Confidential>),
    /// TPC-H's queries on encrypted columns, beside plain ones
    Tpch(Box<tpch::Tpch>),
    /// Speed of the page cipher, beside AWS-LC and OpenSSL
    Cipher(cipher::Cipher),
    /// Compare two reports; exit status 1 if something got worse
    Compare(CompareArgs),
    /// Show a report again: tables, or a page with charts
    Report(ReportArgs),
    /// Become a server that ends with its benchmark
    #[command(hide = true)]
    Serve(Serve),
}

/// A task that the command line asks for.
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
    /// Returns the task that the command line asks for.
    pub fn task(&self) -> Task<'_> {
        match self {
            Self::Readonly(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Tpcb(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Checksums(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Tprocc(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Upgrade(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Worst(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Confidential(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Tpch(args) => Task::Run(&args.run, Box::new(args.recipe())),
            Self::Cipher(args) => Task::Cipher(args),
            Self::Compare(args) => Task::Compare(args),
            Self::Report(args) => Task::Report(args),
            Self::Serve(args) => Task::Serve(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn help_fits_80_columns() {
        let (commands, wide) = pgseal_usage::wide_help(Cli::command());
        assert_eq!(wide, [""; 0]);
        assert!(commands > 9, "{commands} commands");
    }
}
