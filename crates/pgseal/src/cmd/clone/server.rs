//! The server is asked about a standby of it before it begins to send: the size of its relations'
//! segments, which a build of PostgreSQL has once for all, a setting that comes along with its
//! files and with which no sealed server starts, and the replication slot.
//!
//! It is asked over a connection for replication, which a role that copies can always make.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_wrapper::getopt::Given;
use pgseal_wrapper::source;
use pgseal_wrapper::Wrapper;

/// The bytes of a slot's name, at most (NAMEDATALEN - 1).
const LONGEST_NAME: usize = 63;

/// psql's exit code when the server answered, and refused the last question.
const REFUSED: i32 = 1;

/// A setting that comes along, and its value with which no sealed server starts.
const SETTING: &str = "dynamic_shared_memory_type";
const UNFIT: &str = "mmap";
const BETTER: &str = "posix or sysv";

/// The bytes of the block in which programs count: a server with others has no sealed standby.
const BLOCK: u64 = 8192;

/// The server's segments are of another size than those of the programs beside `pg_basebackup`.
#[derive(Debug, thiserror::Error)]
#[error("relations of the server are in segments of {theirs} bytes, and {} reads those of {own}: give the programs of the server's build with --pg", .program.display())]
pub struct SegmentsError {
    theirs: u64,
    own: u64,
    program: PathBuf,
}

impl Exit for SegmentsError {
    fn code(&self) -> Code {
        Code::Usage
    }
}

/// Why the standby cannot use its slot.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    #[error("{0} is no name of a replication slot: use lower-case letters, digits and underscores, at most {LONGEST_NAME} of them")]
    Name(String),
    #[error("the server has no replication slot {0}: add --create-slot, or create it there")]
    Missing(String),
    #[error("the server has a replication slot {0} already: leave --create-slot out to use it, or choose another name")]
    Exists(String),
    #[error("the replication slot {0} cannot be used ({1}): name a physical one")]
    Unfit(String, String),
}

impl Exit for SlotError {
    fn code(&self) -> Code {
        Code::Usage
    }
}

/// Looks at the size of segments, at the slot that `given` names, and at that setting. Returns what
/// the operator should know.
pub fn check(wrapper: &Wrapper, given: &Given) -> Result<Option<String>, Failure> {
    let slot = given.value("S").map(slot_name).transpose()?;
    let mut questions = vec!["SHOW segment_size".to_owned(), format!("SHOW {SETTING}")];
    questions.extend(slot.as_deref().map(slot_question));
    let output = ask(wrapper, given, &questions)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut answers = text.lines();
    check_segments(&wrapper.program, answers.next())?;
    match (output.status.code(), slot) {
        (Some(0), None) => {}
        (Some(0), Some(slot)) => check_slot(slot, &output.stdout, given.has("C"))?,
        (Some(REFUSED), Some(slot)) => return Err(SlotError::Unfit(slot, reason(&output)).into()),
        _ => {
            let unknown = "its settings and slots are not looked at";
            let reason = reason(&output);
            return Ok(Some(format!(
                "the server cannot be asked again ({reason}): {unknown}"
            )));
        }
    }
    Ok((answers.next() == Some(UNFIT)).then(warning))
}

/// Says that a slot which `pg_basebackup` created is there after the copy has failed.
pub fn slot_left(wrapper: &Wrapper, given: &Given) -> Option<String> {
    let slot = given.value("S").filter(|_| given.has("C"))?;
    let slot = slot_name(slot).ok()?;
    let output = ask(wrapper, given, &[slot_question(&slot)]).ok()?;
    is_there(&output.stdout).then(|| format!("the replication slot {slot} stays on the server, which keeps WAL for it: run this again without --create-slot, or drop it there by SELECT pg_drop_replication_slot('{slot}')"))
}

/// A password that is typed would be asked for once more.
fn ask(wrapper: &Wrapper, given: &Given, questions: &[String]) -> Result<Output, Failure> {
    let questions: Vec<_> = questions.iter().map(String::as_str).collect();
    source::ask(wrapper, given, &[OsString::from("-w")], &questions)
}

fn warning() -> String {
    format!("the server runs with {SETTING} = {UNFIT}, with which no sealed server starts: set it to {BETTER} in the standby's configuration before you start it")
}

/// A standby is started by the `postgres` beside `pg_basebackup`. Where that is missing, the
/// standby is for another machine, and nothing is compared.
fn check_segments(beside: &Path, answer: Option<&str>) -> Result<(), SegmentsError> {
    let program = beside.with_file_name("postgres");
    match (answer.and_then(source::bytes_of), own_segments(&program)) {
        (Some(theirs), Some(own)) if theirs != own => Err(SegmentsError {
            theirs,
            own,
            program,
        }),
        _ => Ok(()),
    }
}

/// Asks `program` for the bytes of its segments, which needs no cluster.
fn own_segments(program: &Path) -> Option<u64> {
    let mut command = Command::new(program);
    command.args([
        "-C",
        "segment_size",
        "-D",
        "/",
        "-c",
        "config_file=/dev/null",
    ]);
    let output = command.output().ok()?;
    let blocks = String::from_utf8(output.stdout).ok()?;
    blocks.trim_end().parse::<u64>().ok()?.checked_mul(BLOCK)
}

/// PostgreSQL's rule for names (slot.c). Such a name needs no escapes.
fn slot_name(name: &OsStr) -> Result<String, SlotError> {
    let text = name.to_string_lossy().into_owned();
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match !text.is_empty() && text.len() <= LONGEST_NAME && text.bytes().all(fits) {
        true => Ok(text),
        false => Err(SlotError::Name(text)),
    }
}

/// It is answered by one row, of NULLs if there is no such slot; of 15 and later.
fn slot_question(name: &str) -> String {
    format!("READ_REPLICATION_SLOT \"{name}\"")
}

fn check_slot(name: String, answer: &[u8], create: bool) -> Result<(), SlotError> {
    match (is_there(answer), create) {
        (true, true) => Err(SlotError::Exists(name)),
        (false, false) => Err(SlotError::Missing(name)),
        _ => Ok(()),
    }
}

/// Whether the last row begins with a kind of slot.
fn is_there(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    text.lines()
        .last()
        .is_some_and(|row| row.starts_with("physical|"))
}

fn reason(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().next().unwrap_or_default().trim();
    line.trim_start_matches("ERROR:").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_slots() {
        let longest = "a".repeat(LONGEST_NAME);
        for good in ["a", "1_b", longest.as_str()] {
            assert_eq!(slot_name(OsStr::new(good)).ok().as_deref(), Some(good));
        }
        let too_long = "a".repeat(LONGEST_NAME + 1);
        for bad in ["", "A", "a-b", "a\"", "ä", too_long.as_str()] {
            assert!(slot_name(OsStr::new(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn rows_of_slots() {
        assert!(is_there(b"posix\nphysical|0/3000000|1\n"));
        assert!(is_there(b"physical||\n"));
        for none in [&b"posix\n||\n"[..], b"||\n", b"", b"physical|0/0|1\n||\n"] {
            assert!(!is_there(none), "{none:?}");
        }
    }
}
