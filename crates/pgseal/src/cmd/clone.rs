//! `pgseal clone`: a base backup that ends as a sealed standby.
//!
//! The machinery is pg_basebackup's wrapper; what is added: it is always a standby (`-R`), it is
//! never plain, and it refuses early what would stop the copy, or the standby later.

mod room;
mod server;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::unistd::geteuid;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_wrapper::getopt::{Given, PG_BASEBACKUP};
use pgseal_wrapper::options::{Name, Split};
use pgseal_wrapper::programs::is_elf;
use pgseal_wrapper::source::{self, Source};
use pgseal_wrapper::{basebackup, options, Wrapper};

use crate::cli::CloneArgs;
use crate::output;
pub use room::RoomError;
use room::Tablespace;

/// Names the database that is asked, if the operator names one.
const DATABASE: &str = "PGDATABASE";

/// Why there is no clone.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    #[error("{0} is not empty: if it is what an interrupted copy left, remove it and what its tablespaces and WAL directory hold, and run this again")]
    NotEmpty(PathBuf),
    #[error("{0} cannot be read ({1}): check its owner and mode")]
    Target(PathBuf, io::Error),
    #[error("PostgreSQL's own pg_basebackup is not on PATH: give its directory with --pg")]
    NoProgram,
    #[error("{0} is missing, or is a wrapper or script, which may start programs that copy unencrypted data: give the directory of PostgreSQL's own programs with --pg")]
    NotOwn(PathBuf),
    #[error("pgseal clone makes a whole standby in {0}: leave --format=tar, --incremental, --target and another -D out of what follows `--`, or run the wrapper of pg_basebackup")]
    NotWhole(PathBuf),
    #[error("the server is not sealed, so there is no key to share: add --new-key, and how it shall be protected")]
    PlainServer,
    #[error("a standby under a key of its own needs a token from its primary: run `pgseal receiver grant` there, and give the token as PGOPTIONS='-c pgseal.receiver=TOKEN'")]
    NoToken,
    #[error("{} is of PostgreSQL {}, and the server is of {}: give the programs of the server's version with --pg", .0.display(), .1, .2)]
    Version(PathBuf, u32, u32),
    #[error("the version of {} cannot be told: run it with --version to see why", .0.display())]
    UnknownVersion(PathBuf),
    #[error("how a key is protected can be said of a new one only: add --new-key, or change the present key's protection with `pgseal key rotate`")]
    NotNew,
    #[error(transparent)]
    Room(#[from] RoomError),
}

impl Exit for CloneError {
    fn code(&self) -> Code {
        match self {
            Self::Target(..) => Code::Io,
            Self::Room(error) => error.code(),
            Self::PlainServer => Code::NotSealed,
            Self::NotEmpty(_)
            | Self::NoProgram
            | Self::NotOwn(_)
            | Self::NotWhole(_)
            | Self::NoToken
            | Self::Version(..)
            | Self::UnknownVersion(_)
            | Self::NotNew => Code::Usage,
        }
    }
}

pub fn run(args: CloneArgs) -> Result<ExitCode, Failure> {
    check_empty(&args.pgdata)?;
    let program = program(args.pg.as_deref())?;
    let wrapper = Wrapper {
        argv0: program.clone().into_os_string(),
        program,
        name: "pg_basebackup".to_owned(),
    };
    let new_key = args.new_key;
    if !new_key && args.protection.is_given() {
        return Err(CloneError::NotNew.into());
    }
    let target = args.pgdata.clone();
    let split = options::split(&wrapper.name, arguments(args))?;
    let given = PG_BASEBACKUP.read(&split.rest);
    if basebackup::is_raw(&given) || given.has("i") || given.value("D") != Some(target.as_os_str())
    {
        return Err(CloneError::NotWhole(target).into());
    }
    let source = Source::ask(&wrapper, &given)?;
    check_key(&split, &given, &source, new_key)?;
    check_version(&wrapper, &source)?;
    check_room(&wrapper, &given, &target)?;
    if let Some(sentence) = server::check(&wrapper, &given)? {
        say(&sentence);
    }
    let code = basebackup::copy(&wrapper, &split, &given, &source)?;
    let code = code.expect("a plain server without a new key was refused");
    match code == ExitCode::SUCCESS {
        true => print_done(&target)?,
        false => server::slot_left(&wrapper, &given)
            .iter()
            .for_each(|sentence| say(sentence)),
    }
    Ok(code)
}

fn print_done(target: &Path) -> Result<(), Failure> {
    let owner = match geteuid().is_root() {
        true => ", which root owns: give it and its tablespaces to the server's user with `chown -R`, then",
        false => ":",
    };
    output::print_done(format_args!(
        "{} is a sealed standby{owner} start it with the wrapper of postgres or pg_ctl\n",
        target.display()
    ))?;
    Ok(())
}

/// Whether there is a key for the copy, and whether a sealed server will give its pages for it.
fn check_key(
    split: &Split,
    given: &Given,
    source: &Source,
    new_key: bool,
) -> Result<(), CloneError> {
    match (&source.key_file, new_key) {
        (None, false) => Err(CloneError::PlainServer),
        (Some(theirs), true) if !may_receive(split, given, theirs) => Err(CloneError::NoToken),
        _ => Ok(()),
    }
}

/// Whether a standby under the key that the options choose gets the pages of a sealed server: it
/// was granted a token, or makes its own, because the chosen key is the server's.
fn may_receive(split: &Split, given: &Given, theirs: &[u8]) -> bool {
    let chosen = split
        .value(Name::CopyKeyFrom)
        .and_then(|file| fs::read(file).ok());
    let same = |chosen: &Vec<u8>| {
        let id = source::key_id(chosen);
        id.is_some() && id == source::key_id(theirs)
    };
    source::is_declared(given) || chosen.as_ref().is_some_and(same)
}

/// The copy is made, whether anybody reads this or not.
fn say(sentence: &str) {
    let _ = writeln!(io::stderr(), "pgseal: {sentence}");
}

/// The request to pg_basebackup's wrapper; the last option counts.
fn arguments(args: CloneArgs) -> Vec<OsString> {
    let mut line: Vec<OsString> = vec!["-R".into(), "--checkpoint=fast".into()];
    line.extend(["-D".into(), args.pgdata.into_os_string()]);
    if io::stderr().is_terminal() {
        line.push("-P".into());
    }
    for (option, value) in [
        ("-h", args.host),
        ("-p", args.port),
        ("-U", args.username),
        ("-d", args.dbname),
    ] {
        line.extend(value.into_iter().flat_map(|value| [option.into(), value]));
    }
    for (option, asked) in [("-w", args.no_password), ("-W", args.password)] {
        line.extend(asked.then(|| option.into()));
    }
    if args.new_key {
        let bits = args.data_encryption;
        line.push(bits.map_or("-y".into(), |bits| format!("-y{bits}").into()));
    }
    for (option, value) in [
        ("--key-unwrap-command", args.key_unwrap_command),
        ("--encryption-key-command", args.encryption_key_command),
        ("--key-provider", args.key_provider),
    ] {
        line.extend(
            value
                .into_iter()
                .flat_map(|value| [option.into(), value.into()]),
        );
    }
    line.extend(args.copy.arguments());
    line.extend(args.protection.arguments());
    line.extend(args.more);
    line
}

fn check_empty(target: &Path) -> Result<(), CloneError> {
    let unreadable = |error| CloneError::Target(target.to_owned(), error);
    match fs::read_dir(target).map(|mut entries| entries.next().is_some()) {
        Ok(false) => Ok(()),
        Ok(true) => Err(CloneError::NotEmpty(target.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(unreadable(error)),
    }
}

/// Places and room, as far as the server says what will come. What it does not tell is said:
/// pg_basebackup finds it out while it copies.
fn check_room(wrapper: &Wrapper, given: &Given, target: &Path) -> Result<(), Failure> {
    let unknown = match tablespaces(wrapper, given)? {
        Ok(tablespaces) => {
            room::check(target, given, &tablespaces).map_err(CloneError::Room)?;
            unseen(&tablespaces)
        }
        Err(reason) => {
            Some(format!("the server does not tell its tablespaces ({reason}): their directories and free space are not looked at"))
        }
    };
    unknown.iter().for_each(|sentence| say(sentence));
    Ok(())
}

/// Asks the server for its tablespaces; the inner error says why it does not tell. A connection
/// for replication takes no SQL, and the role that copies may have no right to make another.
fn tablespaces(
    wrapper: &Wrapper,
    given: &Given,
) -> Result<Result<Vec<Tablespace>, String>, Failure> {
    let mut args = source::connection(given, given.value("d").map(OsStr::to_owned));
    // A password that is typed would be asked for once more.
    args.extend(["-w", "-0", "-z", "-c", room::QUESTION].map(Into::into));
    let mut sealed = source::psql(wrapper)?.sealed(&args)?;
    if env::var_os(DATABASE).is_none() {
        sealed.tell(DATABASE, "postgres");
    }
    let output = sealed.output()?;
    if output.status.success() {
        let answer = Tablespace::parse(&output.stdout);
        return Ok(answer.ok_or_else(|| "its answer cannot be understood".into()));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Ok(Err(said
        .lines()
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()))
}

/// Tablespaces whose sizes the role may not see; pg_global never grows large.
fn unseen(tablespaces: &[Tablespace]) -> Option<String> {
    let unseen = tablespaces
        .iter()
        .filter(|tablespace| tablespace.bytes.is_none());
    let names: Vec<_> = unseen
        .map(|tablespace| tablespace.name.as_str())
        .filter(|name| *name != "pg_global")
        .collect();
    (!names.is_empty()).then(|| format!("the role may not see the size of {}, so there may be too little room: grant it pg_read_all_stats", names.join(", ")))
}

/// The standby is started by the programs beside this one. pg_basebackup itself copies from older
/// servers too.
fn check_version(wrapper: &Wrapper, source: &Source) -> Result<(), CloneError> {
    let output = Command::new(&wrapper.program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = text.ok().and_then(|text| major(&text));
    match version {
        Some(version) if version == source.version => Ok(()),
        Some(version) => {
            let program = wrapper.program.clone();
            Err(CloneError::Version(program, version, source.version))
        }
        None => Err(CloneError::UnknownVersion(wrapper.program.clone())),
    }
}

/// Reads the major version from `pg_basebackup (PostgreSQL) 15.20 (Debian …)`.
fn major(text: &str) -> Option<u32> {
    let number = text.split_once("(PostgreSQL) ")?.1;
    let end = number.find(|letter: char| !letter.is_ascii_digit());
    number[..end.unwrap_or(number.len())].parse().ok()
}

/// PostgreSQL's own pg_basebackup: distributions put scripts of that name on PATH, and the library
/// does not come through a wrapper.
fn program(pg: Option<&Path>) -> Result<PathBuf, CloneError> {
    let Some(directory) = pg else {
        return on_path()
            .filter(|program| is_elf(program))
            .ok_or(CloneError::NoProgram);
    };
    let program = directory.join("pg_basebackup");
    match is_elf(&program) {
        true => Ok(program),
        false => Err(CloneError::NotOwn(program)),
    }
}

fn on_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut places = env::split_paths(&path).map(|directory| directory.join("pg_basebackup"));
    let program = places.find(|program| program.is_file())?;
    program.canonicalize().ok()
}
