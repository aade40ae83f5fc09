//! `--help` fits a terminal of 80 columns: a test of every subcommand.

use clap::CommandFactory;

use super::Cli;

#[test]
fn help_fits_80_columns() {
    let (commands, wide) = pgseal_usage::wide_help(Cli::command());
    assert_eq!(wide, [""; 0]);
    assert!(commands > 30, "{commands} commands");
}
