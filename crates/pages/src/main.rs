//! Writes what is made of the parsers of command lines: man pages and shell completions, which
//! packages install, and the pages of commands in the book. `pgseal-pages DIRECTORY DATE` makes
//! `man1`, `man7`, `completions` and `book` in the directory. DATE is that of the man pages, such
//! as 2026-11-29.
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
use clap_mangen::Man;
use pgseal_command::topic::{Topic, TOPICS};
use pgseal_evaluator::cli::Cli as Evaluator;
use pgseal_proxy::cli::{Exec, Proxy};

/// The footer of a man page names this version beside the page's date.
const SOURCE: &str = concat!("pgseal ", env!("CARGO_PKG_VERSION"));
/// The header of each man page has this title.
const MANUAL: &str = "Manual of pgseal";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(directory), Some(date)) = (arguments.next(), arguments.next()) else {
        return Err("usage: pgseal-pages DIRECTORY DATE".into());
    };
    let directory = PathBuf::from(directory);
    man_pages(&directory.join("man1"), &date)?;
    man_pages_of_topics(&directory.join("man7"), &date)?;
    completions(&directory.join("completions"))?;
    book::write(&directory.join("book"), [pgseal(), evaluator()])?;
    Ok(())
}

/// Returns the parser of the evaluator.
fn evaluator() -> Command {
    Evaluator::command().name("pgseal-evaluator")
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
fn man_pages(directory: &Path, date: &str) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let topics = TOPICS.iter().map(|topic| format!("{}(7)", name_of(topic)));
    let topics = topics.collect();
    for (parser, see_also) in [(pgseal(), topics), (evaluator(), vec![])] {
        let mut parser = parser.disable_help_subcommand(true);
        parser.build();
        write_page(directory, date, &parser, &see_also)?;
    }
    Ok(())
}

/// Writes the pages of a command and of those below it, each of which refers to the one above.
fn write_page(dir: &Path, date: &str, command: &Command, see_also: &[String]) -> io::Result<()> {
    let page = Man::new(command.clone()).date(date);
    let page = page.source(SOURCE).manual(MANUAL);
    let mut text = Vec::new();
    page.render(&mut text)?;
    if !see_also.is_empty() {
        let mut end = Roff::new();
        refer(&mut end, see_also);
        end.to_writer(&mut text)?;
    }
    fs::write(dir.join(page.get_filename()), text)?;
    let above = [format!("{}(1)", book::file(command))];
    book::visible(command).try_for_each(|below| write_page(dir, date, below, &above))
}
/// Writes one page for each topic of `pgseal help`, such as `pgseal-keys.7`.
fn man_pages_of_topics(directory: &Path, date: &str) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for topic in &TOPICS {
        let name = name_of(topic);
        let mut page = Roff::new();
        page.control("TH", [&name, "7", date, SOURCE, MANUAL]);
        page.control("SH", ["NAME"]);
        page.text([roman(format!("{name} - {}", topic.about))]);
        page.control("SH", ["DESCRIPTION"]);
        page.control("nf", []);
        for line in topic.text().lines() {
            page.text([roman(line)]);
        }
        page.control("fi", []);
        refer(&mut page, &["pgseal(1)".to_owned()]);
        fs::write(directory.join(format!("{name}.7")), page.render())?;
    }
    Ok(())
}

/// Returns the name of a topic's man page.
fn name_of(topic: &Topic) -> String {
    format!("pgseal-{}", topic.name)
}

/// Refers to other pages at the end of one.
fn refer(page: &mut Roff, pages: &[String]) {
    page.control("SH", ["SEE ALSO"]);
    page.text([roman(pages.join(", "))]);
}

fn completions(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for parser in [pgseal(), evaluator()] {
        let name = parser.get_name().to_owned();
        for shell in [Shell::Zsh, Shell::Fish] {
            clap_complete::generate_to(shell, &mut parser.clone(), &name, directory)?;
        }
        fs::write(directory.join(format!("{name}.bash")), for_bash(parser))?;
    }
    Ok(())
}

/// Returns the completions of a program for bash. The generator gives no subcommands of one below
/// a program whose name has a hyphen, so it is told a name without one.
fn for_bash(mut parser: Command) -> String {
    let name = parser.get_name().to_owned();
    let plain = name.replace('-', "_");
    let mut text = Vec::new();
    clap_complete::generate(Shell::Bash, &mut parser, &plain, &mut text);
    let registered = format!(" default {plain}\n");
    String::from_utf8_lossy(&text).replace(&registered, &format!(" default {name}\n"))
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
        man_pages(&man, "2026-11-29").expect("man pages");
        book::write(&book, [pgseal(), evaluator()]).expect("the book's pages");
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
    fn the_titles_name_date_source_and_manual() {
        let directory = tempfile::tempdir().expect("a directory");
        man_pages(directory.path(), "2026-11-29").expect("man pages");
        man_pages_of_topics(directory.path(), "2026-11-29").expect("man pages");
        let expected = format!("2026-11-29 \"{SOURCE}\" \"{MANUAL}\"");
        for name in ["pgseal.1", "pgseal-client-exec.1", "pgseal-keys.7"] {
            let page = fs::read_to_string(directory.path().join(name)).expect("it is written");
            let title = page.lines().find(|line| line.starts_with(".TH"));
            let (page, section) = name.split_once('.').expect("a section");
            let expected = format!(".TH {page} {section} {expected}");
            assert_eq!(title, Some(expected.as_str()));
        }
    }

    #[test]
    fn a_page_refers_to_the_command_above_and_the_first_to_the_topics() {
        let directory = tempfile::tempdir().expect("a directory");
        man_pages(directory.path(), "2026-11-29").expect("man pages");
        for (name, expected) in [
            ("pgseal-key-rotate", Some("pgseal\\-key(1)")),
            ("pgseal-evaluator-log", Some("pgseal\\-evaluator(1)")),
            ("pgseal-evaluator", None),
        ] {
            let page = fs::read_to_string(directory.path().join(format!("{name}.1")));
            let page = page.expect("it is written");
            let end = page.split_once(".SH \"SEE ALSO\"\n").map(|(_, end)| end);
            assert_eq!(end.map(str::trim_end), expected, "{name}");
        }
        let page = fs::read_to_string(directory.path().join("pgseal.1")).expect("it is written");
        for topic in &TOPICS {
            let name = format!("{}(7)", name_of(topic).replace('-', "\\-"));
            assert!(page.contains(&name), "{name}");
        }
    }

    #[test]
    fn a_topic_is_a_man_page_with_its_text() {
        let directory = tempfile::tempdir().expect("a directory");
        man_pages_of_topics(directory.path(), "2026-11-29").expect("man pages");
        assert_eq!(names(directory.path()).len(), TOPICS.len());
        let page = fs::read_to_string(directory.path().join("pgseal-exit-codes.7"));
        let page = page.expect("it is written");
        assert!(
            page.contains("\n  10   the server or its evaluator refused\n"),
            "{page}"
        );
        assert!(
            !page.replace("Aq \\(aq\n.el .ds Aq '", "").contains('\''),
            "{page}"
        );
    }
}
