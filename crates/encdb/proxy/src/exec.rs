//! `pgseal client exec`: one program, with a proxy that lives as long as it does.
//!
//! The socket is in a directory that only its user can enter, and goes with it. The program is in
//! the foreground, with the standard streams and the terminal of this process: Ctrl-C reaches both,
//! and only the program heeds it.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::future::{pending, Future};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitStatus;

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use pgseal_client::Target;
use pgseal_keys::exit::{Code, Exit};
use tokio::process::{Child, Command};

use crate::directory::PrivateDirectory;
use crate::environment::{changes, VariableError};
use crate::in_process::{self, Settings};
use crate::listener::Address;
use crate::serve::{ServeError, Server};
use crate::service::Service;
use crate::signals::Signals;

/// Signals that the program gets as this process gets them.
const FORWARDED: [Signal; 4] = [
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];
/// The loader's variable.
const PRELOAD: &str = "LD_PRELOAD";
/// Signals that a terminal sends to the program as well.
const OF_TERMINAL: [Signal; 2] = [Signal::SIGINT, Signal::SIGQUIT];

/// Why the program was not run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The environment would lead it past the proxy.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// The socket cannot be made.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The directory of the socket cannot be made, or what is in it.
    #[error("the directory of the socket cannot be used: {0}; set XDG_RUNTIME_DIR or TMPDIR to a directory of yours")]
    Directory(#[source] io::Error),
    /// The library for the program is not there.
    #[error("libpgseal_in_process.so cannot be used ({0}): install it beside pgseal-proxy, or in ../lib from there")]
    Library(#[source] io::Error),
    /// The program does not start, or cannot be waited for.
    #[error("{0} cannot be started ({1}): check that it is there and executable")]
    Command(PathBuf, #[source] io::Error),
}

impl Exit for ExecError {
    fn code(&self) -> Code {
        match self {
            Self::Variable(error) => error.code(),
            Self::Serve(error) => error.code(),
            Self::Directory(_) | Self::Library(_) | Self::Command(..) => Code::Io,
        }
    }
}

/// Runs a program and returns its exit status as a shell says it: 128 and the signal's number, if
/// a signal ended it.
pub async fn client_exec(service: Service, words: &[OsString]) -> Result<u8, ExecError> {
    let directory = PrivateDirectory::new().map_err(ExecError::Directory)?;
    let command = command(&service.target, words, &directory)?;
    let socket = Address::Unix(directory.socket());
    let mut server = Server::listen(&[socket], service).await?;
    let failed = |error| ExecError::Command(program(words), error);
    let serving = async { match server.run().await {} };
    let status = run(command, serving).await.map_err(failed)?;
    Ok(code(status))
}

/// Runs a program that has its engines inside, by the library beside this program's own. Nothing
/// listens at the socket that it finds in its environment.
pub async fn client_exec_in_process(
    target: &Target,
    owner: &Settings<'_>,
    words: &[OsString],
) -> Result<u8, ExecError> {
    let library = library().map_err(ExecError::Library)?;
    let directory = PrivateDirectory::new().map_err(ExecError::Directory)?;
    let written = in_process::write(directory.path(), target, owner);
    written.map_err(ExecError::Directory)?;
    let mut command = command(target, words, &directory)?;
    let others = env::var_os(PRELOAD).filter(|others| !others.is_empty());
    let mut preloaded = library.into_os_string();
    if let Some(others) = others {
        preloaded.push(":");
        preloaded.push(others);
    }
    command.env(PRELOAD, preloaded);
    command.env(in_process::VARIABLE, directory.path());
    let failed = |error| ExecError::Command(program(words), error);
    let status = run(command, pending()).await.map_err(failed)?;
    Ok(code(status))
}

/// Finds the library where it is installed, or beside the program.
fn library() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let directory = program.parent().unwrap_or(Path::new("/"));
    let installed = [directory.join("../lib"), directory.to_owned()];
    let mut paths = installed.iter().map(|it| it.join(in_process::LIBRARY));
    let found = paths.find(|path| path.exists());
    let path = found.ok_or(io::ErrorKind::NotFound)?.canonicalize()?;
    // The loader takes these for ends of a name.
    match path
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| b" :\t\n".contains(byte))
    {
        true => Err(io::ErrorKind::InvalidFilename.into()),
        false => Ok(path),
    }
}

fn program(words: &[OsString]) -> PathBuf {
    words.first().map(PathBuf::from).unwrap_or_default()
}

/// Returns the command, with the environment in which its connections go to the socket.
fn command(
    target: &Target,
    words: &[OsString],
    directory: &PrivateDirectory,
) -> Result<Command, ExecError> {
    let (name, arguments) = words.split_first().expect("clap requires a command");
    let mut command = Command::new(name);
    command.args(arguments);
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    for (name, value) in changes(&variable, target, directory.path())? {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(file) = passwords(target, &variable, directory)? {
        command.env("PGPASSFILE", file);
    }
    Ok(command)
}

/// Writes a password file for the socket, if the connection string or the user's password file has
/// a password for the server: drivers look passwords up by the host that they connect to.
fn passwords(
    target: &Target,
    variable: &dyn Fn(&str) -> Option<String>,
    directory: &PrivateDirectory,
) -> Result<Option<PathBuf>, ExecError> {
    let password = target.config.get_password().map(String::from_utf8_lossy);
    let Some(password) = password.filter(|_| variable("PGPASSWORD").is_none()) else {
        return Ok(None);
    };
    let user = target.config.get_user().unwrap_or_default();
    let place = directory.path().display().to_string();
    let fields = [&place, "*", "*", user, &password].map(escaped);
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".pgpass"));
    let theirs = variable("PGPASSFILE").map(PathBuf::from).or_else(home);
    let theirs = theirs.and_then(|path| fs::read(path).ok());
    let path = directory.passwords();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options.open(&path).and_then(|mut file| {
        writeln!(file, "{}", fields.join(":"))?;
        file.write_all(&theirs.unwrap_or_default())
    });
    written.map_err(ExecError::Directory)?;
    Ok(Some(path))
}

/// Returns a field of a password file.
fn escaped(field: &str) -> String {
    match field {
        "*" => field.to_owned(),
        _ => field.replace('\\', "\\\\").replace(':', "\\:"),
    }
}

/// Runs the command beside something that does not end by itself.
async fn run(
    mut command: Command,
    beside: impl Future<Output = Infallible>,
) -> io::Result<ExitStatus> {
    let ignored = ignored();
    let heeded = |signals: &[Signal]| {
        let heeded = signals.iter().copied().filter(|it| !ignored(*it));
        heeded.collect::<Vec<_>>()
    };
    let mut forwarded = Signals::of(&heeded(&FORWARDED))?;
    let _noted = Signals::of(&heeded(&OF_TERMINAL))?;
    let mut child = command.spawn()?;
    let mut beside = pin!(beside);
    loop {
        tokio::select! {
            status = child.wait() => return status,
            never = &mut beside => match never {},
            signal = forwarded.next() => send(&child, signal),
        }
    }
}

fn send(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    // It may have ended just now, which is seen next.
    let _ = pid.map(|pid| kill(Pid::from_raw(pid), signal));
}

/// Returns which signals this process was started to ignore, as `nohup` does: the program ignores
/// them too.
fn ignored() -> impl Fn(Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    move |signal| mask.unwrap_or_default() & (1 << (signal as i32 - 1)) != 0
}

fn code(status: ExitStatus) -> u8 {
    let signal = || status.signal().map(|number| 128 + number);
    let code = status.code().or_else(signal);
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_a_shells() {
        assert_eq!(code(ExitStatus::from_raw(0)), 0);
        assert_eq!(code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(code(ExitStatus::from_raw(9)), 137);
    }

    #[test]
    fn fields_of_a_password_file() {
        assert_eq!(escaped(r"a:b\c"), r"a\:b\\c");
        assert_eq!(escaped("*"), "*");
    }
}
