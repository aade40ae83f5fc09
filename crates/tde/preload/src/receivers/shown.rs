//! The connections that said what they may receive, for SQL to show: a table in memory that all
//! processes of a server share. A connection enters itself when it is admitted. Every connection
//! first removes what an earlier process of its number left, so an entry never represents a later
//! connection. The reader leaves out entries of processes that have ended: it knows the server's.

use super::postgres::GATE;
use crate::real::{errno, libc_call, set_errno};
use pgseal_format::TokenId;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Connections that fit. Later ones are admitted, and not shown.
const MOST: usize = 256;

/// An entry: 0 as the token's expiry means that the connection takes stored bytes.
#[derive(Default)]
struct Entry {
    pid: AtomicI32,
    token: AtomicU64,
    expiry: AtomicU64,
}

/// The table.
type Entries = [Entry; MOST];

/// A connection that said what it may receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// its process
    pub pid: i32,
    /// the token's id and its expiry in seconds since 1970; none if it takes stored bytes
    pub token: Option<(TokenId, u64)>,
}

/// Makes the table, in the server's first process.
pub fn start() {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let size = size_of::<Entries>();
    let map = libc_call!(mmap(std::ptr::null_mut(), size, access, flags, -1, 0));
    if map != libc::MAP_FAILED {
        GATE.receivers.store(map, Ordering::Release);
    }
}

fn entries() -> &'static [Entry] {
    let entries = GATE.receivers.load(Ordering::Acquire).cast::<Entries>();
    // SAFETY: the pointer is null, or leads to a mapping of zeros that stays; an entry is atomics.
    unsafe { entries.as_ref() }.map_or(&[], |entries| &entries[..])
}

/// Enters this process's connection; none for one that showed nothing, or nothing good.
pub fn enter(receiver: Option<Receiver>) {
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    let is_mine = |entry: &&Entry| entry.pid.load(Ordering::Relaxed) == pid;
    for entry in entries().iter().filter(is_mine) {
        entry.pid.store(0, Ordering::Release);
    }
    let Some(receiver) = receiver else { return };
    let (token, expiry) = match receiver.token {
        Some((TokenId(id), expiry)) => (u64::from_be_bytes(id), expiry),
        None => (0, 0),
    };
    let is_free = |entry: &&Entry| {
        let holder = entry.pid.load(Ordering::Acquire);
        let claim = |from| {
            entry
                .pid
                .compare_exchange(from, -pid, Ordering::AcqRel, Ordering::Relaxed)
        };
        (holder == 0 || has_ended(holder.abs())) && claim(holder).is_ok()
    };
    if let Some(entry) = entries().iter().find(is_free) {
        entry.token.store(token, Ordering::Relaxed);
        entry.expiry.store(expiry, Ordering::Relaxed);
        entry.pid.store(receiver.pid, Ordering::Release);
    }
}

fn has_ended(pid: i32) -> bool {
    let kept = errno();
    // SAFETY: signal 0 asks only whether there is such a process.
    let ended = unsafe { libc::kill(pid, 0) } != 0 && errno() == libc::ESRCH;
    set_errno(kept);
    ended
}

/// Calls `take` with each connection that is entered.
pub fn list(mut take: impl FnMut(Receiver)) {
    for entry in entries() {
        let pid = entry.pid.load(Ordering::Acquire);
        if pid <= 0 {
            continue;
        }
        let expiry = entry.expiry.load(Ordering::Relaxed);
        let id = TokenId(entry.token.load(Ordering::Relaxed).to_be_bytes());
        let token = (expiry != 0).then_some((id, expiry));
        if entry.pid.load(Ordering::Acquire) == pid {
            take(Receiver { pid, token });
        }
    }
}
