//! A set of clusters, and the queries' runs on them by psql.
//!
//! The servers of a round run at once, and one is asked after the other. A session runs its query
//! several times and the shortest time counts, so that opening the session and the first look at
//! pages are not in it. The processor time is that of the server and its evaluator, opening the
//! session included.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, iter};

use crate::error::{files, BenchError};
use crate::host::account;
use crate::host::cluster::{Cluster, Server};
use crate::host::contender::Contender;
use crate::host::process::{Cpu, Program};
use crate::host::Host;
use crate::model::{Sample, STOCK};
use crate::recipes::companions::{self, Proxy};
use crate::recipes::tpch::queries::Query;
use crate::recipes::tpch::schema::{self, Loaded, DATABASE};
use crate::recipes::tpch::{Form, TpcH};
use crate::recipes::{Runs, Samples, Set};

/// The SQLSTATE of a statement that succeeded.
const DONE: &str = "00000";
/// The number of rows, of a result that differs, that an error shows.
const ROWS_SHOWN: usize = 3;

/// One set of them, by contenders' names.
pub(super) struct Clusters {
    recipe: TpcH,
    members: BTreeMap<String, Member>,
    identity: PathBuf,
}

/// A contender's cluster.
struct Member {
    form: Form,
    cluster: Cluster,
    /// The socket of its evaluator, if it has one.
    evaluator: PathBuf,
}

/// A server, with the evaluator and the proxy that serve it.
struct Running<'a> {
    form: Form,
    // Before the server, which waits for its connections to end.
    proxy: Option<Proxy>,
    server: Server<'a>,
    evaluator: Option<Program>,
}

/// A query's result, as it was measured.
struct Answer {
    sample: Sample,
    /// Its rows, in order.
    rows: Vec<String>,
}

impl Clusters {
    /// Copies the filled clusters for each contender.
    pub(super) fn make(
        recipe: TpcH,
        loaded: &Loaded,
        home: &Path,
        host: &Host,
    ) -> Result<Self, BenchError> {
        let mut members = BTreeMap::new();
        for (number, contender) in host.contenders.iter().enumerate() {
            host.note(format!("making the cluster {}", contender.name()));
            let member = Member::make(&recipe, loaded, (number, contender), home, host)?;
            members.insert(contender.name().to_owned(), member);
        }
        nix::unistd::sync();
        Ok(Self {
            recipe,
            members,
            identity: loaded.identity.clone(),
        })
    }

    fn begin<'a>(
        &'a self,
        contender: &Contender,
        host: &'a Host,
    ) -> Result<Running<'a>, BenchError> {
        let Member {
            form,
            cluster,
            evaluator,
        } = &self.members[contender.name()];
        let server = cluster.start(contender, host)?;
        let evaluator = form
            .is_isolated()
            .then(|| companions::evaluator(evaluator, host));
        let proxy = form
            .is_encrypted()
            .then(|| Proxy::start(&server.port(), &self.identity, host));
        Ok(Running {
            form: *form,
            evaluator: evaluator.transpose()?,
            proxy: proxy.transpose()?,
            server,
        })
    }
}

impl Set for Clusters {
    fn run(&mut self, runs: &Runs<'_>) -> Result<Samples, BenchError> {
        let query = &self.recipe.queries[runs.case];
        let mut running = BTreeMap::new();
        for contender in runs.contenders {
            let name = contender.name().to_owned();
            running.insert(name, self.begin(contender, runs.host)?);
        }
        let mut answers = BTreeMap::new();
        let samples = runs.one_by_one(|contender| {
            let name = contender.name();
            let server = running.get_mut(name).expect("each of them was started");
            let answer = server.ask(query, self.recipe.repeat, runs.host)?;
            answers.insert(name.to_owned(), answer.rows);
            Ok(answer.sample)
        })?;
        for (name, rows) in &answers {
            if samples[name].refused.is_none() {
                equal(query, name, &answers[STOCK], rows)?;
            }
        }
        for server in running.into_values() {
            server.stop()?;
        }
        Ok(samples)
    }
}

impl Member {
    fn make(
        recipe: &TpcH,
        loaded: &Loaded,
        (number, contender): (usize, &Contender),
        home: &Path,
        host: &Host,
    ) -> Result<Self, BenchError> {
        let form = Form::of(contender);
        let from = match form.is_encrypted() {
            true => &loaded.encrypted,
            false => &loaded.plain,
        };
        let (home, settings) = (home.join(contender.name()), schema::settings(recipe));
        let cluster = Cluster::copy(from, contender, &home, &settings, host)?;
        let evaluator = host.work.join(format!("evaluator.{number}"));
        cluster.number(number)?;
        if form.is_encrypted() {
            cluster.configure(&configuration(form, &evaluator))?;
        }
        Ok(Self {
            form,
            cluster,
            evaluator,
        })
    }
}

fn configuration(form: Form, evaluator: &Path) -> String {
    let place = if form.is_isolated() {
        "isolated"
    } else {
        "inline"
    };
    let ahead = if form == Form::IsolatedNoReadAhead {
        "off"
    } else {
        "on"
    };
    let socket = evaluator.display();
    format!("encdb.evaluator = {place}\nencdb.read_ahead = {ahead}\nencdb.socket = '{socket}'\n")
}

impl Running<'_> {
    /// Runs the query in a session of its own. A statement that encrypted columns refuse is in the
    /// sample; one that plain columns refuse is an error.
    fn ask(&mut self, query: &Query, repeat: u32, host: &Host) -> Result<Answer, BenchError> {
        let place = host.work.join("result");
        let mut psql = host.client("psql");
        psql.args(["-X", "-q", "-A", "-t", "-d", DATABASE]);
        for command in script(query, repeat, &place, self.form) {
            psql.arg("-c").arg(command);
        }
        let port = match &self.proxy {
            Some(proxy) => proxy.port.clone(),
            None => self.server.port(),
        };
        let before = self.cpu()?;
        let done = host.run(psql.env("PGPORT", port));
        let done = done.map_err(|error| self.server.explain(error))?;
        let spent = self.cpu()?.since(before);
        let told = Told::read(&done.stdout);
        if told.state != DONE && !self.form.is_encrypted() {
            return Err(BenchError::Program {
                program: query.name.clone(),
                status: told.state,
                output: done.stderr,
            });
        }
        let rows = fs::read_to_string(&place).map_err(files(place))?;
        let rows: Vec<String> = rows.lines().map(without_padding).collect();
        let mut extra = BTreeMap::from([("rows".to_owned(), rows.len() as f64)]);
        extra.extend(told.requests().map(|all| ("requests".to_owned(), all)));
        let sample = Sample {
            value: told.shortest,
            work: repeat.into(),
            user_s: spent.user_s,
            system_s: spent.system_s,
            extra,
            refused: (told.state != DONE).then_some(told.state),
            ..Sample::default()
        };
        Ok(Answer { sample, rows })
    }

    fn cpu(&self) -> Result<Cpu, BenchError> {
        let cpu = |pid| account::of_server(pid).map_err(files("/proc"));
        let server = cpu(self.server.pid())?;
        match &self.evaluator {
            Some(evaluator) => Ok(server.plus(cpu(evaluator.pid())?)),
            None => Ok(server),
        }
    }

    fn stop(self) -> Result<(), BenchError> {
        drop(self.proxy);
        self.server.stop()
    }
}

/// The commands of psql: the result goes to a file, and everything that [`Told::read`] reads to
/// standard output.
fn script(query: &Query, repeat: u32, result: &Path, form: Form) -> Vec<String> {
    let counter = match form.is_encrypted() {
        true => "SELECT 'requests ' || encdb.requests()",
        false => "",
    };
    let to = |place: &Path| format!("\\o {}", place.display());
    let first = [
        counter.to_owned(),
        to(result),
        "\\timing on".to_owned(),
        query.sql.clone(),
        "\\timing off".to_owned(),
        "\\echo state :SQLSTATE".to_owned(),
        "\\o".to_owned(),
        counter.to_owned(),
        to(Path::new("/dev/null")),
        "\\timing on".to_owned(),
    ];
    let others = iter::repeat_n(query.sql.clone(), repeat as usize - 1);
    first.into_iter().chain(others).collect()
}

/// What psql printed.
#[derive(Debug, PartialEq)]
struct Told {
    /// The SQLSTATE of the query.
    state: String,
    /// Seconds of the shortest run.
    shortest: f64,
    /// The session's requests before the first run, and after it.
    counts: Vec<f64>,
}

impl Told {
    fn read(output: &str) -> Self {
        let after = |head: &'static str| output.lines().filter_map(move |l| l.strip_prefix(head));
        // `Time: 1234.567 ms (00:01.235)`.
        let times = after("Time: ").filter_map(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        Self {
            state: after("state ").next().unwrap_or_default().to_owned(),
            shortest: times.fold(f64::INFINITY, f64::min) / 1e3,
            counts: after("requests ").filter_map(|n| n.parse().ok()).collect(),
        }
    }

    fn requests(&self) -> Option<f64> {
        match self.counts[..] {
            [before, after] => Some(after - before),
            _ => None,
        }
    }
}

/// `char(n)` of plain columns is padded.
fn without_padding(row: &str) -> String {
    let fields: Vec<_> = row.split('|').map(str::trim_end).collect();
    fields.join("|")
}

/// Both have the same rows, in the same order.
fn equal(query: &Query, name: &str, plain: &[String], own: &[String]) -> Result<(), BenchError> {
    if plain == own {
        return Ok(());
    }
    let longest = plain.len().max(own.len());
    let row = |rows: &[String], at: usize| rows.get(at).cloned().unwrap_or_default();
    let others = (0..longest).filter(|at| plain.get(*at) != own.get(*at));
    let shown = others.take(ROWS_SHOWN).map(|at| {
        let (plain, own) = (row(plain, at), row(own, at));
        format!("row {}: plain {plain}\n    {name} {own}", at + 1)
    });
    Err(BenchError::Differs {
        query: query.name.clone(),
        variant: name.to_owned(),
        rows: shown.collect::<Vec<_>>().join("\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psql_tells_times_requests_and_the_state() {
        let output = "requests 7\nTime: 1234.500 ms (00:01.235)\nstate 00000\nrequests 19\n\
                      Time: 12.250 ms\n";
        let told = Told::read(output);
        assert_eq!((told.state.as_str(), told.shortest), (DONE, 0.01225));
        assert_eq!(told.requests(), Some(12.0));
        assert_eq!(Told::read("Time: 1.0 ms\nstate 0A000\n").requests(), None);
    }

    #[test]
    fn a_result_that_differs_is_shown() {
        let query = Query {
            number: 1,
            name: "Q1: x".to_owned(),
            sql: ";".to_owned(),
        };
        let rows = |text: &str| text.lines().map(without_padding).collect::<Vec<_>>();
        let plain = rows("a  |1\nb  |2");
        assert!(equal(&query, "inline", &plain, &rows("a|1\nb|2")).is_ok());
        let error = equal(&query, "inline", &plain, &rows("a|1")).expect_err("one is missing");
        let text = error.to_string();
        assert!(
            text.contains("Q1: x") && text.contains("row 2: plain b|2"),
            "{text}"
        );
    }
}
