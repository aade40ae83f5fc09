//! `pgseal client sql`: runs a statement, or the statements of standard input in one session.
//! Parameters and rows of COPY are sealed unless they are said to be plain, encrypted columns are
//! opened. The first failure ends it, and with the connection a transaction that is open.

use std::collections::BTreeMap;

use pgseal_client::{
    encrypted_names, encrypted_types, Argument, ClientError, Prepared, Row, Session, Statement,
    Type, Value,
};
use zeroize::Zeroizing;

use super::script::{Script, Step};
use super::{input, lines, not, print, ClientFailure, Purpose};
use crate::cli::client::SqlArgs;
use crate::output;

/// The text for NULL, as COPY writes it.
const NULL: &str = "\\N";

pub async fn run(args: &SqlArgs) -> Result<(), ClientFailure> {
    let purpose = Purpose {
        needs_list: !args.list.trust_server_types,
        ..Purpose::default()
    };
    let (options, key) = (&args.client, args.key.as_ref());
    let session = options.session_for(&args.trust, key, purpose).await?;
    let work = Work { args, session };
    let Some(statement) = &args.statement else {
        return work.script(&input()?).await;
    };
    work.check(statement).await?;
    if args.each_line {
        return work.each_line(statement).await;
    }
    let step = Step {
        statement: statement.clone(),
        values: args.values.iter().map(|value| field(value)).collect(),
        plain: args.plain.clone(),
        types: args.types.clone(),
    };
    match copies(statement) {
        true => work.copy(&step, &|| Ok(lines()?)).await,
        false => work.statement(&step).await,
    }
}

/// A session, and how it is shown.
struct Work<'a> {
    args: &'a SqlArgs,
    session: Session,
}

impl Work<'_> {
    /// Statements in one session. Those that COPY from standard input have their rows behind them.
    async fn script(&self, text: &str) -> Result<(), ClientFailure> {
        let mut script = Script::new(text);
        while let Some(step) = script.step()? {
            if Statement::new(&step.statement).is_empty() {
                continue;
            }
            self.check(&step.statement).await?;
            if !copies(&step.statement) {
                self.statement(&step).await?;
                continue;
            }
            let rows = match Statement::new(&step.statement).names("stdin") {
                true => script.rows()?,
                false => "",
            };
            self.copy(&step, &|| Ok(Zeroizing::new(rows.to_owned())))
                .await?;
        }
        Ok(())
    }

    /// Refuses literals beside what is encrypted, before the server has seen them.
    async fn check(&self, statement: &str) -> Result<(), ClientFailure> {
        let statement = Statement::new(statement);
        if self.args.literals || !statement.has_literals() {
            return Ok(());
        }
        let client = self.session.client();
        let names = encrypted_names(client, &encrypted_types(client).await?).await?;
        let list = self.session.list();
        Ok(list
            .literals(&statement, &names)
            .map_err(ClientError::from)?)
    }

    async fn prepare(&self, statement: &str) -> Result<Prepared, ClientFailure> {
        let prepared = self.session.prepare(statement).await?;
        if self.args.sealed_only {
            prepared.gives_sealed()?;
        }
        Ok(prepared)
    }

    async fn statement(&self, step: &Step) -> Result<(), ClientFailure> {
        let prepared = self.prepare(&step.statement).await?;
        let typed = step.typed()?;
        let arguments = step.arguments(&typed);
        if prepared.statement().columns().is_empty() {
            let rows = self.session.execute(&prepared, &arguments).await?;
            return Ok(output::print_done(tag(&step.statement, rows))?);
        }
        let rows = self.session.query(&prepared, &arguments).await?;
        self.show(&prepared, &rows)
    }

    async fn each_line(&self, statement: &str) -> Result<(), ClientFailure> {
        let prepared = self.prepare(statement).await?;
        let (lines, mut touched) = (lines()?, 0);
        for (number, line) in (1..).zip(lines.lines()) {
            let step = Step {
                statement: String::new(),
                values: line.split('\t').map(field).collect(),
                plain: self.args.plain.clone(),
                types: self.args.types.clone(),
            };
            let typed = step.typed()?;
            let done = self
                .session
                .execute(&prepared, &step.arguments(&typed))
                .await;
            touched += done.map_err(|error| ClientError::Line(number, Box::new(error)))?;
        }
        Ok(output::print_done(tag(statement, touched))?)
    }

    /// `rows` are read if it is a COPY from standard input.
    async fn copy(
        &self,
        step: &Step,
        rows: &dyn Fn() -> Result<Zeroizing<String>, ClientFailure>,
    ) -> Result<(), ClientFailure> {
        if !Statement::new(&step.statement).names("stdin") {
            if self.args.sealed_only {
                let what = "a statement for --sealed-only: SELECT the columns in its place";
                return Err(not("COPY", what));
            }
            let print = |row: &str| Ok(output::print(format_args!("{row}\n"))?);
            let copied = self
                .session
                .copy_out::<ClientFailure>(&step.statement, print);
            return copied.await.map(|_| ());
        }
        let named = step.types.iter().map(|named| (named.place, named.ty));
        let types: BTreeMap<usize, Type> = named.collect();
        let rows = rows()?;
        let copied = self
            .session
            .copy_in(&step.statement, (&step.plain, &types), rows.lines());
        Ok(output::print_done(tag(&step.statement, copied.await?))?)
    }

    fn show(&self, prepared: &Prepared, rows: &[Row<'_>]) -> Result<(), ClientFailure> {
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
        let (tuples_only, unaligned) = (self.args.tuples_only, self.args.no_align);
        Ok(output::print(match (tuples_only, unaligned) {
            (true, unaligned) => print::rows(&rows, unaligned),
            (false, true) => head.join("|") + "\n" + &print::rows(&rows, true),
            (false, false) => print::table(&head, &rows),
        })?)
    }
}

impl Step {
    /// The values whose types are named, for `det_type` and `rnd_type` do not say them.
    fn typed(&self) -> Result<Vec<Option<Value>>, ClientError> {
        let value = |(place, text): (usize, &Option<Zeroizing<String>>)| {
            let named = self.types.iter().find(|named| named.place == place);
            let parsed = { named.zip(text.as_ref()) };
            let value = parsed.map(|(named, text)| Value::parse(named.ty, text));
            Ok(value.transpose()?)
        };
        (1..).zip(&self.values).map(value).collect()
    }

    fn arguments<'a>(&'a self, typed: &'a [Option<Value>]) -> Vec<Argument<'a>> {
        let values = self.values.iter().zip(typed);
        (1..)
            .zip(values)
            .map(|(place, (text, typed))| match (text, typed) {
                (None, _) => Argument::Null,
                (_, Some(value)) => Argument::Sealed(value),
                (Some(text), None) if self.plain.contains(&place) => Argument::PlainText(text),
                (Some(text), None) => Argument::SealedText(text),
            })
            .collect()
    }
}

fn field(text: &str) -> Option<Zeroizing<String>> {
    (text != NULL).then(|| Zeroizing::new(text.to_owned()))
}

/// Whether a statement is a COPY.
fn copies(statement: &str) -> bool {
    verb(statement) == "COPY"
}

fn verb(statement: &str) -> String {
    let first = Statement::new(statement).first_word().unwrap_or_default();
    first.to_uppercase()
}

/// As psql says what a statement did, in a line.
fn tag(statement: &str, rows: u64) -> String {
    let verb = verb(statement);
    match verb.as_str() {
        "INSERT" | "UPDATE" | "DELETE" | "MERGE" | "COPY" | "SELECT" | "WITH" => {
            format!("{verb} {rows}\n")
        }
        _ => verb + "\n",
    }
}
