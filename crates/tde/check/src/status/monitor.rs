//! A status in the forms of monitors: the text format of Prometheus, and the line and the four exit
//! codes of a Nagios plugin.

use std::fmt::Write;
use std::path::Path;
use std::time::SystemTime;

use pgseal_keys::exit::{sentence, Code, Failure};
use pgseal_keys::server::Server;

use super::{KeyCheck, KeyFileStatus, Status};

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
    let mut metrics = Metrics::of(data);
    metrics.answered(false);
    metrics.text
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
        let mut metrics = Metrics::of(&self.data_directory);
        metrics.answered(true);
        metrics.gauge(
            "sealed",
            "Whether the cluster is encrypted.",
            &[],
            self.sealed,
        );
        if let Some(file) = &self.key_file {
            metrics.key_file(file);
        }
        let running = self.server.pid().is_some();
        metrics.gauge("server_running", "Whether a server runs.", &[], running);
        let sealed = match self.server {
            Server::RunningSealed { .. } => Some(true),
            Server::RunningUnsealed { .. } | Server::RunningPlain { .. } => Some(false),
            Server::Stopped | Server::RunningUnknown { .. } => None,
        };
        if let Some(sealed) = sealed {
            let help = "Whether the running server encrypts the cluster.";
            metrics.gauge("server_sealed", help, &[], sealed);
        }
        if let Some(since) = self.server_since {
            let help = "When the server was started.";
            metrics.gauge("server_start_timestamp_seconds", help, &[], since);
        }
        let help = "Whether the server runs with another library than the installed one.";
        metrics.gauge("server_needs_restart", help, &[], self.needs_restart());
        metrics.text
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

/// Metrics of one data directory.
struct Metrics {
    directory: String,
    text: String,
}

impl Metrics {
    fn of(data: &Path) -> Self {
        Self {
            directory: data.to_string_lossy().into_owned(),
            text: String::new(),
        }
    }

    fn answered(&mut self, answered: bool) {
        let help = "Whether the data directory could be looked at.";
        self.gauge("status_ok", help, &[], answered);
    }

    fn key_file(&mut self, file: &KeyFileStatus) {
        let bits = file.key_length.to_string();
        let labels = [
            ("cluster_id", &*file.cluster_id),
            ("key_id", &file.key_id),
            ("suite", file.suite),
            ("bits", &bits),
        ];
        self.gauge("key_info", "The key of the cluster.", &labels, true);
        let help = "When the key was made.";
        self.gauge("key_created_timestamp_seconds", help, &[], file.created);
        self.slots(file);
        let opens = match file.key_check {
            KeyCheck::Opens { .. } => true,
            KeyCheck::Fails { .. } => false,
            KeyCheck::NotTried => return,
        };
        self.gauge("key_opens", "Whether the key opens.", &[], opens);
    }

    fn slots(&mut self, file: &KeyFileStatus) {
        let mut kinds: Vec<_> = file.slots.iter().map(|slot| slot.kind).collect();
        kinds.sort_unstable();
        self.head("key_slots", "Key slots, by their kind.");
        for of_kind in kinds.chunk_by(|one, other| one == other) {
            let count = u64::try_from(of_kind.len()).unwrap_or(u64::MAX);
            self.sample("key_slots", &[("kind", of_kind[0])], count);
        }
    }

    fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: impl Into<u64>) {
        self.head(name, help);
        self.sample(name, labels, value.into());
    }

    fn head(&mut self, name: &str, help: &str) {
        let text = format!("# HELP pgseal_{name} {help}\n# TYPE pgseal_{name} gauge\n");
        self.text.push_str(&text);
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let directory = escaped(&self.directory);
        let mut text = format!("pgseal_{name}{{data_directory=\"{directory}\"");
        for (label, value) in labels {
            // A String takes all that is written to it.
            let _ = write!(text, ",{label}=\"{}\"", escaped(value));
        }
        let _ = writeln!(text, "}} {value}");
        self.text.push_str(&text);
    }
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\");
    value.replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_have_any_character() {
        let text = without_answer(Path::new("/a \"b\\c\nd"));
        let sample = text.lines().last();
        let expected = "pgseal_status_ok{data_directory=\"/a \\\"b\\\\c\\nd\"} 0";
        assert_eq!(sample, Some(expected));
    }

    #[test]
    fn a_line_of_a_plugin_is_one_line() {
        let said = line(Level::Critical, "a|b\nc", "|slots=1");
        assert_eq!(said, "PGSEAL CRITICAL - a/b c|slots=1\n");
    }
}
