//! Text for people: named fields, and tables as psql draws them.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use pgseal_client::KeyRing;

/// One line each: the name, padded, and the value.
pub fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| format!("{name:width$}  {value}\n");
    fields.iter().map(line).collect()
}

/// Says on standard error which data keys are not the owner's, and why.
pub fn refused_keys(keys: &KeyRing) {
    for (name, error) in keys.refused() {
        // It is a warning: what was asked for does not depend on it.
        let _ = writeln!(
            io::stderr(),
            "pgseal: the data key {name:?} is refused: {error}"
        );
    }
}

/// RFC 3339, UTC.
pub fn time(seconds: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    match at.filter(|_| seconds < 253_402_300_800) {
        Some(at) => humantime::format_rfc3339_seconds(at).to_string(),
        None => "never".to_owned(),
    }
}

/// A table, with its head and the number of its rows.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let s = if rows.len() == 1 { "" } else { "s" };
    format!("{}({} row{s})\n", aligned(head, rows), rows.len())
}

/// Rows alone, unaligned or aligned.
pub fn rows(rows: &[Vec<String>], unaligned: bool) -> String {
    let widths = widths(&[], rows);
    let row = |row: &Vec<String>| match unaligned {
        true => row.join("|") + "\n",
        false => line(row.iter().map(String::as_str), &widths) + "\n",
    };
    rows.iter().map(row).collect()
}

fn aligned(head: &[&str], rows: &[Vec<String>]) -> String {
    let widths = widths(head, rows);
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    let mut text = format!(
        "{}\n{}\n",
        line(head.iter().copied(), &widths),
        rule.join("+")
    );
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str), &widths));
        text.push('\n');
    }
    text
}

fn widths(head: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let columns = head.len().max(rows.iter().map(Vec::len).max().unwrap_or(0));
    let width = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(String::as_str);
        let all = cells.chain(head.get(column).copied());
        all.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    (0..columns).map(width).collect()
}

fn line<'a>(cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let cells = cells
        .zip(widths)
        .map(|(cell, width)| format!(" {cell:width$} "));
    let line = cells.collect::<Vec<_>>().join("|");
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_psqls() {
        let rows = [
            vec!["1".to_owned(), "long".to_owned()],
            vec!["22".into(), String::new()],
        ];
        let expected = " id | c\n----+------\n 1  | long\n 22 |\n";
        assert_eq!(aligned(&["id", "c"], &rows), expected);
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
        assert_eq!(time(u64::MAX), "never");
    }
}
