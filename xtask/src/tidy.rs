//! `cargo xtask tidy`: the rules of CONTRIBUTING and of docs/style.md that can be counted, over all
//! tracked files.
//!
//! There is no list of exceptions: what breaks a rule is changed.

use crate::{lock, prose, source};
use std::path::Path;
use std::process::Command;
use std::{fs, io};

const MAX_FUNCTION: usize = 70;
const MAX_FILE: usize = 600;
const MAX_COLUMNS: usize = 100;

/// Files whose lines and functions are counted, and which hold nothing unfinished.
const CODE: [&str; 5] = [".rs", ".c", ".h", ".py", ".sh"];
/// Files in which `unsafe` may stand: the cipher's C library, memory that processes share, the edge
/// to libc, the edge to the extension's C.
const UNSAFE: [&str; 13] = [
    "crates/crypto/src/awslc.rs",
    "crates/crypto/src/awslc/",
    "crates/crypto/src/aead/four.rs",
    "crates/crypto/src/wipe.rs",
    "crates/encdb/evaluator-proto/src/ring/host.rs",
    "crates/encdb/evaluator/src/os/",
    "crates/encdb/in-process/src/hooks.rs",
    "crates/encdb/in-process/src/real.rs",
    "crates/encdb/in-process/src/stack.rs",
    "crates/encdb/library/src/abi.rs",
    "crates/encdb/pgext/src/abi/",
    "crates/encdb/pgext/src/peers.rs",
    "crates/tde/preload/",
];
// In halves, so that this file keeps the rules itself.
const UNFINISHED: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
const MACHINE: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
const HOSTS: [&str; 5] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("npmjs", ".org"),
    concat!("deb.debian", ".org"),
    concat!("proxy.golang", ".org"),
];

/// The names of all files under version control.
pub fn tracked(root: &Path) -> io::Result<Vec<String>> {
    let listing = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z"])
        .output()?;
    if !listing.status.success() {
        return Err(io::Error::other(
            "git ls-files failed: only tracked files are looked at",
        ));
    }
    let names = String::from_utf8_lossy(&listing.stdout).into_owned();
    let names = names.split('\0').filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

/// All findings in the tree.
pub fn check(root: &Path) -> io::Result<Vec<String>> {
    let names = tracked(root)?;
    let mut findings = Vec::new();
    if !names.iter().any(|name| name == "Cargo.lock") {
        findings.push("Cargo.lock: is not tracked".to_owned());
    }
    for name in &names {
        // Deleted files and links to directories are listed too; data is not text.
        if let Ok(text) = fs::read_to_string(root.join(name)) {
            check_file(name, &text, &mut findings);
        }
    }
    findings.extend(lock::check(root, &names)?);
    findings.extend(prose::check(root, &names)?);
    Ok(findings)
}

fn check_file(name: &str, text: &str, findings: &mut Vec<String>) {
    let mut found = |line: usize, what: String| findings.push(format!("{name}:{line}: {what}"));
    if !name.ends_with("Cargo.lock") {
        for (number, line) in text.lines().enumerate() {
            check_words(line, |what| found(number + 1, what));
        }
    }
    if !CODE.iter().any(|ending| name.ends_with(ending)) {
        return;
    }
    let len = text.lines().count();
    if len > MAX_FILE {
        found(1, format!("{len} lines, at most {MAX_FILE}"));
    }
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split(|c: char| !c.is_alphanumeric());
        if let Some(word) = words.find(|word| UNFINISHED.contains(word)) {
            found(number + 1, format!("{word}: finish it or leave it out"));
        }
    }
    for function in source::functions(name, text) {
        if function.len > MAX_FUNCTION {
            let len = function.len;
            found(
                function.line,
                format!("a function of {len} lines, at most {MAX_FUNCTION}"),
            );
        }
    }
    if name.ends_with(".rs") {
        check_rust(name, text, found);
    }
}

fn check_words(line: &str, mut found: impl FnMut(String)) {
    for path in MACHINE.into_iter().filter(|path| line.contains(path)) {
        found(format!("{path}: a path of one machine"));
    }
    for host in HOSTS.into_iter().filter(|host| line.contains(host)) {
        found(format!("{host}: the host of a package registry"));
    }
}

fn check_rust(name: &str, text: &str, mut found: impl FnMut(usize, String)) {
    if !text.starts_with("//!") {
        found(1, "does not begin with its contract (//!)".to_owned());
    }
    for (number, line) in text.lines().enumerate() {
        let columns = columns_to_break(line);
        if columns > MAX_COLUMNS {
            let what = format!("{columns} columns, at most {MAX_COLUMNS}");
            found(number + 1, what);
        }
    }
    if UNSAFE.iter().any(|allowed| name.starts_with(allowed)) {
        return;
    }
    for (number, line) in text.lines().enumerate() {
        let code: String = line.split('"').step_by(2).collect();
        let code = code.split("//").next().unwrap_or_default();
        let mut words = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        if words.any(|word| word == "unsafe") {
            found(number + 1, "unsafe has no place here".to_owned());
        }
    }
}

/// The columns of a line, without those of its longest string: a message stays in one line, so that
/// it can be searched for, as in PostgreSQL.
fn columns_to_break(line: &str) -> usize {
    let columns = |text: &str| text.chars().count();
    if line.trim_start().starts_with("//") {
        return columns(line);
    }
    let strings = line.split('"').skip(1).step_by(2);
    columns(line) - strings.map(columns).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check_file(name, text, &mut findings);
        findings
    }

    #[test]
    fn a_tidy_file_passes() {
        let text = "//! Purpose.\n\n// the unsafe word in a comment\nfn one() {\n}\n";
        assert_eq!(findings("crates/a/src/lib.rs", text), [""; 0]);
        assert_eq!(
            findings("crates/tde/preload/src/a.rs", "//! A.\nunsafe {}\n"),
            [""; 0]
        );
    }

    #[test]
    fn rust_rules_are_checked() {
        assert_eq!(
            findings("crates/a/src/lib.rs", "let x = unsafe { y };\n"),
            [
                "crates/a/src/lib.rs:1: does not begin with its contract (//!)",
                "crates/a/src/lib.rs:1: unsafe has no place here",
            ]
        );
    }

    #[test]
    fn lengths_are_checked_at_the_limit() {
        let body = |lines| format!("//! A.\nfn a() {{\n{}}}\n", "    x();\n".repeat(lines));
        assert_eq!(findings("a.rs", &body(68)), [""; 0]);
        assert_eq!(
            findings("a.rs", &body(69)),
            ["a.rs:2: a function of 71 lines, at most 70"]
        );
        assert_eq!(
            findings("a.sh", &"x\n".repeat(601)),
            ["a.sh:1: 601 lines, at most 600"]
        );
        let wide = |columns| format!("//! A.\n{}\n", "x".repeat(columns));
        assert_eq!(findings("a.rs", &wide(100)), [""; 0]);
        let message = format!("//! A.\nsay(\"{}\");\n", "x".repeat(200));
        assert_eq!(findings("a.rs", &message), [""; 0]);
        assert_eq!(
            findings("a.rs", &wide(101)),
            ["a.rs:2: 101 columns, at most 100"]
        );
    }

    #[test]
    fn words_are_checked() {
        let text = format!("{}x\n{}\n", MACHINE[1], HOSTS[0]);
        assert_eq!(
            findings("README.md", &text),
            [
                format!("README.md:1: {}: a path of one machine", MACHINE[1]),
                format!("README.md:2: {}: the host of a package registry", HOSTS[0]),
            ]
        );
        assert_eq!(findings("Cargo.lock", &text), [""; 0]);
        let text = format!("# {}: later\n0x{}X\n", UNFINISHED[0], UNFINISHED[2]);
        assert_eq!(findings("README.md", &text), [""; 0]);
        let finding = format!("a.sh:1: {}: finish it or leave it out", UNFINISHED[0]);
        assert_eq!(findings("a.sh", &text), [finding]);
    }
}
