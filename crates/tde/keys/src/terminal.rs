//! Lending the terminal to a command, so that it can ask for a passphrase.
//!
//! A command has a process group of its own, and only the foreground group may read the terminal.
//! A command that reads too early is stopped, or fails: openssl catches the signal and gives up.
//! So the command's shell stops itself with [`STOP`] first, and goes on when the terminal is lent.

use std::fs::File;

use nix::errno::Errno;
use nix::sys::signal::{killpg, SigSet, Signal};
use nix::sys::wait::{waitid, Id, WaitPidFlag};
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp, Pid};

/// The start of a command's shell line if the terminal will be lent to it.
pub const STOP: &str = "kill -STOP $$; ";

/// The terminal of this process, which is in its foreground group.
pub struct Terminal {
    file: File,
    own: Pid,
}

impl Terminal {
    /// Returns the terminal, if there is one and this process is in its foreground group.
    pub fn ours() -> Option<Self> {
        let file = File::options().read(true).write(true).open("/dev/tty");
        let (file, own) = (file.ok()?, getpgrp());
        (tcgetpgrp(&file) == Ok(own)).then_some(Self { file, own })
    }

    /// Lends the terminal to the group of a shell that begins with [`STOP`], and lets it go on.
    pub fn lend(self, group: Pid) -> Foreground {
        // Stopped, or ended by a syntax error; who waits for it later finds it as it is. Woken
        // before it has stopped, it would stop for good.
        let until = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        while waitid(Id::Pid(group), until) == Err(Errno::EINTR) {}
        self.give(group);
        let _ = killpg(group, Signal::SIGCONT);
        Foreground(self)
    }

    fn give(&self, group: Pid) {
        // A background group that gives the terminal away is stopped, unless it blocks the signal.
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        let before = blocked.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
        let _ = tcsetpgrp(&self.file, group);
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
    }
}

/// A terminal that is lent out; it comes back when this is dropped.
pub struct Foreground(Terminal);

impl Drop for Foreground {
    fn drop(&mut self) {
        self.0.give(self.0.own);
    }
}
