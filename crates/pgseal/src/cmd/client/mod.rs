//! `pgseal client`: an owner of encrypted columns at work, one file per subcommand. What is done is
//! `pgseal-client`'s; here are files, standard input and tables of text.

mod column;
mod connect;
mod exit;
mod grant;
mod init;
mod key;
mod print;
mod protect;
mod script;
mod sql;
mod value;

use std::future::Future;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pgseal_client::tokio_postgres::Client;
use pgseal_client::{
    from_hex, ClientError, Identity, IdentityFile, IdentityFileError, OwnersList, ProtectError,
    Resolver, Serial, Session, SessionOptions, Target,
};
use pgseal_keys::exit::Failure;
use pgseal_options::EvidenceError;
use zeroize::Zeroizing;

use crate::cli::client::{
    ClientColumnCommand, ClientCommand, ClientGrantCommand, ClientKeyCommand, ClientOptions,
    TrustOptions,
};
use crate::cmd::beside;
use crate::output::OutputError;

/// Why a subcommand of `client` ended.
#[derive(Debug, thiserror::Error)]
pub enum ClientFailure {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Identity(#[from] IdentityFileError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("the runtime cannot be started, or a file or standard input fails: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    #[error("{0:?} is not {1}")]
    Not(String, &'static str),
    #[error(transparent)]
    Protect(#[from] ProtectError),
    #[error("{0}")]
    Script(#[from] script::ScriptError),
}

/// Does what the command line says.
pub fn run(command: ClientCommand) -> Result<ExitCode, Failure> {
    match command {
        ClientCommand::Exec(args) => return Err(beside::client_exec(args.arguments)),
        ClientCommand::Init(args) => init::run(&args),
        ClientCommand::Connect(args) => wait_for(connect::run(&args)),
        ClientCommand::Key(ClientKeyCommand::List(args)) => wait_for(key::list(&args)),
        ClientCommand::Key(ClientKeyCommand::New(args)) => wait_for(key::new(&args)),
        ClientCommand::Seal(args) => wait_for(value::seal(&args)),
        ClientCommand::Open(args) => wait_for(value::open(&args)),
        ClientCommand::Grant(ClientGrantCommand::Add(args)) => wait_for(grant::add(&args)),
        ClientCommand::Grant(ClientGrantCommand::List(args)) => wait_for(grant::list(&args)),
        ClientCommand::Grant(ClientGrantCommand::Revoke(args)) => wait_for(grant::revoke(&args)),
        ClientCommand::Grant(ClientGrantCommand::Restore(args)) => wait_for(grant::restore(&args)),
        ClientCommand::Column(ClientColumnCommand::Add(args)) => wait_for(column::add(&args)),
        ClientCommand::Column(ClientColumnCommand::List(args)) => column::list(&args),
        ClientCommand::Column(ClientColumnCommand::Forget(args)) => column::forget(&args),
        ClientCommand::Protect(args) => wait_for(protect::run(&args)),
        ClientCommand::Sql(args) => wait_for(sql::run(&args)),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn wait_for(work: impl Future<Output = Result<(), ClientFailure>>) -> Result<(), ClientFailure> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build()?.block_on(work)
}

/// The use of a session. By default it sends no values, and needs no list of columns.
#[derive(Clone, Copy, Default)]
struct Purpose {
    /// It puts a list of revoked grants back that the server has lost.
    restores: bool,
    /// It sends values, and the owner's list says which are encrypted.
    needs_list: bool,
}

impl ClientOptions {
    fn file(&self) -> Result<IdentityFile, IdentityFileError> {
        IdentityFile::load(&self.identity)
    }

    fn identity(&self) -> Result<Identity, IdentityFileError> {
        Ok(self.file()?.identity)
    }

    /// The database, by the name that the identity keeps it under.
    fn database(&self) -> Result<String, ClientError> {
        Ok(self.target()?.database().to_owned())
    }

    fn target(&self) -> Result<Target, ClientError> {
        self.connection.target()
    }

    async fn connect(&self) -> Result<Client, ClientError> {
        self.target()?.connect().await
    }

    /// The key that was named, or else that of role and database.
    fn keyname(&self, named: Option<&String>) -> Result<String, ClientError> {
        match named {
            Some(name) => Ok(name.clone()),
            None => Ok(self.target()?.default_keyname()),
        }
    }

    async fn session(
        &self,
        trust: &TrustOptions,
        key: Option<&String>,
    ) -> Result<Session, ClientFailure> {
        self.session_for(trust, key, Purpose::default()).await
    }

    async fn session_for(
        &self,
        trust: &TrustOptions,
        key: Option<&String>,
        purpose: Purpose,
    ) -> Result<Session, ClientFailure> {
        let list = self.file()?.kept.database(&self.database()?);
        let client = self.connect().await?;
        self.session_on(client, trust, key, (list, purpose)).await
    }

    /// A session on this connection, which compares the server with this list.
    async fn session_on(
        &self,
        client: Client,
        trust: &TrustOptions,
        key: Option<&String>,
        (list, purpose): (OwnersList, Purpose),
    ) -> Result<Session, ClientFailure> {
        let (file, policy) = (self.file()?, trust.evidence.policy()?);
        let options = SessionOptions {
            lifetime: Duration::from_secs(trust.until.saturating_sub(now())),
            list,
            restores: purpose.restores,
            trusts_server_types: !purpose.needs_list,
            ..SessionOptions::new(Resolver::new(&self.keyname(key)?))
        };
        let identity = Arc::new(file.identity);
        let session = Session::open(client, identity, Arc::new(policy), options).await?;
        self.keep(&session)?;
        Ok(session)
    }

    /// Takes grants back in the database, and keeps the list of them.
    async fn revoke(&self, serials: &[Serial]) -> Result<(), ClientFailure> {
        let (file, client) = (self.file()?, self.connect().await?);
        let mut list = file.kept.database(&self.database()?);
        pgseal_client::revoke(&client, &file.identity, &mut list, false, serials).await?;
        self.keep_list(&file.identity, &list)
    }

    fn keep(&self, session: &Session) -> Result<(), ClientFailure> {
        self.keep_list(session.identity(), session.list())
    }

    /// Keeps the list of revoked grants that was seen. An application's file keeps what it
    /// was made with: it may be one that only its owner can write. Where the owner's own cannot be
    /// written either, what was seen holds until the command ends.
    fn keep_list(&self, identity: &Identity, list: &OwnersList) -> Result<(), ClientFailure> {
        let (mut file, database) = (self.file()?, self.database()?);
        let seen = list.revocations();
        if file.kept.database(&database).revocations() == seen || !identity.is_owner() {
            return Ok(());
        }
        let owner = identity.owner();
        let seen = seen.and_then(|seen| seen.clone().verify(&owner).ok());
        let kept = file.update(|kept| {
            seen.iter()
                .for_each(|seen| _ = kept.database_mut(&database).saw(seen));
        });
        match kept {
            Err(unwritten @ IdentityFileError::Write(..)) => {
                warn(&format!(
                    "{unwritten}: it does not keep which grants were revoked, and the next \
                     command does not notice when the server shows fewer; let the file and its \
                     directory be written"
                ));
                Ok(())
            }
            kept => Ok(kept?),
        }
    }
}

fn not(text: &str, what: &'static str) -> ClientFailure {
    ClientFailure::Not(text.to_owned(), what)
}

/// Public bytes of a known number, in hexadecimal.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    from_hex(text)?.as_slice().try_into().ok()
}

/// All of standard input as one value, without the last end of line.
fn input() -> io::Result<Zeroizing<String>> {
    let mut text = lines()?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// All of standard input. Where each line is a row, an empty last one is a row too.
fn lines() -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

/// Says on standard error what does not keep a command from its work.
fn warn(text: &str) {
    // Nobody is left to be told if that fails.
    let _ = writeln!(io::stderr(), "pgseal: warning: {text}");
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
