//! `pgseal key audit`: is an audit log of keys what was written?

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pgseal_chain::{hex, verify, Broken, Head, Verified};
use pgseal_keys::exit::{Code, Exit, Failure};

use crate::cli::key::AuditLogArgs;
use crate::output;

/// Why a log does not hold.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the audit log {0} cannot be read ({1}): check its path, owner and mode")]
    Read(PathBuf, io::Error),
    #[error("the audit log {0} does not hold: {1}")]
    Broken(PathBuf, Broken),
    #[error("the audit log {0} does not begin where the one before it ended: one is missing, or the order is another")]
    Gap(PathBuf),
    #[error("the audit log {0} ends with another record than the one with this hash: records are missing, or were added since")]
    Head(PathBuf),
}

impl Exit for LogError {
    fn code(&self) -> Code {
        match self {
            Self::Read(..) => Code::Io,
            Self::Broken(..) | Self::Gap(_) | Self::Head(_) => Code::Found,
        }
    }
}

pub fn run(args: &AuditLogArgs) -> Result<ExitCode, Failure> {
    let mut last: Option<(&Path, Head)> = None;
    for path in &args.verify {
        let found = read(path)?;
        if last.is_some_and(|(_, head)| found.previous != Some(head)) {
            return Err(LogError::Gap(path.clone()).into());
        }
        let torn = match found.torn {
            true => ", and a part of a record at its end",
            false => "",
        };
        let (records, head) = (found.records, hex(&found.head));
        let path = path.as_path();
        output::print(format_args!(
            "{}: {records} records, head {head}{torn}\n",
            path.display()
        ))?;
        last = Some((path, found.head));
    }
    match (&args.head, last) {
        (Some(head), Some((path, last))) if !head.eq_ignore_ascii_case(&hex(&last)) => {
            Err(LogError::Head(path.to_owned()).into())
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn read(path: &Path) -> Result<Verified, LogError> {
    let file = File::open(path).map_err(|error| LogError::Read(path.to_owned(), error))?;
    verify(BufReader::new(file)).map_err(|error| match error {
        Broken::Io(error) => LogError::Read(path.to_owned(), error),
        broken => LogError::Broken(path.to_owned(), broken),
    })
}
