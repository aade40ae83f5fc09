//! The wrapper of `pg_receivewal`: what it receives from a sealed server is in its directory as
//! the server's own archive would hold it, sealed under the server's key, whatever the directory
//! is.
//!
//! The key comes from the server at each start, so nothing is kept beside the segments. A sealed
//! server restores from there with plain `cp`; `pg_waldump` reads them with the server's key file.
//! With `--compress` the files hold the same bytes, compressed: the library seals before.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::slice;

use pgseal_keys::cluster::Root;
use pgseal_keys::exit::{Code, Exit, Failure};
use pgseal_keys::key_set::KeySet;
use pgseal_keys::unlock::unlock_received;

use crate::getopt::PG_RECEIVEWAL;
use crate::options::{self, Split};
use crate::source::{Source, RECEIVER, SEGMENT_SIZE};
use crate::{help, pin, Wrapper};

/// The refusal of compression with flushes at each commit. A flush ends in the middle of a block,
/// which is sealed and compressed when it is whole.
#[derive(Debug, thiserror::Error)]
#[error("compressed segments of a sealed server cannot be flushed at each commit: leave --compress or --synchronous out")]
pub struct Compressed;

impl Exit for Compressed {
    fn code(&self) -> Code {
        Code::Usage
    }
}

/// Runs `pg_receivewal`, sealed if the server is.
pub fn run(wrapper: &Wrapper, args: Vec<OsString>) -> Result<ExitCode, Failure> {
    let split: Split = options::split("pg_receivewal", args)?;
    if help::is_informative(&split.rest) {
        return Err(wrapper.sealed(&split.rest)?.exec());
    }
    let given = PG_RECEIVEWAL.read(&split.rest);
    let Some(source) = wrapper.ask(&split, &given)? else {
        return wrapper.plain(&split);
    };
    let Some(theirs) = &source.key_file else {
        return wrapper.plain(&split);
    };
    let compresses =
        |how: &OsStr| !(how.is_empty() || how == "0" || how.as_bytes().starts_with(b"none"));
    if given.value("Z").is_some_and(compresses) && given.has("synchronous") {
        return Err(Compressed.into());
    }
    let directory = given.value("D").unwrap_or(OsStr::new("."));
    let root = Root::pending(Path::new(directory))?;
    let cluster = unlock_received(theirs, &Source::origin(), root, &split.ways())?;
    pin::check_key(&cluster)?;
    let mut sealed = wrapper.sealed(&split.rest)?;
    sealed.keys(&KeySet::of(slice::from_ref(&cluster)))?;
    sealed.tell(SEGMENT_SIZE, source.segment_size.to_string());
    sealed.tell(RECEIVER, source.own_token());
    Err(sealed.exec())
}
