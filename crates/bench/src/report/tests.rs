//! Exact text, what is escaped, and the choice of charts. The page as browsers show it is
//! tests/bench-page's.

use std::collections::BTreeMap;

use super::*;
use crate::figures::Verdict;
use crate::model::{Asked, CipherSpeed, Machine, Origin, Pages, Published, Round, Sample, Variant};
use crate::statistics::Estimate;

/// A possible name of a peer, a machine or a file.
const NASTY: &str = "a|b\n\u{1b}[31m<img src=x onerror=alert(1)> *x* `y` ![z](u) \"q\" '&amp;";

fn variant(name: &str, bits: Option<u16>) -> Variant {
    Variant {
        name: name.to_owned(),
        bits,
        postgres: "PostgreSQL 15.18".to_owned(),
    }
}

fn sample(value: f64, cpu_s: f64, pages: u64) -> Sample {
    Sample {
        value,
        work: 1000.0,
        user_s: cpu_s,
        pages: Pages {
            opened: pages,
            sealed: pages,
        },
        ..Sample::default()
    }
}

/// Six equal rounds of stock and sealed-256, so that every interval is its median.
fn case(name: &str, connections: f64, sealed: f64) -> Case {
    let round = |number: u32| Round {
        number,
        set: number,
        samples: BTreeMap::from([
            ("stock".to_owned(), sample(1000.0, 1.0, 0)),
            ("sealed-256".to_owned(), sample(sealed, 1.004, 2000)),
        ]),
    };
    Case {
        name: name.to_owned(),
        group: "scale 50".to_owned(),
        axis: Some(("connections".to_owned(), connections)),
        metric: Metric::TransactionsPerSecond,
        limit: 0.005,
        published: vec![Published {
            origin: Origin::Published,
            source: "PostgreSQL 13.1".to_owned(),
            variant: "TDE-9 on".to_owned(),
            stock: Some(3580.0),
            encrypted: Some(2024.0),
            loss: 0.435,
            added_us: Some(2577.0),
        }],
        rounds: (0..6).map(round).collect(),
    }
}

fn report() -> Report {
    Report {
        format: 1,
        recipe: "tpcb".to_owned(),
        machine: Machine {
            cpu: "Invented".to_owned(),
            cores: 2,
            memory: 3 << 30,
            kernel: "6.1.0".to_owned(),
            file_system: "ext4".to_owned(),
            load: [0.1, 0.2, 0.3],
        },
        parameters: BTreeMap::from([
            ("scales".to_owned(), vec![50, 500].into()),
            ("shared_buffers".to_owned(), "1MB".into()),
        ]),
        asked: Some(Asked {
            quick: true,
            rounds: 6,
            rounds_per_set: 1,
            until_ci: Some(0.005),
            time_limit_s: Some(3600),
        }),
        seed: 42,
        started: "2026-01-02T03:04:05Z".to_owned(),
        ended_early: None,
        variants: vec![variant("stock", None), variant("sealed-256", Some(256))],
        cases: vec![case("scale 50, 12 connections", 12.0, 998.0)],
        cipher: vec![CipherSpeed {
            bits: 256,
            open_ns: [650.0, 660.0],
            seal_ns: [660.0, 670.0],
        }],
    }
}

#[test]
fn markdown_is_this() {
    assert_eq!(markdown(&report(), Form::Wide), include_str!("expected.md"));
}

#[test]
fn narrow_markdown_is_this() {
    assert_eq!(
        markdown(&report(), Form::Narrow),
        include_str!("expected-narrow.md")
    );
}

#[test]
fn the_narrow_form_fits_a_terminal_and_loses_nothing() {
    let mut report = report();
    report.ended_early = Some("interrupted by somebody ".repeat(8));
    report.cases[0].published[0].variant = "a product of another name ".repeat(8);
    let narrow = markdown(&report, Form::Narrow);
    let long = narrow.lines().filter(|line| line.chars().count() > 80);
    assert_eq!(long.collect::<Vec<_>>(), [""; 0]);
    let words = |text: &str| {
        let words = text.split(|c: char| c.is_whitespace() || "|-:#".contains(c));
        words
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let (wide, narrow) = (words(&markdown(&report, Form::Wide)), words(&narrow));
    // The head of a column whose cells are headings here.
    assert_eq!(wide.difference(&narrow).collect::<Vec<_>>(), ["case"]);
}

#[test]
fn an_early_end_comes_first() {
    let mut report = report();
    report.ended_early = Some("interrupted.".to_owned());
    let start = "# What encryption costs: pgbench, TPC-B\n\n\
                 **Ended early: interrupted.** What was finished is below.\n\n- machine";
    assert!(markdown(&report, Form::Wide).starts_with(start));
    let page = html(&report);
    let (early, machine) = (page.find("Ended early: interrupted."), page.find("machine"));
    assert!(early.is_some() && early < machine);
}

#[test]
fn nothing_of_a_file_is_markup() {
    let mut report = report();
    report.machine.cpu = NASTY.to_owned();
    report.recipe = NASTY.to_owned();
    report.ended_early = Some(NASTY.to_owned());
    report.parameters = BTreeMap::from([(NASTY.to_owned(), NASTY.into())]);
    let peer = variant(NASTY, None);
    report.variants.push(Variant {
        postgres: NASTY.to_owned(),
        ..peer
    });
    let case = &mut report.cases[0];
    case.name = NASTY.to_owned();
    case.group = NASTY.to_owned();
    case.published[0].source = NASTY.to_owned();
    for round in &mut case.rounds {
        let sample = Sample {
            extra: BTreeMap::from([(NASTY.to_owned(), 1.0)]),
            curves: BTreeMap::from([(NASTY.to_owned(), vec![(0.0, 1.0), (1.0, 2.0)])]),
            ..sample(900.0, 1.0, 0)
        };
        round.samples.insert(NASTY.to_owned(), sample);
    }

    let page = html(&report);
    assert!(!page.contains("<img") && page.contains("&lt;img"), "{page}");
    assert!(
        !page.contains("x onerror=alert(1)> *x* `y` ![z](u) \""),
        "{page}"
    );

    let text = markdown(&report, Form::Wide);
    assert!(text
        .contains(r#"a\|b  [31m\<img src=x onerror=alert(1)> \*x\* \`y\` \![z]\(u) "q" '\&amp;"#));
    assert!(
        !text.contains('\u{1b}') && !text.replace(r"\<", "").contains("<img"),
        "{text}"
    );
    let columns = |row: &str| row.replace(r"\|", "").matches('|').count();
    let tables = text.split("\n\n").filter(|part| part.starts_with('|'));
    for table in tables {
        let counts: Vec<usize> = table.lines().map(columns).collect();
        assert!(counts.iter().all(|count| *count == counts[0]), "{table}");
    }
}

#[test]
fn underscores_within_words_stay_as_they_are() {
    let mut report = report();
    report.machine.cpu = "pg_tde _x_".to_owned();
    assert!(markdown(&report, Form::Wide).contains(r"- machine: pg_tde \_x\_, 2 cores"));
}

#[test]
fn what_we_ran_is_not_called_published() {
    let mut report = report();
    assert!(html(&report).contains("PostgreSQL 13.1 (published)"));
    report.cases[0].published[0].origin = Origin::OurRun;
    assert!(markdown(&report, Form::Wide).contains("| run by us  |"));
    let page = html(&report);
    assert!(page.contains("PostgreSQL 13.1 (run by us)"), "{page}");
    assert!(!page.contains("(published)"), "{page}");
}

#[test]
fn a_file_without_plan_and_origins_is_read() {
    let mut old = serde_json::to_value(report()).expect("it is plain data");
    let file = old.as_object_mut().expect("it has names");
    file.remove("asked");
    let case = &mut file["cases"][0]["published"][0];
    case.as_object_mut().expect("it has names").remove("origin");
    let read: Report = serde_json::from_value(old).expect("it is readable");
    assert_eq!(read.asked, None);
    assert_eq!(read.cases, report().cases);
    assert!(!markdown(&read, Form::Wide).contains("asked for"));
}

#[test]
fn verdicts_in_words() {
    let said = |verdict| words::verdict(verdict, 0.005);
    assert_eq!(said(Verdict::NoLoss), "no loss, within the aim of 0.5 %");
    assert_eq!(said(Verdict::Within), "within the aim of 0.5 %");
    assert_eq!(
        said(Verdict::Loss),
        "a loss, undecided against the aim of 0.5 %"
    );
    assert_eq!(said(Verdict::Beyond), "misses the aim of 0.5 %");
    assert_eq!(
        said(Verdict::Undecided),
        "undecided against the aim of 0.5 %"
    );
    assert_eq!(said(Verdict::TooFewRounds), "too few rounds for a verdict");
}

#[test]
fn numbers_in_words() {
    let estimate = |median, low, high| Estimate {
        median,
        low,
        high,
        level: 0.97,
    };
    let percent = |median, low, high| words::percent_interval(estimate(median, low, high));
    assert_eq!(
        percent(0.002, -0.003, 0.006).as_deref(),
        Some("0.2 % [-0.3, 0.6]")
    );
    assert_eq!(
        percent(0.002, 0.0015, 0.0025).as_deref(),
        Some("0.20 % [0.15, 0.25]")
    );
    assert_eq!(
        percent(-0.0001, -0.1, 0.1).as_deref(),
        Some("0.0 % [-10.0, 10.0]")
    );
    assert_eq!(percent(f64::NAN, 0.0, 0.0), None);
    let at = |level| {
        words::times_interval(Estimate {
            level,
            ..estimate(2.0, 1.0, 3.0)
        })
    };
    assert_eq!(at(0.9375).as_deref(), Some("2.00 [1.00, 3.00] at 94 %"));
    assert_eq!(at(0.0).as_deref(), Some("2.00"));
    let time = |median, low, high| words::time_interval(estimate(median, low, high));
    assert_eq!(
        time(900.0, 800.0, 1100.0).as_deref(),
        Some("0.90 ms [0.80, 1.10]")
    );
    assert_eq!(words::time(2.5e6).as_deref(), Some("2.50 s"));
    assert_eq!(words::percent(0.3, 2), "30 %");
    assert_eq!(words::percent(0.0725, 2), "7.25 %");
    assert_eq!(words::curve_name("wal_write_kb_s"), "WAL write, kB/s");
    assert_eq!(plot::short(1_234_567.0), "1.2M");
    assert_eq!(plot::short(-0.0), "0");
}

#[test]
fn cases_along_an_axis_are_lines_and_others_bars() {
    let titles = |report: &Report| {
        let view = View::of(report);
        let charts = view
            .groups
            .iter()
            .flat_map(|group| charts::of_group(&view, group));
        charts.map(|chart| chart.title).collect::<Vec<_>>()
    };
    let mut report = report();
    assert_eq!(
        titles(&report),
        ["Loss against stock", "Extra processor time against stock"]
    );
    report
        .cases
        .push(case("scale 50, 24 connections", 24.0, 990.0));
    assert_eq!(
        titles(&report),
        [
            "Transactions per second by connections",
            "Loss against stock by connections, with 95 % intervals"
        ]
    );
    report.cases.iter_mut().for_each(|case| case.rounds.clear());
    assert!(titles(&report).is_empty());
    assert!(markdown(&report, Form::Wide).contains("| 12 connections | not measured"));
}

#[test]
fn figures_that_no_run_has_are_drawn_too() {
    let mut report = report();
    for round in &mut report.cases[0].rounds {
        round
            .samples
            .insert("stock".to_owned(), sample(0.0, 0.0, 0));
    }
    assert!(html(&report).contains("</html>"));
}

#[test]
fn an_hour_of_samples_makes_few_points() {
    let mut report = report();
    let hour: Vec<(f64, f64)> = (0..3600).map(|second| (f64::from(second), 7.0)).collect();
    let samples = &mut report.cases[0].rounds[0].samples;
    let stock = samples.get_mut("stock").expect("stock ran");
    stock.curves.insert("cpu_percent".to_owned(), hour);
    let view = View::of(&report);
    let charts = charts::of_group(&view, &view.groups[0]);
    let curve = charts.last().expect("a chart of the curve");
    assert_eq!(curve.title, "CPU, % over time: scale 50, 12 connections");
    let longest = curve
        .drawn
        .elements
        .lines()
        .map(|line| line.matches(',').count())
        .max();
    assert_eq!(longest, Some(240));
}

/// A query that each of two variants ran or refused.
fn query(name: &str, seconds: [Option<f64>; 2]) -> Case {
    let own = |seconds: Option<f64>, requests: f64| Sample {
        extra: BTreeMap::from([("rows".to_owned(), 4.0), ("requests".to_owned(), requests)]),
        refused: seconds.is_none().then(|| "0A000".to_owned()),
        ..sample(seconds.unwrap_or(0.0), 1.0, 0)
    };
    let mut stock = own(Some(0.5), 0.0);
    stock.extra.remove("requests");
    let samples = BTreeMap::from([
        ("stock".to_owned(), stock),
        ("inline".to_owned(), own(seconds[0], 0.0)),
        ("isolated".to_owned(), own(seconds[1], 17.0)),
    ]);
    Case {
        name: name.to_owned(),
        group: String::new(),
        axis: None,
        metric: Metric::QuerySeconds,
        published: Vec::new(),
        rounds: vec![Round {
            number: 0,
            set: 0,
            samples,
        }],
        ..case("", 1.0, 1.0)
    }
}

#[test]
fn queries_have_ratios_and_a_refused_one_is_in_no_mean() {
    let mut report = report();
    report.variants = ["stock", "inline", "isolated"]
        .map(|name| variant(name, None))
        .into();
    report.cases = vec![
        query("Q1: a", [Some(1.0), Some(4.0)]),
        query("Q2: b", [Some(4.0), None]),
    ];
    let text = markdown(&report, Form::Wide);
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
    let expected = [
        "| query               | rows | stock, ms | inline, times | isolated, times | isolated, requests |",
        "| ------------------- | ---: | --------: | ------------: | --------------: | -----------------: |",
        "| Q1: a               |    4 |     500.0 |          2.00 |            8.00 |                 17 |",
        "| Q2: b               |    4 |     500.0 |          8.00 | refused (0A000) |                    |",
        "| geometric mean      |      |           |          4.00 |            8.00 |                    |",
        "| worst               |      |           |     8.00 (Q2) |       8.00 (Q1) |                    |",
        "| refused, in no mean |      |           |               |               1 |                    |",
    ];
    assert_eq!(rows[..7], expected);
}
