//! `--help` fits a terminal of 80 columns: a test of every subcommand.

use clap::CommandFactory;

use super::Cli;

#[test]
fn help_fits_80_columns() {
    let mut top = Cli::command();
    top.build();
    let mut left = vec![top];
    let (mut seen, mut wide) = (0, Vec::new());
    while let Some(mut command) = left.pop() {
        for help in [command.render_help(), command.render_long_help()] {
            let text = help.to_string();
            let lines = text.lines().filter(|line| line.chars().count() > 80);
            wide.extend(lines.map(str::to_owned));
        }
        seen += 1;
        left.extend(command.get_subcommands().cloned());
    }
    assert_eq!(wide, [""; 0]);
    assert!(seen > 30, "{seen} commands");
}
