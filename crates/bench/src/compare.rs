//! Two reports of one recipe, before and after a change; pure. `report/comparison.rs` prints what
//! comes out.
//!
//! Both were measured against their own stock in their own rounds, so what is compared is the loss
//! and the ratio of CPU, not what the machine gave that day. Something changed if the interval of
//! the difference does not include zero. Many figures are compared at once: their intervals are so
//! wide that all of them together hold in 95 of 100 comparisons (Bonferroni), or else equal runs
//! would often differ in some figure.

use std::collections::BTreeSet;

use crate::figures::{ratios, Ratios};
use crate::model::{Case, Report, Variant, STOCK};
use crate::statistics::{difference, estimate, Difference, Estimate, LEVEL};

/// Why they cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// The two reports are of different recipes.
    #[error("one is of {0} and the other of {1}: give two reports of one recipe")]
    Recipes(String, String),
    /// No variant of a case is in both.
    #[error("no variant of any case is in both: run the recipe with the same options twice")]
    NothingInBoth,
}

/// The change of a figure between two reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The interval of the difference is below zero.
    Better,
    /// It includes zero: no change was shown, which is not to say that there was none.
    NotShown,
    /// It is above zero.
    Worse,
    /// One of them has too few rounds, or sets of clusters, for an interval that decides anything.
    TooFewRounds,
}

impl Change {
    fn of(difference: Difference) -> Self {
        match (difference.low > 0.0, difference.high < 0.0) {
            (true, _) => Self::Worse,
            (_, true) => Self::Better,
            _ => Self::NotShown,
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
    /// The difference of the means; none if there are too few rounds.
    pub difference: Option<Difference>,
}

impl Row {
    /// Returns the change of the figure.
    pub fn change(&self) -> Change {
        self.difference.map_or(Change::TooFewRounds, Change::of)
    }
}

/// Both, figure by figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The figures that both reports have.
    pub rows: Vec<Row>,
    /// The names of figures that only one report has.
    pub left_out: Vec<String>,
    /// The names of the parameters that differ.
    pub parameters: Vec<String>,
    /// Machines or versions differ: what changed may be theirs.
    pub elsewhere: bool,
}

impl Comparison {
    /// Did anything get worse, beyond the intervals?
    pub fn is_worse(&self) -> bool {
        self.rows.iter().any(|row| row.change() == Change::Worse)
    }
}

/// `b` after a change, `a` before it.
pub fn compare(a: &Report, b: &Report) -> Result<Comparison, Incomparable> {
    if a.recipe != b.recipe {
        return Err(Incomparable::Recipes(a.recipe.clone(), b.recipe.clone()));
    }
    let (before, after) = (named(a), named(b));
    let pairs = pairs(&before, &after);
    if pairs.is_empty() {
        return Err(Incomparable::NothingInBoth);
    }
    let mut left_out = missing(&before, &after);
    left_out.extend(missing(&after, &before));
    let place = |report: &Report| (report.machine.cpu.clone(), report.machine.cores);
    Ok(Comparison {
        rows: rows(&pairs),
        left_out,
        parameters: different_parameters(a, b),
        elsewhere: place(a) != place(b) || versions(a) != versions(b),
    })
}

/// The measured ratios of a variant in a case.
struct Named {
    case: String,
    variant: String,
    ratios: Ratios,
}

impl Named {
    fn is_like(&self, other: &Self) -> bool {
        (&self.case, &self.variant) == (&other.case, &other.variant)
    }
}

/// All but stock's own.
fn named(report: &Report) -> Vec<Named> {
    let of_case = |case: &Case| {
        let named = |variant: &Variant| Named {
            case: case.name.clone(),
            variant: variant.name.clone(),
            ratios: ratios(case, &variant.name),
        };
        report.variants.iter().map(named).collect::<Vec<_>>()
    };
    let all = report.cases.iter().flat_map(of_case);
    all.filter(|one| one.variant != STOCK && !one.ratios.losses.is_empty())
        .collect()
}

/// A figure of both, not yet compared.
struct Pair<'a> {
    named: &'a Named,
    what: &'static str,
    a: &'a [f64],
    b: &'a [f64],
    medians: (Estimate, Estimate),
}

impl<'a> Pair<'a> {
    fn of(named: &'a Named, what: &'static str, a: &'a [f64], b: &'a [f64]) -> Option<Self> {
        Some(Self {
            named,
            what,
            a,
            b,
            medians: (estimate(a)?, estimate(b)?),
        })
    }

    fn decides(&self) -> bool {
        self.medians.0.decides() && self.medians.1.decides()
    }

    fn row(&self, misses: f64) -> Row {
        let (a, b) = self.medians;
        let more = |median: Estimate| match self.what {
            CPU => median.over_one(),
            _ => median,
        };
        Row {
            case: self.named.case.clone(),
            variant: self.named.variant.clone(),
            what: self.what,
            a: more(a),
            b: more(b),
            difference: self.decides().then(|| difference(self.a, self.b, misses)),
        }
    }
}

const CPU: &str = "CPU";

fn pairs<'a>(before: &'a [Named], after: &'a [Named]) -> Vec<Pair<'a>> {
    let of = |old: &'a Named| {
        let new = after.iter().find(|new| new.is_like(old));
        let both = new.map(|new| {
            let loss = Pair::of(old, "loss", &old.ratios.losses, &new.ratios.losses);
            let cpu = Pair::of(old, CPU, &old.ratios.cpu, &new.ratios.cpu);
            loss.into_iter().chain(cpu)
        });
        both.into_iter().flatten()
    };
    before.iter().flat_map(of).collect()
}

/// The more figures are compared, the wider is the interval of each.
fn rows(pairs: &[Pair<'_>]) -> Vec<Row> {
    let compared = pairs.iter().filter(|pair| pair.decides()).count();
    let misses = (1.0 - LEVEL) / compared.max(1) as f64;
    pairs.iter().map(|pair| pair.row(misses)).collect()
}

fn missing(here: &[Named], there: &[Named]) -> Vec<String> {
    here.iter()
        .filter(|one| !there.iter().any(|other| one.is_like(other)))
        .map(|one| format!("{}, {}", one.case, one.variant))
        .collect()
}

/// The names of those that are not the same in both, or in one only.
fn different_parameters(a: &Report, b: &Report) -> Vec<String> {
    let names: BTreeSet<&String> = a.parameters.keys().chain(b.parameters.keys()).collect();
    let differs = |name: &&String| a.parameters.get(*name) != b.parameters.get(*name);
    names.into_iter().filter(differs).cloned().collect()
}

fn versions(report: &Report) -> Vec<&str> {
    let variants = report.variants.iter();
    variants.map(|variant| variant.postgres.as_str()).collect()
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
    fn worse_is_a_difference_whose_interval_lies_above_zero() {
        let (old, new) = (of([99.0; 6]), of([95.0, 94.0, 95.0, 96.0, 95.0, 95.0]));
        let worse = compare(&old, &new).expect("one recipe");
        assert!(worse.is_worse());
        assert_eq!(
            (worse.rows[0].what, worse.rows[0].change()),
            ("loss", Change::Worse)
        );
        assert_eq!(
            (worse.rows[1].what, worse.rows[1].change()),
            ("CPU", Change::NotShown)
        );
        let better = compare(&new, &old).expect("one recipe");
        assert!(!better.is_worse());
        assert_eq!(better.rows[0].change(), Change::Better);
    }

    #[test]
    fn a_difference_that_may_be_none_is_no_change_shown() {
        let (old, new) = (of([99.0, 97.0, 95.0, 98.0, 96.0, 94.0]), of([95.0; 6]));
        let same = compare(&old, &new).expect("one recipe");
        assert_eq!(same.rows[0].change(), Change::NotShown);
        assert!(!same.is_worse());
    }

    #[test]
    fn few_rounds_decide_nothing() {
        let few = report(&[(0, 100.0, 50.0); 5]);
        let compared = compare(&of([99.0; 6]), &few).expect("one recipe");
        assert_eq!(compared.rows[0].change(), Change::TooFewRounds);
    }

    /// A report like that of `worst`, of so many cases and rounds without any loss.
    fn without_loss(random: &mut fastrand::Rng, rounds: u32, width: f64) -> Report {
        let mut noise = || (random.f64() + random.f64() + random.f64() - 1.5) * width;
        let mut all = of([99.0; 6]);
        all.cases = (0..CASES)
            .map(|name| {
                let round = |set| (set, 100.0, 100.0 + noise());
                let rounds: Vec<_> = (0..rounds).map(round).collect();
                let mut case = report(&rounds).cases.remove(0);
                case.name = name.to_string();
                case
            })
            .collect();
        all
    }

    const CASES: u32 = 36;

    #[test]
    fn equal_runs_are_seldom_called_worse() {
        const RUNS: usize = 100;
        let mut random = fastrand::Rng::with_seed(1);
        for (rounds, widths) in [(6, [1.0, 1.0]), (7, [1.0, 1.0]), (7, [1.0, 3.0])] {
            let mut alarm = |_: &usize| {
                let [a, b] = widths.map(|width| without_loss(&mut random, rounds, width));
                compare(&a, &b).expect("one recipe").is_worse()
            };
            let alarms = (0..RUNS).filter(|run| alarm(run)).count();
            assert!(alarms <= RUNS / 20, "{rounds} rounds: {alarms} alarms");
        }
    }

    #[test]
    fn a_loss_among_many_figures_is_found() {
        let mut random = fastrand::Rng::with_seed(1);
        let (a, mut b) = (
            without_loss(&mut random, 6, 1.0),
            without_loss(&mut random, 6, 1.0),
        );
        for round in &mut b.cases[7].rounds {
            let sealed = round.samples.get_mut("sealed-256").expect("it ran");
            sealed.value -= 4.0;
        }
        let worse = compare(&a, &b).expect("one recipe");
        let found = |row: &&Row| row.change() == Change::Worse;
        let names = worse.rows.iter().filter(found).map(|row| &row.case);
        assert_eq!(names.collect::<Vec<_>>(), ["7"]);
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
        assert!(compared.elsewhere);
    }

    #[test]
    fn other_parameters_are_named() {
        let (mut old, mut new) = (of([99.0; 6]), of([99.0; 6]));
        old.parameters.insert("seconds".into(), 60.into());
        new.parameters.insert("seconds".into(), 60.into());
        let same = compare(&old, &new).expect("one recipe");
        assert_eq!(same.parameters, Vec::<String>::new());
        new.parameters.insert("seconds".into(), 20.into());
        new.parameters.insert("wal_log_hints".into(), true.into());
        let compared = compare(&old, &new).expect("one recipe");
        assert_eq!(compared.parameters, ["seconds", "wal_log_hints"]);
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
