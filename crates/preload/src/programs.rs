//! Which programs the library acts in: PostgreSQL's own that open a data directory, by the name of
//! the executable. `LD_PRELOAD` reaches every child; `sh`, `cp`, `tar` and the commands of
//! `archive_command` must copy what is stored.

use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU8, Ordering};

/// Programs that read or write the files of a data directory.
const PROGRAMS: &[&str] = &[
    "initdb",
    "pg_basebackup",
    "pg_checksums",
    "pg_combinebackup",
    "pg_controldata",
    "pg_createsubscriber",
    "pg_ctl",
    "pg_receivewal",
    "pg_resetwal",
    "pg_rewind",
    "pg_upgrade",
    "pg_verifybackup",
    "pg_waldump",
    "pg_walsummary",
    "postgres",
];

/// More names, separated by colons: how `pgseal exec` runs other programs sealed.
const MORE: &str = "PGSEAL_PROGRAMS";

const INERT: u8 = 0;
const TOOL: u8 = 1;
const SERVER: u8 = 2;

static ROLE: AtomicU8 = AtomicU8::new(INERT);

/// Does the library act in this program?
#[inline]
pub fn acts() -> bool {
    ROLE.load(Ordering::Relaxed) != INERT
}

/// Is this the server (in any of its modes)?
pub fn is_server() -> bool {
    ROLE.load(Ordering::Relaxed) == SERVER
}

/// Finds out, once, before `main`.
pub fn detect() -> bool {
    let Some(name) = executable_name() else {
        return false;
    };
    let role = if name == b"postgres" {
        SERVER
    } else if PROGRAMS.iter().any(|program| program.as_bytes() == name) || is_listed(&name) {
        TOOL
    } else {
        INERT
    };
    ROLE.store(role, Ordering::Relaxed);
    role != INERT
}

/// The executable's own name, whatever it was called as. A package upgrade under a running server
/// leaves `postgres (deleted)`.
fn executable_name() -> Option<Vec<u8>> {
    let mut path = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer's own pointer and length.
    let len = unsafe {
        libc::readlink(
            c"/proc/self/exe".as_ptr(),
            path.as_mut_ptr().cast(),
            path.len(),
        )
    };
    let path = path.get(..usize::try_from(len).ok()?)?;
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    path.rsplit(|&byte| byte == b'/').next().map(<[u8]>::to_vec)
}

fn is_listed(name: &[u8]) -> bool {
    std::env::var_os(MORE).is_some_and(|more| {
        more.as_bytes()
            .split(|&byte| byte == b':')
            .any(|one| one == name)
    })
}
