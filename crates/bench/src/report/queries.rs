//! The table of queries that ran on plain and on encrypted columns: how many times as long each
//! took, and what follows from all of them.

use super::tables::{left, right, without_empty, Row, Table};
use super::words::{self, significant};
use super::{Group, Measured};
use crate::figures::Figure;
use crate::model::{Case, STOCK};

const REQUESTS: &str = "requests";

/// Returns the table: a row for each query, then the geometric mean, the worst query, and how many
/// queries a variant refused. Those are in no mean.
pub(super) fn of_group(group: &Group) -> Table {
    let variants = variants(group);
    let mut columns = vec![left("query"), right("rows"), right("stock, ms")];
    columns.extend(variants.iter().map(|name| right(&format!("{name}, times"))));
    columns.extend(
        variants
            .iter()
            .map(|name| right(&format!("{name}, requests"))),
    );
    let mut rows: Vec<Row> = group
        .cases
        .iter()
        .map(|measured| row(of_query(measured, &variants)))
        .collect();
    rows.push(closing("geometric mean", &variants, |name| {
        mean(group, name)
    }));
    rows.push(closing("worst", &variants, |name| worst(group, name)));
    rows.push(closing("refused, in no mean", &variants, |name| {
        refusals(group, name)
    }));
    rows.retain(|row| row.cells[1..].iter().any(|cell| !cell.is_empty()));
    without_empty(Table {
        title: words::capital(words::value_name(group.metric())),
        columns,
        rows,
    })
}

/// The variants beside stock, in the order of the report.
fn variants<'a>(group: &'a Group) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    let cases = group.cases.iter();
    for name in cases.flat_map(|measured| of_case(measured)) {
        if name != STOCK && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The variants that ran a query, and then those that refused it.
fn of_case<'a>(measured: &'a Measured) -> impl Iterator<Item = &'a str> {
    let ran = measured
        .figures
        .iter()
        .map(|figure| figure.variant.as_str());
    let rounds = measured.case.rounds.iter();
    let samples = rounds.flat_map(|round| &round.samples);
    let refused = samples.filter(|(_, sample)| sample.refused.is_some());
    ran.chain(refused.map(|(name, _)| name.as_str()))
}

fn of_query(measured: &Measured, variants: &[&str]) -> Vec<String> {
    let figure = |name: &str| measured.figure(name);
    let stock = figure(STOCK);
    let returned = stock.and_then(|stock| stock.extra.get("rows"));
    let mut cells = vec![
        measured.case.name.clone(),
        returned
            .map(|rows| format!("{rows:.0}"))
            .unwrap_or_default(),
        stock
            .map(|stock| significant(stock.value * 1e3))
            .unwrap_or_default(),
    ];
    cells.extend(variants.iter().map(|name| match figure(name) {
        Some(figure) => significant(times(figure)),
        None => refusal(measured.case, name).unwrap_or_default(),
    }));
    cells.extend(variants.iter().map(|name| {
        let asked = figure(name).and_then(|figure| figure.extra.get(REQUESTS));
        let asked = asked.filter(|requests| **requests > 0.0);
        asked
            .map(|requests| format!("{requests:.0}"))
            .unwrap_or_default()
    }));
    cells
}

/// `refused (0A000)`, in the last round that has it.
fn refusal(case: &Case, variant: &str) -> Option<String> {
    let mut samples = case
        .rounds
        .iter()
        .rev()
        .filter_map(|round| round.samples.get(variant));
    let state = samples.find_map(|sample| sample.refused.as_deref())?;
    Some(format!("refused ({state})"))
}

fn mean(group: &Group, variant: &str) -> String {
    let all: Vec<f64> = ratios(group, variant)
        .map(|(_, ratio)| ratio.ln())
        .collect();
    match all.len() {
        0 => String::new(),
        count => significant((all.iter().sum::<f64>() / count as f64).exp()),
    }
}

fn worst(group: &Group, variant: &str) -> String {
    let worst = ratios(group, variant).max_by(|one, other| one.1.total_cmp(&other.1));
    let short = |case: &Case| case.name.split(':').next().unwrap_or_default().to_owned();
    worst
        .map(|(case, ratio)| format!("{} ({})", significant(ratio), short(case)))
        .unwrap_or_default()
}

fn refusals(group: &Group, variant: &str) -> String {
    let refused = |measured: &&Measured| refusal(measured.case, variant).is_some();
    match group.cases.iter().filter(refused).count() {
        0 => String::new(),
        count => count.to_string(),
    }
}

fn ratios<'a>(group: &'a Group, variant: &'a str) -> impl Iterator<Item = (&'a Case, f64)> {
    let cases = group.cases.iter();
    cases.filter_map(move |measured| Some((measured.case, times(measured.figure(variant)?))))
}

/// How many times as long as on stock.
fn times(figure: &Figure) -> f64 {
    figure.loss.median + 1.0
}

fn closing(name: &str, variants: &[&str], of: impl Fn(&str) -> String) -> Row {
    let mut cells = vec![name.to_owned(), String::new(), String::new()];
    cells.extend(variants.iter().map(|variant| of(variant)));
    cells.extend(variants.iter().map(|_| String::new()));
    row(cells)
}

fn row(cells: Vec<String>) -> Row {
    Row {
        published: false,
        first: true,
        cells,
    }
}
