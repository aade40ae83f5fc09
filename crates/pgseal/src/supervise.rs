//! Waiting for a program that we run in our place.
//!
//! Signals that would end us are passed on, and we go when the program has gone: it is the program
//! that cleans up, and whoever waits for us must find everything ended.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode, ExitStatus};

use nix::sys::signal::{kill, SigSet, Signal};
use nix::unistd::Pid;

use crate::interrupt::ENDING;

/// Waits for `child`. The signals are blocked only now, because a child inherits what is blocked;
/// one that comes before ends us, and the child if it was meant for the terminal's whole group.
pub fn wait(mut child: Child) -> io::Result<ExitStatus> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    ENDING.iter().for_each(|signal| signals.add(*signal));
    signals.thread_block()?;
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let signal = signals.wait()?;
        if signal != Signal::SIGCHLD {
            // It has a number as long as we have not waited for it.
            let _ = kill(pid_of(&child), signal);
        }
    };
    signals.thread_unblock()?;
    Ok(ended)
}

/// As a shell tells it.
pub fn code_of(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a process id fits pid_t"))
}
