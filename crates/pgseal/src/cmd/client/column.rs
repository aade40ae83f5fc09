//! `pgseal client column add|list|forget`: which columns of a database an identity keeps as
//! encrypted. A server that says otherwise later gets no keys.

use pgseal_client::{
    encrypted_columns, encrypted_objects, shown_columns, table_orders, ClientError, ListError,
    ListedColumn, ListedObject,
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
    let orders = table_orders(&client, &list.tables()).await?;
    let mut objects = match args.all {
        true => encrypted_objects(&client).await?,
        false => Vec::new(),
    };
    objects.retain(|object| list.add_object(object.clone()));
    let rows = added.iter().map(|(_, _, row)| row.clone());
    let rows: Vec<Vec<String>> = rows.chain(objects.iter().map(row_of)).collect();
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
        for object in objects {
            list.add_object(object);
        }
    })?;
    Ok(output::print_done(table(&HEAD, &rows))?)
}

const HEAD: [&str; 3] = ["column", "type", "key"];

/// Returns the row of something that is no column of one type, and has no key of its own.
fn row_of(object: &ListedObject) -> Vec<String> {
    vec![object.to_string(), "-".to_owned(), "-".to_owned()]
}

pub fn list(args: &ColumnListArgs) -> Result<(), ClientFailure> {
    let kept = args.client.file()?.kept;
    let list = kept.database(&args.client.database()?);
    let row = |(name, column): (_, &ListedColumn)| {
        vec![format!("{name}"), column.ty.clone(), column.keyname.clone()]
    };
    let objects = list.objects().map(row_of);
    let rows: Vec<Vec<String>> = list.columns().map(row).chain(objects).collect();
    Ok(output::print(table(&HEAD, &rows))?)
}

pub fn forget(args: &ColumnForgetArgs) -> Result<(), ClientFailure> {
    let (mut file, database) = (args.client.file()?, args.client.database()?);
    let mut list = file.kept.database(&database);
    let what = "a column that this identity keeps: see pgseal client column list";
    if let Some(unknown) = args.objects.iter().find(|it| !list.forget_object(it)) {
        return Err(ClientFailure::Not(unknown.clone(), what));
    }
    if let Some(unknown) = args.names.iter().find(|name| list.column(name).is_none()) {
        return Err(ClientFailure::Not(unknown.to_string(), what));
    }
    Ok(file.update(|kept| {
        let list = kept.database_mut(&database);
        args.names.iter().for_each(|name| _ = list.forget(name));
        let objects = args.objects.iter();
        objects.for_each(|object| _ = list.forget_object(object));
    })?)
}
