//! Running wrap, unwrap and key commands.
//!
//! A command runs by `sh -c` in the data directory, in a process group of its own. The group is
//! killed when the command takes too long or prints too much, or a signal ends this process. An
//! unwrap command finds the wrapped key in `%p`, a sealed memfd. A wrap command gets the payload
//! on standard input and writes `%p`, a file of mode 0600 in a private directory. What a command
//! writes to standard error is passed on. `pgseal-kms` is run likewise ([`provider`]), except that
//! its error is told as ours.
//!
//! Invariant: nothing that a command printed, and no command line (which may hold a passphrase),
//! appears in an error.

use std::env::{self, VarError};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::poll::PollTimeout;
use nix::sys::signal::{killpg, Signal};
use nix::unistd::{geteuid, mkdtemp, Pid};
use pgseal_contract::variable;
use pgseal_format::ClusterId;
use zeroize::Zeroizing;

use crate::exit::{Code, Exit};
use crate::expand;
use crate::interrupt::PutOff;
use crate::memfd;
use crate::provider::{Request, PROGRAM};
use crate::terminal::{Foreground, Terminal, STOP};
use crate::writer::Rights;

const TIMEOUT: &str = "PGSEAL_COMMAND_TIMEOUT";
const DEFAULT_SECONDS: u64 = 60;

/// The most that an unwrap or key command may print: payload, digits and white space fit ten times.
const MAX_OUTPUT: usize = 1024;

/// The most that a provider may make of a payload.
const MAX_BLOB: usize = 16 * 1024;

/// The most that is read of a provider's error.
const MAX_SENTENCE: u64 = 4096;

/// The most that a wrap command may write.
const MAX_WRAPPED: u64 = 60_000;

/// The purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Wrap,
    Unwrap,
    Key,
    Provider,
}

impl std::fmt::Display for Purpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Wrap => "wrap command",
            Self::Unwrap => "unwrap command",
            Self::Key => "key command",
            Self::Provider => "key provider",
        })
    }
}

/// Returns the command that a variable holds. A command that does not arrive whole must not count
/// as none: another would run, or an unprotected key be made.
pub fn of_environment(variable: &'static str) -> Result<Option<String>, CommandError> {
    match env::var(variable) {
        Ok(command) => Ok(Some(command).filter(|command| !command.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(CommandError::NotText(variable)),
    }
}

/// Why a command gave nothing that can be used.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("{0} is not UTF-8: write it so, or give the option that it replaces")]
    NotText(&'static str),
    #[error("the {0} was not found: check its spelling and PATH")]
    Missing(Purpose),
    #[error("the {0} failed with exit status {1}: run it by hand to see why")]
    Status(Purpose, i32),
    #[error("the {0} was ended by signal {1}: run it by hand to see why")]
    Signal(Purpose, i32),
    #[error("the {0} printed nothing: run it by hand to see why")]
    Nothing(Purpose),
    #[error("the wrap command wrote nothing to %p: check that it names \"%p\" as its output")]
    NothingWritten,
    #[error("the {0} printed more than a key (over {MAX_OUTPUT} bytes): check that it prints nothing else")]
    TooMuch(Purpose),
    #[error("the wrap command wrote more than {MAX_WRAPPED} bytes to %p: check what it writes")]
    TooMuchWritten,
    #[error(
        "the {0} did not finish within {1} seconds and was killed: fix it, or raise {TIMEOUT}"
    )]
    TimeLimit(Purpose, u64),
    #[error(
        "the {0} cannot be run ({1}): check that sh, /proc and the temporary directory are usable"
    )]
    Io(Purpose, io::Error),
    #[error("{0}")]
    Provider(String),
    #[error("{0} gave an answer that cannot be understood: install the version that belongs to this pgseal")]
    Answer(&'static str),
    #[error("{0} is not installed: install it beside pgseal")]
    NotInstalled(PathBuf),
    #[error("{TIMEOUT} must be a number of seconds from 1 to 86400")]
    BadTimeLimit,
}

impl Exit for CommandError {
    fn code(&self) -> Code {
        match self {
            Self::BadTimeLimit | Self::NotText(_) => Code::Usage,
            _ => Code::Provider,
        }
    }
}

/// Runs an unwrap command, and returns what it prints for `wrapped`.
pub fn unwrap(
    line: &str,
    rights: Option<Rights>,
    wrapped: &[u8],
    data: &Path,
) -> Result<Secret, CommandError> {
    let purpose = Purpose::Unwrap;
    let fd = memfd::sealed(wrapped).map_err(|error| CommandError::Io(purpose, error))?;
    let file = format!("/proc/self/fd/{}", fd.as_raw_fd());
    run(purpose, (line, rights), &file, data, Stdin::Inherited)
}

/// Runs a key command, and returns what it prints.
pub fn key(line: &str, rights: Option<Rights>, data: &Path) -> Result<Secret, CommandError> {
    run(Purpose::Key, (line, rights), "%p", data, Stdin::Inherited)
}

/// Runs the wrap command `template`, and returns what it writes for `payload`.
pub fn wrap(template: &str, payload: &[u8], data: &Path) -> Result<Vec<u8>, CommandError> {
    let failed = |error| CommandError::Io(Purpose::Wrap, error);
    let dir = PrivateDirectory::new().map_err(failed)?;
    let path = dir.0.join("wrapped");
    let mut new = OpenOptions::new();
    let file = new.write(true).create_new(true).mode(0o600).open(&path);
    file.map_err(failed)?;
    let name = path.to_string_lossy().into_owned();
    run(
        Purpose::Wrap,
        (template, None),
        &name,
        data,
        Stdin::Payload(payload),
    )?;
    let mut wrapped = Vec::new();
    let reader = File::open(&path).map_err(failed)?;
    reader
        .take(MAX_WRAPPED + 1)
        .read_to_end(&mut wrapped)
        .map_err(failed)?;
    match wrapped.len() {
        0 => Err(CommandError::NothingWritten),
        len if u64::try_from(len).is_ok_and(|len| len <= MAX_WRAPPED) => Ok(wrapped),
        _ => Err(CommandError::TooMuchWritten),
    }
}

/// Runs `pgseal-kms` for `request`: it reads `input`, and what it prints is returned.
pub fn provider(
    request: Request,
    (uri, cluster): (&str, ClusterId),
    rights: Option<Rights>,
    input: &[u8],
    data: &Path,
) -> Result<Secret, CommandError> {
    let purpose = Purpose::Provider;
    let failed = |error| CommandError::Io(purpose, error);
    let program = env::current_exe().map_err(failed)?.with_file_name(PROGRAM);
    if !program.exists() {
        return Err(CommandError::NotInstalled(program));
    }
    let seconds = time_limit()?;
    let terminal = Terminal::ours();
    let first = terminal.as_ref().map_or("", |_| STOP);
    let mut command = shell(&format!("{first}exec \"$0\" \"$@\""), data);
    command
        .arg(program)
        .args([request.argument(), uri, &cluster.to_string()]);
    if let Some(rights) = rights {
        limit(&mut command, rights);
    }
    let mut said = memfd::open().map_err(failed)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(said.try_clone().map_err(failed)?);
    let mut running = Running::start(command, terminal, purpose, seconds).map_err(failed)?;
    running.feed(input).map_err(failed)?;
    let limit = match request {
        Request::Wrap => MAX_BLOB,
        Request::Unwrap | Request::Age => MAX_OUTPUT,
    };
    let output = running.output(limit)?;
    let ended = check_status(purpose, running.wait()?);
    ended.map_err(|error| sentence(&mut said).map_or(error, CommandError::Provider))?;
    if output.is_empty() {
        return Err(CommandError::Nothing(purpose));
    }
    Ok(output)
}

/// Returns the last line that a provider wrote to standard error, if it can be shown: a service's
/// answer may be in it.
fn sentence(said: &mut File) -> Option<String> {
    let mut text = Vec::new();
    said.rewind().ok()?;
    said.take(MAX_SENTENCE).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    let shown = |character: char| match character.is_control() {
        true => ' ',
        false => character,
    };
    let line = line.strip_prefix("pgseal-kms: ").unwrap_or(line);
    Some(line.chars().map(shown).collect())
}

/// A directory that only this user enters; it is removed with its files when this is dropped.
struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    fn new() -> io::Result<Self> {
        let template = env::temp_dir().join("pgseal.XXXXXX");
        Ok(Self(mkdtemp(&template)?))
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // A wrapped key that stays there opens nothing without its secret.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The output of a command.
pub type Secret = Zeroizing<Vec<u8>>;

enum Stdin<'a> {
    /// The command may ask its user.
    Inherited,
    Payload(&'a [u8]),
}

fn run(
    purpose: Purpose,
    (template, rights): (&str, Option<Rights>),
    file: &str,
    data: &Path,
    stdin: Stdin<'_>,
) -> Result<Secret, CommandError> {
    let failed = |error| CommandError::Io(purpose, error);
    let seconds = time_limit()?;
    let terminal = Terminal::ours();
    let first = terminal.as_ref().map_or("", |_| STOP);
    let line = expand(template, file, &data.to_string_lossy());
    let mut command = shell(&format!("{first}{line}"), data);
    if let Some(rights) = rights {
        limit(&mut command, rights);
    }
    command.stdin(match stdin {
        Stdin::Inherited => Stdio::inherit(),
        Stdin::Payload(_) => Stdio::piped(),
    });
    let listens = purpose != Purpose::Wrap;
    command.stdout(if listens {
        Stdio::piped()
    } else {
        own_stderr().map_err(failed)?
    });
    let mut running = Running::start(command, terminal, purpose, seconds).map_err(failed)?;
    if let Stdin::Payload(payload) = stdin {
        running.feed(payload).map_err(failed)?;
    }
    let output = running.output(MAX_OUTPUT)?;
    check_status(purpose, running.wait()?)?;
    if listens && output.is_empty() {
        return Err(CommandError::Nothing(purpose));
    }
    Ok(output)
}

fn time_limit() -> Result<u64, CommandError> {
    let Some(text) = env::var_os(TIMEOUT) else {
        return Ok(DEFAULT_SECONDS);
    };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    seconds
        .filter(|seconds| (1..=86_400).contains(seconds))
        .ok_or(CommandError::BadTimeLimit)
}

/// Returns the command with an environment that shows no trace of pgseal.
fn shell(line: &str, data: &Path) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).process_group(0);
    command.env_remove(variable::KEYS_FD.as_str());
    if let Some(list) = env::var_os("LD_PRELOAD") {
        command.env("LD_PRELOAD", without_library(&list));
    }
    if data.is_dir() {
        command.current_dir(data);
    }
    command
}

/// Limits the command to `rights` if root runs it: the caller's supplementary groups are dropped
/// too.
fn limit(command: &mut Command, rights: Rights) {
    if geteuid().is_root() && rights.uid != 0 {
        command.uid(rights.uid).gid(rights.gid);
    }
}

fn without_library(list: &OsString) -> OsString {
    let others = list.as_bytes().split(|byte| b" :".contains(byte));
    let others: Vec<&[u8]> = others
        .filter(|entry| !entry.ends_with(b"libpgseal.so"))
        .collect();
    OsString::from_vec(others.join(&b':'))
}

/// Returns standard error for a wrap command's output, which belongs to the operator, not to
/// anyone who reads this program's standard output.
fn own_stderr() -> io::Result<Stdio> {
    Ok(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?))
}

fn check_status(purpose: Purpose, status: ExitStatus) -> Result<(), CommandError> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(127), _) => Err(CommandError::Missing(purpose)),
        (Some(code), _) => Err(CommandError::Status(purpose, code)),
        (None, signal) => Err(CommandError::Signal(purpose, signal.unwrap_or(0))),
    }
}

/// A command that runs. If it is dropped before its end, it is killed with all that it started.
struct Running {
    child: Child,
    purpose: Purpose,
    seconds: u64,
    deadline: Instant,
    ended: bool,
    /// gives the terminal back when the command has ended
    _foreground: Option<Foreground>,
    /// lets a signal that came meanwhile end this process after all that
    signals: PutOff,
}

impl Running {
    fn start(
        mut command: Command,
        terminal: Option<Terminal>,
        purpose: Purpose,
        seconds: u64,
    ) -> io::Result<Self> {
        let signals = PutOff::new()?;
        let child = command.spawn()?;
        Ok(Self {
            signals,
            _foreground: terminal.map(|terminal| terminal.lend(group(&child))),
            child,
            purpose,
            seconds,
            deadline: Instant::now() + Duration::from_secs(seconds),
            ended: false,
        })
    }

    /// Writes the payload to the command. A command that does not read its input does not fail by
    /// that.
    fn feed(&mut self, payload: &[u8]) -> io::Result<()> {
        match self
            .child
            .stdin
            .take()
            .map(|mut pipe| pipe.write_all(payload))
        {
            Some(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads all that the command prints, up to `limit` bytes.
    fn output(&mut self, limit: usize) -> Result<Secret, CommandError> {
        // Never reallocated: a growing buffer would leave copies of a key behind.
        let mut output = Zeroizing::new(Vec::with_capacity(limit + 1));
        let Some(mut pipe) = self.child.stdout.take() else {
            return Ok(output);
        };
        let mut chunk = Zeroizing::new([0; MAX_OUTPUT + 1]);
        loop {
            let room = (limit + 1 - output.len()).min(chunk.len());
            match self.read(&mut pipe, &mut chunk[..room])? {
                0 => return Ok(output),
                len => output.extend_from_slice(&chunk[..len]),
            }
            if output.len() > limit {
                return Err(CommandError::TooMuch(self.purpose));
            }
        }
    }

    fn read(&self, pipe: &mut ChildStdout, chunk: &mut [u8]) -> Result<usize, CommandError> {
        loop {
            let left = self.time_left()?.as_millis();
            let timeout = PollTimeout::try_from(left + 1).unwrap_or(PollTimeout::MAX);
            let failed = |error| CommandError::Io(self.purpose, error);
            let readable = self.signals.readable(pipe.as_fd(), timeout);
            if readable.map_err(failed)? {
                // This does not wait, so no signal interrupts it.
                return pipe.read(chunk).map_err(failed);
            }
        }
    }

    fn wait(&mut self) -> Result<ExitStatus, CommandError> {
        let failed = |error| CommandError::Io(self.purpose, error);
        loop {
            if let Some(status) = self.child.try_wait().map_err(failed)? {
                self.ended = true;
                return Ok(status);
            }
            let soon = self.time_left()?.min(Duration::from_millis(2));
            self.signals.rest(soon).map_err(failed)?;
        }
    }

    fn time_left(&self) -> Result<Duration, CommandError> {
        let left = self.deadline.checked_duration_since(Instant::now());
        left.ok_or(CommandError::TimeLimit(self.purpose, self.seconds))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            kill(&self.child);
            let _ = self.child.wait();
        }
    }
}

/// Kills the command's group, which is gone already if all of it has just ended.
fn kill(child: &Child) {
    let _ = killpg(group(child), Signal::SIGKILL);
}

/// Returns the command's process group, whose number is that of its shell.
fn group(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a process id fits pid_t"))
}

#[cfg(test)]
mod tests;
