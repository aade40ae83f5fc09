//! Checklists of auditors: for each point of a standard that a sealed cluster has a part in, what
//! `doctor` found about it, and what it cannot know.
//!
//! The standards' own texts are not repeated here: the numbers lead to them, and the words say in
//! short what each point is about. A point without a finding is one to show by hand.

use std::fmt::{self, Display, Formatter};

use console::style;
use serde::Serialize;

use super::{Finding, Verdict};

/// A standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// PCI DSS 4.0.1, requirements 3, 6, 10 and 12.
    Pci,
    /// The CIS `PostgreSQL` Benchmark; its numbers are those for versions 15 to 18.
    Cis,
}

/// A point of a standard.
struct Point {
    number: &'static str,
    about: &'static str,
    /// The findings that bear on it, by what they are about.
    findings: &'static [&'static str],
    /// The evidence that nothing on this machine can give.
    by_hand: &'static str,
}

const PCI: [Point; 11] = [
    Point {
        number: "3.5.1",
        about: "stored account data is unreadable",
        findings: &["key", "clear files", "logs", "server"],
        by_hand: "run `pgseal audit` on the data directory, on backups and on the WAL archive",
    },
    Point {
        number: "3.5.1.2",
        about: "encryption of disks alone does not count",
        findings: &[],
        by_hand: "pgseal encrypts the files of one cluster, above the file system; give the assessor its design and threat model",
    },
    Point {
        number: "3.6.1.2",
        about: "keys are stored in an approved form",
        findings: &["slots", "kinds of slots", "secret files", "memory", "core dumps", "swap"],
        by_hand: "show where the key-encrypting key is, that it is as strong, and that it is apart from the data (`pgseal key list`)",
    },
    Point {
        number: "3.6.1.3",
        about: "few people have access to clear keys",
        findings: &["key file", "secret files", "policy"],
        by_hand: "show who may read the secret of each slot, and use the key service",
    },
    Point {
        number: "3.6.1.4",
        about: "keys are in few places",
        findings: &["key slots"],
        by_hand: "list the copies, sheets and shares; each is a record in the audit log of keys",
    },
    Point {
        number: "3.7.4",
        about: "keys are changed at the end of their cryptoperiod",
        findings: &["age of slots"],
        by_hand: "give --max-age for slots; show when `pgseal rekey` last changed the master key",
    },
    Point {
        number: "3.7.5",
        about: "keys are retired when they may be known",
        findings: &["proofs"],
        by_hand: "show the procedure: `key rotate` and `key remove` for a slot, `rekey` for the master key",
    },
    Point {
        number: "3.7.6",
        about: "clear keys that people handle are under split knowledge",
        findings: &[],
        by_hand: "keep recovery sheets as shares (`pgseal key backup --shares`)",
    },
    Point {
        number: "3.7.7",
        about: "keys cannot be substituted",
        findings: &["pin", "key file", "pgseal.toml"],
        by_hand: "",
    },
    Point {
        number: "6.3.3",
        about: "software is up to date",
        findings: &["command", "library", "server library", "version"],
        by_hand: "",
    },
    Point {
        number: "10.2, 10.3",
        about: "use of keys is logged, and the log is protected",
        findings: &[],
        by_hand: "show `pgseal key audit --verify` with a hash that was kept elsewhere, and the key service's own log",
    },
];

const CIS: [Point; 7] = [
    Point {
        number: "1.3",
        about: "the data cluster is initialized, with checksums",
        findings: &["version", "blocks", "page changes"],
        by_hand: "",
    },
    Point {
        number: "2",
        about: "permissions of directories and files",
        findings: &["key file", "secret files"],
        by_hand: "",
    },
    Point {
        number: "3.1.4",
        about: "logs are written to a safe directory",
        findings: &["logs"],
        by_hand: "",
    },
    Point {
        number: "6.7",
        about: "FIPS 140 cryptography is used",
        findings: &[],
        by_hand: "only a FIPS build of pgseal uses AWS-LC's validated module, and `pgseal --version` says whether this is one; show the certificates of PostgreSQL's own OpenSSL too",
    },
    Point {
        number: "6.9",
        about: "cryptography for stored data",
        findings: &["key", "clear files", "server"],
        by_hand: "the benchmark names extensions; pgseal encrypts the whole cluster instead",
    },
    Point {
        number: "7.3, 7.4",
        about: "base backups and WAL archiving",
        findings: &["key slots", "proofs"],
        by_hand: "show that backups and archive are encrypted (`pgseal audit`), and that a restore opens",
    },
    Point {
        number: "8.1",
        about: "subdirectories are outside the data cluster",
        findings: &["logs", "clear files"],
        by_hand: "",
    },
];

impl Profile {
    fn points(self) -> &'static [Point] {
        match self {
            Self::Pci => &PCI,
            Self::Cis => &CIS,
        }
    }
}

/// A checklist with its evidence.
#[derive(Serialize)]
pub struct Checklist {
    points: Vec<Shown>,
}

/// A point, and what is known of it.
#[derive(Serialize)]
struct Shown {
    number: &'static str,
    about: &'static str,
    /// The worst of the findings. None: only people can show it.
    verdict: Option<Verdict>,
    evidence: Vec<Finding>,
    #[serde(skip_serializing_if = "str::is_empty")]
    by_hand: &'static str,
}

impl Checklist {
    /// Sorts findings into the points of a standard.
    #[must_use]
    pub fn new(profile: Profile, findings: &[Finding]) -> Self {
        let shown = |point: &Point| Shown::of(point, findings);
        Self {
            points: profile.points().iter().map(shown).collect(),
        }
    }
}

impl Shown {
    fn of(point: &Point, findings: &[Finding]) -> Self {
        let bears = |found: &&Finding| point.findings.contains(&found.about);
        let evidence: Vec<_> = findings.iter().filter(bears).cloned().collect();
        Self {
            number: point.number,
            about: point.about,
            verdict: evidence.iter().map(|found| found.verdict).max(),
            evidence,
            by_hand: point.by_hand,
        }
    }
}

impl Display for Checklist {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.points.iter().try_for_each(|point| point.fmt(f))
    }
}

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match self.verdict {
            None => style("by hand "),
            Some(verdict) => verdict.sign(),
        };
        writeln!(f, "{sign}{:<11}{}", self.number, self.about)?;
        for found in &self.evidence {
            writeln!(f, "           {}: {}", found.about, found.text)?;
        }
        match self.by_hand {
            "" => Ok(()),
            text => writeln!(f, "           by hand: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_as_bad_as_the_worst_of_its_findings() {
        let findings = [
            Finding::good("pin", "a"),
            Finding::wrong("key file", "b"),
            Finding::advice("pgseal.toml", "c"),
        ];
        let list = Checklist::new(Profile::Pci, &findings);
        let point = |number| list.points.iter().find(|point| point.number == number);
        let verdict = |number| point(number).and_then(|point| point.verdict);
        assert_eq!(verdict("3.7.7"), Some(Verdict::Wrong));
        assert_eq!(verdict("3.7.6"), None);
        assert_eq!(point("3.7.7").map(|point| point.evidence.len()), Some(3));
    }
}
