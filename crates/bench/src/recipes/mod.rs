//! The definition of a recipe, and all recipes, one file each.
//!
//! A recipe says what it measures ([`Recipe::cases`]), what that takes, and makes sets of what its
//! samples run on. The driver (`run.rs`) decides the order, keeps the rounds, and ends what runs. A
//! new recipe is a file here and a line in [`Command`](crate::cli::Command).

pub mod checksums;
pub mod cipher;
mod companions;
pub mod confidential;
mod pgbench;
pub mod readonly;
pub mod tpcb;
pub mod tpch;
pub mod tprocc;
pub mod upgrade;
pub mod worst;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;

use crate::error::BenchError;
use crate::host::contender::{self, Contender};
use crate::host::load::Load;
use crate::host::requirements::Needs;
use crate::host::Host;
use crate::model::{Case, Sample};
use crate::options::RunOptions;
use crate::schedule::{self, Defaults};

/// A published table, measured again.
pub trait Recipe {
    /// `readonly`, `tpcb` …: the subcommand, and the report's name.
    fn name(&self) -> &'static str;

    /// How many rounds, on how many sets of clusters, if the command line does not say it.
    fn defaults(&self) -> Defaults;

    /// Returns what is compared: stock, the loaded one, the sealed ones and peers, unless the
    /// recipe compares something else.
    fn contenders(
        &self,
        options: &RunOptions,
        wrappers: &Path,
    ) -> Result<Vec<Contender>, BenchError> {
        contender::all(options, self.defaults().key_lengths, wrappers)
    }

    /// Returns the parameters that were asked for, for the report's reader.
    fn parameters(&self) -> BTreeMap<String, serde_json::Value>;

    /// The cases in the order of tables, without rounds.
    fn cases(&self) -> Vec<Case>;

    /// Returns the most that one set of clusters for these contenders takes.
    fn needs(&self, contenders: &[Contender]) -> Needs;

    /// Makes what samples run on, below `home`, an empty directory that goes when the set is
    /// dropped.
    fn make_set(&mut self, home: &Path, host: &Host) -> Result<Box<dyn Set>, BenchError>;
}

/// The data that the samples of some rounds run on. All contenders have the same, stored their own
/// way.
pub trait Set {
    /// One run of each contender, which leaves the set fit for the next.
    fn run(&mut self, runs: &Runs<'_>) -> Result<Samples, BenchError>;
}

/// Samples, by contenders' names.
pub type Samples = BTreeMap<String, Sample>;

/// A case of a round: one run of each contender.
pub struct Runs<'a> {
    /// Its place in [`Recipe::cases`].
    pub case: usize,
    /// All of them, in random order.
    pub contenders: &'a [&'a Contender],
    /// The seed of the loads' own randomness, which is the same for all contenders.
    pub seed: u64,
    /// Where they run.
    pub host: &'a Host,
}

impl Runs<'_> {
    /// Whole runs, one after the other.
    pub fn one_by_one(
        &self,
        mut sample: impl FnMut(&Contender) -> Result<Sample, BenchError>,
    ) -> Result<Samples, BenchError> {
        let mut samples = Samples::new();
        for contender in self.contenders {
            samples.insert(contender.name().to_owned(), sample(contender)?);
            self.host.bar.inc(1);
            self.go_on()?;
        }
        Ok(samples)
    }

    /// Alternates between the loads, each time in another random order, until each of them has
    /// ended or has run so long.
    pub fn by_turns(
        &self,
        loads: &mut [Load<'_, '_>],
        time: Option<Duration>,
    ) -> Result<(), BenchError> {
        let mut random = Rng::with_seed(self.seed);
        while !loads.iter().all(|load| load.is_through(time)) {
            for at in schedule::order(&mut random, loads.len()) {
                if !loads[at].is_through(time) {
                    loads[at].turn()?;
                    self.host.bar.tick();
                    self.go_on()?;
                }
            }
        }
        Ok(())
    }

    /// Names the samples of runs that alternate between the contenders.
    pub fn samples(&self, each: impl Iterator<Item = Sample>) -> Samples {
        self.host.bar.inc(self.contenders.len() as u64);
        let names = self.contenders.iter().map(|one| one.name().to_owned());
        names.zip(each).collect()
    }

    fn go_on(&self) -> Result<(), BenchError> {
        match self.host.stop.is_set() {
            true => Err(BenchError::Interrupted),
            false => Ok(()),
        }
    }
}
