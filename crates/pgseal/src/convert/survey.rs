//! A look at a cluster before it is converted: what would be done, what blocks it, and what
//! it takes. Changes nothing. Before every run there is one, of what a killed run left too.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pgseal_check::report::lossy;
use pgseal_check::scan::walk::{walk, Walk, WalkError};
use pgseal_check::unlisted::unlisted;
use pgseal_convert::plan::{batches, Geometry, Plan};
use pgseal_convert::{Journal, Kind, Phase};
use pgseal_storage::control::Control;
use serde::Serialize;

use super::obstacle::{self, Obstacle};
use crate::free_space::free_space;

/// Space on one file system.
#[derive(Debug, Serialize)]
pub struct Space {
    /// A directory on it.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Bytes that copies take at once.
    pub needed: u64,
    /// Bytes that are free.
    pub available: u64,
}

/// The result of a survey.
#[derive(Default)]
pub struct Survey {
    pub plan: Plan,
    pub space: Vec<Space>,
    pub obstacles: Vec<Obstacle>,
    /// Names at the top that are none of PostgreSQL's, and stay as they are.
    pub unlisted: BTreeSet<String>,
}

impl Survey {
    /// Looks at the cluster at `data`, whose files have not been touched; a conversion that has
    /// `begun` may have left copies.
    pub fn new(
        data: &Path,
        (kind, begun): (Kind, bool),
        control: &Control,
        jobs: NonZeroUsize,
    ) -> Result<Self, SurveyError> {
        let geometry = Geometry::from(control);
        let found = walk(data)?;
        let mut obstacles = obstacle::state(kind, data, control);
        obstacles.extend(obstacle::layout(data, &found, &geometry)?);
        obstacles.extend(obstacle::foreign(&found, &geometry, kind)?);
        if !begun {
            obstacles.extend(obstacle::names(&found, &geometry));
        }
        let plan = plan(&found, &geometry);
        let space = space(data, &plan, jobs)?;
        let short = space.iter().filter(|space| space.needed > space.available);
        obstacles.extend(
            short.map(|space| Obstacle::Space(space.path.clone(), space.needed, space.available)),
        );
        let unlisted = unlisted(data).map_err(|error| SurveyError::Look(data.to_owned(), error))?;
        Ok(Self {
            plan,
            space,
            obstacles,
            unlisted,
        })
    }

    /// Looks at what is left of a conversion: mounts, links and modes may be others than when it
    /// began.
    pub fn of_rest(data: &Path, journal: &Journal) -> Result<Self, SurveyError> {
        let geometry = Geometry::from(journal);
        let found = walk(data)?;
        let obstacles = obstacle::layout(data, &found, &geometry)?;
        let plan = match journal.phase {
            Phase::Storing => plan(&found, &geometry),
            // What is stored has its names to get, and no more.
            Phase::Placing => Plan::default(),
        };
        Ok(Self {
            plan,
            space: Vec::new(),
            obstacles,
            unlisted: BTreeSet::new(),
        })
    }
}

/// The files of a cluster, sorted out.
pub fn plan(found: &Walk, geometry: &Geometry) -> Plan {
    let files = found.files.iter();
    let named: Vec<(&[u8], u64)> = files.map(|file| (&file.name[..], file.len)).collect();
    Plan::new(&named, &found.directories, geometry)
}

/// A file or file system cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    #[error(transparent)]
    Walk(#[from] WalkError),
    #[error("{} cannot be looked at ({}): check its owner and mode", .0.display(), .1)]
    Look(PathBuf, io::Error),
}

/// As many of the largest batches of each file system as there are threads.
fn space(data: &Path, plan: &Plan, jobs: NonZeroUsize) -> Result<Vec<Space>, SurveyError> {
    let mut systems: BTreeMap<u64, (PathBuf, Vec<u64>)> = BTreeMap::new();
    for batch in batches(plan.store.clone()) {
        let path = data.join(OsStr::from_bytes(&batch[0].name));
        let directory = path.parent().unwrap_or(data).to_owned();
        let device = look(&directory)?.dev();
        let bytes = batch.iter().map(|task| task.len).sum();
        let system = systems.entry(device);
        system.or_insert((directory, Vec::new())).1.push(bytes);
    }
    let space = |(path, mut bytes): (PathBuf, Vec<u64>)| {
        bytes.sort_unstable_by(|a, b| b.cmp(a));
        let needed = bytes.iter().take(jobs.get()).sum();
        let available =
            free_space(&path).map_err(|error| SurveyError::Look(path.clone(), error))?;
        Ok(Space {
            path,
            needed,
            available,
        })
    };
    systems.into_values().map(space).collect()
}

pub fn look(path: &Path) -> Result<fs::Metadata, SurveyError> {
    fs::metadata(path).map_err(|error| SurveyError::Look(path.to_owned(), error))
}
