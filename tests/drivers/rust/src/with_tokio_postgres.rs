//! tokio-postgres: prepared statements, parameters and results in binary, pipelines of futures.

use std::pin::pin;
use std::time::Duration;

use chrono::{DateTime, FixedOffset, NaiveDate};
use futures_util::future::try_join_all;
use futures_util::TryStreamExt;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, NoTls, Row};
use uuid::Uuid;

use crate::numeric::Numeric;
use crate::values::{shown, shown_bytes, shown_list, shown_timestamp, Native, Shown};
use crate::{Answer, Config, Driver, Failure, Step};

pub(crate) struct TokioPostgres(Client);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(
            error.code().map(|code| code.code().to_owned()),
            format!("{error:?}"),
        )
    }
}

type Parameters = Vec<Box<dyn ToSql + Sync>>;

fn parameters(values: &[Native]) -> Parameters {
    let boxed = |value: &Native| -> Box<dyn ToSql + Sync> {
        match value {
            Native::Int4(it) => Box::new(*it),
            Native::Int8(it) => Box::new(*it),
            Native::Numeric(it) => Box::new(it.as_ref().map(|it| Numeric(it.to_plain_string()))),
            Native::Float4(it) => Box::new(*it),
            Native::Float8(it) => Box::new(*it),
            Native::Text(it) => Box::new(it.clone()),
            Native::Bool(it) => Box::new(*it),
            Native::Date(it) => Box::new(*it),
            Native::Timestamp(it) => Box::new(*it),
            Native::TimestampTz(it) => Box::new(*it),
            Native::Uuid(it) => Box::new(*it),
            Native::Bytea(it) => Box::new(it.clone()),
            Native::Texts(it) => Box::new(it.clone()),
            Native::Numbers(it) => Box::new(it.clone()),
        }
    };
    values.iter().map(boxed).collect()
}

fn borrowed(parameters: &Parameters) -> Vec<&(dyn ToSql + Sync)> {
    parameters
        .iter()
        .map(|it| &**it as &(dyn ToSql + Sync))
        .collect()
}

fn shown_rows(rows: &[Row]) -> Result<Answer, Error> {
    let mut answer = Answer::default();
    for row in rows {
        answer.oids = row.columns().iter().map(|it| it.type_().oid()).collect();
        let values = (0..row.len()).map(|at| shown_value(row, at));
        answer.rows.push(values.collect::<Result<_, _>>()?);
    }
    Ok(answer)
}

fn shown_value(row: &Row, at: usize) -> Result<Shown, Error> {
    fn text<T: ToString>(value: Option<T>) -> Option<String> {
        value.map(|it| it.to_string())
    }
    Ok(match *row.columns()[at].type_() {
        Type::INT4 => shown("i32", text(row.try_get::<_, Option<i32>>(at)?)),
        Type::INT8 => shown("i64", text(row.try_get::<_, Option<i64>>(at)?)),
        Type::NUMERIC => shown(
            "Numeric",
            row.try_get::<_, Option<Numeric>>(at)?.map(|it| it.0),
        ),
        Type::FLOAT4 => shown("f32", text(row.try_get::<_, Option<f32>>(at)?)),
        Type::FLOAT8 => shown("f64", text(row.try_get::<_, Option<f64>>(at)?)),
        Type::BOOL => shown("bool", text(row.try_get::<_, Option<bool>>(at)?)),
        Type::DATE => shown("NaiveDate", text(row.try_get::<_, Option<NaiveDate>>(at)?)),
        Type::TIMESTAMP => shown_timestamp(row.try_get(at)?),
        Type::TIMESTAMPTZ => {
            let moment: Option<DateTime<FixedOffset>> = row.try_get(at)?;
            shown(
                "DateTime",
                moment.map(|it| it.format("%Y-%m-%dT%H:%M:%S%.6f%:z").to_string()),
            )
        }
        Type::UUID => shown("Uuid", text(row.try_get::<_, Option<Uuid>>(at)?)),
        Type::BYTEA => shown_bytes(row.try_get(at)?),
        Type::TEXT_ARRAY => shown_list::<String>("String", row.try_get(at)?),
        Type::INT4_ARRAY => shown_list::<i32>("i32", row.try_get(at)?),
        _ => shown("String", row.try_get(at)?),
    })
}

impl TokioPostgres {
    pub(crate) async fn connect(config: &Config) -> Self {
        let mut options = tokio_postgres::Config::new();
        options
            .host_path(&config.host)
            .port(config.port)
            .user("postgres")
            .dbname("postgres");
        let (client, connection) = options.connect(NoTls).await.expect("a connection");
        tokio::spawn(connection);
        Self(client)
    }
}

impl Driver for TokioPostgres {
    async fn execute(
        &mut self,
        sql: &str,
        values: &[Native],
        gives: bool,
    ) -> Result<Answer, Failure> {
        let parameters = parameters(values);
        match gives {
            true => Ok(shown_rows(
                &self.0.query(sql, &borrowed(&parameters)).await?,
            )?),
            false => {
                let count = self.0.execute(sql, &borrowed(&parameters)).await?;
                Ok(Answer {
                    count,
                    ..Answer::default()
                })
            }
        }
    }

    async fn many(&mut self, sql: &str, batch: &[Vec<Native>]) -> Result<u64, Failure> {
        let (client, statement) = (&self.0, &self.0.prepare(sql).await?);
        let sent = batch.iter().map(|values| async move {
            let parameters = parameters(values);
            client.execute(statement, &borrowed(&parameters)).await
        });
        Ok(try_join_all(sent).await?.iter().sum())
    }

    async fn together(&mut self, sql: &str, batch: &[Vec<Native>]) -> Result<Answer, Failure> {
        let (client, statement) = (&self.0, &self.0.prepare(sql).await?);
        let sent = batch.iter().map(|values| async move {
            let parameters = parameters(values);
            client.query(statement, &borrowed(&parameters)).await
        });
        let rows: Vec<Row> = try_join_all(sent).await?.into_iter().flatten().collect();
        Ok(shown_rows(&rows)?)
    }

    async fn again(&mut self, sql: &str, batch: &[Vec<Native>]) -> Result<Answer, Failure> {
        let statement = self.0.prepare(sql).await?;
        let mut rows = Vec::new();
        for values in batch {
            let parameters = parameters(values);
            rows.extend(self.0.query(&statement, &borrowed(&parameters)).await?);
        }
        Ok(shown_rows(&rows)?)
    }

    async fn cursor(&mut self, sql: &str, values: &[Native]) -> Result<Answer, Failure> {
        let transaction = self.0.transaction().await?;
        let parameters = parameters(values);
        let portal = transaction.bind(sql, &borrowed(&parameters)).await?;
        let mut rows = Vec::new();
        loop {
            let some = transaction.query_portal(&portal, 2).await?;
            if some.is_empty() {
                break;
            }
            rows.extend(some);
        }
        transaction.commit().await?;
        Ok(shown_rows(&rows)?)
    }

    async fn simple(&mut self, sql: &str) -> Result<(), Failure> {
        Ok(self.0.batch_execute(sql).await?)
    }

    /// Rows in binary, of the columns' types.
    async fn copy_in(&mut self, step: &Step, batch: &[Vec<Native>]) -> Result<u64, Failure> {
        let of = |ty: &String| match ty.as_str() {
            "int4" | "int8" => Type::INT4, // the column's
            "numeric" => Type::NUMERIC,
            "date" => Type::DATE,
            _ => Type::TEXT,
        };
        let types: Vec<Type> = step.types.iter().map(of).collect();
        let sink = self
            .0
            .copy_in(&format!("{} (FORMAT binary)", step.sql))
            .await?;
        let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
        for values in batch {
            let parameters = parameters(values);
            writer.as_mut().write(&borrowed(&parameters)).await?;
        }
        Ok(writer.finish().await?)
    }

    async fn copy_out(&mut self, sql: &str) -> Result<String, Failure> {
        let blocks = self.0.copy_out(sql).await?;
        let text = blocks.try_fold(Vec::new(), |mut text, block| async move {
            text.extend_from_slice(&block);
            Ok(text)
        });
        Ok(String::from_utf8(text.await?).expect("UTF-8"))
    }

    async fn cancelled(&mut self, sql: &str, values: &[Native]) -> Result<Answer, Failure> {
        let token = self.0.cancel_token();
        let asked = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            token.cancel_query(NoTls).await
        });
        let answer = self.execute(sql, values, true).await;
        // The server signals twice: a second signal that came late would cancel what follows.
        let asked = asked.await.expect("a task that ends");
        asked.expect("a request to cancel");
        answer
    }
}
