//! go-tpc, the TPC-C driver: how it is called, and what it prints.
//!
//! It is github.com/pingcap/go-tpc 1.0.12 (Apache 2.0), built by scripts/fetch-go-tpc.sh: prepared
//! statements in plain SQL, no thinking times, and the standard's consistency conditions as a
//! command. Its exit status is 0 whatever happens, so that everything is read from what it prints.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::BenchError;
use crate::host::cluster::Server;
use crate::host::Host;

const VERSION: &str = "1.0.12";
/// As reports name it.
pub const NAME: &str = "go-tpc 1.0.12";
/// Conditions of the standard that each warehouse is checked for.
const CONDITIONS: usize = 11;
/// Another one, which holds only as long as nothing has run.
const CONDITIONS_OF_LOAD: usize = 12;

/// Where it is.
#[derive(Debug, Clone)]
pub struct Driver(PathBuf);

/// The work of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The transactions of all five kinds.
    pub transactions: u64,
    /// Transactions that PostgreSQL ended because they waited for each other.
    pub deadlocks: u64,
}

impl Driver {
    /// The program that was given, or the one that scripts/fetch-go-tpc.sh built.
    pub fn find(given: Option<&Path>) -> Result<Self, BenchError> {
        let candidates = given.map_or_else(built, |path| vec![path.to_owned()]);
        let found = candidates.into_iter().find(|path| path.is_file());
        found.map(Self).ok_or_else(|| BenchError::Usage(format!(
            "go-tpc {VERSION} is missing: build it with scripts/fetch-go-tpc.sh, or with go install \
             github.com/pingcap/go-tpc/cmd/go-tpc@v{VERSION}, and name it with --driver"
        )))
    }

    /// One of its commands, on a server that runs; lib/pq takes PGHOST if it is told no host.
    pub fn command(
        &self,
        verb: &str,
        warehouses: u32,
        threads: u32,
        server: &Server<'_>,
        host: &Host,
    ) -> Command {
        let mut command = host.command(&self.0);
        command.args(["tpcc", verb, "--driver", "postgres", "--db", "postgres"]);
        command.args(["--user", "postgres", "--host", "\"\""]);
        command.args(["--port", &server.port()]);
        command.arg(format!("--warehouses={warehouses}"));
        command.arg(format!("--threads={threads}"));
        command
    }
}

/// Where scripts/fetch-go-tpc.sh leaves it, for this user or for all.
fn built() -> Vec<PathBuf> {
    let own = env::var_os("PGSEAL_CACHE").map(PathBuf::from);
    let home = env::var_os("HOME").map(|home| Path::new(&home).join(".cache/pgseal"));
    let caches = [own, home, Some("/var/cache/pgseal".into())];
    let program = |cache: PathBuf| cache.join(format!("go-tpc/{VERSION}/go-tpc"));
    caches.into_iter().flatten().map(program).collect()
}

/// Reads what `run` printed. A transaction may fail as a deadlock only.
pub fn outcome(output: &str) -> Result<Outcome, String> {
    let mut outcome = Outcome {
        transactions: 0,
        deadlocks: 0,
    };
    for line in output.lines() {
        if line.contains("execute run failed, err ") || line.starts_with("panic: ") {
            if !line.contains("deadlock detected") {
                return Err(line.to_owned());
            }
            outcome.deadlocks += 1;
        } else if let Some(done) = line.strip_prefix("[Summary] ").and_then(count) {
            outcome.transactions += done;
        }
    }
    match outcome.transactions {
        0 => Err("it counted no transaction".to_owned()),
        _ => Ok(outcome),
    }
}

/// `NEW_ORDER - Takes(s): 9.9, Count: 2408, …`; failed ones are counted as `NEW_ORDER_ERR`.
fn count(summary: &str) -> Option<u64> {
    let (kind, figures) = summary.split_once(" - ")?;
    let (_, count) = figures.split_once("Count: ")?;
    let done = !kind.trim_end().ends_with("_ERR");
    count.split(',').next()?.parse().ok().filter(|_| done)
}

/// Reads what `check` printed after a run: all conditions of all warehouses must have been met.
pub fn consistent(output: &str, warehouses: u32) -> Result<(), String> {
    all_checked(output, warehouses, CONDITIONS)
}

/// Reads the output of `check --check-all` after the load in the same way.
pub fn loaded(output: &str, warehouses: u32) -> Result<(), String> {
    all_checked(output, warehouses, CONDITIONS_OF_LOAD)
}

fn all_checked(output: &str, warehouses: u32, conditions: usize) -> Result<(), String> {
    let failed =
        |line: &&str| line.starts_with("execute check failed") || line.starts_with("panic: ");
    if let Some(line) = output.lines().find(failed) {
        return Err(line.to_owned());
    }
    let begun = |line: &&str| line.starts_with("begin to check warehouse ");
    let checked = output.lines().filter(begun).count();
    match warehouses as usize * conditions {
        expected if checked == expected => Ok(()),
        expected => Err(format!("{checked} of {expected} conditions were checked")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str =
        "[Current] NEW_ORDER - Takes(s): 2.9, Count: 668, TPM: 13900.0, Sum(ms): 5638.9
Finished
[Summary] DELIVERY - Takes(s): 9.9, Count: 212, TPM: 1285.4, Sum(ms): 2624.1
[Summary] NEW_ORDER - Takes(s): 9.9, Count: 2408, TPM: 14560.6, Sum(ms): 18028.4, Avg(ms): 7.5
[Summary] NEW_ORDER_ERR - Takes(s): 5.0, Count: 1, TPM: 12.0, Sum(ms): 1000.0
tpmC: 14560.5, tpmTotal: 32524.3, efficiency: 113223.2%
";
    const DEADLOCK: &str =
        "[2026-11-21 21:22:18] execute run failed, err exec failed: pq: deadlock detected\n";

    #[test]
    fn transactions_and_deadlocks_are_counted() {
        let of = |transactions, deadlocks| Outcome {
            transactions,
            deadlocks,
        };
        assert_eq!(outcome(RUN), Ok(of(2620, 0)));
        assert_eq!(outcome(&format!("{DEADLOCK}{RUN}")), Ok(of(2620, 1)));
    }

    #[test]
    fn any_other_failure_makes_a_run_none() {
        let lost = "[2026-11-21 21:22:18] execute run failed, err EOF";
        assert_eq!(outcome(&format!("{RUN}{lost}\n")), Err(lost.to_owned()));
        let panic = "panic: failed to connect to database when loading data";
        assert_eq!(
            outcome(&format!("{panic}\n\ngoroutine 1")),
            Err(panic.to_owned())
        );
        assert_eq!(
            outcome("Finished\n"),
            Err("it counted no transaction".to_owned())
        );
    }

    #[test]
    fn every_condition_of_every_warehouse_is_checked() {
        let line = "begin to check warehouse 1 at condition 3.3.2.7\n";
        let all = format!("{}Finished\n", line.repeat(2 * CONDITIONS));
        assert_eq!(consistent(&all, 2), Ok(()));
        let few = "22 of 33 conditions were checked".to_owned();
        assert_eq!(consistent(&all, 3), Err(few));
        assert_eq!(loaded(&line.repeat(12), 1), Ok(()));
        let failed = "execute check failed, err check warehouse 1 at condition 3.3.2.8 failed";
        let failed = format!("{failed} sum(h_amount) - w_ytd should be 0");
        assert_eq!(consistent(&format!("{all}{failed}\n"), 2), Err(failed));
    }
}
