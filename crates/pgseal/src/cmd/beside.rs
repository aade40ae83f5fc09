//! Subcommands that are programs of their own, installed beside this one: `pgseal bench`, `pgseal
//! proxy` and `pgseal client exec`. Their help and their exit codes are their own.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_wrapper::launch::{self, LaunchError};

/// The program is not there.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not installed: build it with `make build`, and install it beside pgseal")]
struct NotInstalled(PathBuf);

impl Exit for NotInstalled {
    fn code(&self) -> Code {
        Code::Io
    }
}

/// The first argument that makes the proxy's program run `pgseal client exec`.
const CLIENT_EXEC: &str = "client-exec";

/// Becomes the program behind `pgseal client exec`; returns only if that fails.
pub fn client_exec(mut arguments: Vec<OsString>) -> Failure {
    arguments.insert(0, CLIENT_EXEC.into());
    run(launch::PROXY, &arguments)
}

/// Becomes the program of this name; returns only if that fails.
pub fn run(name: &str, arguments: &[OsString]) -> Failure {
    let program = match launch::pgseal() {
        Ok(pgseal) => pgseal.with_file_name(name),
        Err(error) => return error.into(),
    };
    if !program.exists() {
        return NotInstalled(program).into();
    }
    let error = Command::new(&program).args(arguments).exec();
    LaunchError::Exec(program, error).into()
}
