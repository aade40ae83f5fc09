//! Which charts a report has, and what they show: the shapes of the published tables.
//!
//! Cases along an axis give two charts of lines, the value and the loss; other cases give bars.
//! What was sampled over time gives a small chart for each curve.

use std::collections::{BTreeMap, BTreeSet};

use super::palette::{self, Colour};
use super::plot::{self, Bar, BarCase, Bars, Drawn, Line, Lines, Point, Scale};
use super::{words, Group, Measured, View};
use crate::figures::Figure;
use crate::model::{Case, Metric, Published, Report, Sample, STOCK};
use crate::statistics::Estimate;

const NUMBER: Scale = Scale {
    label: plot::short,
    least: 0.0,
};
const FRACTION: Scale = Scale {
    label: words::percent_short,
    least: 0.01,
};
/// Curves are averaged into so many steps: a page must stay small when a run lasts an hour.
const MAX_STEPS: usize = 240;

/// A chart of the page.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chart {
    pub(super) title: String,
    /// The description for readers who do not see the chart.
    pub(super) description: String,
    /// Colours and what they stand for, in the order of the report.
    pub(super) legend: Vec<(Colour, String)>,
    pub(super) drawn: Drawn,
}

/// The charts of one group of cases; none before a round was finished.
pub(super) fn of_group(view: &View, group: &Group) -> Vec<Chart> {
    let report = view.report;
    if group
        .cases
        .iter()
        .all(|measured| measured.figures.is_empty())
    {
        return Vec::new();
    }
    let mut charts = match group.axis() {
        Some(axis) => vec![
            values_by_axis(report, group, axis),
            losses_by_axis(report, group, axis),
        ],
        None if group.metric() == Metric::NanosecondsPerPage => vec![values_as_bars(report, group)],
        None => {
            let losses = losses_as_bars(report, group);
            [Some(losses), extra_cpu_as_bars(report, group)]
                .into_iter()
                .flatten()
                .collect()
        }
    };
    for measured in &group.cases {
        charts.extend(curves(report, measured.case));
    }
    charts
}

/// A variant's colour: the same on the whole page.
pub(super) fn colour(report: &Report, variant: &str) -> Colour {
    let others = report.variants.iter().filter(|other| other.name != STOCK);
    match others
        .map(|other| &other.name)
        .position(|name| name == variant)
    {
        Some(place) => Colour::of_variant(place),
        None => palette::STOCK,
    }
}

fn values_by_axis(report: &Report, group: &Group, axis: &str) -> Chart {
    let line = |variant: &&str| Line {
        colour: colour(report, variant),
        points: along_axis(group, |measured| {
            Some((measured.figure(variant)?.value, None))
        }),
    };
    let variants = names(report);
    let lines = Lines {
        lines: variants.iter().map(line).collect(),
        scale: NUMBER,
        place: plot::short,
        marks: true,
    };
    let value = words::value_name(group.metric());
    Chart {
        title: format!("{} by {axis}", words::capital(value)),
        description: format!(
            "Lines: median {value} of {} for {}. The table below has the numbers.",
            variants.join(", "),
            cases(group),
        ),
        legend: legend(report, &variants),
        drawn: lines.draw(),
    }
}

fn losses_by_axis(report: &Report, group: &Group, axis: &str) -> Chart {
    let variants = beside_stock(report);
    let mut lines: Vec<Line> = variants
        .iter()
        .map(|variant| Line {
            colour: colour(report, variant),
            points: along_axis(group, |measured| {
                Some(interval(measured.figure(variant)?.loss))
            }),
        })
        .collect();
    let most = group
        .cases
        .iter()
        .map(|measured| measured.case.published.len())
        .max();
    lines.extend((0..most.unwrap_or(0)).map(|place| Line {
        colour: palette::PUBLISHED,
        points: along_axis(group, |measured| {
            Some((measured.case.published.get(place)?.loss, None))
        }),
    }));
    let lines = Lines {
        lines,
        scale: FRACTION,
        place: plot::short,
        marks: true,
    };
    let loss = words::loss_name(group.metric());
    Chart {
        title: format!(
            "{} against stock by {axis}, with 95 % intervals",
            words::capital(loss)
        ),
        description: format!(
            "Lines: {loss} against stock of {}, and of others. The table below has the numbers.",
            variants.join(", "),
        ),
        legend: with_published(legend(report, &variants), group),
        drawn: lines.draw(),
    }
}

fn losses_as_bars(report: &Report, group: &Group) -> Chart {
    let variants = beside_stock(report);
    let loss = words::loss_name(group.metric());
    let case = |measured: &Measured| BarCase {
        published: measured
            .case
            .published
            .iter()
            .map(|figure| figure.loss)
            .collect(),
        aim: Some(measured.case.limit),
        ..bar_case(report, group, measured, &variants, |figure| {
            interval(figure.loss)
        })
    };
    let mut legend = with_published(legend(report, &variants), group);
    legend.push((
        palette::TEXT,
        "whisker: 95 % interval; upright line: aim".to_owned(),
    ));
    Chart {
        title: format!("{} against stock", words::capital(loss)),
        description: format!(
            "Bars with 95 % intervals: {loss} against stock of {} for {}, and of others. The \
             table below has the numbers.",
            variants.join(", "),
            cases(group),
        ),
        legend,
        drawn: bars(group, FRACTION, case),
    }
}

/// None if no processor time was measured.
fn extra_cpu_as_bars(report: &Report, group: &Group) -> Option<Chart> {
    let mut figures = group.cases.iter().flat_map(|measured| &measured.figures);
    figures.find(|figure| figure.cpu_ratio.median.is_finite())?;
    let variants = beside_stock(report);
    let case = |measured: &Measured| {
        let extra = |figure: &Figure| interval(figure.cpu_ratio.over_one());
        bar_case(report, group, measured, &variants, extra)
    };
    Some(Chart {
        title: "Extra processor time against stock".to_owned(),
        description: format!(
            "Bars with 95 % intervals: processor time per {} above stock's of {} for {}. The table \
             below has the numbers.",
            words::work_name(group.metric()),
            variants.join(", "),
            cases(group),
        ),
        legend: legend(report, &variants),
        drawn: bars(group, FRACTION, case),
    })
}

fn values_as_bars(report: &Report, group: &Group) -> Chart {
    let variants = names(report);
    let value = words::value_name(group.metric());
    let case = |measured: &Measured| {
        bar_case(report, group, measured, &variants, |figure| {
            (figure.value, None)
        })
    };
    Chart {
        title: words::capital(value),
        description: format!(
            "Bars: median {value} of {} for {}. The table below has the numbers.",
            variants.join(", "),
            cases(group),
        ),
        legend: legend(report, &variants),
        drawn: bars(group, NUMBER, case),
    }
}

/// Cases without a finished round are left to the table.
fn bars(group: &Group, scale: Scale, case: impl Fn(&Measured) -> BarCase) -> Drawn {
    let measured = group
        .cases
        .iter()
        .filter(|measured| !measured.figures.is_empty());
    let cases = measured.map(case).collect();
    Bars { cases, scale }.draw()
}

/// Returns the median, and the interval of 95 % if there is one.
fn interval(estimate: Estimate) -> (f64, Option<(f64, f64)>) {
    let interval = (estimate.low, estimate.high);
    (estimate.median, estimate.decides().then_some(interval))
}

fn bar_case(
    report: &Report,
    group: &Group,
    measured: &Measured,
    variants: &[&str],
    value: impl Fn(&Figure) -> (f64, Option<(f64, f64)>),
) -> BarCase {
    let bar = |variant: &&str| {
        let (value, interval) = value(measured.figure(variant)?);
        Some(Bar {
            colour: colour(report, variant),
            value,
            interval,
        })
    };
    BarCase {
        name: group.short_name(measured.case).to_owned(),
        bars: variants.iter().filter_map(bar).collect(),
        published: Vec::new(),
        aim: None,
    }
}

/// One chart for each curve of a case: all rounds, a line each.
fn curves(report: &Report, case: &Case) -> Vec<Chart> {
    let samples = || {
        let rounds = case.rounds.iter().flat_map(|round| &round.samples);
        rounds.map(|(variant, sample)| (variant.as_str(), sample))
    };
    let names: BTreeSet<&String> = samples()
        .flat_map(|(_, sample)| sample.curves.keys())
        .collect();
    names
        .into_iter()
        .map(|name| curve(report, case, name, samples()))
        .collect()
}

fn curve<'a>(
    report: &'a Report,
    case: &Case,
    name: &str,
    samples: impl Iterator<Item = (&'a str, &'a Sample)>,
) -> Chart {
    let mut lines: BTreeMap<usize, Vec<Line>> = BTreeMap::new();
    let variants = names(report);
    for (variant, sample) in samples {
        let place = variants.iter().position(|other| *other == variant);
        if let (Some(place), Some(curve)) = (place, sample.curves.get(name)) {
            let line = Line {
                colour: colour(report, variant),
                points: steps(curve),
            };
            lines.entry(place).or_default().push(line);
        }
    }
    let shown: Vec<&str> = lines.keys().map(|place| variants[*place]).collect();
    let title = words::capital(&words::curve_name(name));
    Chart {
        description: format!(
            "Lines over the seconds of {}: {title} of {}, one for each round.",
            case.name,
            shown.join(", "),
        ),
        title: format!("{title} over time: {}", case.name),
        legend: legend(report, &shown),
        drawn: Lines {
            lines: lines.into_values().flatten().collect(),
            scale: NUMBER,
            place: seconds,
            marks: false,
        }
        .draw(),
    }
}

fn seconds(at: f64) -> String {
    format!("{} s", plot::short(at))
}

/// A curve's points, averaged into few enough.
fn steps(curve: &[(f64, f64)]) -> Vec<Point> {
    let size = curve.len().div_ceil(MAX_STEPS).max(1);
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let (sum, count) =
            values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        sum / count
    };
    let step = |points: &[(f64, f64)]| Point {
        x: mean(&mut points.iter().map(|point| point.0)),
        y: mean(&mut points.iter().map(|point| point.1)),
        interval: None,
    };
    curve.chunks(size).map(step).collect()
}

/// Returns the points of the cases, in the order of the axis.
fn along_axis(
    group: &Group,
    value: impl Fn(&Measured) -> Option<(f64, Option<(f64, f64)>)>,
) -> Vec<Point> {
    let mut points: Vec<Point> = group
        .cases
        .iter()
        .filter_map(|measured| {
            let (y, interval) = value(measured)?;
            Some(Point {
                x: measured.case.axis.as_ref()?.1,
                y,
                interval,
            })
        })
        .collect();
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    points
}

fn cases(group: &Group) -> String {
    let names = group
        .cases
        .iter()
        .map(|measured| measured.case.name.as_str());
    names.collect::<Vec<_>>().join("; ")
}

fn names(report: &Report) -> Vec<&str> {
    report
        .variants
        .iter()
        .map(|variant| variant.name.as_str())
        .collect()
}

fn beside_stock(report: &Report) -> Vec<&str> {
    names(report)
        .into_iter()
        .filter(|name| *name != STOCK)
        .collect()
}

fn legend(report: &Report, variants: &[&str]) -> Vec<(Colour, String)> {
    let entry = |variant: &&str| (colour(report, variant), (*variant).to_owned());
    variants.iter().map(entry).collect()
}

/// One entry for all figures of others, with their sources: the table says which is which.
fn with_published(mut legend: Vec<(Colour, String)>, group: &Group) -> Vec<(Colour, String)> {
    let cases = group.cases.iter();
    let figures = cases.flat_map(|measured| &measured.case.published);
    let source = |figure: &Published| format!("{} ({})", figure.source, words::origin(figure));
    let sources: BTreeSet<String> = figures.map(source).collect();
    if !sources.is_empty() {
        let sources: Vec<String> = sources.into_iter().collect();
        legend.push((palette::PUBLISHED, sources.join("; ")));
    }
    legend
}
