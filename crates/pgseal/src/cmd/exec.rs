//! `pgseal exec -- COMMAND …`: one program, sealed, with the keys of the clusters that it names.
//!
//! With `--view=backup` it gets none: the library unlocks the cluster when the program opens
//! `pg_control`. Most runs of a backup tool do not, and a restore has no key file before its end.
//! With `--view=stored` no key is ever asked for.

use std::env;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pgseal_keys::exit::Failure;
use pgseal_keys::key_set::KeySet;
use pgseal_keys::pin;
use pgseal_keys::unlock::unlock;
use pgseal_wrapper::launch::{LaunchError, Sealed};
use pgseal_wrapper::paths;

use crate::cli::{ExecArgs, View};

pub fn run(args: ExecArgs) -> Result<ExitCode, Failure> {
    let (name, rest) = args.command.split_first().expect("clap requires a command");
    let mut sealed = Sealed::new(&find(Path::new(name))?, name, rest)?;
    if let Some(view) = args.view {
        sealed.view(match view {
            View::Backup => &args.pgdata,
            View::Stored => &[],
        })?;
        return Err(sealed.exec());
    }
    sealed.act();
    let ways = args.unlock.ways().or_agent();
    let mut candidates = args.pgdata;
    candidates.extend(paths::candidates(rest));
    let clusters = paths::sealed_roots(&candidates)?
        .into_iter()
        .map(|root| unlock(root, &ways))
        .collect::<Result<Vec<_>, _>>()?;
    if !clusters.is_empty() {
        let keys = KeySet::of(&clusters);
        pin::check_keys(&keys)?;
        sealed.keys(&keys)?;
    }
    Err(sealed.exec())
}

/// As a shell finds it.
fn find(name: &Path) -> Result<PathBuf, LaunchError> {
    if name.as_os_str().as_bytes().contains(&b'/') {
        return Ok(name.to_owned());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|program| program.is_file())
        .ok_or_else(|| LaunchError::Exec(name.to_owned(), std::io::ErrorKind::NotFound.into()))
}
