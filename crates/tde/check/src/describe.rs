//! A cluster's slots in words: what opens them, and which command would run.

use std::path::Path;

use pgseal_format::{KeyImage, SecretSource, Slot, SlotKind};
use pgseal_keys::keybin::KeyDir;
use pgseal_keys::unlock::{UnlockError, Unlocker, Ways};
use pgseal_keys::{SourceError, Sources};
use serde::Serialize;

/// A slot, for people and machines.
#[derive(Serialize)]
pub struct SlotView {
    /// none for a raw key.bin
    pub id: Option<u8>,
    pub kind: &'static str,
    /// the command that would run, or that a policy keeps from running
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// A command and where it is.
#[derive(Serialize)]
pub struct CommandView {
    pub line: String,
    pub source: &'static str,
    pub runs: bool,
}

impl SlotView {
    /// Returns one line for people. Control characters of a foreign key file are escaped, so they
    /// cannot move the cursor.
    pub fn line(&self) -> String {
        let name = match self.id {
            Some(id) => format!("slot {id} ({})", self.kind),
            None => self.kind.to_owned(),
        };
        match (&self.command, &self.path) {
            (Some(command), _) => {
                let never = if command.runs {
                    ""
                } else {
                    ", kept from running by policy"
                };
                format!(
                    "{name}, from {}{never}: {}",
                    command.source,
                    printable(&command.line)
                )
            }
            (None, Some(path)) => format!("{name}: {}", printable(path)),
            (None, None) => name,
        }
    }
}

/// Returns the slots of a key file, with the commands that would open them now.
pub fn slots(
    image: &KeyImage,
    dir: &KeyDir,
    data: &Path,
    ways: &Ways,
) -> Result<Vec<SlotView>, UnlockError> {
    match image {
        KeyImage::File(file) => {
            let unlocker = Unlocker::new(file.header(), None, data, ways)?;
            Ok(file
                .slots()
                .iter()
                .map(|slot| view(slot, &unlocker))
                .collect())
        }
        KeyImage::Raw(_) => {
            let unlocker = Unlocker::new(&dir.header()?, None, data, ways)?;
            let command = command(unlocker.unwrap_sources(), None);
            Ok(vec![SlotView {
                id: None,
                kind: "raw key.bin",
                command,
                path: None,
            }])
        }
    }
}

fn view(slot: &Slot, unlocker: &Unlocker<'_>) -> SlotView {
    let (command, path) = match &slot.kind {
        SlotKind::Command { unwrap, .. } => {
            (command(unlocker.unwrap_sources(), Some(unwrap)), None)
        }
        SlotKind::Derived {
            source: SecretSource::Command(stored),
            ..
        } => (command(unlocker.key_sources(), Some(stored)), None),
        SlotKind::Provider { uri, .. } => (command(unlocker.provider_sources(), Some(uri)), None),
        SlotKind::File { path } => (None, Some(String::from_utf8_lossy(path).into_owned())),
        SlotKind::Plain { .. } | SlotKind::Derived { .. } => (None, None),
    };
    SlotView {
        id: Some(slot.id),
        kind: slot.kind.name(),
        command,
        path,
    }
}

fn command(sources: &Sources, stored: Option<&str>) -> Option<CommandView> {
    match (sources.choose(stored), stored) {
        (Ok((line, origin)), _) => Some(CommandView {
            line: line.to_owned(),
            source: origin.name(),
            runs: true,
        }),
        (Err(SourceError::External(_)), Some(stored)) => Some(CommandView {
            line: stored.to_owned(),
            source: "key.bin",
            runs: false,
        }),
        (Err(_), _) => None,
    }
}

fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}
