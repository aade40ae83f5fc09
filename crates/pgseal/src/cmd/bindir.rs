//! `pgseal bindir`: a directory of wrappers, one for each program of a PostgreSQL installation.
//!
//! A wrapper is one line, `#!…/pgseal-twin …/PROGRAM`, by which the kernel starts the one with the
//! path of the other, and then the wrapper's own; no shell is between. It is no symbolic link:
//! PostgreSQL finds its other programs beside the file that it was started from, and follows links
//! to find it.
//!
//! With `--relative` the program's path begins at the wrapper. CloudNativePG copies a whole
//! directory of programs into another image, where the original is not.
//!
//! Invariants: whatever is refused is refused before anything is written, and what cannot be
//! finished is taken back; of the files that are there only wrappers are replaced or removed;
//! everybody may run wrappers, whatever the umask of their maker.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_storage::version;
use pgseal_wrapper::ask::{ask, Files};
use pgseal_wrapper::beside;
use pgseal_wrapper::installed::lasting_path;
use pgseal_wrapper::launch::{self, WRAPPER};
use tempfile::NamedTempFile;

use crate::cli::BindirArgs;
use crate::output;

/// Why there are no wrappers.
#[derive(Debug, thiserror::Error)]
pub enum BindirError {
    #[error("{0} cannot be read ({1}): give the directory of PostgreSQL's programs with --pg")]
    Read(PathBuf, io::Error),
    #[error("{0} cannot be written ({1}): choose another directory with --into")]
    Write(PathBuf, io::Error),
    #[error("{0} has no postgres: give the directory of PostgreSQL's programs with --pg")]
    NoPrograms(PathBuf),
    #[error("{0} is not UTF-8: choose a directory whose name is")]
    Name(PathBuf),
    #[error(
        "{0} contains wrappers already: give the directory of PostgreSQL's own programs with --pg"
    )]
    Wrappers(PathBuf),
    #[error(
        "{0} is not a wrapper, and would be overwritten: choose another directory with --into"
    )]
    Other(PathBuf),
    #[error("{0} is not below {1}, and --relative copies both as one: choose a directory for --into that {0} is below")]
    NotBelow(PathBuf, PathBuf),
    #[error("{0} does not exist: install it beside pgseal")]
    NoWrapper(PathBuf),
    #[error("{0} does not tell where it looks for its files: give the directory of an unmodified PostgreSQL with --pg")]
    Silent(PathBuf),
    #[error("from {0} PostgreSQL looks for its files in {1}, and they are in {2}: choose a directory whose last names differ from {3}")]
    Alike(PathBuf, PathBuf, PathBuf, PathBuf),
    #[error("PostgreSQL was moved after it was built, so from {0} it looks for its files in {1}, and they are in {2}: choose a directory whose last names are those of {3}, and make links beside it to what lies beside that")]
    Moved(PathBuf, PathBuf, PathBuf, PathBuf),
    #[error("PostgreSQL was moved after it was built, so from {0} it looks for its files in {1}: make that a link to {2}")]
    NotFound(PathBuf, PathBuf, PathBuf),
}

impl Exit for BindirError {
    fn code(&self) -> Code {
        match self {
            Self::Read(..) | Self::Write(..) => Code::Io,
            Self::NoPrograms(_) | Self::Other(_) | Self::Wrappers(_) | Self::NotBelow(..) => {
                Code::Usage
            }
            Self::Alike(..)
            | Self::Moved(..)
            | Self::NotFound(..)
            | Self::Silent(_)
            | Self::NoWrapper(_)
            | Self::Name(_) => Code::NotGuaranteed,
        }
    }
}

/// Names of wrappers and of the directories that are made for them.
const MODE: u32 = 0o755;

pub fn run(args: &BindirArgs) -> Result<ExitCode, Failure> {
    launch::library()?;
    let pg = installation(&args.pg)?;
    let runner = runner()?;
    let programs = programs(&pg)?;
    let postgres = pg.join("postgres");
    version::check(&ask(&postgres, &postgres)?.version)?;
    let mut made = Made::default();
    let into = made
        .directory(&args.into)
        .map_err(|error| BindirError::Write(args.into.clone(), error))?;
    refuse_others(&into, &programs)?;
    check_files(&pg, &into)?;
    let named = named(&pg, &into, args.relative)?;
    for name in &programs {
        made.wrapper(&into.join(name), &wrapper(&runner, &named.join(name))?)?;
    }
    made.keep();
    remove_stale(&into, &programs)?;
    let (count, into) = (programs.len(), into.display());
    output::print_done(format_args!("{count} wrappers in {into}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The directory of PostgreSQL's own programs.
fn installation(pg: &Path) -> Result<PathBuf, BindirError> {
    let unreadable = |error| BindirError::Read(pg.to_owned(), error);
    let pg = pg.canonicalize().map_err(unreadable)?;
    let postgres = pg.join("postgres");
    if !postgres.is_file() {
        return Err(BindirError::NoPrograms(pg));
    }
    match is_wrapper(&postgres) {
        Ok(false) => Ok(pg),
        Ok(true) => Err(BindirError::Wrappers(pg)),
        Err(error) => Err(BindirError::Read(postgres, error)),
    }
}

/// The directory of PostgreSQL's own programs as wrappers in `into` name it.
fn named<'a>(pg: &'a Path, into: &Path, relative: bool) -> Result<&'a Path, BindirError> {
    match pg.strip_prefix(into) {
        _ if !relative => Ok(pg),
        Ok(below) if !below.as_os_str().is_empty() => Ok(below),
        _ => Err(BindirError::NotBelow(pg.to_owned(), into.to_owned())),
    }
}

/// The executable files of an installation.
fn programs(pg: &Path) -> Result<Vec<OsString>, BindirError> {
    let unreadable = |error| BindirError::Read(pg.to_owned(), error);
    let mut names = Vec::new();
    for entry in fs::read_dir(pg).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let metadata = fs::metadata(entry.path()).map_err(unreadable)?;
        if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
            names.push(entry.file_name());
        }
    }
    names.sort();
    Ok(names)
}

/// The program that the kernel starts for each wrapper.
fn runner() -> Result<PathBuf, Failure> {
    let runner = launch::pgseal()?.with_file_name(WRAPPER);
    match runner.is_file() {
        true => Ok(lasting_path(&runner)),
        false => Err(BindirError::NoWrapper(runner).into()),
    }
}

/// The text of a wrapper. What the kernel cannot take from a first line, a shell does.
fn wrapper(runner: &Path, program: &Path) -> Result<String, BindirError> {
    let (runner, program) = (text(runner)?, text(program)?);
    let line = format!("#!{runner} {program}\n");
    if line.len() <= MAX_LINE && line.split_whitespace().count() == 2 {
        return Ok(line);
    }
    let (runner, program) = (quoted(runner), quoted(program));
    Ok(format!(
        "#!/bin/sh\nexec {runner} {program} \"$0\" \"$@\"\n"
    ))
}

/// The longest `#!` line that every kernel reads, in bytes; since 5.1 it is twice as much.
const MAX_LINE: usize = 127;

/// Is this one of ours?
pub fn is_wrapper(program: &Path) -> io::Result<bool> {
    let head = head(program)?;
    let mut lines = head.split(|&byte| byte == b'\n').take(2);
    Ok(head.starts_with(b"#!") && lines.any(|line| find(line, WRAPPER.as_bytes())))
}

/// Returns the program that a wrapper runs; none if it is no wrapper of one line.
pub fn wrapped(wrapper: &Path) -> Option<String> {
    let head = String::from_utf8(head(wrapper).ok()?).ok()?;
    let (runner, program) = head.lines().next()?.strip_prefix("#!")?.split_once(' ')?;
    let program = beside(Path::new(program), wrapper)?;
    let is_ours = runner.ends_with(WRAPPER);
    is_ours.then(|| program.to_string_lossy().into_owned())
}

fn head(program: &Path) -> io::Result<Vec<u8>> {
    const MAX_BYTES: u64 = 16_384;
    let mut head = Vec::new();
    let file = fs::File::open(program)?;
    file.take(MAX_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// Removes the wrappers from a directory, and that too, if nothing else is in it.
pub fn remove_wrappers(from: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if is_wrapper(&path).unwrap_or(false) {
            fs::remove_file(&path)?;
        }
    }
    let _ = fs::remove_dir(from);
    Ok(())
}

fn find(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn text(path: &Path) -> Result<&str, BindirError> {
    let name = || BindirError::Name(path.to_owned());
    path.to_str().ok_or_else(name)
}

/// Quotes `text` in single quotes, for sh.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A file with the name of a program must be a wrapper already, of any version.
fn refuse_others(into: &Path, programs: &[OsString]) -> Result<(), BindirError> {
    let paths = programs.iter().map(|name| into.join(name));
    let mut there = paths.filter(|path| path.symlink_metadata().is_ok());
    match there.find(|path| !is_wrapper(path).unwrap_or(false)) {
        Some(other) => Err(BindirError::Other(other)),
        None => Ok(()),
    }
}

/// Wrappers of programs that this installation does not have lead to another one, or nowhere. A
/// link to a wrapper is somebody else's: Debian's postmaster is one.
fn remove_stale(into: &Path, programs: &[OsString]) -> Result<(), BindirError> {
    let failed = |error| BindirError::Write(into.to_owned(), error);
    for entry in fs::read_dir(into).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_file = entry.file_type().map_err(failed)?.is_file();
        let is_known = programs.contains(&entry.file_name());
        if is_file && !is_known && is_wrapper(&entry.path()).unwrap_or(false) {
            fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

/// The paths made so far. Dropped before it is to be kept, it removes them.
#[derive(Default)]
struct Made(Vec<PathBuf>);

impl Made {
    /// The real path of a directory, which is made if it is missing, with those above it.
    fn directory(&mut self, path: &Path) -> io::Result<PathBuf> {
        let missing = path.ancestors().take_while(|dir| !dir.exists());
        let missing: Vec<_> = missing.filter(|dir| !dir.as_os_str().is_empty()).collect();
        for dir in missing.into_iter().rev() {
            // `x/..` is there as soon as `x` is.
            if !dir.is_dir() {
                DirBuilder::new().mode(MODE).create(dir)?;
                self.0.push(dir.to_owned());
                fs::set_permissions(dir, Permissions::from_mode(MODE))?;
            }
        }
        path.canonicalize()
    }

    fn wrapper(&mut self, path: &Path, text: &str) -> Result<(), BindirError> {
        let new = !path.exists();
        write_wrapper(path, text).map_err(|error| BindirError::Write(path.to_owned(), error))?;
        if new {
            self.0.push(path.to_owned());
        }
        Ok(())
    }

    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        }
    }
}

/// Written aside: a wrapper may be running.
fn write_wrapper(path: &Path, text: &str) -> io::Result<()> {
    let mut aside = executable(path.parent().unwrap_or(Path::new("/")))?;
    aside.write_all(text.as_bytes())?;
    aside.persist(path)?;
    Ok(())
}

fn executable(directory: &Path) -> io::Result<NamedTempFile> {
    let file = NamedTempFile::new_in(directory)?;
    file.as_file()
        .set_permissions(Permissions::from_mode(MODE))?;
    Ok(file)
}

/// Where the server `postgres` looks for its files when it is started as `started_as`.
fn files(postgres: &Path, started_as: &Path) -> Result<Files, Failure> {
    let files = ask(postgres, started_as)?.files;
    Ok(files.ok_or_else(|| BindirError::Silent(postgres.to_owned()))?)
}

/// PostgreSQL looks for its files below the directory that its programs are started from, where the
/// end of that one's name is the end of the one that it was built for, and else where it was built
/// for. From the wrappers it must find what it finds from its own programs, and not another
/// installation's. Programs that were moved aside find nothing; what the wrappers find counts then.
fn check_files(pg: &Path, into: &Path) -> Result<(), Failure> {
    let postgres = pg.join("postgres");
    let own = files(&postgres, &postgres)?;
    let found = files(&postgres, &into.join("postgres"))?;
    let built_for = files(&postgres, Path::new("/postgres"))?;
    let places = [
        (own.share, found.share, built_for.share),
        (own.library, found.library, built_for.library),
    ];
    for (own, found, built_for) in places {
        if !is_usable(&own, &found) {
            let (pg, into) = (pg.to_owned(), into.to_owned());
            return Err(match (own == built_for, found == built_for) {
                (true, _) => BindirError::Alike(into, found, own, pg),
                (false, true) => BindirError::Moved(into, found, own, pg),
                (false, false) => BindirError::NotFound(into, found, own),
            }
            .into());
        }
    }
    Ok(())
}

fn is_usable(own: &Path, found: &Path) -> bool {
    match (own.canonicalize(), found.canonicalize()) {
        (Ok(own), Ok(found)) => own == found,
        (own, found) => own.is_err() && found.is_ok(),
    }
}
