//! The content of a report's tables, the same for Markdown and the page.
//!
//! Figures of others are rows below ours, with their names where ours have verdicts. A column
//! that is empty is left out.

use std::collections::BTreeSet;

use super::words::{self, significant};
use super::{queries, Group, Measured, View};
use crate::figures::{CipherShare, Figure};
use crate::model::{Asked, CipherSpeed, Metric, Published, Report};
use crate::statistics::Estimate;

/// Variant, value, speed, loss, time added, verdict, CPU, extra CPU; the name of the case is
/// before them.
const OWN_CELLS: usize = 8;
/// Extra CPU is to be at most so many times the cipher's own time.
const AIM_PER_CIPHER: f64 = 1.3;
const PAGE: f64 = 8192.0;

/// Rows of text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

impl Table {
    /// Returns the characters that each column takes; three make the line below its head.
    pub(super) fn widths(&self) -> Vec<usize> {
        let of = |column: usize| {
            let cells = self
                .rows
                .iter()
                .map(|row| row.cells[column].chars().count());
            let head = self.columns[column].name.chars().count();
            cells.fold(head.max(3), usize::max)
        };
        (0..self.columns.len()).map(of).collect()
    }
}

/// The head of a column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    /// Numbers stand at the right.
    pub(super) number: bool,
}

/// A row has one cell for each column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// A figure of others.
    pub(super) published: bool,
    /// Begins a case.
    pub(super) first: bool,
    pub(super) cells: Vec<String>,
}

/// The facts above the tables: name and text.
pub(super) fn facts(report: &Report) -> Vec<(String, String)> {
    let machine = &report.machine;
    let gib = machine.memory as f64 / f64::from(1 << 30);
    let [one, five, fifteen] = machine.load;
    let mut facts = vec![
        (
            "machine",
            format!(
                "{}, {}, {gib:.1} GiB, Linux {}, {}; load {one:.2} {five:.2} {fifteen:.2} before",
                machine.cpu,
                words::count(machine.cores, "core"),
                machine.kernel,
                machine.file_system
            ),
        ),
        ("server", versions(report)),
        ("rounds", rounds(report)),
        ("seed", report.seed.to_string()),
        ("started", report.started.clone()),
    ];
    facts.extend(
        report
            .asked
            .iter()
            .map(|asked| ("asked for", how_long(asked))),
    );
    let asked = report.parameters.iter();
    facts.extend(asked.map(|(name, value)| (name.as_str(), parameter(value))));
    let plain = |(name, text): (&str, String)| (name.replace('_', " "), text);
    facts.into_iter().map(plain).collect()
}

/// As options of the command line, and what followed from `--sets`.
fn how_long(asked: &Asked) -> String {
    let (rounds, on_a_set) = (asked.rounds, asked.rounds_per_set);
    let until_ci = |ci| format!("--until-ci {}", words::percent(ci, 3).replace(' ', ""));
    let mut options = vec![format!("--rounds {rounds} ({on_a_set} on a set)")];
    options.extend(asked.until_ci.map(until_ci));
    let limit = asked.time_limit_s;
    options.extend(limit.map(|limit| format!("--time-limit {limit}s")));
    options.extend(asked.quick.then(|| "--quick".to_owned()));
    options.join(" ")
}

/// Lists without brackets, text without quotes.
fn parameter(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(values) => {
            values.iter().map(parameter).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// Each version once, with its variants if there are others.
fn versions(report: &Report) -> String {
    let mut versions: Vec<(&str, Vec<&str>)> = Vec::new();
    for variant in &report.variants {
        let name = variant.name.as_str();
        match versions
            .iter_mut()
            .find(|(version, _)| *version == variant.postgres)
        {
            Some((_, names)) => names.push(name),
            None => versions.push((&variant.postgres, vec![name])),
        }
    }
    if let [(version, _)] = versions[..] {
        return version.to_owned();
    }
    let each = versions
        .iter()
        .map(|(version, names)| format!("{}: {version}", names.join(", ")));
    each.collect::<Vec<_>>().join("; ")
}

fn rounds(report: &Report) -> String {
    let counts = || report.cases.iter().map(|case| case.rounds.len());
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    let rounds = match least == most {
        true => words::count(most, "round"),
        false => format!("{least} to {most} rounds"),
    };
    let all = report.cases.iter().flat_map(|case| &case.rounds);
    let sets: BTreeSet<u32> = all.map(|round| round.set).collect();
    format!(
        "{rounds} of each case, on {} of clusters",
        words::count(sets.len(), "set")
    )
}

/// The table of a group: each variant in each case, then what is known of others.
pub(super) fn of_group(group: &Group) -> Table {
    if group.metric() == Metric::QuerySeconds {
        return queries::of_group(group);
    }
    let extras: BTreeSet<&str> = (group.cases.iter().flat_map(|measured| &measured.figures))
        .flat_map(|figure| figure.extra.keys().map(String::as_str))
        .collect();
    let metric = group.metric();
    let mut columns = vec![
        left("case"),
        left("variant"),
        right(metric.unit()),
        right("GB/s"),
        right(&format!("{} [95 %]", words::loss_name(metric))),
        right("time added [95 %]"),
        left("verdict"),
        right(&format!("CPU per {}", words::work_name(metric))),
        right("extra CPU [95 %]"),
    ];
    columns.extend(extras.iter().map(|name| right(&words::curve_name(name))));
    let mut rows = Vec::new();
    for measured in &group.cases {
        rows.extend(case_rows(group, measured, &extras));
    }
    let title = match group.name {
        "" => words::capital(words::value_name(metric)),
        name => words::capital(name),
    };
    without_empty(Table {
        title,
        columns,
        rows,
    })
}

fn case_rows(group: &Group, measured: &Measured, extras: &BTreeSet<&str>) -> Vec<Row> {
    let cells = OWN_CELLS + extras.len();
    let row = |published, own: Vec<String>| {
        let mut cells = own;
        cells.insert(0, String::new());
        Row {
            published,
            first: false,
            cells,
        }
    };
    let ours = measured
        .figures
        .iter()
        .map(|figure| our_cells(measured, figure, extras));
    let mut rows: Vec<Row> = ours.map(|own| row(false, own)).collect();
    if rows.is_empty() {
        rows.push(row(false, padded(vec!["not measured".to_owned()], cells)));
    }
    let theirs = measured.case.published.iter().map(published_cells);
    rows.extend(theirs.map(|own| row(true, padded(own, cells))));
    rows[0].first = true;
    rows[0].cells[0] = group.short_name(measured.case).to_owned();
    rows
}

fn padded(mut cells: Vec<String>, count: usize) -> Vec<String> {
    cells.resize(count, String::new());
    cells
}

fn our_cells(measured: &Measured, figure: &Figure, extras: &BTreeSet<&str>) -> Vec<String> {
    let case = measured.case;
    let beside = |text: Option<String>| text.filter(|_| figure.verdict.is_some());
    let verdict = figure.verdict;
    let cells = [
        Some(figure.variant.clone()),
        Some(significant(figure.value)),
        speed(case.metric, figure.value),
        beside(words::percent_interval(figure.loss)),
        beside(figure.added_us.and_then(words::time_interval)),
        verdict.map(|verdict| words::verdict(verdict, case.limit)),
        words::time(figure.cpu_us),
        beside(words::percent_interval(figure.cpu_ratio.over_one())),
    ];
    let extra = |name: &&str| figure.extra.get(*name).map(|value| significant(*value));
    let all = cells.into_iter().chain(extras.iter().map(extra));
    all.map(Option::unwrap_or_default).collect()
}

fn published_cells(published: &Published) -> Vec<String> {
    let value = match (published.stock, published.encrypted) {
        (Some(stock), Some(own)) => format!("{}, stock {}", significant(own), significant(stock)),
        (None, Some(own)) => significant(own),
        (Some(stock), None) => format!("stock {}", significant(stock)),
        (None, None) => String::new(),
    };
    vec![
        words::origin(published).to_owned(),
        value,
        String::new(),
        words::percent(published.loss, 1),
        published.added_us.and_then(words::time).unwrap_or_default(),
        words::published_name(published),
    ]
}

/// How the extra CPU compares with the cipher's own time, where pages moved.
pub(super) fn cipher_share(view: &View) -> Table {
    let mut rows = Vec::new();
    for measured in view.groups.iter().flat_map(|group| &group.cases) {
        for figure in &measured.figures {
            if let Some((share, times)) = figure.cipher.and_then(|c| Some((c, c.extra_per_cipher?)))
            {
                rows.push(share_row(measured, figure, &share, times));
            }
        }
    }
    Table {
        title: format!("The cipher's share (aim: at most {AIM_PER_CIPHER} times its own time)"),
        columns: vec![
            left("case"),
            left("variant"),
            right("pages decrypted"),
            right("pages encrypted"),
            right("cipher's own time"),
            right("extra CPU [95 %]"),
            right("extra / cipher [95 %]"),
        ],
        rows,
    }
}

fn share_row(measured: &Measured, figure: &Figure, share: &CipherShare, times: Estimate) -> Row {
    let cells = vec![
        measured.case.name.clone(),
        figure.variant.clone(),
        significant(share.opened),
        significant(share.sealed),
        words::time(share.cipher_us).unwrap_or_default(),
        words::time_interval(figure.extra_us).unwrap_or_default(),
        words::times_interval(times).unwrap_or_default(),
    ];
    Row {
        published: false,
        first: true,
        cells,
    }
}

/// The cipher's own speed beside the run.
pub(super) fn cipher_speed(report: &Report) -> Table {
    let row = |speed: &CipherSpeed| {
        let mut cells = vec![format!("{} bits", speed.bits)];
        for ns in [speed.open_ns, speed.seal_ns] {
            cells.push(format!("{:.0}, {:.0}", ns[0], ns[1]));
            cells.push(format!("{:.2}", PAGE / ((ns[0] + ns[1]) / 2.0)));
        }
        Row {
            published: false,
            first: true,
            cells,
        }
    };
    Table {
        title: "The cipher alone, on one thread, before and after the rounds".to_owned(),
        columns: vec![
            left("key"),
            right("decrypt, ns/page"),
            right("GB/s"),
            right("encrypt, ns/page"),
            right("GB/s"),
        ],
        rows: report.cipher.iter().map(row).collect(),
    }
}

/// Returns the speed of work that takes `ns` nanoseconds a page.
fn speed(metric: Metric, ns: f64) -> Option<String> {
    (metric == Metric::NanosecondsPerPage).then(|| format!("{:.2}", PAGE / ns))
}

pub(super) fn without_empty(table: Table) -> Table {
    let Table {
        title,
        mut columns,
        mut rows,
    } = table;
    for column in (0..columns.len()).rev() {
        if rows.iter().all(|row| row.cells[column].is_empty()) {
            columns.remove(column);
            rows.iter_mut()
                .for_each(|row| drop(row.cells.remove(column)));
        }
    }
    Table {
        title,
        columns,
        rows,
    }
}

pub(super) fn left(name: &str) -> Column {
    Column {
        name: name.to_owned(),
        number: false,
    }
}

pub(super) fn right(name: &str) -> Column {
    Column {
        name: name.to_owned(),
        number: true,
    }
}
