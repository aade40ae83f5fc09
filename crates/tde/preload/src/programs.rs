//! Which programs the library acts in: PostgreSQL's own that open a data directory, by the name of
//! the executable. `LD_PRELOAD` reaches every child; `sh`, `cp`, `tar` and the commands of
//! `archive_command` must copy what is stored.
//!
//! A viewer is between the two: it sees what is stored in every file except `pg_control`. A
//! backup tool and its children (`pgseal exec --view=backup`) see that file of the data directories
//! in view; a copy in a repository is none of them. A program that copies files (`--view=stored`)
//! sees it of none, repmgr of every one. PostgreSQL's own programs are no viewers there: a
//! pg_basebackup that was one would write a cluster in clear. What viewers read beside a server
//! they read with care ([`Stored::Pages`](crate::files::Stored)).

use crate::process::{Role, PROCESS};
use libc::c_char;
use pgseal_contract::program;
use pgseal_contract::variable;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Is this a tool that starts no other program?
pub fn starts_none() -> bool {
    let name = executable(c"/proc/self/exe");
    name.and_then(|name| program::find(&name))
        .is_some_and(|program| !program.starts_others)
}

/// Is this the program of this name?
pub fn is(program: &str) -> bool {
    executable(c"/proc/self/exe").is_some_and(|name| name == program.as_bytes())
}

/// The data directories in view. None: all.
pub fn viewed() -> Option<Vec<PathBuf>> {
    if is(program::REPMGR) {
        return None;
    }
    let list = std::env::var_os(variable::VIEW.as_str()).unwrap_or_default();
    Some(std::env::split_paths(&list).collect())
}

/// Finds out, once, before `main`.
pub fn detect() -> bool {
    let Some(name) = executable(c"/proc/self/exe") else {
        return false;
    };
    let role = role(&name);
    PROCESS.set_role(role);
    role != Role::Inert
}

/// The role of the executable of this name in this process.
fn role(name: &[u8]) -> Role {
    let known = program::find(name).map(|program| program.role);
    let unlocks = || program::UNLOCKING.iter().any(|own| own.as_bytes() == name);
    match known {
        Some(program::Role::Server) => Role::Server,
        Some(program::Role::PgCtl | program::Role::Tool) => Role::Tool,
        _ if is_listed(name) => Role::Tool,
        Some(program::Role::Dump) if runs_for_pg_upgrade() => Role::Tool,
        _ if name == program::REPMGR.as_bytes() => Role::Viewer,
        _ if std::env::var_os(variable::VIEW.as_str()).is_some() && !unlocks() => Role::Viewer,
        _ => Role::Inert,
    }
}

/// Keeps the hashes of passwords out of a log that is in clear: pg_upgrade has psql echo the dump
/// of globals, which holds them, into it.
///
/// # Safety
/// `arguments` are `main`'s: writable terminated strings in a terminated array.
pub unsafe fn silence_echo(arguments: *const *mut c_char) {
    if !is("psql") || !runs_for_pg_upgrade() {
        return;
    }
    // SAFETY: `arguments` is an array that ends with a null, where the reading stops.
    let all = (0..).map(|i| unsafe { *arguments.add(i) });
    for argument in all.take_while(|argument| !argument.is_null()) {
        // SAFETY: the string is terminated and writable, and the one that replaces it is shorter.
        unsafe {
            if CStr::from_ptr(argument) == c"--echo-queries" {
                libc::strcpy(argument, c"--quiet".as_ptr());
            }
        }
    }
}

/// Is pg_upgrade the parent? A shell may stand between the two.
fn runs_for_pg_upgrade() -> bool {
    let parent = parent_of(None);
    let grandparent = parent.and_then(|parent| parent_of(Some(parent)));
    [parent, grandparent].into_iter().flatten().any(|process| {
        CString::new(format!("/proc/{process}/exe"))
            .ok()
            .and_then(|link| executable(&link))
            .is_some_and(|name| name == b"pg_upgrade")
    })
}

/// The parent's process id: the fourth field of `stat`, after a name that may hold anything.
fn parent_of(process: Option<u32>) -> Option<u32> {
    let process = process.map_or("self".to_owned(), |id| id.to_string());
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// The name of an executable, whatever it was called as. A package upgrade under a running server
/// leaves `postgres (deleted)`.
fn executable(link: &CStr) -> Option<Vec<u8>> {
    let mut path = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the path is terminated; the pointer and the length are the buffer's own.
    let len = unsafe { libc::readlink(link.as_ptr(), path.as_mut_ptr().cast(), path.len()) };
    let path = path.get(..usize::try_from(len).ok()?)?;
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    path.rsplit(|&byte| byte == b'/').next().map(<[u8]>::to_vec)
}

fn is_listed(name: &[u8]) -> bool {
    std::env::var_os(variable::PROGRAMS.as_str()).is_some_and(|more| {
        more.as_bytes()
            .split(|&byte| byte == b':')
            .any(|one| one == name)
    })
}
