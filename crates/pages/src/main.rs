//! Writes what is made of the parsers of command lines: man pages and shell completions, which
//! packages install, and the pages of commands in the book. `pgseal-pages DIRECTORY` makes `man1`,
//! `man7`, `completions` and `book` in the directory.
//!
//! It is a program of its own because nobody who runs pgseal needs the generators.

#![forbid(unsafe_code)]

mod book;

use std::env;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::roff::{roman, Roff};
use pgseal_command::topic::TOPICS;
use pgseal_evaluator::cli::Cli as Evaluator;
use pgseal_proxy::cli::{Exec, Proxy};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = env::args_os().nth(1).map(PathBuf::from);
    let directory = directory.ok_or("usage: pgseal-pages DIRECTORY")?;
    man_pages(&directory.join("man1"))?;
    man_pages_of_topics(&directory.join("man7"))?;
    completions(&directory.join("completions"))?;
    book::write(&directory.join("book"), parsers())?;
    Ok(())
}

/// Returns the parser of each program that people start.
fn parsers() -> [Command; 2] {
    let evaluator = Evaluator::command().name("pgseal-evaluator");
    [pgseal(), evaluator]
}

/// Returns the parser of `pgseal`, with those of its subcommands that are programs of their own in
/// their places.
fn pgseal() -> Command {
    let own = |name: &'static str, parser: Command| parser.name(name);
    pgseal_command::parser().mut_subcommands(|command| match command.get_name() {
        "bench" => own("bench", pgseal_bench::cli::Cli::command()),
        "proxy" => own("proxy", Proxy::command()),
        "client" => command.mut_subcommands(|command| match command.get_name() {
            "exec" => own("exec", Exec::command()),
            _ => command,
        }),
        _ => command,
    })
}

/// Writes one page for each command and subcommand, such as `pgseal-key-rotate.1`.
fn man_pages(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for parser in parsers() {
        clap_mangen::generate_to(parser, directory)?;
    }
    Ok(())
}

/// Writes one page for each topic of `pgseal help`, such as `pgseal-keys.7`.
fn man_pages_of_topics(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for topic in &TOPICS {
        let name = format!("pgseal-{}", topic.name);
        let mut page = Roff::new();
        page.control("TH", [name.as_str(), "7"]);
        page.control("SH", ["NAME"]);
        page.text([roman(format!("{name} - {}", topic.about))]);
        page.control("SH", ["DESCRIPTION"]);
        page.control("nf", []);
        for line in topic.text().lines() {
            page.text([roman(line)]);
        }
        page.control("fi", []);
        fs::write(directory.join(format!("{name}.7")), page.to_roff())?;
    }
    Ok(())
}

fn completions(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut pgseal(), "pgseal", directory)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("it is written");
        let names = entries.map(|entry| entry.expect("an entry").path());
        let stems = names.map(|path| path.file_stem().map(|stem| stem.to_owned()));
        let names = stems
            .flatten()
            .map(|stem| stem.to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| name != "SUMMARY").collect();
        names.sort();
        names
    }

    #[test]
    fn each_man_page_is_a_page_of_the_book() {
        let directory = tempfile::tempdir().expect("a directory");
        let (man, book) = (directory.path().join("man"), directory.path().join("book"));
        man_pages(&man).expect("man pages");
        book::write(&book, parsers()).expect("the book's pages");
        let pages = names(&man);
        assert_eq!(pages, names(&book));
        for name in [
            "pgseal-bench-tpcb",
            "pgseal-client-exec",
            "pgseal-evaluator-log-verify",
        ] {
            assert!(pages.iter().any(|other| other == name), "{name}");
        }
        assert!(!pages.iter().any(|name| name == "pgseal-unlock"));
    }

    #[test]
    fn a_topic_is_a_man_page_with_its_text() {
        let directory = tempfile::tempdir().expect("a directory");
        man_pages_of_topics(directory.path()).expect("man pages");
        assert_eq!(names(directory.path()).len(), TOPICS.len());
        let page = fs::read_to_string(directory.path().join("pgseal-exit-codes.7"));
        let page = page.expect("it is written");
        assert!(
            page.contains("\n  10   the server or its evaluator refused\n"),
            "{page}"
        );
    }
}
