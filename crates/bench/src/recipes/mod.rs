//! What a recipe is, and all of them, one file each.
//!
//! A recipe says what it measures ([`Recipe::cases`]), what that takes, and makes sets of what its
//! samples run on. The driver (`run.rs`) decides the order, keeps the rounds, and ends what runs. A
//! new recipe is a file here and a line in [`Command`](crate::cli::Command).

pub mod checksums;
pub mod cipher;
mod pgbench;
pub mod readonly;
pub mod tpcb;
pub mod tprocc;
pub mod upgrade;
pub mod worst;

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::BenchError;
use crate::host::contender::Contender;
use crate::host::requirements::Needs;
use crate::host::Host;
use crate::model::{Case, Sample};
use crate::schedule::Defaults;

/// A published table, measured again.
pub trait Recipe {
    /// `readonly`, `tpcb` …: the subcommand, and the report's name.
    fn name(&self) -> &'static str;

    /// How many rounds, on how many sets of clusters, if the command line does not say it.
    fn defaults(&self) -> Defaults;

    /// What was asked for, for the report's reader.
    fn parameters(&self) -> BTreeMap<String, serde_json::Value>;

    /// The cases in the order of tables, without rounds.
    fn cases(&self) -> Vec<Case>;

    /// What one set of clusters for these takes at its largest.
    fn needs(&self, contenders: &[Contender]) -> Needs;

    /// Makes what samples run on, below `home`, an empty directory that goes when the set is
    /// dropped.
    fn make_set(&mut self, home: &Path, host: &Host) -> Result<Box<dyn Set>, BenchError>;
}

/// What the samples of some rounds run on: for each contender the same, but for what stores it.
pub trait Set {
    /// One run of one contender, which leaves the set fit for the next. `case` is its place in
    /// [`Recipe::cases`]; all contenders of a round get the same `seed`.
    fn sample(
        &mut self,
        case: usize,
        contender: &Contender,
        seed: u64,
        host: &Host,
    ) -> Result<Sample, BenchError>;

    /// One run of each of them, in this order, or in parts of runs by turns.
    fn turn(
        &mut self,
        case: usize,
        contenders: &[&Contender],
        seed: u64,
        host: &Host,
    ) -> Result<BTreeMap<String, Sample>, BenchError> {
        let mut samples = BTreeMap::new();
        for contender in contenders {
            let sample = self.sample(case, contender, seed, host)?;
            samples.insert(contender.name().to_owned(), sample);
            host.bar.inc(1);
            if host.stop.is_set() {
                return Err(BenchError::Interrupted);
            }
        }
        Ok(samples)
    }
}
