//! Finding the server by psql's options and libpq's variables.
//!
//! Keys and values of encrypted columns are sealed on their way in any case; TLS protects
//! passwords, plain columns and statements.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};

use tokio_postgres::config::{Config, Host, SslMode};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, NoTls, Socket};
use zeroize::Zeroizing;

use crate::attributes::Attributes;
use crate::tls::{take_settings, Tls};
use crate::ClientError;

/// The directories in which Debian's servers and many others have their sockets.
const SOCKETS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// The setting that says which of several hosts is wanted.
pub(crate) const ATTRIBUTES: &str = "target_session_attrs";

/// psql's options; what is not given comes from the environment.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// A host, or the directory of a socket
    pub host: Option<String>,
    /// The port
    pub port: Option<u16>,
    /// The role
    pub user: Option<String>,
    /// A database, or a connection string
    pub dbname: Option<String>,
}

/// A server, and how it is spoken with.
#[derive(Clone, Debug)]
pub struct Target {
    /// The configuration of the driver
    pub config: Config,
    /// None where every host is a socket's directory: libpq speaks no TLS there.
    pub(crate) tls: Option<Tls>,
    /// Which of several hosts is wanted
    pub(crate) attributes: Attributes,
}

impl Target {
    /// Returns the database's name. The server is not asked.
    pub fn database(&self) -> &str {
        let user = self.config.get_user().unwrap_or_default();
        self.config.get_dbname().unwrap_or(user)
    }

    /// Returns the name of the key for whatever this role has in this database, as encdb makes it.
    /// The server is not asked: anyone who names the key chooses who may open what is sealed.
    pub fn default_keyname(&self) -> String {
        let user = self.config.get_user().unwrap_or_default();
        format!("|{user}|{}|", self.database())
    }

    /// Connects; the connection is served by a task of the runtime that this is called in.
    pub async fn connect(&self) -> Result<Client, ClientError> {
        match &self.tls {
            _ if self.attributes != Attributes::Any => self.wanted().await,
            None => self.connect_over(NoTls).await,
            Some(tls) => self.connect_over(tls.connector()?).await,
        }
    }

    async fn connect_over<T>(&self, tls: T) -> Result<Client, ClientError>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
    {
        let (client, connection) = self.config.connect(tls).await?;
        // Its errors are those of the calls that wait for it.
        tokio::spawn(async move { connection.await.unwrap_or_default() });
        Ok(client)
    }
}

impl ConnectOptions {
    /// Returns the target that libpq would make of the options.
    pub fn target(&self) -> Result<Target, ClientError> {
        self.target_in(&|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// Returns the target in an environment whose variables `variable` knows; an empty one is not
    /// set.
    pub fn target_in(
        &self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Target, ClientError> {
        let dbname = self.dbname.clone().or_else(|| variable("PGDATABASE"));
        let is_string = |text: &String| text.contains('=') || text.contains("://");
        let string = dbname.as_ref().filter(|text| is_string(text));
        let (string, settings) = string.map(|text| take_settings(text)).unwrap_or_default();
        let named = dbname.filter(|text| !is_string(text));
        let mut config = self.config_in(&string, named, variable)?;
        let setting = |name: &str| {
            let found = settings.iter().find(|(known, _)| known == name);
            let value = found.map(|(_, value)| value.clone());
            value.or_else(|| variable(&format!("PG{}", name.to_uppercase())))
        };
        let is_socket = |host: &Host| matches!(host, Host::Unix(_));
        // A socket's directory with an address beside it names a host of a network.
        let has_address = !config.get_hostaddrs().is_empty();
        let tls = match config.get_hosts().iter().all(is_socket) && !has_address {
            true => None,
            false => Some(Tls::new(&setting, variable("HOME"))?),
        };
        config.ssl_mode(tls.as_ref().map_or(SslMode::Disable, Tls::mode));
        let wanted = settings.iter().find(|(name, _)| name == ATTRIBUTES);
        let wanted = wanted.map(|(_, value)| value.clone());
        let wanted = wanted.or_else(|| variable("PGTARGETSESSIONATTRS"));
        let attributes = wanted.map(|text| text.parse()).transpose()?;
        Ok(Target {
            config,
            tls,
            attributes: attributes.unwrap_or_default(),
        })
    }

    /// Makes the configuration. `string` is a connection string without what the driver does not
    /// know.
    fn config_in(
        &self,
        string: &str,
        named: Option<String>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, ClientError> {
        let mut config: Config = string.parse().map_err(|_| not_a("connection string"))?;
        // The driver reads seconds; libpq's unit is the millisecond.
        if let Some(read) = config.get_tcp_user_timeout().map(Duration::as_secs) {
            config.tcp_user_timeout(Duration::from_millis(read));
        }
        let addresses = config.get_hostaddrs().to_vec();
        if config.get_hosts().is_empty() && !addresses.is_empty() {
            // An address is a host like another one: it must not stand beside a socket's directory.
            addresses
                .iter()
                .for_each(|address| _ = config.host(address.to_string()));
        } else if config.get_hosts().is_empty() {
            let host = self.host.clone().or_else(|| variable("PGHOST"));
            config.host(host.unwrap_or_else(sockets));
        }
        if !addresses.is_empty() && config.get_hosts().len() != addresses.len() {
            let text = "host and hostaddr have different numbers of entries: give one address for each host";
            return Err(ClientError::Connection(text.to_owned()));
        }
        if config.get_ports().is_empty() {
            let port = self
                .port
                .map(Ok)
                .or_else(|| variable("PGPORT").map(|port| port.parse()));
            config.port(port.unwrap_or(Ok(5432)).map_err(|_| not_a("port"))?);
        }
        if config.get_user().is_none() {
            let user = self.user.clone().or_else(|| variable("PGUSER"));
            let user = user
                .or_else(|| variable("USER"))
                .or_else(|| variable("LOGNAME"));
            config.user(user.unwrap_or_else(|| "postgres".to_owned()));
        }
        if config.get_dbname().is_none() {
            let user = config.get_user().unwrap_or_default().to_owned();
            config.dbname(named.unwrap_or(user));
        }
        if let Some(options) = variable("PGOPTIONS") {
            config.options(options);
        }
        let name = variable("PGAPPNAME");
        config.application_name(name.unwrap_or_else(|| "pgseal".to_owned()));
        self.password(&mut config, variable);
        Ok(config)
    }

    /// Sets the password from the environment, or from the password file, if none is set.
    fn password(&self, config: &mut Config, variable: &dyn Fn(&str) -> Option<String>) {
        if config.get_password().is_some() {
            return;
        }
        if let Some(password) = variable("PGPASSWORD").map(Zeroizing::new) {
            config.password(password.as_bytes());
            return;
        }
        let home = || variable("HOME").map(|home| PathBuf::from(home).join(".pgpass"));
        let path = variable("PGPASSFILE").map(PathBuf::from).or_else(home);
        let text = path
            .and_then(|path| fs::read_to_string(path).ok())
            .map(Zeroizing::new);
        let asked = asked(config);
        if let Some(password) = text.and_then(|text| password_of(&text, &asked)) {
            config.password(password.as_bytes());
        }
    }
}

fn sockets() -> String {
    let there = SOCKETS
        .iter()
        .find(|directory| fs::exists(directory).unwrap_or(false));
    there.map_or("localhost", |directory| directory).to_owned()
}

fn not_a(what: &str) -> ClientError {
    ClientError::Connection(format!(
        "that is no {what}: see the options -h, -p, -U and -d"
    ))
}

/// Returns the fields that a line of the password file must match: host, port, database, user.
fn asked(config: &Config) -> [String; 4] {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(directory))
            if !SOCKETS.map(OsStr::new).contains(&directory.as_os_str()) =>
        {
            directory.display().to_string()
        }
        _ => "localhost".to_owned(),
    };
    let port = config
        .get_ports()
        .first()
        .map(u16::to_string)
        .unwrap_or_default();
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    [
        host,
        port,
        text(config.get_dbname()),
        text(config.get_user()),
    ]
}

/// Returns the password of the first matching line; `\:` and `\\` are characters of a field.
fn password_of(text: &str, asked: &[String; 4]) -> Option<Zeroizing<String>> {
    let of_line = |line: &str| {
        let mut fields = vec![Zeroizing::new(String::with_capacity(line.len()))];
        let mut rest = line.chars();
        while let Some(character) = rest.next() {
            match character {
                ':' if fields.len() < 5 => {
                    fields.push(Zeroizing::new(String::with_capacity(line.len())));
                }
                '\\' => fields.last_mut()?.extend(rest.next()),
                character => fields.last_mut()?.push(character),
            }
        }
        let password = (fields.len() == 5).then(|| fields.pop()).flatten()?;
        let matches = |(field, asked): (&Zeroizing<String>, &String)| {
            field.as_str() == "*" || field.as_str() == asked
        };
        fields.iter().zip(asked).all(matches).then_some(password)
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    { lines }.find_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(options: &ConnectOptions, variables: &[(&str, &str)]) -> Config {
        let variable = |name: &str| {
            let mut found = variables.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        let target = options.target_in(&variable);
        target.expect("they make a connection").config
    }

    fn of_string(text: &str) -> ConnectOptions {
        ConnectOptions {
            dbname: Some(text.to_owned()),
            ..ConnectOptions::default()
        }
    }

    #[test]
    fn options_come_before_variables() {
        let variables = [("PGHOST", "db"), ("PGPORT", "6000"), ("PGUSER", "ada")];
        let found = config(&ConnectOptions::default(), &variables);
        assert_eq!(found.get_hosts(), [Host::Tcp("db".to_owned())]);
        assert_eq!(
            (found.get_ports(), found.get_user()),
            (&[6000][..], Some("ada"))
        );
        assert_eq!(found.get_dbname(), Some("ada"));
        let options = ConnectOptions {
            host: Some("/run/x".to_owned()),
            port: Some(7000),
            user: Some("bob".to_owned()),
            dbname: Some("shop".to_owned()),
        };
        let found = config(&options, &variables);
        assert_eq!(found.get_hosts(), [Host::Unix("/run/x".into())]);
        assert_eq!(
            (found.get_ports(), found.get_user()),
            (&[7000][..], Some("bob"))
        );
        assert_eq!(found.get_dbname(), Some("shop"));
    }

    /// The name is that of `encdb.default_keyname()`, which is not asked.
    #[test]
    fn the_key_is_named_after_role_and_database() {
        let named = |text: &str| {
            let target = of_string(text).target_in(&|_| None);
            target.expect("they make a connection").default_keyname()
        };
        assert_eq!(named("host=/run/x user=ada dbname=shop"), "|ada|shop|");
        assert_eq!(named("host=/run/x user=ada"), "|ada|ada|");
    }

    #[test]
    fn a_database_may_be_a_connection_string() {
        let options = of_string("postgresql://ada@db:6001/shop");
        let found = config(&options, &[("PGPORT", "6000"), ("PGPASSWORD", "secret")]);
        assert_eq!(
            (found.get_ports(), found.get_dbname()),
            (&[6001][..], Some("shop"))
        );
        assert_eq!(found.get_password(), Some(&b"secret"[..]));
    }

    #[test]
    fn tls_is_asked_for_by_string_or_variable_and_not_at_a_socket() {
        let require = [("PGSSLMODE", "require"), ("PGHOST", "db")];
        let options = ConnectOptions::default();
        assert_eq!(config(&options, &require).get_ssl_mode(), SslMode::Require);
        let disabled = of_string("sslmode=disable");
        assert_eq!(config(&disabled, &require).get_ssl_mode(), SslMode::Disable);
        let socket = of_string("host=/run/x sslmode=verify-full");
        assert_eq!(config(&socket, &require).get_ssl_mode(), SslMode::Disable);
        let refused = of_string("host=db sslmode=verify-full").target_in(&|_| None);
        assert!(matches!(refused, Err(ClientError::Connection(_))));
    }

    #[test]
    fn the_first_line_of_the_password_file_that_matches() {
        let text = "# comment\nother:5432:*:*:no\nlocalhost:*:shop:ada:a\\:b\\\\c\n*:*:*:*:rest";
        let asked = |user: &str| ["localhost", "5432", "shop", user].map(str::to_owned);
        let found = |user| password_of(text, &asked(user)).map(|password| password.to_string());
        assert_eq!(found("ada").as_deref(), Some("a:b\\c"));
        assert_eq!(found("bob").as_deref(), Some("rest"));
        assert!(password_of("localhost:5432:shop:ada", &asked("ada")).is_none());
    }
}
