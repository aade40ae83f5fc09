//! Comments that a reader cannot use: fragments, reasons that are elsewhere, and names of files
//! that are not in the tree.

use super::File;
use std::io;
use std::path::Path;

/// Words that open a doc comment which is no sentence.
const FRAGMENTS: [&str; 14] = [
    "What", "Who", "Whoever", "Whatever", "Whose", "Of", "By", "To", "From", "In", "At", "With",
    "Without", "For",
];
/// Reasons that are somewhere else.
const ELSEWHERE: [&str; 5] = [
    "as above",
    "as the caller",
    "the caller's",
    "see above",
    "the same",
];

/// The counts of all files.
#[derive(Default)]
pub struct Comments {
    /// Doc comments, each one counted once whatever its length.
    pub docs: usize,
    /// Those that open as a fragment.
    pub fragments: usize,
    /// `// SAFETY:` comments that only point elsewhere.
    pub pointing: usize,
    /// `file:line: name` of each reference to a Markdown file that is not in the tree.
    pub dangling: Vec<String>,
}

/// Counts the comments of production code, and the references of all tracked files.
pub fn count(root: &Path, files: &[File]) -> io::Result<Comments> {
    let mut comments = Comments::default();
    for file in files {
        comments.add(&file.text);
    }
    let names = crate::tidy::tracked(root)?;
    let pages: Vec<&str> = names
        .iter()
        .filter_map(|name| name.rsplit('/').next())
        .collect();
    for name in &names {
        let Ok(text) = std::fs::read_to_string(root.join(name)) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            let missing = references(line).filter(|page| !pages.contains(page));
            let missing = missing.map(|page| format!("{name}:{}: {page}", number + 1));
            comments.dangling.extend(missing);
        }
    }
    Ok(comments)
}

impl Comments {
    fn add(&mut self, text: &str) {
        let mut inside = false;
        for line in text.lines().map(str::trim_start) {
            let said = ["//! ", "/// "]
                .iter()
                .find_map(|mark| line.strip_prefix(mark));
            if let (Some(said), false) = (said, inside) {
                self.docs += 1;
                self.fragments += usize::from(is_fragment(said));
            }
            inside = line.starts_with("//!") || line.starts_with("///");
            if let Some(reason) = line.strip_prefix("// SAFETY: ") {
                let reason = reason.to_lowercase();
                self.pointing += usize::from(ELSEWHERE.iter().any(|word| reason.starts_with(word)));
            }
        }
    }
}

fn is_fragment(said: &str) -> bool {
    let first = said.split([' ', ',']).next().unwrap_or_default();
    FRAGMENTS.contains(&first) || said.starts_with("The same")
}

/// Names of Markdown files in a line that is a comment of code.
fn references(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim_start();
    let is_comment = ["//", "#", "*", "\"\"\""]
        .iter()
        .any(|mark| line.starts_with(mark));
    let words = line.split(|c: char| !(c.is_alphanumeric() || ".-_".contains(c)));
    words
        .map(|word| word.trim_matches('.'))
        .filter(move |word| is_comment && word.len() > 3 && word.ends_with(".md"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_and_reasons_elsewhere_are_counted() {
        let mut comments = Comments::default();
        comments.add(
            "//! What a file is.\n//! Of two lines.\n\n/// The same for writes.\nfn a() {\n    // SAFETY: as above.\n}\n/// Reads.\n// SAFETY: the fd is open.\n",
        );
        assert_eq!(
            (comments.docs, comments.fragments, comments.pointing),
            (3, 2, 1)
        );
    }

    #[test]
    fn references_are_names_of_pages_in_comments() {
        let found = |line| references(line).collect::<Vec<_>>();
        assert_eq!(
            found("/// See `docs/keys.md`, and a.md."),
            ["keys.md", "a.md"]
        );
        assert!(found("let name = \"keys.md\";").is_empty());
    }
}
