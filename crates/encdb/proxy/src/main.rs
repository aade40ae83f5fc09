//! `pgseal-proxy`: the program behind `pgseal proxy` and `pgseal client exec`. Drivers connect to
//! it as to a server; it seals what they send to encrypted columns, and opens what comes back, with
//! the owner's keys.
//!
//! It runs on the owner's side, for a process that reads its memory reads the keys. Messages name
//! `pgseal`, which people start.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::env;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use pgseal_client::{ClientError, ConnectOptions, IdentityFileError, Target};
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_options::exit::{of_identity, of_session};
use pgseal_options::{EvidenceError, ListOptions, PoolOptions};
use pgseal_proxy::cli::{Exec, Proxy, CLIENT_EXEC};
use pgseal_proxy::{
    acceptor, client_exec, client_exec_in_process, configured, serve, ConfigError, ExecError,
    OneOwner, ServeError, ServerTrust, Service, Settings, Setup, TlsError,
};
use tokio::runtime::{Builder, Runtime};

/// Why the program ends.
#[derive(Debug, thiserror::Error)]
enum ProxyError {
    /// The server's address is none.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The identity cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityFileError),
    /// The options name no policy.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The configuration file cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Nothing can be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The program of `client exec` was not run.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// The runtime fails.
    #[error("the runtime cannot be started: {0}")]
    Io(#[from] io::Error),
}

impl Exit for ProxyError {
    fn code(&self) -> Code {
        match self {
            Self::Client(error) => of_session(error),
            Self::Identity(error) => of_identity(error),
            Self::Evidence(error) => error.code(),
            Self::Config(error) => error.code(),
            Self::Tls(error) => error.code(),
            Self::Serve(error) => error.code(),
            Self::Exec(error) => error.code(),
            Self::Io(_) => Code::Io,
        }
    }
}

fn main() -> ExitCode {
    let mut words: Vec<OsString> = env::args_os().collect();
    if words.get(1).is_some_and(|word| word == CLIENT_EXEC) {
        words.remove(1);
        return ended(Exec::try_parse_from(words), run_program);
    }
    ended(Proxy::of(words), run_proxy)
}

/// Does what a command line says, and reports.
fn ended<C>(
    parsed: Result<C, clap::Error>,
    run: impl FnOnce(C) -> Result<ExitCode, ProxyError>,
) -> ExitCode {
    match parsed.map(run) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => Failure::from(error).report(),
        Err(error) => match pgseal_usage::print(&error) {
            false => ExitCode::SUCCESS,
            true => Code::Usage.into(),
        },
    }
}

fn run_proxy(proxy: Proxy) -> Result<ExitCode, ProxyError> {
    raise_descriptors();
    let setup = setup(&proxy)?;
    let serving = serve(setup, || setup_again(&proxy));
    runtime()?.block_on(serving)?;
    Ok(ExitCode::SUCCESS)
}

/// Does what options or the configuration file say, with files as they are now.
fn setup(proxy: &Proxy) -> Result<Setup, ProxyError> {
    if let Some(file) = &proxy.config {
        return Ok(configured(file)?);
    }
    let options = ConnectOptions {
        dbname: proxy.server.clone(),
        ..ConnectOptions::default()
    };
    let identity = proxy.identity.as_ref().expect("clap requires it");
    let owner = Settings {
        identity,
        evidence: &proxy.evidence,
        trust: trust(&proxy.list, &proxy.pool),
    };
    let mut service = service(options.target()?, &owner)?;
    service.tls = proxy.tls.files().as_ref().map(acceptor).transpose()?;
    Ok(Setup {
        listen: proxy.listen.clone(),
        metrics: proxy.metrics.clone(),
        service,
    })
}

fn setup_again(proxy: &Proxy) -> Result<Setup, Failure> {
    Ok(setup(proxy)?)
}

fn run_program(exec: Exec) -> Result<ExitCode, ProxyError> {
    let target = exec.connection.target()?;
    let owner = Settings {
        identity: &exec.identity,
        evidence: &exec.evidence,
        trust: trust(&exec.list, &exec.pool),
    };
    // What cannot be read is said before the program starts, and not by each of its connections.
    let service = service(target.clone(), &owner)?;
    let words = &exec.command;
    let code = match exec.in_process {
        true => runtime()?.block_on(client_exec_in_process(&target, &owner, words))?,
        false => runtime()?.block_on(client_exec(service, words))?,
    };
    Ok(code.into())
}

fn trust(list: &ListOptions, pool: &PoolOptions) -> ServerTrust {
    ServerTrust {
        types: list.trust_server_types,
        session_pool: pool.session_pool,
    }
}

fn service(target: Target, owner: &Settings<'_>) -> Result<Service, ProxyError> {
    let owners = OneOwner::load(owner.identity, owner.evidence.policy()?, owner.trust)?;
    let owners = Arc::new(owners);
    Ok(Service {
        target,
        owners,
        tls: None,
    })
}

/// Lets the process have as many descriptors as its hard limit says: a connection has two.
fn raise_descriptors() {
    // If the system refuses, connections wait for others to end.
    let _ = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
