//! The audit log of keys: who opened or changed which cluster's key, and when, as chained lines of
//! JSON (docs/format/audit-log.md) and to journald if it runs.
//!
//! A record never keeps anything from being done, because a full disk must not keep a server from
//! starting: what cannot be written is said on standard error. Programs that open no key write
//! nothing, and look at no file.

mod file;
mod journal;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::unistd::getuid;
use pgseal_chain::Fields;
use pgseal_contract::variable;
use pgseal_format::Header;

use crate::exit::{sentence, Code};
use crate::machine::Machine;
use crate::who::Who;

pub use file::LogError;

/// The directory of the logs where nothing names a file; without it no file is written.
const DIR: &str = "/var/log/pgseal";

/// The place of journald's socket.
const JOURNAL: &str = "/run/systemd/journal/socket";

/// The program that all wrappers are.
const WRAPPER: &str = "pgseal-twin";

/// Something that an auditor asks for.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The key was opened, by this slot; a raw key.bin has none. An agent may have opened it
    /// before, and given the key now.
    Unlocked { slot: Option<u8>, by_agent: bool },
    /// The key was not opened; the code is that of docs/exit-codes.md.
    Failed { code: Code },
    /// A slot was added.
    Added { slot: u8 },
    /// A slot took the place of another.
    Rotated { slot: u8, old: Option<u8> },
    /// A slot was removed.
    Removed { slot: u8 },
    /// A slot got another label.
    Labelled { slot: u8 },
    /// The key was printed.
    Exported,
    /// The key file was copied; this slot opens the copy.
    Copied { slot: u8 },
    /// A recovery sheet was made, or shares: how many are needed, and how many there are.
    SheetMade { shares: Option<(u8, u8)> },
    /// The key file was made anew, from a copy, a sheet or shares.
    Restored { from: &'static str },
    /// A receiver token was made.
    Granted { token: [u8; 8], expiry: u64 },
    /// A receiver token was revoked.
    Revoked { token: [u8; 8] },
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Self::Unlocked { .. } => "unlocked",
            Self::Failed { .. } => "failed",
            Self::Added { .. } => "slot added",
            Self::Rotated { .. } => "slot rotated",
            Self::Removed { .. } => "slot removed",
            Self::Labelled { .. } => "slot labelled",
            Self::Exported => "key exported",
            Self::Copied { .. } => "key copied",
            Self::SheetMade { .. } => "sheet made",
            Self::Restored { .. } => "key restored",
            Self::Granted { .. } => "token granted",
            Self::Revoked { .. } => "token revoked",
        }
    }

    /// Must the record be on the disk before anything else is done? Openings are many, and a
    /// server's start is not to wait for the disk.
    fn lasts(self) -> bool {
        !matches!(self, Self::Unlocked { .. } | Self::Failed { .. })
    }

    fn write(self, fields: &mut Fields<'_>) {
        match self {
            Self::Unlocked { slot, by_agent } => {
                slot.into_iter()
                    .for_each(|slot| fields.number("slot", slot.into()));
                if by_agent {
                    fields.text("by", "agent");
                }
            }
            Self::Failed { code } => fields.number("code", code.number().into()),
            Self::Added { slot }
            | Self::Removed { slot }
            | Self::Labelled { slot }
            | Self::Copied { slot } => fields.number("slot", slot.into()),
            Self::Rotated { slot, old } => {
                fields.number("slot", slot.into());
                old.into_iter()
                    .for_each(|old| fields.number("old", old.into()));
            }
            Self::SheetMade { shares } => {
                if let Some((needed, made)) = shares {
                    fields.number("needed", needed.into());
                    fields.number("shares", made.into());
                }
            }
            Self::Restored { from } => fields.text("from", from),
            Self::Exported => {}
            Self::Granted { token, expiry } => {
                fields.text("token", &pgseal_chain::hex(&token));
                fields.number("expiry", expiry);
            }
            Self::Revoked { token } => fields.text("token", &pgseal_chain::hex(&token)),
        }
    }
}

/// Records what was done with the key of the cluster at `data`. Without `header` the key file could
/// not be read.
pub fn record(data: &Path, header: Option<&Header>, event: Event) {
    let who = Who::now();
    let program = program(env::args_os());
    let data = data.to_string_lossy();
    let fields = |fields: &mut Fields<'_>| {
        fields.number("uid", who.uid.into());
        fields.text("login", &who.login);
        fields.text("program", &program);
        fields.text("data", &data);
        if let Some(header) = header {
            fields.text("cluster", &header.cluster.to_string());
            fields.text("key", &header.key_id.to_string());
        }
        event.write(fields);
    };
    journal::send(Path::new(JOURNAL), event.name(), fields);
    let written = match place() {
        Ok(None) => return,
        Ok(Some(path)) => file::append(&path, micros(), event.name(), event.lasts(), fields),
        Err(error) => Err(error),
    };
    if let Err(error) = written {
        // Nothing is left to say it to, if standard error has no reader either.
        let error = sentence(&error);
        let _ = writeln!(io::stderr(), "pgseal: warning: {error}");
    }
}

/// Returns the name of the program that runs. The kernel puts the wrapped program's path behind the
/// path of the one program that all wrappers are.
fn program(arguments: impl Iterator<Item = OsString>) -> String {
    let names = arguments.take(2).filter_map(|argument| {
        let name = Path::new(&argument).file_name()?;
        Some(name.to_string_lossy().into_owned())
    });
    let mut names = names.collect::<Vec<_>>().into_iter();
    match (names.next(), names.next()) {
        (Some(wrapper), Some(program)) if wrapper == WRAPPER => program,
        (program, _) => program.unwrap_or_default(),
    }
}

/// Returns the logs of this machine that exist or are named, of all users: what [`record`] writes
/// for one user is one of them.
pub fn logs() -> Result<Vec<PathBuf>, LogError> {
    match named()? {
        Some(path) => Ok(vec![path]),
        None => Ok(in_directory(Path::new(DIR))),
    }
}

/// Returns the logs `keys-<uid>.log` in a directory; none if it does not exist.
fn in_directory(dir: &Path) -> Vec<PathBuf> {
    let is_log = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let uid = name
            .strip_prefix("keys-")
            .and_then(|name| name.strip_suffix(".log"));
        uid.is_some_and(|uid| uid.parse::<u32>().is_ok())
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut logs: Vec<_> = entries.map(|entry| entry.path()).filter(is_log).collect();
    logs.sort();
    logs
}

/// Returns the file that the machine's policy names, or the environment, or the machine's directory
/// of such logs, if it exists.
fn place() -> Result<Option<PathBuf>, LogError> {
    let named = named()?;
    Ok(named.or_else(|| by_default(Path::new(DIR), getuid().as_raw())))
}

/// Returns the file that the machine's policy or the environment names.
fn named() -> Result<Option<PathBuf>, LogError> {
    let policy = Machine::this().audit_log();
    let policy = policy.map_err(|error| LogError::Policy(error.to_string()))?;
    let environment = env::var_os(variable::AUDIT_LOG.as_str()).filter(|path| !path.is_empty());
    let named = policy.or(environment.map(PathBuf::from));
    match named {
        Some(path) if !path.is_absolute() => Err(LogError::Relative(path)),
        named => Ok(named),
    }
}

fn by_default(dir: &Path, uid: u32) -> Option<PathBuf> {
    dir.is_dir().then(|| dir.join(format!("keys-{uid}.log")))
}

fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapper_is_named_by_its_program() {
        for (arguments, expected) in [
            (
                &["/x/pgseal-twin", "/pg/bin/postgres", "/wrappers/postgres"][..],
                "postgres",
            ),
            (&["/x/pgseal-twin"][..], "pgseal-twin"),
            (&["pgseal", "key", "check"][..], "pgseal"),
            (&[][..], ""),
        ] {
            let arguments = arguments.iter().map(OsString::from);
            assert_eq!(program(arguments), expected);
        }
    }

    #[test]
    fn logs_of_all_users_are_found() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in [
            "keys-26.log",
            "keys-0.log",
            "keys-26.log.1",
            "keys-x.log",
            "other.log",
        ] {
            fs::write(dir.path().join(name), "").expect("it is new");
        }
        let expected = ["keys-0.log", "keys-26.log"].map(|name| dir.path().join(name));
        assert_eq!(in_directory(dir.path()), expected);
        assert!(in_directory(&dir.path().join("none")).is_empty());
    }

    #[test]
    fn without_its_directory_there_is_no_file() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(
            by_default(dir.path(), 26),
            Some(dir.path().join("keys-26.log"))
        );
        assert_eq!(by_default(&dir.path().join("none"), 26), None);
    }

    /// Names and fields are documented, and readers of logs look for them.
    #[test]
    fn events_have_names_and_fields() {
        let (slot, token) = (2, [7; 8]);
        let of_token = r#","token":"0707070707070707""#;
        for (event, name, fields) in [
            (
                Event::Unlocked {
                    slot: None,
                    by_agent: true,
                },
                "unlocked",
                r#","by":"agent""#,
            ),
            (
                Event::Unlocked {
                    slot: Some(2),
                    by_agent: false,
                },
                "unlocked",
                r#","slot":2"#,
            ),
            (
                Event::Failed {
                    code: Code::WrongKey,
                },
                "failed",
                r#","code":7"#,
            ),
            (Event::Added { slot }, "slot added", r#","slot":2"#),
            (
                Event::Rotated { slot, old: Some(1) },
                "slot rotated",
                r#","slot":2,"old":1"#,
            ),
            (Event::Removed { slot }, "slot removed", r#","slot":2"#),
            (Event::Labelled { slot }, "slot labelled", r#","slot":2"#),
            (Event::Exported, "key exported", ""),
            (Event::Copied { slot }, "key copied", r#","slot":2"#),
            (Event::SheetMade { shares: None }, "sheet made", ""),
            (
                Event::SheetMade {
                    shares: Some((2, 3)),
                },
                "sheet made",
                r#","needed":2,"shares":3"#,
            ),
            (
                Event::Restored { from: "sheet" },
                "key restored",
                r#","from":"sheet""#,
            ),
            (
                Event::Granted { token, expiry: 1 },
                "token granted",
                &format!(r#"{of_token},"expiry":1"#),
            ),
            (Event::Revoked { token }, "token revoked", of_token),
        ] {
            let line =
                pgseal_chain::Chain::new().append(5, event.name(), |fields| event.write(fields));
            let expected = format!(r#"{{"record":1,"time":5,"event":"{name}"{fields},"chain":""#);
            assert!(line.starts_with(&expected), "{line}");
            let often = name == "unlocked" || name == "failed";
            assert_eq!(event.lasts(), !often, "{name}");
        }
    }

    #[test]
    fn times_are_microseconds_since_1970() {
        let before = SystemTime::now();
        let of_clock = UNIX_EPOCH + std::time::Duration::from_micros(micros() + 1);
        assert!(
            before < of_clock && of_clock < SystemTime::now() + std::time::Duration::from_secs(1)
        );
    }
}
