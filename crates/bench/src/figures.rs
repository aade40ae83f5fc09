//! From raw rounds to figures; pure. Whoever shows a report or compares two computes them here.
//!
//! Everything is compared within a round, where the variants shared the state of the machine: a
//! figure is the median over the rounds of a ratio to stock (or of a difference from it). Its 95 %
//! interval is a bootstrap in two steps, sets of clusters and then the rounds on each, because
//! clusters made alike differ by some per cent and rounds on one set share that. From less than six
//! sets it is too narrow for how clusters differ; from one it does not know. The resampling is
//! seeded: the same rounds give the same interval.

use std::collections::BTreeMap;

use crate::model::{Case, CipherSpeed, Metric, Report, Round, Sample, Variant, STOCK};

/// An interval from fewer rounds means little, and decides nothing.
pub const FEWEST_ROUNDS: usize = 6;
const RESAMPLES: usize = 4000;
/// Below this, a transaction moves next to no pages, and dividing by the cipher's time would only
/// scale up noise.
const PAGES_THAT_COUNT: f64 = 0.01;

/// A median with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Where the interval begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

impl Estimate {
    /// How far the interval goes from the median, to the side where it goes further.
    pub fn half_width(&self) -> f64 {
        (self.high - self.median).max(self.median - self.low)
    }
}

/// What may be said of a loss, given the limit that is aimed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The interval includes "no loss" and ends at the limit or before.
    NoLoss,
    /// A loss, and the whole interval is at most the limit.
    Within,
    /// A loss, and the limit lies inside the interval.
    Loss,
    /// The whole interval is above the limit.
    Beyond,
    /// The interval includes both "no loss" and the limit: nothing was shown.
    Undecided,
    /// There are not enough rounds for an interval that decides anything.
    TooFewRounds,
}

impl Verdict {
    /// What `loss`, from so many rounds, says.
    pub fn of(loss: Estimate, limit: f64, rounds: usize) -> Self {
        match (loss.low <= 0.0, loss.high <= limit) {
            _ if rounds < FEWEST_ROUNDS => Self::TooFewRounds,
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
    /// Of throughput, or of time: as a fraction of stock's. 0.01 is 1 % worse, negative is better.
    pub loss: Estimate,
    /// What the loss says; none for stock itself.
    pub verdict: Option<Verdict>,
    /// Median of CPU microseconds per unit of work.
    pub cpu_us: f64,
    /// CPU per unit of work, over stock's.
    pub cpu_ratio: Estimate,
    /// CPU microseconds per unit of work more than stock's.
    pub extra_us: Estimate,
    /// Of sealed variants.
    pub cipher: Option<CipherShare>,
    /// Medians of the samples' further figures (`hit_rate` …).
    pub extra: BTreeMap<String, f64>,
}

/// What of the extra CPU is the cipher.
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
/// variant has enough rounds for an interval.
pub fn widest(report: &Report) -> Option<f64> {
    let mut widest = 0.0_f64;
    for case in &report.cases {
        for variant in report.variants.iter().filter(|v| v.name != STOCK) {
            let pairs = Pairs::of(case, &variant.name);
            if pairs.0.len() < FEWEST_ROUNDS {
                return None;
            }
            let loss = pairs.estimate(|own, stock| loss(case.metric, own.value, stock.value))?;
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

/// The middle of the values; NaN if there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// The median of the values of all sets, one list a set, and its interval; none without values.
pub fn estimate(sets: &[Vec<f64>]) -> Option<Estimate> {
    let sets: Vec<&Vec<f64>> = sets.iter().filter(|set| !set.is_empty()).collect();
    if sets.is_empty() {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(0);
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| median(&resample(&sets, &mut random)))
        .collect();
    medians.sort_by(f64::total_cmp);
    let all: Vec<f64> = sets.iter().flat_map(|set| set.iter().copied()).collect();
    Some(Estimate {
        median: median(&all),
        low: medians[RESAMPLES / 40],
        high: medians[RESAMPLES - RESAMPLES / 40 - 1],
    })
}

/// As many sets as there are, drawn again; of each as many values as it has, drawn again.
fn resample(sets: &[&Vec<f64>], random: &mut fastrand::Rng) -> Vec<f64> {
    let mut drawn = Vec::new();
    for _ in 0..sets.len() {
        let set = sets[random.usize(..sets.len())];
        drawn.extend((0..set.len()).map(|_| set[random.usize(..set.len())]));
    }
    drawn
}

/// A variant's samples beside stock's of the same rounds.
struct Pairs<'a>(Vec<(&'a Round, &'a Sample, &'a Sample)>);

impl<'a> Pairs<'a> {
    fn of(case: &'a Case, variant: &str) -> Self {
        let pair = |round: &'a Round| {
            let (own, stock) = (round.samples.get(variant)?, round.samples.get(STOCK)?);
            Some((round, own, stock))
        };
        Self(case.rounds.iter().filter_map(pair).collect())
    }

    fn estimate(&self, of: impl Fn(&Sample, &Sample) -> f64) -> Option<Estimate> {
        let mut sets: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (round, own, stock) in &self.0 {
            sets.entry(round.set).or_default().push(of(own, stock));
        }
        estimate(&sets.into_values().collect::<Vec<_>>())
    }

    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(&self.0.iter().map(|(_, own, _)| of(own)).collect::<Vec<_>>())
    }
}

fn figure(report: &Report, case: &Case, variant: &Variant) -> Option<Figure> {
    let pairs = Pairs::of(case, &variant.name);
    let loss = pairs.estimate(|own, stock| loss(case.metric, own.value, stock.value))?;
    let rounds = pairs.0.len();
    let verdict = Verdict::of(loss, case.limit, rounds);
    let speed = variant
        .bits
        .and_then(|bits| report.cipher.iter().find(|speed| speed.bits == bits));
    Some(Figure {
        variant: variant.name.clone(),
        rounds,
        value: pairs.median(|own| own.value),
        loss,
        verdict: (variant.name != STOCK).then_some(verdict),
        cpu_us: pairs.median(cpu_us),
        cpu_ratio: pairs.estimate(|own, stock| cpu_us(own) / cpu_us(stock))?,
        extra_us: pairs.estimate(|own, stock| cpu_us(own) - cpu_us(stock))?,
        cipher: speed.map(|speed| cipher_share(&pairs, speed)),
        extra: extra(&pairs),
    })
}

fn cipher_share(pairs: &Pairs<'_>, speed: &CipherSpeed) -> CipherShare {
    let opened = pairs.median(|own| own.pages.opened as f64 / own.work);
    let sealed = pairs.median(|own| own.pages.sealed as f64 / own.work);
    let extra_per_cipher =
        pairs.estimate(|own, stock| (cpu_us(own) - cpu_us(stock)) / cipher_us(own, speed));
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
