//! A look at a cluster before it is converted: what would be done, what stands in the way, and what
//! it takes. Changes nothing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use pgseal_convert::plan::{action, batches, is_copy, Action, Geometry, Plan};
use pgseal_convert::Kind;
use pgseal_storage::control::{Control, State};
use serde::Serialize;

use crate::output;
use crate::scan::walk::{walk, Found, Odd, Walk, WalkError};
use crate::verify::printable;

/// Something that must change before the cluster can be converted.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    #[error("the server was not shut down in order: start it, stop it, and try again")]
    NotShutDown,
    #[error("the cluster has neither data checksums nor wal_log_hints, and a sealed server would not start: run pg_checksums --enable")]
    NoChecksums,
    #[error("{0} has another hard link, which would keep its present bytes (after pg_upgrade --link: remove the old cluster)")]
    HardLink(String),
    #[error(
        "{0} is no file, or a link where PostgreSQL makes none: put the file itself in its place"
    )]
    Odd(String),
    #[error("{0} leads nowhere: mount what it links to, or remove the link")]
    Dangling(String),
    #[error("{0} has a name that conversions use: move it away")]
    Name(String),
    #[error("{0} cannot be converted: {1}")]
    Refused(String, &'static str),
    #[error(
        "{0} has {2} bytes free, and {1} are needed for copies: make room, or use fewer --jobs"
    )]
    Space(PathBuf, u64, u64),
}

/// Space on one file system.
#[derive(Debug, Serialize)]
pub struct Space {
    /// A directory on it.
    #[serde(serialize_with = "output::lossy")]
    pub path: PathBuf,
    /// Bytes that copies take at once.
    pub needed: u64,
    /// Bytes that are free.
    pub available: u64,
}

/// What was seen.
pub struct Survey {
    pub plan: Plan,
    pub space: Vec<Space>,
    pub obstacles: Vec<Obstacle>,
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
        let plan = plan(&found, &geometry);
        let mut obstacles = state(kind, control);
        obstacles.extend(unusual(&found, &geometry));
        let own = |file: &&Found| begun && is_copy(&file.name);
        for file in found.files.iter().filter(|file| !own(file)) {
            obstacles.extend(of_file(file, &geometry)?);
        }
        let space = space(data, &plan, jobs)?;
        let short = space.iter().filter(|space| space.needed > space.available);
        obstacles.extend(
            short.map(|space| Obstacle::Space(space.path.clone(), space.needed, space.available)),
        );
        Ok(Self {
            plan,
            space,
            obstacles,
        })
    }

    /// What is left of a conversion: it was looked at before it began.
    pub fn of_rest(plan: Plan) -> Self {
        Self {
            plan,
            space: Vec::new(),
            obstacles: Vec::new(),
        }
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

/// What `pg_control` says against it.
pub fn state(kind: Kind, control: &Control) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    if !matches!(control.state, State::ShutDown | State::ShutDownInRecovery) {
        obstacles.push(Obstacle::NotShutDown);
    }
    if kind == Kind::Seal && !control.data_checksums && !control.wal_log_hints {
        obstacles.push(Obstacle::NoChecksums);
    }
    obstacles
}

/// What is neither a file nor a directory matters where a file would be stored.
fn unusual(found: &Walk, geometry: &Geometry) -> Vec<Obstacle> {
    let matters = |odd: &&Odd| action(&odd.name, 0, geometry) != Action::Leave;
    let odd = found.others.iter().filter(matters);
    let odd = odd.map(|odd| Obstacle::Odd(printable(&odd.name)));
    let dangling = found.dangling.iter();
    odd.chain(dangling.map(|odd| Obstacle::Dangling(printable(&odd.name))))
        .collect()
}

fn of_file(file: &Found, geometry: &Geometry) -> Result<Option<Obstacle>, SurveyError> {
    let name = || printable(&file.name);
    if is_copy(&file.name) {
        return Ok(Some(Obstacle::Name(name())));
    }
    Ok(match action(&file.name, file.len, geometry) {
        Action::Store(..) if look(&file.path)?.nlink() > 1 => Some(Obstacle::HardLink(name())),
        Action::Refuse(why) => Some(Obstacle::Refused(name(), why)),
        _ => None,
    })
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
        let available = available(&path)?;
        Ok(Space {
            path,
            needed,
            available,
        })
    };
    systems.into_values().map(space).collect()
}

fn available(path: &Path) -> Result<u64, SurveyError> {
    let system = statvfs(path).map_err(|errno| SurveyError::Look(path.to_owned(), errno.into()))?;
    Ok(system.blocks_available() * system.fragment_size())
}

fn look(path: &Path) -> Result<fs::Metadata, SurveyError> {
    fs::metadata(path).map_err(|error| SurveyError::Look(path.to_owned(), error))
}
