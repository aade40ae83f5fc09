//! Signals that would end us, put off while something must be put right first: the terminal that
//! does not echo, a command that would go on without us.
//!
//! A signal that came is not taken: it stays pending, whoever waits gives up, and when [`PutOff`]
//! is dropped it ends us as it would have. Declared before what must be put right, it is dropped
//! after that. Only the calling thread puts signals off: there is no other one while a key is
//! unlocked.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// What ends a program from outside, and can be put off.
pub const ENDING: [Signal; 4] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
];

/// Signals are put off as long as this lives.
pub struct PutOff {
    arrived: SignalFd,
    before: SigSet,
}

impl PutOff {
    /// From now on. What is started from now on would inherit it.
    pub fn new() -> io::Result<Self> {
        let ignored = ignored()?;
        let mut signals = SigSet::empty();
        for signal in ENDING {
            if ignored & (1 << (signal as i32 - 1)) == 0 {
                signals.add(signal);
            }
        }
        let arrived = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?;
        let before = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(Self { arrived, before })
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
        PollFd::new(self.arrived.as_fd(), PollFlags::POLLIN)
    }

    /// Whether there is something to read; the first of `fds` tells of signals.
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
        let _ = self.before.thread_set_mask();
    }
}

/// The signals that this process ignores, as under nohup: they interrupt nothing.
fn ignored() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
