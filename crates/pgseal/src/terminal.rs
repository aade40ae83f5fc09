//! Lending the terminal to a command, so that it can ask for a passphrase.
//!
//! A command has a process group of its own, and only the foreground group may read the terminal.

use std::fs::File;

use nix::sys::signal::{killpg, SigSet, Signal};
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp, Pid};

/// The terminal is lent out; it comes back when this is dropped.
pub struct Foreground {
    terminal: File,
    own: Pid,
}

impl Foreground {
    /// Lends the terminal to `group`, if it is ours to lend.
    pub fn lend(group: Pid) -> Option<Self> {
        let terminal = File::options()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .ok()?;
        let own = getpgrp();
        if tcgetpgrp(&terminal) != Ok(own) || tcsetpgrp(&terminal, group).is_err() {
            return None;
        }
        // It may have asked before it was allowed to, and been stopped for that.
        let _ = killpg(group, Signal::SIGCONT);
        Some(Self { terminal, own })
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        // A background group that takes the terminal is stopped, unless it blocks the signal.
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        let before = blocked.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
        let _ = tcsetpgrp(&self.terminal, self.own);
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
    }
}
