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
