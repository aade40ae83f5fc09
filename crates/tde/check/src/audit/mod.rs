//! Looks for clear text in raw files, as a reader without the key would.
//!
//! Three searches over every byte of every file:
//! - canaries: byte strings that must not be there, also across the edges of what is read at once;
//! - what an interrupted change of the key left beside the key file: perhaps the key in clear;
//! - pages that do not look encrypted, in files that the class table seals: each 8 kB page by the
//!   test of [`crate::pages::randomness`], and pages of relations also by their header
//!   ([`crate::pages::header`]): random bytes pass for clear less than once in 10^9 pages. Zeros
//!   are holes, not findings: sectors of 512 bytes in relations and SLRUs, which a torn write may
//!   leave of a new page, and 16-byte blocks elsewhere. The first 16 bytes of `pg_control` are
//!   clear by design.

mod canary;
mod report;
mod run;

use std::fs::File;
use std::io::ErrorKind;

use indicatif::ProgressBar;
use pgseal_crypto::UNIT;
use pgseal_keys::keybin::{ASIDE, DIR};
use pgseal_keys::raw::Raw;
use pgseal_storage::classify::{classify, Class, Kind};
use pgseal_storage::disk::read_full;
use pgseal_storage::layout::{Layout, Zeros};
use pgseal_storage::Errno;

use crate::pages::randomness::{look_between_holes, Look, BLOCK, SECTOR};
use crate::pages::{header, Page};
use crate::scan::walk::Found;
pub use canary::{Canaries, Canary, CanaryError};
pub use report::{Report, Unread};
pub use run::{audit_all, Options};

/// Bytes that are read at once: whole pages.
const RUN: usize = 128 * UNIT;

/// A finding at a position in a file.
#[derive(Debug, PartialEq, Eq)]
pub enum What {
    /// The canary of this index.
    Canary(usize),
    /// So many pages in a row that do not look encrypted.
    ClearPages(u64),
    /// A file that holds a wrapping that nobody has looked at.
    KeyLeftover,
    /// The rest of the file could not be read.
    Unreadable(Errno),
}

/// One file, audited.
#[derive(Debug)]
pub struct Audited {
    /// Place and what, in the order of places.
    pub hits: Vec<(u64, What)>,
    /// Why clear text is no surprise here, for a file that is not sealed.
    pub clear_by_design: Option<&'static str>,
}

/// How a file's pages should look.
#[derive(Clone, Copy)]
enum Expected {
    /// They may look as they like.
    Anything,
    /// Ciphertext, except whole sectors of zeros.
    Pages { relation: bool },
    /// Ciphertext, except blocks of zeros and this many bytes at the start.
    Blocks { clear_head: usize },
}

/// Goes over one file. `buffer` is reused from file to file.
pub fn audit(
    found: &Found,
    canaries: &Canaries,
    buffer: &mut Vec<u8>,
    bar: &ProgressBar,
) -> Audited {
    let classified = classify(&found.name);
    let clear_by_design = match (&classified.class, classified.row) {
        (Class::Clear | Class::KeyDirectory | Class::WalRestored, Some(row)) => Some(row.holds),
        (Class::Clear, None) => Some("unknown file"),
        _ => None,
    };
    let expected = expected(&classified.class, classified.row.map(|row| row.kind));
    let mut hits = match File::open(&found.path) {
        Ok(file) => Scan::new(canaries, expected).run(&Raw(file), buffer, bar),
        // It was removed meanwhile.
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            let errno = error.raw_os_error().map_or(Errno::EIO, Errno);
            vec![(0, What::Unreadable(errno))]
        }
    };
    if found.name == [DIR, "/", ASIDE].concat().as_bytes() {
        hits.insert(0, (0, What::KeyLeftover));
    }
    Audited {
        hits,
        clear_by_design,
    }
}

fn expected(class: &Class, kind: Option<Kind>) -> Expected {
    match class {
        Class::Clear | Class::KeyDirectory | Class::WalRestored => Expected::Anything,
        Class::WalSegment(_) | Class::Refused(_) => Expected::Blocks { clear_head: 0 },
        Class::Sealed(spec) => match spec.layout {
            Layout::Units {
                zeros: Zeros::Page, ..
            } => Expected::Pages {
                relation: matches!(kind, Some(Kind::Relation | Kind::TempRelation)),
            },
            Layout::Units {
                clear_head: true, ..
            } => Expected::Blocks { clear_head: BLOCK },
            Layout::Units { .. } | Layout::Keystream => Expected::Blocks { clear_head: 0 },
        },
    }
}

/// The state of going over one file.
struct Scan<'a> {
    canaries: &'a Canaries,
    expected: Expected,
    hits: Vec<(u64, What)>,
}

impl<'a> Scan<'a> {
    fn new(canaries: &'a Canaries, expected: Expected) -> Self {
        Self {
            canaries,
            expected,
            hits: Vec::new(),
        }
    }

    /// The buffer holds the end of the last run, as much as a canary may straddle, and a new run.
    fn run(mut self, disk: &Raw, buffer: &mut Vec<u8>, bar: &ProgressBar) -> Vec<(u64, What)> {
        let overlap = self.canaries.overlap();
        buffer.resize(overlap + RUN, 0);
        let (mut offset, mut kept) = (0, 0);
        loop {
            let have = match read_full(disk, &mut buffer[overlap..], offset) {
                Ok(0) => break,
                Ok(have) => have,
                Err(errno) => {
                    self.hits.push((offset, What::Unreadable(errno)));
                    break;
                }
            };
            let (from, to) = (overlap - kept, overlap + have);
            let begins = offset - kept as u64;
            let found = self.canaries.ending_after(&buffer[from..to], kept);
            self.hits
                .extend(found.map(|(at, which)| (begins + at as u64, What::Canary(which))));
            self.pages(&buffer[overlap..to], offset);
            kept = overlap.min(have);
            buffer.copy_within(to - kept..to, overlap - kept);
            offset += have as u64;
            bar.inc(have as u64);
        }
        self.hits.sort_by_key(|(offset, _)| *offset);
        self.hits
    }

    fn pages(&mut self, run: &[u8], offset: u64) {
        for (at, page) in (offset..).step_by(UNIT).zip(run.chunks(UNIT)) {
            if looks_clear(page, at, self.expected) {
                self.clear_page(at);
            }
        }
    }

    fn clear_page(&mut self, at: u64) {
        let last = self
            .hits
            .iter_mut()
            .rev()
            .find_map(|(from, what)| match what {
                What::ClearPages(count) => Some((*from, count)),
                _ => None,
            });
        match last {
            Some((from, count)) if from + *count * UNIT as u64 == at => *count += 1,
            _ => self.hits.push((at, What::ClearPages(1))),
        }
    }
}

fn looks_clear(page: &[u8], at: u64, expected: Expected) -> bool {
    match expected {
        Expected::Anything => false,
        Expected::Pages { relation } => {
            let header = <&Page>::try_from(page).is_ok_and(header::is_plausible);
            relation && header || look_between_holes(page, SECTOR) == Some(Look::Clear)
        }
        Expected::Blocks { clear_head } => {
            let skipped = if at == 0 {
                clear_head.min(page.len())
            } else {
                0
            };
            look_between_holes(&page[skipped..], BLOCK) == Some(Look::Clear)
        }
    }
}
