//! This process, and what it may do: the role of its program, the owner of its memory, what its
//! connection may receive, what its server was told, and the words that it took out of its
//! environment. Whatever may be asked of it costs a load or two, in a signal handler too.
//!
//! The owner of the memory matters after `vfork`: a child runs in its parent's memory until it
//! execs, and may close or copy descriptors before that (PL/Python's subprocess closes all of
//! them). The table of open files is its parent's and must stay as it is, or the parent's next
//! write to a sealed file would be in clear.
//!
//! The owner's process id is in a page that the kernel wipes at every fork that copies memory,
//! by whatever call: wiped means a copy of our own, another id means borrowed memory.

use crate::list::List;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock};

/// This process.
pub static PROCESS: Process = Process {
    role: AtomicU8::new(Role::Inert as u8),
    connection: AtomicU8::new(Connection::Off as u8),
    owner: AtomicPtr::new(std::ptr::null_mut()),
    server: Server {
        pinned: AtomicBool::new(false),
        checked: AtomicBool::new(false),
        barred: AtomicBool::new(false),
        walreceiver_led: AtomicBool::new(false),
        key_files: List::new(),
        library: OnceLock::new(),
    },
    taken_out: TakenOut {
        secrets: Mutex::new(Vec::new()),
        receiver: OnceLock::new(),
        wal_receiver: OnceLock::new(),
        backup_runs: AtomicBool::new(false),
    },
};

/// All that a process knows of itself.
pub struct Process {
    role: AtomicU8,
    connection: AtomicU8,
    /// The page of the owner's process id.
    owner: AtomicPtr<AtomicI32>,
    /// The server, if it is one.
    pub server: Server,
    /// The settings that are no longer in its environment.
    pub taken_out: TakenOut,
}

/// The part that the library plays in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// Nothing.
    Inert,
    /// It gives clear bytes.
    Tool,
    /// It gives clear bytes, and guards them against SQL.
    Server,
    /// It gives stored bytes, and `pg_control` in clear.
    Viewer,
}

/// The verdict on what this process may send. It is set once, when a connection has started, and
/// inherited from the postmaster as `Undecided`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Connection {
    /// Not the server of a sealed cluster: nothing to gate.
    Off,
    /// No connection has started here: the postmaster, a worker, a session before its start.
    Undecided,
    /// A session that is no walsender, and showed no good token.
    Session,
    /// A session that is no walsender, and showed a good token.
    Trusted,
    /// A walsender that proved nothing: logical replication, SQL, and questions such as
    /// IDENTIFY_SYSTEM, which Patroni asks on connections whose options it sets itself.
    Unproven,
    /// A walsender that asked for what is stored.
    Raw,
    /// A walsender that showed a good token.
    Clear,
    /// Refused: the message to the client may leave, and the process ends.
    Ending,
    /// Refused, too late for a message: nothing leaves any more.
    Cut,
}

/// A server, by what it was told and what it has done once.
pub struct Server {
    /// Its environment names the key that its cluster must have.
    pub pinned: AtomicBool,
    /// It was asked whether it may run on the cluster that it opened first.
    pub checked: AtomicBool,
    /// A cluster is being unlocked, or could not be.
    pub barred: AtomicBool,
    /// The calls of its module that connects to a primary lead to this library.
    pub walreceiver_led: AtomicBool,
    /// The key material files that it opens for no role.
    pub key_files: List<Vec<u8>>,
    /// The file that the library was loaded from, if that is known.
    pub library: OnceLock<Option<LibraryFile>>,
}

/// The file that the library was loaded from: its path, its file system's and its own number.
pub struct LibraryFile {
    /// absolute
    pub path: PathBuf,
    /// `st_dev` and `st_ino`
    pub file: (u64, u64),
}

/// Settings that were taken out of the environment, as `NAME=value`.
pub struct TakenOut {
    /// Those that lead to keys, for a cluster that is unlocked later.
    pub secrets: Mutex<Vec<CString>>,
    /// The word by which a connection declares itself.
    pub receiver: OnceLock<CString>,
    /// The word for the connection that brings the WAL into a tar.
    pub wal_receiver: OnceLock<CString>,
    /// Has that backup begun? Its own connection was made before.
    pub backup_runs: AtomicBool,
}

impl Process {
    /// Does the library act in this program?
    #[inline]
    pub fn acts(&self) -> bool {
        self.role() != Role::Inert
    }

    /// Is this the server, in any of its modes?
    pub fn is_server(&self) -> bool {
        self.role() == Role::Server
    }

    /// Does this program see what is stored, except `pg_control`?
    pub fn is_viewer(&self) -> bool {
        self.role() == Role::Viewer
    }

    /// Returns what the library does in this program.
    #[inline]
    pub fn role(&self) -> Role {
        match self.role.load(Ordering::Relaxed) {
            0 => Role::Inert,
            1 => Role::Tool,
            2 => Role::Server,
            _ => Role::Viewer,
        }
    }

    /// Called once, before `main`.
    pub fn set_role(&self, role: Role) {
        self.role.store(role as u8, Ordering::Relaxed);
    }

    /// Returns what its connection may receive. Comparisons and no table: `send` asks here, and
    /// mostly finds the processor's caches cold.
    #[inline]
    pub fn connection(&self) -> Connection {
        match self.connection.load(Ordering::Relaxed) {
            0 => Connection::Off,
            1 => Connection::Undecided,
            2 => Connection::Session,
            3 => Connection::Trusted,
            4 => Connection::Unproven,
            5 => Connection::Raw,
            6 => Connection::Clear,
            7 => Connection::Ending,
            _ => Connection::Cut,
        }
    }

    /// The verdict on its connection has changed.
    pub fn set_connection(&self, connection: Connection) {
        self.connection.store(connection as u8, Ordering::Relaxed);
    }

    /// May this process change what it finds in memory?
    pub fn owns_memory(&self) -> bool {
        let Some(owner) = self.owner() else {
            return true;
        };
        // SAFETY: getpid(2) takes no arguments.
        let me = unsafe { libc::getpid() };
        match owner.load(Ordering::Acquire) {
            0 => {
                owner.store(me, Ordering::Release);
                true
            }
            other => other == me,
        }
    }

    /// Makes the owner's page: before `main`, so that it is never first asked for in a `vfork`
    /// child.
    pub fn own_memory(&self) {
        const PAGE: usize = 4096;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the page is new and our own; the advice is on it alone.
        unsafe {
            let page = libc::mmap(std::ptr::null_mut(), PAGE, access, flags, -1, 0);
            if page != libc::MAP_FAILED && libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) == 0 {
                self.owner.store(page.cast(), Ordering::Release);
            }
        }
        self.owns_memory();
    }

    /// None on kernels before 4.14, which cannot wipe the page.
    fn owner(&self) -> Option<&'static AtomicI32> {
        let page = self.owner.load(Ordering::Acquire);
        // SAFETY: the pointer is set by `own_memory`, to a page that stays mapped.
        unsafe { page.as_ref() }
    }
}
