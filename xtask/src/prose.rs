//! The pages: words that are out, the columns of their lines, the lengths of their sentences, and
//! where their links lead. The words are out of comments and docstrings, too.
//!
//! `tidy` fails on every finding; `shape` counts long sentences. The rules are those of
//! docs/style.md, which alone may show the words.

mod comments;
mod links;
mod markdown;
mod sentences;

use markdown::{blocks, plain, replace_code, Kind};
use std::path::Path;
use std::{fs, io};

/// The pages beside those in docs/.
const PAGES: [&str; 5] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
];
/// The page that lists the words that are out.
const STYLE: &str = "docs/style.md";
/// This file lists them, too.
const LIST: &str = "xtask/src/prose.rs";
/// The page that names all others of docs/, in the order of the book.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The most columns of a line.
const MAX_COLUMNS: usize = 120;
/// A word as long as this is a link or a digest: its line cannot be broken.
const UNBREAKABLE: usize = 100;
/// The most words of a sentence that is not a long one.
const LONG_SENTENCE: usize = 30;
/// Words that are out: docs/style.md says what to write. A search for each finds no other use.
const OUT: [&str; 20] = [
    "but for",
    "to be had",
    "by turns",
    "mend",
    "mends",
    "mended",
    "whoever",
    "whomever",
    "of his",
    "he",
    "him",
    "his",
    "himself",
    "stands",
    "lies",
    "tells",
    "opener",
    "twin",
    "looked after",
    "to and fro",
];

/// The sentences of all pages.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sentences {
    /// All of them, outside of code, tables, headings and quotations.
    pub all: usize,
    /// Those of more than [`LONG_SENTENCE`] words.
    pub long: usize,
}

/// Returns the findings in all pages among these tracked files.
pub fn check(root: &Path, names: &[String]) -> io::Result<Vec<String>> {
    let mut findings = Vec::new();
    for name in names.iter().filter(|name| is_page(name)) {
        // A page that is deleted and not committed yet is listed, too.
        let Ok(text) = fs::read_to_string(root.join(name)) else {
            continue;
        };
        let mut found = |line: usize, what: String| findings.push(format!("{name}:{line}: {what}"));
        check_words(name, &text, &mut found);
        check_columns(&text, &mut found);
        links::check(root, name, &text, &mut found);
    }
    for name in names.iter().filter(|name| name.as_str() != LIST) {
        let Ok(text) = fs::read_to_string(root.join(name)) else {
            continue;
        };
        check_comments(name, &text, &mut |line, what| {
            findings.push(format!("{name}:{line}: {what}"));
        });
    }
    let summary = fs::read_to_string(root.join(SUMMARY))?;
    findings.extend(missing(&summary, names));
    Ok(findings)
}

/// Counts the sentences of all pages among these tracked files.
pub fn count(root: &Path, names: &[String]) -> Sentences {
    let mut sum = Sentences::default();
    for name in names.iter().filter(|name| is_page(name)) {
        let text = fs::read_to_string(root.join(name)).unwrap_or_default();
        let own = sentences_of(&text);
        sum.all += own.all;
        sum.long += own.long;
    }
    sum
}

fn is_page(name: &str) -> bool {
    PAGES.contains(&name) || (name.starts_with("docs/") && name.ends_with(".md"))
}

fn sentences_of(text: &str) -> Sentences {
    let mut sum = Sentences::default();
    for block in blocks(text) {
        if block.kind == Kind::Text {
            for words in sentences::lengths(&plain(&block.text())) {
                sum.all += 1;
                sum.long += usize::from(words > LONG_SENTENCE);
            }
        }
    }
    sum
}

fn check_words(name: &str, text: &str, found: &mut impl FnMut(usize, String)) {
    if name == STYLE {
        return;
    }
    for block in blocks(text) {
        if matches!(block.kind, Kind::Code | Kind::Quote) {
            continue;
        }
        let said = plain(&block.text()).to_lowercase();
        for word in OUT.into_iter().filter(|word| has_word(&said, word)) {
            found(block.line, format!("\"{word}\": see {STYLE}"));
        }
    }
}

/// Comments on lines that follow each other are one text, as a phrase may be on two of them.
fn check_comments(name: &str, text: &str, found: &mut impl FnMut(usize, String)) {
    let mut texts: Vec<(usize, usize, String)> = Vec::new();
    for (first, comment) in comments::of(name, text) {
        let marks = ['/', '!', '*', '#', ' ', '\t'];
        let lines = comment.lines().map(|line| line.trim_matches(marks));
        let said = replace_code(&lines.collect::<Vec<_>>().join(" "), "").to_lowercase();
        let last = first + comment.matches('\n').count();
        match texts.last_mut().filter(|(_, end, _)| *end + 1 == first) {
            Some((_, end, before)) => {
                *end = last;
                before.extend([" ", &said]);
            }
            None => texts.push((first, last, said)),
        }
    }
    for (first, _, said) in texts {
        for word in OUT.into_iter().filter(|word| has_word(&said, word)) {
            found(first, format!("\"{word}\": see {STYLE}"));
        }
    }
}

/// Whether a text has these words, and not as a part of others; `pgseal-twin` has none.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let behind = text[start + word.len()..].chars().next();
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        !before.is_some_and(|c| is_part(c) || c == '-') && !behind.is_some_and(is_part)
    })
}

fn check_columns(text: &str, found: &mut impl FnMut(usize, String)) {
    for block in blocks(text) {
        if matches!(block.kind, Kind::Code | Kind::Table) {
            continue;
        }
        for (number, line) in block.lines.iter().enumerate() {
            let columns = line.chars().count();
            let longest = line.split_whitespace().map(|word| word.chars().count());
            if columns > MAX_COLUMNS && longest.max().unwrap_or(0) < UNBREAKABLE {
                let what = format!("{columns} columns, at most {MAX_COLUMNS}");
                found(block.line + number, what);
            }
        }
    }
}

/// Returns the pages of docs/ that the book leaves out.
fn missing(summary: &str, names: &[String]) -> Vec<String> {
    let linked: Vec<String> = blocks(summary)
        .iter()
        .flat_map(|block| links::targets(&block.text()))
        .collect();
    let pages = names
        .iter()
        .filter(|name| is_page(name) && name.as_str() != SUMMARY)
        .filter_map(|name| name.strip_prefix("docs/"));
    pages
        .filter(|page| !linked.iter().any(|target| target == page))
        .map(|page| format!("{SUMMARY}:1: docs/{page} is not in the book"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check_words("docs/a.md", text, &mut |line, what| {
            findings.push(format!("{line}: {what}"));
        });
        findings
    }

    #[test]
    fn words_that_are_out_are_found_across_lines() {
        let text = "Nothing, but\nfor this.\n\n- Whoever\n  reads `his` file.\n";
        assert_eq!(
            words(text),
            [
                "1: \"but for\": see docs/style.md",
                "4: \"whoever\": see docs/style.md"
            ]
        );
        assert_eq!(words("| the twin | `pgseal-twin` |\n").len(), 1);
    }

    #[test]
    fn words_that_are_out_are_found_in_comments_and_not_in_code() {
        let in_comments = |name: &str, text: &str| {
            let mut findings = Vec::new();
            check_comments(name, text, &mut |line, what| {
                findings.push(format!("{line}: {what}"));
            });
            findings
        };
        let rust = "//! One.\nlet his = \"by turns\"; // As it lies.\n/// `his` and pgseal-twin.\n";
        assert_eq!(
            in_comments("a.rs", rust),
            ["1: \"lies\": see docs/style.md"]
        );
        let lines = "/// All but\n/// for this.\nx\n";
        assert_eq!(
            in_comments("a.rs", lines),
            ["1: \"but for\": see docs/style.md"]
        );
        let c = "/*\n * All but\n * for this.\n */\n";
        assert_eq!(in_comments("a.c", c), ["1: \"but for\": see docs/style.md"]);
        let python = "def his():\n    \"\"\"The twin.\"\"\"\n";
        assert_eq!(
            in_comments("a.py", python),
            ["2: \"twin\": see docs/style.md"]
        );
    }

    #[test]
    fn parts_of_words_code_and_quotations_are_let_be() {
        let text = "The heir, this history, and pgseal-twin.\n\n```\nhis\n```\n\n> He said so.\n";
        assert_eq!(words(text), [""; 0]);
    }

    #[test]
    fn the_page_on_style_lists_the_words() {
        let page = include_str!("../../docs/style.md").to_lowercase();
        let missing: Vec<_> = OUT.iter().filter(|word| !has_word(&page, word)).collect();
        assert_eq!(missing, [&""; 0]);
    }

    #[test]
    fn columns_are_counted_except_in_tables_and_code() {
        let wide = |start: &str| {
            let mut findings = Vec::new();
            let text = format!("one\n{start}{}\n", "x ".repeat(60));
            check_columns(&text, &mut |line, what| {
                findings.push(format!("{line}: {what}"));
            });
            findings
        };
        assert_eq!(wide("x"), ["2: 121 columns, at most 120"]);
        assert_eq!(wide(""), [""; 0]);
        assert_eq!(wide("| x"), [""; 0]);
        assert_eq!(wide(&"y".repeat(100)), [""; 0]);
    }

    #[test]
    fn long_sentences_are_counted() {
        let sentence = |words: usize| format!("{}. ", vec!["word"; words].join(" "));
        let text = format!("{}\n{}\n", sentence(30), sentence(31));
        assert_eq!(sentences_of(&text), Sentences { all: 2, long: 1 });
        let table = format!("| {} |\n\n# {}\n", sentence(31), sentence(31));
        assert_eq!(sentences_of(&table), Sentences::default());
    }

    #[test]
    fn each_page_is_in_the_book() {
        let names = ["docs/SUMMARY.md", "docs/a.md", "docs/b/c.md", "README.md"];
        let names = names.map(str::to_owned);
        assert_eq!(
            missing("- [A](a.md)\n", &names),
            ["docs/SUMMARY.md:1: docs/b/c.md is not in the book"]
        );
        assert_eq!(missing("- [A](a.md)\n  - [C](b/c.md)\n", &names), [""; 0]);
    }
}
