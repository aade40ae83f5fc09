//! The output of a run: its JSON file, replaced whole after every round, the page, and the tables.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::compare;
use crate::error::BenchError;
use crate::model::{Report, FORMAT};
use crate::options::{CompareArgs, Output, ReportArgs};
use crate::report::{self, Form};

/// All that was asked for. JSON on standard output is alone there.
pub fn write(report: &Report, options: &Output) -> Result<(), BenchError> {
    save(report, options)?;
    if let Some(path) = &options.html {
        replace(path, &report::html(report))?;
    }
    let text = match options.json.as_deref() {
        Some(path) if path == Path::new("-") => json(report),
        _ => report::markdown(report, form(options.wide)),
    };
    print(&text)
}

/// The JSON file, if one was asked for.
pub fn save(report: &Report, options: &Output) -> Result<(), BenchError> {
    match options.json.as_deref() {
        Some(path) if path != Path::new("-") => replace(path, &json(report)),
        _ => Ok(()),
    }
}

/// A report that was made before, once more.
pub fn show(args: &ReportArgs) -> Result<(), BenchError> {
    let report = read(&args.file)?;
    if let Some(path) = &args.html {
        replace(path, &report::html(&report))?;
    }
    print(&report::markdown(&report, form(args.wide)))
}

fn form(is_wide: bool) -> Form {
    match is_wide {
        true => Form::Wide,
        false => Form::Narrow,
    }
}

/// Two of them side by side: false if something got worse.
pub fn compare(args: &CompareArgs) -> Result<bool, BenchError> {
    let comparison = compare::compare(&read(&args.before)?, &read(&args.after)?)?;
    print(&report::comparison(&comparison, form(args.wide)))?;
    Ok(!comparison.is_worse())
}

/// A report that `save` left.
fn read(path: &Path) -> Result<Report, BenchError> {
    let not = |why: String| BenchError::NotAReport(path.to_owned(), why);
    let text = fs::read_to_string(path).map_err(|error| not(error.to_string()))?;
    let report: Report = serde_json::from_str(&text).map_err(|error| not(error.to_string()))?;
    match report.format {
        FORMAT => Ok(report),
        other => Err(not(format!(
            "its format is {other}, this program's is {FORMAT}"
        ))),
    }
}

/// Prints `text` to standard output.
fn print(text: &str) -> Result<(), BenchError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", text.trim_end())
        .and_then(|()| out.flush())
        .map_err(BenchError::Output)
}

fn json(report: &Report) -> String {
    serde_json::to_string_pretty(report).expect("a report has no map with keys other than texts")
}

/// Writes the file aside and renames it: a reader finds the old or the new one.
fn replace(path: &Path, text: &str) -> Result<(), BenchError> {
    let directory = path.parent().filter(|parent| *parent != Path::new(""));
    let aside = tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new(".")));
    aside
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            Ok(file.persist(path)?)
        })
        .map(|_| ())
        .map_err(|error| BenchError::Report(path.to_owned(), error))
}
