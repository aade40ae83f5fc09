//! `pgseal bindir`: a directory of twins, one for each program of a PostgreSQL installation.
//!
//! A twin is one line, `#!…/pgseal-twin …/PROGRAM`, by which the kernel starts the one with the
//! path of the other, and then the twin's own; no shell stands between. It is not a symbolic link:
//! PostgreSQL finds its other programs beside the file that it was started from, and follows links
//! to find it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cli::BindirArgs;
use crate::exit::Failure;
use crate::launch::{self, Sealed, TWIN};
use crate::output;

/// Why there are no twins.
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
    #[error("{0} holds twins already: give the directory of PostgreSQL's own programs with --pg")]
    Twins(PathBuf),
    #[error("{0} holds PostgreSQL's own programs: choose another directory with --into")]
    Same(PathBuf),
    #[error("{0} does not exist: install it beside pgseal")]
    NoTwin(PathBuf),
    #[error("PostgreSQL's pg_config does not run from {0}: choose another directory with --into")]
    PgConfig(PathBuf),
    #[error("from {into} PostgreSQL looks for its files in {looked}, which does not exist: choose a directory whose last names differ from {pg}")]
    Unusable {
        into: PathBuf,
        looked: PathBuf,
        pg: PathBuf,
    },
}

pub fn run(args: &BindirArgs) -> Result<ExitCode, Failure> {
    launch::library()?;
    let pg = args
        .pg
        .canonicalize()
        .map_err(|error| BindirError::Read(args.pg.clone(), error))?;
    if !pg.join("postgres").is_file() {
        return Err(BindirError::NoPrograms(pg).into());
    }
    if is_twin(&pg.join("postgres"))? {
        return Err(BindirError::Twins(pg).into());
    }
    fs::create_dir_all(&args.into).map_err(|error| BindirError::Write(args.into.clone(), error))?;
    let into = args
        .into
        .canonicalize()
        .map_err(|e| BindirError::Write(args.into.clone(), e))?;
    if into == pg {
        return Err(BindirError::Same(pg).into());
    }
    let runner = runner()?;
    let programs = programs(&pg)?;
    for name in &programs {
        write_twin(&into, name, &twin(&runner, &pg.join(name))?)?;
    }
    check_paths(&pg, &into)?;
    let (count, into) = (programs.len(), into.display());
    output::print_done(format_args!("{count} twins in {into}\n"))?;
    Ok(ExitCode::SUCCESS)
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

/// What the twins run by.
fn runner() -> Result<PathBuf, Failure> {
    let runner = launch::pgseal()?.with_file_name(TWIN);
    match runner.is_file() {
        true => Ok(runner),
        false => Err(BindirError::NoTwin(runner).into()),
    }
}

/// The text of a twin. What the kernel cannot take from a first line, a shell does.
fn twin(runner: &Path, program: &Path) -> Result<String, BindirError> {
    let (runner, program) = (text(runner)?, text(program)?);
    let line = format!("#!{runner} {program}\n");
    if line.len() <= LONGEST_LINE && line.split_whitespace().count() == 2 {
        return Ok(line);
    }
    let (runner, program) = (quoted(runner), quoted(program));
    Ok(format!(
        "#!/bin/sh\nexec {runner} {program} \"$0\" \"$@\"\n"
    ))
}

/// What every kernel reads; since 5.1 it is twice as much.
const LONGEST_LINE: usize = 127;

/// Is this one of ours?
fn is_twin(program: &Path) -> Result<bool, BindirError> {
    const LONGEST: u64 = 16_384;
    let mut head = Vec::new();
    let read = fs::File::open(program).and_then(|file| file.take(LONGEST).read_to_end(&mut head));
    read.map_err(|error| BindirError::Read(program.to_owned(), error))?;
    let mut lines = head.split(|&byte| byte == b'\n').take(2);
    Ok(head.starts_with(b"#!") && lines.any(|line| find(line, TWIN.as_bytes())))
}

fn find(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn text(path: &Path) -> Result<&str, BindirError> {
    let name = || BindirError::Name(path.to_owned());
    path.to_str().ok_or_else(name)
}

/// In single quotes, for sh.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Written aside: a twin may be running.
fn write_twin(into: &Path, name: &OsStr, text: &str) -> Result<(), BindirError> {
    let path = into.join(name);
    let mut aside = OsString::from(".");
    aside.push(name);
    let aside = into.join(aside);
    fs::write(&aside, text)
        .and_then(|()| fs::set_permissions(&aside, fs::Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&aside, &path))
        .map_err(|error| BindirError::Write(path, error))
}

/// PostgreSQL relocates its paths when the end of its program directory looks like the one that it
/// was built for; then it would miss its files.
fn check_paths(pg: &Path, into: &Path) -> Result<(), Failure> {
    for option in ["--sharedir", "--pkglibdir"] {
        let looked = pg_config(pg, into, option)?;
        if !looked.is_dir() {
            let (into, pg) = (into.to_owned(), pg.to_owned());
            return Err(BindirError::Unusable { into, looked, pg }.into());
        }
    }
    Ok(())
}

fn pg_config(pg: &Path, into: &Path, option: &str) -> Result<PathBuf, Failure> {
    let twin = into.join("pg_config");
    let sealed = Sealed::new(&pg.join("pg_config"), twin.as_os_str(), &[option.into()])?;
    let output = sealed.output()?;
    if !output.status.success() {
        return Err(BindirError::PgConfig(into.to_owned()).into());
    }
    Ok(PathBuf::from(OsStr::from_bytes(
        output.stdout.trim_ascii_end(),
    )))
}
