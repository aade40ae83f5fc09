//! How PostgreSQL opens, reads and writes files, as far as the library relies on it: the whole
//! list. None of this is promised by anyone, so each entry names the place in PostgreSQL's sources,
//! and the versions that were seen to do so: 15 to 19 unless it says otherwise. A new major version
//! is supported only when each entry was looked at again.
//!
//! Interfaces are not in the list: symbols that the server exports for extensions
//! (`receivers::postgres`), and the names of files (`pgseal_storage::classify`).
//!
//! Habits that no constant shows:
//! - A server locks a page's buffer while it reads or writes it, so that its own processes never
//!   read half a page of a relation. Walsenders and `pg_read_binary_file` read beside it, and every
//!   reader of WAL reads beside its writer (bufmgr.c, basebackup.c, xlogreader.c; `hooks::racing`).
//! - A server opens tables, SLRUs and WAL by `open`. What it opens by `fopen` is statistics, lists
//!   and configuration, and in sessions what SQL names: `pg_read_binary_file`, COPY (fd.c,
//!   genfile.c; `receivers::hides_from_sql`).
//! - A new WAL segment is made under a name of its process, filled, closed, opened once more to be
//!   synced, and renamed (XLogFileInitInternal, durable_rename; [`crate::zero_fill`]). Up to 15.10
//!   it is linked under its name, and the old name is removed (durable_rename_excl;
//!   `hooks::names::moving`).
//! - A process writes one two-phase state after the other, and syncs their directory when it has
//!   closed all of a checkpoint's files (twophase.c; [`crate::two_phase`]).
//! - A walsender asks for the time when it reports that a command begins, before the command does
//!   anything (pgstat_report_activity; `receivers::guard`).
//! - pg_rewind opens a segment that `restore_command` brought next after the command, under the
//!   segment's own name (RestoreArchivedFile, src/fe_utils/archive.c; `hooks::restored`).
//! - 17 to 19 read runs of pages into scattered buffers with one call (smgrreadv), 15 and 16 page
//!   by page. All versions fill a new WAL segment by calls with 32 pages each (pg_pwrite_zeros, or
//!   pg_pwritev_with_retry in 15; `hooks::page_runs`). From 16 on a relation grows by pages of
//!   zeros or by posix_fallocate (smgrzeroextend).
//! - With `io_method=io_uring`, 18 and 19 make all rings in the postmaster, without options, in the
//!   shared memory that they mapped last. They fill in reads alone, submit them by io_uring_submit,
//!   and take answers by io_uring_peek_batch_cqe after io_uring_wait_cqes, in any process, one at a
//!   time. They count whole pages of what was read, and give no memory away that a request names
//!   before its answer was taken (method_io_uring.c, md.c; `hooks::rings`).
//! - pg_waldump of 19 reads a tar in order, in pieces of 128 KiB. It decompresses into one buffer
//!   after the other, which it goes through when it is full (archive_waldump.c, astreamer_gzip.c
//!   and its neighbours; [`crate::packed`]).
//! - 17 to 19 send WAL from shared memory, so that no read of a file shows what a walsender sends
//!   (WALReadFromBuffers; [`crate::receivers`]).

use libc::c_int;

/// Bytes that `lo_import` reads at once (be-fsstubs.c). The server itself reads pages with `pread`,
/// or with `read` by other lengths (copydir.c, xlog.c).
pub const LARGE_OBJECT_CHUNK: usize = 8192;

/// Makes a file that must not be there: a WAL segment that is to be filled
/// (XLogFileInitInternal).
const MAKES_NEW: c_int = libc::O_CREAT | libc::O_EXCL;

/// Makes a file, or empties it: a two-phase state (RecreateTwoPhaseFile).
pub const MAKES_EMPTY: c_int = libc::O_CREAT | libc::O_TRUNC;

/// The names by which a base backup opens files (sendFile, basebackup.c): `./` before a name in
/// the data directory, a tablespace's own path, and the usual names of pg_control and of WAL
/// segments, which no walsender opens for itself.
const BACKUP_PREFIXES: [&[u8]; 5] = [b"./", b"/", b"pg_tblspc/", b"pg_wal/", b"global/pg_control"];

/// Is this a new file that is to be filled?
pub fn makes_new(flags: c_int) -> bool {
    flags & MAKES_NEW == MAKES_NEW
}

/// Is this a two-phase state that is about to be written?
pub fn makes_two_phase_state(flags: c_int) -> bool {
    flags & (MAKES_EMPTY | libc::O_EXCL) == MAKES_EMPTY
}

/// Does the opening itself make the file, empty it, or have writes go to its end?
pub fn changes(flags: c_int) -> bool {
    flags & (libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND) != 0
}

/// May a file be opened so only to be synced? Recovery opens every file that is there for reading
/// and writing, and writes nothing (SyncDataDirectory, fd.c).
pub fn opens_to_sync(flags: c_int) -> bool {
    flags & libc::O_ACCMODE == libc::O_RDWR && !changes(flags)
}

/// May a path of SQL's have led to this file? A name can lead elsewhere when it is opened than when
/// its class was found: to the cluster's key file, above all. PostgreSQL itself opens pages for
/// reading and writing, neither empties nor appends to their files, and never only writes (md.c,
/// slru.c, xlog.c).
pub fn may_come_from_sql(holds_pages: bool, flags: c_int) -> bool {
    let only_writes = flags & libc::O_ACCMODE == libc::O_WRONLY;
    only_writes || flags & (libc::O_TRUNC | libc::O_APPEND) != 0 || !holds_pages
}

/// May a walsender open this name for a base backup?
pub fn is_backups_name(path: &[u8]) -> bool {
    BACKUP_PREFIXES
        .iter()
        .any(|prefix| path.starts_with(prefix))
}

/// Returns the length of a two-phase state by its head, `TwoPhaseFileHeader`: a magic number, and a
/// length that counts the checksum at the end (twophase.c).
pub fn two_phase_len(head: [u8; 8]) -> u64 {
    let [.., a, b, c, d] = head;
    u32::from_le_bytes([a, b, c, d]).into()
}

/// Is this the name of the lock of a server's socket? It holds process numbers and paths
/// (CreateSocketLockFile, miscinit.c).
pub fn is_socket_lock(name: &[u8]) -> bool {
    name.starts_with(b".s.PGSQL.") && name.ends_with(b".lock")
}

/// Is this pg_upgrade's copy of a directory? It runs `cp` for nothing else (copy_subdir_files).
pub fn is_directory_copy(command: &[u8]) -> bool {
    command.starts_with(b"cp ")
}

/// Returns the two paths of `cp -Rf "OLD" "NEW" >> "LOG" 2>&1`: the form of pg_upgrade's exec_prog,
/// which escapes nothing.
pub fn copied_directories(command: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = command.strip_prefix(b"cp -Rf \"")?;
    let (paths, _log) = split_once(rest, b"\" >> \"")?;
    split_once(paths, b"\" \"")
}

fn split_once<'a>(text: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = text
        .windows(separator.len())
        .position(|part| part == separator)?;
    Some((&text[..at], &text[at + separator.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_paths_of_pg_upgrades_command() {
        let command = b"cp -Rf \"/old data/pg_xact\" \"/new/pg_xact\" >> \"/new/log\" 2>&1";
        let paths: (&[u8], &[u8]) = (b"/old data/pg_xact", b"/new/pg_xact");
        assert_eq!(copied_directories(command), Some(paths));
    }

    #[test]
    fn no_paths_of_another_command() {
        for command in [
            "cp -a \"a\" \"b\" >> \"c\"",
            "cp -Rf \"a\" \"b\"",
            "cp -Rf a b >> c",
        ] {
            assert_eq!(copied_directories(command.as_bytes()), None, "{command}");
        }
    }

    #[test]
    fn only_what_opens_pages_as_postgresql_does_needs_no_look_at_its_descriptor() {
        for flags in [libc::O_RDONLY, libc::O_RDWR, libc::O_RDWR | libc::O_CREAT] {
            assert!(!may_come_from_sql(true, flags), "{flags:#o}");
            assert!(may_come_from_sql(false, flags), "{flags:#o}");
        }
        for flags in [libc::O_WRONLY, libc::O_RDWR | libc::O_TRUNC, libc::O_APPEND] {
            assert!(may_come_from_sql(true, flags), "{flags:#o}");
        }
    }

    #[test]
    fn a_file_that_is_made_or_emptied_is_not_opened_to_be_synced() {
        assert!(opens_to_sync(libc::O_RDWR));
        for other in [libc::O_CREAT, libc::O_TRUNC, libc::O_APPEND] {
            assert!(!opens_to_sync(libc::O_RDWR | other), "{other:#o}");
        }
        assert!(!opens_to_sync(libc::O_RDONLY) && !opens_to_sync(libc::O_WRONLY));
    }

    #[test]
    fn the_head_of_a_two_phase_state_ends_with_its_length() {
        assert_eq!(two_phase_len([0x57, 0xf9, 0x4f, 0x57, 8, 1, 0, 0]), 264);
    }
}
