//! `pgseal client protect`: encrypts plain columns of a table that has rows. What is done is
//! `pgseal-client`'s; here are the identity file, the progress bar and the reports.

mod report;

use std::io::{self, IsTerminal};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pgseal_client::protect::{Plan, Wanted};
use pgseal_client::{
    other_connections, protection, table_orders, ClientError, ColumnName, IdentityFile, Keeper,
    KeyStore, ListedColumn, OwnersList, PlacedColumn, ProtectError, ProtectOptions, TableName,
};

use super::{ClientFailure, Purpose};
use crate::cli::client::ProtectArgs;
use crate::output;
use report::{Done, Outlook};

pub async fn run(args: &ProtectArgs) -> Result<(), ClientFailure> {
    let keyname = args.client.keyname(args.key.as_ref())?;
    let wanted = Wanted::parse(&args.table, &args.columns, &keyname).map_err(ClientError::from)?;
    match args.check {
        true => check(args, &wanted).await,
        false => protect(args, &wanted).await,
    }
}

/// Says what would be done. Needs the key, and no evaluator.
async fn check(args: &ProtectArgs, wanted: &Wanted) -> Result<(), ClientFailure> {
    let (file, database) = (args.client.file()?, args.client.database()?);
    let client = args.client.connect().await?;
    let list = file.kept.database(&database);
    match protection(&client, wanted, &list).await {
        Ok(plan) => {
            let store = KeyStore::fetch(&client, &file.identity).await?;
            store.keys.named(&wanted.keyname)?;
            let others = other_connections(&client).await?;
            Ok(output::report(
                &Outlook::new(&plan, others.len()),
                args.json,
            )?)
        }
        Err(ProtectError::Obstacles(obstacles)) => {
            output::report(&Outlook::blocked(wanted, &obstacles), args.json)?;
            Err(ProtectError::Obstacles(obstacles).into())
        }
        Err(error) => Err(error.into()),
    }
}

async fn protect(args: &ProtectArgs, wanted: &Wanted) -> Result<(), ClientFailure> {
    let started = Instant::now();
    let (mut file, database) = (args.client.file()?, args.client.database()?);
    let list = file.kept.database(&database);
    let client = args.client.connect().await?;
    // Obstacles are found before the evaluator gets keys.
    let Plan { schema, .. } = protection(&client, wanted, &list).await?;
    let table = TableName {
        schema: schema.clone(),
        table: wanted.table.clone(),
    };
    let orders = table_orders(&client, &[table]).await?;
    let wanted = &Wanted {
        schema: Some(schema),
        ..wanted.clone()
    };
    let others = (without(&list, wanted), Purpose::default());
    let options = &args.client;
    let session = options.session_on(client, &args.trust, args.key.as_ref(), others);
    let session = session.await?;
    let options = ProtectOptions {
        batch_rows: args.batch_rows,
        disconnects: args.disconnect,
    };
    let mut keeping = Keeping {
        file: &mut file,
        database: &database,
        new: Vec::new(),
        orders,
        bar: bar(),
    };
    let done = session.protect(wanted, (&list, options), &mut keeping);
    let done = done.await;
    keeping.bar.finish_and_clear();
    let done = done?;
    let report = Done::new(&done, started.elapsed());
    output::print_done(match args.json {
        true => output::json(&report),
        false => report.to_string(),
    })?;
    match done.late.is_empty() {
        true => Ok(()),
        false => Err(ProtectError::Late(done.late).into()),
    }
}

/// Returns the list without the columns: after an interrupted run the server has them plain, which
/// the list contradicts. They are sealed in this run, and never sent.
fn without(list: &OwnersList, wanted: &Wanted) -> OwnersList {
    let mut list = list.clone();
    for column in &wanted.columns {
        list.forget(&ColumnName {
            schema: wanted.schema.clone().unwrap_or_default(),
            table: wanted.table.clone(),
            column: column.clone(),
        });
    }
    list
}

/// The identity file and the progress bar of a run.
struct Keeping<'a> {
    file: &'a mut IdentityFile,
    database: &'a str,
    /// The columns that the list did not have before
    new: Vec<ColumnName>,
    /// All columns of the table, which keep their places
    orders: Vec<(TableName, Vec<PlacedColumn>)>,
    bar: ProgressBar,
}

impl Keeper for Keeping<'_> {
    type Error = ClientFailure;

    fn keep(&mut self, columns: &[(ColumnName, ListedColumn)]) -> Result<(), ClientFailure> {
        let (new, orders) = (&mut self.new, &self.orders);
        Ok(self.file.update(|kept| {
            let list = kept.database_mut(self.database);
            for (name, column) in columns {
                if list.column(name).is_none() {
                    new.push(name.clone());
                }
                // The plan has encrypted types only.
                let _ = list.add(name.clone(), column.clone());
            }
            for (table, columns) in orders {
                list.order(table.clone(), columns.clone());
            }
        })?)
    }

    fn forget(&mut self) -> Result<(), ClientFailure> {
        Ok(self.file.update(|kept| {
            let list = kept.database_mut(self.database);
            self.new.iter().for_each(|name| _ = list.forget(name));
        })?)
    }

    fn progress(&mut self, rows: u64, of: i64) {
        if let Ok(of) = u64::try_from(of) {
            self.bar.set_length(of.max(rows));
        }
        self.bar.set_position(rows);
    }
}

/// A bar on a terminal, and nothing elsewhere.
fn bar() -> ProgressBar {
    let bar = ProgressBar::no_length();
    if !io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos} of about {len} rows, {eta}");
    bar.with_style(style.expect("the template is one"))
}
