//! Connections to the databases of the load, with a session of the owner where they are encrypted.

use std::sync::Arc;

use pgseal_client::tokio_postgres::Client;
use pgseal_client::{ConnectOptions, Identity, Policy, Resolver, Session, SessionOptions};

use crate::{Form, Options, Outcome};

/// The data key of all columns.
pub const KEY: &str = "bench";

/// Bytes of a cell beside its value (docs/format/cell.md).
pub const HEADER: usize = 35;

/// What stands beside each other; a database each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    Plain,
    /// In clear, as bytes that are as long as cells: what cells cost by their size alone.
    Bytes,
    /// All but the primary key; no page of an index is asked for as a whole, here and in `Whole`.
    Columns,
    /// The same, whose index on k is asked for by pages.
    ColumnsPaged,
    /// All.
    Whole,
    /// All, whose indexes are asked for by pages.
    WholePaged,
}

impl Database {
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "confidential_plain",
            Self::Bytes => "confidential_bytes",
            Self::Columns => "confidential_columns",
            Self::ColumnsPaged => "confidential_columns_paged",
            Self::Whole => "confidential_whole",
            Self::WholePaged => "confidential_paged",
        }
    }
}

/// Everybody's: it protects random numbers.
pub fn identity() -> Arc<Identity> {
    Arc::new(Identity::for_tests(42))
}

/// A connection to a database by its name, whose backend has this form of evaluator.
pub async fn connect(options: &Options, database: &str, form: Form) -> Outcome<Client> {
    let connect = ConnectOptions {
        host: options.host.clone(),
        port: options.port,
        user: Some(options.user.clone()),
        dbname: Some(database.to_owned()),
    };
    let mut target = connect.target()?;
    let mut settings = format!("-c encdb.evaluator={form}");
    if let Some(socket) = &options.evaluator {
        settings.push_str(&format!(" -c encdb.socket={}", socket.display()));
    }
    target.config.options(settings);
    Ok(target.connect().await?)
}

/// The owner's session on a connection, which makes its key and its grant if they are not there.
pub async fn open(client: Client) -> Outcome<Session> {
    let policy = Arc::new(Policy::software());
    let options = SessionOptions::new(Resolver::new(KEY));
    Ok(Session::open(client, identity(), policy, options).await?)
}
