//! `pgseal bindir`: a directory of scripts, one for each program of a PostgreSQL installation.
//!
//! A script, not a symbolic link: PostgreSQL finds its other programs beside the file that it was
//! started from, and follows links to find it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cli::BindirArgs;
use crate::exit::Failure;
use crate::launch::{self, Sealed};

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
    let myself = launch::myself()?;
    let programs = programs(&pg)?;
    for name in &programs {
        write_twin(&into, name, &script(&myself, &pg, name)?)?;
    }
    check_paths(&pg, &into)?;
    println!("{} twins in {}", programs.len(), into.display());
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

fn script(myself: &Path, pg: &Path, name: &OsStr) -> Result<String, BindirError> {
    let (myself, pg, name) = (quoted(myself)?, quoted(pg)?, quoted(Path::new(name))?);
    Ok(format!(
        "#!/bin/sh\nexec {myself} twin --pg {pg} --argv0 \"$0\" -- {name} \"$@\"\n"
    ))
}

/// Is this a script of ours?
fn is_twin(program: &Path) -> Result<bool, BindirError> {
    const LONGEST: u64 = 16_384;
    let mut head = Vec::new();
    let read = fs::File::open(program).and_then(|file| file.take(LONGEST).read_to_end(&mut head));
    read.map_err(|error| BindirError::Read(program.to_owned(), error))?;
    let calls_twin = |line: &[u8]| line.starts_with(b"exec ") && find(line, b" twin --pg ");
    Ok(head
        .split(|&byte| byte == b'\n')
        .nth(1)
        .is_some_and(calls_twin))
}

fn find(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// In single quotes, for sh.
fn quoted(path: &Path) -> Result<String, BindirError> {
    let text = path
        .to_str()
        .ok_or_else(|| BindirError::Name(path.to_owned()))?;
    Ok(format!("'{}'", text.replace('\'', r"'\''")))
}

/// Written aside: a twin may be running.
fn write_twin(into: &Path, name: &OsStr, script: &str) -> Result<(), BindirError> {
    let path = into.join(name);
    let mut aside = OsString::from(".");
    aside.push(name);
    let aside = into.join(aside);
    fs::write(&aside, script)
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
