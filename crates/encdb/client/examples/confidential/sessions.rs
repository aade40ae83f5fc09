//! Connections to the databases of the load, with a session of the owner where they are encrypted.

use std::sync::Arc;

use pgseal_client::tokio_postgres::Client;
use pgseal_client::{ConnectOptions, Identity, Policy, Resolver, Session, SessionOptions};

use crate::{Form, Options, Outcome};

/// The data key of all columns.
pub const KEY: &str = "bench";

/// Bytes of a cell beside its value (docs/format/cell.md).
pub const HEADER: usize = 35;

/// The databases that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    Plain,
    /// All columns are in clear, as bytes as long as cells: the cost of cells by their size alone.
    Bytes,
    /// All columns but the primary key are encrypted. No page of an index is asked for as a whole,
    /// here and in `Whole`.
    Columns,
    /// All columns but the primary key are encrypted; the index on k is asked for by pages.
    ColumnsPaged,
    /// All columns are encrypted.
    Whole,
    /// All columns are encrypted; indexes are asked for by pages.
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

/// Returns an identity whose keys are public: it protects random numbers.
pub fn identity() -> Arc<Identity> {
    Arc::new(Identity::for_tests(42))
}

/// Connects to a database by its name; its backend has this form of evaluator.
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

/// Opens the owner's session on a connection. Makes its key and its grant if they are missing.
pub async fn open(client: Client) -> Outcome<Session> {
    let policy = Arc::new(Policy::software());
    let options = SessionOptions::new(Resolver::new(KEY));
    Ok(Session::open(client, identity(), policy, options).await?)
}
