//! `pgseal client key list|new`: an owner's data keys. No evaluator is needed: they are unwrapped
//! and made here.

use pgseal_client::{KeyInfo, KeyStore, NewKey};

use super::print::{fields, refused_keys, table};
use super::ClientFailure;
use crate::cli::client::{KeyListArgs, KeyNewArgs};
use crate::output;

pub async fn list(args: &KeyListArgs) -> Result<(), ClientFailure> {
    let identity = args.client.identity()?;
    let store = KeyStore::fetch(&args.client.connect().await?, &identity).await?;
    let row = |key: &KeyInfo| {
        let mode = match (key.seals, key.deterministic) {
            (false, _) => "version 0",
            (true, true) => "deterministic",
            (true, false) => "randomised",
        };
        vec![
            key.name.clone(),
            key.id.to_string(),
            key.group.to_string(),
            mode.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = store.keys.all().map(row).collect();
    output::print(table(&["keyname", "id", "group", "mode"], &rows))?;
    refused_keys(&store.keys);
    Ok(())
}

pub async fn new(args: &KeyNewArgs) -> Result<(), ClientFailure> {
    let identity = args.client.identity()?;
    let client = args.client.connect().await?;
    let mut store = KeyStore::fetch(&client, &identity).await?;
    let name = args.client.keyname(args.name.as_ref())?;
    let key = NewKey {
        name: &name,
        group: args.group,
        deterministic: args.deterministic,
    };
    store.add(&client, &identity, key).await?;
    let id = store.keys.named(&name)?.id.to_string();
    Ok(output::print_done(fields(&[
        ("keyname", name),
        ("id", id),
    ]))?)
}
