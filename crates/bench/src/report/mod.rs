//! Reports for people: Markdown for a terminal or README, and one HTML page. Pure over a
//! [`Report`]; `pgseal bench` writes what comes out.
//!
//! `tables` and `charts` decide what is shown, `markdown` and `html` how it is written, `plot`
//! draws, `words` has every number and sentence. All text of a report's file may come from
//! anywhere: it is escaped where it is written, never before.

mod charts;
mod comparison;
mod html;
mod markdown;
mod narrow;
mod palette;
mod plot;
mod queries;
mod tables;
mod words;

use crate::figures::{figures, Figure};
use crate::model::{Case, Metric, Report};

pub use comparison::comparison;
pub use html::html;
pub use markdown::{markdown, Form};

/// A report with the figures of its cases, in groups: computed once for tables and charts.
struct View<'a> {
    report: &'a Report,
    groups: Vec<Group<'a>>,
}

/// Cases that share a table and charts.
struct Group<'a> {
    name: &'a str,
    cases: Vec<Measured<'a>>,
}

/// A case, and the figures of each variant that was measured.
struct Measured<'a> {
    case: &'a Case,
    figures: Vec<Figure>,
}

impl<'a> View<'a> {
    fn of(report: &'a Report) -> Self {
        let mut groups: Vec<Group<'a>> = Vec::new();
        for case in &report.cases {
            let measured = Measured {
                case,
                figures: figures(report, case),
            };
            match groups.iter_mut().find(|group| group.holds(case)) {
                Some(group) => group.cases.push(measured),
                None => groups.push(Group {
                    name: &case.group,
                    cases: vec![measured],
                }),
            }
        }
        Self { report, groups }
    }
}

impl Group<'_> {
    /// Values of two metrics never share a table.
    fn holds(&self, case: &Case) -> bool {
        self.name == case.group && self.metric() == case.metric
    }

    fn metric(&self) -> Metric {
        self.cases[0].case.metric
    }

    /// A case's name without what the group's says already.
    fn short_name<'b>(&self, case: &'b Case) -> &'b str {
        let rest = case.name.strip_prefix(self.name);
        rest.and_then(|rest| rest.strip_prefix(", "))
            .unwrap_or(&case.name)
    }

    /// The axis, if the cases lie at two places of it or more.
    fn axis(&self) -> Option<&str> {
        let mut axes = self
            .cases
            .iter()
            .map(|measured| measured.case.axis.as_ref());
        let (name, first) = axes.next()??;
        let others: Vec<_> = axes.collect::<Option<_>>()?;
        let same_axis = others.iter().all(|(other, _)| other == name);
        (same_axis && others.iter().any(|(_, at)| at != first)).then_some(name)
    }
}

impl Measured<'_> {
    fn figure(&self, variant: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.variant == variant)
    }
}

#[cfg(test)]
mod tests;
