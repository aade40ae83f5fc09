//! `pgseal help TOPIC`: texts that are not about one command. Each is the beginning of a page of
//! the documentation, so that the page and the topic cannot differ.

mod plain;

use std::ffi::{OsStr, OsString};
use std::fmt::Write;

/// Ends what a page and its topic have in common.
const END: &str = "<!-- end of the topic -->";
/// The word that asks for the list of all topics.
const ALL: &str = "topics";

/// A text that `pgseal help` prints, and that packages install as a man page.
pub struct Topic {
    /// The word that asks for it.
    pub name: &'static str,
    /// The content, in one line.
    pub about: &'static str,
    page: &'static str,
    /// The name of the page in the tree.
    path: &'static str,
}

/// All topics.
pub const TOPICS: [Topic; 3] = [
    Topic {
        name: "keys",
        about: "master key, key slots, and the commands for them",
        page: include_str!("../../../docs/keys.md"),
        path: "docs/keys.md",
    },
    Topic {
        name: "exit-codes",
        about: "exit codes of pgseal, its wrappers and its programs",
        page: include_str!("../../../docs/exit-codes.md"),
        path: "docs/exit-codes.md",
    },
    Topic {
        name: "environment",
        about: "environment variables that pgseal reads",
        page: include_str!("../../../docs/environment.md"),
        path: "docs/environment.md",
    },
];

impl Topic {
    /// Returns the text, for a terminal of 80 columns.
    #[must_use]
    pub fn text(&self) -> String {
        let shared = self.page.split(END).next().unwrap_or_default();
        let text = plain::text(shared);
        format!("{text}\nMore: {}, in the documentation.\n", self.path)
    }
}

/// Returns the text that the arguments of `pgseal` ask for, if they ask for one.
pub fn asked(arguments: impl IntoIterator<Item = OsString>) -> Option<String> {
    let mut words = arguments.into_iter();
    let (help, name) = (words.next()?, words.next()?);
    if help != "help" || words.next().is_some() {
        return None;
    }
    if name == ALL {
        return Some(list());
    }
    let is_named = |topic: &&Topic| name == OsStr::new(topic.name);
    TOPICS.iter().find(is_named).map(Topic::text)
}

fn list() -> String {
    let mut text = "Topics, for `pgseal help TOPIC`:\n\n".to_owned();
    for topic in &TOPICS {
        let _ = writeln!(text, "  {:<12}  {}", topic.name, topic.about);
    }
    text.push_str("\n`pgseal help` lists the commands.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: &str) -> Option<String> {
        asked(line.split(' ').map(OsString::from))
    }

    #[test]
    fn topics_are_printed_and_commands_are_left_to_the_parser() {
        for topic in &TOPICS {
            assert_eq!(answer(&format!("help {}", topic.name)), Some(topic.text()));
        }
        for line in [
            "help",
            "help key",
            "help key rotate",
            "help keys more",
            "keys",
            "help --help",
        ] {
            assert_eq!(answer(line), None, "{line}");
        }
        let list = answer("help topics").expect("a list");
        let listed: Vec<_> = list.lines().filter(|line| line.starts_with("  ")).collect();
        assert_eq!(listed.len(), TOPICS.len());
        assert_eq!(
            listed[0],
            "  keys          master key, key slots, and the commands for them"
        );
    }

    #[test]
    fn a_topic_is_no_command() {
        let parser = crate::parser();
        let mut names = TOPICS.iter().map(|topic| topic.name).chain([ALL]);
        assert!(names.all(|name| parser.find_subcommand(name).is_none()));
    }

    #[test]
    fn texts_fit_80_columns_and_end_where_the_page_says() {
        for topic in &TOPICS {
            assert_eq!(topic.page.matches(END).count(), 1, "{}", topic.name);
            let text = topic.text();
            let wide: Vec<_> = text
                .lines()
                .filter(|line| line.chars().count() > 80)
                .collect();
            assert_eq!(wide, [""; 0]);
            assert!(!text.contains(['`', '|']) && !text.contains("]("), "{text}");
            assert!(
                text.lines().count() < 70,
                "{}: a topic is short",
                topic.name
            );
        }
    }

    #[test]
    fn the_topic_of_exit_codes_has_a_line_for_each() {
        let text = TOPICS[1].text();
        assert!(
            text.contains("\n  7    the key or the passphrase is the wrong one\n"),
            "{text}"
        );
        assert!(
            text.contains("\n  141  nobody reads standard output\n"),
            "{text}"
        );
    }
}
