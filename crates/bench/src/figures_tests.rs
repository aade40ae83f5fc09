//! Figures of rounds whose result is known.

use super::*;
use crate::model::{Machine, Pages};

fn sample(value: f64, cpu_s: f64, work: f64, pages: Pages) -> Sample {
    Sample {
        value,
        work,
        user_s: cpu_s / 2.0,
        system_s: cpu_s / 2.0,
        pages,
        ..Sample::default()
    }
}

/// One case of stock and sealed-256, whose tps are given, round by round.
pub(crate) fn report(rounds: &[(u32, f64, f64)]) -> Report {
    let pages = Pages {
        opened: 2000,
        sealed: 1000,
    };
    let round = |(number, (set, stock, sealed)): (usize, &(u32, f64, f64))| Round {
        number: u32::try_from(number).expect("few rounds"),
        set: *set,
        samples: BTreeMap::from([
            (
                STOCK.to_owned(),
                sample(*stock, 1.0, 1000.0, Pages::default()),
            ),
            (
                "sealed-256".to_owned(),
                sample(*sealed, 1.004, 1000.0, pages),
            ),
        ]),
    };
    let variant = |name: &str, bits| Variant {
        name: name.to_owned(),
        bits,
        postgres: String::new(),
    };
    Report {
        format: 1,
        recipe: "readonly".to_owned(),
        machine: Machine {
            cpu: String::new(),
            cores: 2,
            memory: 0,
            kernel: String::new(),
            file_system: String::new(),
            load: [0.0; 3],
        },
        parameters: BTreeMap::new(),
        asked: None,
        seed: 1,
        started: String::new(),
        ended_early: None,
        variants: vec![variant(STOCK, None), variant("sealed-256", Some(256))],
        cases: vec![Case {
            name: "all".to_owned(),
            group: String::new(),
            axis: None,
            metric: Metric::TransactionsPerSecond,
            limit: 0.01,
            published: Vec::new(),
            rounds: rounds.iter().enumerate().map(round).collect(),
        }],
        cipher: vec![CipherSpeed {
            bits: 256,
            open_ns: [900.0, 1100.0],
            seal_ns: [1000.0, 1000.0],
        }],
    }
}

fn sealed(report: &Report) -> Figure {
    figures(report, &report.cases[0]).remove(1)
}

#[test]
fn a_figure_is_the_median_of_the_rounds_own_ratios() {
    // The machine halved its speed in the third round; the ratios do not show it.
    let report = report(&[(0, 100.0, 99.0), (0, 100.0, 98.0), (0, 50.0, 48.5)]);
    let figure = sealed(&report);
    assert!((figure.loss.median - 0.02).abs() < 1e-12, "{figure:?}");
    assert!((figure.loss.low - 0.01).abs() < 1e-12, "{figure:?}");
    assert!((figure.loss.high - 0.03).abs() < 1e-12, "{figure:?}");
    assert!((figure.value - 98.0).abs() < 1e-12);
    assert_eq!(figure.rounds, 3);
}

#[test]
fn extra_cpu_is_set_beside_the_ciphers_own_time() {
    let figure = sealed(&report(&[(0, 100.0, 99.0); 6]));
    let cipher = figure.cipher.expect("the variant is sealed");
    assert!((figure.cpu_us - 1004.0).abs() < 1e-9);
    assert!((figure.extra_us.median - 4.0).abs() < 1e-9);
    assert!((figure.cpu_ratio.median - 1.004).abs() < 1e-12);
    assert!((cipher.opened - 2.0).abs() < 1e-12);
    assert!((cipher.cipher_us - 3.0).abs() < 1e-12);
    let times = cipher.extra_per_cipher.expect("pages moved");
    assert!((times.median - 4.0 / 3.0).abs() < 1e-9);
}

#[test]
fn stock_beside_itself_is_1_and_has_no_verdict() {
    let report = report(&[(0, 100.0, 99.0), (0, 70.0, 60.0)]);
    let stock = figures(&report, &report.cases[0]).remove(0);
    assert_eq!(stock.verdict, None);
    assert_eq!(stock.cipher, None);
    assert_eq!((stock.loss.low, stock.loss.high), (0.0, 0.0));
}

#[test]
fn no_pages_moved_leaves_no_ratio_to_the_cipher() {
    let mut report = report(&[(0, 100.0, 99.0)]);
    let samples = &mut report.cases[0].rounds[0].samples;
    samples.get_mut("sealed-256").expect("it ran").pages = Pages {
        opened: 9,
        sealed: 0,
    };
    let cipher = sealed(&report).cipher.expect("the variant is sealed");
    assert_eq!(cipher.extra_per_cipher, None);
}

#[test]
fn rounds_of_which_stock_has_no_part_do_not_count() {
    let mut report = report(&[(0, 100.0, 99.0), (0, 100.0, 50.0)]);
    report.cases[0].rounds[1].samples.remove(STOCK);
    assert_eq!(sealed(&report).rounds, 1);
    report.cases[0].rounds.remove(0);
    assert_eq!(figures(&report, &report.cases[0]), []);
}

#[test]
fn more_rounds_on_the_same_clusters_do_not_hide_that_clusters_differ() {
    let rounds: Vec<_> = (0..40)
        .map(|number| (number % 2, 100.0, 99.0 - 2.0 * f64::from(number % 2)))
        .collect();
    let loss = sealed(&report(&rounds)).loss;
    assert!((loss.low - 0.01).abs() < 1e-12, "{loss:?}");
    assert!((loss.high - 0.03).abs() < 1e-12, "{loss:?}");
    assert!((loss.level - 0.5).abs() < 1e-12, "{loss:?}");
}

#[test]
fn rounds_of_a_single_set_count_one_by_one() {
    let rounds: Vec<_> = (0..6).map(|n| (0, 100.0, 99.5 - f64::from(n))).collect();
    let figure = sealed(&report(&rounds));
    assert!((figure.loss.high - 0.055).abs() < 1e-12, "{figure:?}");
    assert_eq!(figure.verdict, Some(Verdict::Loss));
    let mut two_sets = rounds;
    two_sets[5].0 = 1;
    assert_eq!(
        sealed(&report(&two_sets)).verdict,
        Some(Verdict::TooFewRounds)
    );
}

/// Rounds on clusters whose own loss, and whose rounds, scatter around a loss of 2 %.
fn scattered(random: &mut fastrand::Rng, sets: u32, rounds_per_set: u32) -> Report {
    let mut noise = |width: f64| (random.f64() + random.f64() + random.f64() - 1.5) * width;
    let mut rounds = Vec::new();
    for set in 0..sets {
        let of_set = noise(3.0);
        rounds.extend((0..rounds_per_set).map(|_| (set, 100.0, 98.0 + of_set + noise(2.0))));
    }
    report(&rounds)
}

/// Returns the share of the intervals that include the truth.
fn covered(sets: u32, rounds_per_set: u32) -> f64 {
    const RUNS: u32 = 1000;
    let mut random = fastrand::Rng::with_seed(1);
    let mut includes = |_: &u32| {
        let loss = sealed(&scattered(&mut random, sets, rounds_per_set)).loss;
        loss.low <= 0.02 && 0.02 <= loss.high
    };
    let including = (0..RUNS).filter(|run| includes(run)).count();
    including as f64 / f64::from(RUNS)
}

#[test]
fn intervals_of_95_per_cent_include_the_truth_that_often() {
    for sets in 6..=20 {
        for rounds_per_set in [1, 3] {
            let covered = covered(sets, rounds_per_set);
            assert!(
                covered >= 0.93,
                "{sets} sets of {rounds_per_set}: {covered}"
            );
        }
    }
}

#[test]
fn a_loss_of_time_is_what_is_added() {
    assert!((loss(Metric::Seconds, 11.0, 10.0) - 0.1).abs() < 1e-12);
    assert!((loss(Metric::NewOrdersPerMinute, 9.0, 10.0) - 0.1).abs() < 1e-12);
}

#[test]
fn verdicts_follow_the_interval() {
    let of = |low, high| Verdict::of(interval(low, high), 0.01);
    assert_eq!(of(-0.02, 0.005), Verdict::NoLoss);
    assert_eq!(of(0.002, 0.008), Verdict::Within);
    assert_eq!(of(0.005, 0.02), Verdict::Loss);
    assert_eq!(of(0.02, 0.03), Verdict::Beyond);
    assert_eq!(of(-0.01, 0.02), Verdict::Undecided);
    let few = Estimate {
        level: 0.9375,
        ..interval(-0.02, 0.005)
    };
    assert_eq!(Verdict::of(few, 0.01), Verdict::TooFewRounds);
}

#[test]
fn the_widest_interval_is_that_of_the_worst_case() {
    let mut both = report(&[(0, 100.0, 99.0); 6]);
    assert_eq!(widest(&both), Some(0.0));
    let noisy = [98.0, 96.0, 94.0, 92.0, 90.0, 88.0].map(|sealed| (0, 100.0, sealed));
    both.cases.extend(report(&noisy).cases);
    let half = widest(&both).expect("there are six rounds");
    assert!((0.049..0.051).contains(&half), "{half}");
    both.cases[1].rounds.pop();
    assert_eq!(widest(&both), None);
}

fn interval(low: f64, high: f64) -> Estimate {
    Estimate {
        median: (low + high) / 2.0,
        low,
        high,
        level: 0.95,
    }
}
