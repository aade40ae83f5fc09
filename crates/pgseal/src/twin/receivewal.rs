//! The twin of pg_receivewal: what it receives from a sealed server lies in its directory as the
//! server's own archive would hold it, sealed under the server's key, whatever the directory is.
//!
//! The key comes from the server at each start, so nothing is kept beside the segments. A sealed
//! server restores from there with plain `cp`; pg_waldump reads them with the server's key file.
//! What `--compress` makes is the same, compressed: the library seals it before.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::slice;

use super::getopt::PG_RECEIVEWAL;
use super::options::{self, Split};
use super::source::{Source, RECEIVER, SEGMENT_SIZE};
use super::{help, pin, Twin};
use crate::cluster::Root;
use crate::exit::Failure;
use crate::unlock::unlock_received;

/// A flush ends in the middle of a block, which is sealed and compressed when it is whole.
#[derive(Debug, thiserror::Error)]
#[error("compressed segments of a sealed server cannot be flushed at each commit: leave --compress or --synchronous out")]
pub struct Compressed;

/// pg_receivewal, sealed if the server is.
pub fn run(twin: &Twin, args: Vec<OsString>) -> Result<ExitCode, Failure> {
    let split: Split = options::split("pg_receivewal", args)?;
    if help::is_informative(&split.rest) {
        return Err(twin.sealed(&split.rest)?.exec());
    }
    let given = PG_RECEIVEWAL.read(&split.rest);
    let Some(source) = twin.ask(&split, &given)? else {
        return twin.plain(&split);
    };
    let Some(theirs) = &source.key_file else {
        return twin.plain(&split);
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
    let mut sealed = twin.sealed(&split.rest)?;
    sealed.keys(slice::from_ref(&cluster))?;
    sealed.tell(SEGMENT_SIZE, source.segment_size.to_string());
    sealed.tell(RECEIVER, source.own_token());
    Err(sealed.exec())
}
