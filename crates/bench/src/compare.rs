//! Two reports of one recipe, before and after a change; pure. What `pgseal bench compare` says.
//!
//! Both were measured against their own stock in their own rounds, so what is compared is the loss
//! and the ratio of CPU, not what the machine gave that day. Something changed if the two intervals
//! have no value in common.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::figures::{figures, Estimate, Figure, FEWEST_ROUNDS};
use crate::model::{Case, Report, STOCK};

/// Why they cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// Of different recipes.
    #[error("one is of {0} and the other of {1}: give two reports of one recipe")]
    Recipes(String, String),
    /// No variant of a case is in both.
    #[error("no variant of any case is in both: run the recipe with the same options twice")]
    NothingInBoth,
}

/// What became of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Its interval lies below the old one.
    Better,
    /// The intervals meet.
    Same,
    /// Its interval lies above the old one.
    Worse,
    /// One of them has too few rounds for an interval that decides anything.
    TooFewRounds,
}

impl Change {
    fn of(a: Estimate, b: Estimate, rounds: usize) -> Self {
        if rounds < FEWEST_ROUNDS {
            Self::TooFewRounds
        } else if b.low > a.high {
            Self::Worse
        } else if b.high < a.low {
            Self::Better
        } else {
            Self::Same
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Same => "same",
            Self::Worse => "worse",
            Self::TooFewRounds => "too few rounds",
        }
    }
}

/// One figure of both; less is better.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The case's name.
    pub case: String,
    /// The variant's name.
    pub variant: String,
    /// `loss`, or `CPU`: what is spent more than by stock, as a fraction.
    pub what: &'static str,
    /// Before.
    pub a: Estimate,
    /// After.
    pub b: Estimate,
    /// What became of it.
    pub change: Change,
}

/// Both, figure by figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What is in both.
    pub rows: Vec<Row>,
    /// What is in one only, by name.
    pub left_out: Vec<String>,
    /// What was asked for in another way, by its name among the parameters.
    pub parameters: Vec<String>,
    /// Machines or versions differ: what changed may be theirs.
    pub elsewhere: bool,
}

impl Comparison {
    /// Did anything get worse, beyond the intervals?
    pub fn is_worse(&self) -> bool {
        self.rows.iter().any(|row| row.change == Change::Worse)
    }

    /// As a table.
    pub fn markdown(&self) -> String {
        let mut text = "| case | variant | figure | before | after | |\n".to_owned();
        text.push_str("| --- | --- | --- | --: | --: | --- |\n");
        for row in &self.rows {
            let (a, b, change) = (percent(row.a), percent(row.b), row.change.word());
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {a} | {b} | {change} |",
                row.case, row.variant, row.what
            );
        }
        if !self.left_out.is_empty() {
            let _ = writeln!(text, "\nIn one only: {}.", self.left_out.join("; "));
        }
        if !self.parameters.is_empty() {
            let names = self.parameters.join(", ");
            let _ = writeln!(
                text,
                "\nThe parameters {names} differ: the figures may differ by that alone."
            );
        }
        if self.elsewhere {
            text.push_str("\nThe machines or PostgreSQL's versions differ: so may the figures.\n");
        }
        text
    }
}

/// `b` after a change, `a` before it.
pub fn compare(a: &Report, b: &Report) -> Result<Comparison, Incomparable> {
    if a.recipe != b.recipe {
        return Err(Incomparable::Recipes(a.recipe.clone(), b.recipe.clone()));
    }
    let (before, after) = (named(a), named(b));
    let mut rows = Vec::new();
    for (case, old) in &before {
        let new = after
            .iter()
            .find(|(c, new)| c == case && new.variant == old.variant);
        rows.extend(
            new.map(|(_, new)| pair(case, old, new))
                .into_iter()
                .flatten(),
        );
    }
    if rows.is_empty() {
        return Err(Incomparable::NothingInBoth);
    }
    let mut left_out = missing(&before, &after);
    left_out.extend(missing(&after, &before));
    let place = |report: &Report| (report.machine.cpu.clone(), report.machine.cores);
    Ok(Comparison {
        rows,
        left_out,
        parameters: different_parameters(a, b),
        elsewhere: place(a) != place(b) || versions(a) != versions(b),
    })
}

/// A case's name, and a figure of it.
type Named = Vec<(String, Figure)>;

/// Every figure but stock's own.
fn named(report: &Report) -> Named {
    let of_case = |case: &Case| {
        let named = |figure| (case.name.clone(), figure);
        figures(report, case)
            .into_iter()
            .map(named)
            .collect::<Named>()
    };
    let all = report.cases.iter().flat_map(of_case);
    all.filter(|(_, figure)| figure.variant != STOCK).collect()
}

fn missing(here: &Named, there: &Named) -> Vec<String> {
    let same =
        |a: &(String, Figure), b: &(String, Figure)| a.0 == b.0 && a.1.variant == b.1.variant;
    here.iter()
        .filter(|one| !there.iter().any(|other| same(one, other)))
        .map(|(case, figure)| format!("{case}, {}", figure.variant))
        .collect()
}

/// The names of those that are not the same in both, or in one only.
fn different_parameters(a: &Report, b: &Report) -> Vec<String> {
    let names: BTreeSet<&String> = a.parameters.keys().chain(b.parameters.keys()).collect();
    let differs = |name: &&String| a.parameters.get(*name) != b.parameters.get(*name);
    names.into_iter().filter(differs).cloned().collect()
}

fn pair(case: &str, before: &Figure, after: &Figure) -> [Row; 2] {
    let rounds = before.rounds.min(after.rounds);
    let row = |what, a, b| Row {
        case: case.to_owned(),
        variant: after.variant.clone(),
        what,
        a,
        b,
        change: Change::of(a, b, rounds),
    };
    [
        row("loss", before.loss, after.loss),
        row("CPU", more(before.cpu_ratio), more(after.cpu_ratio)),
    ]
}

/// What a ratio is more than 1.
fn more(ratio: Estimate) -> Estimate {
    Estimate {
        median: ratio.median - 1.0,
        low: ratio.low - 1.0,
        high: ratio.high - 1.0,
    }
}

fn versions(report: &Report) -> Vec<&str> {
    let variants = report.variants.iter();
    variants.map(|variant| variant.postgres.as_str()).collect()
}

fn percent(value: Estimate) -> String {
    let [median, low, high] = [value.median, value.low, value.high].map(|part| part * 100.0);
    format!("{median:+.2} % [{low:+.2}, {high:+.2}]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::tests::report;

    /// Six rounds of stock at 100 and sealed at these.
    fn of(sealed: [f64; 6]) -> Report {
        report(&sealed.map(|tps| (0, 100.0, tps)))
    }

    #[test]
    fn worse_is_an_interval_above_the_old_one() {
        let (old, new) = (of([99.0; 6]), of([97.0, 96.0, 97.0, 98.0, 97.0, 97.0]));
        let worse = compare(&old, &new).expect("one recipe");
        assert!(worse.is_worse());
        assert_eq!(
            (worse.rows[0].what, worse.rows[0].change),
            ("loss", Change::Worse)
        );
        assert_eq!(
            (worse.rows[1].what, worse.rows[1].change),
            ("CPU", Change::Same)
        );
        let better = compare(&new, &old).expect("one recipe");
        assert!(!better.is_worse());
        assert_eq!(better.rows[0].change, Change::Better);
    }

    #[test]
    fn intervals_that_meet_are_the_same() {
        let (old, new) = (of([99.0, 97.0, 95.0, 98.0, 96.0, 94.0]), of([95.0; 6]));
        let same = compare(&old, &new).expect("one recipe");
        assert_eq!(same.rows[0].change, Change::Same);
        assert!(!same.is_worse());
        let text = same.markdown();
        assert!(
            text.contains("| all | sealed-256 | loss | +3.50 % ["),
            "{text}"
        );
        assert!(
            text.contains("| +5.00 % [+5.00, +5.00] | same |\n"),
            "{text}"
        );
        assert!(!text.contains("differ"), "{text}");
    }

    #[test]
    fn few_rounds_decide_nothing() {
        let few = report(&[(0, 100.0, 50.0); FEWEST_ROUNDS - 1]);
        let compared = compare(&of([99.0; 6]), &few).expect("one recipe");
        assert_eq!(compared.rows[0].change, Change::TooFewRounds);
    }

    #[test]
    fn what_is_in_one_only_is_named() {
        let (old, mut new) = (of([99.0; 6]), of([99.0; 6]));
        new.cases.push(Case {
            name: "another".to_owned(),
            ..new.cases[0].clone()
        });
        new.machine.cores = 64;
        let compared = compare(&old, &new).expect("one recipe");
        assert_eq!(compared.left_out, ["another, sealed-256"]);
        let text = compared.markdown();
        assert!(text.contains("In one only: another, sealed-256."), "{text}");
        assert!(text.ends_with("so may the figures.\n"), "{text}");
    }

    #[test]
    fn other_parameters_are_named() {
        let (mut old, mut new) = (of([99.0; 6]), of([99.0; 6]));
        old.parameters.insert("seconds".into(), 60.into());
        new.parameters.insert("seconds".into(), 60.into());
        let same = compare(&old, &new).expect("one recipe");
        assert_eq!(same.parameters, Vec::<String>::new());
        assert!(!same.markdown().contains("parameters"));
        new.parameters.insert("seconds".into(), 20.into());
        new.parameters.insert("wal_log_hints".into(), true.into());
        let compared = compare(&old, &new).expect("one recipe");
        assert_eq!(compared.parameters, ["seconds", "wal_log_hints"]);
        let note =
            "\nThe parameters seconds, wal_log_hints differ: the figures may differ by that \
                    alone.\n";
        let text = compared.markdown();
        assert!(text.ends_with(note), "{text}");
    }

    #[test]
    fn different_recipes_are_not_compared() {
        let (old, mut new) = (of([99.0; 6]), of([99.0; 6]));
        new.cases.clear();
        assert_eq!(compare(&old, &new), Err(Incomparable::NothingInBoth));
        new.recipe = "tpcb".to_owned();
        let names = ("readonly".to_owned(), "tpcb".to_owned());
        assert_eq!(
            compare(&old, &new),
            Err(Incomparable::Recipes(names.0, names.1))
        );
    }
}
