//! The driver: prepares the machine, runs a recipe's rounds, and keeps a report that is whole after
//! each of them, however the run ends.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use fastrand::Rng;
use indicatif::ProgressBar;
use nix::unistd::geteuid;
use pgseal_crypto::KeyLength;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::cipher_speed;
use crate::error::{files, BenchError};
use crate::figures::widest;
use crate::host::process::{self, Stop};
use crate::host::{lock, machine, requirements, Host, Tools};
use crate::model::{Asked, CipherSpeed, Report, Round, FORMAT};
use crate::options::RunOptions;
use crate::output;
use crate::progress;
use crate::recipes::{Recipe, Runs, Set};
use crate::schedule::{self, Next, Plan, Turn};

/// The longest path of a work directory: the kernel keeps a socket's path in 108 bytes.
const MAX_WORK_PATH: usize = 107 - "/.s.PGSQL.65535".len();
/// The limit with `--until-ci`, unless the command line says another.
const DEFAULT_LIMIT: Duration = Duration::from_secs(3600);

/// Runs the recipe. What was measured is kept as `--json` and told to `show`, also when an error
/// ended it.
pub fn run(options: &RunOptions, recipe: &mut dyn Recipe, tools: Tools) -> Result<(), BenchError> {
    if geteuid().is_root() {
        return Err(BenchError::Root);
    }
    let bar = progress::bar(&options.output);
    let work = work_directory(options)?;
    let host = host(options, recipe, tools, &work, bar)?;
    requirements::check(recipe.needs(&host.contenders), &options.data)?;
    let _lock = lock::take()?;
    watch_signals(&host.stop).map_err(files(work.path()))?;
    host.make_wrappers()?;
    let mut report = empty_report(options, recipe, &host);
    measure_cipher(&mut report, 0);
    let ended = rounds(options, recipe, &host, &mut report);
    measure_cipher(&mut report, 1);
    host.bar.finish_and_clear();
    process::end_all();
    if let Err(error) = &ended {
        report.ended_early = Some(error.to_string());
    }
    if report.cases.iter().any(|case| !case.rounds.is_empty()) {
        output::write(&report, &options.output)?;
    }
    put_away(work, options.keep)?;
    ended
}

/// The rounds, as many as the plan wants.
fn rounds(
    options: &RunOptions,
    recipe: &mut dyn Recipe,
    host: &Host,
    report: &mut Report,
) -> Result<(), BenchError> {
    let plan = plan(options, recipe);
    let (start, mut random) = (Instant::now(), Rng::with_seed(report.seed));
    let mut current: Option<(u32, Box<dyn Set>)> = None;
    for done in 0.. {
        let width = plan.until_ci.and_then(|_| widest(report));
        let set = match plan.next(done, width, start.elapsed()) {
            Next::Round { set } => set,
            Next::Enough => break,
            Next::OutOfTime => {
                report.ended_early = Some("the time limit was reached".to_owned());
                break;
            }
        };
        progress::plan(&host.bar, report, done, plan.expected(done, width));
        let clusters = match &mut current {
            Some((number, clusters)) if *number == set => clusters,
            before => {
                *before = None;
                &mut before.insert((set, make_set(recipe, host, set)?)).1
            }
        };
        let turns = schedule::round(&mut random, report.cases.len(), host.contenders.len());
        for turn in &turns {
            let round = one_turn(clusters.as_mut(), turn, done, set, host, report)?;
            report.cases[turn.case].rounds.push(round);
        }
        output::save(report, &options.output)?;
    }
    Ok(())
}

/// Every contender of a case once.
fn one_turn(
    clusters: &mut dyn Set,
    turn: &Turn,
    number: u32,
    set: u32,
    host: &Host,
    report: &Report,
) -> Result<Round, BenchError> {
    let of = |at: &usize| &host.contenders[*at];
    let contenders: Vec<_> = turn.contenders.iter().map(of).collect();
    let case = &report.cases[turn.case].name;
    host.note(format!("round {}, {case}", number + 1));
    let samples = clusters.run(&Runs {
        case: turn.case,
        contenders: &contenders,
        seed: turn.seed,
        host,
    })?;
    Ok(Round {
        number,
        set,
        samples,
    })
}

/// A new set, in the place of the one before.
fn make_set(recipe: &mut dyn Recipe, host: &Host, set: u32) -> Result<Box<dyn Set>, BenchError> {
    if let Some(before) = set.checked_sub(1) {
        let gone = host.work.join(format!("set{before}"));
        fs::remove_dir_all(&gone).map_err(files(gone))?;
    }
    let home = host.work.join(format!("set{set}"));
    fs::create_dir(&home).map_err(files(&home))?;
    recipe.make_set(&home, host)
}

fn plan(options: &RunOptions, recipe: &dyn Recipe) -> Plan {
    let until_ci = options.until_ci;
    Plan {
        until_ci,
        time_limit: options.time_limit.or(until_ci.map(|_| DEFAULT_LIMIT)),
        ..Plan::new(recipe.defaults(), options.rounds, options.sets)
    }
}

fn asked(plan: &Plan, quick: bool) -> Asked {
    Asked {
        quick,
        rounds: plan.rounds,
        rounds_per_set: plan.rounds_per_set,
        until_ci: plan.until_ci,
        time_limit_s: plan.time_limit.map(|limit| limit.as_secs()),
    }
}

fn work_directory(options: &RunOptions) -> Result<TempDir, BenchError> {
    let unusable = || files(&options.data);
    let data = options.data.canonicalize().map_err(unusable())?;
    let work = tempfile::Builder::new()
        .prefix("pgseal-bench.")
        .tempdir_in(&data)
        .map_err(unusable())?;
    if work.path().as_os_str().len() > MAX_WORK_PATH {
        return Err(BenchError::Usage(format!(
            "the path {} is too long for a server's socket: name a shorter one with --data",
            data.display()
        )));
    }
    Ok(work)
}

fn host(
    options: &RunOptions,
    recipe: &dyn Recipe,
    tools: Tools,
    work: &TempDir,
    bar: ProgressBar,
) -> Result<Host, BenchError> {
    let wrappers = work.path().join("wrappers");
    let contenders = recipe.contenders(options, &wrappers)?;
    Ok(Host {
        pg: contenders[0].bindir.clone(),
        tools,
        wrappers,
        work: work.path().to_owned(),
        contenders,
        stop: Stop::default(),
        bar,
    })
}

/// Lets a signal be a wish.
pub fn watch_signals(stop: &Stop) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.0.clone())?;
    }
    // What a killed program leaves behind comes to us, not to init.
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

fn empty_report(options: &RunOptions, recipe: &dyn Recipe, host: &Host) -> Report {
    let variants = || host.contenders.iter().map(|c| c.variant.clone());
    // Several variants may have keys of one length.
    let mut seen = BTreeSet::new();
    Report {
        format: FORMAT,
        recipe: recipe.name().to_owned(),
        machine: machine::describe(Path::new(&host.work)),
        parameters: recipe.parameters(),
        asked: Some(asked(&plan(options, recipe), options.quick)),
        seed: options
            .output
            .seed
            .unwrap_or_else(|| fastrand::u64(..1 << 32)),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        ended_early: None,
        variants: variants().collect(),
        cases: recipe.cases(),
        cipher: variants()
            .filter_map(|variant| variant.bits)
            .filter(|bits| seen.insert(*bits))
            .map(|bits| CipherSpeed {
                bits,
                open_ns: [0.0; 2],
                seal_ns: [0.0; 2],
            })
            .collect(),
    }
}

/// The cipher's own speed: before the rounds (0), after them (1).
fn measure_cipher(report: &mut Report, when: usize) {
    for speed in &mut report.cipher {
        let length = KeyLength::try_from(speed.bits).expect("contenders have lengths of AES");
        let cost = cipher_speed::measure(length);
        speed.open_ns[when] = cost.open_ns;
        speed.seal_ns[when] = cost.seal_ns;
    }
}

fn put_away(work: TempDir, keep: bool) -> Result<(), BenchError> {
    if keep {
        // It is kept in any case.
        let _ = writeln!(io::stderr(), "pgseal: kept: {}", work.keep().display());
        return Ok(());
    }
    let path = work.path().to_owned();
    work.close().map_err(files(path))
}
