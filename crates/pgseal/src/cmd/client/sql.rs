//! `pgseal client sql`: runs one statement. Parameters are sealed unless they are said to be plain,
//! encrypted columns are opened.

use pgseal_client::{
    encrypted_columns, Argument, ClientError, Prepared, Row, Session, Statement, Value,
};

use super::{input, print, ClientFailure};
use crate::cli::client::SqlArgs;
use crate::output;

/// What stands for NULL, as COPY writes it.
const NULL: &str = "\\N";

pub async fn run(args: &SqlArgs) -> Result<(), ClientFailure> {
    let session = { args.client.session(&args.trust, args.key.as_ref()) }.await?;
    if !args.literals {
        let shown = encrypted_columns(session.client()).await?;
        let statement = Statement::new(&args.statement);
        { session.list().literals(&statement, &shown) }.map_err(ClientError::from)?;
    }
    let prepared = session.prepare(&args.statement).await?;
    if args.sealed_only {
        prepared.gives_sealed()?;
    }
    if args.each_line {
        return each_line(args, &session, &prepared).await;
    }
    let values: Vec<&str> = args.values.iter().map(String::as_str).collect();
    let typed = typed(args, &values)?;
    let arguments = arguments(args, &values, &typed);
    if prepared.statement().columns().is_empty() {
        let rows = session.execute(&prepared, &arguments).await?;
        return Ok(output::print_done(tag(&args.statement, rows))?);
    }
    let rows = session.query(&prepared, &arguments).await?;
    show(args, &prepared, &rows)
}

async fn each_line(
    args: &SqlArgs,
    session: &Session,
    prepared: &Prepared,
) -> Result<(), ClientFailure> {
    let (lines, mut touched) = (input()?, 0);
    for (number, line) in lines.lines().enumerate() {
        let values: Vec<&str> = line.split('\t').collect();
        let typed = typed(args, &values)?;
        let arguments = arguments(args, &values, &typed);
        let done = session.execute(prepared, &arguments).await;
        touched += done.map_err(|error| ClientFailure::Line(number + 1, error))?;
    }
    Ok(output::print_done(tag(&args.statement, touched))?)
}

/// The values whose types are named, for `det_type` and `rnd_type` do not say them.
fn typed(args: &SqlArgs, values: &[&str]) -> Result<Vec<Option<Value>>, ClientError> {
    let value = |(place, &text): (usize, &&str)| {
        let named = args.types.iter().find(|named| named.place == place);
        let named = named.filter(|_| text != NULL);
        let value = named.map(|named| Value::parse(named.ty, text));
        Ok(value.transpose()?)
    };
    (1..).zip(values).map(value).collect()
}

fn arguments<'a>(
    args: &SqlArgs,
    values: &[&'a str],
    typed: &'a [Option<Value>],
) -> Vec<Argument<'a>> {
    let argument = |(place, (value, typed)): (usize, (&&'a str, &'a Option<Value>))| match typed {
        _ if *value == NULL => Argument::Null,
        Some(value) => Argument::Sealed(value),
        None if args.plain.contains(&place) => Argument::PlainText(value),
        None => Argument::SealedText(value),
    };
    (1..).zip(values.iter().zip(typed)).map(argument).collect()
}

fn show(args: &SqlArgs, prepared: &Prepared, rows: &[Row<'_>]) -> Result<(), ClientFailure> {
    let columns = prepared.statement().columns();
    let text = |row: &Row<'_>| -> Result<Vec<String>, ClientError> {
        let value = |place| {
            let field = row.field(place)?;
            Ok(field.map_or_else(String::new, |field| field.to_text().to_string()))
        };
        (0..columns.len()).map(value).collect()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(text).collect::<Result<_, _>>()?;
    let head: Vec<&str> = columns.iter().map(|column| column.name()).collect();
    Ok(output::print(match (args.tuples_only, args.no_align) {
        (true, unaligned) => print::rows(&rows, unaligned),
        (false, true) => head.join("|") + "\n" + &print::rows(&rows, true),
        (false, false) => print::table(&head, &rows),
    })?)
}

/// As psql tells what a statement did, in a line.
fn tag(statement: &str, rows: u64) -> String {
    let verb = statement.split_whitespace().next().unwrap_or_default();
    format!("{} {rows}\n", verb.to_uppercase())
}
