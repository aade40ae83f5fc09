//! Signals that would end this process, put off while something must be put right first: a
//! terminal that does not echo, a program that would go on alone, a directory that is not needed.
//!
//! A signal that comes is noted, and waits are given up. When the last [`PutOff`] is dropped, the
//! signal ends this process as it would have. A [`PutOff`] that is declared before what must be
//! put right is dropped after it. Signals are caught and not blocked: a program that is started
//! meanwhile would inherit a block, and could not be ended.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::Signal;
use signal_hook::{flag, low_level};

/// The signals that end a program from outside, and can be put off.
pub const ENDING: [Signal; 4] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
];

/// A guard: signals are put off as long as one of these lives.
pub struct PutOff(&'static Handlers);

/// The handlers of signals, installed when signals are first put off, for the life of the process.
struct Handlers {
    /// the number of guards that put signals off
    holders: AtomicUsize,
    /// whether signals end this process: true while there is no guard
    end: Arc<AtomicBool>,
    /// the signal that came while signals were put off, or 0
    came: Arc<AtomicUsize>,
    /// has something to read after a signal, and never blocks
    bell: UnixStream,
}

impl Handlers {
    fn get() -> io::Result<&'static Self> {
        static HANDLERS: OnceLock<Handlers> = OnceLock::new();
        if let Some(handlers) = HANDLERS.get() {
            return Ok(handlers);
        }
        let handlers = Self::install()?;
        Ok(HANDLERS.get_or_init(|| handlers))
    }

    fn install() -> io::Result<Self> {
        let (bell, rope) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let (end, came) = (Arc::new(AtomicBool::new(true)), Arc::default());
        let ignored = ignored()?;
        for signal in ENDING.map(|signal| signal as i32) {
            if ignored & (1 << (signal - 1)) == 0 {
                flag::register_conditional_default(signal, Arc::clone(&end))?;
                flag::register_usize(signal, Arc::clone(&came), signal.unsigned_abs() as usize)?;
                low_level::pipe::register(signal, rope.try_clone()?)?;
            }
        }
        Ok(Self {
            holders: AtomicUsize::new(0),
            end,
            came,
            bell,
        })
    }
}

impl PutOff {
    /// Puts signals off from now on.
    pub fn new() -> io::Result<Self> {
        let handlers = Handlers::get()?;
        handlers.holders.fetch_add(1, Ordering::SeqCst);
        handlers.end.store(false, Ordering::SeqCst);
        Ok(Self(handlers))
    }

    /// Takes the signal that came, for a caller that deals with it. It no longer ends this
    /// process.
    pub fn take(&self) -> Option<Signal> {
        let came = self.0.came.swap(0, Ordering::SeqCst);
        while matches!((&self.0.bell).read(&mut [0; 8]), Ok(1..)) {}
        Signal::try_from(i32::try_from(came).ok()?).ok()
    }

    /// Whether `fd` can be read before the time is over, unless a signal interrupts that.
    pub fn readable(&self, fd: BorrowedFd<'_>, time: PollTimeout) -> io::Result<bool> {
        Self::wait(
            &mut [self.watch(), PollFd::new(fd, PollFlags::POLLIN)],
            time,
        )
    }

    /// Lets the time pass, unless a signal interrupts that.
    pub fn rest(&self, time: Duration) -> io::Result<()> {
        let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
        Self::wait(&mut [self.watch()], time).map(drop)
    }

    fn watch(&self) -> PollFd<'_> {
        PollFd::new(self.0.bell.as_fd(), PollFlags::POLLIN)
    }

    /// Whether there is something to read; the first of `fds` reports signals.
    fn wait(fds: &mut [PollFd<'_>], time: PollTimeout) -> io::Result<bool> {
        match poll(fds, time) {
            Err(Errno::EINTR) => return Ok(false),
            ready => ready?,
        };
        match fds[0].any() {
            Some(true) => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(fds[1..].iter().any(|fd| fd.any() == Some(true))),
        }
    }
}

impl Drop for PutOff {
    fn drop(&mut self) {
        if self.0.holders.fetch_sub(1, Ordering::SeqCst) > 1 {
            return;
        }
        self.0.end.store(true, Ordering::SeqCst);
        if let Some(signal) = self.take() {
            let _ = low_level::emulate_default_handler(signal as i32);
        }
    }
}

/// Catches SIGCHLD if the parent left it ignored: the kernel would reap children before this
/// process does. A caught signal has its default again in a program that is executed.
pub fn heed_children() {
    const CHILD: i32 = Signal::SIGCHLD as i32;
    if ignored().is_ok_and(|ignored| ignored & (1 << (CHILD - 1)) != 0) {
        let _ = flag::register(CHILD, Arc::default());
    }
}

/// Returns the signals that this process ignores, as under nohup: they interrupt nothing.
fn ignored() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
