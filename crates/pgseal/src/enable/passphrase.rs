//! The passphrase of a cluster whose operator named no other protection: a file in `/etc/pgseal`.
//!
//! Invariant: a file that is there is never written. The key may depend on it.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{fchown, DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use pgseal_crypto::random_bytes;
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use super::child::Owner;

const DIRECTORY: &str = "/etc/pgseal";

/// The file of a cluster.
pub fn path(cluster: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{cluster}.passphrase"))
}

/// Makes a file with 256 random bits in hexadecimal, which root may write and the server's group
/// read. Whole or not at all: a killed run leaves no half of a passphrase.
pub fn make(path: &Path, owner: &Owner) -> io::Result<()> {
    const BYTES: usize = 32;
    let directory = path.parent().unwrap_or(Path::new("/"));
    match DirBuilder::new().mode(0o755).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let random = random_bytes::<BYTES>().map_err(io::Error::other)?;
    let random = Zeroizing::new(random);
    // At once as long as it gets: a buffer that grows leaves copies.
    let mut text = Zeroizing::new(String::with_capacity(2 * BYTES + 1));
    for byte in random.iter() {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    text.push('\n');
    let mut aside = NamedTempFile::new_in(directory)?;
    aside.write_all(text.as_bytes())?;
    fchown(aside.as_file(), Some(0), Some(owner.gid.as_raw()))?;
    aside
        .as_file()
        .set_permissions(Permissions::from_mode(0o640))?;
    aside.as_file().sync_all()?;
    aside.persist_noclobber(path)?;
    File::open(directory)?.sync_all()
}

fn digit(value: u8) -> char {
    char::from_digit(value.into(), 16).expect("four bits are one digit")
}

/// Can the server's user read it?
pub fn opens(path: &Path, owner: &Owner) -> bool {
    owner.act(|| File::open(path)).is_ok()
}
