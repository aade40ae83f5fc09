//! The databases of the load. A plain cluster has one; an encrypted one has a database for scenario
//! 1 and a database for scenarios 2 and 3.
//!
//! All of them have the same rows: the plain table is copied out, and copied into the others
//! through the proxy, which encrypts them. No grant of conversion is needed.

use std::path::{Path, PathBuf};

use crate::error::{files, BenchError};
use crate::host::cluster::{Cluster, Server, Settings};
use crate::host::Host;
use crate::recipes::companions::{self, Proxy};
use crate::recipes::confidential::EncryptedColumns;

/// The database of a plain cluster.
const PLAIN: &str = "plain";
/// Only the primary key is plain.
const COLUMNS: &str = "columns";
/// All columns are encrypted.
const WHOLE: &str = "whole";

/// The published defaults of the encrypted columns, which no statement of the load uses.
const K: &str = r"\xa509008855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbee4";
const EMPTY: &str = r"\x9d39006e340b9cffb37a989ca544e69e6e9c0bdb0b6500a91dcc433dc5df0496";

/// Filled clusters, and the owner of the encrypted one.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    /// A cluster with [`PLAIN`].
    pub(super) plain: Cluster,
    /// A cluster with [`COLUMNS`] and [`WHOLE`].
    pub(super) encrypted: Cluster,
    /// The owner's identity file.
    pub(super) identity: PathBuf,
}

/// Returns the database of a scenario.
pub(super) fn database(scenario: u32, encrypted: bool) -> &'static str {
    match (encrypted, scenario) {
        (false, _) => PLAIN,
        (true, 1) => COLUMNS,
        (true, _) => WHOLE,
    }
}

/// Returns the settings of every cluster.
pub(super) fn settings(recipe: &EncryptedColumns) -> Settings {
    let buffers = recipe.buffers_mb();
    let connections = recipe.most_threads() + 20;
    Settings {
        checksums: true,
        conf: format!("shared_buffers = {buffers}MB\nmax_connections = {connections}\n"),
    }
}

/// Fills both clusters.
pub(super) fn load(recipe: &EncryptedColumns, host: &Host) -> Result<Loaded, BenchError> {
    // What is missing is said before minutes are spent.
    host.run(host.command(&recipe.sysbench).arg("--version"))?;
    let home = host.work.join("loaded");
    let (stock, settings) = (host.stock(), settings(recipe));
    host.note("filling the plain cluster");
    let plain = Cluster::init(stock, &home.join(PLAIN), &settings, host)?;
    let mut server = plain.start(stock, host)?;
    fill_plain(recipe, &mut server, &home)?;
    server.stop()?;

    host.note("filling the encrypted cluster, through the proxy");
    let encrypted = Cluster::init(stock, &home.join("encrypted"), &settings, host)?;
    encrypted.configure("encdb.evaluator = inline\n")?;
    let identity = home.join("owner");
    let mut server = encrypted.start(stock, host)?;
    companions::requires_extension(&mut server)?;
    let mut init = host.command(&host.tools.pgseal);
    host.run(init.args(["client", "init"]).arg(&identity))?;
    for database in [COLUMNS, WHOLE] {
        make_encrypted(recipe, database, &mut server, &identity, host)?;
        fill_encrypted(recipe, database, &mut server, (&identity, &home), host)?;
    }
    server.stop()?;
    remove_files(recipe, &home)?;
    Ok(Loaded {
        plain,
        encrypted,
        identity,
    })
}

fn fill_plain(
    recipe: &EncryptedColumns,
    server: &mut Server<'_>,
    home: &Path,
) -> Result<(), BenchError> {
    server.sql(&[&format!("CREATE DATABASE {PLAIN}")])?;
    let digits = |groups: usize| {
        let group = "lpad((random() * 99999999999)::bigint::text, 11, '0')";
        vec![group; groups].join(" || '-' || ")
    };
    let (rows, c, pad) = (recipe.rows, digits(10), digits(5));
    let plain = ["integer", "integer", "0", "char(120)", ""];
    for table in 1..=recipe.tables {
        let fill = format!(
            "INSERT INTO test{table} SELECT id, 1 + (random() * ({rows} - 1))::integer, {c}, {pad} \
             FROM generate_series(1, {rows}) AS id"
        );
        let copy = format!("COPY test{table} TO '{}'", file(home, table).display());
        let statements = [create(table, plain, "char(60)"), fill, index(table), copy];
        run(server, PLAIN, &statements)?;
    }
    run(server, PLAIN, &["VACUUM ANALYZE".to_owned()])
}

fn make_encrypted(
    recipe: &EncryptedColumns,
    database: &str,
    server: &mut Server<'_>,
    identity: &Path,
    host: &Host,
) -> Result<(), BenchError> {
    server.sql(&[&format!("CREATE DATABASE {database}")])?;
    let id = match database {
        WHOLE => "enc_int4",
        _ => "integer",
    };
    let types = [id, "enc_int4", K, "enc_text", EMPTY];
    let tables = (1..=recipe.tables).map(|table| create(table, types, "enc_text"));
    let extension = "CREATE EXTENSION encdb".to_owned();
    let statements: Vec<_> = std::iter::once(extension).chain(tables).collect();
    run(server, database, &statements)?;
    companions::give_keys(database, server, identity, host)
}

fn fill_encrypted(
    recipe: &EncryptedColumns,
    database: &str,
    server: &mut Server<'_>,
    (identity, home): (&Path, &Path),
    host: &Host,
) -> Result<(), BenchError> {
    let proxy = Proxy::start(&server.port(), identity, host)?;
    let mut psql = host.client("psql");
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database]);
    for table in 1..=recipe.tables {
        let from = file(home, table);
        psql.arg("-c").arg(format!(
            "\\copy test{table} (id, k, c, pad) FROM '{}'",
            from.display()
        ));
        psql.arg("-c").arg(index(table));
    }
    psql.args(["-c", "VACUUM ANALYZE"]);
    host.run(psql.env("PGPORT", &proxy.port))?;
    Ok(())
}

/// `types` are those of id and k, the default of k, the type of c, and the default of c and pad.
fn create(table: u32, types: [&str; 5], pad: &str) -> String {
    let [id, k, zero, c, empty] = types;
    format!(
        "CREATE TABLE test{table} (id {id} NOT NULL, k {k} DEFAULT '{zero}' NOT NULL, \
         c {c} DEFAULT '{empty}' NOT NULL, pad {pad} DEFAULT '{empty}' NOT NULL, PRIMARY KEY (id))"
    )
}

fn index(table: u32) -> String {
    format!("CREATE INDEX k_{table} ON test{table} (k)")
}

fn run(server: &mut Server<'_>, database: &str, statements: &[String]) -> Result<(), BenchError> {
    let connect = format!("\\connect {database}");
    let mut all = vec![connect.as_str()];
    all.extend(statements.iter().map(String::as_str));
    server.sql(&all).map(|_| ())
}

fn file(home: &Path, table: u32) -> PathBuf {
    home.join(format!("test{table}"))
}

fn remove_files(recipe: &EncryptedColumns, home: &Path) -> Result<(), BenchError> {
    for table in 1..=recipe.tables {
        let path = file(home, table);
        std::fs::remove_file(&path).map_err(files(path))?;
    }
    Ok(())
}
