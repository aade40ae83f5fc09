//! Engines behind sockets: drivers connect as to their server, and each connection has an engine
//! that seals what is sent to encrypted columns, and opens what comes back.
//!
//! A [`Service`] says which server, whose keys and by which rules; a [`Server`] listens and serves
//! by it. [`client_exec`] runs one program with a server of its own.
//!
//! Invariants:
//! 1. A connection is served by an engine from its start packet on, or ends.
//! 2. A unix socket is open to its user alone, unless systemd made it.
//! 3. Nothing crosses a network in clear.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod cli;
mod config;
mod connection;
mod directory;
mod environment;
mod exec;
mod greeting;
pub mod in_process;
mod listener;
mod metrics;
mod monitor;
mod private;
mod pump;
mod serve;
mod service;
mod signals;

pub use config::{configured, ConfigError};
pub use connection::ConnectionError;
pub use directory::PORT;
pub use environment::VariableError;
pub use exec::{client_exec, client_exec_in_process, ExecError};
pub use greeting::acceptor;
pub use in_process::Settings;
pub use listener::{Address, ListenError, Listener};
pub use pgseal_engine::ServerTrust;
pub use pgseal_serving::tls::{TlsError, TlsFiles};
pub use private::{PrivateError, PrivateServer};
pub use serve::{serve, ServeError, Server, Setup};
pub use service::{OneOwner, Service};
