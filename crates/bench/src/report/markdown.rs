//! Markdown that can be read on a terminal as it is: tables are padded.

use std::fmt::Write as _;

use super::tables::{self, Table};
use super::{narrow, words, View};
use crate::model::Report;

/// The form of a report's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Every line fits 80 columns, for a terminal.
    Narrow,
    /// A table has all columns side by side, for a README.
    Wide,
}

/// Returns the report for a terminal or a README.
pub fn markdown(report: &Report, form: Form) -> String {
    let view = View::of(report);
    let mut text = format!("# {}\n\n", escape(&words::title(&report.recipe)));
    if let Some(why) = &report.ended_early {
        let why = sentence(why);
        let early = format!("**Ended early: {why}** What was finished is below.");
        text += &line(&early, "", form);
        text.push('\n');
    }
    for (name, value) in tables::facts(report) {
        let fact = format!("- {}: {}", escape(&name), escape(&value));
        text += &line(&fact, "  ", form);
    }
    for group in &view.groups {
        text += &titled(&tables::of_group(group), form);
    }
    for closing in [tables::cipher_share(&view), tables::cipher_speed(report)] {
        if !closing.rows.is_empty() {
            text += &titled(&closing, form);
        }
    }
    text
}

/// Returns a line with its end; in narrow form as many as it needs, indented from the second on.
pub(super) fn line(text: &str, indent: &str, form: Form) -> String {
    let width = match form {
        Form::Narrow => narrow::WIDTH - indent.len(),
        Form::Wide => usize::MAX,
    };
    narrow::wrap(text, width).join(&format!("\n{indent}")) + "\n"
}

/// Returns a table below its title.
fn titled(unescaped: &Table, form: Form) -> String {
    let escaped = escaped(unescaped);
    format!("\n## {}\n", escaped.title) + &body(&escaped, form)
}

/// Returns a table without its title; in narrow form as many as fit, below the names of cases. Its
/// texts are escaped.
pub(super) fn body(escaped: &Table, form: Form) -> String {
    if form == Form::Wide {
        return format!("\n{}", table(escaped));
    }
    let mut text = String::new();
    for case in narrow::by_case(escaped) {
        if !case.title.is_empty() {
            text += &format!("\n### {}\n", case.title);
        }
        for part in narrow::parts(&case) {
            text += "\n";
            text += &table(&part);
        }
    }
    text
}

/// Returns the table with all its texts escaped.
pub(super) fn escaped(table: &Table) -> Table {
    let mut escaped = table.clone();
    escaped.title = escape(&table.title);
    for column in &mut escaped.columns {
        column.name = escape(&column.name);
    }
    for cell in escaped.rows.iter_mut().flat_map(|row| &mut row.cells) {
        *cell = escape(cell);
    }
    escaped
}

/// Returns the lines of a table; its texts are escaped.
fn table(table: &Table) -> String {
    let widths = table.widths();
    let heads = table.columns.iter().map(|column| column.name.clone());
    let mut rows = vec![heads.collect::<Vec<_>>()];
    rows.extend(table.rows.iter().map(|row| row.cells.clone()));

    let mut text = String::new();
    for (place, row) in rows.iter().enumerate() {
        for ((cell, width), column) in row.iter().zip(&widths).zip(&table.columns) {
            let padding = " ".repeat(width - cell.chars().count());
            match column.number {
                true => text += &format!("| {padding}{cell} "),
                false => text += &format!("| {cell}{padding} "),
            }
        }
        text += "|\n";
        if place == 0 {
            for (width, column) in widths.iter().zip(&table.columns) {
                let end = if column.number { ":" } else { "-" };
                write!(text, "| {}{end} ", "-".repeat(width - 1)).expect("a string takes it");
            }
            text += "|\n";
        }
    }
    text
}

/// Returns the text, escaped, with one full stop.
fn sentence(text: &str) -> String {
    format!("{}.", escape(text).trim_end_matches('.'))
}

/// Neither markup nor control characters of terminals come through. Underscores within words mean
/// nothing to Markdown, and names have many.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        let within =
            before.is_alphanumeric() && letters.peek().is_some_and(|c| c.is_alphanumeric());
        match letter {
            control if control.is_control() => escaped.push(' '),
            '_' if within => escaped.push('_'),
            '\\' | '|' | '`' | '*' | '_' | '<' | '~' | '!' => escaped.extend(['\\', letter]),
            '(' if before == ']' => escaped += "\\(",
            '&' if letters.peek().is_some_and(|c| *c != ' ') => escaped += "\\&",
            other => escaped.push(other),
        }
        before = letter;
    }
    escaped
}
