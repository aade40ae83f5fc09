//! `target_session_attrs`: which of several hosts is taken, by what its sessions can do. The values
//! are libpq's (`fe-connect.c`).

use std::fmt;
use std::str::FromStr;

use tokio_postgres::Client;

use crate::ClientError;

/// The server that is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Attributes {
    /// Whichever answers
    #[default]
    Any,
    /// One whose transactions write by default
    ReadWrite,
    /// One whose transactions only read by default
    ReadOnly,
    /// One that is not in recovery
    Primary,
    /// One in recovery
    Standby,
    /// One in recovery, or else any
    PreferStandby,
}

const NAMES: [(&str, Attributes); 6] = [
    ("any", Attributes::Any),
    ("read-write", Attributes::ReadWrite),
    ("read-only", Attributes::ReadOnly),
    ("primary", Attributes::Primary),
    ("standby", Attributes::Standby),
    ("prefer-standby", Attributes::PreferStandby),
];

impl FromStr for Attributes {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, ClientError> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        let refused = || {
            let text = format!(
                "{text:?} is no target_session_attrs: give any, read-write, read-only, primary, \
                 standby or prefer-standby"
            );
            ClientError::Connection(text)
        };
        found.map(|(_, attributes)| *attributes).ok_or_else(refused)
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(_, attributes)| attributes == self);
        f.write_str(found.map_or("any", |(name, _)| name))
    }
}

/// The state of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    in_recovery: bool,
    read_only: bool,
}

impl State {
    /// Asks the server.
    pub(crate) async fn of(client: &Client) -> Result<Self, ClientError> {
        let sql = "SELECT pg_catalog.pg_is_in_recovery(), \
            pg_catalog.current_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'on'";
        let rows = client.query_typed(sql, &[]).await?;
        let none = || ClientError::Connection("the server does not say its state".to_owned());
        let row = rows.first().ok_or_else(none)?;
        Ok(Self {
            in_recovery: row.try_get(0)?,
            read_only: row.try_get(1)?,
        })
    }
}

impl Attributes {
    /// Returns what is looked for in one round of all hosts, and in the next if that finds none.
    pub(crate) fn rounds(self) -> &'static [Self] {
        match self {
            Self::Any => &[Self::Any],
            Self::ReadWrite => &[Self::ReadWrite],
            Self::ReadOnly => &[Self::ReadOnly],
            Self::Primary => &[Self::Primary],
            Self::Standby => &[Self::Standby],
            Self::PreferStandby => &[Self::Standby, Self::Any],
        }
    }

    /// Whether a server is the one that is wanted.
    pub(crate) fn takes(self, state: State) -> bool {
        match self {
            Self::Any | Self::PreferStandby => true,
            Self::ReadWrite => !state.read_only,
            Self::ReadOnly => state.read_only,
            Self::Primary => !state.in_recovery,
            Self::Standby => state.in_recovery,
        }
    }

    /// Returns the error of a host that is another one.
    pub(crate) fn unmet(self) -> ClientError {
        ClientError::Connection(format!(
            "no host of the connection string is as target_session_attrs={self} demands: see which \
             server is the primary, or name others"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_taken_as_libpq_takes_them() {
        let state = |in_recovery, read_only| State {
            in_recovery,
            read_only,
        };
        let servers = [state(false, false), state(false, true), state(true, true)];
        for (name, expected) in [
            ("any", [true, true, true]),
            ("read-write", [true, false, false]),
            ("read-only", [false, true, true]),
            ("primary", [true, true, false]),
            ("standby", [false, false, true]),
        ] {
            let attributes: Attributes = name.parse().expect("it is one");
            assert_eq!(attributes.to_string(), name);
            assert_eq!(attributes.rounds(), [attributes]);
            assert_eq!(
                servers.map(|state| attributes.takes(state)),
                expected,
                "{name}"
            );
        }
        let prefers = "prefer-standby".parse::<Attributes>().expect("it is one");
        assert_eq!(prefers.rounds(), [Attributes::Standby, Attributes::Any]);
        let refused = "master"
            .parse::<Attributes>()
            .map_err(|error| error.to_string());
        assert!(refused.is_err_and(|text| text.contains("prefer-standby")));
    }
}
