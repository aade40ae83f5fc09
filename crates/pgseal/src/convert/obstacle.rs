//! The obstacles to a conversion: in what `pg_control` says, in how a cluster's files lie, in one
//! file. All of them are found before anything is written. How the files lie is looked at again
//! before every run: a mount or a link may have changed meanwhile.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{eaccess, getegid, geteuid, getgroups, AccessFlags};
use pgseal_check::pages::randomness::{look_between_holes, Look, BLOCK};
use pgseal_check::scan::walk::{is_place, Found, Inode, Odd, Walk};
use pgseal_check::verify::printable;
use pgseal_convert::files::directory_of;
use pgseal_convert::plan::{action, is_copy, Action, Geometry};
use pgseal_convert::Kind;
use pgseal_crypto::UNIT;
use pgseal_keys::postgres::check_cluster;
use pgseal_keys::raw::Raw;
use pgseal_storage::classify::{classify, is_inside};
use pgseal_storage::control::{Control, ControlError, State};
use pgseal_storage::disk::read_full;
use pgseal_storage::version::Unsupported;
use pgseal_storage::wal::{WalName, NAME_LEN};

use super::key_directory::Keys;
use super::survey::{look, SurveyError};

/// Something that must change before the cluster can be converted.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    #[error("the server was not shut down cleanly: start it, stop it, and try again")]
    NotShutDown,
    #[error(transparent)]
    Version(Unsupported),
    #[error(transparent)]
    Blocks(ControlError),
    #[error("the cluster has neither data checksums nor wal_log_hints, and a sealed server would not start: run pg_checksums --enable")]
    NoChecksums,
    #[error("{0} has another hard link, which would keep its present bytes (after pg_upgrade --link: remove the old cluster)")]
    HardLink(String),
    #[error("{0} is not a file, or is a link where PostgreSQL makes none: replace it by the file")]
    Odd(String),
    #[error("{0} is a dangling link: mount its target, or remove the link")]
    Dangling(String),
    #[error("{0} does not contain this cluster's files: mount the right file system")]
    Unmounted(String),
    #[error("{0} and {1} are the same file: remove one of the names")]
    Same(String, String),
    #[error(
        "{0} cannot be read by this user: give it the server's owner and mode, or move it away"
    )]
    Unreadable(String),
    #[error("files in {0} cannot be replaced by this user: give the directory the server's owner and mode, or move it away")]
    Unwritable(String),
    #[error("{0} has a group that this user is not in, and could not keep it: change the group")]
    Group(String),
    #[error("{0} is not a file of PostgreSQL: move it out of the data directory")]
    Foreign(String),
    #[error(
        "{0} is not encrypted, so no sealed server wrote it: move it out of the data directory"
    )]
    Clear(String),
    #[error("{} was not made by a conversion: move it away", .0.display())]
    KeyDirectory(PathBuf),
    #[error("{0} has a name that conversions use: move it away")]
    Name(String),
    #[error("{0} cannot be converted: {1}")]
    Refused(String, &'static str),
    #[error(
        "{0} has {2} bytes free, and {1} are needed for copies: make room, or use fewer --jobs"
    )]
    Space(PathBuf, u64, u64),
}

/// Returns the obstacles in the cluster's version and its `pg_control`.
pub fn state(kind: Kind, data: &Path, control: &Control) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    if !matches!(control.state, State::ShutDown | State::ShutDownInRecovery) {
        obstacles.push(Obstacle::NotShutDown);
    }
    if kind == Kind::Seal && !control.data_checksums && !control.wal_log_hints {
        obstacles.push(Obstacle::NoChecksums);
    }
    // The way back is open.
    if kind != Kind::Unseal {
        obstacles.extend(check_cluster(data).err().map(Obstacle::Version));
        obstacles.extend(control.check_blocks().err().map(Obstacle::Blocks));
    }
    obstacles
}

/// Whether the cluster is all there, each file once, and can be converted by this user.
pub fn layout(
    data: &Path,
    found: &Walk,
    geometry: &Geometry,
) -> Result<Vec<Obstacle>, SurveyError> {
    let mut obstacles = unusual(found, geometry);
    let missing = found.unmounted(geometry.catalog_version).map(printable);
    let missing = missing.chain(empty(found).map(str::to_owned));
    obstacles.extend(missing.map(Obstacle::Unmounted));
    obstacles.extend(found.twice.iter().map(|(a, b)| same(a, b)));
    let strange = Keys::of(data).strange();
    obstacles.extend(strange.into_iter().map(Obstacle::KeyDirectory));
    obstacles.extend(files(data, found, geometry)?);
    Ok(obstacles)
}

/// An entry that is neither a file nor a directory matters where a file would be stored.
fn unusual(found: &Walk, geometry: &Geometry) -> Vec<Obstacle> {
    let sealed_below = |odd: &Odd| is_inside(&[&odd.name[..], b"/"].concat());
    let matters = |odd: &&Odd| action(&odd.name, geometry) != Action::Leave || sealed_below(odd);
    let odd = found.others.iter().filter(matters);
    let odd = odd.map(|odd| Obstacle::Odd(printable(&odd.name)));
    let dangling = found.dangling.iter();
    odd.chain(dangling.map(|odd| Obstacle::Dangling(printable(&odd.name))))
        .collect()
}

/// Places that are never without files of the cluster: what should be there is somewhere else.
fn empty(found: &Walk) -> impl Iterator<Item = &'static str> + '_ {
    let holds = |place: &str, file: &Found| {
        let below = file.name.strip_prefix(place.as_bytes());
        let below = below.and_then(|below| below.strip_prefix(b"/"));
        below.is_some_and(|below| place != "pg_wal" || is_wal(below))
    };
    let places = ["base", "global", "pg_multixact", "pg_wal", "pg_xact"].into_iter();
    places.filter(move |place| !found.files.iter().any(|file| holds(place, file)))
}

/// Is this the name of a segment, or of a copy of one?
fn is_wal(file: &[u8]) -> bool {
    file.get(..NAME_LEN).and_then(WalName::parse).is_some()
}

fn files(data: &Path, found: &Walk, geometry: &Geometry) -> Result<Vec<Obstacle>, SurveyError> {
    let user = User::new();
    let mut obstacles = Vec::new();
    let mut names: BTreeMap<Inode, &Found> = BTreeMap::new();
    let mut directories: BTreeMap<&[u8], Metadata> = BTreeMap::new();
    for file in &found.files {
        let what = match is_copy(&file.name, geometry) {
            true => Action::Delete,
            false => action(&file.name, geometry),
        };
        if what == Action::Leave || Keys::has_place(&file.name) {
            continue;
        }
        if let Some(before) = names.insert(file.inode, file) {
            obstacles.push(same(&before.name, &file.name));
        }
        let parent = file.path.parent().unwrap_or(data);
        let name = directory_of(&file.name);
        if !directories.contains_key(name) {
            directories.insert(name, look(parent)?);
            if eaccess(parent, AccessFlags::W_OK | AccessFlags::X_OK).is_err() {
                obstacles.push(Obstacle::Unwritable(printable(name)));
            }
        }
        obstacles.extend(match what {
            Action::Refuse(why) => Some(Obstacle::Refused(printable(&file.name), why)),
            Action::Store(..) => user.hinders(file, &directories[name])?,
            _ => None,
        });
    }
    Ok(obstacles)
}

/// It would be stored twice, and nobody could read it.
fn same(name: &[u8], other: &[u8]) -> Obstacle {
    Obstacle::Same(printable(name), printable(other))
}

/// The user who runs the conversion.
struct User {
    is_root: bool,
    groups: Vec<u32>,
}

impl User {
    fn new() -> Self {
        let groups = getgroups().unwrap_or_default();
        let own = groups.into_iter().chain([getegid()]);
        Self {
            is_root: geteuid().is_root(),
            groups: own.map(|group| group.as_raw()).collect(),
        }
    }

    /// Why this user cannot put a copy in the place of a file.
    fn hinders(&self, file: &Found, directory: &Metadata) -> Result<Option<Obstacle>, SurveyError> {
        const SET_GROUP: u32 = 0o2000;
        let name = || printable(&file.name);
        if eaccess(&file.path, AccessFlags::R_OK).is_err() {
            return Ok(Some(Obstacle::Unreadable(name())));
        }
        let metadata = look(&file.path)?;
        if metadata.nlink() > 1 {
            return Ok(Some(Obstacle::HardLink(name())));
        }
        let group = metadata.gid();
        let inherits = directory.mode() & SET_GROUP != 0 && directory.gid() == group;
        let keeps = self.is_root || inherits || self.groups.contains(&group);
        Ok((!keeps).then(|| Obstacle::Group(name())))
    }
}

/// Before a conversion begins no file may have the name of a copy.
pub fn names(found: &Walk, geometry: &Geometry) -> Vec<Obstacle> {
    let copies = found.files.iter();
    let copies = copies.filter(|file| is_copy(&file.name, geometry));
    let named = copies.map(|file| Obstacle::Name(printable(&file.name)));
    named.collect()
}

/// Files that PostgreSQL did not write, by their place or their content. `seal` would make them
/// unreadable for the one that did, and the others would garble them.
pub fn foreign(
    found: &Walk,
    geometry: &Geometry,
    kind: Kind,
) -> Result<Vec<Obstacle>, SurveyError> {
    let mut obstacles = Vec::new();
    for file in &found.files {
        let stored = matches!(action(&file.name, geometry), Action::Store(..));
        let top = file.name.split(|&byte| byte == b'/').next();
        let top = top.unwrap_or_default();
        let known = classify(&file.name).row.is_some();
        if !stored || known || is_copy(&file.name, geometry) || Keys::has_place(&file.name) {
            continue;
        }
        if kind == Kind::Seal && !is_place(top) {
            obstacles.push(Obstacle::Foreign(printable(&file.name)));
        } else if kind != Kind::Seal && looks_clear(file)? {
            obstacles.push(Obstacle::Clear(printable(&file.name)));
        }
    }
    Ok(obstacles)
}

/// Returns whether a file looks clear, judged by its first page; a few bytes do not tell.
fn looks_clear(file: &Found) -> Result<bool, SurveyError> {
    let failed = |error| SurveyError::Look(file.path.clone(), error);
    let open = match File::open(&file.path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(false),
        open => open.map_err(failed)?,
    };
    let mut page = [0; UNIT];
    let read = read_full(&Raw(open), &mut page, 0);
    let have = read.map_err(|errno| failed(io::Error::from_raw_os_error(errno.0)))?;
    Ok(look_between_holes(&page[..have], BLOCK) == Some(Look::Clear))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgseal_check::scan::walk::walk;

    #[test]
    fn a_group_that_cannot_be_given_is_an_obstacle() {
        let tmp = tempfile::tempdir().expect("a directory");
        std::fs::write(tmp.path().join("1259"), b"x").expect("a file");
        let found = walk(tmp.path()).expect("it can be read");
        let directory = look(tmp.path()).expect("it is there");
        let group = look(&found.files[0].path).expect("it is there").gid();
        let hindered = |groups: Vec<u32>, is_root| {
            let user = User { is_root, groups };
            let obstacle = user.hinders(&found.files[0], &directory);
            obstacle.expect("it can be looked at").is_some()
        };
        assert!(hindered(vec![group + 1], false));
        assert!(!hindered(vec![group + 1, group], false));
        assert!(!hindered(Vec::new(), true));
    }
}
