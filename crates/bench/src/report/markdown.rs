//! Markdown that can be read on a terminal as it is: tables are padded.

use std::fmt::Write as _;

use super::tables::{self, Table};
use super::{words, View};
use crate::model::Report;

/// The report for a terminal or a README.
pub fn markdown(report: &Report) -> String {
    let view = View::of(report);
    let mut text = format!("# {}\n\n", escape(&words::title(&report.recipe)));
    if let Some(why) = &report.ended_early {
        text += &format!(
            "**Ended early: {}** What was finished is below.\n\n",
            sentence(why)
        );
    }
    for (name, value) in tables::facts(report) {
        text += &format!("- {}: {}\n", escape(&name), escape(&value));
    }
    for group in &view.groups {
        text += &table(&tables::of_group(group));
    }
    for closing in [tables::cipher_share(&view), tables::cipher_speed(report)] {
        if !closing.rows.is_empty() {
            text += &table(&closing);
        }
    }
    text
}

fn table(table: &Table) -> String {
    let heads = table.columns.iter().map(|column| escape(&column.name));
    let mut rows = vec![heads.collect::<Vec<_>>()];
    let cells = |cells: &Vec<String>| cells.iter().map(|cell| escape(cell)).collect();
    rows.extend(table.rows.iter().map(|row| cells(&row.cells)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|c| width(c).unwrap_or(0).max(3))
        .collect();

    let mut text = format!("\n## {}\n\n", escape(&table.title));
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
fn escape(text: &str) -> String {
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
