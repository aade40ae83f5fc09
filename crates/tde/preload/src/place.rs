//! Where a path leads: the sealed cluster it is in, if any, and its class there.
//!
//! The cluster is the nearest ancestor with a `pg_encryption/` directory, found on the path joined
//! with the working directory and normalised; a relocated `pg_wal` and tablespaces also count by
//! their own location, through the links of the clusters that are known. Look-up is by path, not by
//! a remembered working directory, because tools take relative names from anywhere.
//!
//! That nothing is sealed is never remembered: initdb, restores and renames seal directories while
//! a process lives, and a stale answer would be plaintext. Where nothing is sealed the look-up is
//! cheap because it asks for no more than can matter:
//!
//! 1. An ancestor is asked for `pg_encryption/` only if the rest of the path could be anything but
//!    clear below it ([`is_inside`]): `…/data` for `…/data/base/5/16384`, none for `/etc/passwd`.
//!    Only when one of these has it, is the nearest looked for.
//! 2. Links are followed name by name only if there is one. The kernel says so in one call
//!    ([`direct`]): `open` opens by it, and all others ask it for the path ([`Absolute::real`]).

pub mod direct;
mod path;

use crate::clusters::{self, Cluster};
use crate::process::{Connection, PROCESS};
use crate::{control, programs, server, unlock, wal};
use libc::c_int;
use path::{identity, Absolute};
use pgseal_contract::file;
use pgseal_storage::classify::{classify, is_inside, version_directory, Class, Classified};
use pgseal_storage::wal::WalName;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The kind of file that a path leads to.
#[allow(clippy::large_enum_variant)] // made on the stack once a call: no heap in the preload
pub enum Place {
    /// Not protected: libc's business.
    Clear,
    /// Must not be touched; the errno to answer with.
    Denied(c_int),
    /// Protected.
    Sealed(&'static Cluster, Class),
}

/// Finds out where a path leads.
pub fn of(path: &CStr) -> Place {
    at(libc::AT_FDCWD, path)
}

/// Finds out where a name below a directory descriptor leads.
///
/// It is not inlined, like every function that holds a path. Each path is a page of the stack. A
/// function touches all of its pages, whichever it needs, and a new process pays for each.
#[inline(never)]
pub fn at(directory: c_int, path: &CStr) -> Place {
    // Judged where it was made: many calls come here.
    let mut absolute = Absolute::empty();
    match spell(&mut absolute, directory, path) {
        Some(()) => judge(&absolute),
        None => unspelled(directory, path).map_or_else(Place::Denied, |()| Place::Clear),
    }
}

/// Judges a name by its spelling. None: it is clear if no part of it is a symbolic link, which
/// [`direct::open`] finds out; else [`at`] must be asked.
#[inline(never)]
pub fn by_spelling(directory: c_int, path: &CStr) -> Option<Place> {
    let mut absolute = Absolute::empty();
    if spell(&mut absolute, directory, path).is_none() {
        return Some(unspelled(directory, path).map_or_else(Place::Denied, |()| Place::Clear));
    }
    if PROCESS.is_viewer() {
        return Some(judge(&absolute));
    }
    match by_ancestors(&absolute) {
        Ok(None) if control::is_unexpected(absolute.bytes()) => Some(Place::Denied(libc::EIO)),
        Ok(None) if !may_be_linked(&absolute) => None,
        Ok(Some(found)) if found.is_certain => Some(found.judge()),
        _ => Some(judge(&absolute)),
    }
}

/// The sealed cluster that a name is in, whatever its class.
pub fn owner(directory: c_int, path: &CStr) -> Result<Option<&'static Cluster>, c_int> {
    let mut absolute = Absolute::empty();
    if spell(&mut absolute, directory, path).is_none() {
        return unspelled(directory, path).map(|()| None);
    }
    let found = locate(&absolute, nearest).map_err(|unlock::Failed| libc::EIO)?;
    let owner = found.map(|found| found.owner.cluster()).transpose();
    owner.map_err(|unlock::Failed| libc::EIO)
}

fn spell(absolute: &mut Absolute, directory: c_int, path: &CStr) -> Option<()> {
    if directory == libc::AT_FDCWD || path.to_bytes().starts_with(b"/") {
        return absolute.set(path);
    }
    absolute.set_below(directory, path)
}

/// A name whose directory has no path: its file system was taken out of sight under it, or the path
/// is longer than a path may be. What such a name leads to may lie in a sealed cluster, so it is
/// clear only where none is known, or where the kernel opens nothing anyway.
#[inline(never)]
fn unspelled(directory: c_int, path: &CStr) -> Result<(), c_int> {
    let too_long = path.to_bytes().len() >= libc::PATH_MAX as usize;
    if too_long || path::leads_nowhere(directory, path) || !may_be_sealed(directory) {
        return Ok(());
    }
    Err(libc::EIO)
}

/// Does this process know a cluster, or is this directory one's?
fn may_be_sealed(directory: c_int) -> bool {
    let keys = file::KEY_DIRECTORY.as_c_str().as_ptr();
    // SAFETY: the name is terminated.
    let has_keys = || unsafe { libc::faccessat(directory, keys, libc::F_OK, 0) == 0 };
    clusters::all().next().is_some() || has_keys()
}

/// Is this a file of a sealed cluster, of such a class? No key is asked for.
#[inline(never)]
pub fn is_class(directory: c_int, path: &CStr, class: impl Fn(&Class) -> bool) -> bool {
    let mut absolute = Absolute::empty();
    let spelled = spell(&mut absolute, directory, path);
    let found = spelled.map(|()| locate(&absolute, by_ancestors));
    matches!(found, Some(Ok(Some(Found { answer, .. }))) if class(&answer.class))
}

#[inline(never)]
fn judge(path: &Absolute) -> Place {
    if PROCESS.is_viewer() && !is_in_view(path) {
        return Place::Clear;
    }
    pronounce(path, locate(path, by_ancestors))
}

fn pronounce(path: &Absolute, found: Result<Option<Found>, unlock::Failed>) -> Place {
    match found {
        Ok(None) if control::is_unexpected(path.bytes()) => Place::Denied(libc::EIO),
        Ok(found) if is_stray(path, found.as_ref()) => Place::Denied(libc::EIO),
        Ok(None) => Place::Clear,
        Ok(Some(found)) => found.judge(),
        Err(unlock::Failed) => Place::Denied(libc::EIO),
    }
}

/// Would a tablespace's file be taken for clear? No link leads to it, so nobody can tell its key. A
/// base backup would send what is stored as if it were clear, and a tool would leave it in clear in
/// a sealed cluster's directory. What is gone in a running server is not there, as ever.
fn is_stray(path: &Absolute, found: Option<&Found>) -> bool {
    if found.map_or(PROCESS.connection() != Connection::Clear, |found| {
        !found.is_clear()
    }) {
        return false;
    }
    let Some(answer) = in_some_tablespace(path).map(|below| classify(below.bytes())) else {
        return false;
    };
    answer.row.is_some()
        && answer.class != Class::Clear
        && (!PROCESS.is_server() || identity(&[path.bytes()]).is_some())
}

/// Is this a `pg_control` that a viewer must read and write as if it were in clear?
fn is_in_view(path: &Absolute) -> bool {
    let root = path.bytes().strip_suffix(b"/global/pg_control");
    let Some(root) = root.and_then(|root| identity(&[root])) else {
        return false;
    };
    let is_root = |viewed: PathBuf| identity(&[viewed.as_os_str().as_bytes()]) == Some(root);
    programs::viewed().is_none_or(|viewed| viewed.into_iter().any(is_root))
}

/// Does this name lead into a directory of a sealed cluster that PostgreSQL does not have?
#[inline(never)]
pub fn is_foreign(directory: c_int, path: &CStr) -> bool {
    let mut absolute = Absolute::empty();
    let found = spell(&mut absolute, directory, path).map(|()| locate(&absolute, nearest));
    let is_foreign = |found: &Option<Found>| found.as_ref().is_some_and(|found| found.is_foreign);
    matches!(found, Some(Ok(found)) if is_foreign(&found)) && !leads_out(&absolute)
}

/// Does a link lead from this name to a place outside all data directories?
fn leads_out(path: &Absolute) -> bool {
    let real = path.real().filter(|real| real.bytes() != path.bytes());
    real.is_some_and(|real| matches!(nearest(&real), Ok(None)))
}

/// Is this directory entry pgseal's own: the key directory, or the notice beside it? A base backup
/// that is not raw has neither, because its receiver makes its own, or stores it in clear.
pub fn is_own(name: &CStr) -> bool {
    name.to_bytes() == KEY_DIRECTORY || name == file::NOTICE.as_c_str()
}

/// Is this the name of a key file that is being written? It may hold another wrapping of the key,
/// which its writer takes back, or the key itself.
pub fn is_unfinished_key_file(name: &CStr) -> bool {
    name == file::NEW_KEY_FILE.as_c_str()
}

const KEY_DIRECTORY: &[u8] = file::KEY_DIRECTORY.as_str().as_bytes();

/// A path below a data directory.
struct Found {
    owner: Owner,
    answer: Classified,
    is_key_directory: bool,
    /// Does it lie in a directory that PostgreSQL does not have?
    is_foreign: bool,
    /// Is this what the file is? Not under a name that PostgreSQL does not give: it may be a link,
    /// another cluster may lie further down, or a tablespace, whatever directory that is in.
    is_certain: bool,
}

/// The owner of a data directory.
enum Owner {
    Known(&'static Cluster),
    /// Sealed, and nothing of it was needed yet. `pg_ctl stop` needs nothing: it must not ask for a
    /// passphrase.
    Locked(Vec<u8>),
}

impl Found {
    fn new(owner: Owner, below: &[u8]) -> Self {
        let answer = classify(below);
        let named = answer.row.is_some() || answer.class != Class::Clear;
        Self {
            is_certain: named && !holds_tablespace(below),
            is_foreign: answer.is_foreign(below),
            answer,
            owner,
            is_key_directory: below == KEY_DIRECTORY,
        }
    }

    fn judge(self) -> Place {
        if self.is_key_directory {
            return Place::Denied(libc::EACCES);
        }
        match self.answer.class {
            Class::Clear => Place::Clear,
            _ if self.answer.row.is_none() && server::is_archiver() => Place::Clear,
            Class::KeyDirectory => Place::Denied(libc::EACCES),
            class => match self.owner.cluster() {
                Ok(cluster) => Place::Sealed(cluster, class),
                Err(unlock::Failed) => Place::Denied(libc::EIO),
            },
        }
    }

    fn is_clear(&self) -> bool {
        self.answer.class == Class::Clear && !self.is_key_directory
    }
}

impl Owner {
    fn cluster(self) -> Result<&'static Cluster, unlock::Failed> {
        match self {
            Self::Known(cluster) => Ok(cluster),
            Self::Locked(root) => unlock::ask(&root),
        }
    }
}

/// Looks for the data directory above a path.
type Search = fn(&Absolute) -> Result<Option<Found>, unlock::Failed>;

/// Looks at the path as it is spelled first, because that costs least; a symbolic link may lead
/// from anywhere into the middle of a cluster.
fn locate(path: &Absolute, search: Search) -> Result<Option<Found>, unlock::Failed> {
    let spelled = search(path)?;
    if spelled.as_ref().is_some_and(|found| found.is_certain) {
        return Ok(spelled);
    }
    Ok(follow(path, search)?.or(spelled))
}

#[inline(never)]
fn follow(path: &Absolute, search: Search) -> Result<Option<Found>, unlock::Failed> {
    let Some(real) = path.real() else {
        return Ok(None);
    };
    if real.bytes() == path.bytes() {
        return Ok(by_links(&real));
    }
    let found = search(&real)?;
    if found.as_ref().is_some_and(|found| found.is_certain) {
        return Ok(found);
    }
    Ok(by_links(&real).or(found))
}

/// The data directory that makes a difference for this path: what is below another is clear.
fn by_ancestors(path: &Absolute) -> Result<Option<Found>, unlock::Failed> {
    let known = longest_root(path).map(|known| found_below(known, path));
    if known.as_ref().is_some_and(|known| known.is_certain) {
        return Ok(known);
    }
    for ancestor in path.ancestors().filter(|root| matters(path.after(root))) {
        if owner_of(ancestor)?.is_some() {
            return nearest(path);
        }
    }
    Ok(known)
}

/// Can a path below a data directory be anything but clear?
fn matters(below: &[u8]) -> bool {
    is_inside(below) || below == KEY_DIRECTORY
}

/// The nearest data directory, whatever the path is in it.
#[inline(never)]
fn nearest(path: &Absolute) -> Result<Option<Found>, unlock::Failed> {
    let known = longest_root(path).map(|known| found_below(known, path));
    if known.as_ref().is_some_and(|known| known.is_certain) {
        return Ok(known);
    }
    for ancestor in path.ancestors() {
        if let Some(owner) = owner_of(ancestor)? {
            return Ok(Some(Found::new(owner, path.after(ancestor))));
        }
    }
    Ok(known)
}

fn found_below(known: &'static Cluster, path: &Absolute) -> Found {
    Found::new(Owner::Known(known), path.after(&known.root))
}

fn longest_root(path: &Absolute) -> Option<&'static Cluster> {
    clusters::all()
        .filter(|cluster| path.is_below(&cluster.root))
        .max_by_key(|cluster| cluster.root.len())
}

/// The cluster whose data directory `directory` is: sealed, or pending under another spelling.
#[inline(never)]
fn owner_of(directory: &[u8]) -> Result<Option<Owner>, unlock::Failed> {
    let sealed = identity(&[directory, b"/", KEY_DIRECTORY]).is_some();
    if !sealed && !clusters::any_pending() {
        return Ok(None);
    }
    if let Some(known) = clusters::all().find(|known| known.root == directory) {
        return Ok(Some(Owner::Known(known)));
    }
    let own = identity(&[directory]);
    let same = |cluster: &&Cluster| identity(&[&cluster.root]) == own;
    if let Some(known) = clusters::all().find(same).filter(|_| own.is_some()) {
        // With no room for one more path its files cannot be told from clear ones: fail closed.
        let known = clusters::add_path(known, directory);
        return known
            .map(|known| Some(Owner::Known(known)))
            .ok_or(unlock::Failed);
    }
    Ok(sealed.then(|| Owner::Locked(directory.to_vec())))
}

/// Does a path below a data directory lead into a tablespace that is there, and not by its link?
fn holds_tablespace(below: &[u8]) -> bool {
    let directories = path::parent(below).unwrap_or_default();
    let by_link = below.starts_with(b"pg_tblspc/");
    let mut parts = directories.split(|&byte| byte == b'/').enumerate();
    parts.any(|(depth, part)| version_directory(part).is_some() && !(by_link && depth == 2))
}

/// Real paths that may be a cluster's wherever they lie: what `pg_wal` and the links in `pg_tblspc`
/// point to. Names that can be neither are not looked up.
fn by_links(path: &Absolute) -> Option<Found> {
    if !may_be_linked(path) {
        return None;
    }
    in_tablespace(path).or_else(|| in_wal(path))
}

/// Returns whether a path may lead through a link, by its names alone; false without a cluster.
fn may_be_linked(path: &Absolute) -> bool {
    clusters::all().next().is_some() && (version_above(path).is_some() || may_be_wal(path))
}

fn may_be_wal(path: &Absolute) -> bool {
    let name = path::last(path.bytes());
    name.first().is_some_and(u8::is_ascii_hexdigit)
        || name.starts_with(b"xlogtemp.")
        || name.starts_with(b"RECOVERY")
}

/// The version directory that a path is in: a tablespace's own is the nearest, even where one
/// is in another.
fn version_above(path: &Absolute) -> Option<&[u8]> {
    path.ancestors()
        .find(|ancestor| version_directory(path::last(ancestor)).is_some())
}

#[inline(never)]
fn in_tablespace(path: &Absolute) -> Option<Found> {
    let version = version_above(path)?;
    let location = path::parent(version)?;
    let linked = clusters::all().find_map(|cluster| {
        let root = Absolute::from_bytes(&cluster.root)?;
        if !is_of_version(path::last(version), &root) {
            return None;
        }
        let link = path::link_to(location, &root.join(b"pg_tblspc")?)?;
        let below = Absolute::from_bytes(b"pg_tblspc")?.join(&link)?;
        let below = below.join(path.after(location))?;
        Some(Found::new(Owner::Known(cluster), below.bytes()))
    });
    linked.or_else(|| being_copied(path))
}

#[inline(never)]
fn in_wal(path: &Absolute) -> Option<Found> {
    if !may_be_wal(path) {
        return None;
    }
    let linked = clusters::all().find_map(|cluster| {
        let link = Absolute::from_bytes(&cluster.root)?.join(b"pg_wal")?;
        let below = path.through_link(&link, b"pg_wal")?;
        Some(Found::new(Owner::Known(cluster), below.bytes()))
    });
    linked.or_else(|| archived(path))
}

/// While pg_upgrade works, two clusters have links to one location, where each has the directory of
/// its version: `PG_15_…` and `PG_17_…`. A data directory that does not tell its version has all.
fn is_of_version(directory: &[u8], root: &Absolute) -> bool {
    let file = root.join(b"PG_VERSION").map(|path| path.to_c());
    let version = file.and_then(|path| std::fs::read(OsStr::from_bytes(path.to_bytes())).ok());
    let own = |version: Vec<u8>| [b"PG_", version.trim_ascii_end(), b"_"].concat();
    version.is_none_or(|version| directory.starts_with(&own(version)))
}

/// pg_basebackup writes tablespaces before the links to them. Which of them it is does not matter
/// to a file that a base backup holds (pgseal_storage::classify).
fn being_copied(path: &Absolute) -> Option<Found> {
    if !programs::is("pg_basebackup") {
        return None;
    }
    let owner = Owner::Known(clusters::sole()?);
    Some(Found::new(owner, in_some_tablespace(path)?.bytes()))
}

/// Returns the path that a file would have if its version directory were a tablespace's.
fn in_some_tablespace(path: &Absolute) -> Option<Absolute> {
    let location = path::parent(version_above(path)?)?;
    Absolute::from_bytes(b"pg_tblspc/0")?.join(path.after(location))
}

/// A segment outside any `pg_wal`: pg_receivewal seals what it writes, wherever that is; what
/// somebody gives pg_waldump from an archive is sealed, unless its first page is one in clear. The
/// key is that of the one cluster that this process knows.
fn archived(path: &Absolute) -> Option<Found> {
    let name = path::last(path.bytes());
    let segment = name.strip_suffix(b".partial").unwrap_or(name);
    WalName::parse(segment)?;
    let cluster = clusters::sole()?;
    let sealed =
        programs::is("pg_receivewal") || programs::is("pg_waldump") && !wal::is_clear(&path.to_c());
    let below = Absolute::from_bytes(b"pg_wal")?.join(segment)?;
    sealed.then(|| Found::new(Owner::Known(cluster), below.bytes()))
}
