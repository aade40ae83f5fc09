//! `pgseal client column add|list|forget`: which columns of a database an identity keeps as
//! encrypted. A server that says otherwise later gets no keys.

use pgseal_client::{
    encrypted_columns, shown_columns, table_orders, ClientError, ListError, ListedColumn,
};

use super::print::table;
use super::{warn, ClientFailure};
use crate::cli::client::{ColumnAddArgs, ColumnForgetArgs, ColumnListArgs};
use crate::output;

pub async fn add(args: &ColumnAddArgs) -> Result<(), ClientFailure> {
    let (mut file, database) = (args.client.file()?, args.client.database()?);
    let client = args.client.connect().await?;
    let shown = match args.all {
        true => encrypted_columns(&client).await?,
        false => shown_columns(&client, &args.names).await?,
    };
    let keyname = args.client.keyname(args.key.as_ref())?;
    let mut list = file.kept.database(&database);
    let mut added = Vec::new();
    for shown in shown {
        if args.all && list.column(&shown.name).is_some() {
            continue;
        }
        let ty = shown
            .ty
            .ok_or_else(|| ListError::Vanished(shown.name.to_string()));
        let column = ListedColumn {
            ty: ty.map_err(ClientError::from)?,
            keyname: keyname.clone(),
        };
        let row = vec![shown.name.to_string(), column.ty.clone(), keyname.clone()];
        list.add(shown.name.clone(), column.clone())
            .map_err(ClientError::from)?;
        added.push((shown.name, column, row));
    }
    if list.columns().next().is_none() {
        warn("the server shows no encrypted column, and the list says so: run this again after you make one");
    }
    let rows: Vec<Vec<String>> = added.iter().map(|(_, _, row)| row.clone()).collect();
    let orders = table_orders(&client, &list.tables()).await?;
    file.update(|kept| {
        let list = kept.database_mut(&database);
        for (name, column, _) in added {
            // It is encrypted: this was seen above.
            let _ = list.add(name, column);
        }
        for (table, columns) in orders {
            list.order(table, columns);
        }
        list.make();
    })?;
    Ok(output::print_done(table(&HEAD, &rows))?)
}

const HEAD: [&str; 3] = ["column", "type", "key"];

pub fn list(args: &ColumnListArgs) -> Result<(), ClientFailure> {
    let kept = args.client.file()?.kept;
    let list = kept.database(&args.client.database()?);
    let row = |(name, column): (_, &ListedColumn)| {
        vec![format!("{name}"), column.ty.clone(), column.keyname.clone()]
    };
    let rows: Vec<Vec<String>> = list.columns().map(row).collect();
    Ok(output::print(table(&HEAD, &rows))?)
}

pub fn forget(args: &ColumnForgetArgs) -> Result<(), ClientFailure> {
    let (mut file, database) = (args.client.file()?, args.client.database()?);
    let list = file.kept.database(&database);
    if let Some(unknown) = args.names.iter().find(|name| list.column(name).is_none()) {
        let what = "a column that this identity keeps: see pgseal client column list";
        return Err(ClientFailure::Not(unknown.to_string(), what));
    }
    Ok(file.update(|kept| {
        let list = kept.database_mut(&database);
        args.names.iter().for_each(|name| _ = list.forget(name));
    })?)
}
