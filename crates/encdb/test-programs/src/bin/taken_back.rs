//! A test of a data key that is made in a transaction which is rolled back: what a session says of
//! it before and after. The environment names the server, as for psql.
//!
//! The program prints a line for each step: `sealed`, or why not.

use std::error::Error;
use std::sync::Arc;

use pgseal_client::{
    Argument, ConnectOptions, Identity, NewKey, Policy, Resolver, Session, SessionOptions, Value,
};

const NAME: &str = "taken back";

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run())
}

async fn run() -> Outcome {
    let client = ConnectOptions::default().target()?.connect().await?;
    let mut options = SessionOptions::new(Resolver::new(NAME));
    options.trusts_server_types = true;
    let (identity, policy) = (Identity::for_tests(7), Policy::software());
    let mut session = Session::open(client, Arc::new(identity), Arc::new(policy), options).await?;
    for end in ["ROLLBACK TO made; COMMIT", "ROLLBACK", "COMMIT"] {
        session
            .client()
            .batch_execute("BEGIN; SAVEPOINT made")
            .await?;
        let key = NewKey {
            name: NAME,
            group: 0,
            deterministic: false,
        };
        session.new_key(key).await?;
        println!("in the transaction: {}", insert(&session).await);
        session.client().batch_execute(end).await?;
        println!("after {end}: {}", insert(&session).await);
        session.fetch_keys().await?;
        println!("again: {}", insert(&session).await);
    }
    Ok(())
}

/// Inserts a row whose cell is sealed under the key. Returns `sealed` or the error.
async fn insert(session: &Session) -> String {
    let inserted = async {
        let insert = session.prepare("INSERT INTO t VALUES ($1)").await?;
        session
            .execute(&insert, &[Argument::Sealed(&Value::Int4(1))])
            .await
    };
    match inserted.await {
        Ok(_) => "sealed".to_owned(),
        Err(error) => error.to_string(),
    }
}
