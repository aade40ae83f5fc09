//! Links inside the tree: each leads to a file that is there, and to one of its headings.

use super::markdown::{blocks, replace_code, Kind};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Finds the links of a page that lead nowhere.
pub fn check(root: &Path, name: &str, text: &str, found: &mut impl FnMut(usize, String)) {
    let directory = root.join(name);
    let directory = directory.parent().unwrap_or(root);
    for block in blocks(text).iter().filter(|block| block.kind != Kind::Code) {
        for target in targets(&block.text()) {
            let (path, anchor) = target.split_once('#').unwrap_or((target.as_str(), ""));
            let file = directory.join(path);
            if !path.is_empty() && !file.exists() {
                found(block.line, format!("{target}: there is no such file"));
                continue;
            }
            let own = path.is_empty().then(|| text.to_owned());
            if anchor.is_empty() || (own.is_none() && !path.ends_with(".md")) {
                continue;
            }
            let page = own.unwrap_or_else(|| fs::read_to_string(file).unwrap_or_default());
            if !anchors(&page).contains(anchor) {
                found(block.line, format!("{target}: there is no such heading"));
            }
        }
    }
}

/// The targets of a text's links that lead into the tree.
pub fn targets(text: &str) -> Vec<String> {
    let text = replace_code(text, "");
    let behind = text.split("](").skip(1);
    let targets = behind.filter_map(|behind| behind.split(')').next());
    targets
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .map(str::to_owned)
        .collect()
}

/// The names by which a page's headings can be linked, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for block in blocks(text) {
        if block.kind == Kind::Heading {
            let name = anchor(&block.text());
            let mut unique = name.clone();
            for number in 1.. {
                if anchors.insert(unique) {
                    break;
                }
                unique = format!("{name}-{number}");
            }
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, behind)) = rest.split_once("](") {
        text.push_str(before);
        rest = behind.split_once(')').map_or("", |(_, behind)| behind);
    }
    text.push_str(rest);
    let kept = text.to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || "_- ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_files_and_headings() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "# One\n\n[a](#one) [b](#two) `[c](#three)`\n\n[d](src/main.rs#x) [e](none.md)\n\n```\n[f](none.md)\n```\n";
        let mut findings = Vec::new();
        check(root, "page.md", text, &mut |line, what| {
            findings.push(format!("{line}: {what}"));
        });
        assert_eq!(
            findings,
            [
                "3: #two: there is no such heading",
                "5: none.md: there is no such file"
            ]
        );
    }

    #[test]
    fn links_of_other_places_are_let_be() {
        let text = "[a](https://example.org/x#y), [b](mailto:a@b) and [c](c.md#d)";
        assert_eq!(targets(text), ["c.md#d"]);
    }

    #[test]
    fn anchors_are_githubs() {
        let text = "# A page\n## `pgseal key`, again?\n## A page\n### [x](y.md)-z\n";
        let found: Vec<String> = anchors(text).into_iter().collect();
        assert_eq!(found, ["a-page", "a-page-1", "pgseal-key-again", "x-z"]);
    }
}
