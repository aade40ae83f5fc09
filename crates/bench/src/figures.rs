//! Computes figures from raw rounds; pure. Reports and comparisons both compute their figures
//! here.
//!
//! Everything is compared within a round, where the variants shared the state of the machine: a
//! figure is the median over the rounds of a ratio to stock (or of a difference from it). Clusters
//! made alike differ by some per cent, and rounds on one set of them share that: so a set counts
//! once, with the median of its rounds. From less than six sets an interval of 95 % cannot be told;
//! if there is one set only, its rounds are what is counted, and nothing shows how clusters differ.

use std::collections::BTreeMap;

use crate::model::{Case, CipherSpeed, Metric, Report, Round, Sample, Variant, STOCK};
use crate::statistics::{estimate, median, Estimate};

/// Below this, a transaction moves next to no pages, and dividing by the cipher's time would only
/// scale up noise.
const PAGES_THAT_COUNT: f64 = 0.01;

/// The conclusion that a loss allows, given the limit that is aimed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The interval includes "no loss" and ends at the limit or before.
    NoLoss,
    /// A loss, and the whole interval is at most the limit.
    Within,
    /// A loss, and the limit is inside the interval.
    Loss,
    /// The whole interval is above the limit.
    Beyond,
    /// The interval includes both "no loss" and the limit: nothing was shown.
    Undecided,
    /// There are not enough rounds, or sets of clusters, for an interval that decides anything.
    TooFewRounds,
}

impl Verdict {
    /// Returns the verdict on `loss`.
    pub fn of(loss: Estimate, limit: f64) -> Self {
        match (loss.low <= 0.0, loss.high <= limit) {
            _ if !loss.decides() => Self::TooFewRounds,
            (true, true) => Self::NoLoss,
            (false, true) => Self::Within,
            (true, false) => Self::Undecided,
            (false, false) if loss.low > limit => Self::Beyond,
            (false, false) => Self::Loss,
        }
    }
}

/// One variant of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The variant's name.
    pub variant: String,
    /// Rounds in which it and stock took part.
    pub rounds: usize,
    /// Median of its values, in the case's metric.
    pub value: f64,
    /// The loss of throughput, or of time, as a fraction of stock's. 0.01 is 1 % worse; negative
    /// is better.
    pub loss: Estimate,
    /// Microseconds that a client waits longer for a transaction than on stock; none where the
    /// number of clients is not known.
    pub added_us: Option<Estimate>,
    /// The verdict on the loss; none for stock itself.
    pub verdict: Option<Verdict>,
    /// Median of CPU microseconds per unit of work.
    pub cpu_us: f64,
    /// CPU per unit of work, over stock's.
    pub cpu_ratio: Estimate,
    /// CPU microseconds per unit of work more than stock's.
    pub extra_us: Estimate,
    /// The share of the cipher; only sealed variants have one.
    pub cipher: Option<CipherShare>,
    /// Medians of the samples' further figures (`hit_rate` …).
    pub extra: BTreeMap<String, f64>,
}

/// The part of the extra CPU that the cipher takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CipherShare {
    /// Median of pages decrypted per unit of work.
    pub opened: f64,
    /// Median of pages encrypted per unit of work.
    pub sealed: f64,
    /// The cipher's own microseconds for them, by its speed in the same run.
    pub cipher_us: f64,
    /// How many times that the extra CPU is; none where next to no pages moved.
    pub extra_per_cipher: Option<Estimate>,
}

/// The figures of a case, in the order of the report's variants; variants without a round in which
/// stock took part too are left out.
pub fn figures(report: &Report, case: &Case) -> Vec<Figure> {
    let of = |variant: &Variant| figure(report, case, variant);
    report.variants.iter().filter_map(of).collect()
}

/// The widest half-width of the losses of all cases: what `--until-ci` waits for. None before every
/// variant has enough rounds for an interval of 95 %.
pub fn widest(report: &Report) -> Option<f64> {
    let mut widest = 0.0_f64;
    for case in &report.cases {
        for variant in report.variants.iter().filter(|v| v.name != STOCK) {
            let loss = estimate(&Pairs::of(case, &variant.name).losses(case.metric))?;
            if !loss.decides() {
                return None;
            }
            widest = widest.max(loss.half_width());
        }
    }
    Some(widest)
}

/// The loss as a fraction of stock: what is missing of a throughput, or what is added to a time.
pub fn loss(metric: Metric, own: f64, stock: f64) -> f64 {
    if metric.more_is_better() {
        1.0 - own / stock
    } else {
        own / stock - 1.0
    }
}

/// CPU microseconds of a sample per unit of work.
pub fn cpu_us(sample: &Sample) -> f64 {
    (sample.user_s + sample.system_s) * 1e6 / sample.work
}

/// Independent values of one variant of one case, to compare with another report's.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratios {
    /// Losses, as a fraction of stock's value.
    pub losses: Vec<f64>,
    /// CPU per unit of work, over stock's.
    pub cpu: Vec<f64>,
}

/// One variant's; empty if it or stock took part in no round.
pub fn ratios(case: &Case, variant: &str) -> Ratios {
    let pairs = Pairs::of(case, variant);
    Ratios {
        losses: pairs.losses(case.metric),
        cpu: pairs.cpu_ratios(),
    }
}

/// A variant's samples beside stock's of the same rounds.
struct Pairs<'a>(Vec<(&'a Round, &'a Sample, &'a Sample)>);

impl<'a> Pairs<'a> {
    fn of(case: &'a Case, variant: &str) -> Self {
        let pair = |round: &'a Round| {
            let (own, stock) = (round.samples.get(variant)?, round.samples.get(STOCK)?);
            let both_ran = own.refused.is_none() && stock.refused.is_none();
            both_ran.then_some((round, own, stock))
        };
        Self(case.rounds.iter().filter_map(pair).collect())
    }

    /// One value for each set, or of the only set one for each round.
    fn independent(&self, of: impl Fn(&Sample, &Sample) -> f64) -> Vec<f64> {
        let mut sets: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (round, own, stock) in &self.0 {
            sets.entry(round.set).or_default().push(of(own, stock));
        }
        match sets.len() {
            1 => sets.into_values().flatten().collect(),
            _ => sets.values().map(|rounds| median(rounds)).collect(),
        }
    }

    fn losses(&self, metric: Metric) -> Vec<f64> {
        self.independent(|own, stock| loss(metric, own.value, stock.value))
    }

    /// Empty where the number of clients is not known.
    fn added_us(&self, case: &Case) -> Vec<f64> {
        match case.transaction_us(1.0) {
            Some(at_one) => {
                self.independent(|own, stock| at_one / own.value - at_one / stock.value)
            }
            None => Vec::new(),
        }
    }

    fn cpu_ratios(&self) -> Vec<f64> {
        self.independent(|own, stock| cpu_us(own) / cpu_us(stock))
    }

    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(&self.0.iter().map(|(_, own, _)| of(own)).collect::<Vec<_>>())
    }
}

fn figure(report: &Report, case: &Case, variant: &Variant) -> Option<Figure> {
    let pairs = Pairs::of(case, &variant.name);
    let loss = estimate(&pairs.losses(case.metric))?;
    let verdict = Verdict::of(loss, case.limit);
    let speed = variant
        .bits
        .and_then(|bits| report.cipher.iter().find(|speed| speed.bits == bits));
    Some(Figure {
        variant: variant.name.clone(),
        rounds: pairs.0.len(),
        value: pairs.median(|own| own.value),
        loss,
        added_us: estimate(&pairs.added_us(case)),
        verdict: (variant.name != STOCK).then_some(verdict),
        cpu_us: pairs.median(cpu_us),
        cpu_ratio: estimate(&pairs.cpu_ratios())?,
        extra_us: estimate(&pairs.independent(|own, stock| cpu_us(own) - cpu_us(stock)))?,
        cipher: speed.map(|speed| cipher_share(&pairs, speed)),
        extra: extra(&pairs),
    })
}

fn cipher_share(pairs: &Pairs<'_>, speed: &CipherSpeed) -> CipherShare {
    let opened = pairs.median(|own| own.pages.opened as f64 / own.work);
    let sealed = pairs.median(|own| own.pages.sealed as f64 / own.work);
    let times = |own: &Sample, stock: &Sample| {
        let extra = cpu_us(own) - cpu_us(stock);
        extra / cipher_us(own, speed)
    };
    let extra_per_cipher = estimate(&pairs.independent(times));
    CipherShare {
        opened,
        sealed,
        cipher_us: pairs.median(|own| cipher_us(own, speed)),
        extra_per_cipher: extra_per_cipher.filter(|_| opened + sealed >= PAGES_THAT_COUNT),
    }
}

/// The cipher's own microseconds for the pages that moved, per unit of work.
fn cipher_us(sample: &Sample, speed: &CipherSpeed) -> f64 {
    let mean = |[before, after]: [f64; 2]| (before + after) / 2.0;
    let opened = sample.pages.opened as f64 * mean(speed.open_ns);
    let sealed = sample.pages.sealed as f64 * mean(speed.seal_ns);
    (opened + sealed) / 1e3 / sample.work
}

fn extra(pairs: &Pairs<'_>) -> BTreeMap<String, f64> {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, value) in pairs.0.iter().flat_map(|(_, own, _)| &own.extra) {
        values.entry(name.clone()).or_default().push(*value);
    }
    let medians = values.into_iter();
    medians.map(|(name, all)| (name, median(&all))).collect()
}

#[cfg(test)]
#[path = "figures_tests.rs"]
pub(crate) mod tests;
