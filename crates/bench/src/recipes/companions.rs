//! The programs that stand beside a server: the proxy, and the evaluator of the isolated form.
//!
//! Each ends when it is dropped, and when the benchmark ends, however that ends.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::unistd::getuid;

use crate::error::BenchError;
use crate::host::cluster::Server;
use crate::host::process::Program;
use crate::host::{serve, Host};

const START_LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
/// A proxy's port is that of its server and this.
const PORTS_APART: u32 = 1000;

/// The program of the evaluator, beside the command.
const EVALUATOR: &str = "pgseal-evaluator";

/// Sets the environment of an owner: the identity, and trust in any evaluator.
pub(super) fn owner<'c>(command: &'c mut Command, identity: &Path) -> &'c mut Command {
    command
        .env("PGSEAL_IDENTITY", identity)
        .env("PGSEAL_ACCEPT", "software")
}

/// Refuses a PostgreSQL that has no encrypted columns.
pub(super) fn requires_extension(server: &mut Server<'_>) -> Result<(), BenchError> {
    let sql = "SELECT count(*) FROM pg_available_extensions WHERE name = 'encdb'";
    match server.sql(&[sql])?.trim() {
        "1" => Ok(()),
        _ => Err(BenchError::Usage(
            "the PostgreSQL of --pg has no extension encdb: install it with make install-extensions PG_CONFIG=…".to_owned(),
        )),
    }
}

/// Gives an owner a data key, all grants, and the list of a database's encrypted columns.
pub(super) fn give_keys(
    database: &str,
    server: &mut Server<'_>,
    identity: &Path,
    host: &Host,
) -> Result<(), BenchError> {
    for words in [
        &["key", "new"][..],
        &["grant", "add", "--allow", "all"],
        &["column", "add", "--all"],
    ] {
        let mut client = host.command(&host.tools.pgseal);
        client.arg("client").args(words).args(["-d", database]);
        server.run(owner(&mut client, identity))?;
    }
    Ok(())
}

/// A running proxy.
#[derive(Debug)]
pub(super) struct Proxy {
    /// The process.
    pub(super) program: Program,
    /// The port that names its socket in the run's directory.
    pub(super) port: String,
}

impl Proxy {
    /// Starts the proxy of the server at `port`, and waits until it accepts connections.
    pub(super) fn start(port: &str, identity: &Path, host: &Host) -> Result<Self, BenchError> {
        let number = port.parse::<u32>().unwrap_or(0) + PORTS_APART;
        let socket = host.work.join(format!(".s.PGSQL.{number}"));
        let mut command = serve::command(&host.tools.pgseal, None, host);
        // The plain database has no list; where there is one, it holds all the same.
        command.args(["proxy", "--trust-server-types"]);
        command.arg("--listen").arg(&socket);
        let server = format!("host={} port={port}", host.work.display());
        owner(command.arg("--server").arg(server), identity);
        Ok(Self {
            program: started(command, &socket, host)?,
            port: number.to_string(),
        })
    }
}

/// Starts an evaluator, and waits until it accepts connections.
pub(super) fn evaluator(socket: &Path, host: &Host) -> Result<Program, BenchError> {
    let program = host.tools.pgseal.with_file_name(EVALUATOR);
    let mut command = serve::command(&program, None, host);
    command.arg("--socket").arg(socket);
    command.arg(format!("--allow-uid={}", getuid()));
    // Its keys protect random numbers, and an ordinary user may not lock that much memory.
    command.arg("--unlocked");
    started(command, socket, host)
}

fn started(mut command: Command, socket: &Path, host: &Host) -> Result<Program, BenchError> {
    let program = Program::start(&mut command)?;
    let start = Instant::now();
    while UnixStream::connect(socket).is_err() {
        if host.stop.is_set() {
            return Err(BenchError::Interrupted);
        }
        if program.wait(LOOK) || start.elapsed() > START_LIMIT {
            return Err(refused(program, socket));
        }
    }
    Ok(program)
}

/// Returns why a program does not listen.
fn refused(program: Program, socket: &Path) -> BenchError {
    match program.finish().and_then(|done| done.checked()) {
        Err(error) => error,
        Ok(done) => BenchError::Program {
            program: socket.display().to_string(),
            status: "nobody listens there".to_owned(),
            output: done.stderr,
        },
    }
}
