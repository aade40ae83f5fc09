//! The counters of a proxy, in Prometheus' text format. They hold nothing of a user, a statement or
//! a value.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use pgseal_engine::{Event, Observer};

/// A number that only grows.
#[derive(Default)]
struct Counter(AtomicU64);

impl Counter {
    fn add(&self, number: u64) {
        self.0.fetch_add(number, Relaxed);
    }
}

/// The numbers of one proxy.
#[derive(Default)]
pub struct Metrics {
    connections: Counter,
    ended: Counter,
    statements: Counter,
    sealed: Counter,
    opened: Counter,
    from_driver: Counter,
    from_server: Counter,
    sessions: Counter,
    no_sessions: Counter,
    /// Refusals by the class of their SQLSTATE
    refused: Mutex<BTreeMap<String, u64>>,
}

/// A connection that is open.
pub struct Open(Arc<Metrics>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.ended.add(1);
    }
}

impl Metrics {
    /// Counts a connection, which is open until the returned value is dropped.
    pub fn connection(self: &Arc<Self>) -> Open {
        self.connections.add(1);
        Open(Arc::clone(self))
    }

    /// Counts bytes of a driver.
    pub fn driver_sent(&self, bytes: usize) {
        self.from_driver.add(bytes.try_into().unwrap_or_default());
    }

    /// Counts bytes of a server.
    pub fn server_sent(&self, bytes: usize) {
        self.from_server.add(bytes.try_into().unwrap_or_default());
    }

    /// Counts a refusal that a driver was told.
    pub fn refused(&self, sqlstate: &str) {
        let class = sqlstate.get(..2).unwrap_or(sqlstate).to_owned();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(class).or_default() += 1;
    }

    /// Returns all of it in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut text = Text::default();
        let version = env!("PGSEAL_BUILD");
        text.head("build_info", "gauge", "The version of the proxy.");
        text.value("build_info", &format!("{{version={version:?}}}"), 1);
        let (all, ended) = (self.connections.0.load(Relaxed), self.ended.0.load(Relaxed));
        text.head(
            "connections_open",
            "gauge",
            "Connections of drivers that are open.",
        );
        text.value("connections_open", "", all.saturating_sub(ended));
        for (name, counter, help) in [
            (
                "connections_total",
                &self.connections,
                "Connections of drivers.",
            ),
            (
                "statements_total",
                &self.statements,
                "Statements that drivers had run.",
            ),
            (
                "cells_sealed_total",
                &self.sealed,
                "Values that were encrypted.",
            ),
            (
                "cells_opened_total",
                &self.opened,
                "Values that were decrypted.",
            ),
            (
                "sessions_total",
                &self.sessions,
                "Owners' sessions that were opened.",
            ),
            (
                "session_failures_total",
                &self.no_sessions,
                "Owners' sessions that were not opened.",
            ),
        ] {
            text.head(name, "counter", help);
            text.value(name, "", counter.0.load(Relaxed));
        }
        text.head(
            "received_bytes_total",
            "counter",
            "Bytes of drivers and of the server.",
        );
        for (side, counter) in [("driver", &self.from_driver), ("server", &self.from_server)] {
            let label = format!("{{from={side:?}}}");
            text.value("received_bytes_total", &label, counter.0.load(Relaxed));
        }
        text.head(
            "refused_total",
            "counter",
            "Refusals, by the class of their SQLSTATE.",
        );
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        for (class, number) in &*refused {
            text.value("refused_total", &format!("{{class={class:?}}}"), *number);
        }
        text.0
    }
}

impl Observer for Metrics {
    fn note(&self, event: Event) {
        match event {
            Event::Statement => self.statements.add(1),
            Event::Sealed => self.sealed.add(1),
            Event::Opened => self.opened.add(1),
            Event::Session => self.sessions.add(1),
            Event::NoSession => self.no_sessions.add(1),
            Event::Refused(sqlstate) => self.refused(sqlstate),
        }
    }
}

/// Prometheus' text format.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP pgseal_proxy_{name} {help}");
        let _ = writeln!(self.0, "# TYPE pgseal_proxy_{name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &str, value: u64) {
        let _ = writeln!(self.0, "pgseal_proxy_{name}{labels} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_of_what_happened() {
        let metrics = Arc::new(Metrics::default());
        drop(metrics.connection());
        let _open = metrics.connection();
        for sqlstate in ["0A000", "0A000", "PE009"] {
            metrics.note(Event::Refused(sqlstate));
        }
        let text = metrics.text();
        for line in [
            "pgseal_proxy_connections_open 1",
            "pgseal_proxy_connections_total 2",
            "pgseal_proxy_statements_total 0",
            "pgseal_proxy_refused_total{class=\"0A\"} 2",
            "pgseal_proxy_refused_total{class=\"PE\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{text}");
        }
    }
}
