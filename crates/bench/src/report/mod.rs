//! A report as people read it; pure.

use std::fmt::Write;

use crate::figures::figures;
use crate::model::Report;

/// Tables for a terminal or a README.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    for case in &report.cases {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}\n", case.name);
        for figure in figures(report, case) {
            let loss = figure.loss;
            let _ = writeln!(
                text,
                "{}: {:.1} {}, loss {:.4} [{:.4}, {:.4}], {:.2} us CPU",
                figure.variant,
                figure.value,
                case.metric.unit(),
                loss.median,
                loss.low,
                loss.high,
                figure.cpu_us
            );
        }
    }
    text
}

/// A page with charts.
pub fn html(report: &Report) -> String {
    format!("<!doctype html><pre>{}</pre>", markdown(report))
}
