//! Programs: run to their end, with what they cost, or ended when the user asks for it.
//!
//! The CPU of a program is what the kernel adds to this process's account when it is waited for
//! (rusage): its own, and that of all that it has waited for. So nothing else may be waited for at
//! the same moment: one thread runs programs.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{getrusage, UsageWho};
use nix::sys::signal::{kill, killpg, Signal};
use nix::sys::time::TimeVal;
use nix::sys::wait::{waitid, waitpid, Id, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

use crate::error::{files, BenchError};
use crate::host::account;

/// How often a waiting run looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(100);
/// A program that is asked to end gets that long before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time that programs have to end when another program left them behind.
const ORPHANS_LIMIT: Duration = Duration::from_secs(60);
/// The number of lines, of a program's or server's output, that an error shows.
const LAST_LINES: usize = 12;

/// Set when the user wants it to stop.
#[derive(Debug, Clone, Default)]
pub struct Stop(pub Arc<AtomicBool>);

impl Stop {
    /// Was it asked for?
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// User and system seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cpu {
    /// The time in the programs.
    pub user_s: f64,
    /// The time in the kernel for them.
    pub system_s: f64,
}

impl Cpu {
    /// Returns the time since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            user_s: self.user_s - before.user_s,
            system_s: self.system_s - before.system_s,
        }
    }

    /// Both together.
    pub fn plus(self, more: Self) -> Self {
        Self {
            user_s: self.user_s + more.user_s,
            system_s: self.system_s + more.system_s,
        }
    }
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    program: String,
    /// How it ended.
    pub status: ExitStatus,
    /// The text on its standard output.
    pub stdout: String,
    /// The text on its standard error.
    pub stderr: String,
    /// The time from its start to its end.
    pub elapsed: Duration,
    /// The processor time of the program and of all that it waited for.
    pub cpu: Cpu,
}

impl Finished {
    /// It, if it ended well.
    pub fn checked(self) -> Result<Self, BenchError> {
        if self.status.success() {
            return Ok(self);
        }
        Err(BenchError::Program {
            program: self.program,
            status: self.status.to_string(),
            output: last_lines(&format!("{}{}", self.stdout, self.stderr)),
        })
    }
}

/// Runs a program to its end, or ends it.
pub fn run(command: &mut Command, stop: &Stop) -> Result<Finished, BenchError> {
    let program = Program::start(command)?;
    while !program.wait(LOOK) {
        if stop.is_set() {
            return Err(BenchError::Interrupted);
        }
    }
    program.finish()
}

/// A program that was started. Dropped before it is finished, as on an error, it is ended.
#[derive(Debug)]
pub struct Program {
    name: PathBuf,
    /// None when it has been waited for.
    child: Option<Child>,
    output: File,
    errors: File,
    since: Instant,
    ended: Receiver<()>,
}

impl Program {
    /// Starts it, with nothing to read.
    pub fn start(command: &mut Command) -> Result<Self, BenchError> {
        let name = PathBuf::from(command.get_program());
        let unstartable = |error| BenchError::Start(name.clone(), error);
        let output = tempfile::tempfile().map_err(unstartable)?;
        let errors = tempfile::tempfile().map_err(unstartable)?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(unstartable)?)
            .stderr(errors.try_clone().map_err(unstartable)?);
        let since = Instant::now();
        let child = spawn(command).map_err(unstartable)?;
        Ok(Self {
            name,
            ended: watch(&child),
            child: Some(child),
            output,
            errors,
            since,
        })
    }

    /// Waits so long; has it ended then?
    pub fn wait(&self, time: Duration) -> bool {
        has_ended(&self.ended, time)
    }

    /// Returns its process id; 0 when it has been waited for.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            // It has its number until we have waited for it.
            let _ = kill(pid_of(child), signal);
        }
    }

    /// Returns the result of the program, once it has ended.
    pub fn finish(mut self) -> Result<Finished, BenchError> {
        let elapsed = self.since.elapsed();
        let child = self.child.as_mut().expect("it is finished once only");
        let unreadable = |error| BenchError::Start(self.name.clone(), error);
        let (status, cpu) = reap(child).map_err(unreadable)?;
        self.child = None;
        Ok(Finished {
            program: self.name.display().to_string(),
            status,
            stdout: text(&mut self.output).map_err(unreadable)?,
            stderr: text(&mut self.errors).map_err(unreadable)?,
            elapsed,
            cpu,
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(child) = self.child.as_mut() {
            end(child, Signal::SIGTERM);
        }
    }
}

/// Starts it in a process group of its own, which a terminal's Ctrl-C does not reach.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    command.process_group(0).spawn()
}

/// Waits until it has ended, and leaves it for [`reap`]; false if it shall stop or the time is
/// over.
pub fn wait_until_ended(child: &Child, limit: Option<Duration>, stop: &Stop) -> bool {
    let ended = watch(child);
    let start = Instant::now();
    while !has_ended(&ended, LOOK) {
        if stop.is_set() || limit.is_some_and(|limit| start.elapsed() > limit) {
            return false;
        }
    }
    true
}

/// Is told when the child has ended.
fn watch(child: &Child) -> Receiver<()> {
    let (sender, ended) = mpsc::channel();
    let pid = pid_of(child);
    // Nobody listens any more when the wait was given up.
    thread::spawn(move || {
        let _ = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        let _ = sender.send(());
    });
    ended
}

/// It has also if the watcher is gone, who goes when it has told.
fn has_ended(ended: &Receiver<()>, time: Duration) -> bool {
    !matches!(ended.recv_timeout(time), Err(RecvTimeoutError::Timeout))
}

/// Takes leave of a child that has ended, or waits for it: its status, and what it cost.
pub fn reap(child: &mut Child) -> io::Result<(ExitStatus, Cpu)> {
    let before = children_cpu()?;
    let status = child.wait()?;
    Ok((status, children_cpu()?.since(before)))
}

/// Waits for all that programs left behind, as pg_ctl does its servers; it has been told to end.
pub fn reap_orphans(stop: &Stop) -> Result<(), BenchError> {
    let start = Instant::now();
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) if stop.is_set() => return Err(BenchError::Interrupted),
            Ok(WaitStatus::StillAlive) if start.elapsed() > ORPHANS_LIMIT => {
                return Err(BenchError::Program {
                    program: "a process that another left behind".to_owned(),
                    status: "it does not end".to_owned(),
                    output: String::new(),
                });
            }
            Ok(WaitStatus::StillAlive) => thread::sleep(LOOK),
            Ok(_) => {}
            Err(_) => return Ok(()),
        }
    }
}

/// Asks the child's whole group to end, kills it if it does not, and waits for it.
pub fn end(child: &mut Child, signal: Signal) {
    let group = pid_of(child);
    // It has its number until we have waited for it.
    let _ = killpg(group, signal);
    let _ = killpg(group, Signal::SIGCONT);
    if !wait_until_ended(child, Some(PATIENCE), &Stop::default()) {
        let _ = killpg(group, Signal::SIGKILL);
    }
    let _ = child.wait();
}

/// Ends every process below this one, and waits for all: when a run is over, nothing of it is left,
/// not even what was started by a program that is gone. Orphans come to us, who are a subreaper.
pub fn end_all() {
    for signal in [Signal::SIGQUIT, Signal::SIGKILL] {
        let start = Instant::now();
        let mut asked = BTreeSet::new();
        while start.elapsed() < PATIENCE {
            while waitpid(None, Some(WaitPidFlag::WNOHANG)).is_ok_and(|s| s.pid().is_some()) {}
            let below = account::descendants(std::process::id()).unwrap_or_default();
            let Some(below) = below.get(1..).filter(|below| !below.is_empty()) else {
                return;
            };
            for pid in below.iter().copied().filter_map(pid) {
                if asked.insert(pid) {
                    let _ = kill(pid, signal);
                    let _ = kill(pid, Signal::SIGCONT);
                }
            }
            thread::sleep(LOOK / 10);
        }
    }
}

/// The child's process id.
pub fn pid_of(child: &Child) -> Pid {
    pid(child.id()).expect("a process id fits pid_t")
}

/// A process id as /proc names it.
pub fn pid(number: u32) -> Option<Pid> {
    Some(Pid::from_raw(i32::try_from(number).ok()?))
}

/// The end of a text, for an error.
pub fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

/// The end of a file, for an error.
pub fn last_lines_of(path: &Path) -> Result<String, BenchError> {
    let bytes = std::fs::read(path).map_err(files(path))?;
    Ok(last_lines(&String::from_utf8_lossy(&bytes)))
}

/// Returns the processor time of all children that were waited for.
pub fn children_cpu() -> io::Result<Cpu> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok(Cpu {
        user_s: seconds(usage.user_time()),
        system_s: seconds(usage.system_time()),
    })
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

fn text(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_status_and_cost_of_a_program() {
        let done = run(&mut sh("echo out; echo err >&2"), &Stop::default()).expect("sh runs");
        assert_eq!(
            (done.stdout.as_str(), done.stderr.as_str()),
            ("out\n", "err\n")
        );
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 3";
        let done = run(&mut sh(work), &Stop::default()).expect("sh runs");
        assert_eq!(done.status.code(), Some(3));
        let cpu = done.cpu.user_s + done.cpu.system_s;
        assert!(cpu > 0.01 && cpu < 60.0, "{cpu}");
        let error = done.checked().expect_err("3 is a failure").to_string();
        assert_eq!(error, "/bin/sh failed (exit status: 3):\n");
    }

    #[test]
    fn a_program_ends_when_it_shall_stop() {
        let stop = Stop::default();
        stop.0.store(true, Ordering::Relaxed);
        let start = Instant::now();
        let result = run(&mut sh("sleep 60; true"), &stop);
        assert!(matches!(result, Err(BenchError::Interrupted)), "{result:?}");
        assert!(start.elapsed() < PATIENCE);
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("/nonexistent/x"), &Stop::default());
        let text = error.expect_err("it is missing").to_string();
        assert!(
            text.starts_with("/nonexistent/x cannot be started"),
            "{text}"
        );
    }

    #[test]
    fn an_error_shows_the_end_of_what_was_printed() {
        let many: String = (0..30).map(|n| format!("{n}\n")).collect();
        let end = last_lines(&many);
        assert!(end.starts_with("18\n") && end.ends_with("29"), "{end}");
        assert_eq!(last_lines("one\n"), "one");
    }
}
