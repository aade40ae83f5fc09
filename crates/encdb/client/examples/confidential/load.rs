//! One sample: connections that run one kind of statement for some seconds.

use std::time::{Duration, Instant};

use fastrand::Rng;
use pgseal_client::tokio_postgres::types::{ToSql, Type as PgType};
use pgseal_client::tokio_postgres::{Client, Row, Statement};
use pgseal_client::{Argument, Prepared, Session, Value};

use crate::sessions::{connect, open, Database, HEADER};
use crate::{Form, Kind, Outcome, Run};

/// Rows that a range holds.
const RANGE: i32 = 100;

/// One load.
#[derive(Clone, Copy)]
pub struct Load<'a> {
    pub run: &'a Run,
    pub database: Database,
    pub form: Form,
    pub kind: Kind,
    /// Asked by k instead of id
    pub by_k: bool,
}

/// The work that a connection did.
#[derive(Clone, Copy, Default)]
pub struct Done {
    pub transactions: u64,
    pub rows: u64,
}

/// The statements of one table.
struct Table {
    point: Ready,
    range: Ready,
    update_k: Ready,
    update_c: Ready,
    delete: Ready,
    insert: Ready,
}

/// A prepared statement of either kind of connection.
enum Ready {
    Plain(Statement),
    Sealed(Prepared),
}

/// Both kinds of connections, alike for the load.
enum Peer {
    Plain(Client),
    Bytes(Client),
    Owner(Box<Session>),
}

/// A connection that is ready to begin.
pub struct Worker {
    peer: Peer,
    tables: Vec<Table>,
    /// Rows that it has deleted, and will insert again
    gone: Vec<(usize, i32)>,
    rng: Rng,
    share: Share,
}

/// The ids that a connection alone writes: every `of`th from `first` on.
#[derive(Clone, Copy)]
struct Share {
    first: u32,
    of: u32,
    rows: u32,
}

impl Worker {
    /// Connects and prepares.
    pub async fn new(load: Load<'_>, number: u32, seed: u64) -> Outcome<Self> {
        let options = &load.run.options;
        let client = connect(options, load.database.name(), load.form).await?;
        let peer = match load.database {
            Database::Plain => Peer::Plain(client),
            Database::Bytes => Peer::Bytes(client),
            _ => Peer::Owner(Box::new(open(client).await?)),
        };
        let mut tables = Vec::new();
        for table in 1..=options.tables {
            tables.push(peer.table(table, load).await?);
        }
        Ok(Self {
            peer,
            tables,
            gone: Vec::new(),
            rng: Rng::with_seed(seed ^ u64::from(number) << 32),
            share: Share {
                first: number,
                of: load.run.connections,
                rows: options.rows,
            },
        })
    }

    /// Runs transactions until the time is over.
    pub async fn work(&mut self, kind: Kind, time: Duration) -> Outcome<Done> {
        let (start, mut done) = (Instant::now(), Done::default());
        while start.elapsed() < time {
            let rows = match kind {
                Kind::Point => self.point().await?,
                Kind::Range => self.range().await?,
                Kind::Write => self.write().await?,
            };
            done.transactions += 1;
            done.rows += rows;
        }
        Ok(done)
    }

    /// Inserts again what was deleted.
    pub async fn restore(&mut self) -> Outcome<()> {
        while let Some((table, id)) = self.gone.pop() {
            self.insert(table, id).await?;
        }
        Ok(())
    }

    async fn point(&mut self) -> Outcome<u64> {
        let key = Value::Int4(self.rng.i32(1..=self.rows()));
        let table = self.table();
        let statement = &self.tables[table].point;
        self.peer.read(statement, &[&key]).await
    }

    async fn range(&mut self) -> Outcome<u64> {
        let first = self.rng.i32(1..=(self.rows() - RANGE).max(1));
        let (from, to) = (Value::Int4(first), Value::Int4(first + RANGE - 1));
        let table = self.table();
        let statement = &self.tables[table].range;
        self.peer.read(statement, &[&from, &to]).await
    }

    async fn write(&mut self) -> Outcome<u64> {
        let (table, id) = (self.table(), self.own_id());
        let key = Value::Int4(id);
        match self.rng.u8(..4) {
            0 => {
                let one = Value::Int4(1);
                let values = [&one, &key];
                // To a plain column the literal is added, as published.
                let values = match &self.peer {
                    Peer::Plain(_) => &values[1..],
                    _ => &values[..],
                };
                self.peer.write(&self.tables[table].update_k, values).await
            }
            1 => {
                let c = self.text(10);
                self.peer
                    .write(&self.tables[table].update_c, &[&c, &key])
                    .await
            }
            2 if !self.gone.is_empty() => {
                let last = self.rng.usize(..self.gone.len());
                let (table, id) = self.gone.swap_remove(last);
                self.insert(table, id).await
            }
            _ => {
                let gone = self.peer.write(&self.tables[table].delete, &[&key]).await?;
                if gone == 1 {
                    self.gone.push((table, id));
                }
                Ok(gone)
            }
        }
    }

    async fn insert(&mut self, table: usize, id: i32) -> Outcome<u64> {
        let k = Value::Int4(self.rng.i32(1..=self.rows()));
        let (id, c, pad) = (Value::Int4(id), self.text(10), self.text(5));
        self.peer
            .write(&self.tables[table].insert, &[&id, &k, &c, &pad])
            .await
    }

    fn table(&mut self) -> usize {
        self.rng.usize(..self.tables.len())
    }

    fn rows(&self) -> i32 {
        i32::try_from(self.share.rows).unwrap_or(i32::MAX)
    }

    fn own_id(&mut self) -> i32 {
        let Share { first, of, rows } = self.share;
        let id = 1 + first + of * self.rng.u32(..(rows / of).max(1));
        i32::try_from(id.min(rows)).unwrap_or(i32::MAX)
    }

    /// Returns groups of eleven digits, as the published load has them.
    fn text(&mut self, groups: u32) -> Value {
        let group = |_| format!("{:011}", self.rng.u64(..100_000_000_000));
        Value::Text((0..groups).map(group).collect::<Vec<_>>().join("-"))
    }
}

impl Peer {
    async fn table(&self, table: u32, load: Load<'_>) -> Outcome<Table> {
        let asked = if load.by_k { "k" } else { "id" };
        // Bytes are not calculated with.
        let (add, sum) = match self {
            Self::Plain(_) => (format!("UPDATE test{table} SET k=k+1 WHERE id=$1"), "SUM"),
            Self::Bytes(_) => (format!("UPDATE test{table} SET k=$1 WHERE id=$2"), "COUNT"),
            Self::Owner(_) => (format!("UPDATE test{table} SET k=k+$1 WHERE id=$2"), "SUM"),
        };
        let point = format!("SELECT c FROM test{table} WHERE {asked}=$1");
        let range = format!("SELECT {sum}(k) FROM test{table} WHERE {asked} BETWEEN $1 AND $2");
        let update_c = format!("UPDATE test{table} SET c=$1 WHERE id=$2");
        let delete = format!("DELETE FROM test{table} WHERE id=$1");
        let insert = format!("INSERT INTO test{table} (id, k, c, pad) VALUES ($1, $2, $3, $4)");
        Ok(Table {
            point: self.prepare(&point).await?,
            range: self.prepare(&range).await?,
            update_k: self.prepare(&add).await?,
            update_c: self.prepare(&update_c).await?,
            delete: self.prepare(&delete).await?,
            insert: self.prepare(&insert).await?,
        })
    }

    async fn prepare(&self, sql: &str) -> Outcome<Ready> {
        Ok(match self {
            Self::Plain(client) | Self::Bytes(client) => Ready::Plain(client.prepare(sql).await?),
            Self::Owner(session) => Ready::Sealed(session.prepare(sql).await?),
        })
    }

    /// Reads and opens all rows of the answer.
    async fn read(&self, statement: &Ready, values: &[&Value]) -> Outcome<u64> {
        match (self, statement) {
            (Self::Plain(client), Ready::Plain(statement)) => {
                read_plain(&client.query(statement, &plain(values)).await?)
            }
            (Self::Bytes(client), Ready::Plain(statement)) => {
                let bytes = bytes(values);
                read_plain(&client.query(statement, &of_bytes(&bytes)).await?)
            }
            (Self::Owner(session), Ready::Sealed(statement)) => {
                let rows = session
                    .query(statement, &arguments(statement, values))
                    .await?;
                for row in &rows {
                    row.value(0)?;
                }
                Ok(rows.len() as u64)
            }
            _ => unreachable!("a connection prepares its own statements"),
        }
    }

    async fn write(&self, statement: &Ready, values: &[&Value]) -> Outcome<u64> {
        Ok(match (self, statement) {
            (Self::Plain(client), Ready::Plain(statement)) => {
                client.execute(statement, &plain(values)).await?
            }
            (Self::Bytes(client), Ready::Plain(statement)) => {
                let bytes = bytes(values);
                client.execute(statement, &of_bytes(&bytes)).await?
            }
            (Self::Owner(session), Ready::Sealed(statement)) => {
                session
                    .execute(statement, &arguments(statement, values))
                    .await?
            }
            _ => unreachable!("a connection prepares its own statements"),
        })
    }
}

fn read_plain(rows: &[Row]) -> Outcome<u64> {
    for row in rows {
        match *row.columns()[0].type_() {
            PgType::INT8 => drop(row.try_get::<_, Option<i64>>(0)?),
            PgType::BYTEA => drop(row.try_get::<_, Option<Vec<u8>>>(0)?),
            _ => drop(row.try_get::<_, Option<String>>(0)?),
        }
    }
    Ok(rows.len() as u64)
}

/// Returns values as [`Database::Bytes`] has them.
fn bytes(values: &[&Value]) -> Vec<Vec<u8>> {
    let bytes = |value: &&Value| {
        let mut bytes = vec![0; HEADER];
        value.encode(&mut bytes);
        bytes
    };
    values.iter().map(bytes).collect()
}

fn of_bytes(values: &[Vec<u8>]) -> Vec<&(dyn ToSql + Sync)> {
    let mut all: Vec<&(dyn ToSql + Sync)> = Vec::new();
    for value in values {
        all.push(value);
    }
    all
}

fn plain<'a>(values: &[&'a Value]) -> Vec<&'a (dyn ToSql + Sync)> {
    let plain = |value: &&'a Value| -> &'a (dyn ToSql + Sync) {
        match value {
            Value::Int4(number) => number,
            Value::Text(text) => text,
            _ => unreachable!("the load has integers and texts"),
        }
    };
    values.iter().map(plain).collect()
}

/// Returns the arguments. Keys of scenario 1 are plain, as the server says, which is enough here:
/// the load has no secrets.
fn arguments<'a>(statement: &Prepared, values: &[&'a Value]) -> Vec<Argument<'a>> {
    let types = statement.statement().params().iter();
    types
        .zip(values)
        .map(|(ty, value)| match *ty {
            PgType::INT4 => Argument::Plain(value),
            _ => Argument::Sealed(value),
        })
        .collect()
}
