//! The text of `pgseal bench compare`: two reports side by side.

use super::markdown::{body, escape, escaped, line};
use super::tables::{Column, Row, Table};
use super::Form;
use crate::compare::{self, Change, Comparison};
use crate::statistics::{Difference, Estimate};

const INTERVALS: &str = "Before and after: medians. Difference: of the means, in percentage \
                         points; its intervals hold all together in 95 of 100 comparisons.";
const ELSEWHERE: &str = "The machines or PostgreSQL's versions differ: so may the figures.";

/// Returns the comparison for a terminal or a README.
pub fn comparison(comparison: &Comparison, form: Form) -> String {
    let mut text = body(&escaped(&table(comparison, form)), form);
    for note in notes(comparison) {
        text.push('\n');
        text += &line(&note, "", form);
    }
    text.trim_start().to_owned()
}

/// Returns the figures. In narrow form a table is split by its columns, and each part has the first
/// one: variant and figure stand there together.
fn table(comparison: &Comparison, form: Form) -> Table {
    let columns = match form {
        Form::Wide => ["case", "variant", "figure"].as_slice(),
        Form::Narrow => &["case", "variant, figure"],
    };
    let text = columns.iter().map(|name| column(name, false));
    let numbers = ["before", "after", "difference"].map(|name| column(name, true));
    let columns = text.chain(numbers).chain([column("change", false)]);
    let mut before = None;
    let rows = comparison.rows.iter().map(|row| Row {
        published: false,
        first: before.replace(&row.case) != Some(&row.case),
        cells: cells(row, form),
    });
    Table {
        title: String::new(),
        columns: columns.collect(),
        rows: rows.collect(),
    }
}

fn column(name: &str, number: bool) -> Column {
    Column {
        name: name.to_owned(),
        number,
    }
}

fn cells(row: &compare::Row, form: Form) -> Vec<String> {
    let (case, variant) = (row.case.clone(), row.variant.clone());
    let mut cells = match form {
        Form::Wide => vec![case, variant, row.what.to_owned()],
        Form::Narrow => vec![case, format!("{variant}, {}", row.what)],
    };
    cells.extend([percent(row.a), percent(row.b)]);
    cells.push(row.difference.map(points).unwrap_or_default());
    cells.push(word(row.change()).to_owned());
    cells
}

/// Returns what is to be known beside the figures.
fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = vec![INTERVALS.to_owned()];
    if !comparison.left_out.is_empty() {
        let names = escape(&comparison.left_out.join("; "));
        notes.push(format!("In one only: {names}."));
    }
    if !comparison.parameters.is_empty() {
        let names = escape(&comparison.parameters.join(", "));
        notes.push(format!(
            "The parameters {names} differ: the figures may differ by that alone."
        ));
    }
    if comparison.elsewhere {
        notes.push(ELSEWHERE.to_owned());
    }
    notes
}

fn word(change: Change) -> &'static str {
    match change {
        Change::Better => "better",
        Change::NotShown => "no change shown",
        Change::Worse => "worse",
        Change::TooFewRounds => "too few rounds",
    }
}

fn percent(value: Estimate) -> String {
    bracketed(value.median, value.low, value.high, " %")
}

fn points(value: Difference) -> String {
    bracketed(value.mean, value.low, value.high, "")
}

fn bracketed(middle: f64, low: f64, high: f64, unit: &str) -> String {
    let [middle, low, high] = [middle, low, high].map(|part| part * 100.0);
    format!("{middle:+.2}{unit} [{low:+.2}, {high:+.2}]")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::compare::compare;
    use crate::figures::tests::report;
    use crate::model::{Case, Report};

    /// Six rounds of stock at 100 and sealed at these.
    fn of(sealed: [f64; 6]) -> Report {
        report(&sealed.map(|tps| (0, 100.0, tps)))
    }

    /// Two cases that got worse, and all that there is to say beside them.
    fn worse() -> Comparison {
        let (mut old, mut new) = (of([99.0; 6]), of([95.0; 6]));
        let second = "scale 50, 12 connections; relations rewritten with the cluster's own locale";
        for report in [&mut old, &mut new] {
            report.cases.push(Case {
                name: second.to_owned(),
                ..report.cases[0].clone()
            });
        }
        new.cases.push(Case {
            name: "another|<case>".to_owned(),
            ..new.cases[0].clone()
        });
        new.parameters.insert("wal_log_hints".into(), true.into());
        new.machine.cores = 64;
        compare(&old, &new).expect("one recipe")
    }

    #[test]
    fn the_narrow_form_has_a_table_for_each_case_in_two_parts() {
        let mut compared = worse();
        compared.rows.truncate(2);
        let text = comparison(&compared, Form::Narrow);
        let start = "\
### all

| variant, figure  |                 before |                  after |
| ---------------- | ---------------------: | ---------------------: |
| sealed-256, loss | +1.00 % [+1.00, +1.00] | +5.00 % [+5.00, +5.00] |
| sealed-256, CPU  | +0.40 % [+0.40, +0.40] | +0.40 % [+0.40, +0.40] |

| variant, figure  |           difference | change          |
| ---------------- | -------------------: | --------------- |
| sealed-256, loss | +4.00 [+4.00, +4.00] | worse           |
| sealed-256, CPU  | +0.00 [-0.00, +0.00] | no change shown |

Before and after: medians.";
        assert!(text.starts_with(start), "{text}");
    }

    #[test]
    fn the_narrow_form_fits_a_terminal_and_loses_nothing() {
        let [narrow, wide] = [Form::Narrow, Form::Wide].map(|form| comparison(&worse(), form));
        let long = narrow.lines().filter(|line| line.chars().count() > 80);
        assert_eq!(long.collect::<Vec<_>>(), [""; 0]);
        let words = |text: &str| {
            let words = text.split(|c: char| c.is_whitespace() || "|-:#,".contains(c));
            words.map(str::to_owned).collect::<BTreeSet<_>>()
        };
        let (wide, narrow) = (words(&wide), words(&narrow));
        // The head of a column whose cells are headings here.
        assert_eq!(wide.difference(&narrow).collect::<Vec<_>>(), ["case"]);
    }

    #[test]
    fn the_wide_form_has_all_columns_side_by_side() {
        let (old, new) = (of([99.0, 97.0, 95.0, 98.0, 96.0, 94.0]), of([95.0; 6]));
        let same = compare(&old, &new).expect("one recipe");
        let text = comparison(&same, Form::Wide);
        assert!(
            text.starts_with("| case | variant    | figure | "),
            "{text}"
        );
        assert!(
            text.contains("| all  | sealed-256 | loss   | +3.50 % ["),
            "{text}"
        );
        assert!(
            text.contains("| +5.00 % [+5.00, +5.00] | +1.50 ["),
            "{text}"
        );
        assert!(text.contains("] | no change shown |\n"), "{text}");
        assert!(
            !text.contains("differ:") && !text.contains("one only"),
            "{text}"
        );
    }

    #[test]
    fn what_else_differs_is_said_below() {
        let text = comparison(&worse(), Form::Wide);
        let notes = "\nIn one only: another\\|\\<case>, sealed-256.\n\
                     \nThe parameters wal_log_hints differ: the figures may differ by that alone.\n\
                     \nThe machines or PostgreSQL's versions differ: so may the figures.\n";
        assert!(text.ends_with(notes), "{text}");
    }
}
