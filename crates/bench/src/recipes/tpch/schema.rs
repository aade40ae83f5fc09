//! The eight tables, plain and encrypted, and how they are filled: both from the same files, the
//! encrypted ones through the proxy.

use std::path::{Path, PathBuf};

use crate::error::{files, BenchError};
use crate::host::cluster::{Cluster, Server, Settings};
use crate::host::Host;
use crate::recipes::companions::{self, Proxy};
use crate::recipes::tpch::{data, TpcH};

/// The database of both clusters.
pub(super) const DATABASE: &str = "tpch";

/// Every run has the same rows.
const DATA_SEED: u64 = 1;

/// A table: its columns with their plain types, its primary key, and the foreign keys that get an
/// index.
struct Table {
    name: &'static str,
    columns: &'static str,
    key: &'static str,
    indexes: &'static [&'static str],
}

const TABLES: [Table; 8] = [
    Table {
        name: "region",
        columns: "r_regionkey bigint, r_name char(25), r_comment varchar(152)",
        key: "r_regionkey",
        indexes: &[],
    },
    Table {
        name: "nation",
        columns: "n_nationkey bigint, n_name char(25), n_regionkey bigint, n_comment varchar(152)",
        key: "n_nationkey",
        indexes: &["n_regionkey"],
    },
    Table {
        name: "supplier",
        columns: "s_suppkey bigint, s_name char(25), s_address varchar(40), s_nationkey bigint, \
                  s_phone char(15), s_acctbal numeric(15,2), s_comment varchar(101)",
        key: "s_suppkey",
        indexes: &["s_nationkey"],
    },
    Table {
        name: "part",
        columns: "p_partkey bigint, p_name varchar(55), p_mfgr char(25), p_brand char(10), \
                  p_type varchar(25), p_size integer, p_container char(10), \
                  p_retailprice numeric(15,2), p_comment varchar(23)",
        key: "p_partkey",
        indexes: &[],
    },
    Table {
        name: "partsupp",
        columns: "ps_partkey bigint, ps_suppkey bigint, ps_availqty integer, \
                  ps_supplycost numeric(15,2), ps_comment varchar(199)",
        key: "ps_partkey, ps_suppkey",
        indexes: &["ps_suppkey"],
    },
    Table {
        name: "customer",
        columns: "c_custkey bigint, c_name varchar(25), c_address varchar(40), \
                  c_nationkey bigint, c_phone char(15), c_acctbal numeric(15,2), \
                  c_mktsegment char(10), c_comment varchar(117)",
        key: "c_custkey",
        indexes: &["c_nationkey"],
    },
    Table {
        name: "orders",
        columns: "o_orderkey bigint, o_custkey bigint, o_orderstatus char(1), \
                  o_totalprice numeric(15,2), o_orderdate date, o_orderpriority char(15), \
                  o_clerk char(15), o_shippriority integer, o_comment varchar(79)",
        key: "o_orderkey",
        indexes: &["o_custkey"],
    },
    Table {
        name: "lineitem",
        columns: "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber integer, \
                  l_quantity numeric(15,2), l_extendedprice numeric(15,2), \
                  l_discount numeric(15,2), l_tax numeric(15,2), l_returnflag char(1), \
                  l_linestatus char(1), l_shipdate date, l_commitdate date, l_receiptdate date, \
                  l_shipinstruct char(25), l_shipmode char(10), l_comment varchar(44)",
        key: "l_orderkey, l_linenumber",
        indexes: &["l_partkey, l_suppkey", "l_suppkey"],
    },
];

/// The columns that are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encrypted {
    None,
    /// All but keys.
    Values,
    All,
}

/// Filled clusters, and the owner of the encrypted one.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    pub(super) plain: Cluster,
    pub(super) encrypted: Cluster,
    /// The owner's identity file.
    pub(super) identity: PathBuf,
}

/// Returns the settings of every cluster.
pub(super) fn settings(recipe: &TpcH) -> Settings {
    Settings {
        checksums: true,
        conf: format!("shared_buffers = {}MB\n", recipe.buffers_mb()),
    }
}

/// Fills both clusters.
pub(super) fn load(recipe: &TpcH, host: &Host) -> Result<Loaded, BenchError> {
    let home = host.work.join("loaded");
    let rows = home.join("rows");
    std::fs::create_dir_all(&rows).map_err(files(&rows))?;
    let (stock, settings) = (host.stock(), settings(recipe));
    host.note("filling the encrypted cluster, through the proxy");
    let encrypted = Cluster::init(stock, &home.join("encrypted"), &settings, host)?;
    encrypted.configure("encdb.evaluator = inline\n")?;
    let identity = home.join("owner");
    let mut server = encrypted.start(stock, host)?;
    companions::requires_extension(&mut server)?;
    data::write(recipe.size(), DATA_SEED, &rows)?;
    let mut init = host.command(&host.tools.pgseal);
    host.run(init.args(["client", "init"]).arg(&identity))?;
    let columns = match recipe.keys {
        true => Encrypted::All,
        false => Encrypted::Values,
    };
    create(columns, &mut server)?;
    companions::give_keys(DATABASE, &mut server, &identity, host)?;
    let proxy = Proxy::start(&server.port(), &identity, host)?;
    fill(&proxy.port, &rows, host)?;
    count_distinct(&proxy.port, host)?;
    drop(proxy);
    server.stop()?;

    host.note("filling the plain cluster");
    let plain = Cluster::init(stock, &home.join("plain"), &settings, host)?;
    let mut server = plain.start(stock, host)?;
    create(Encrypted::None, &mut server)?;
    fill(&server.port(), &rows, host)?;
    server.stop()?;
    std::fs::remove_dir_all(&rows).map_err(files(rows))?;
    Ok(Loaded {
        plain,
        encrypted,
        identity,
    })
}

fn create(encrypted: Encrypted, server: &mut Server<'_>) -> Result<(), BenchError> {
    let connect = format!("\\connect {DATABASE}");
    let mut statements = vec![format!("CREATE DATABASE {DATABASE}"), connect];
    if encrypted != Encrypted::None {
        statements.push("CREATE EXTENSION encdb".to_owned());
    }
    statements.extend(TABLES.iter().map(|table| table.create(encrypted)));
    let statements: Vec<_> = statements.iter().map(String::as_str).collect();
    server.sql(&statements).map(|_| ())
}

/// Copies the files in, and then makes keys and indexes.
fn fill(port: &str, rows: &Path, host: &Host) -> Result<(), BenchError> {
    let mut psql = host.client("psql");
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", DATABASE]);
    for table in &TABLES {
        let (name, from) = (table.name, rows.join(format!("{}.csv", table.name)));
        let columns: Vec<_> = table.columns().map(|(column, _)| column).collect();
        psql.arg("-c").arg(format!(
            "\\copy {name} ({}) FROM '{}' (FORMAT csv)",
            columns.join(", "),
            from.display()
        ));
    }
    for table in &TABLES {
        let (name, key) = (table.name, table.key);
        psql.arg("-c")
            .arg(format!("ALTER TABLE {name} ADD PRIMARY KEY ({key})"));
        for columns in table.indexes {
            psql.arg("-c")
                .arg(format!("CREATE INDEX ON {name} ({columns})"));
        }
    }
    psql.args(["-c", "VACUUM ANALYZE"]);
    host.run(psql.env("PGPORT", port)).map(|_| ())
}

/// Has the owner's session count distinct values, which ANALYZE does in plain columns.
fn count_distinct(port: &str, host: &Host) -> Result<(), BenchError> {
    let mut psql = host.client("psql");
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", DATABASE]);
    for table in &TABLES {
        psql.arg("-c")
            .arg(format!("SELECT encdb.estimate_distinct('{}')", table.name));
    }
    host.run(psql.env("PGPORT", port)).map(|_| ())
}

impl Table {
    /// The columns, each with its plain type.
    fn columns(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let columns = self.columns.split(", ");
        columns.filter_map(|column| column.trim().split_once(' '))
    }

    fn create(&self, encrypted: Encrypted) -> String {
        let columns = self.columns().map(|(column, plain)| {
            let is_key = column.ends_with("key") || column == "l_linenumber";
            let stored = match encrypted {
                Encrypted::All => encrypted_type(plain),
                Encrypted::Values if !is_key => encrypted_type(plain),
                _ => plain,
            };
            format!("{column} {stored} NOT NULL")
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        format!("CREATE TABLE {} ({columns})", self.name)
    }
}

fn encrypted_type(plain: &str) -> &'static str {
    match plain {
        "bigint" => "enc_int8",
        "integer" => "enc_int4",
        "date" => "enc_date",
        _ if plain.starts_with("numeric") => "enc_decimal",
        _ => "enc_text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_encrypted_only_where_all_is() {
        let partsupp = &TABLES[4];
        let of = |encrypted| partsupp.create(encrypted);
        assert!(of(Encrypted::None).contains("ps_supplycost numeric(15,2) NOT NULL"));
        let values = of(Encrypted::Values);
        assert!(
            values.contains("(ps_partkey bigint NOT NULL")
                && values.contains("ps_availqty enc_int4")
        );
        assert!(of(Encrypted::All).contains("ps_suppkey enc_int8"));
    }

    #[test]
    fn there_are_61_columns() {
        let columns = TABLES.iter().map(|table| table.columns().count());
        assert_eq!(columns.sum::<usize>(), 61);
    }
}
