//! The one table of what PostgreSQL's files are, name by name (docs/format/files.md).
//!
//! Invariants:
//! 1. The first row that matches decides.
//! 2. A name that no row knows is sealed in the directories that PostgreSQL makes, so new kinds of
//!    files fail closed. Elsewhere it is stored as it is; a server does not write there
//!    ([`Classified::is_foreign`]).
//! 3. Two names that PostgreSQL renames into each other give the same identity wherever a re-store
//!    would cost something.
//!
//! The preload library calls this on every open and rename in a sealed cluster, and so does
//! `pgseal verify`. Paths are relative to the data directory, normalised, without a leading slash;
//! a tablespace's own location appears as `pg_tblspc/<oid>/…`.

mod pattern;

use crate::layout::{Layout, Root, Spec};
use crate::wal::WalName;
use pattern::Capture;
pub use pattern::{version_directory, RelationName};
use pgseal_crypto::{FileId, Fork};

/// The treatment that the library gives a file.
#[allow(clippy::large_enum_variant)] // made on the stack once an open: no heap in the preload
#[derive(Clone, Debug, PartialEq)]
pub enum Class {
    /// Stored as it is.
    Clear,
    /// The cluster's own key directory: hidden from and closed to PostgreSQL's programs.
    KeyDirectory,
    /// Cannot be sealed; the string says what to change.
    Refused(&'static str),
    /// A WAL segment; its key needs the segment size.
    WalSegment(WalName),
    /// A segment that `restore_command` has just brought: raw, judged when it is renamed.
    WalRestored,
    /// Sealed, with all that is needed for it.
    Sealed(Spec),
}

/// The answer for one path.
#[derive(Clone, Debug, PartialEq)]
pub struct Classified {
    /// The class of the file.
    pub class: Class,
    /// The row that named it; none means that the name is unknown.
    pub row: Option<&'static Row>,
}

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Path pattern, see [`pattern`].
    pub pattern: &'static str,
    /// A note of what such a file holds, and where it is written.
    pub holds: &'static str,
    /// The sort of the file.
    pub kind: Kind,
}

/// Sorts of files: each has one layout, and one way of being checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stored as it is.
    Clear,
    /// The cluster's own key directory, `pg_encryption/`.
    KeyDirectory,
    /// A file that cannot be sealed; the string says what to change.
    Refused(&'static str),
    /// A segment of a relation's fork.
    Relation,
    /// A segment of a temporary table's fork.
    TempRelation,
    /// WAL under its final name.
    WalSegment,
    /// WAL as `restore_command` left it.
    WalRestored,
    /// WAL being made.
    WalScratch,
    /// A segment of a simple LRU area.
    Slru,
    /// A stream under its own name.
    Stream,
    /// A stream under one name for several files.
    StreamAs(&'static str),
    /// `pg_control`.
    Control,
    /// Tuple moves, under a keystream.
    Mapping,
    /// A file under the postmaster's key that several processes may write.
    Scratch,
    /// A file under the postmaster's key that one process writes.
    ScratchOwned,
}

const fn row(pattern: &'static str, kind: Kind, holds: &'static str) -> Row {
    Row {
        pattern,
        holds,
        kind,
    }
}

const DYNSHMEM: &str = "set dynamic_shared_memory_type to posix or sysv: \
    a memory-mapped file cannot be sealed";

/// The table. Patterns are explained in [`pattern`].
pub static TABLE: &[Row] = &[
    row("pg_encryption/**", Kind::KeyDirectory, "the wrapped key"),
    // Relations. The identity is (database, relfilenode, fork, segment): it survives copies,
    // hard links, tablespace moves and pg_upgrade.
    row(
        "base/<oid>/<rel>",
        Kind::Relation,
        "tables, indexes, catalogs, and their forks",
    ),
    row("global/<rel>", Kind::Relation, "shared catalogs"),
    row(
        "pg_tblspc/<oid>/<catver>/<oid>/<rel>",
        Kind::Relation,
        "relations of a tablespace",
    ),
    row("base/<oid>/<temp>", Kind::TempRelation, "temporary tables"),
    row(
        "pg_tblspc/<oid>/<catver>/<oid>/<temp>",
        Kind::TempRelation,
        "temporary tables",
    ),
    row(
        "base/moved_for_upgrade/<dbdir>/<rel>",
        Kind::Relation,
        "pg_upgrade --swap's staging",
    ),
    row(
        "pg_tblspc/<oid>/<catver>/moved_for_upgrade/<dbdir>/<rel>",
        Kind::Relation,
        "pg_upgrade --swap's staging",
    ),
    row(
        "base/<oid>/INCREMENTAL.*",
        Kind::Stream,
        "changed blocks of an incremental backup",
    ),
    row(
        "global/INCREMENTAL.*",
        Kind::Stream,
        "changed blocks of an incremental backup",
    ),
    row(
        "pg_tblspc/<oid>/<catver>/<oid>/INCREMENTAL.*",
        Kind::Stream,
        "changed blocks",
    ),
    // Sorts, hashes, subscription streams, the server's own manifest: they are not read after a
    // restart, so their key is not kept.
    row("base/pgsql_tmp/**", Kind::ScratchOwned, "temporary files"),
    row(
        "pg_tblspc/<oid>/<catver>/pgsql_tmp/**",
        Kind::ScratchOwned,
        "temporary files",
    ),
    // Metadata without user data.
    row("base/<oid>/PG_VERSION", Kind::Clear, "major version"),
    row(
        "base/<oid>/pg_filenode.map",
        Kind::Clear,
        "relation map: catalog OIDs to relfilenodes",
    ),
    row(
        "base/<oid>/pg_filenode.map.tmp",
        Kind::Clear,
        "relation map being written",
    ),
    row(
        "base/<oid>/pg_internal.init*",
        Kind::Clear,
        "cache of system catalog descriptors",
    ),
    row(
        "pg_tblspc/<oid>/<catver>/<oid>/PG_VERSION",
        Kind::Clear,
        "major version",
    ),
    row(
        "pg_tblspc/<oid>/<catver>/<oid>/pg_filenode.map",
        Kind::Clear,
        "relation map",
    ),
    row(
        "pg_tblspc/<oid>/<catver>/<oid>/pg_filenode.map.tmp",
        Kind::Clear,
        "relation map",
    ),
    row(
        "pg_tblspc/<oid>/<catver>/<oid>/pg_internal.init*",
        Kind::Clear,
        "descriptor cache",
    ),
    row(
        "base/moved_for_upgrade/<dbdir>/PG_VERSION",
        Kind::Clear,
        "major version, in pg_upgrade --swap's staging",
    ),
    row(
        "base/moved_for_upgrade/<dbdir>/pg_filenode.map*",
        Kind::Clear,
        "relation map, in pg_upgrade --swap's staging",
    ),
    row(
        "base/moved_for_upgrade/<dbdir>/pg_internal.init*",
        Kind::Clear,
        "descriptor cache, in pg_upgrade --swap's staging",
    ),
    row(
        "pg_tblspc/<oid>/<catver>/moved_for_upgrade/<dbdir>/PG_VERSION",
        Kind::Clear,
        "major version, in pg_upgrade --swap's staging",
    ),
    row(
        "pg_tblspc/<oid>/<catver>/moved_for_upgrade/<dbdir>/pg_filenode.map*",
        Kind::Clear,
        "relation map, in pg_upgrade --swap's staging",
    ),
    row(
        "pg_tblspc/<oid>/<catver>/moved_for_upgrade/<dbdir>/pg_internal.init*",
        Kind::Clear,
        "descriptor cache, in pg_upgrade --swap's staging",
    ),
    row(
        "global/pg_filenode.map",
        Kind::Clear,
        "relation map of shared catalogs",
    ),
    row(
        "global/pg_filenode.map.tmp",
        Kind::Clear,
        "relation map being written",
    ),
    row(
        "global/pg_internal.init*",
        Kind::Clear,
        "cache of system catalog descriptors",
    ),
    // pg_resetwal and pg_upgrade keep the old file beside the new one: one identity.
    row("global/pg_control", Kind::Control, "state of the cluster"),
    row(
        "global/pg_control.old",
        Kind::Control,
        "state of the cluster, set aside by pg_upgrade",
    ),
    // Write-ahead log.
    row("pg_wal/<wal>", Kind::WalSegment, "WAL"),
    row(
        "pg_wal/<wal>.partial",
        Kind::WalSegment,
        "the last segment of a timeline that ended",
    ),
    row(
        "pg_wal/xlogtemp.*",
        Kind::WalScratch,
        "a segment or history file being made",
    ),
    row(
        "pg_wal/RECOVERYXLOG",
        Kind::WalRestored,
        "what restore_command brought",
    ),
    row(
        "pg_wal/RECOVERYHISTORY",
        Kind::Clear,
        "timeline history from the archive",
    ),
    row("pg_wal/*.history", Kind::Clear, "timeline history"),
    row(
        "pg_wal/*.backup",
        Kind::Clear,
        "backup history: labels and positions",
    ),
    row(
        "pg_wal/archive_status/*",
        Kind::Clear,
        "archiver's notes: names only",
    ),
    row(
        "pg_wal/summaries/*",
        Kind::StreamAs("pg_wal/summaries"),
        "changed block numbers (17+)",
    ),
    // SLRUs.
    row("pg_xact/<hex>", Kind::Slru, "commit status"),
    row(
        "pg_multixact/offsets/<hex>",
        Kind::Slru,
        "multixact offsets",
    ),
    row(
        "pg_multixact/members/<hex>",
        Kind::Slru,
        "multixact members",
    ),
    row(
        "pg_subtrans/<hex>",
        Kind::Slru,
        "parents of subtransactions",
    ),
    row("pg_commit_ts/<hex>", Kind::Slru, "commit times"),
    row("pg_serial/<hex>", Kind::Slru, "serializable conflicts"),
    row(
        "pg_notify/<hex>",
        Kind::Slru,
        "NOTIFY channels and payloads",
    ),
    // Streams.
    row(
        "pg_twophase/<hex>",
        Kind::Stream,
        "prepared transactions: names, locks, invalidations",
    ),
    row("pg_twophase/*.tmp", Kind::Stream, "the same, being written"),
    row(
        "pg_stat/pgstat.tmp",
        Kind::StreamAs("pg_stat/pgstat.stat"),
        "statistics being written",
    ),
    // Written and read by sessions, as streams: these get what is stored.
    row(
        "pg_stat/repmgrd_state.txt",
        Kind::Clear,
        "repmgr's node number, and whether its daemon is paused",
    ),
    row(
        "pg_stat/**",
        Kind::Stream,
        "statistics and query texts kept over a restart",
    ),
    row(
        "pg_stat_tmp/**",
        Kind::Scratch,
        "query texts, written by many backends at once",
    ),
    row(
        "pg_logical/snapshots/*",
        Kind::Stream,
        "logical decoding snapshots",
    ),
    row(
        "pg_logical/mappings/*",
        Kind::Mapping,
        "tuple moves of catalog rewrites",
    ),
    row(
        "pg_logical/replorigin_checkpoint",
        Kind::Clear,
        "replication origins: positions",
    ),
    row(
        "pg_logical/replorigin_checkpoint.tmp",
        Kind::Clear,
        "replication origins",
    ),
    row("pg_replslot/*/state", Kind::Clear, "slot metadata"),
    row(
        "pg_replslot/*/state.tmp",
        Kind::Clear,
        "slot metadata being written",
    ),
    row(
        "pg_replslot/*/*",
        Kind::ScratchOwned,
        "spilled changes of logical decoding",
    ),
    row(
        "pg_snapshots/*",
        Kind::Clear,
        "exported snapshots: transaction ids",
    ),
    row(
        "pg_dynshmem/*",
        Kind::Refused(DYNSHMEM),
        "tuples of parallel queries",
    ),
    row("pg_log/**", Kind::Clear, "server log"),
    row(
        "pg_upgrade_output.d/*/dump/*",
        Kind::Stream,
        "pg_upgrade's dumps: schema, password hashes, planner statistics",
    ),
    row(
        "pg_upgrade_output.d/**",
        Kind::Clear,
        "pg_upgrade's logs and reports: names of objects",
    ),
    row("pg_ident.conf", Kind::Clear, "configuration"),
    row("pg_hba.conf", Kind::Clear, "configuration"),
    row("pg_hosts.conf", Kind::Clear, "configuration (19)"),
    row("pg_createsubscriber.conf*", Kind::Clear, "settings (19)"),
    // It holds only what parses as advice to the planner: query ids and names of objects.
    row("pg_stash_advice.tsv*", Kind::Clear, "planner advice (19)"),
    // The top level: named so that the walk over real directories finds every file in the table.
    row(
        "PG_VERSION*",
        Kind::Clear,
        "major version; link and clone probes",
    ),
    row("postgresql.*", Kind::Clear, "configuration"),
    row("postmaster.*", Kind::Clear, "process id and options"),
    row("current_logfiles*", Kind::Clear, "names of log files"),
    row("autoprewarm.blocks*", Kind::Clear, "block numbers"),
    row("backup_label*", Kind::Clear, "where a backup began"),
    row(
        "backup_manifest*",
        Kind::Clear,
        "names, sizes and checksums of a backup's files",
    ),
    row("tablespace_map*", Kind::Clear, "where tablespaces lie"),
    row("*.signal", Kind::Clear, "start in recovery"),
    row("log/**", Kind::Clear, "server log"),
    row("SEALED.README", Kind::Clear, "pgseal's notice for people"),
    // An extension's: the name cannot be set.
    row(
        "pg_bulkload/*.loadstatus",
        Kind::Clear,
        "pg_bulkload's note of a load: OIDs and numbers of blocks",
    ),
];

/// Says what the file at `path` is.
#[must_use]
pub fn classify(path: &[u8]) -> Classified {
    for row in TABLE {
        if let Some(capture) = pattern::matches(row.pattern, path) {
            return Classified {
                class: row.class(path, &capture),
                row: Some(row),
            };
        }
    }
    let class = if is_inside(path) {
        stream(path)
    } else {
        Class::Clear
    };
    Classified { class, row: None }
}

/// The directories that PostgreSQL 15 to 19 have directly below the data directory, and
/// `pg_encryption`.
pub const DIRECTORIES: [&str; 18] = [
    "base",
    "global",
    "pg_commit_ts",
    "pg_dynshmem",
    "pg_encryption",
    "pg_logical",
    "pg_multixact",
    "pg_notify",
    "pg_replslot",
    "pg_serial",
    "pg_snapshots",
    "pg_stat",
    "pg_stat_tmp",
    "pg_subtrans",
    "pg_tblspc",
    "pg_twophase",
    "pg_wal",
    "pg_xact",
];
/// Directories of earlier versions, and that of `pg_upgrade`.
const OTHER_DIRECTORIES: [&str; 3] = ["pg_clog", "pg_upgrade_output.d", "pg_xlog"];

/// Does this path lie in one of the directories whose unknown files are sealed? A path that is in
/// none of them is clear, and needs no cluster looked for.
#[must_use]
pub fn is_inside(path: &[u8]) -> bool {
    let mut all = DIRECTORIES.iter().chain(&OTHER_DIRECTORIES);
    let mut own = |top: &[u8]| all.any(|own| own.as_bytes() == top);
    directory(path).is_some_and(|top| own(top) || top.starts_with(b"PG_"))
}

impl Classified {
    /// Does the path that was classified lie in a directory that PostgreSQL does not have, and
    /// that no row names? Such a file is an administrator's, or an extension's: configuration,
    /// certificates, lists of users, logs. Editors write it and people read it, so it is stored as
    /// it is. Its name does not tell whether it holds data, so a server writes there only what its
    /// settings name.
    #[must_use]
    pub fn is_foreign(&self, path: &[u8]) -> bool {
        self.row.is_none() && self.class == Class::Clear && directory(path).is_some()
    }
}

/// The top-level directory that a path is in.
fn directory(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().position(|&byte| byte == b'/')?;
    Some(&path[..slash])
}

impl Row {
    fn class(&self, path: &[u8], capture: &Capture) -> Class {
        match self.kind {
            Kind::Clear => Class::Clear,
            Kind::KeyDirectory => Class::KeyDirectory,
            Kind::Refused(advice) => Class::Refused(advice),
            Kind::Relation => relation(capture, path),
            Kind::TempRelation => temp_relation(capture, path),
            Kind::WalSegment => capture.wal.map_or_else(|| stream(path), Class::WalSegment),
            Kind::WalRestored => Class::WalRestored,
            Kind::WalScratch => named(path, Root::Ephemeral, Layout::WAL_SCRATCH),
            Kind::Slru => sealed(
                FileId::slru(path),
                Root::Cluster,
                Layout::PAGES_WITHOUT_IMAGES,
            ),
            Kind::Stream => stream(path),
            Kind::StreamAs(name) => named(name.as_bytes(), Root::Cluster, Layout::STREAM.shared()),
            Kind::Control => named(b"global/pg_control", Root::Cluster, Layout::CONTROL),
            Kind::Mapping => named(path, Root::Cluster, Layout::Keystream),
            Kind::Scratch => named(path, Root::Ephemeral, Layout::STREAM.shared()),
            Kind::ScratchOwned => named(path, Root::Ephemeral, Layout::STREAM),
        }
    }
}

fn relation(capture: &Capture, path: &[u8]) -> Class {
    let Some(rel) = capture.rel else {
        return stream(path);
    };
    let id = FileId::relation(capture.database, rel.number, rel.fork, rel.segment);
    let layout = match rel.fork {
        Fork::Main | Fork::Init => Layout::PAGES,
        Fork::Fsm | Fork::Vm => Layout::PAGES_WITHOUT_IMAGES,
    };
    sealed(Some(id), Root::Cluster, layout)
}

/// Classifies a temporary relation. It is not read after a restart; the backend is part of the
/// identity because a permanent relation may have the same number.
fn temp_relation(capture: &Capture, path: &[u8]) -> Class {
    let (Some(rel), Some(backend)) = (capture.rel, capture.backend) else {
        return stream(path);
    };
    let id = FileId::temp_relation(backend, capture.database, rel.number, rel.fork, rel.segment);
    sealed(Some(id), Root::Ephemeral, Layout::PAGES)
}

fn stream(path: &[u8]) -> Class {
    named(
        without_tablespace(final_name(path)),
        Root::Cluster,
        Layout::STREAM.shared(),
    )
}

fn named(path: &[u8], root: Root, layout: Layout) -> Class {
    sealed(FileId::named(path), root, layout)
}

fn sealed(id: Option<FileId>, root: Root, layout: Layout) -> Class {
    match id {
        Some(id) => Class::Sealed(Spec { id, root, layout }),
        None => Class::Refused("use shorter file names: an identity has at most 255 bytes"),
    }
}

/// Names a tablespace's file from its version directory on: `pg_basebackup` writes the file before
/// it is told which tablespace that is.
fn without_tablespace(path: &[u8]) -> &[u8] {
    let below = path.strip_prefix(b"pg_tblspc/").unwrap_or_default();
    match below.iter().position(|&byte| byte == b'/') {
        Some(slash) => &below[slash + 1..],
        None => path,
    }
}

/// Returns the name that a temporary file will be renamed to: without `.tmp`, and for snapshots
/// without the process id before it (`0-15.snap.4711.tmp`).
fn final_name(path: &[u8]) -> &[u8] {
    let Some(stem) = path.strip_suffix(b".tmp") else {
        return path;
    };
    let digits = stem
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    match stem[..stem.len() - digits].strip_suffix(b".snap.") {
        Some(_) => &stem[..stem.len() - digits - 1],
        None => stem,
    }
}

#[cfg(test)]
mod tests;
