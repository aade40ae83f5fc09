//! `pgseal client protect`: encrypts plain columns of a table that has rows. What is done is
//! `pgseal-client`'s; here are the identity file, the progress bar and the reports.

mod report;

use std::io::{self, IsTerminal};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pgseal_client::protect::{Plan, Wanted};
use pgseal_client::{
    online_protection, other_connections, protection, table_orders, take_back, ClientError,
    ColumnName, IdentityFile, Keeper, KeyStore, ListedColumn, OnlineState, OwnersList,
    PlacedColumn, ProtectError, ProtectOptions, Step, TableName,
};

use super::{ClientFailure, Purpose};
use crate::cli::client::ProtectArgs;
use crate::output;
use report::{Done, Outlook};

/// The beginning of the names that new columns have until the exchange.
const INTERIM: &str = "pgseal_protect_c";

pub async fn run(args: &ProtectArgs) -> Result<(), ClientFailure> {
    let keyname = args.client.keyname(args.key.as_ref())?;
    let wanted = Wanted::parse(&args.table, &args.columns, &keyname).map_err(ClientError::from)?;
    let wanted = Wanted {
        drops_limits: args.drop_limits,
        ..wanted
    };
    match (args.check, args.abort) {
        (true, _) => check(args, &wanted).await,
        (false, true) => abort(args, &wanted).await,
        (false, false) => protect(args, &wanted).await,
    }
}

/// Says what would be done. Needs the key, and no evaluator.
async fn check(args: &ProtectArgs, wanted: &Wanted) -> Result<(), ClientFailure> {
    let (file, database) = (args.client.file()?, args.client.database()?);
    let client = args.client.connect().await?;
    let list = file.kept.database(&database);
    let outlook = match args.online {
        true => online_protection(&client, wanted, &list).await.map(online),
        false => protection(&client, wanted, &list).await.map(at_once),
    };
    match outlook {
        Ok(outlook) => {
            let store = KeyStore::fetch(&client, &file.identity).await?;
            store.keys.named(&wanted.keyname)?;
            let others = other_connections(&client).await?;
            Ok(output::report(&outlook.others(others.len()), args.json)?)
        }
        Err(ProtectError::Obstacles(obstacles)) => {
            output::report(&Outlook::blocked(wanted, &obstacles), args.json)?;
            Err(ProtectError::Obstacles(obstacles).into())
        }
        Err(error) => Err(error.into()),
    }
}

fn at_once(plan: Plan) -> Outlook {
    Outlook::new(&plan)
}

fn online(state: OnlineState) -> Outlook {
    Outlook::new(&state.plan.plan).online(&state)
}

/// Takes an unfinished online run back. A killed run may have listed the columns already: the list
/// forgets them last, so that a crash in between leaves clients that send nothing.
async fn abort(args: &ProtectArgs, wanted: &Wanted) -> Result<(), ClientFailure> {
    let (mut file, database) = (args.client.file()?, args.client.database()?);
    let client = args.client.connect().await?;
    let taken = take_back(&client, wanted).await?;
    let list = file.kept.database(&database);
    if taken.plain.iter().any(|name| list.column(name).is_some()) {
        file.update(|kept| {
            let list = kept.database_mut(&database);
            taken.plain.iter().for_each(|name| _ = list.forget(name));
        })?;
    }
    let said = match taken.was_begun {
        true => "took the online run back: the columns are plain as before",
        false => "there is no unfinished online run of these columns",
    };
    Ok(output::print_done(format!("protect: {said}\n"))?)
}

async fn protect(args: &ProtectArgs, wanted: &Wanted) -> Result<(), ClientFailure> {
    let started = Instant::now();
    let (mut file, database) = (args.client.file()?, args.client.database()?);
    let list = file.kept.database(&database);
    let client = args.client.connect().await?;
    // Obstacles are found before the evaluator gets keys.
    let Plan { schema, .. } = match args.online {
        true => online_protection(&client, wanted, &list).await?.plan.plan,
        false => protection(&client, wanted, &list).await?,
    };
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
        is_online: args.online,
        bar: bar(),
    };
    let choices = (&list, options);
    let done = match args.online {
        true => session.protect_online(wanted, choices, &mut keeping).await,
        false => session.protect(wanted, choices, &mut keeping).await,
    };
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
    /// All columns of the table
    orders: Vec<(TableName, Vec<PlacedColumn>)>,
    /// Whether the columns move behind the others
    is_online: bool,
    bar: ProgressBar,
}

impl Keeper for Keeping<'_> {
    type Error = ClientFailure;

    fn keep(&mut self, columns: &[(ColumnName, ListedColumn)]) -> Result<(), ClientFailure> {
        let (new, orders, is_online) = (&mut self.new, &self.orders, self.is_online);
        Ok(self.file.update(|kept| {
            let list = kept.database_mut(self.database);
            for (name, column) in columns {
                if list.column(name).is_none() {
                    new.push(name.clone());
                }
                // The plan has encrypted types only.
                let _ = list.add(name.clone(), column.clone());
            }
            for (table, order) in orders {
                let order = match is_online {
                    true => exchanged(order, columns),
                    false => order.clone(),
                };
                list.order(table.clone(), order);
            }
        })?)
    }

    fn forget(&mut self) -> Result<(), ClientFailure> {
        Ok(self.file.update(|kept| {
            let list = kept.database_mut(self.database);
            self.new.iter().for_each(|name| _ = list.forget(name));
        })?)
    }

    fn step(&mut self, step: Step) {
        self.bar.set_message(match step {
            Step::Rows => "rows",
            Step::Indexes => "indexes",
            Step::Exchange => "exchange",
            Step::Finish => "statistics",
        });
    }

    fn progress(&mut self, rows: u64, of: i64) {
        if let Ok(of) = u64::try_from(of) {
            self.bar.set_length(of.max(rows));
        }
        self.bar.set_position(rows);
    }
}

/// Returns the order of columns after the exchange, in which the encrypted ones come last.
fn exchanged(
    order: &[PlacedColumn],
    encrypted: &[(ColumnName, ListedColumn)],
) -> Vec<PlacedColumn> {
    let is_moved = |column: &PlacedColumn| {
        let name = &column.name;
        encrypted.iter().any(|(moved, _)| moved.column == *name) || name.starts_with(INTERIM)
    };
    let stays = order.iter().filter(|column| !is_moved(column)).cloned();
    let moved = encrypted.iter().map(|(name, _)| PlacedColumn {
        name: name.column.clone(),
        is_generated: false,
    });
    stays.chain(moved).collect()
}

/// A bar on a terminal, and nothing elsewhere.
fn bar() -> ProgressBar {
    let bar = ProgressBar::no_length();
    if !io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos} of about {len} rows, {eta}");
    bar.with_style(style.expect("the template is one"))
}
