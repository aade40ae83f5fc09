//! Running a program in place of the wrapper.
//!
//! Signals that would end the wrapper are passed on, and it ends when the program has ended. The
//! program cleans up, and anyone who waits for the wrapper must find everything ended.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};

use nix::sys::signal::{kill, SigSet, Signal};
use nix::unistd::Pid;
use pgseal_keys::interrupt::{PutOff, ENDING};

/// Runs `command` to its end. A child inherits what is blocked, so signals are blocked only when it
/// has begun; one that comes before is put off until then.
pub fn run(command: &mut Command) -> io::Result<ExitStatus> {
    let before = PutOff::new()?;
    let mut child = command.spawn()?;
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    ENDING.iter().for_each(|signal| signals.add(*signal));
    signals.thread_block()?;
    if let Some(signal) = before.take() {
        pass_on(signal, &child);
    }
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let signal = signals.wait()?;
        if signal != Signal::SIGCHLD {
            pass_on(signal, &child);
        }
    };
    signals.thread_unblock()?;
    Ok(ended)
}

/// Passes a signal to a child, which has its number as long as it has not been waited for.
fn pass_on(signal: Signal, child: &Child) {
    let number = i32::try_from(child.id()).expect("a process id fits pid_t");
    let _ = kill(Pid::from_raw(number), signal);
}

/// Returns the exit code that a shell reports.
pub fn code_of(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
