//! `pgseal agent`: opens keys once and holds them for the programs of this user, until its time is
//! over, its command ends, or a signal ends it.
//!
//! Exit codes: 3 the socket cannot be made; 9 an agent answers there already; with a command, that
//! command's own.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::thread;

use nix::unistd::{dup2_stderr, dup2_stdout};
use pgseal_keys::agent::{AgentError, Holder, SOCKET};
use pgseal_keys::cluster::Root;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::interrupt::PutOff;
use pgseal_keys::key_set::{KeySet, KEYS_FD};
use pgseal_keys::pin;
use pgseal_keys::unlock::unlock;
use tempfile::TempDir;

use crate::cli::AgentArgs;
use crate::output;

/// The name of the socket in a directory of the user's own.
const NAME: &str = "pgseal-agent";

/// Why the agent, or its command, does not run.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("no directory for the agent's socket can be made ({0}): name a socket with --socket")]
    Directory(io::Error),
    #[error("the agent cannot be started in the background ({0})")]
    Background(io::Error),
    #[error("{0} cannot be run ({1})")]
    Command(PathBuf, io::Error),
}

impl Exit for RunError {
    fn code(&self) -> Code {
        Code::Io
    }
}

pub fn run(args: &AgentArgs) -> Result<ExitCode, Failure> {
    // An agent in the background gets its keys from the process that started it.
    let inherited = KeySet::inherited()?;
    let is_detached = inherited.is_some();
    let keys = match inherited {
        Some(keys) => keys,
        None => opened(args)?,
    };
    if args.background {
        return background(args, &keys);
    }
    let signals = PutOff::new().map_err(AgentError::Wait)?;
    let place = Place::of(args)?;
    let holder = Holder::new(place.socket.clone(), keys)?;
    if !holder.is_locked() {
        warn("keys may be swapped to disk, because the limit of locked memory is too low: raise LimitMEMLOCK or `ulimit -l`");
    }
    match args.command.first() {
        Some(program) => with_command(holder, &place, args, program),
        None => {
            output::print(export(&place.socket))?;
            if is_detached {
                release().map_err(RunError::Background)?;
            }
            holder.serve(args.lifetime, &signals)?;
            // Ended by its time or by a signal, it has done what it was asked.
            signals.take();
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn opened(args: &AgentArgs) -> Result<KeySet, Failure> {
    let ways = args.unlock.ways();
    let open = |data: &PathBuf| Ok(unlock(Root::required(data)?, &ways)?);
    let unlocked = args
        .pgdata
        .iter()
        .map(open)
        .collect::<Result<Vec<_>, Failure>>()?;
    let keys = KeySet::of(&unlocked);
    pin::check_keys(&keys)?;
    Ok(keys)
}

/// The socket, and a directory that goes with it.
struct Place {
    socket: PathBuf,
    _directory: Option<TempDir>,
}

impl Place {
    fn of(args: &AgentArgs) -> Result<Self, RunError> {
        let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
        let named = runtime.map(|path| PathBuf::from(path).join(NAME));
        if let Some(socket) = args.socket.clone().or(named) {
            return Ok(Self {
                socket,
                _directory: None,
            });
        }
        let directory = tempfile::Builder::new().prefix("pgseal-agent.").tempdir();
        let directory = directory.map_err(RunError::Directory)?;
        Ok(Self {
            socket: directory.path().join(NAME),
            _directory: Some(directory),
        })
    }
}

/// Serves until the command ends, and ends as it does.
fn with_command(
    holder: Holder,
    place: &Place,
    args: &AgentArgs,
    program: &OsStr,
) -> Result<ExitCode, Failure> {
    let mut command = Command::new(program);
    command.args(&args.command[1..]).env(SOCKET, &place.socket);
    let failed = |error| RunError::Command(PathBuf::from(program), error);
    let mut child = command.spawn().map_err(failed)?;
    let lifetime = args.lifetime;
    thread::spawn(move || {
        let signals = PutOff::new().map_err(AgentError::Wait)?;
        holder.serve(lifetime, &signals)
    });
    let status = child.wait().map_err(failed)?;
    // The thread that serves does not end, and so does not take it away.
    let _ = fs::remove_file(&place.socket);
    Ok(code_of(status))
}

/// Returns the exit code of a program, or a shell's for a program that a signal ended.
fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Starts an agent that goes on when this process ends, and prints its socket when it listens.
fn background(args: &AgentArgs, keys: &KeySet) -> Result<ExitCode, Failure> {
    let record = keys.memfd()?;
    let own = env::current_exe().map_err(RunError::Background)?;
    let mut command = Command::new(own);
    command
        .arg("agent")
        .env(KEYS_FD, record.as_raw_fd().to_string());
    for data in &args.pgdata {
        command.arg("-D").arg(data);
    }
    if let Some(socket) = &args.socket {
        command.arg("--socket").arg(socket);
    }
    if let Some(time) = args.lifetime {
        command
            .arg("--lifetime")
            .arg(format!("{}ms", time.as_millis()));
    }
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command.spawn().map_err(RunError::Background)?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        let read = BufReader::new(output).read_line(&mut line);
        read.map_err(RunError::Background)?;
    }
    if line.is_empty() {
        // It has said why.
        return Ok(code_of(child.wait().map_err(RunError::Background)?));
    }
    output::print(line)?;
    Ok(ExitCode::SUCCESS)
}

/// Lets go of the terminal or the pipe that this process was started with: a program that waits for
/// the end of the pipe must not wait for the agent.
fn release() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdout(&null)?;
    Ok(dup2_stderr(&null)?)
}

/// Returns the line that a shell evaluates.
fn export(socket: &Path) -> String {
    let quoted = socket.to_string_lossy().replace('\'', r"'\''");
    format!("{SOCKET}='{quoted}'; export {SOCKET}\n")
}

fn warn(what: &str) {
    // The agent serves, whether or not anybody reads this.
    let _ = writeln!(io::stderr(), "pgseal: warning: {what}");
}
