//! Makes the databases: the plain one is filled by the server, the encrypted ones are copies of it
//! that the server converts in a session of the owner.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pgseal_client::grants::Wanted;
use pgseal_client::NewKey;

use crate::sessions::{connect, open, Database, HEADER, KEY};
use crate::{Form, Options, Outcome};

/// The published default of k.
const K: &str = "\\xa509008855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbee4";
/// The published default of c and pad.
const EMPTY: &str = "\\x9d39006e340b9cffb37a989ca544e69e6e9c0bdb0b6500a91dcc433dc5df0496";

const YEAR: u64 = 365 * 24 * 3600;

pub async fn all(options: &Options) -> Outcome<()> {
    let main = connect(options, "postgres", Form::Inline).await?;
    let copies = [
        (Database::Plain, "template1"),
        (Database::Bytes, Database::Plain.name()),
        (Database::Columns, Database::Plain.name()),
        (Database::Whole, Database::Plain.name()),
        (Database::ColumnsPaged, Database::Columns.name()),
        (Database::WholePaged, Database::Whole.name()),
    ];
    for (database, template) in copies {
        let start = Instant::now();
        let name = database.name();
        main.batch_execute(&format!("DROP DATABASE IF EXISTS {name}"))
            .await?;
        main.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {template}"))
            .await?;
        match database {
            Database::Plain => fill(options).await?,
            Database::Bytes => lengthen(options).await?,
            Database::Columns | Database::Whole => {
                convert(options, database).await?;
                let off = format!("ALTER DATABASE {name} SET encdb.page_requests = off");
                main.batch_execute(&off).await?;
            }
            Database::ColumnsPaged | Database::WholePaged => {}
        }
        eprintln!("{name}: {:.1} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

async fn fill(options: &Options) -> Outcome<()> {
    let client = connect(options, Database::Plain.name(), Form::Inline).await?;
    let rows = options.rows;
    let digits = |groups: u32| {
        let group = "lpad((random() * 99999999999)::bigint::text, 11, '0')";
        vec![group; groups as usize].join(" || '-' || ")
    };
    for table in 1..=options.tables {
        let (c, pad) = (digits(10), digits(5));
        let create = format!(
            "CREATE TABLE test{table}(id INTEGER NOT NULL, k INTEGER DEFAULT '0' NOT NULL,
                 c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL,
                 PRIMARY KEY (id));
             INSERT INTO test{table}
                 SELECT id, 1 + (random() * ({rows} - 1))::integer, {c}, {pad}
                 FROM generate_series(1, {rows}) AS id;
             CREATE INDEX k_{table} ON test{table}(k)"
        );
        client.batch_execute(&create).await?;
        let vacuum = format!("VACUUM ANALYZE test{table}");
        client.batch_execute(&vacuum).await?;
    }
    Ok(())
}

/// Values as bytes, behind as many as cells have beside their value.
async fn lengthen(options: &Options) -> Outcome<()> {
    let client = connect(options, Database::Bytes.name(), Form::Inline).await?;
    let lengthened = |bytes: &str| format!("decode(repeat('00', {HEADER}), 'hex') || {bytes}");
    let number = |column| lengthened(&format!("int4send({column})"));
    let text = |column| lengthened(&format!("convert_to({column}::text, 'UTF8')"));
    for table in 1..=options.tables {
        let sql = format!(
            "ALTER TABLE test{table}
                 ALTER k DROP DEFAULT, ALTER c DROP DEFAULT, ALTER pad DROP DEFAULT,
                 ALTER id TYPE bytea USING {}, ALTER k TYPE bytea USING {},
                 ALTER c TYPE bytea USING {}, ALTER pad TYPE bytea USING {}",
            number("id"),
            number("k"),
            text("c"),
            text("pad")
        );
        client.batch_execute(&sql).await?;
        client
            .batch_execute(&format!("VACUUM ANALYZE test{table}"))
            .await?;
    }
    Ok(())
}

async fn convert(options: &Options, database: Database) -> Outcome<()> {
    let client = connect(options, database.name(), Form::Inline).await?;
    client.batch_execute("CREATE EXTENSION encdb").await?;
    let mut session = open(client).await?;
    let key = NewKey {
        name: KEY,
        group: 0,
        deterministic: false,
    };
    session.new_key(key).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    session
        .grant(Wanted::all_for_owner(now, now + YEAR))
        .await?;
    for table in 1..=options.tables {
        let id = match database {
            Database::Whole => ", ALTER id TYPE enc_int4 USING encdb.enc_int4_encrypt(id, 'bench')",
            _ => "",
        };
        let convert = format!(
            "ALTER TABLE test{table} ALTER k DROP DEFAULT, ALTER c DROP DEFAULT, ALTER pad DROP DEFAULT;
             ALTER TABLE test{table}
                 ALTER k TYPE enc_int4 USING encdb.enc_int4_encrypt(k, 'bench'),
                 ALTER c TYPE enc_text USING encdb.enc_text_encrypt(c::text, 'bench'),
                 ALTER pad TYPE enc_text USING encdb.enc_text_encrypt(pad::text, 'bench'){id};
             ALTER TABLE test{table} ALTER k SET DEFAULT '{K}',
                 ALTER c SET DEFAULT '{EMPTY}', ALTER pad SET DEFAULT '{EMPTY}';"
        );
        session.client().batch_execute(&convert).await?;
        session
            .client()
            .batch_execute(&format!("VACUUM ANALYZE test{table}"))
            .await?;
    }
    Ok(())
}
