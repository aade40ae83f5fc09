//! The file of a file slot.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use pgseal_format::PAYLOAD;
use zeroize::Zeroizing;

use super::KeyFileReadError;

/// Reads a payload and some white space. Whatever else `path` is, no more of it is read.
pub fn read_payload(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyFileReadError> {
    let mut text = Zeroizing::new(Vec::with_capacity(PAYLOAD + 8));
    File::open(path)
        .and_then(|file| file.take(112).read_to_end(&mut text))
        .map_err(|error| KeyFileReadError(path.to_owned(), error))?;
    Ok(text)
}
