//! A target as a connection string that another process reads: where the server is, and how TLS
//! checks it. It has no role, database or password, unless one of several hosts is chosen by a
//! login.

use std::time::Duration;

use tokio_postgres::config::{Config, Host};

use crate::attributes::Attributes;
use crate::connect::ATTRIBUTES;
use crate::Target;

impl Target {
    /// Returns the connection string.
    pub fn network(&self) -> String {
        let config = &self.config;
        let mut all = vec![
            ("host", list(config.get_hosts(), host)),
            (
                "hostaddr",
                list(config.get_hostaddrs(), ToString::to_string),
            ),
            ("port", list(config.get_ports(), ToString::to_string)),
        ];
        all.extend(timing(config));
        match &self.tls {
            Some(tls) => all.extend(tls.settings()),
            None => all.push(("sslmode", "disable".to_owned())),
        }
        if self.attributes != Attributes::Any {
            all.extend(self.login());
        }
        all.retain(|(_, value)| !value.is_empty());
        conninfo(&all)
    }

    /// Returns which host is wanted, and the login that finds it.
    fn login(&self) -> Vec<(&'static str, String)> {
        let config = &self.config;
        let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
        let password = config.get_password().map(String::from_utf8_lossy);
        vec![
            (ATTRIBUTES, self.attributes.to_string()),
            ("user", text(config.get_user())),
            ("dbname", text(config.get_dbname())),
            ("password", text(password.as_deref())),
        ]
    }
}

/// Returns a connection string for libpq.
pub fn conninfo(parameters: &[(&str, String)]) -> String {
    let quoted = |value: &str| value.replace('\\', "\\\\").replace('\'', "\\'");
    let each = parameters
        .iter()
        .map(|(name, value)| format!("{name}='{}'", quoted(value)));
    each.collect::<Vec<_>>().join(" ")
}

fn host(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(directory) => directory.display().to_string(),
    }
}

fn list<T>(values: &[T], text: impl Fn(&T) -> String) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Returns the times of a connection, in the units of the connection string.
fn timing(config: &Config) -> Vec<(&'static str, String)> {
    let seconds = |time: Duration| time.as_secs().to_string();
    let milliseconds = |time: &Duration| time.as_millis().to_string();
    let time = |time: Option<Duration>| time.map(seconds).unwrap_or_default();
    let keepalives = u8::from(config.get_keepalives());
    let retries = config.get_keepalives_retries();
    vec![
        (
            "connect_timeout",
            time(config.get_connect_timeout().copied()),
        ),
        (
            "tcp_user_timeout",
            config
                .get_tcp_user_timeout()
                .map(milliseconds)
                .unwrap_or_default(),
        ),
        ("keepalives", keepalives.to_string()),
        ("keepalives_idle", seconds(config.get_keepalives_idle())),
        (
            "keepalives_interval",
            time(config.get_keepalives_interval()),
        ),
        (
            "keepalives_retries",
            retries.map(|it| it.to_string()).unwrap_or_default(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use crate::ConnectOptions;

    fn network(dbname: &str, variables: &[(&str, &str)]) -> String {
        let options = ConnectOptions {
            dbname: Some(dbname.to_owned()),
            ..ConnectOptions::default()
        };
        let variable = |name: &str| {
            let mut found = variables.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        let target = options
            .target_in(&variable)
            .expect("it is a connection string");
        target.network()
    }

    #[test]
    fn another_process_finds_the_same_server() {
        for (string, variables) in [
            (
                "host=/run/postgresql port=6432 user=ada password=x dbname=shop",
                &[][..],
            ),
            (
                r"host=a,b hostaddr=10.0.0.1,10.0.0.2 port=1,2 connect_timeout=3 keepalives=0
                  tcp_user_timeout=7000 sslmode=verify-full sslrootcert='/c a/it\'s'",
                &[],
            ),
            (
                "shop",
                &[
                    ("PGHOST", "db"),
                    ("PGSSLMODE", "require"),
                    ("PGSSLCERT", "/c"),
                    ("PGSSLKEY", "/k"),
                ],
            ),
        ] {
            let text = network(string, variables);
            assert!(
                !text.contains("ada") && !text.contains("password"),
                "{text}"
            );
            assert_eq!(
                network(&text, &[("PGHOST", "x"), ("PGSSLMODE", "disable")]),
                text
            );
        }
        let text = network(
            "shop",
            &[
                ("PGHOST", "db"),
                ("PGSSLMODE", "require"),
                ("PGSSLCERT", "/c"),
                ("PGSSLKEY", "/k"),
            ],
        );
        assert!(
            text.contains("host='db'") && text.contains("sslmode='require'"),
            "{text}"
        );
        assert!(text.contains("sslcert='/c' sslkey='/k'"), "{text}");
        let text = network("host=db tcp_user_timeout=7000", &[]);
        assert!(text.contains("tcp_user_timeout='7000'"), "{text}");
    }
}
