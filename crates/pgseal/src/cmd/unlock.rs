//! `pgseal unlock`: called by the library when it meets a sealed cluster whose key it lacks.

use std::io::Write;
use std::process::ExitCode;

use pgseal_keys::cluster::Root;
use pgseal_keys::exit::Failure;
use pgseal_keys::key_set::{self, KeySet, KeySetError};
use pgseal_keys::pin;
use pgseal_keys::unlock::{unlock, Ways};

use crate::cli::UnlockArgs;

pub fn run(args: &UnlockArgs) -> Result<ExitCode, Failure> {
    let mut receiver = key_set::receiver(args.fd)?;
    let unlocked = unlock(Root::required(&args.root)?, &Ways::default().or_agent())?;
    let keys = KeySet::of(&[unlocked]);
    pin::check_keys(&keys)?;
    let record = keys.encode()?;
    receiver.write_all(&record).map_err(KeySetError::from)?;
    Ok(ExitCode::SUCCESS)
}
