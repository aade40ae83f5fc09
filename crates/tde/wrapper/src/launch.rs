//! Starting a program with the library inside.
//!
//! Invariant: a program is started only when the library will be loaded into it; whatever would
//! make the loader drop it (a missing file, a noexec mount, set-uid, capabilities) is refused
//! before. A preload that is dropped all the same leaves the program without keys, so it stops at
//! the sealed control file; one that makes a cluster is asked first (`ask.rs`).

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{self, Path, PathBuf};
use std::process::Command;

use nix::sys::statvfs::{statvfs, FsFlags};
use pgseal_contract::{file, variable};
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::key_set::{KeySet, KeySetError, KEYS_FD};
use rustix::fs::getxattr_query;

use crate::supervise;

/// The name of the wrappers' program, which is beside pgseal.
pub const WRAPPER: &str = "pgseal-twin";
/// The name of the program behind `pgseal bench`, which is beside pgseal.
pub const BENCH: &str = "pgseal-bench";
/// The name of the program behind `pgseal proxy`, which is beside pgseal.
pub const PROXY: &str = "pgseal-proxy";
const LIBRARY: &str = file::LIBRARY.as_str();
const LIBRARY_PATH: &str = variable::LIBRARY.as_str();
const PROGRAM_PATH: &str = variable::COMMAND.as_str();
/// The variable of programs beside PostgreSQL's in which the library acts.
const PROGRAMS: &str = variable::PROGRAMS.as_str();
/// The variable of data directories whose `pg_control` all other programs see in clear.
const VIEW: &str = variable::VIEW.as_str();
const PRELOAD: &str = "LD_PRELOAD";

/// Why a program is not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("{LIBRARY} is not beside pgseal ({0}): install it in ../lib, or set {LIBRARY_PATH}")]
    NoLibrary(PathBuf),
    #[error("{0} cannot be read ({1}): check its owner and mode")]
    Unreadable(PathBuf, io::Error),
    #[error("{0} is not a shared library of this machine: install pgseal again")]
    NotALibrary(PathBuf),
    #[error("{0} is on a file system that is mounted noexec, so no program can load it: install pgseal elsewhere, or mount that with exec")]
    NoExec(PathBuf),
    #[error(
        "{0} contains a space or colon, which {PRELOAD} cannot contain: install pgseal elsewhere"
    )]
    LibraryPath(PathBuf),
    #[error(
        "{0} is set-uid or set-gid, so the library is not loaded: use a copy without these bits"
    )]
    SetUid(PathBuf),
    #[error("{0} has file capabilities, so the library is not loaded: use a copy without them")]
    Capabilities(PathBuf),
    #[error("{0} cannot be in view: a colon in its path would end it; use a link without")]
    View(PathBuf),
    #[error("the path of the running pgseal cannot be found ({0}): mount /proc")]
    Myself(io::Error),
    #[error("{0} cannot be started ({1}): check that it is there and executable")]
    Exec(PathBuf, io::Error),
}

impl Exit for LaunchError {
    fn code(&self) -> Code {
        match self {
            Self::Exec(..) => Code::Io,
            Self::View(_) => Code::Usage,
            _ => Code::NotGuaranteed,
        }
    }
}

/// Returns the path of pgseal: that of the running program, or beside it if that is another of
/// ours.
pub fn pgseal() -> Result<PathBuf, LaunchError> {
    let myself = env::current_exe().map_err(LaunchError::Myself)?;
    let others = [WRAPPER, BENCH, PROXY].map(OsStr::new);
    if others.iter().any(|name| myself.file_name() == Some(name)) {
        return Ok(myself.with_file_name("pgseal"));
    }
    Ok(myself)
}

/// Returns the path of the library, after it was checked.
pub fn library() -> Result<PathBuf, LaunchError> {
    let pgseal = pgseal()?;
    let dir = pgseal.parent().unwrap_or(Path::new("/"));
    let installed = [dir.join("../lib").join(LIBRARY), dir.join(LIBRARY)];
    let path = installed
        .into_iter()
        .find(|path| path.exists())
        .or_else(|| env::var_os(LIBRARY_PATH).map(PathBuf::from))
        .ok_or_else(|| LaunchError::NoLibrary(dir.to_owned()))?;
    let path = path
        .canonicalize()
        .map_err(|error| LaunchError::Unreadable(path, error))?;
    if path
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| b" :\t\n".contains(byte))
    {
        return Err(LaunchError::LibraryPath(path));
    }
    check_elf(&path)?;
    check_mount(&path)?;
    Ok(path)
}

/// A program that is about to run sealed.
pub struct Sealed {
    command: Command,
    program: PathBuf,
    /// stays open until the program has it
    keys: Option<OwnedFd>,
}

impl Sealed {
    /// Makes a command for `program`, called by the name `argv0`.
    pub fn new(program: &Path, argv0: &OsStr, args: &[OsString]) -> Result<Self, LaunchError> {
        let library = library()?;
        check_program(program)?;
        let mut command = Command::new(program);
        command
            .arg0(argv0)
            .args(args)
            .env(PRELOAD, with_library(&library));
        command.env_remove(KEYS_FD);
        if env::var_os(PROGRAM_PATH).is_none() {
            command.env(PROGRAM_PATH, pgseal()?);
        }
        Ok(Self {
            command,
            program: program.to_owned(),
            keys: None,
        })
    }

    /// Gives the program keys.
    pub fn keys(&mut self, keys: &KeySet) -> Result<(), KeySetError> {
        let fd = keys.memfd()?;
        self.command.env(KEYS_FD, fd.as_raw_fd().to_string());
        self.keys = Some(fd);
        Ok(())
    }

    /// Makes the library act in the program, though it is not one of PostgreSQL's.
    pub fn act(&mut self) {
        let name = self
            .program
            .canonicalize()
            .unwrap_or_else(|_| self.program.clone());
        let mut names = name.file_name().unwrap_or_default().to_owned();
        if let Some(more) = env::var_os(PROGRAMS) {
            names.push(":");
            names.push(more);
        }
        self.command.env(PROGRAMS, names);
    }

    /// Shows the program and its children `pg_control` of these data directories in clear, if
    /// there are any, and what is stored in every other file.
    pub fn view(&mut self, directories: &[PathBuf]) -> Result<(), LaunchError> {
        let unfit = |directory: &PathBuf| LaunchError::View(directory.clone());
        let absolute = directories
            .iter()
            .map(|directory| path::absolute(directory).map_err(|_| unfit(directory)))
            .collect::<Result<Vec<_>, _>>()?;
        let list = env::join_paths(&absolute).map_err(|_| unfit(&directories[0]))?;
        self.command.env(VIEW, list).env_remove(PROGRAMS);
        Ok(())
    }

    /// Takes a variable out of the program's environment.
    pub fn scrub(&mut self, variable: &str) {
        self.command.env_remove(variable);
    }

    /// Passes the program something by its environment.
    pub fn tell(&mut self, variable: &str, value: impl AsRef<OsStr>) {
        self.command.env(variable, value);
    }

    /// Leaves the library out: the program shall see what is stored.
    pub fn stand_aside(&mut self) {
        let list = env::var_os(PRELOAD).unwrap_or_default();
        let others = others(&list).collect::<Vec<_>>().join(&b':');
        self.command.env(PRELOAD, OsStr::from_bytes(&others));
    }

    /// Becomes the program.
    pub fn exec(mut self) -> Failure {
        let error = self.command.exec();
        LaunchError::Exec(self.program, error).into()
    }

    /// Runs the program and waits for it. A signal that would end this process is passed on.
    pub fn run(mut self) -> Result<std::process::ExitStatus, LaunchError> {
        let status = supervise::run(&mut self.command);
        status.map_err(|error| LaunchError::Exec(self.program, error))
    }

    /// Runs the program and takes what it prints.
    pub fn output(mut self) -> Result<std::process::Output, LaunchError> {
        self.command
            .output()
            .map_err(|error| LaunchError::Exec(self.program, error))
    }
}

/// The present preload list with the library at its head, once.
fn with_library(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    let present = env::var_os(PRELOAD).unwrap_or_default();
    for entry in others(&present) {
        list.push(":");
        list.push(OsStr::from_bytes(entry));
    }
    list
}

/// Returns the entries of a preload list other than the library.
fn others(list: &OsStr) -> impl Iterator<Item = &[u8]> {
    let entries = list.as_bytes().split(|byte| b" :".contains(byte));
    entries.filter(|entry| !entry.is_empty() && !entry.ends_with(LIBRARY.as_bytes()))
}

/// A whole shared library of this machine. One that was cut, as by a full disk during installation,
/// would be dropped by the loader with a warning at best.
fn check_elf(path: &Path) -> Result<(), LaunchError> {
    let unreadable = |error| LaunchError::Unreadable(path.to_owned(), error);
    let mut file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut head = [0; ELF_HEADER];
    match file.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
        Err(error) => return Err(unreadable(error)),
    }
    let (shared_object, machine) = ([3, 0], machine());
    let ours =
        head.starts_with(b"\x7fELF") && head[16..18] == shared_object && head[18..20] == machine;
    if ours && end_of_sections(&head).is_some_and(|end| end <= size) {
        Ok(())
    } else {
        Err(LaunchError::NotALibrary(path.to_owned()))
    }
}

/// The loader maps code, which the kernel refuses there.
fn check_mount(path: &Path) -> Result<(), LaunchError> {
    let mount =
        statvfs(path).map_err(|errno| LaunchError::Unreadable(path.into(), errno.into()))?;
    match mount.flags().contains(FsFlags::ST_NOEXEC) {
        true => Err(LaunchError::NoExec(path.to_owned())),
        false => Ok(()),
    }
}

/// Bytes of a 64-bit ELF header.
const ELF_HEADER: usize = 64;

/// Where the section headers end, which linkers put last: e_shoff + e_shentsize * e_shnum.
fn end_of_sections(head: &[u8; ELF_HEADER]) -> Option<u64> {
    let short = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let start = u64::from_le_bytes(std::array::from_fn(|i| head[40 + i]));
    start.checked_add(short(58) * short(60))
}

/// e_machine of this build, little-endian.
const fn machine() -> [u8; 2] {
    if cfg!(target_arch = "aarch64") {
        [0xb7, 0]
    } else {
        [0x3e, 0]
    }
}

fn check_program(path: &Path) -> Result<(), LaunchError> {
    let unstartable = |error| LaunchError::Exec(path.to_owned(), error);
    let mode = path.metadata().map_err(unstartable)?.permissions().mode();
    if mode & 0o6000 != 0 {
        return Err(LaunchError::SetUid(path.to_owned()));
    }
    match getxattr_query(path, "security.capability") {
        Ok(_) => Err(LaunchError::Capabilities(path.to_owned())),
        Err(_) => Ok(()),
    }
}
