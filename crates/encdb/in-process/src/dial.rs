//! A connection to the server, for a program that connects to the path of its socket.
//!
//! `pgseal client exec` writes the settings into a configuration file of the proxy in the socket's
//! directory, which only its user can enter, and names the directory in a variable.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use pgseal_engine::{error_response, Engine, Owner, Owners};
use pgseal_proxy::{configured, in_process, Service};

use crate::channel::Channel;
use crate::connection::Connection;

/// Returns the directory of the socket.
fn directory() -> Option<&'static Path> {
    static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = DIRECTORY.get_or_init(|| std::env::var_os(in_process::VARIABLE).map(PathBuf::from));
    found.as_deref()
}

/// Returns the server and its owners, or why there are none.
fn service() -> Result<&'static Service, String> {
    static SERVICE: OnceLock<Result<Service, String>> = OnceLock::new();
    let found = SERVICE.get_or_init(|| {
        let directory = directory().ok_or("there are no settings")?;
        let setup = configured(&in_process::settings(directory));
        setup
            .map(|it| it.service)
            .map_err(|error| error.to_string())
    });
    found.as_ref().map_err(Clone::clone)
}

/// Is this the path of the socket at which nobody listens?
pub fn is_ours(path: &[u8]) -> bool {
    let asked = Path::new(OsStr::from_bytes(path));
    directory().is_some_and(|directory| in_process::socket(directory) == asked)
}

/// Connects to the server. Where that fails, the program reads why on the connection.
pub fn dial() -> io::Result<(OwnedFd, Connection)> {
    let failed = match connect() {
        Ok(parts) => return Ok(parts),
        Err(text) => text,
    };
    let (program, ended) = UnixStream::pair()?;
    program.set_nonblocking(true)?;
    drop(ended);
    let engine = Engine::new(Arc::new(Nobody));
    let text = error_response("08001", &format!("pgseal has no connection: {failed}"));
    Ok((program.into(), Connection::refused(engine, text)))
}

fn connect() -> Result<(OwnedFd, Connection), String> {
    let service = service()?;
    let text = |error: io::Error| error.to_string();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().map_err(text)?;
    let parts = runtime.block_on(service.target.parts());
    let parts = parts.map_err(|error| error.to_string())?;
    let channel = match parts.tls {
        Some(tls) => Channel::Tls(tls),
        None => Channel::Clear,
    };
    let engine = Engine::new(service.owners.clone());
    Ok((parts.socket, Connection::new(engine, channel)))
}

/// The owners where there is no connection.
struct Nobody;

impl Owners for Nobody {
    fn owner(&self, _user: &str, _database: &str) -> Option<Owner> {
        None
    }
}
