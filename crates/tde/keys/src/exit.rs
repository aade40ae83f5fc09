//! Exit codes: a documented interface (docs/exit-codes.md).
//!
//! An error has its own code, beside its definition, by [`Exit`]; this module knows none of
//! them. [`Failure`] is any such error on its way to `main`, which reports it as one sentence.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};
use std::process::ExitCode;

/// The way in which a program of pgseal ends if it does not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A check found something.
    Found,
    /// PostgreSQL's program would end with this code, and its wrapper refuses in its place.
    AsPostgres,
    /// The command line or the environment is wrong.
    Usage,
    /// A file, a process or the system fails.
    Io,
    /// The cluster is not sealed.
    NotSealed,
    /// The key file is damaged, incomplete or newer.
    KeyFile,
    /// A provider or its command fails.
    Provider,
    /// The key is another one.
    WrongKey,
    /// It cannot be guaranteed that the program runs sealed.
    NotGuaranteed,
    /// Another process is at work.
    Busy,
    /// A server or an evaluator refuses.
    Refused,
    /// Ctrl-C ended the program; the number is that of a shell.
    Interrupted,
    /// Standard output has no reader; the number is that of a shell.
    NoReader,
}

impl Code {
    /// `wal-get` adds this to every code: PostgreSQL takes 1 to 125 of restore_command for the end
    /// of the archive, and stops from 126 on. No signal has these numbers, less 128.
    const STOPS_RECOVERY: u8 = 200;

    /// The number that the operating system is given.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Found | Self::AsPostgres => 1,
            Self::Usage => 2,
            Self::Io => 3,
            Self::NotSealed => 4,
            Self::KeyFile => 5,
            Self::Provider => 6,
            Self::WrongKey => 7,
            Self::NotGuaranteed => 8,
            Self::Busy => 9,
            Self::Refused => 10,
            Self::Interrupted => 130,
            Self::NoReader => 141,
        }
    }

    /// Returns the code that a recovering server must get.
    #[must_use]
    pub fn to_recovery(self) -> ExitCode {
        ExitCode::from(Self::STOPS_RECOVERY + self.number())
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}

/// An error that ends a program: one sentence for the operator, and a code.
pub trait Exit: Error + Send + 'static {
    /// The documented code.
    fn code(&self) -> Code;
}

/// Why a program ended.
#[derive(Debug)]
pub struct Failure(Box<dyn Exit>);

impl<E: Exit> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Failure {
    /// The error, if it is an `E`.
    #[must_use]
    pub fn cause<E: Exit>(&self) -> Option<&E> {
        let error: &(dyn Error + 'static) = &*self.0;
        error.downcast_ref()
    }

    /// The documented code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code()
    }

    /// Writes the error to standard error, unless it is that standard output has no reader:
    /// filters then write nothing.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        if self.code() != Code::NoReader {
            // Only the exit code is left, if standard error has no reader either.
            let _ = writeln!(io::stderr(), "pgseal: {}", sentence(self));
        }
        self.code().into()
    }
}

/// Returns a sentence without the numbers that Rust adds to the system's words for an error.
pub fn sentence(text: &impl Display) -> String {
    const NUMBER: &str = " (os error ";
    let text = text.to_string();
    let mut parts = text.split(NUMBER);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                out.push_str(rest);
            }
            _ => out.extend([NUMBER, part]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the variant behind this one: a new variant does not compile until it is here.
    fn after(code: Code) -> Option<Code> {
        Some(match code {
            Code::Found => Code::AsPostgres,
            Code::AsPostgres => Code::Usage,
            Code::Usage => Code::Io,
            Code::Io => Code::NotSealed,
            Code::NotSealed => Code::KeyFile,
            Code::KeyFile => Code::Provider,
            Code::Provider => Code::WrongKey,
            Code::WrongKey => Code::NotGuaranteed,
            Code::NotGuaranteed => Code::Busy,
            Code::Busy => Code::Refused,
            Code::Refused => Code::Interrupted,
            Code::Interrupted => Code::NoReader,
            Code::NoReader => return None,
        })
    }

    /// The table is also what `pgseal help exit-codes` prints.
    #[test]
    fn the_page_documents_exactly_these_codes() {
        let page = include_str!("../../../../docs/exit-codes.md");
        let numbers = |start: &str, end: &str| -> Vec<u8> {
            let lines = page.lines().filter_map(|line| line.strip_prefix(start));
            let cells = lines.filter_map(|line| line.split(end).next());
            cells.filter_map(|cell| cell.parse().ok()).collect()
        };
        let codes = std::iter::successors(Some(Code::Found), |code| after(*code));
        let mut codes: Vec<u8> = codes.map(Code::number).collect();
        codes.dedup();
        assert_eq!(numbers("## Code ", "\n"), codes);
        assert_eq!(numbers("| ", " |"), [&[0], &codes[..]].concat());
    }

    #[test]
    fn codes_keep_their_numbers() {
        let codes = [
            (Code::NotSealed, 4),
            (Code::KeyFile, 5),
            (Code::Provider, 6),
            (Code::WrongKey, 7),
            (Code::NotGuaranteed, 8),
            (Code::Busy, 9),
            (Code::Refused, 10),
        ];
        for (code, number) in codes {
            assert_eq!(code.number(), number, "{code:?}");
        }
    }

    #[test]
    fn what_the_system_says_has_no_number() {
        for (text, said) in [
            (
                "x cannot be read (No such file (os error 2)): go",
                "x cannot be read (No such file): go",
            ),
            ("a (os error 2) b (os error 13)", "a b"),
            ("a (os error two)", "a (os error two)"),
            ("a (os error 2", "a (os error 2"),
            ("", ""),
        ] {
            assert_eq!(sentence(&text), said);
        }
    }

    #[test]
    fn a_failure_ends_a_program_with_its_code() {
        #[derive(Debug, thiserror::Error)]
        #[error("it fails: repair it")]
        struct Wrong;
        impl Exit for Wrong {
            fn code(&self) -> Code {
                Code::WrongKey
            }
        }
        let is = |code: ExitCode, number: u8| {
            assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(number)));
        };
        let failure = Failure::from(Wrong);
        assert_eq!(failure.code(), Code::WrongKey);
        assert_eq!(failure.to_string(), "it fails: repair it");
        assert!(failure.cause::<Wrong>().is_some());
        is(failure.report(), 7);
        is(Code::WrongKey.to_recovery(), 207);
    }
}
