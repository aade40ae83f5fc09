//! sqlx: prepared statements that it keeps, parameters of declared types, results in binary.

use std::time::Duration;

use bigdecimal::BigDecimal;
use chrono::{DateTime, NaiveDate, Utc};
use futures_util::TryStreamExt;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Column, Connection, Row, TypeInfo};
use uuid::Uuid;

use crate::values::{shown, shown_bytes, shown_list, shown_timestamp, Native, Shown};
use crate::{Answer, Config, Driver, Failure, Step};

pub(crate) struct Sqlx {
    connection: PgConnection,
    options: PgConnectOptions,
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|it| it.code());
        Self(code.map(|code| code.into_owned()), format!("{error:?}"))
    }
}

fn bound<'q>(sql: &str, values: &[Native]) -> Query<'q, Postgres, PgArguments> {
    let mut query = sqlx::query(AssertSqlSafe(sql.to_owned()));
    for value in values {
        query = match value {
            Native::Int4(it) => query.bind(*it),
            Native::Int8(it) => query.bind(*it),
            Native::Numeric(it) => query.bind(it.clone()),
            Native::Float4(it) => query.bind(*it),
            Native::Float8(it) => query.bind(*it),
            Native::Text(it) => query.bind(it.clone()),
            Native::Bool(it) => query.bind(*it),
            Native::Date(it) => query.bind(*it),
            Native::Timestamp(it) => query.bind(*it),
            Native::TimestampTz(it) => query.bind(*it),
            Native::Uuid(it) => query.bind(*it),
            Native::Bytea(it) => query.bind(it.clone()),
            Native::Texts(it) => query.bind(it.clone()),
            Native::Numbers(it) => query.bind(it.clone()),
        };
    }
    query
}

fn shown_rows(rows: &[PgRow]) -> Result<Answer, sqlx::Error> {
    let mut answer = Answer::default();
    for row in rows {
        let columns = row.columns().iter();
        answer.oids = columns
            .map(|it| it.type_info().oid().map_or(0, |oid| oid.0))
            .collect();
        let values = (0..row.len()).map(|at| shown_value(row, at));
        answer.rows.push(values.collect::<Result<_, _>>()?);
    }
    Ok(answer)
}

fn shown_value(row: &PgRow, at: usize) -> Result<Shown, sqlx::Error> {
    fn text<T: ToString>(value: Option<T>) -> Option<String> {
        value.map(|it| it.to_string())
    }
    Ok(match row.columns()[at].type_info().name() {
        "INT4" => shown("i32", text(row.try_get::<Option<i32>, _>(at)?)),
        "INT8" => shown("i64", text(row.try_get::<Option<i64>, _>(at)?)),
        "NUMERIC" => {
            let number: Option<BigDecimal> = row.try_get(at)?;
            shown("BigDecimal", number.map(|it| it.to_plain_string()))
        }
        "FLOAT4" => shown("f32", text(row.try_get::<Option<f32>, _>(at)?)),
        "FLOAT8" => shown("f64", text(row.try_get::<Option<f64>, _>(at)?)),
        "BOOL" => shown("bool", text(row.try_get::<Option<bool>, _>(at)?)),
        "DATE" => shown("NaiveDate", text(row.try_get::<Option<NaiveDate>, _>(at)?)),
        "TIMESTAMP" => shown_timestamp(row.try_get(at)?),
        "TIMESTAMPTZ" => {
            let moment: Option<DateTime<Utc>> = row.try_get(at)?;
            shown(
                "DateTime",
                moment.map(|it| it.format("%Y-%m-%dT%H:%M:%S%.6f%:z").to_string()),
            )
        }
        "UUID" => shown("Uuid", text(row.try_get::<Option<Uuid>, _>(at)?)),
        "BYTEA" => shown_bytes(row.try_get(at)?),
        "TEXT[]" => shown_list::<String>("String", row.try_get(at)?),
        "INT4[]" => shown_list::<i32>("i32", row.try_get(at)?),
        _ => shown("String", row.try_get(at)?),
    })
}

impl Sqlx {
    pub(crate) async fn connect(config: &Config) -> Self {
        let options = PgConnectOptions::new_without_pgpass();
        let options = options
            .socket(&config.host)
            .port(config.port)
            .username("postgres")
            .database("postgres");
        let connection = PgConnection::connect_with(&options)
            .await
            .expect("a connection");
        Self {
            connection,
            options,
        }
    }
}

impl Driver for Sqlx {
    async fn execute(
        &mut self,
        sql: &str,
        values: &[Native],
        gives: bool,
    ) -> Result<Answer, Failure> {
        let query = bound(sql, values);
        match gives {
            true => Ok(shown_rows(&query.fetch_all(&mut self.connection).await?)?),
            false => {
                let count = query.execute(&mut self.connection).await?.rows_affected();
                Ok(Answer {
                    count,
                    ..Answer::default()
                })
            }
        }
    }

    /// sqlx has no batches.
    async fn many(&mut self, sql: &str, batch: &[Vec<Native>]) -> Result<u64, Failure> {
        let mut count = 0;
        for values in batch {
            count += self.execute(sql, values, false).await?.count;
        }
        Ok(count)
    }

    async fn together(&mut self, sql: &str, batch: &[Vec<Native>]) -> Result<Answer, Failure> {
        self.again(sql, batch).await
    }

    async fn again(&mut self, sql: &str, batch: &[Vec<Native>]) -> Result<Answer, Failure> {
        let mut answer = Answer::default();
        for values in batch {
            let mut one = self.execute(sql, values, true).await?;
            answer.rows.append(&mut one.rows);
            answer.oids = one.oids;
        }
        Ok(answer)
    }

    /// A stream of rows: sqlx has no cursors.
    async fn cursor(&mut self, sql: &str, values: &[Native]) -> Result<Answer, Failure> {
        let rows: Vec<PgRow> = bound(sql, values)
            .fetch(&mut self.connection)
            .try_collect()
            .await?;
        Ok(shown_rows(&rows)?)
    }

    async fn simple(&mut self, sql: &str) -> Result<(), Failure> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }

    async fn copy_in(&mut self, step: &Step, _: &[Vec<Native>]) -> Result<u64, Failure> {
        let mut copy = self.connection.copy_in_raw(&step.sql).await?;
        copy.send(step.text.as_bytes()).await?;
        Ok(copy.finish().await?)
    }

    async fn copy_out(&mut self, sql: &str) -> Result<String, Failure> {
        let blocks = self.connection.copy_out_raw(sql).await?;
        let text = blocks.try_fold(Vec::new(), |mut text, block| async move {
            text.extend_from_slice(&block);
            Ok(text)
        });
        Ok(String::from_utf8(text.await?).expect("UTF-8"))
    }

    /// By another connection: sqlx has no requests to cancel.
    async fn cancelled(&mut self, sql: &str, values: &[Native]) -> Result<Answer, Failure> {
        let id: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
            .fetch_one(&mut self.connection)
            .await?;
        let mut other = PgConnection::connect_with(&self.options).await?;
        let asked = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            sqlx::query("SELECT pg_cancel_backend($1)")
                .bind(id)
                .execute(&mut other)
                .await
        });
        let answer = self.execute(sql, values, true).await;
        let asked = asked.await.expect("a task that ends");
        asked.expect("a request to cancel");
        answer
    }
}
