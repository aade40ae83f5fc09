//! The facts that can be known of a WAL segment before it is opened: its size, the key and layout
//! that follow from it, and who can read its first page.

use crate::clusters::Cluster;
use crate::disk::FdDisk;
use crate::process::PROCESS;
use crate::real::libc_call;
use crate::{control, report};
use libc::c_int;
use pgseal_contract::variable;
use pgseal_crypto::UNIT;
use pgseal_storage::classify::Class;
use pgseal_storage::disk::read_full;
use pgseal_storage::layout::Spec;
use pgseal_storage::wal::{is_segment_size, ClearWal, LongHeader, WalName, LONG_HEADER};
use pgseal_storage::{Disk, Errno};
use std::ffi::CStr;

/// The variable in which a wrapper says how long the segments are that its program will receive.
const SEGMENT_SIZE: &str = variable::WAL_SEGMENT_SIZE.as_str();

/// Where the operator says which WAL in clear is taken from an archive.
const CLEAR_WAL: &str = variable::CLEAR_WAL.as_str();

/// Returns the key and layout for an open file.
///
/// # Errors
/// EIO if they are not known: no `pg_control` says the size of a segment. EMFILE or ENFILE if no
/// descriptor is left to read it with: the caller may close a file and try again.
pub fn spec_of(cluster: &Cluster, class: &Class, fd: c_int) -> Result<Spec, Errno> {
    spec_by(class, |name| segment_size(cluster, name, fd))
}

/// Returns the key and layout for a file without content. Errors are those of [`spec_of`].
pub fn spec_of_new(cluster: &Cluster, class: &Class) -> Result<Spec, Errno> {
    spec_by(class, |_| new_segment_size(cluster))
}

fn spec_by(
    class: &Class,
    size: impl FnOnce(WalName) -> Result<Option<u64>, Errno>,
) -> Result<Spec, Errno> {
    match class {
        Class::Sealed(spec) => Ok(spec.clone()),
        Class::WalSegment(name) => size(*name)?
            .and_then(|size| name.spec(size))
            .ok_or(Errno::EIO),
        _ => Err(Errno::EIO),
    }
}

/// The size of segments that are received before there is any `pg_control`.
pub fn announced_segment_size() -> Option<u64> {
    if PROCESS.is_server() {
        return None;
    }
    let size = std::env::var(SEGMENT_SIZE).ok()?.parse().ok()?;
    is_segment_size(size).then_some(size)
}

/// Returns the size in bytes of a segment that has no content yet. Without a `pg_control` it is
/// that of the segments in the tar that it comes from ([`crate::packed`]).
fn new_segment_size(cluster: &Cluster) -> Result<Option<u64>, Errno> {
    match announced_segment_size() {
        Some(size) => Ok(Some(size)),
        None => control::wal_segment_size(cluster),
    }
}

/// Returns the size of a segment in bytes, which the layout of an open one needs. It is what a
/// wrapper said, or else the cluster's: a segment that was cut or is being made does not show it. A
/// whole segment of another size, in an archive that is older than `pg_resetwal --wal-segsize`,
/// opens by its own; so does any segment where there is no `pg_control` (docs/format/files.md).
fn segment_size(cluster: &Cluster, name: WalName, fd: c_int) -> Result<Option<u64>, Errno> {
    if let Some(size) = announced_segment_size() {
        return Ok(Some(size));
    }
    let disk = FdDisk(fd);
    let own = disk.size().ok().filter(|&size| is_segment_size(size));
    let opens = |own| opens(cluster, name, own, &disk) == Ok(true);
    match (own, control::wal_segment_size(cluster)) {
        (Some(own), Ok(Some(clusters))) if own == clusters => Ok(Some(own)),
        (Some(own), Ok(Some(_)) | Err(_)) if opens(own) => Ok(Some(own)),
        (own, clusters) => Ok(clusters?.or(own)),
    }
}

/// Does the file begin with the header of this very segment, sealed as one of `size` bytes?
#[inline(never)] // a page of a file, on the stack
pub fn opens(cluster: &Cluster, name: WalName, size: u64, disk: &FdDisk) -> Result<bool, Errno> {
    let spec = name.spec(size).ok_or(Errno::EINVAL)?;
    let mut page = [0; UNIT];
    disk.transfer(|transfer| cluster.open(&spec).read_at(transfer, &mut page, 0))?;
    Ok(name.header(&page).is_some())
}

/// Does the operator let this segment in, which `restore_command` brought in clear? Either answer
/// is one line in the log: anyone who can write such an archive chooses what the database becomes.
pub fn admits_clear(path: &CStr, header: &LongHeader) -> bool {
    let file = path.to_bytes().rsplit(|&byte| byte == b'/').next();
    let file = file.unwrap_or_default();
    let given = std::env::var_os(CLEAR_WAL).unwrap_or_default();
    let given = given.to_string_lossy();
    let rule = given.parse::<ClearWal>();
    let admits = rule.is_ok_and(|rule| rule.admits(file, header));
    let done = match rule {
        _ if admits => format!("is encrypted and replayed, because {CLEAR_WAL} is {given}"),
        Err(error) => {
            format!(
                "is refused, because {CLEAR_WAL} is `{given}` and cannot be understood: {error}"
            )
        }
        Ok(_) => format!(
            "is refused, because anyone who can write such an archive can become superuser: if \
             a plain cluster wrote it, set {CLEAR_WAL} in the environment, to `accept` or to \
             TIMELINE:LSN, up to where its WAL is in clear"
        ),
    };
    let file = String::from_utf8_lossy(file);
    report::line(&format!("WAL segment {file} came in clear, and {done}"));
    admits
}

/// Does the file begin with a segment's header in clear?
pub fn is_clear(path: &CStr) -> bool {
    let fd = libc_call!(open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0));
    if fd < 0 {
        return false;
    }
    let mut head = [0; LONG_HEADER];
    let read = read_full(&FdDisk(fd), &mut head, 0);
    libc_call!(close(fd));
    read == Ok(LONG_HEADER) && LongHeader::parse(&head).is_some()
}
