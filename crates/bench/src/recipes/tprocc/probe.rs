//! Records what a server does while the driver runs, at equal distances: the curves of a sample.
//!
//! Its figures are the server's own. New orders are those that are committed in the tables, as
//! TPROC-C counts them. Data read and written are pages that PostgreSQL asked the kernel for, from
//! its cache and from the disk alike, so all that a cipher touches; WAL written is what the
//! position in WAL moved. CPU is 100 for one busy processor. Memory is the private memory of all
//! its processes, and of shared memory what the one that has touched most of it has touched: to
//! add up shares of pages would cost more than it shows. The query of some milliseconds, once a
//! second or less, costs all variants the same.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::error::{files, BenchError};
use crate::host::cluster::Server;
use crate::host::{account, process, Host};

const PAGE: f64 = 8192.0;

/// An open session beside the load.
#[derive(Debug)]
pub struct Probe {
    psql: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    query: String,
    postmaster: u32,
}

/// All counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    /// How long the server had run, in seconds of its own turns.
    pub at: f64,
    /// Committed so far.
    pub new_orders: f64,
    wal: f64,
    read: f64,
    written: f64,
    cpu_s: f64,
    memory: f64,
}

impl Probe {
    /// Opens the session.
    pub fn open(major: u32, server: &Server<'_>, host: &Host) -> Result<Self, BenchError> {
        let mut command = host.client("psql");
        command.args(["-X", "-q", "-A", "-t", "-F", " ", "-v", "ON_ERROR_STOP=1"]);
        command.env("PGPORT", server.port());
        // What it has to say when the server dies, the server's log says.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let unstartable = |error| BenchError::Start(host.pg.join("psql"), error);
        let mut psql = process::spawn(&mut command).map_err(unstartable)?;
        let (requests, answers) = (psql.stdin.take(), psql.stdout.take());
        Ok(Self {
            requests: requests.expect("it is a pipe"),
            answers: BufReader::new(answers.expect("it is a pipe")),
            psql,
            query: query(major),
            postmaster: server.pid(),
        })
    }

    /// Reads all counters, after so much of the server's own time.
    pub fn read(&mut self, at: Duration) -> Result<Reading, BenchError> {
        let mut line = String::new();
        let asked = self.requests.write_all(self.query.as_bytes());
        asked
            .and_then(|()| self.answers.read_line(&mut line))
            .map_err(files("psql"))?;
        let numbers: Vec<f64> = line.split_whitespace().flat_map(str::parse).collect();
        let &[new_orders, wal, read, written] = &numbers[..] else {
            return Err(BenchError::Program {
                program: "psql".to_owned(),
                status: "gave no counters".to_owned(),
                output: line,
            });
        };
        let cpu = account::of_server(self.postmaster).map_err(files("/proc"))?;
        Ok(Reading {
            at: at.as_secs_f64(),
            new_orders,
            wal,
            read: read * PAGE,
            written: written * PAGE,
            cpu_s: cpu.user_s + cpu.system_s,
            memory: memory(self.postmaster).map_err(files("/proc"))?,
        })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        process::end(&mut self.psql, Signal::SIGTERM);
    }
}

/// The counters, in pages except WAL. 16 has them by kind of file, 18 in bytes.
fn query(major: u32) -> String {
    let written = match major {
        ..=15 => {
            "(SELECT buffers_checkpoint + buffers_clean + buffers_backend FROM pg_stat_bgwriter)"
        }
        16 | 17 => "(SELECT sum(writes) + sum(extends) FROM pg_stat_io)",
        _ => {
            "(SELECT (sum(write_bytes) + sum(extend_bytes)) / 8192
               FROM pg_stat_io WHERE object <> 'wal')"
        }
    };
    format!(
        "SELECT (SELECT sum(d_next_o_id) FROM district), \
         pg_current_wal_lsn() - '0/0', (SELECT sum(blks_read) FROM pg_stat_database), {written};\n"
    )
}

/// Bytes: see the top of this file.
fn memory(postmaster: u32) -> std::io::Result<f64> {
    let (mut own, mut shared) = (0.0, 0.0_f64);
    for pid in account::descendants(postmaster)? {
        // A process that has just ended has none.
        let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"));
        let (anonymous, touched) = resident(&status.unwrap_or_default());
        own += anonymous;
        shared = shared.max(touched);
    }
    Ok(own + shared)
}

/// Private and shared bytes of /proc/PID/status.
fn resident(status: &str) -> (f64, f64) {
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
        kilobytes.unwrap_or(0.0) * 1024.0
    };
    (of("RssAnon:"), of("RssShmem:"))
}

/// Two readings, and what lay between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    from: Reading,
    to: Reading,
}

/// Returns the intervals between each reading and the next.
pub fn intervals(readings: &[Reading]) -> impl Iterator<Item = Interval> + '_ {
    let pairs = readings.iter().zip(readings.iter().skip(1));
    pairs.map(|(&from, &to)| Interval { from, to })
}

/// The curves over intervals that need not touch: time is that of the intervals. Neighbours are
/// taken together, so that there are at most so many points.
pub fn curves(intervals: &[Interval], points: usize) -> BTreeMap<String, Vec<(f64, f64)>> {
    type Of = fn(&Reading, &Reading) -> f64;
    let all: [(&str, Of); 6] = [
        ("cpu_percent", |a, b| 100.0 * (b.cpu_s - a.cpu_s)),
        ("memory_mb", |a, b| b.memory / 1e6 * (b.at - a.at)),
        ("data_read_kb_s", |a, b| (b.read - a.read) / 1e3),
        ("data_write_kb_s", |a, b| (b.written - a.written) / 1e3),
        ("wal_write_kb_s", |a, b| (b.wal - a.wal) / 1e3),
        ("nopm", |a, b| 60.0 * (b.new_orders - a.new_orders)),
    ];
    let together = intervals.len().div_ceil(points).max(1);
    let curve = |of: Of| {
        let mut at = 0.0;
        let point = |some: &[Interval]| {
            let seconds = sum(some, |a, b| b.at - a.at);
            at += seconds;
            (at, sum(some, of) / seconds)
        };
        intervals.chunks(together).map(point).collect()
    };
    all.map(|(name, of)| (name.to_owned(), curve(of))).into()
}

/// New orders per minute of the intervals.
pub fn new_orders_per_minute(intervals: &[Interval]) -> f64 {
    60.0 * sum(intervals, |a, b| b.new_orders - a.new_orders) / sum(intervals, |a, b| b.at - a.at)
}

fn sum(intervals: &[Interval], of: impl Fn(&Reading, &Reading) -> f64) -> f64 {
    intervals.iter().map(|one| of(&one.from, &one.to)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_rates_between_readings() {
        let reading = |at, factor| Reading {
            at,
            new_orders: 100.0 * factor,
            wal: 4e6 * factor,
            read: 2e6 * factor,
            written: 6e6 * factor,
            cpu_s: 3.0 * factor,
            memory: 5e7,
        };
        let readings = [
            reading(1000.0, 1.0),
            reading(1002.0, 2.0),
            reading(1003.0, 2.5),
        ];
        let before: Vec<_> = intervals(&readings).collect();
        let later = [reading(1050.0, 9.0), reading(1051.0, 9.5)];
        let all: Vec<_> = intervals(&readings).chain(intervals(&later)).collect();
        let curves_of = curves;
        let curves = curves_of(&all, 60);
        let is = |name: &str, value: f64| {
            let points = [2.0, 3.0, 4.0].map(|at| (at, value));
            assert_eq!(curves[name], points, "{name}");
        };
        is("cpu_percent", 150.0);
        is("memory_mb", 50.0);
        is("data_read_kb_s", 1000.0);
        is("data_write_kb_s", 3000.0);
        is("wal_write_kb_s", 2000.0);
        is("nopm", 3000.0);
        assert_eq!(curves.len(), 6);
        assert_eq!(curves_of(&all, 2)["nopm"], [(3.0, 3000.0), (4.0, 3000.0)]);
        assert!((new_orders_per_minute(&before) - 3000.0).abs() < 1e-9);
    }

    #[test]
    fn memory_is_read_from_a_process() {
        let status = "Name:\tpostgres\nVmRSS:\t  300 kB\nRssAnon:\t   100 kB\nRssFile:\t 50 kB\nRssShmem:\t  150 kB\n";
        assert_eq!(resident(status), (102_400.0, 153_600.0));
        assert_eq!(resident("Name:\tkthreadd\n"), (0.0, 0.0));
    }
}
