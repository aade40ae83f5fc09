//! The subcommands, one file each.

mod agent;
pub mod audit;
mod beside;
pub mod bindir;
pub mod client;
pub mod clone;
mod disable;
mod doctor;
mod enable;
mod exec;
mod exporter;
pub mod key;
pub mod receiver;
mod rekey;
mod seal;
pub mod status;
mod unlock;
mod unseal;
pub mod verify;
mod wal_get;
mod wal_put;

use std::process::ExitCode;

use pgseal_keys::approved::{self, NotApproved};
use pgseal_keys::exit::Failure;
use pgseal_wrapper::launch;

use crate::cli::key::KeyCommand;
use crate::cli::receiver::ReceiverCommand;
use crate::cli::Command;

/// Does what the command line says.
pub fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Bench(args) => Err(beside::run(launch::BENCH, &args.arguments)),
        Command::Proxy(args) => Err(columns("pgseal proxy")
            .err()
            .unwrap_or_else(|| beside::run(launch::PROXY, &args.arguments))),
        Command::Bindir(args) => bindir::run(&args),
        Command::Client(command) => columns("pgseal client").and_then(|()| client::run(command)),
        Command::Clone(args) => clone::run(args),
        Command::Enable(args) => enable::run(&args),
        Command::Disable(args) => disable::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Exec(args) => exec::run(args),
        Command::Agent(args) => agent::run(&args),
        Command::Exporter(args) => exporter::run(args),
        Command::Verify(args) => verify::run(&args),
        Command::Seal(args) => seal::run(&args),
        Command::Unseal(args) => unseal::run(&args),
        Command::Rekey(args) => rekey::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Key(KeyCommand::Audit(args)) => key::audit::run(&args),
        Command::Key(KeyCommand::Backup(args)) => key::backup::run(&args),
        Command::Key(KeyCommand::Restore(args)) => key::restore::run(&args),
        Command::Key(KeyCommand::List(args)) => key::list::run(&args),
        Command::Key(KeyCommand::Add(args)) => key::wrap::add(&args),
        Command::Key(KeyCommand::Remove(args)) => key::remove::run(&args),
        Command::Key(KeyCommand::Label(args)) => key::label::run(&args),
        Command::Key(KeyCommand::Wrap(args)) => key::wrap::run(args),
        Command::Key(KeyCommand::Unwrap(args)) => key::unwrap::run(&args),
        Command::Key(KeyCommand::Check(args)) => key::check::run(&args),
        Command::Key(KeyCommand::Rotate(args)) => key::rotate::run(args),
        Command::Receiver(ReceiverCommand::Grant(args)) => receiver::grant(&args),
        Command::Receiver(ReceiverCommand::List(args)) => receiver::list(&args),
        Command::Receiver(ReceiverCommand::Revoke(args)) => receiver::revoke(&args),
        Command::WalGet(args) => Ok(wal_get::run(&args)),
        Command::WalPut(args) => wal_put::run(&args),
        Command::Unlock(args) => unlock::run(&args),
    }
}

/// Encrypted columns use functions that are not approved.
fn columns(command: &'static str) -> Result<(), Failure> {
    approved::refuse(NotApproved::Command(command))
}
