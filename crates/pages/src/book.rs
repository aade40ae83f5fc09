//! The pages of commands in the book: one for each command and subcommand, in Markdown, and the
//! list of them that `scripts/book.py` puts into the book's summary.

use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use clap::{Arg, Command};

/// Writes the pages of these programs, and `SUMMARY.md`, which lists them.
pub fn write(directory: &Path, programs: impl IntoIterator<Item = Command>) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut list = String::new();
    for program in programs {
        let mut program = program.disable_help_subcommand(true);
        program.build();
        write_page(directory, &program, 0, &mut list)?;
    }
    fs::write(directory.join("SUMMARY.md"), list)
}

fn write_page(dir: &Path, command: &Command, depth: usize, list: &mut String) -> io::Result<()> {
    let (name, file) = (shown(command), file(command));
    let indent = "  ".repeat(depth);
    list.push_str(&format!("{indent}- [{name}]({file}.md)\n"));
    fs::write(dir.join(format!("{file}.md")), page(command))?;
    visible(command).try_for_each(|below| write_page(dir, below, depth + 1, list))
}

/// Returns the subcommands that help shows.
pub fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    let commands = command.get_subcommands();
    commands.filter(|command| !command.is_hide_set())
}

/// Returns the name of a command's man page.
pub fn file(command: &Command) -> &str {
    let name = command.get_display_name();
    name.unwrap_or_else(|| command.get_name())
}

/// The words by which a command is started.
fn shown(command: &Command) -> &str {
    let name = command.get_bin_name();
    name.unwrap_or_else(|| command.get_name())
}

/// Returns the page of a command.
fn page(command: &Command) -> String {
    let name = shown(command);
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(|text| marked(&text.to_string()));
    let mut page = format!("# {name}\n\n{}\n\n", about.unwrap_or_default());
    let usage = command.clone().render_usage().to_string();
    let usage = usage
        .trim_start_matches("Usage: ")
        .replace("\n       ", "\n");
    let _ = write!(page, "```text\n{usage}\n```\n\n");
    let below = visible(command).map(|below| {
        let about = below.get_about().map(|text| marked(&text.to_string()));
        let (name, file) = (shown(below), file(below));
        let about = about.unwrap_or_default();
        format!("- [`{name}`]({file}.md): {}\n", about.replace("\n\n", " "))
    });
    section(&mut page, "Commands", &below.collect::<String>());
    let listed = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let (arguments, options): (Vec<_>, Vec<_>) = listed.partition(|arg| arg.is_positional());
    section(&mut page, "Arguments", &definitions(&arguments));
    section(&mut page, "Options", &definitions(&options));
    if let Some(more) = command.get_after_help() {
        let _ = write!(page, "{}\n\n", marked(&more.to_string()));
    }
    let _ = writeln!(page, "The man page is `{}(1)`.", file(command));
    page
}

fn section(page: &mut String, title: &str, text: &str) {
    if !text.is_empty() {
        let _ = write!(page, "## {title}\n\n{}\n\n", text.trim_end());
    }
}

/// Returns a list of definitions.
fn definitions(arguments: &[&Arg]) -> String {
    let definitions = arguments.iter().map(|arg| definition(arg));
    definitions.collect()
}

fn definition(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    let help = help.map(|text| marked(&text.to_string()));
    let mut text = help.unwrap_or_default();
    let takes_values = arg.get_action().takes_values();
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<_> = defaults
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    if takes_values && !defaults.is_empty() {
        let _ = write!(text, " \\[default: {}\\]", defaults.join(" "));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(text, " \\[env: `{}`\\]", variable.to_string_lossy());
    }
    let text = text.replace("\n\n", "\n\n  ");
    let values = if takes_values {
        values(arg)
    } else {
        String::new()
    };
    format!("{}\n: {text}\n\n{values}", term(arg))
}

/// Returns the ways to write an argument, such as `-D`, `--pgdata <DATADIR>`.
fn term(arg: &Arg) -> String {
    let value = arg.get_value_names().map(|names| {
        let names = names.iter().map(|name| format!("<{name}>"));
        names.collect::<Vec<_>>().join(" ")
    });
    let value = value.filter(|_| arg.get_action().takes_values());
    if arg.is_positional() {
        return format!(
            "`{}`",
            value.unwrap_or_else(|| format!("<{}>", arg.get_id()))
        );
    }
    let short = arg.get_short().map(|short| format!("`-{short}`"));
    let long = arg.get_long().map(|long| match &value {
        Some(value) => format!("`--{long} {value}`"),
        None => format!("`--{long}`"),
    });
    let both: Vec<_> = short.into_iter().chain(long).collect();
    both.join(", ")
}

/// Returns the values that an argument may have, each with its meaning, as a list below its text.
fn values(arg: &Arg) -> String {
    let values = arg.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    let values = values.map(|value| {
        let help = value.get_help().map(|help| marked(&help.to_string()));
        let help = help.map(|help| format!(": {help}"));
        format!("  - `{}`{}\n", value.get_name(), help.unwrap_or_default())
    });
    let list = values.collect::<String>();
    if list.is_empty() {
        return list;
    }
    format!("{list}\n")
}

/// Returns a text of the help as Markdown: only what is between backquotes keeps its meaning.
fn marked(text: &str) -> String {
    let mut marked = String::new();
    for (number, part) in text.split('`').enumerate() {
        match number % 2 {
            0 => marked.extend(part.chars().flat_map(escaped)),
            _ => marked.extend(["`", part, "`"]),
        }
    }
    marked
}

fn escaped(c: char) -> impl Iterator<Item = char> {
    let is_markup = "\\*_<>[]#|".contains(c);
    is_markup.then_some('\\').into_iter().chain([c])
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    fn command() -> Command {
        let depth = Arg::new("depth").short('d').long("depth").value_name("N");
        let depth = depth
            .default_value("3")
            .env("DEPTH")
            .help("Levels of <a> at most");
        let kind = Arg::new("kind")
            .long("kind")
            .value_name("KIND")
            .help("One of");
        let kind = kind.value_parser(["sea", "lake"]);
        let hidden = Arg::new("h")
            .long("hidden")
            .hide(true)
            .action(ArgAction::SetTrue);
        let dive = Command::new("dive").about("Go down with `dive`");
        let dive = dive.args([depth, kind, hidden, Arg::new("PLACE").required(true)]);
        let secret = Command::new("secret").hide(true);
        let mut top = Command::new("boat")
            .about("A boat")
            .subcommands([dive, secret]);
        top = top.disable_help_subcommand(true).disable_help_flag(true);
        top.build();
        top
    }

    #[test]
    fn a_page_lists_commands_that_are_shown() {
        let expected = "# boat\n\nA boat\n\n```text\nboat [COMMAND]\n```\n\n## Commands\n\n\
            - [`boat dive`](boat-dive.md): Go down with `dive`\n\nThe man page is `boat(1)`.\n";
        assert_eq!(page(&command()), expected);
    }

    #[test]
    fn a_page_has_each_option_with_all_that_help_says() {
        let top = command();
        let page = page(top.find_subcommand("dive").expect("it is there"));
        let options = page.split("## Options\n\n").nth(1).expect("a section");
        let expected = "`-d`, `--depth <N>`\n\
            : Levels of \\<a\\> at most \\[default: `3`\\] \\[env: `DEPTH`\\]\n\n\
            `--kind <KIND>`\n: One of\n\n  - `sea`\n  - `lake`\n\n";
        assert!(options.starts_with(expected), "{options}");
        assert!(page.contains("## Arguments\n\n`<PLACE>`\n"), "{page}");
        assert!(!page.contains("hidden"), "{page}");
    }
}
