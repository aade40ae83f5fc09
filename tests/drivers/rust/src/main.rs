//! Runs the scenarios with tokio-postgres or sqlx (tests/drivers/scenarios.py says what is in the
//! file, and what is printed). Usage: drivers tokio-postgres|sqlx CONFIG

mod numeric;
mod values;
mod with_sqlx;
mod with_tokio_postgres;

use serde::Deserialize;
use serde_json::{json, Value as Json};
use values::{Native, Shown};

#[derive(Deserialize)]
struct Config {
    host: String,
    port: u16,
    scenarios: Vec<Scenario>,
}

#[derive(Deserialize)]
struct Scenario {
    name: String,
    steps: Vec<Step>,
}

/// One thing that a driver does.
#[derive(Deserialize)]
struct Step {
    name: String,
    #[serde(rename = "do")]
    what: String,
    sql: String,
    types: Vec<String>,
    values: Vec<Json>,
    batch: Vec<Vec<Json>>,
    rows: Option<Vec<Json>>,
    text: String,
}

/// What came back.
#[derive(Default)]
struct Answer {
    rows: Vec<Vec<Shown>>,
    oids: Vec<u32>,
    count: u64,
}

/// An error: its SQLSTATE, or none if it is the driver's own, and its text.
struct Failure(Option<String>, String);

/// What a driver does; futures stay on one thread.
trait Driver {
    async fn execute(
        &mut self,
        sql: &str,
        values: &[Native],
        gives: bool,
    ) -> Result<Answer, Failure>;
    async fn many(&mut self, sql: &str, batch: &[Vec<Native>]) -> Result<u64, Failure>;
    async fn together(&mut self, sql: &str, batch: &[Vec<Native>]) -> Result<Answer, Failure>;
    async fn again(&mut self, sql: &str, batch: &[Vec<Native>]) -> Result<Answer, Failure>;
    async fn cursor(&mut self, sql: &str, values: &[Native]) -> Result<Answer, Failure>;
    async fn simple(&mut self, sql: &str) -> Result<(), Failure>;
    async fn copy_in(&mut self, step: &Step, batch: &[Vec<Native>]) -> Result<u64, Failure>;
    async fn copy_out(&mut self, sql: &str) -> Result<String, Failure>;
    async fn cancelled(&mut self, sql: &str, values: &[Native]) -> Result<Answer, Failure>;
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let (driver, file) = (arguments.next(), arguments.next().expect("a file"));
    let text = std::fs::read_to_string(file).expect("a file that can be read");
    let config: Config = serde_json::from_str(&text).expect("scenarios");
    match driver.as_deref() {
        Some("sqlx") => run(with_sqlx::Sqlx::connect(&config).await, &config).await,
        _ => {
            run(
                with_tokio_postgres::TokioPostgres::connect(&config).await,
                &config,
            )
            .await
        }
    }
}

async fn run(mut driver: impl Driver, config: &Config) {
    for scenario in &config.scenarios {
        for step in &scenario.steps {
            let name = format!("{}/{}", scenario.name, step.name);
            let said = match done(&mut driver, step).await {
                Err(Failure(state, text)) => {
                    json!({"step": name, "error": state.as_deref().unwrap_or("client"), "message": text})
                }
                Ok(answer) if step.rows.is_none() => json!({"step": name, "count": answer.count}),
                Ok(answer) => json!({"step": name, "rows": answer.rows, "oids": answer.oids}),
            };
            println!("{said}");
        }
    }
}

async fn done(driver: &mut impl Driver, step: &Step) -> Result<Answer, Failure> {
    let native = |row: &Vec<Json>| -> Vec<Native> {
        let pairs = step.types.iter().zip(row);
        pairs.map(|(ty, value)| Native::read(ty, value)).collect()
    };
    let (values, sql) = (native(&step.values), &step.sql);
    let batch: Vec<Vec<Native>> = step.batch.iter().map(native).collect();
    let simple = match step.what.as_str() {
        "begin" => "BEGIN".to_owned(),
        "commit" => "COMMIT".to_owned(),
        "rollback" => "ROLLBACK".to_owned(),
        "savepoint" => format!("SAVEPOINT {sql}"),
        "release" => format!("RELEASE SAVEPOINT {sql}"),
        "back" => format!("ROLLBACK TO SAVEPOINT {sql}"),
        "many" => {
            let count = driver.many(sql, &batch).await?;
            return Ok(Answer {
                count,
                ..Answer::default()
            });
        }
        "together" => return driver.together(sql, &batch).await,
        "again" => return driver.again(sql, &batch).await,
        "cursor" => return driver.cursor(sql, &values).await,
        "copy_in" => {
            let count = driver.copy_in(step, &batch).await?;
            return Ok(Answer {
                count,
                ..Answer::default()
            });
        }
        "copy_out" => {
            let text = values::shown("String", Some(driver.copy_out(sql).await?));
            return Ok(Answer {
                rows: vec![vec![text]],
                ..Answer::default()
            });
        }
        "cancel" => return driver.cancelled(sql, &values).await,
        _ => return driver.execute(sql, &values, step.rows.is_some()).await,
    };
    driver.simple(&simple).await?;
    Ok(Answer::default())
}
