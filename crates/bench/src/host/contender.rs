//! The contenders of a round: the variants, and how each runs its programs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{files, BenchError};
use crate::host::process::{self, Stop};
use crate::model::{Variant, STOCK};
use crate::options::RunOptions;

/// How a contender stores its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Stock PostgreSQL.
    Stock,
    /// Stock's programs on the same data, with the library preloaded and nothing sealed.
    Loaded,
    /// A sealed cluster.
    Sealed,
    /// A foreign directory of programs, used as it is.
    Peer,
}

/// A variant that takes part.
#[derive(Debug, Clone)]
pub struct Contender {
    /// As the report names it.
    pub variant: Variant,
    /// How it stores its data.
    pub kind: Kind,
    /// Its programs: stock's, the wrappers, or a peer's.
    pub bindir: PathBuf,
    /// Further options of its initdb.
    pub initdb: Vec<String>,
}

impl Contender {
    /// The name.
    pub fn name(&self) -> &str {
        &self.variant.name
    }

    /// 15, 17, 18 …; 0 if its version cannot be read.
    pub fn major(&self) -> u32 {
        let digits = |c: char| !c.is_ascii_digit();
        let mut numbers = self.variant.postgres.split(digits);
        let first = numbers.find(|word| !word.is_empty());
        first.and_then(|word| word.parse().ok()).unwrap_or(0)
    }
}

/// Returns the contenders that the command line asks for, stock first.
pub fn all(
    options: &RunOptions,
    key_lengths: &[u16],
    wrappers: &Path,
) -> Result<Vec<Contender>, BenchError> {
    let pg = programs(&options.pg)?;
    let postgres = version(&pg)?;
    let contender = |name: &str, kind, bits, bindir: &Path| Contender {
        variant: Variant {
            name: name.to_owned(),
            bits,
            postgres: postgres.clone(),
        },
        kind,
        bindir: bindir.to_owned(),
        initdb: Vec::new(),
    };
    let mut all = vec![
        contender(STOCK, Kind::Stock, None, &pg),
        contender("loaded", Kind::Loaded, None, &pg),
    ];
    let given = options.key_lengths.as_ref();
    let given = given.map(|words| words.iter().filter_map(|bits| bits.parse().ok()).collect());
    for bits in given.unwrap_or_else(|| key_lengths.to_vec()) {
        let name = format!("sealed-{bits}");
        all.push(contender(&name, Kind::Sealed, Some(bits), wrappers));
    }
    for (name, bindir) in &options.peer {
        all.push(peer(name, Path::new(bindir), &options.peer_initdb)?);
    }
    named_once(&all, &options.peer_initdb)?;
    Ok(all)
}

/// Programs of another version, which stand for nothing in the report.
pub fn plain(name: &str, bindir: &Path) -> Result<Contender, BenchError> {
    peer(name, bindir, &[])
}

fn peer(name: &str, bindir: &Path, initdb: &[(String, String)]) -> Result<Contender, BenchError> {
    let bindir = programs(bindir)?;
    let own = initdb.iter().filter(|(of, _)| of == name);
    Ok(Contender {
        variant: Variant {
            name: name.to_owned(),
            bits: None,
            postgres: version(&bindir)?,
        },
        kind: Kind::Peer,
        bindir,
        initdb: own.map(|(_, option)| option.clone()).collect(),
    })
}

/// A name is that of one contender, and options for one that is there.
fn named_once(all: &[Contender], initdb: &[(String, String)]) -> Result<(), BenchError> {
    let mut names = BTreeSet::new();
    for contender in all {
        if !names.insert(contender.name()) {
            let name = contender.name();
            let text = format!("{name} is the name of two contenders: name each once");
            return Err(BenchError::Usage(text));
        }
    }
    let unknown = initdb
        .iter()
        .find(|(name, _)| !names.contains(name.as_str()));
    match unknown {
        Some((name, _)) => Err(BenchError::Usage(format!(
            "--peer-initdb names {name}, which no --peer does"
        ))),
        None => Ok(()),
    }
}

/// The directory, if all is in it that a run needs.
fn programs(directory: &Path) -> Result<PathBuf, BenchError> {
    let missing: Vec<_> = ["postgres", "initdb", "psql", "pgbench"]
        .into_iter()
        .filter(|name| !directory.join(name).is_file())
        .collect();
    if missing.is_empty() {
        return directory.canonicalize().map_err(files(directory));
    }
    let (directory, missing) = (directory.display(), missing.join(", "));
    Err(BenchError::Usage(format!(
        "{directory} holds no {missing}: name a directory with all of PostgreSQL's programs"
    )))
}

fn version(bindir: &Path) -> Result<String, BenchError> {
    let mut command = Command::new(bindir.join("postgres"));
    let done = process::run(command.arg("--version"), &Stop::default())?.checked()?;
    Ok(done.stdout.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, postgres: &str) -> Contender {
        Contender {
            variant: Variant {
                name: name.to_owned(),
                bits: None,
                postgres: postgres.to_owned(),
            },
            kind: Kind::Peer,
            bindir: PathBuf::new(),
            initdb: Vec::new(),
        }
    }

    #[test]
    fn the_major_version_is_the_first_number() {
        let of = |text| named("a", text).major();
        assert_eq!(of("postgres (PostgreSQL) 18.6"), 18);
        assert_eq!(
            of("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"),
            15
        );
        assert_eq!(of("none"), 0);
    }

    #[test]
    fn every_name_is_known_and_stands_for_one() {
        let text = |all: &[Contender], options: &[(String, String)]| {
            named_once(all, options)
                .expect_err("it is refused")
                .to_string()
        };
        let (a, b) = (named("a", ""), named("b", ""));
        assert!(text(&[a.clone(), b.clone(), a.clone()], &[]).starts_with("a is the name of two"));
        let option = ("c".to_owned(), "-k".to_owned());
        assert_eq!(
            text(&[a.clone(), b], &[option]),
            "--peer-initdb names c, which no --peer does"
        );
        named_once(&[a], &[("a".to_owned(), "-k".to_owned())]).expect("a is there");
    }

    #[test]
    fn missing_programs_are_named() {
        let error = programs(Path::new("/bin")).expect_err("PostgreSQL is elsewhere");
        assert!(
            error
                .to_string()
                .starts_with("/bin holds no postgres, initdb"),
            "{error}"
        );
    }
}
