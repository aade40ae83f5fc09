//! Tables and lines that fit a terminal of 80 columns. A wide table becomes one for each case, and
//! each of these is split by its columns; the variant is at the left of each part.

use super::tables::{Row, Table};

/// The columns of a terminal.
pub(super) const WIDTH: usize = 80;
/// The characters around a cell: a bar and two spaces.
const FRAME: usize = 3;

/// Returns the tables of the cases, each with the name of its case; one without a name if the table
/// has no column of cases.
pub(super) fn by_case(table: &Table) -> Vec<Table> {
    if table
        .columns
        .first()
        .is_none_or(|column| column.name != "case")
    {
        let title = String::new();
        return vec![Table {
            title,
            ..table.clone()
        }];
    }
    let mut cases: Vec<Table> = Vec::new();
    for row in &table.rows {
        if row.first || cases.is_empty() {
            cases.push(Table {
                title: row.cells[0].clone(),
                columns: table.columns[1..].to_vec(),
                rows: Vec::new(),
            });
        }
        let cells = row.cells[1..].to_vec();
        let last = cases.len() - 1;
        cases[last].rows.push(Row {
            cells,
            ..row.clone()
        });
    }
    cases
}

/// Splits a table into parts that fit. Each has the first column, and those rows that say something
/// in one of its others.
pub(super) fn parts(table: &Table) -> Vec<Table> {
    let widths = table.widths();
    let mut parts = Vec::new();
    let (mut chosen, mut used) = (vec![0], widths[0] + FRAME + 1);
    for (column, width) in widths.iter().enumerate().skip(1) {
        if chosen.len() > 1 && used + width + FRAME > WIDTH {
            parts.push(part(table, &chosen));
            (chosen, used) = (vec![0], widths[0] + FRAME + 1);
        }
        chosen.push(column);
        used += width + FRAME;
    }
    parts.push(part(table, &chosen));
    parts
}

/// Returns the chosen columns; text that is too long for its cell goes on in the next row.
fn part(table: &Table, chosen: &[usize]) -> Table {
    let room = match chosen {
        [key, only] if !table.columns[*only].number => {
            WIDTH.saturating_sub(table.widths()[*key] + 2 * FRAME + 1)
        }
        _ => WIDTH,
    };
    let says = |row: &&Row| {
        chosen[1..]
            .iter()
            .any(|column| !row.cells[*column].is_empty())
    };
    let rows = table.rows.iter().filter(says).flat_map(|row| {
        let cells = chosen.iter().map(|column| wrap(&row.cells[*column], room));
        let cells: Vec<Vec<String>> = cells.collect();
        let lines = cells.iter().map(Vec::len).max().unwrap_or(0);
        (0..lines).map(move |line| Row {
            published: row.published,
            first: row.first && line == 0,
            cells: cells
                .iter()
                .map(|cell| cell.get(line).cloned().unwrap_or_default())
                .collect(),
        })
    });
    Table {
        title: String::new(),
        columns: chosen
            .iter()
            .map(|column| table.columns[*column].clone())
            .collect(),
        rows: rows.collect(),
    }
}

/// Breaks text between words into lines of at most `width` characters; a longer word has a line of
/// its own. There is one line at least.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let len = lines[last].chars().count();
        if len == 0 {
            lines[last].push_str(word);
        } else if len + 1 + word.chars().count() <= width {
            lines[last].push(' ');
            lines[last].push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_breaks_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a-long-word b", 4), ["a-long-word", "b"]);
        assert_eq!(wrap("", 4), [""]);
    }
}
