//! Decides by a file's name what a conversion does with it
//! (docs/format/conversion.md#what-becomes-of-a-file).

use crate::files::directory_of;
use crate::Journal;
use pgseal_storage::classify::{classify, Class, Kind};
use pgseal_storage::control::Control;
use pgseal_storage::layout::{Root, Spec};
use pgseal_storage::wal::{WalName, NAME_LEN};
use std::collections::{BTreeMap, BTreeSet};

/// The file that goes first and comes back last.
pub const CONTROL: &[u8] = b"global/pg_control";
/// Ends the name of a copy that is being written.
const PART: &[u8] = b".pgseal.part";
/// Ends the name of a copy that is whole.
const STORED: &[u8] = b".pgseal";
/// Room for the longer of them in a file's name.
const MAX_NAME: usize = 255 - PART.len();

/// The name of a copy of `name` that is being written.
#[must_use]
pub fn part(name: &[u8]) -> Vec<u8> {
    [name, PART].concat()
}

/// The name of a whole copy of `name`.
#[must_use]
pub fn stored(name: &[u8]) -> Vec<u8> {
    [name, STORED].concat()
}

/// Is this the name of a copy, whole or not, of a file that is stored anew? In other places it is
/// anybody's name: a tablespace's location may hold another cluster that is being converted.
#[must_use]
pub fn is_copy(name: &[u8], geometry: &Geometry) -> bool {
    let original = name.strip_suffix(PART).or(name.strip_suffix(STORED));
    original.is_some_and(|name| matches!(action(name, geometry), Action::Store(..)))
}

/// The facts about a cluster on which the meaning of file names depends.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Bytes of a WAL segment.
    pub wal_segment_size: u32,
    /// Version of the system catalogs.
    pub catalog_version: u32,
}

impl From<&Control> for Geometry {
    fn from(control: &Control) -> Self {
        Self {
            wal_segment_size: control.wal_segment_size,
            catalog_version: control.catalog_version,
        }
    }
}

impl From<&Journal> for Geometry {
    fn from(journal: &Journal) -> Self {
        Self {
            wal_segment_size: journal.wal_segment_size,
            catalog_version: journal.catalog_version,
        }
    }
}

/// A file that is to be stored again.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its name.
    pub name: Vec<u8>,
    /// Its size.
    pub len: u64,
    /// How it is stored when it is sealed.
    pub spec: Spec,
    /// Its zero pages stay zeros.
    pub keeps_zeros: bool,
}

/// The action of a conversion on one file.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Nothing.
    Leave,
    /// No server reads it after a restart.
    Delete,
    /// Stored again: key, layout, and whether zero pages stay zeros.
    Store(Box<Spec>, bool),
    /// The cluster cannot be converted; why.
    Refuse(&'static str),
}

/// Decides what a conversion does with the file `name`.
#[must_use]
pub fn action(name: &[u8], geometry: &Geometry) -> Action {
    if is_foreign(name, geometry) {
        return Action::Leave;
    }
    let classified = classify(name);
    let kind = classified.row.map(|row| row.kind);
    let action = match classified.class {
        Class::Clear | Class::KeyDirectory => return Action::Leave,
        Class::WalRestored => Action::Delete,
        Class::Sealed(spec) if spec.root == Root::Ephemeral => Action::Delete,
        Class::Sealed(_) if kind.is_none() && is_archived(name) => Action::Refuse(
            "an archive of WAL keeps the bytes that it was given: move it out of the data directory",
        ),
        Class::Sealed(spec) => Action::Store(Box::new(spec), kind == Some(Kind::Relation)),
        Class::WalSegment(wal) => wal_segment(wal, geometry),
        Class::Refused(_) if matches!(kind, Some(Kind::Refused(_))) => Action::Delete,
        Class::Refused(advice) => Action::Refuse(advice),
    };
    let own = name.len() - directory_of(name).len();
    match action {
        Action::Store(..) if own > MAX_NAME => Action::Refuse("use shorter file names"),
        action => action,
    }
}

/// Has it a segment's name, alone or before a suffix?
fn is_archived(name: &[u8]) -> bool {
    let file = name.rsplit(|&byte| byte == b'/').next();
    let Some((segment, suffix)) = file.and_then(|file| file.split_at_checked(NAME_LEN)) else {
        return false;
    };
    WalName::parse(segment).is_some() && suffix.first().is_none_or(|&byte| byte == b'.')
}

/// Its place comes from the cluster's size of segments, as the library has it: a segment that was
/// cut keeps its place.
fn wal_segment(name: WalName, geometry: &Geometry) -> Action {
    match name.spec(u64::from(geometry.wal_segment_size)) {
        Some(spec) => Action::Store(Box::new(spec), false),
        None => Action::Refuse("no segment of this cluster's WAL has this name: move it away"),
    }
}

/// Another cluster's directory in a tablespace, as during an upgrade?
fn is_foreign(name: &[u8], geometry: &Geometry) -> bool {
    let mut parts = name.split(|&byte| byte == b'/');
    if parts.next() != Some(b"pg_tblspc") {
        return false;
    }
    let own = format!("_{}", geometry.catalog_version);
    let version = parts.nth(1);
    version.is_some_and(|version| version.starts_with(b"PG_") && !version.ends_with(own.as_bytes()))
}

/// All files of a cluster, sorted out.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// Files that are stored again, in the order of the listing. `pg_control` is not among them.
    pub store: Vec<Task>,
    /// Files that are deleted.
    pub delete: Vec<Vec<u8>>,
    /// Copies that were not finished, and files that have a whole copy: to be removed. `pg_control`
    /// is not among them, nor below.
    pub obsolete: Vec<Vec<u8>>,
    /// Files that have a whole copy.
    pub stored: Vec<Vec<u8>>,
    /// All directories: one whose files are gone may still hold them on the medium.
    pub directories: Vec<Vec<u8>>,
    /// Files that prevent the conversion, and why.
    pub refused: Vec<(Vec<u8>, &'static str)>,
}

impl Plan {
    /// Makes the plan of a cluster with these files, of these sizes in bytes, and these
    /// directories.
    #[must_use]
    pub fn new(files: &[(&[u8], u64)], directories: &[Vec<u8>], geometry: &Geometry) -> Self {
        let mut plan = Self {
            directories: directories.to_vec(),
            ..Self::default()
        };
        let is_copy = |name: &[u8]| is_copy(name, geometry);
        let copied = |name| <[u8]>::strip_suffix(name, STORED).filter(|_| is_copy(name));
        let copies: BTreeSet<&[u8]> = files.iter().filter_map(|(name, _)| copied(*name)).collect();
        for &(name, len) in files {
            if name == CONTROL || name.strip_suffix(STORED) == Some(CONTROL) {
                continue; // the gate has steps of its own
            }
            if (name.ends_with(PART) && is_copy(name)) || copies.contains(name) {
                plan.obsolete.push(name.to_vec());
            } else if let Some(original) = copied(name) {
                plan.stored.push(original.to_vec());
            } else {
                plan.add(name, len, geometry);
            }
        }
        plan
    }

    fn add(&mut self, name: &[u8], len: u64, geometry: &Geometry) {
        match action(name, geometry) {
            Action::Leave => {}
            Action::Delete => self.delete.push(name.to_vec()),
            Action::Refuse(why) => self.refused.push((name.to_vec(), why)),
            Action::Store(spec, keeps_zeros) => self.store.push(Task {
                name: name.to_vec(),
                len,
                spec: *spec,
                keeps_zeros,
            }),
        }
    }
}

/// The task of `pg_control`.
#[must_use]
pub fn control_task() -> Task {
    let Class::Sealed(spec) = classify(CONTROL).class else {
        unreachable!("pg_control is sealed");
    };
    Task {
        name: CONTROL.to_vec(),
        len: 0,
        spec,
        keeps_zeros: false,
    }
}

/// Divides tasks into batches of one directory each: few names are synced at once, and little space
/// is held. A large file is one batch. The order of the tasks is kept, largest first.
#[must_use]
pub fn batches(tasks: Vec<Task>) -> Vec<Vec<Task>> {
    const FILES: usize = 32;
    const BYTES: u64 = 16 << 20;
    let mut batches: Vec<Vec<Task>> = Vec::new();
    let mut open: BTreeMap<Vec<u8>, (usize, u64)> = BTreeMap::new();
    for task in tasks {
        let directory = directory_of(&task.name).to_vec();
        match open.get_mut(&directory) {
            Some((at, bytes)) if *bytes + task.len <= BYTES && batches[*at].len() < FILES => {
                *bytes += task.len;
                batches[*at].push(task);
            }
            _ => {
                open.insert(directory, (batches.len(), task.len));
                batches.push(vec![task]);
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgseal_storage::layout::Layout;

    const GEOMETRY: Geometry = Geometry {
        wal_segment_size: 16 << 20,
        catalog_version: 202_209_061,
    };

    fn of(name: &str) -> Action {
        action(name.as_bytes(), &GEOMETRY)
    }

    #[test]
    fn classes_decide() {
        let stays = |action| matches!(action, Action::Store(_, true));
        let sealed = |action| matches!(action, Action::Store(_, false));
        assert!(stays(of("base/5/16384")));
        assert!(stays(of("pg_tblspc/1/PG_15_202209061/5/16384_vm.2")));
        for name in [
            "pg_xact/0000",
            "pg_twophase/000002E1",
            "pg_stat/pgstat.stat",
            "base/5/of_an_extension",
            "pg_logical/mappings/map-1",
            "global/pg_control.old",
        ] {
            assert!(sealed(of(name)), "{name}");
        }
        for name in [
            "base/5/t3_16400",
            "base/pgsql_tmp/pgsql_tmp1.0",
            "pg_stat_tmp/pgss_query_texts.stat",
            "pg_replslot/s/xid-1-lsn-0-1.spill",
            "pg_wal/xlogtemp.17",
            "pg_wal/RECOVERYXLOG",
            "pg_dynshmem/mmap.17",
        ] {
            assert_eq!(of(name), Action::Delete, "{name}");
        }
        for name in [
            "postgresql.conf",
            "PG_VERSION",
            "base/5/pg_internal.init",
            "pg_replslot/s/state",
            "pg_encryption/key.bin",
            "pg_tblspc/1/PG_14_202107181/5/16384",
            "pg_wal/00000002.history",
        ] {
            assert_eq!(of(name), Action::Leave, "{name}");
        }
    }

    /// A name that only looks like a copy's stays as it is: another cluster's conversion in a
    /// tablespace's location, and whatever a conversion does not store.
    #[test]
    fn copies_are_those_of_files_that_are_stored() {
        let files: Vec<(&[u8], u64)> = [
            "base/5/1.pgseal",
            "base/5/2",
            "base/5/2.pgseal",
            "base/5/3.pgseal.part",
            "log/x.pgseal",
            "pg_tblspc/1/PG_14_202107181/5/1.pgseal",
            "pg_tblspc/1/PG_14_202107181/5/2",
            "pg_tblspc/1/PG_14_202107181/5/2.pgseal",
            "pg_tblspc/1/PG_14_202107181/5/3.pgseal.part",
            "pg_tblspc/1/PG_15_202209061/5/4.pgseal",
            "replica/base/5/1.pgseal",
        ]
        .map(|name| (name.as_bytes(), 8192))
        .to_vec();
        let plan = Plan::new(&files, &[], &GEOMETRY);
        let names = |names: &[Vec<u8>]| -> Vec<String> {
            let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
            names.iter().map(text).collect()
        };
        assert_eq!(names(&plan.obsolete), ["base/5/2", "base/5/3.pgseal.part"]);
        let stored = ["base/5/1", "base/5/2", "pg_tblspc/1/PG_15_202209061/5/4"];
        assert_eq!(names(&plan.stored), stored);
        assert_eq!(
            (plan.store, plan.delete, plan.refused),
            (vec![], vec![], vec![])
        );
    }

    #[test]
    fn a_wal_segment_goes_by_the_clusters_size() {
        let first_unit = |wal_segment_size| {
            let geometry = Geometry {
                wal_segment_size,
                ..GEOMETRY
            };
            match action(b"pg_wal/000000010000000000000041", &geometry) {
                Action::Store(spec, false) => spec.layout,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(first_unit(16 << 20), Layout::wal(0x41 << 11));
        assert_eq!(first_unit(1 << 20), Layout::wal(0x41 << 7));
        let beyond = of("pg_wal/0000000100000000FFFFFFFF");
        assert!(matches!(beyond, Action::Refuse(_)));
    }

    #[test]
    fn archived_wal_is_refused() {
        let segment = "000000010000000000000041";
        for place in ["pg_wal/archive", "base/archive"] {
            for suffix in ["", ".partial", ".gz", ".00000028.backup"] {
                let name = format!("{place}/{segment}{suffix}");
                assert!(matches!(of(&name), Action::Refuse(_)), "{name}");
            }
        }
        assert!(matches!(
            of(&format!("base/5/{segment}0")),
            Action::Store(..)
        ));
        for place in ["archive", "pg_archive"] {
            assert_eq!(of(&format!("{place}/{segment}")), Action::Leave);
        }
    }

    #[test]
    fn long_names_are_refused() {
        let name = |len| format!("base/5/{}", "x".repeat(len));
        assert!(matches!(of(&name(242)), Action::Store(..)));
        assert!(matches!(of(&name(243)), Action::Refuse(_)));
        assert!(matches!(
            of(&format!("base/{}", "y/".repeat(200))),
            Action::Refuse(_)
        ));
    }

    #[test]
    fn names_tell_how_far_it_is() {
        let names = [
            "base/5/1",
            "base/5/2",
            "base/5/2.pgseal",
            "base/5/3.pgseal",
            "base/5/1.pgseal.part",
            "base/5/4.pgseal.part",
            "global/pg_control",
            "global/pg_control.pgseal",
            "pg_wal/xlogtemp.1",
            "pg_hba.conf",
        ];
        let files: Vec<(&[u8], u64)> = names.iter().map(|name| (name.as_bytes(), 8192)).collect();
        let plan = Plan::new(&files, &[], &GEOMETRY);
        let text = |names: &[Vec<u8>]| {
            let name = |name: &Vec<u8>| String::from_utf8(name.clone()).expect("ASCII");
            names.iter().map(name).collect::<Vec<_>>()
        };
        let to_store: Vec<_> = plan.store.iter().map(|task| task.name.clone()).collect();
        assert_eq!(text(&to_store), ["base/5/1"]);
        assert_eq!(text(&plan.stored), ["base/5/2", "base/5/3"]);
        let obsolete = ["base/5/2", "base/5/1.pgseal.part", "base/5/4.pgseal.part"];
        assert_eq!(text(&plan.obsolete), obsolete);
        assert_eq!(text(&plan.delete), ["pg_wal/xlogtemp.1"]);
    }

    #[test]
    fn a_batch_is_of_one_directory() {
        let task = |name: &str, len| Task {
            name: name.as_bytes().to_vec(),
            len,
            ..control_task()
        };
        let tasks = vec![
            task("base/5/1", 1 << 30),
            task("base/5/2", 9 << 20),
            task("global/1", 8 << 20),
            task("base/5/3", 7 << 20),
            task("base/5/4", 1),
        ];
        let batches: Vec<Vec<String>> = batches(tasks)
            .into_iter()
            .map(|batch| {
                let name = |task: Task| String::from_utf8(task.name).expect("ASCII");
                batch.into_iter().map(name).collect()
            })
            .collect();
        let expected: [&[&str]; 4] = [
            &["base/5/1"],
            &["base/5/2", "base/5/3"],
            &["global/1"],
            &["base/5/4"],
        ];
        assert_eq!(batches, expected);
    }
}
