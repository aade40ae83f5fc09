//! `pgseal unlock`: called by the library when it meets a sealed cluster whose key it lacks.

use std::io::Write;
use std::process::ExitCode;

use crate::cli::UnlockArgs;
use crate::cluster::Root;
use crate::exit::Failure;
use crate::handover::{self, HandoverFdError};
use crate::twin::pin;
use crate::unlock::{unlock, Ways};

pub fn run(args: &UnlockArgs) -> Result<ExitCode, Failure> {
    let mut receiver = handover::receiver(args.fd)?;
    let unlocked = unlock(Root::required(&args.root)?, &Ways::default())?;
    let record = handover::record(&[unlocked])?;
    pin::check_record(&record)?;
    receiver.write_all(&record).map_err(HandoverFdError::from)?;
    Ok(ExitCode::SUCCESS)
}
