//! The report of `audit`: each hit by file and offset, and what was gone over; or the same as
//! JSON.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pgseal_keys::raw::words;
use serde::Serialize;

use super::{Audited, Canaries, What};
use crate::scan::walk::Found;
use crate::unlisted::listed;

/// All of it, as JSON has it.
#[derive(Serialize)]
pub struct Report {
    directories: Vec<String>,
    canaries: usize,
    files: usize,
    bytes: u64,
    hits: Vec<Hit>,
    not_read: Vec<Unread>,
    /// Names in data directories that are none of PostgreSQL's, and in clear.
    pub unlisted: BTreeSet<String>,
    seconds: f64,
}

/// A place that may hold anything.
#[derive(Serialize)]
pub struct Unread {
    file: String,
    why: &'static str,
}

impl Unread {
    /// Returns an entry for a link or device that the server would follow, where PostgreSQL makes
    /// none.
    pub fn link(path: &Path) -> Self {
        Self {
            file: shown(path),
            why: "a link where PostgreSQL has none, or a device: audit what it leads to by itself",
        }
    }

    pub fn dangling(path: &Path) -> Self {
        Self {
            file: shown(path),
            why: "is a dangling link: mount its target",
        }
    }
}

#[derive(Serialize)]
struct Hit {
    file: String,
    offset: u64,
    #[serde(flatten)]
    what: Words,
    /// Why this is no surprise.
    #[serde(skip_serializing_if = "Option::is_none")]
    clear_by_design: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
enum Words {
    Canary { canary: String },
    ClearPages { pages: u64 },
    KeyLeftover,
    Unreadable { error: &'static str },
}

impl Report {
    /// `audited` is in the order of `files`.
    pub fn new(
        directories: &[PathBuf],
        files: &[Found],
        audited: Vec<Audited>,
        canaries: &Canaries,
        count: usize,
        mut not_read: Vec<Unread>,
        time: Duration,
    ) -> Self {
        let mut hits = Vec::new();
        for (found, file) in files.iter().zip(audited) {
            let Audited {
                hits: places,
                clear_by_design,
            } = file;
            hits.extend(places.into_iter().map(|(offset, what)| Hit {
                file: shown(&found.path),
                offset,
                what: Words::of(&what, canaries),
                clear_by_design,
            }));
        }
        hits.sort_by(|a, b| a.file.cmp(&b.file));
        not_read.sort_by(|a, b| a.file.cmp(&b.file));
        Self {
            directories: directories.iter().map(|path| shown(path)).collect(),
            canaries: count,
            files: files.len(),
            bytes: files.iter().map(|file| file.len).sum(),
            hits,
            not_read,
            unlisted: BTreeSet::new(),
            seconds: time.as_secs_f64(),
        }
    }

    /// Were there hits, or could there be where nobody looked?
    pub fn is_finding(&self) -> bool {
        !self.hits.is_empty() || !self.not_read.is_empty()
    }
}

/// The report as text, for people.
impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for hit in &self.hits {
            writeln!(f, "{}", hit.line())?;
        }
        for Unread { file, why } in &self.not_read {
            writeln!(f, "{file}: not read: {why}")?;
        }
        write!(
            f,
            "{} hits in {} files, {} bytes, {} canaries, {:.2} seconds; not read: {} places",
            self.hits.len(),
            self.files,
            self.bytes,
            self.canaries,
            self.seconds,
            self.not_read.len()
        )?;
        if !self.unlisted.is_empty() {
            let names = listed(&self.unlisted);
            write!(f, "; not files of PostgreSQL, and not encrypted: {names}")?;
        }
        writeln!(f)
    }
}

impl Hit {
    fn line(&self) -> String {
        let design = match self.clear_by_design {
            Some(holds) => format!(" (not sealed by design: {holds})"),
            None => String::new(),
        };
        let what = match &self.what {
            Words::Canary { canary } => format!("canary {canary:?}"),
            Words::ClearPages { pages: 1 } => "a page that does not look encrypted".to_owned(),
            Words::ClearPages { pages } => format!("{pages} pages that do not look encrypted"),
            Words::KeyLeftover => {
                "left over from an interrupted change of the key, and may hold the key: remove it"
                    .to_owned()
            }
            Words::Unreadable { error } => format!("cannot be read: {error}"),
        };
        format!("{}: offset {}: {what}{design}", self.file, self.offset)
    }
}

/// As JSON can have it, and a terminal.
fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Words {
    fn of(what: &What, canaries: &Canaries) -> Self {
        match what {
            What::Canary(index) => Self::Canary {
                canary: canaries.shown(*index).to_owned(),
            },
            What::ClearPages(pages) => Self::ClearPages { pages: *pages },
            What::KeyLeftover => Self::KeyLeftover,
            What::Unreadable(errno) => Self::Unreadable {
                error: words(*errno),
            },
        }
    }
}
