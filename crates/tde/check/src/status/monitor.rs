//! A status in the forms of monitors: the text format of Prometheus, and the line and the four exit
//! codes of a Nagios plugin.

use std::path::Path;
use std::time::SystemTime;

use pgseal_keys::exit::{sentence, Code, Failure};
use pgseal_keys::server::Server;

use super::{KeyCheck, KeyFileStatus, Status};
use crate::metrics::{name, Metrics, OfDirectory};

/// A plugin's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Ok,
    Warning,
    Critical,
    Unknown,
}

impl Level {
    /// Returns the exit code that Nagios knows.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// Critical comes before warning, and that before unknown.
    fn rank(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Unknown => 1,
            Self::Warning => 2,
            Self::Critical => 3,
        }
    }
}

/// Returns the verdict and the line of a plugin that got no status.
#[must_use]
pub fn of_failure(failure: &Failure) -> (Level, String) {
    let level = match failure.code() {
        Code::KeyFile => Level::Critical,
        Code::Busy => Level::Warning,
        _ => Level::Unknown,
    };
    (level, line(level, &sentence(failure), ""))
}

/// Returns the metric of a data directory that could not be looked at.
#[must_use]
pub fn without_answer(data: &Path) -> String {
    let mut metrics = Metrics::default();
    metrics.of(data).add(&name::STATUS_OK, &[], false);
    metrics.to_string()
}

fn line(level: Level, text: &str, measures: &str) -> String {
    // Behind a bar a plugin has its measures; a line's end would begin the long text.
    let text = text.replace('|', "/").replace('\n', " ");
    format!("PGSEAL {} - {text}{measures}\n", level.name())
}

impl Status {
    /// Returns a plugin's verdict and its line.
    #[must_use]
    pub fn nagios(&self) -> (Level, String) {
        let mut problems = self.problems();
        problems.sort_by_key(|(level, _)| std::cmp::Reverse(level.rank()));
        let level = problems.first().map_or(Level::Ok, |(level, _)| *level);
        let texts: Vec<_> = problems.into_iter().map(|(_, text)| text).collect();
        let said = match (&self.key_file, texts.is_empty()) {
            (Some(file), true) => format!("sealed, key id {}, server {}", file.key_id, self.server),
            _ => texts.join("; "),
        };
        let measures = self.key_file.as_ref().map(measures).unwrap_or_default();
        (level, line(level, &said, &measures))
    }

    fn problems(&self) -> Vec<(Level, String)> {
        let mut found = Vec::new();
        if let Some(unsupported) = &self.unsupported {
            found.push((Level::Critical, unsupported.clone()));
        }
        match &self.key_file {
            None => found.push((
                Level::Critical,
                format!("not sealed, server {}", self.server),
            )),
            Some(file) => found.extend(of_key_file(file)),
        }
        match &self.server {
            Server::RunningUnsealed { .. } => {
                found.push((Level::Critical, format!("server {}", self.server)));
            }
            Server::RunningUnknown { .. } => {
                found.push((Level::Unknown, format!("server {}", self.server)));
            }
            Server::Stopped | Server::RunningSealed { .. } | Server::RunningPlain { .. } => {}
        }
        if let (true, Some(new)) = (self.needs_restart(), &self.versions.library) {
            found.push((Level::Warning, format!("restart the server to use {new}")));
        }
        found
    }

    /// Whether the server runs with another version of the library than the installed one.
    fn needs_restart(&self) -> bool {
        let (new, old) = (&self.versions.library, &self.versions.server_library);
        matches!((new, old), (Some(new), Some(old)) if new != old)
    }

    /// Returns the metrics in the text format of Prometheus.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let mut metrics = Metrics::default();
        self.measure(&mut metrics.of(&self.data_directory));
        metrics.to_string()
    }

    /// Adds what is known of the data directory to its metrics.
    pub fn measure(&self, to: &mut OfDirectory<'_>) {
        to.add(&name::STATUS_OK, &[], true);
        to.add(&name::SEALED, &[], self.sealed);
        if let Some(file) = &self.key_file {
            file.measure(to);
        }
        to.add(&name::SERVER_RUNNING, &[], self.server.pid().is_some());
        let sealed = match self.server {
            Server::RunningSealed { .. } => Some(true),
            Server::RunningUnsealed { .. } | Server::RunningPlain { .. } => Some(false),
            Server::Stopped | Server::RunningUnknown { .. } => None,
        };
        if let Some(sealed) = sealed {
            to.add(&name::SERVER_SEALED, &[], sealed);
        }
        if let Some(since) = self.server_since {
            to.add(&name::SERVER_START, &[], since);
        }
        to.add(&name::SERVER_NEEDS_RESTART, &[], self.needs_restart());
    }
}

impl KeyFileStatus {
    fn measure(&self, to: &mut OfDirectory<'_>) {
        let bits = self.key_length.to_string();
        let labels = [
            ("cluster_id", &*self.cluster_id),
            ("key_id", &self.key_id),
            ("suite", self.suite),
            ("bits", &bits),
        ];
        to.add(&name::KEY_INFO, &labels, true);
        to.add(&name::KEY_CREATED, &[], self.created);
        self.measure_slots(to);
        let opens = match self.key_check {
            KeyCheck::Opens { .. } => true,
            KeyCheck::Fails { .. } => false,
            KeyCheck::NotTried => return,
        };
        to.add(&name::KEY_OPENS, &[], opens);
    }

    fn measure_slots(&self, to: &mut OfDirectory<'_>) {
        let mut kinds: Vec<_> = self.slots.iter().map(|slot| slot.kind).collect();
        kinds.sort_unstable();
        for of_kind in kinds.chunk_by(|one, other| one == other) {
            let count = u64::try_from(of_kind.len()).unwrap_or(u64::MAX);
            to.add(&name::KEY_SLOTS, &[("kind", of_kind[0])], count);
        }
        for times in &self.times.slots {
            let slot = times.slot.to_string();
            let labels = [("slot", &*slot), ("kind", times.kind)];
            to.add(&name::SLOT_CREATED, &labels, times.created.unwrap_or(0));
            to.add(&name::SLOT_PROVED, &labels, times.proved.unwrap_or(0));
        }
        to.add(&name::SLOT_NOTES_OK, &[], self.times.are_readable);
    }
}

fn of_key_file(file: &KeyFileStatus) -> Vec<(Level, String)> {
    let mut found = Vec::new();
    if let KeyCheck::Fails { error } = &file.key_check {
        found.push((Level::Critical, format!("the key does not open: {error}")));
    }
    if let Some(wrong) = &file.pgseal_toml {
        found.push((Level::Warning, format!("pgseal.toml {wrong}")));
    }
    found
}

fn measures(file: &KeyFileStatus) -> String {
    let now = SystemTime::UNIX_EPOCH.elapsed();
    let age = now.map_or(0, |now| now.as_secs().saturating_sub(file.created));
    format!("|slots={} key_age={age}s", file.slots.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_plugin_is_one_line() {
        let said = line(Level::Critical, "a|b\nc", "|slots=1");
        assert_eq!(said, "PGSEAL CRITICAL - a/b c|slots=1\n");
    }
}
