//! The cluster's `pg_control`, for the two questions that the library must answer from it: how long
//! WAL segments are, and whether the server may run; what a raw base backup is given of it; and a
//! plain one, where only a sealed cluster is expected.

use crate::clusters::Cluster;
use crate::disk::{check, FdDisk};
use crate::process::PROCESS;
use crate::real::libc_call;
use crate::{receivers, report, server};
use libc::c_int;
use pgseal_crypto::{FileId, UNIT};
use pgseal_storage::control::{check_blocks, Control, ControlError};
use pgseal_storage::disk::read_full;
use pgseal_storage::layout::{Layout, Root, Spec};
use pgseal_storage::{version, Disk, Errno, SealedFile};
use std::ffi::CStr;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

/// Reads it, outside the hooks. The outer error is that of the system, or of the cipher.
fn read(cluster: &Cluster) -> Result<Result<Control, ControlError>, Errno> {
    let page = read_page(cluster, &sealed(cluster)?)?;
    let control = Control::parse(&page);
    if let (Ok(control), true) = (&control, PROCESS.is_server()) {
        cluster.remember_segment_size(control.wal_segment_size);
    }
    Ok(control)
}

/// Returns the size of the cluster's WAL segments in bytes; None if no `pg_control` says it. While
/// a server runs it stays, and its children inherit what the postmaster read; a tool may change it
/// itself (pg_resetwal).
///
/// # Errors
/// EMFILE or ENFILE if there is no descriptor left to read `pg_control` with.
pub fn wal_segment_size(cluster: &Cluster) -> Result<Option<u64>, Errno> {
    if let Some(known) = cluster.segment_size() {
        return Ok(Some(known.into()));
    }
    match read(cluster) {
        Ok(Ok(control)) => Ok(Some(control.wal_segment_size.into())),
        Err(errno @ Errno(libc::EMFILE | libc::ENFILE)) => Err(errno),
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

fn sealed(cluster: &Cluster) -> Result<SealedFile<'_>, Errno> {
    Ok(cluster.open(&Spec {
        id: FileId::named(b"global/pg_control").ok_or(Errno::EINVAL)?,
        root: Root::Cluster,
        layout: Layout::CONTROL,
    }))
}

fn read_page(cluster: &Cluster, file: &SealedFile) -> Result<[u8; UNIT], Errno> {
    let mut page = [0; UNIT];
    with_stored(cluster, |disk| {
        disk.transfer(|transfer| file.read_at(transfer, &mut page, 0))
    })?;
    Ok(page)
}

/// Returns a descriptor for what a raw base backup carries of it (docs/format/files.md). The server
/// may be writing it meanwhile.
pub fn open_carried(cluster: &Cluster) -> Option<c_int> {
    const TRIES: usize = 10;
    let file = sealed(cluster).ok()?;
    for _ in 0..TRIES {
        if let Some(page) = file.carry_control(&read_page(cluster, &file).ok()?) {
            return memory_file(&page);
        }
        sleep(Duration::from_millis(10));
    }
    report::line("pg_control cannot be read for a raw base backup: run pgseal verify");
    None
}

/// Returns a file without a name that holds `content`, at its start.
fn memory_file(content: &[u8]) -> Option<c_int> {
    // SAFETY: a C string.
    let fd = unsafe { libc::memfd_create(c"pg_control".as_ptr(), libc::MFD_CLOEXEC) };
    if fd >= 0 && FdDisk(fd).write_at(content, 0) == Ok(content.len()) {
        return Some(fd);
    }
    libc_call!(close(fd));
    None
}

/// Returns the system identifier, from the block of `pg_control` that is stored in clear.
pub fn system_id(cluster: &Cluster) -> Option<u64> {
    let mut id = [0; 8];
    let read = with_stored(cluster, |disk| read_full(disk, &mut id, 0)).ok()?;
    (read == id.len()).then(|| u64::from_le_bytes(id))
}

fn with_stored(
    cluster: &Cluster,
    work: impl FnOnce(&FdDisk) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let path = [&cluster.root, &b"/global/pg_control\0"[..]].concat();
    let path = CStr::from_bytes_with_nul(&path).map_err(|_| Errno::EINVAL)?;
    let fd = libc_call!(open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0));
    check(fd)?;
    let done = work(&FdDisk(fd));
    libc_call!(close(fd));
    done
}

/// May this server, which opens the first thing that shows its cluster, go on? Its children are
/// not asked.
pub fn allows_server(cluster: &Cluster) -> bool {
    let checked = &PROCESS.server.checked;
    if checked.load(Ordering::Relaxed) || !server::is_first() {
        return true;
    }
    checked.store(true, Ordering::Relaxed);
    is_known() && has_usual_blocks() && (!server::is_postmaster() || allows_postmaster(cluster))
}

/// Is it a PostgreSQL of the list?
fn is_known() -> bool {
    let said = server::setting(c"server_version").map(CStr::to_string_lossy);
    match version::check(&said.unwrap_or_default()) {
        Ok(()) => true,
        Err(unsupported) => {
            report::line(&unsupported.to_string());
            false
        }
    }
}

/// Asked of the server itself, because initdb's has no `pg_control` yet.
fn has_usual_blocks() -> bool {
    let size = |name| server::setting(name)?.to_str().ok()?.parse().ok();
    let (Some(data), Some(wal)) = (size(c"block_size"), size(c"wal_block_size")) else {
        report::line("this server exports too little to be asked for the size of its blocks");
        return false;
    };
    let checked = check_blocks(data, wal);
    if let Err(error) = &checked {
        report::line(&error.to_string());
    }
    checked.is_ok()
}

/// Returns whether a postmaster may run on this cluster. Without data checksums and
/// `wal_log_hints`, a page that changes by hint bits alone is in no WAL record. A copy that reads
/// it while it is written may hold half a cipher block of each version, which no checksum shows and
/// no full-page image replaces.
fn allows_postmaster(cluster: &Cluster) -> bool {
    let Some(control) = read_or_say(cluster) else {
        return false;
    };
    if !receivers::can_gate() {
        report::line("this server exports too little for its connections to be gated");
        return false;
    }
    let allowed = control.data_checksums || server::setting(c"wal_log_hints") == Some(c"on");
    if !allowed {
        report::line(
            "a sealed cluster needs data checksums or wal_log_hints: set wal_log_hints = on in \
             postgresql.conf, or run pg_checksums --enable",
        );
    }
    allowed
}

fn read_or_say(cluster: &Cluster) -> Option<Control> {
    let error = match read(cluster) {
        Ok(Ok(control)) => return Some(control),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "pg_control cannot be read: restore it from a backup".to_owned(),
    };
    report::line(&error);
    None
}

/// Is this the `pg_control` of a plain cluster, opened by a server whose environment names the key
/// that it must have? The wrappers look first; a server that is preloaded without them relies on
/// this alone.
pub fn is_unexpected(path: &[u8]) -> bool {
    let plain = server::is_pinned() && path.ends_with(b"/global/pg_control");
    if plain {
        report::line(
            "this cluster is not sealed, but PGSEAL_EXPECT_KEY demands a sealed one: somebody may \
             have replaced the directory",
        );
    }
    plain
}
