//! A thread that serves one socket.

use std::ffi::{CString, NulError};
use std::path::PathBuf;
use std::process;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::{env, io};

use nix::sys::signal::SigSet;
use pgseal_client::{conninfo, Target};
use pgseal_proxy::{PrivateError, PrivateServer, Service, PORT};
use tokio::sync::oneshot;

use crate::options::{Options, OptionsError};

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options, or the files that they name
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The socket
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// The thread
    #[error("the thread that serves connections cannot be started: {0}")]
    Thread(#[source] io::Error),
    /// A zero byte, which no string of C has
    #[error("a name has a zero byte in it: {0}")]
    Zero(#[from] NulError),
}

/// A client that serves.
#[derive(Debug)]
pub struct Running {
    thread: JoinHandle<()>,
    stop: oneshot::Sender<()>,
    /// The process that it serves: a child has not the thread
    process: u32,
    /// The connection string, by its keywords
    parameters: Vec<(&'static str, CString)>,
    conninfo: CString,
}

impl Running {
    /// Starts to serve. Returns when drivers can connect.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let options = options.with_environment(|name| env::var(name).ok());
        let target = options.target()?;
        let given = given(&target);
        let (told, hears) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("pgseal".to_owned());
        // The files are read by the thread too: the caller's stack may be a small one.
        let serve = move || match options.service(target) {
            Ok(service) => serve(service, &told, stopped),
            Err(error) => _ = told.send(Err(error.into())),
        };
        let thread = thread.spawn(serve).map_err(StartError::Thread)?;
        let ended = || StartError::Thread(io::ErrorKind::BrokenPipe.into());
        let directory = hears.recv().map_err(|_| ended())??;
        let mut parameters = vec![("host", directory.display().to_string())];
        parameters.extend(given);
        let conninfo = CString::new(conninfo(&parameters))?;
        let of_c = |(name, value)| Ok((name, CString::new(value)?));
        let parameters = parameters.into_iter().map(of_c);
        Ok(Self {
            thread,
            stop,
            process: process::id(),
            parameters: parameters.collect::<Result<_, NulError>>()?,
            conninfo,
        })
    }

    /// Returns what the connection string says of a keyword.
    pub fn parameter(&self, keyword: &str) -> Option<&CString> {
        let mut parameters = self.parameters.iter();
        let (_, value) = parameters.find(|(name, _)| *name == keyword)?;
        Some(value)
    }

    /// Returns the port in the socket's name.
    pub fn port(&self) -> u16 {
        PORT
    }

    /// Returns a connection string for libpq.
    pub fn conninfo(&self) -> &CString {
        &self.conninfo
    }

    /// Ends the connections, and removes the socket. In a child of the process that started it,
    /// this does nothing: thread and socket are the parent's.
    pub fn stop(self) {
        if self.process == process::id() {
            // A thread that has ended already hears nothing.
            let _ = self.stop.send(());
            let _ = self.thread.join();
        }
    }
}

/// Returns the directory of the socket once, or why there is none.
type Told = mpsc::Sender<Result<PathBuf, StartError>>;

/// Serves until it is told to stop. Signals are for the threads of the application.
fn serve(service: Service, told: &Told, stopped: oneshot::Receiver<()>) {
    let blocked = SigSet::all().thread_block().map_err(io::Error::from);
    let runtime = blocked.and_then(|()| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build()
    });
    match runtime {
        Ok(runtime) => runtime.block_on(serve_until(service, told, stopped)),
        Err(error) => _ = told.send(Err(StartError::Thread(error))),
    }
}

async fn serve_until(service: Service, told: &Told, stopped: oneshot::Receiver<()>) {
    match PrivateServer::listen(service).await {
        Ok(mut server) => {
            // Who has started this waits for it.
            let _ = told.send(Ok(server.directory().to_owned()));
            tokio::select! {
                never = server.run() => match never {},
                _ = stopped => {}
            }
        }
        Err(error) => _ = told.send(Err(error.into())),
    }
}

/// Returns what a connection string has beside the host: the socket speaks no TLS, and role,
/// database and password are those of the server.
fn given(target: &Target) -> Vec<(&'static str, String)> {
    let config = &target.config;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let given = [
        ("port", Some(PORT.to_string())),
        ("sslmode", Some("disable".to_owned())),
        ("gssencmode", Some("disable".to_owned())),
        ("user", config.get_user().map(str::to_owned)),
        ("dbname", Some(target.database().to_owned())),
        ("password", config.get_password().map(text)),
        ("options", config.get_options().map(str::to_owned)),
    ];
    let given = given.into_iter();
    given
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_leads_to_the_socket_with_what_the_server_wants() {
        let mut options = Options::default();
        let server = r"host=db.example.org port=6432 user='o\'neil' password='a b\\' dbname=shop";
        options.set("server", server).expect("it is known");
        let given = given(&options.target().expect("it is a connection string"));
        assert_eq!(
            conninfo(&given),
            r"port='5432' sslmode='disable' gssencmode='disable' user='o\'neil' dbname='shop' password='a b\\'"
        );
    }
}
