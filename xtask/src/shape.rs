//! `cargo xtask shape`: figures on how the tree is built, and the most that each may be.
//!
//! A figure above its limit is a finding. Limits only go down: a change that betters a figure
//! lowers its limit.

mod comments;
mod modules;

use crate::{prose, source};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// The packages whose trees are counted, and the most packages of others that they may have: the
/// command, the program that wrappers run, which holds master keys, and the library of every
/// server. Procedural macros and what only they use are not counted: they run in the compiler and
/// are not linked. Our own packages are not counted: what one of them holds is reviewed in this
/// tree, however many there are.
const TREES: [(&str, usize); 3] = [
    ("pgseal", 160),
    ("pgseal-wrapper", 33),
    ("pgseal-preload", 19),
];
/// Packages that are never linked with what holds master keys: a parser of command lines, an
/// asynchronous runtime, TLS and charts.
const NEVER_WITH_KEYS: [&str; 4] = ["clap", "tokio", "rustls", "plotters"];
/// The most files that use each other in a circle within one package.
const MAX_CIRCLE: usize = 3;
/// The most `static` items of the preloaded library.
const MAX_STATICS: usize = 10;
/// The most doc comments that open as a fragment, per thousand.
const MAX_FRAGMENTS: usize = 2;
/// The most `// SAFETY:` comments that only point elsewhere.
const MAX_POINTING: usize = 0;
/// The most references to files that are not in the tree.
const MAX_DANGLING: usize = 0;
/// The most long sentences of the pages, per thousand.
const MAX_LONG_SENTENCES: usize = 10;

/// A production source file of one package.
struct File {
    package: String,
    /// Below the package's `src`.
    path: PathBuf,
    text: String,
}

/// Prints the figures; returns those that are above their limits.
pub fn check(root: &Path) -> io::Result<Vec<String>> {
    let files = production(root)?;
    let mut findings = Vec::new();
    let mut figure = |name: String, value: usize, max: Option<usize>| {
        let limit = max.map_or(String::new(), |max| format!("at most {max}"));
        println!("{value:>7}  {name:<56} {limit}");
        if max.is_some_and(|max| value > max) {
            findings.push(format!("{name}: {value}, {limit}"));
        }
    };
    lengths(&files, &mut figure);
    for (package, circle) in modules::circles(&files)? {
        let name = format!("{package}: files in the largest circle of modules");
        figure(name, circle, Some(MAX_CIRCLE));
    }
    let statics = files.iter().filter(|file| file.package == "preload");
    let statics = statics.map(|file| modules::statics(&file.text)).sum();
    figure("preload: static items".into(), statics, Some(MAX_STATICS));
    let said = comments::count(root, &files)?;
    figure("doc comments".into(), said.docs, None);
    figure(
        "doc comments that open as fragments, per thousand".into(),
        said.fragments * 1000 / said.docs.max(1),
        Some(MAX_FRAGMENTS),
    );
    figure(
        "SAFETY comments that point elsewhere".into(),
        said.pointing,
        Some(MAX_POINTING),
    );
    for reference in &said.dangling {
        println!("         {reference}");
    }
    figure(
        "references to files that are not in the tree".into(),
        said.dangling.len(),
        Some(MAX_DANGLING),
    );
    pages(&crate::tidy::tracked(root)?, root, &mut figure);
    for (package, max) in TREES {
        let name = format!("{package}: packages of others in it");
        let of_others = packages(root, package)?
            .iter()
            .filter(|line| !is_ours(line))
            .count();
        figure(name, of_others, Some(max));
    }
    let linked = packages(root, "pgseal-wrapper")?;
    let never = linked.iter().filter(|line| {
        let name = line.split_once(' ').map_or(line.as_str(), |(name, _)| name);
        NEVER_WITH_KEYS.contains(&name)
    });
    let name = format!("pgseal-wrapper: any of {}", NEVER_WITH_KEYS.join(", "));
    figure(name, never.count(), Some(0));
    Ok(findings)
}

fn pages(names: &[String], root: &Path, figure: &mut impl FnMut(String, usize, Option<usize>)) {
    let sentences = prose::count(root, names);
    figure("sentences of pages".into(), sentences.all, None);
    figure(
        "sentences of pages over 30 words, per thousand".into(),
        sentences.long * 1000 / sentences.all.max(1),
        Some(MAX_LONG_SENTENCES),
    );
}

fn lengths(files: &[File], figure: &mut impl FnMut(String, usize, Option<usize>)) {
    let lines = files.iter().map(|file| file.text.lines().count());
    let functions = files
        .iter()
        .flat_map(|file| source::functions("a.rs", without_tests(&file.text)))
        .map(|function| function.len);
    for (name, lengths) in [
        ("lines of a file", lines.collect::<Vec<_>>()),
        ("lines of a function", functions.collect()),
    ] {
        let mut sorted = lengths;
        sorted.sort_unstable();
        let at = |percent: usize| sorted[(sorted.len() - 1) * percent / 100];
        figure(format!("{name}, median"), at(50), None);
        figure(format!("{name}, 90 of 100"), at(90), None);
        figure(format!("{name}, the longest"), at(100), None);
    }
}

/// The part of a file before its inline module of tests.
fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod ")
        .filter(|(_, tests)| tests.lines().next().is_some_and(|line| line.ends_with('{')))
        .map_or(text, |(code, _)| code)
}

/// The sources of all packages below `crates`, without modules of tests.
fn production(root: &Path) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    let mut directories = vec![root.join("crates")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_test = name == "tests" || name == "tests.rs" || name.ends_with("_tests.rs");
            if is_test || name == "benches" || name == "examples" || name == "loom" {
                continue;
            }
            if path.is_dir() {
                directories.push(path);
            } else if name.ends_with(".rs") && name != "build.rs" {
                files.extend(file(&path)?);
            }
        }
    }
    files.sort_by(|a, b| (&a.package, &a.path).cmp(&(&b.package, &b.path)));
    Ok(files)
}

/// Reads the file, if it is below a package's `src`.
fn file(path: &Path) -> io::Result<Option<File>> {
    let Some(src) = path.ancestors().find(|path| path.ends_with("src")) else {
        return Ok(None);
    };
    let package = src.parent().and_then(Path::file_name);
    let package = package.unwrap_or_default().to_string_lossy().into_owned();
    let inner = path.strip_prefix(src).unwrap_or(path).to_owned();
    let text = fs::read_to_string(path)?;
    Ok(Some(File {
        package,
        path: inner,
        text,
    }))
}

/// Whether this is a package of this tree, after whose version its directory is.
fn is_ours(line: &str) -> bool {
    line.ends_with(')')
}

/// The packages that are linked into this one, itself included: each one's name, then its version,
/// and its directory if it is of this tree.
fn packages(root: &Path, package: &str) -> io::Result<Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["tree", "--locked", "--edges", "normal,no-proc-macro"])
        .args(["--prefix", "none", "--package", package])
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(said));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut names: Vec<String> = text
        .lines()
        .map(|line| line.trim_end_matches(" (*)").to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}
