//! The ways to open a key that a command line names, and whether an agent is asked.

use std::path::PathBuf;

use crate::passphrase::{self, Source};

/// The means of unlocking that the caller names.
#[derive(Clone, Default)]
pub struct Ways {
    pub unwrap_command: Option<String>,
    pub key_command: Option<String>,
    pub key_provider: Option<String>,
    pub passphrase: Source,
    /// Whether an agent may give the key in place of a slot.
    pub agent: bool,
}

impl Ways {
    /// Lets an agent give the key, unless the caller names another way. Commands that prove or
    /// change slots do not ask for this.
    #[must_use]
    pub fn or_agent(mut self) -> Self {
        let names = [&self.unwrap_command, &self.key_command, &self.key_provider];
        self.agent = names.iter().all(|name| name.is_none()) && self.passphrase.is_unnamed();
        self
    }

    /// Returns the files that may hold the passphrase. A file that is not read this time may open
    /// the cluster too.
    pub(super) fn passphrase_files(&self, of_machine: Option<&PathBuf>) -> Vec<PathBuf> {
        let files = [
            self.passphrase.file(),
            passphrase::file_of_environment(),
            of_machine.cloned(),
        ];
        files.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_asked_unless_other_means_are_named() {
        let named = |change: fn(&mut Ways)| {
            let mut ways = Ways::default();
            change(&mut ways);
            ways.or_agent().agent
        };
        assert!(named(|_| ()));
        assert!(!named(|ways| ways.unwrap_command = Some("command".into())));
        assert!(!named(|ways| ways.key_command = Some("command".into())));
        assert!(!named(|ways| ways.key_provider = Some("provider:x".into())));
        assert!(!named(
            |ways| ways.passphrase = Source::of_options(None, Some(3))
        ));
        assert!(!named(
            |ways| ways.passphrase = Source::of_options(Some("/a".into()), None)
        ));
    }

    #[test]
    fn files_that_may_hold_the_passphrase() {
        let ways = Ways {
            passphrase: Source::of_options(Some("/option".into()), None),
            ..Ways::default()
        };
        let machine = PathBuf::from("/machine");
        let files = ways.passphrase_files(Some(&machine));
        assert_eq!(files.first(), Some(&PathBuf::from("/option")));
        assert_eq!(files.last(), Some(&machine));
    }
}
