//! `pgseal bench cipher`: what a page of 8 kB costs, beside AWS-LC's own calls and OpenSSL's speed
//! in the same rounds.
//!
//! `stock` is AWS-LC itself: the two calls that XTS costs at least, to set the tweak and to run
//! the page. It has no XTS for 128 and 192 bits; there it is the bare block cipher (ECB) on which
//! ours is composed, so a bound and no mode to use. `openssl` is the installed `openssl speed`, a
//! second each: XTS, which it sets no tweak for, or the block cipher where it has no XTS either.
//! All of them are CPU time of one thread on one page that stays in the processor's caches, except
//! one case: encryption of pages that lie in memory, as those of a large `shared_buffers` do when
//! they are written.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use clap::Args;
use fastrand::Rng;
use indicatif::ProgressBar;
use nix::time::{clock_gettime, ClockId};
use pgseal_crypto::internals::{Context, Direction, Mode};
use pgseal_crypto::{FileCipher, FileId, Fork, KeyLength, MasterKey, UNIT};

use crate::error::{files, BenchError};
use crate::host::process::{self, Stop};
use crate::host::{lock, machine};
use crate::model::{Asked, Case, Metric, Report, Round, Sample, Variant, FORMAT, STOCK};
use crate::options::Output;
use crate::statistics::median;
use crate::{output, progress, run, schedule};

/// A sample of ours or AWS-LC's is the median over batches of so many pages.
const BATCHES: usize = 21;
const PAGES: u32 = 4000;
const LENGTHS: [KeyLength; 3] = [KeyLength::Bits256, KeyLength::Bits192, KeyLength::Bits128];
/// Two different keys, as XTS wants them.
const PAIR: [u8; 64] = {
    let mut pair = [1; 64];
    pair[0] = 2;
    pair
};

/// Options of `cipher`.
#[derive(Debug, Args)]
pub struct Cipher {
    /// Run two minutes instead of six
    #[arg(long)]
    quick: bool,
    /// Number of rounds [default: 60; --quick: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    #[command(flatten)]
    output: Output,
}

/// The implementation that is measured, in the order of the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    AwsLc,
    Ours,
    OpenSsl,
}

const SUBJECTS: [Subject; 3] = [Subject::AwsLc, Subject::Ours, Subject::OpenSsl];

/// Which key, which way, and where the pages come from.
#[derive(Debug, Clone, Copy)]
struct Cell {
    length: KeyLength,
    direction: Direction,
    pages: usize,
}

/// One page stays in the caches; of so many, 256 MB, none does.
const IN_MEMORY: usize = 1 << 15;

impl Cipher {
    /// Runs the rounds; what was measured is kept, also when an error ended it.
    pub fn run(&self) -> Result<(), BenchError> {
        let bar = progress::bar(&self.output);
        let _lock = lock::take()?;
        let stop = Stop::default();
        run::watch_signals(&stop).map_err(files("/proc"))?;
        let mut report = self.empty_report(&stop)?;
        let ended = self.measure(&stop, &bar, &mut report);
        bar.finish_and_clear();
        if let Err(error) = &ended {
            report.ended_early = Some(error.to_string());
        }
        if report.cases.iter().any(|case| !case.rounds.is_empty()) {
            output::write(&report, &self.output)?;
        }
        ended
    }

    fn measure(
        &self,
        stop: &Stop,
        bar: &ProgressBar,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let mut random = Rng::with_seed(report.seed);
        for number in 0..self.rounds() {
            progress::plan(bar, report, number, self.rounds());
            let turns = schedule::round(&mut random, report.cases.len(), SUBJECTS.len());
            for turn in turns {
                let mut samples = BTreeMap::new();
                let case = &report.cases[turn.case].name;
                bar.set_message(format!("round {}, {case}", number + 1));
                let measured = |at: &usize| measures(SUBJECTS[*at], cells()[turn.case]);
                for at in turn.contenders.into_iter().filter(measured) {
                    let sample = sample(SUBJECTS[at], cells()[turn.case], stop)?;
                    samples.insert(report.variants[at].name.clone(), sample);
                }
                let set = 0;
                let round = Round {
                    number,
                    set,
                    samples,
                };
                report.cases[turn.case].rounds.push(round);
                bar.inc(SUBJECTS.len() as u64);
            }
            output::save(report, &self.output)?;
        }
        Ok(())
    }

    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 20 } else { 60 })
    }

    fn empty_report(&self, stop: &Stop) -> Result<Report, BenchError> {
        Ok(Report {
            format: FORMAT,
            recipe: "cipher".to_owned(),
            machine: machine::describe(Path::new("/")),
            parameters: BTreeMap::from([("bytes".to_owned(), UNIT.into())]),
            asked: Some(Asked {
                quick: self.quick,
                rounds: self.rounds(),
                rounds_per_set: self.rounds(),
                until_ci: None,
                time_limit_s: None,
            }),
            seed: self.output.seed.unwrap_or_else(|| fastrand::u64(..1 << 32)),
            started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            ended_early: None,
            variants: variants(stop)?,
            cases: cells().into_iter().map(case).collect(),
            cipher: Vec::new(),
        })
    }
}

fn variants(stop: &Stop) -> Result<Vec<Variant>, BenchError> {
    let openssl = process::run(Command::new("openssl").arg("version"), stop);
    let missing = |_| BenchError::Usage("openssl is missing: install it and try again".to_owned());
    let openssl = openssl.map_err(missing)?.checked()?.stdout;
    let variant = |subject| {
        let (name, what) = match subject {
            Subject::AwsLc => (STOCK, "AWS-LC"),
            Subject::Ours => ("pgseal", concat!("pgseal ", env!("CARGO_PKG_VERSION"))),
            Subject::OpenSsl => ("openssl", openssl.trim()),
        };
        Variant {
            name: name.to_owned(),
            bits: None,
            postgres: what.to_owned(),
        }
    };
    Ok(SUBJECTS.into_iter().map(variant).collect())
}

fn cells() -> Vec<Cell> {
    let cell = |length, direction, pages| Cell {
        length,
        direction,
        pages,
    };
    let both = |direction| LENGTHS.map(|length| cell(length, direction, 1));
    let mut cells = [Direction::Open, Direction::Seal].map(both).concat();
    cells.push(cell(KeyLength::Bits256, Direction::Seal, IN_MEMORY));
    cells
}

/// `openssl speed` has one page only.
fn measures(subject: Subject, cell: Cell) -> bool {
    subject != Subject::OpenSsl || cell.pages == 1
}

fn case(cell: Cell) -> Case {
    let way = match cell.direction {
        Direction::Open => "decrypt",
        Direction::Seal => "encrypt",
    };
    let bits = cell.length.bits();
    let from = if cell.pages == 1 { "" } else { ", from memory" };
    Case {
        name: format!("{way}, {bits} bits{from}"),
        group: way.to_owned(),
        axis: None,
        metric: Metric::NanosecondsPerPage,
        // XTS over a bare block cipher goes over the page twice more.
        limit: if cell.length == KeyLength::Bits256 {
            0.02
        } else {
            1.0
        },
        published: Vec::new(),
        rounds: Vec::new(),
    }
}

fn sample(subject: Subject, cell: Cell, stop: &Stop) -> Result<Sample, BenchError> {
    let ns = match subject {
        Subject::AwsLc => aws_lc(cell)?,
        Subject::Ours => ours(cell)?,
        Subject::OpenSsl => openssl(cell, stop)?,
    };
    if stop.is_set() {
        return Err(BenchError::Interrupted);
    }
    Ok(Sample {
        value: ns,
        work: 1.0,
        user_s: ns / 1e9,
        ..Sample::default()
    })
}

fn ours(cell: Cell) -> Result<f64, BenchError> {
    let master = MasterKey::from_bytes(&mut [7; 32]);
    let id = FileId::relation(5, 16384, Fork::Main, 0);
    let cipher = FileCipher::new(&master, cell.length, &id);
    let (plain, mut page) = (Pages::new(cell.pages), [2; UNIT]);
    match cell.direction {
        Direction::Open => per_page(|unit| cipher.open(unit, &mut page)),
        Direction::Seal => per_page(|unit| cipher.seal(unit, plain.at(unit), &mut page)),
    }
}

fn aws_lc(cell: Cell) -> Result<f64, BenchError> {
    let xts = cell.length == KeyLength::Bits256;
    let (mode, key) = match xts {
        true => (Mode::Xts256, &PAIR[..]),
        false => (Mode::Ecb(cell.length), &PAIR[..cell.length.bytes()]),
    };
    let mut context = Context::new(mode, cell.direction, key);
    let (plain, mut page) = (Pages::new(cell.pages), [2; UNIT]);
    per_page(|unit| {
        if xts {
            context.start(&u128::from(unit).to_le_bytes());
        }
        match cell.direction {
            Direction::Open => context.run_in_place(&mut page),
            Direction::Seal => context.run(plain.at(unit), &mut page),
        }
    })
}

/// The pages that are encrypted.
struct Pages(Vec<[u8; UNIT]>);

impl Pages {
    fn new(count: usize) -> Self {
        Self(vec![[1; UNIT]; count])
    }

    /// One after the other, but far apart, as a clock sweep would find them.
    fn at(&self, unit: u64) -> &[u8; UNIT] {
        const STEP: u64 = 7919;
        let count = self.0.len() as u64;
        let index = usize::try_from(unit * STEP % count).unwrap_or_default();
        &self.0[index]
    }
}

/// Nanoseconds of CPU that a page takes. By the thread's clock: what getrusage(2) says of a thread
/// that runs is as of the last tick, and a batch is shorter than that.
fn per_page(mut call: impl FnMut(u64)) -> Result<f64, BenchError> {
    let clock = ClockId::CLOCK_THREAD_CPUTIME_ID;
    let cpu = || clock_gettime(clock).map_err(|error| files("clock_gettime")(error.into()));
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        let before = cpu()?;
        for unit in 0..PAGES {
            call(black_box(u64::from(unit)));
        }
        let spent = Duration::from(cpu()? - before);
        batches.push(spent.as_secs_f64() * 1e9 / f64::from(PAGES));
    }
    Ok(median(&batches))
}

fn openssl(cell: Cell, stop: &Stop) -> Result<f64, BenchError> {
    let mode = match cell.length {
        KeyLength::Bits192 => "ecb",
        _ => "xts",
    };
    let mut command = Command::new("openssl");
    command.args(["speed", "-mr", "-seconds", "1", "-bytes", &UNIT.to_string()]);
    if cell.direction == Direction::Open {
        command.arg("-decrypt");
    }
    command
        .arg("-evp")
        .arg(format!("aes-{}-{mode}", cell.length.bits()));
    let done = process::run(&mut command, stop)?.checked()?;
    ns_of(&done.stdout).ok_or_else(|| BenchError::Program {
        program: "openssl speed".to_owned(),
        status: "told no speed".to_owned(),
        output: done.stdout,
    })
}

/// `+F:25:AES-256-XTS:6972793929.90` are bytes per second of CPU.
fn ns_of(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.starts_with("+F:"))?;
    let bytes_per_second: f64 = line.rsplit(':').next()?.parse().ok()?;
    (bytes_per_second > 0.0).then(|| UNIT as f64 / bytes_per_second * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openssl_is_read() {
        let ns = ns_of("+H:8192\n+F:25:AES-256-XTS:8192000000.00\n");
        assert_eq!(ns, Some(1000.0));
        for wrong in ["+H:8192\n", "+F:25:AES-256-XTS:0.00\n", "+F:25:x\n"] {
            assert_eq!(ns_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_length_both_ways_takes_a_plausible_time() {
        for cell in cells() {
            for ns in [ours(cell), aws_lc(cell)] {
                let ns = ns.expect("there is a clock");
                assert!((50.0..1e6).contains(&ns), "{cell:?}: {ns}");
            }
        }
        let names: Vec<_> = cells().into_iter().map(|cell| case(cell).name).collect();
        assert_eq!(names[0], "decrypt, 256 bits");
        assert_eq!(names[5], "encrypt, 128 bits");
        assert_eq!(names[6], "encrypt, 256 bits, from memory");
    }
}
