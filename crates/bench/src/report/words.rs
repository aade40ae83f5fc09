//! Numbers and sentences of reports: what Markdown, page and charts have in common.

use crate::figures::Verdict;
use crate::model::{Metric, Origin, Published};
use crate::statistics::Estimate;

/// Returns the title of a report, by its recipe.
pub(super) fn title(recipe: &str) -> String {
    let what = match recipe {
        "readonly" => "pgbench, read-only",
        "tpcb" => "pgbench, TPC-B",
        "checksums" => "encryption and page checksums",
        "tprocc" => "TPROC-C",
        "upgrade" => "pg_upgrade",
        "worst" => "the worst cases",
        "confidential" => "encrypted columns",
        "tpch" => "TPC-H on encrypted columns",
        "cipher" => "the cipher alone",
        other => other,
    };
    format!("What encryption costs: {what}")
}

/// Returns the name of a case's value.
pub(super) fn value_name(metric: Metric) -> &'static str {
    match metric {
        Metric::TransactionsPerSecond => "transactions per second",
        Metric::NewOrdersPerMinute => "new orders per minute",
        Metric::Seconds => "seconds",
        Metric::QuerySeconds => "time of queries",
        Metric::NanosecondsPerPage => "nanoseconds per page",
    }
}

/// Returns the name of a positive loss.
pub(super) fn loss_name(metric: Metric) -> &'static str {
    if metric.more_is_better() {
        "loss"
    } else {
        "extra time"
    }
}

/// Returns the name of the work that the processor time of a sample is divided by.
pub(super) fn work_name(metric: Metric) -> &'static str {
    match metric {
        Metric::TransactionsPerSecond | Metric::NewOrdersPerMinute => "transaction",
        Metric::Seconds | Metric::QuerySeconds => "run",
        Metric::NanosecondsPerPage => "page",
    }
}

/// A verdict against the aim.
pub(super) fn verdict(verdict: Verdict, aim: f64) -> String {
    let aim = percent(aim, 2);
    match verdict {
        Verdict::NoLoss => format!("no loss, within the aim of {aim}"),
        Verdict::Within => format!("within the aim of {aim}"),
        Verdict::Loss => format!("a loss, undecided against the aim of {aim}"),
        Verdict::Beyond => format!("misses the aim of {aim}"),
        Verdict::Undecided => format!("undecided against the aim of {aim}"),
        Verdict::TooFewRounds => "too few rounds for a verdict".to_owned(),
    }
}

/// `0.2 % [-0.3, 0.6]`, with two digits where the interval is that narrow.
pub(super) fn percent_interval(estimate: Estimate) -> Option<String> {
    let digits = if estimate.half_width() < 0.001 { 2 } else { 1 };
    let number = |value: f64| fixed(value * 100.0, digits);
    interval(estimate, number, " %")
}

/// `1.13 [1.02, 1.25]`.
pub(super) fn times_interval(estimate: Estimate) -> Option<String> {
    interval(estimate, |value| fixed(value, 2), "")
}

/// `12.3 µs [11.9, 12.8]`: all three in the unit of the largest.
pub(super) fn time_interval(us: Estimate) -> Option<String> {
    let largest = us.median.abs().max(us.low.abs()).max(us.high.abs());
    let (unit, name) = time_unit(largest);
    let digits = if largest / unit < 10.0 { 2 } else { 1 };
    interval(us, |value| fixed(value / unit, digits), name)
}

/// Where values are too few for 95 %, the level that they reach is behind the interval; a
/// single value has none.
fn interval(estimate: Estimate, number: impl Fn(f64) -> String, unit: &str) -> Option<String> {
    let Estimate {
        median, low, high, ..
    } = estimate;
    let finite = [median, low, high].into_iter().all(f64::is_finite);
    let middle = format!("{}{unit}", number(median));
    let reached = match estimate.level {
        _ if estimate.decides() => String::new(),
        level if level < 0.5 => return finite.then_some(middle),
        level => format!(" at {}", percent(level, 0)),
    };
    finite.then(|| format!("{middle} [{}, {}]{reached}", number(low), number(high)))
}

/// `41.2 µs`.
pub(super) fn time(us: f64) -> Option<String> {
    let (unit, name) = time_unit(us.abs());
    us.is_finite()
        .then(|| format!("{}{name}", significant(us / unit)))
}

/// How many microseconds it has, and what it is called.
fn time_unit(us: f64) -> (f64, &'static str) {
    match us {
        us if us >= 1e6 => (1e6, " s"),
        us if us >= 1e3 => (1e3, " ms"),
        _ => (1.0, " µs"),
    }
}

/// A fraction in per cent, without zeros at its end: `0.5 %`, `30 %`.
pub(super) fn percent(fraction: f64, most_digits: usize) -> String {
    let number = fixed(fraction * 100.0, most_digits);
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => &number,
    };
    format!("{number} %")
}

/// As charts show a fraction.
pub(super) fn percent_short(fraction: f64) -> String {
    percent(fraction, if fraction.abs() < 0.01 { 2 } else { 1 })
}

/// A value as tables show it: the larger, the fewer digits behind the point.
pub(super) fn significant(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1e4 => 0,
        size if size >= 1e2 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    fixed(value, digits)
}

/// Formats `value` without a minus before a zero.
fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|digit| matches!(digit, '0' | '.')) => zero.to_owned(),
        _ => text,
    }
}

/// Returns the words for the origin of a figure.
pub(super) fn origin(published: &Published) -> &'static str {
    match published.origin {
        Origin::Published => "published",
        Origin::OurRun => "run by us",
    }
}

/// Returns what a figure was measured of, and its source.
pub(super) fn published_name(published: &Published) -> String {
    format!("{} ({})", published.variant, published.source)
}

/// The name of a curve, whose end is its unit: `wal_write_kb_s` is `WAL write, kB/s`.
pub(super) fn curve_name(name: &str) -> String {
    const UNITS: [(&str, &str); 6] = [
        ("_kb_s", ", kB/s"),
        ("_mb", ", MB"),
        ("_bytes", ", bytes"),
        ("_percent", ", %"),
        ("_us", ", µs"),
        ("_s", ", s"),
    ];
    let unit = UNITS
        .iter()
        .find_map(|(end, unit)| Some((name.strip_suffix(end)?, *unit)));
    let (what, unit) = unit.unwrap_or((name, ""));
    let words = what.split('_').map(|word| match word {
        "cpu" => "CPU",
        "wal" => "WAL",
        "nopm" => "NOPM",
        other => other,
    });
    format!("{}{unit}", words.collect::<Vec<_>>().join(" "))
}

/// Returns `text` with a large first letter.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// A count and its noun: `1 round`, `8 rounds`.
pub(super) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
