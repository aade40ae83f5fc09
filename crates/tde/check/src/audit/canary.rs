//! The byte strings that must not be found.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aho_corasick::{AhoCorasick, BuildError};
use pgseal_keys::exit::{Code, Exit};

/// One of them, with the way it is shown.
#[derive(Debug, PartialEq, Eq)]
pub struct Canary {
    pub shown: String,
    bytes: Vec<u8>,
}

/// Why a canary cannot be looked for.
#[derive(Debug, thiserror::Error)]
pub enum CanaryError {
    #[error("{0:?} is not hexadecimal: give two digits for each byte")]
    Hex(String),
    #[error("{0:?} is too short, ciphertext holds it by chance: give at least {SHORTEST} bytes")]
    Short(String),
    #[error("{} cannot be read ({}): give a UTF-8 file with one canary a line", .0.display(), .1)]
    File(PathBuf, io::Error),
    #[error("the canaries cannot be looked for at once ({0}): give fewer")]
    Many(BuildError),
}

impl Exit for CanaryError {
    fn code(&self) -> Code {
        match self {
            Self::File(..) => Code::Io,
            Self::Hex(_) | Self::Short(_) | Self::Many(_) => Code::Usage,
        }
    }
}

/// The length of the shortest canary, in bytes: in a terabyte of ciphertext a string of this
/// length turns up once in 256 times.
const SHORTEST: usize = 6;

impl Canary {
    /// A text, in UTF-8.
    pub fn text(text: &str) -> Result<Self, CanaryError> {
        Self::new(text, text.as_bytes().to_vec())
    }

    /// Any bytes, in hexadecimal.
    pub fn hex(digits: &str) -> Result<Self, CanaryError> {
        let byte = |pair: &[u8]| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        };
        let digits_only = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let bytes = digits
            .as_bytes()
            .chunks(2)
            .map(byte)
            .collect::<Option<Vec<u8>>>();
        match bytes.filter(|_| digits_only && digits.len() % 2 == 0) {
            Some(bytes) => Self::new(digits, bytes),
            None => Err(CanaryError::Hex(digits.to_owned())),
        }
    }

    /// One a line; empty lines do not count.
    pub fn file(path: &Path) -> Result<Vec<Self>, CanaryError> {
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| CanaryError::File(path.to_owned(), error))?;
        text.lines()
            .filter(|line| !line.is_empty())
            .map(Self::text)
            .collect()
    }

    fn new(shown: &str, bytes: Vec<u8>) -> Result<Self, CanaryError> {
        let shown = shown.to_owned();
        if bytes.len() < SHORTEST {
            return Err(CanaryError::Short(shown));
        }
        Ok(Self { shown, bytes })
    }
}

/// All of them, ready to be looked for at once.
pub struct Canaries {
    list: Vec<Canary>,
    automaton: AhoCorasick,
    longest: usize,
}

impl Canaries {
    pub fn new(list: Vec<Canary>) -> Result<Self, CanaryError> {
        let automaton = AhoCorasick::new(list.iter().map(|canary| &canary.bytes));
        let longest = list.iter().map(|canary| canary.bytes.len()).max();
        Ok(Self {
            automaton: automaton.map_err(CanaryError::Many)?,
            longest: longest.unwrap_or(0),
            list,
        })
    }

    /// As it was given.
    pub fn shown(&self, index: usize) -> &str {
        &self.list[index].shown
    }

    /// The most bytes of a canary that can lie before the edge it straddles.
    pub fn overlap(&self) -> usize {
        self.longest.saturating_sub(1)
    }

    /// Where in `bytes` which canary begins, of those that end after the first `known` bytes.
    pub fn ending_after<'a>(
        &'a self,
        bytes: &'a [u8],
        known: usize,
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        let found = self.automaton.find_overlapping_iter(bytes);
        found
            .filter(move |found| found.end() > known)
            .map(|found| (found.start(), found.pattern().as_usize()))
    }
}
