//! Metrics in the text format of Prometheus, version 0.0.4. Every name that `status` and the
//! exporter write is a constant in [`name`], so that both say the same.
//!
//! Invariant: a metric has its HELP and TYPE once, and all its samples follow them, however many
//! clusters are measured.

pub mod name;

use std::fmt::{self, Display, Formatter, Write};
use std::path::Path;

/// A metric: its name behind `pgseal_`, and what it says.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
}

impl Metric {
    const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            kind: "gauge",
        }
    }

    const fn counter(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            kind: "counter",
        }
    }
}

/// A label and its value.
pub type Label<'a> = (&'a str, &'a str);

/// Measured values.
#[derive(Debug, Default)]
pub struct Metrics {
    families: Vec<Family>,
}

/// The samples of a metric, as text.
#[derive(Debug)]
struct Family {
    metric: &'static Metric,
    samples: String,
}

impl Metrics {
    /// Adds a sample.
    pub fn add(&mut self, metric: &'static Metric, labels: &[Label<'_>], value: impl Into<u64>) {
        let labels: Vec<_> = labels.iter().map(label).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let samples = &mut self.family(metric).samples;
        // A String takes all that is written to it.
        let _ = writeln!(samples, "pgseal_{}{labels} {}", metric.name, value.into());
    }

    /// Returns the metrics of one data directory, whose samples have its path as their first label.
    pub fn of<'a>(&'a mut self, data: &Path) -> OfDirectory<'a> {
        OfDirectory {
            metrics: self,
            directory: data.to_string_lossy().into_owned(),
        }
    }

    fn family(&mut self, metric: &'static Metric) -> &mut Family {
        let known = self.families.iter();
        let place = known.clone().position(|family| family.metric == metric);
        let place = place.unwrap_or_else(|| {
            let samples = String::new();
            self.families.push(Family { metric, samples });
            self.families.len() - 1
        });
        &mut self.families[place]
    }
}

/// The metrics of one data directory.
pub struct OfDirectory<'a> {
    metrics: &'a mut Metrics,
    directory: String,
}

impl OfDirectory<'_> {
    /// Adds a sample.
    pub fn add(&mut self, metric: &'static Metric, labels: &[Label<'_>], value: impl Into<u64>) {
        let own = [("data_directory", &*self.directory)];
        let labels: Vec<_> = own.iter().chain(labels).copied().collect();
        self.metrics.add(metric, &labels, value);
    }
}

fn label((name, value): &Label<'_>) -> String {
    let value = value.replace('\\', "\\\\");
    let value = value.replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

impl Display for Metrics {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for Family { metric, samples } in &self.families {
            let Metric { name, help, kind } = metric;
            write!(
                f,
                "# HELP pgseal_{name} {help}\n# TYPE pgseal_{name} {kind}\n{samples}"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_have_any_character() {
        let mut metrics = Metrics::default();
        let path = Path::new("/a \"b\\c\nd");
        metrics.of(path).add(&name::STATUS_OK, &[], false);
        let text = metrics.to_string();
        let expected = "pgseal_status_ok{data_directory=\"/a \\\"b\\\\c\\nd\"} 0";
        assert_eq!(text.lines().last(), Some(expected));
    }

    #[test]
    fn samples_of_one_metric_stand_together() {
        let mut metrics = Metrics::default();
        for data in ["/a", "/b"] {
            let mut of = metrics.of(Path::new(data));
            of.add(&name::STATUS_OK, &[], true);
            of.add(&name::KEY_SLOTS, &[("kind", "plain")], 2_u64);
        }
        metrics.add(&name::CLUSTERS, &[], 2_u64);
        let text = metrics.to_string();
        let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "pgseal_status_ok{data_directory=\"/a\"} 1",
            "pgseal_status_ok{data_directory=\"/b\"} 1",
            "pgseal_key_slots{data_directory=\"/a\",kind=\"plain\"} 2",
            "pgseal_key_slots{data_directory=\"/b\",kind=\"plain\"} 2",
            "pgseal_exporter_clusters 2",
        ];
        assert_eq!(samples, expected);
        assert_eq!(text.matches("# TYPE pgseal_status_ok gauge\n").count(), 1);
    }
}
