//! `cargo xtask surface`: docs/libc-surface.md against PostgreSQL's imports and our exports.
//!
//! PostgreSQL's imports are those of the supported versions that are on this machine
//! (tests/suites/libc-imports.sh); stderr says which are not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::{fs, io};

const TABLE: &str = "docs/libc-surface.md";
const IMPORTS: &str = "tests/suites/libc-imports.sh";
const LIBRARY: &str = "target/release/libpgseal.so";
const VERSIONS: [&str; 4] = ["15", "17", "18", "19"];

/// Weak symbols that the C runtime, Rust's standard library and the unwinder look for in glibc
/// itself. The unwinder only asks whether `__pthread_key_create` is there, and does not call it.
const RUNTIME: [&str; 8] = [
    "_ITM_deregisterTMCloneTable",
    "_ITM_registerTMCloneTable",
    "__cxa_finalize",
    "__cxa_thread_atexit_impl",
    "__gmon_start__",
    "__pthread_key_create",
    "gettid",
    "statx",
];

/// The library exports these under names of its own, for the extension `pgseal`.
const OWN: [&str; 1] = ["pgseal_rows"];

/// The decision that a row of the table states for its symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Interposed,
    Passed,
    NoFile,
}

/// All findings: in the table, against the imports, against the library.
pub fn check(root: &Path) -> io::Result<Vec<String>> {
    let (table, mut findings) = parse(&fs::read_to_string(root.join(TABLE))?);
    for version in VERSIONS {
        let script = root.join(IMPORTS);
        match run(Command::new("bash").arg(script).arg(version)) {
            Ok(imports) => findings.extend(unclassified(&table, &imports)),
            Err(_) => eprintln!("surface: the imports of PostgreSQL {version} were not checked"),
        }
    }
    let library = root.join(LIBRARY);
    if !library.exists() {
        return Err(io::Error::other(format!(
            "{LIBRARY} is missing: run make build first"
        )));
    }
    let exports = run(nm("--defined-only").arg(&library))?;
    findings.extend(misstated(&table, &exports));
    findings.extend(open_weak(&run(nm("--undefined-only").arg(&library))?));
    Ok(findings)
}

/// The table's rows by symbol, and what is wrong with its form.
fn parse(text: &str) -> (BTreeMap<String, Decision>, Vec<String>) {
    let mut table = BTreeMap::new();
    let mut findings = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let symbols = cells.next().unwrap_or_default();
        let decision = match cells.next() {
            Some("interposed") => Decision::Interposed,
            Some("passed") => Decision::Passed,
            Some("no file") => Decision::NoFile,
            other => {
                findings.push(format!("{TABLE}: {other:?} is no decision ({symbols})"));
                continue;
            }
        };
        for symbol in symbols.split(' ').map(|symbol| symbol.trim_matches('`')) {
            if table.insert(symbol.to_owned(), decision).is_some() {
                findings.push(format!("{TABLE}: {symbol} has two rows"));
            }
        }
    }
    (table, findings)
}

fn unclassified(table: &BTreeMap<String, Decision>, imports: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for line in imports.lines() {
        let mut columns = line.split('\t');
        let symbol = columns.next().unwrap_or_default();
        if !table.contains_key(symbol) {
            let files = columns.nth(1).unwrap_or_default();
            findings.push(format!(
                "{TABLE}: {symbol} has no row (imported by {files})"
            ));
        }
    }
    findings
}

fn misstated(table: &BTreeMap<String, Decision>, exports: &str) -> Vec<String> {
    let exports: BTreeSet<&str> = exports.lines().filter_map(symbol_of).collect();
    let interposed = |symbol: &str| table.get(symbol) == Some(&Decision::Interposed);
    let missing = table
        .keys()
        .filter(|symbol| interposed(symbol) && !exports.contains(symbol.as_str()))
        .map(|symbol| format!("{TABLE}: {symbol} is called interposed, but not exported"));
    let unnamed = exports
        .iter()
        .filter(|symbol| !interposed(symbol) && !OWN.contains(symbol))
        .map(|symbol| format!("{LIBRARY}: exports {symbol}, which no row calls interposed"));
    missing.chain(unnamed).collect()
}

/// Weak imports that anybody in the process could define for us.
fn open_weak(imports: &str) -> Vec<String> {
    let weak = imports
        .lines()
        .filter(|line| line.split_whitespace().next() == Some("w"));
    weak.filter_map(symbol_of)
        .filter(|symbol| !RUNTIME.contains(symbol))
        .map(|symbol| format!("{LIBRARY}: leaves {symbol} open for strangers to define"))
        .collect()
}

/// The name in a line of `nm -D`, without its version.
fn symbol_of(line: &str) -> Option<&str> {
    line.split_whitespace().last()?.split('@').next()
}

fn nm(which: &str) -> Command {
    let mut command = Command::new("nm");
    command.args(["-D", which]);
    command
}

fn run(command: &mut Command) -> io::Result<String> {
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{command:?} failed")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
| symbols | decision | why |
| --- | --- | --- |
| `open` `open64` | interposed | keys |
| `lseek` | passed | same |
| `strlen` | no file | text |
";

    #[test]
    fn a_true_table_passes() {
        let (table, findings) = parse(TEXT);
        assert_eq!(findings, [""; 0]);
        assert_eq!(
            unclassified(&table, "open\t1\t/a\nstrlen\t2\t/a /b\n"),
            [""; 0]
        );
        let exports = "0000000000000010 T open\n0000000000000020 T open64@@V1\n";
        assert_eq!(misstated(&table, exports), [""; 0]);
        assert_eq!(
            open_weak("   w __gmon_start__\n   U abort@GLIBC_2.2.5\n"),
            [""; 0]
        );
    }

    #[test]
    fn what_is_not_true_is_found() {
        let (table, _) = parse(TEXT);
        assert_eq!(
            unclassified(&table, "scandir\t1\t/usr/bin/x\n"),
            ["docs/libc-surface.md: scandir has no row (imported by /usr/bin/x)"]
        );
        assert_eq!(
            misstated(
                &table,
                "0000000000000010 T open\n0000000000000010 T lseek\n"
            ),
            [
                "docs/libc-surface.md: open64 is called interposed, but not exported",
                "target/release/libpgseal.so: exports lseek, which no row calls interposed",
            ]
        );
        assert_eq!(
            open_weak("                 w OPENSSL_memory_alloc\n"),
            ["target/release/libpgseal.so: leaves OPENSSL_memory_alloc open for strangers to define"]
        );
    }

    #[test]
    fn the_form_of_the_table_is_checked() {
        let (_, findings) = parse("| `a` `a` | passed | x |\n| `b` | perhaps | x |\n");
        assert_eq!(
            findings,
            [
                "docs/libc-surface.md: a has two rows",
                "docs/libc-surface.md: Some(\"perhaps\") is no decision (`b`)",
            ]
        );
    }
}
