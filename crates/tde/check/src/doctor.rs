//! Judges for `pgseal doctor` what the machine and a cluster's processes say: texts of /proc go
//! in, findings come out. Advice is what weakens the protection and stops nothing. What is wrong
//! keeps a sealed server from starting, or from being sealed, or opens its files to others.

mod examine;
mod extensions;
pub mod key;
mod profile;
mod siblings;
pub mod version;

pub use examine::{examine, Question, Report};
pub use profile::{Checklist, Profile};

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use console::{style, StyledObject};
use pgseal_contract::variable::EXPECT_KEY;
use pgseal_keys::exit;
use serde::Serialize;

use crate::unlisted::listed;

/// The verdict of a check.
/// The order is from good to wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Good,
    Advice,
    Wrong,
}

impl Verdict {
    /// Returns the word that opens a line: in colour on a terminal only, and not with `NO_COLOR`.
    fn sign(self) -> StyledObject<&'static str> {
        match self {
            Self::Good => style("ok      ").green(),
            Self::Advice => style("advice  ").yellow(),
            Self::Wrong => style("WRONG   ").red().bold(),
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub about: &'static str,
    pub verdict: Verdict,
    /// The text that says what is there, or what to do.
    pub text: String,
}

impl Finding {
    pub fn good(about: &'static str, text: impl Display) -> Self {
        Self::new(about, Verdict::Good, text)
    }

    pub fn advice(about: &'static str, text: impl Display) -> Self {
        Self::new(about, Verdict::Advice, text)
    }

    pub fn wrong(about: &'static str, text: impl Display) -> Self {
        Self::new(about, Verdict::Wrong, text)
    }

    /// Returns the finding of a step: what it gave, or why it failed.
    pub fn of(about: &'static str, result: Result<impl Display, impl Display>) -> Self {
        match result {
            Ok(text) => Self::good(about, text),
            Err(error) => Self::wrong(about, error),
        }
    }

    fn new(about: &'static str, verdict: Verdict, text: impl Display) -> Self {
        let text = exit::sentence(&text);
        Self {
            about,
            verdict,
            text,
        }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = self.verdict.sign();
        writeln!(f, "{sign}{:<17}{}", format!("{}:", self.about), self.text)
    }
}

/// Judges the names in the data directory that are none of PostgreSQL's: those of known extensions
/// one by one, the others together.
pub fn clear_files(names: BTreeSet<String>) -> Vec<Finding> {
    let about = "clear files";
    if names.is_empty() {
        return vec![Finding::good(about, "only files of PostgreSQL")];
    }
    let (mut findings, others) = extensions::known(names);
    findings.extend((!others.is_empty()).then(|| {
        let text = format_args!(
            "not files of PostgreSQL, and not encrypted: {}: check that they contain no data",
            listed(&others)
        );
        Finding::advice(about, text)
    }));
    findings
}

/// Judges the directories of logs in the data directory that are not empty.
pub fn logs(names: &BTreeSet<String>) -> Finding {
    let about = "logs";
    if names.is_empty() {
        return Finding::good(about, "none in the data directory");
    }
    Finding::advice(
        about,
        format_args!(
            "not encrypted, and can contain statements and rows: {}: keep logs on an encrypted \
            file system (log_directory), and remove those that you do not need",
            listed(names)
        ),
    )
}

/// Judges the processor by /proc/cpuinfo: x86 says "flags", Arm "Features".
pub fn processor(cpuinfo: &str) -> Finding {
    let is_list = |line: &&str| line.starts_with("flags") || line.starts_with("Features");
    let list = cpuinfo.lines().find(is_list).unwrap_or_default();
    match list.split_whitespace().any(|flag| flag == "aes") {
        true => Finding::good("processor", "has instructions for AES"),
        false => Finding::advice(
            "processor",
            "has no instructions for AES, so encryption will be a large part of a server's time: \
             measure with `pgseal bench`",
        ),
    }
}

/// Judges the soft limit of /proc/PID/limits, and /proc/sys/kernel/core_pattern. If the pattern
/// begins with `|`, or since Linux 6.16 with `@`, the kernel asks for no limit (core(5)). It gives
/// cores to a program, or to the listener of a socket. systemd-coredump, by itself, heeds a limit
/// that leaves room for nothing.
pub fn core_dumps(limits: &str, pattern: &str) -> Finding {
    let about = "core dumps";
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max core file size"));
    let limit = line.and_then(|line| line.split_whitespace().next());
    let program = pattern.strip_prefix(['|', '@']);
    let program = program.map(|line| line.split_whitespace().next().unwrap_or_default());
    match (limit, program) {
        (None, _) => Finding::advice(
            about,
            "cannot be checked: run this as the server's user or \
            root",
        ),
        (Some("0"), None) => Finding::good(about, "are not written"),
        (Some("0"), Some(program)) if program.ends_with("/systemd-coredump") => Finding::good(
            about,
            "are not kept by systemd-coredump, by the server's limit",
        ),
        (Some(_), Some(program)) if !program.ends_with("/systemd-coredump") => Finding::advice(
            about,
            format_args!(
                "of a server would contain decrypted pages, though no keys, and go to {program} \
                whatever \
                 the server's limit is: see that it keeps none, or set kernel.core_pattern to core \
                 and LimitCORE=0"
            ),
        ),
        (Some(_), _) => Finding::advice(
            about,
            "of a server would contain decrypted pages, though no keys: set LimitCORE=0 in its \
            unit, or \
             `ulimit -c 0` before it starts",
        ),
    }
}

/// Judges swap by /proc/swaps; `shown_on` says where a device's pages outlive power in clear.
pub fn swap(swaps: &str, shown_on: impl Fn(&str) -> Option<String>) -> Finding {
    let devices = swaps.lines().skip(1);
    let devices = devices.filter_map(|line| line.split_whitespace().next());
    let open: Vec<String> = devices.filter_map(shown_on).collect();
    match open.is_empty() {
        true => Finding::good("swap", "none, or encrypted"),
        false => Finding::advice(
            "swap",
            format_args!(
                "decrypted pages of servers, though no keys, may be written to {}: encrypt it, \
                or use no swap",
                open.join(", ")
            ),
        ),
    }
}

/// The device on which pages that go to `device` outlive power in clear, by its files in
/// /sys/class/block, which `said` reads: none below dm-crypt. One in memory (zram) writes to the
/// one behind it, if it has one.
pub fn shown_on(device: &str, said: &impl Fn(&str, &str) -> String) -> Option<String> {
    if said(device, "dm/uuid").starts_with("CRYPT-") {
        return None;
    }
    if said(device, "comp_algorithm").is_empty() {
        return Some(device.to_owned());
    }
    match said(device, "backing_dev").trim() {
        "" | "none" => None,
        behind => shown_on(behind, said),
    }
}

/// Judges by /proc/PID/environ of a server whether it accepts this cluster only.
pub fn pin(environ: &[u8], key_id: &str) -> Finding {
    match variable(environ, EXPECT_KEY.as_str()).is_some() {
        true => Finding::good(
            "pin",
            "the server accepts this cluster only (PGSEAL_EXPECT_KEY)",
        ),
        false => Finding::advice(
            "pin",
            format_args!(
                "anyone who can replace the data directory can make the server start on an \
                unencrypted one: start it with PGSEAL_EXPECT_KEY={key_id}"
            ),
        ),
    }
}

/// Returns the value of a variable in /proc/PID/environ, unless it is empty.
pub fn variable<'a>(environ: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut settings = environ.split(|byte| *byte == 0);
    let value = |text: &'a [u8]| text.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    settings.find_map(value).filter(|value| !value.is_empty())
}

/// Judges the number of ways in which the key opens.
pub fn ways(count: usize) -> Finding {
    match count {
        0 | 1 => Finding::advice(
            "key slots",
            "only one: if its secret is lost, the data is lost. Add another with `pgseal key \
            wrap`, and keep its secret elsewhere",
        ),
        count => Finding::good(
            "key slots",
            format_args!("{count}; `pgseal key check --all` checks them"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_say_it_in_two_ways() {
        for (text, verdict) in [
            (
                "processor\t: 0\nflags\t\t: fpu sse2 aes avx\n",
                Verdict::Good,
            ),
            (
                "processor\t: 0\nFeatures\t: fp asimd aes crc32\n",
                Verdict::Good,
            ),
            (
                "processor\t: 0\nflags\t\t: fpu sse2 vaes\n",
                Verdict::Advice,
            ),
            ("", Verdict::Advice),
        ] {
            assert_eq!(processor(text).verdict, verdict, "{text}");
        }
    }

    #[test]
    fn a_core_of_no_bytes_is_none() {
        let limits = |soft: &str| {
            format!("Limit  Soft Limit  Hard Limit  Units\nMax core file size   {soft}   unlimited   bytes\n")
        };
        let judged = |limit: &str, pattern: &str| core_dumps(&limits(limit), pattern).verdict;
        for file in ["core\n", "/var/crash/core.%p\n", ""] {
            assert_eq!(judged("0", file), Verdict::Good, "{file}");
            assert_eq!(judged("unlimited", file), Verdict::Advice, "{file}");
        }
        assert_eq!(core_dumps("", "core\n").verdict, Verdict::Advice);
    }

    #[test]
    fn a_program_that_takes_cores_is_not_stopped_by_a_limit() {
        let limits = |soft: &str| format!("Max core file size   {soft}   unlimited   bytes\n");
        let judged = |limit: &str, pattern: &str| core_dumps(&limits(limit), pattern);
        for (pattern, taker) in [
            (
                "|/usr/share/apport/apport -p%p -s%s -c%c\n",
                "apport/apport",
            ),
            ("@/run/collector.socket\n", "collector.socket"),
        ] {
            for limit in ["0", "unlimited"] {
                let found = judged(limit, pattern);
                assert_eq!(found.verdict, Verdict::Advice, "{pattern} {limit}");
                assert!(found.text.contains(&format!("{taker} whatever")));
            }
        }
        let systemd = "|/lib/systemd/systemd-coredump %P %u %g %s %t 9223372036854775808 %h\n";
        assert_eq!(judged("0", systemd).verdict, Verdict::Good);
        assert_eq!(judged("unlimited", systemd).verdict, Verdict::Advice);
        assert!(judged("unlimited", systemd).text.contains("LimitCORE=0"));
    }

    #[test]
    fn every_open_device_is_named() {
        let swaps = "Filename Type Size Used Priority\n/dev/dm-1 partition 1 0 -2\n/dev/sda2 partition 1 0 -3\n";
        let shown = |device: &str| Some(device.to_owned()).filter(|device| device != "/dev/dm-1");
        let found = swap(swaps, shown);
        assert_eq!(found.verdict, Verdict::Advice);
        assert!(found.text.contains("/dev/sda2") && !found.text.contains("dm-1"));
        assert_eq!(swap(swaps, |_| None).verdict, Verdict::Good);
        assert_eq!(swap("Filename Type\n", shown).verdict, Verdict::Good);
    }

    #[test]
    fn what_lies_behind_memory_counts() {
        let said = |device: &str, file: &str| match (device, file) {
            ("/dev/dm-1", "dm/uuid") => "CRYPT-PLAIN-swap\n".to_owned(),
            ("/dev/dm-2", "dm/uuid") => "LVM-abc\n".to_owned(),
            (zram, "comp_algorithm") if zram.starts_with("/dev/zram") => "lzo [zstd]\n".to_owned(),
            ("/dev/zram1", "backing_dev") => "none\n".to_owned(),
            ("/dev/zram2", "backing_dev") => "/dev/sda3\n".to_owned(),
            ("/dev/zram3", "backing_dev") => "/dev/dm-1\n".to_owned(),
            _ => String::new(),
        };
        for (device, shown) in [
            ("/dev/sda2", Some("/dev/sda2")),
            ("/dev/dm-1", None),
            ("/dev/dm-2", Some("/dev/dm-2")),
            ("/dev/zram0", None),
            ("/dev/zram1", None),
            ("/dev/zram2", Some("/dev/sda3")),
            ("/dev/zram3", None),
        ] {
            assert_eq!(shown_on(device, &said).as_deref(), shown, "{device}");
        }
    }

    #[test]
    fn a_pin_without_a_key_is_none() {
        let is_good = |text: &[u8]| pin(text, "ab").verdict == Verdict::Good;
        assert!(is_good(b"A=1\0PGSEAL_EXPECT_KEY=ab\0"));
        assert!(!is_good(b"A=1\0PGSEAL_EXPECT_KEY=\0"));
        assert!(!is_good(b"XPGSEAL_EXPECT_KEY=ab\0"));
    }
}
