//! The connections that there are: a socket, a ring and whether it is to end, each.

use std::collections::HashMap;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::socket::{sendmsg, ControlMessage, MsgFlags};
use pgseal_evaluator::client::{GREETING, VERSION};
use pgseal_evaluator_proto::ring::{wake_server, Futex, Mapping};

/// The answers to a client, beside the greeting.
const WELCOME: u8 = 0;
const TOO_MANY: u8 = 1;

/// One connection. Its socket closes with the last who holds it.
pub struct Link {
    number: u64,
    socket: UnixStream,
    ring: Mapping,
    ending: AtomicBool,
}

impl Link {
    /// Its number, for epoll.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The socket, which says that the client lives.
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// The memory.
    pub fn ring(&self) -> &Mapping {
        &self.ring
    }

    /// Whether the client is gone, or the process ends.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.ending.store(true, Ordering::Release);
        wake_server(self.ring.as_ref(), &Futex);
    }
}

/// All connections.
pub struct Links {
    open: Mutex<HashMap<u64, Arc<Link>>>,
    emptied: Condvar,
    next: AtomicU64,
    most: usize,
}

impl Links {
    /// None yet, and never more than `most`.
    pub fn new(most: u32, first: u64) -> Self {
        Self {
            open: Mutex::default(),
            emptied: Condvar::new(),
            next: AtomicU64::new(first),
            most: usize::try_from(most).unwrap_or(usize::MAX),
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Link>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection for this socket, with a ring that is handed over; none if there is no place.
    pub fn add(&self, socket: UnixStream) -> Option<Arc<Link>> {
        let mut open = self.open();
        if open.len() >= self.most {
            greet(&socket, TOO_MANY, None);
            return None;
        }
        let Ok((ring, memory)) = Mapping::create() else {
            greet(&socket, TOO_MANY, None);
            return None;
        };
        greet(&socket, WELCOME, Some(&memory));
        let link = Arc::new(Link {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            socket,
            ring,
            ending: AtomicBool::new(false),
        });
        open.insert(link.number, Arc::clone(&link));
        Some(link)
    }

    /// The client of a connection is gone.
    pub fn hang_up(&self, number: u64) {
        if let Some(link) = self.open().get(&number) {
            link.end();
        }
    }

    /// Wakes the threads that are to end and have not: one may have gone to sleep just then.
    pub fn remind(&self) {
        let open = self.open();
        let ending = open.values().filter(|link| link.is_ending());
        ending.for_each(|link| link.end());
    }

    /// A connection has ended.
    pub fn remove(&self, link: &Link) {
        let mut open = self.open();
        open.remove(&link.number);
        if open.is_empty() {
            self.emptied.notify_all();
        }
    }

    /// Ends all connections, and waits for their threads, but not for ever.
    pub fn end_all(&self, patience: Duration) {
        let open = self.open();
        open.values().for_each(|link| link.end());
        // Anyone who is at work for longer ends with the process.
        let _ = self
            .emptied
            .wait_timeout_while(open, patience, |open| !open.is_empty());
    }
}

/// Says hello. A client that is gone already is noticed by its socket.
fn greet(socket: &UnixStream, status: u8, memory: Option<&OwnedFd>) {
    let mut text = GREETING.to_vec();
    text.extend_from_slice(&[VERSION, status]);
    let parts = [IoSlice::new(&text)];
    let descriptors: Vec<_> = memory.iter().map(|memory| memory.as_raw_fd()).collect();
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let control = if memory.is_some() { &rights[..] } else { &[] };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let _ = sendmsg::<()>(socket.as_raw_fd(), &parts, control, flags, None);
}
