//! The answers of `pgseal` and `pgseal bench` to a command line that they do not run: help, the
//! version, and what is wrong. What wrappers run has no parser of command lines, so this is not in
//! a crate that they share with the commands.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::io::{self, IsTerminal, Write};

use clap::Command;

/// The columns of a terminal.
const WIDTH: usize = 80;

/// Prints the help that a command line asks for, or what is wrong with it. Returns whether it is
/// wrong. Nobody is left to hear that the message cannot be printed, so that is no error.
pub fn print(error: &clap::Error) -> bool {
    let _ = try_print(error);
    error.exit_code() != 0
}

fn try_print(error: &clap::Error) -> io::Result<()> {
    if !error.use_stderr() {
        return error.print();
    }
    let mut stderr = io::stderr();
    let text = match stderr.is_terminal() {
        true => error.render().ansi().to_string(),
        false => error.render().to_string(),
    };
    stderr.write_all(as_ours(&text).as_bytes())
}

/// The parser calls its errors `error:`; ours name the command, as all of its messages do.
fn as_ours(text: &str) -> String {
    text.replacen("error:", "pgseal:", 1)
}

/// Returns how many commands there are in and below `top`, and those lines of their help that do
/// not fit a terminal of 80 columns. For tests.
pub fn wide_help(mut top: Command) -> (usize, Vec<String>) {
    top.build();
    let mut left = vec![top];
    let (mut seen, mut wide) = (0, Vec::new());
    while let Some(mut command) = left.pop() {
        for help in [command.render_help(), command.render_long_help()] {
            let text = help.to_string();
            let lines = text.lines().filter(|line| line.chars().count() > WIDTH);
            wide.extend(lines.map(str::to_owned));
        }
        seen += 1;
        left.extend(command.get_subcommands().cloned());
    }
    (seen, wide)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;
    use clap::Arg;

    use super::*;

    fn parse(line: &str) -> clap::Error {
        let command = Command::new("pgseal").subcommand(Command::new("status"));
        let words = std::iter::once("pgseal").chain(line.split(' '));
        command.try_get_matches_from(words).expect_err("no command")
    }

    #[test]
    fn help_is_asked_for_and_a_wrong_line_is_not() {
        let (help, wrong) = (parse("--help"), parse("statsu"));
        assert_eq!(help.kind(), ErrorKind::DisplayHelp);
        assert!(!print(&help) && print(&wrong));
    }

    #[test]
    fn what_is_wrong_names_the_command() {
        let text = as_ours(&parse("statsu --error:").render().to_string());
        assert!(
            text.starts_with("pgseal: unrecognized subcommand"),
            "{text}"
        );
        assert_eq!(as_ours("error: error: a"), "pgseal: error: a");
    }

    #[test]
    fn a_line_that_does_not_fit_is_found_below_the_top() {
        let option = |help: String| Arg::new("o").long("o").help(help);
        let top = |help: String| {
            Command::new("a").subcommand(Command::new("b").arg(option(help)).term_width(0))
        };
        assert_eq!(wide_help(top("short".into())), (5, vec![]));
        let (commands, wide) = wide_help(top("long".repeat(20)));
        // The parser adds `help`, which has `b` and itself below it.
        assert_eq!((commands, wide.len()), (5, 2));
        assert!(wide[0].ends_with("long"), "{wide:?}");
    }
}
