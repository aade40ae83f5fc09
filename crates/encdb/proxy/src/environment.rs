//! The environment of a program whose connections go through a proxy of its own: libpq's variables
//! and `DATABASE_URL`.
//!
//! Every variable that would lead a driver elsewhere, or to speak TLS with the proxy's socket, is
//! replaced, removed or refused.

use std::path::Path;

use percent_encoding::{utf8_percent_encode, AsciiSet, NON_ALPHANUMERIC};
use pgseal_client::Target;
use pgseal_keys::exit::{Code, Exit};

use crate::directory::PORT;

/// Characters that get a percent sign in a host, a user or a database of a URL.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// Variables that name a server or TLS settings, which the program is not to have.
const REMOVED: [&str; 9] = [
    "PGHOSTADDR",
    "PGREQUIRESSL",
    "PGSSLCERT",
    "PGSSLCOMPRESSION",
    "PGSSLCRL",
    "PGSSLCRLDIR",
    "PGSSLKEY",
    "PGSSLROOTCERT",
    "PGSSLCERTMODE",
];
/// Parameters of a URL that name a server or how it is spoken with.
const PLACES: [&str; 8] = [
    "channel_binding",
    "gssencmode",
    "host",
    "hostaddr",
    "krbsrvname",
    "port",
    "requiressl",
    "service",
];

/// A variable with which the program could not be led to its proxy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// A service file
    #[error("PGSERVICE is set, and pgseal reads no service file: unset it, and name the server with -d or PGHOST")]
    Service,
    /// A binding that no program between driver and server can keep
    #[error("PGCHANNELBINDING=require cannot hold through a proxy: unset it, and name the server with sslmode=verify-full")]
    ChannelBinding,
    /// Another form of a URL
    #[error("DATABASE_URL does not begin with postgresql:// or postgres://, so its program would not use the proxy: unset it, or write it so")]
    Url,
}

impl Exit for VariableError {
    fn code(&self) -> Code {
        Code::Usage
    }
}

/// The value that a variable gets; none: it is removed.
pub type Change = (&'static str, Option<String>);

/// Returns what is changed in an environment so that drivers connect to the socket in `directory`.
pub fn changes(
    variable: &dyn Fn(&str) -> Option<String>,
    target: &Target,
    directory: &Path,
) -> Result<Vec<Change>, VariableError> {
    if variable("PGSERVICE").is_some() {
        return Err(VariableError::Service);
    }
    if variable("PGCHANNELBINDING").as_deref() == Some("require") {
        return Err(VariableError::ChannelBinding);
    }
    let user = target.config.get_user().unwrap_or_default();
    let place = Place {
        host: directory.display().to_string(),
        user,
        database: target.database(),
    };
    let url = place.url(variable("DATABASE_URL").as_deref())?;
    let set = [
        ("PGHOST", place.host),
        ("PGPORT", PORT.to_string()),
        ("PGUSER", user.to_owned()),
        ("PGDATABASE", target.database().to_owned()),
        ("PGSSLMODE", "disable".to_owned()),
        ("PGSSLNEGOTIATION", "postgres".to_owned()),
        ("PGCHANNELBINDING", "disable".to_owned()),
        ("PGGSSENCMODE", "disable".to_owned()),
        ("DATABASE_URL", url),
    ];
    let removed = REMOVED.map(|name| (name, None));
    Ok(set
        .map(|(name, value)| (name, Some(value)))
        .into_iter()
        .chain(removed)
        .collect())
}

/// Where a program's connections go.
struct Place<'t> {
    host: String,
    user: &'t str,
    database: &'t str,
}

impl Place<'_> {
    /// Returns a URL of this place, with the scheme, user, password, database and parameters of
    /// the given one.
    fn url(&self, given: Option<&str>) -> Result<String, VariableError> {
        let (scheme, rest) = given
            .unwrap_or("postgresql://")
            .split_once("://")
            .ok_or(VariableError::Url)?;
        let base = scheme.split('+').next().unwrap_or_default();
        if !matches!(base, "postgresql" | "postgres") {
            return Err(VariableError::Url);
        }
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let user = authority.rsplit_once('@').map(|(user, _)| user.to_owned());
        let user = user.unwrap_or_else(|| encoded(self.user));
        let database = match database {
            "" => encoded(self.database),
            named => named.to_owned(),
        };
        let kept: Vec<&str> = parameters.split('&').filter(|it| is_kept(it)).collect();
        let parameters = match kept.is_empty() {
            true => String::new(),
            false => format!("?{}", kept.join("&")),
        };
        let host = encoded(&self.host);
        Ok(format!("{scheme}://{user}@{host}/{database}{parameters}"))
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

fn is_kept(parameter: &str) -> bool {
    let name = parameter.split('=').next().unwrap_or_default();
    !name.is_empty() && !name.starts_with("ssl") && !PLACES.contains(&name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_in_result)]
    use pgseal_client::ConnectOptions;

    use super::*;

    fn changed(variables: &[(&str, &str)]) -> Result<Vec<Change>, VariableError> {
        let options = ConnectOptions {
            dbname: Some("host=db.example.org user=ada dbname=shop".to_owned()),
            ..ConnectOptions::default()
        };
        let target = options.target().expect("it is a connection string");
        let variable = |name: &str| {
            let mut found = variables.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        changes(&variable, &target, Path::new("/run/user/7/pgseal-x"))
    }

    fn value(variables: &[(&str, &str)], name: &str) -> Option<String> {
        let all = changed(variables).expect("they can be changed");
        let mut found = all.into_iter().filter(|(known, _)| *known == name);
        found.next().expect("it is among them").1
    }

    #[test]
    fn libpq_is_led_to_the_socket_and_speaks_no_tls() {
        let given = [("PGHOSTADDR", "10.0.0.1"), ("PGSSLMODE", "verify-full")];
        for (name, expected) in [
            ("PGHOST", Some("/run/user/7/pgseal-x")),
            ("PGPORT", Some("5432")),
            ("PGUSER", Some("ada")),
            ("PGDATABASE", Some("shop")),
            ("PGSSLMODE", Some("disable")),
            ("PGCHANNELBINDING", Some("disable")),
            ("PGHOSTADDR", None),
            ("PGSSLROOTCERT", None),
        ] {
            assert_eq!(value(&given, name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_url_keeps_whose_connection_it_is() {
        const HOST: &str = "%2Frun%2Fuser%2F7%2Fpgseal-x";
        for (given, user, rest) in [
            (None, "ada", "shop"),
            (Some("postgresql://"), "ada", "shop"),
            (Some("postgresql://db/"), "ada", "shop"),
            (
                Some(
                    "postgresql://bob:p%40ss@db:6432/crm?sslmode=require&host=x&application_name=a",
                ),
                "bob:p%40ss",
                "crm?application_name=a",
            ),
            (
                Some("postgresql://bob@[::1]:5432,db2/crm?sslrootcert=/x"),
                "bob",
                "crm",
            ),
        ] {
            let given: Vec<_> = given.iter().map(|url| ("DATABASE_URL", *url)).collect();
            let url = value(&given, "DATABASE_URL").expect("it is set");
            assert_eq!(url, format!("postgresql://{user}@{HOST}/{rest}"));
        }
        let given = [("DATABASE_URL", "postgresql+psycopg2://db/crm")];
        let url = value(&given, "DATABASE_URL").expect("it is set");
        assert_eq!(url, format!("postgresql+psycopg2://ada@{HOST}/crm"));
    }

    #[test]
    fn what_would_lead_past_the_proxy_is_refused() {
        for (name, text, error) in [
            ("PGSERVICE", "shop", VariableError::Service),
            ("PGCHANNELBINDING", "require", VariableError::ChannelBinding),
            (
                "DATABASE_URL",
                "jdbc:postgresql://db/shop",
                VariableError::Url,
            ),
            ("DATABASE_URL", "mysql://db/shop", VariableError::Url),
            ("DATABASE_URL", "host=db", VariableError::Url),
        ] {
            assert_eq!(changed(&[(name, text)]), Err(error));
        }
    }
}
