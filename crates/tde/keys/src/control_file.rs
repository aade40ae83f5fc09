//! A data directory's `global/pg_control`, read from outside: its fields, read with its key, and
//! whether it is sealed at all.
//!
//! A sealed file proves that the library was at work in a program that made the directory. The
//! wrappers ask for that before they put a key file in place, and before they start a server
//! without one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use pgseal_crypto::{FileCipher, KeyLength, MasterKey, UNIT};
use pgseal_storage::classify::{classify, Class};
use pgseal_storage::control::{Control, ControlError};
use pgseal_storage::scratch::Scratch;
use pgseal_storage::{Errno, SealedFile, Transfer};

use crate::exit::{Code, Exit};
use crate::raw::Raw;

/// `pg_control` is not there or cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read ({}): give a data directory with -D, and run pgseal as the server's user", .0.display(), .1)]
pub struct ControlReadError(PathBuf, io::Error);

impl Exit for ControlReadError {
    fn code(&self) -> Code {
        Code::Io
    }
}

impl Exit for ControlError {
    fn code(&self) -> Code {
        match self {
            Self::Blocks(..) | Self::Version(_) => Code::NotGuaranteed,
            _ => Code::Io,
        }
    }
}

/// Returns the path of the file below `data`.
pub fn path(data: &Path) -> PathBuf {
    data.join("global/pg_control")
}

/// Whether the file is sealed. A clear one ends in zeros. So does one that a raw base backup
/// carried, but its values make no sense.
pub fn is_sealed(data: &Path) -> io::Result<bool> {
    let bytes = fs::read(path(data))?;
    let tail = bytes.get(4096..).unwrap_or_default();
    let carried = matches!(Control::parse(&bytes), Err(ControlError::Value(_)));
    Ok(carried || tail.iter().any(|&byte| byte != 0))
}

/// The file's fields, and its bytes in clear.
pub struct Read {
    pub said: Result<Control, ControlError>,
    pub page: Vec<u8>,
}

/// Reads the file with its key. A server may be writing it meanwhile, so a wrong checksum is read
/// again.
pub fn read(data: &Path, master: &MasterKey, length: KeyLength) -> Result<Read, ControlReadError> {
    const TRIES: usize = 10;
    let mut tries = 1..TRIES;
    loop {
        let page = page(&path(data), master, length);
        let page = page.map_err(|error| ControlReadError(path(data), error))?;
        let said = Control::parse(&page);
        if said != Err(ControlError::Checksum) || tries.next().is_none() {
            return Ok(Read { said, page });
        }
        sleep(Duration::from_millis(10));
    }
}

fn page(path: &Path, master: &MasterKey, length: KeyLength) -> io::Result<Vec<u8>> {
    let Class::Sealed(spec) = classify(b"global/pg_control").class else {
        unreachable!("pg_control is sealed");
    };
    let sealed = SealedFile::new(FileCipher::new(master, length, &spec.id), spec.layout);
    let (disk, mut page) = (Raw(File::open(path)?), vec![0; UNIT]);
    let done = sealed
        .read_at(&mut Transfer::new(&disk, &mut Scratch::new()), &mut page, 0)
        .map_err(|Errno(code)| io::Error::from_raw_os_error(code))?;
    page.truncate(done);
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_version_does_not_know_has_a_code_of_its_own() {
        let codes = [ControlError::Version(1), ControlError::Checksum].map(|error| error.code());
        assert_eq!(codes, [Code::NotGuaranteed, Code::Io]);
    }

    /// A page that a server is writing is read again; one that stays wrong is wrong.
    #[test]
    fn only_a_wrong_checksum_is_read_again() {
        let data = tempfile::tempdir().expect("a directory");
        fs::create_dir(data.path().join("global")).expect("a directory");
        let master = MasterKey::from_bytes(&mut [1; 32]);
        let said = |bytes: &[u8]| {
            fs::write(path(data.path()), bytes).expect("a file");
            let start = std::time::Instant::now();
            let read = read(data.path(), &master, KeyLength::Bits256).expect("a file");
            (read.said.err(), start.elapsed() > Duration::from_millis(80))
        };
        // The clear head gives the version; the rest is of no key.
        let mut page = vec![7; UNIT];
        page[8..12].copy_from_slice(&1300u32.to_le_bytes());
        assert_eq!(said(&page), (Some(ControlError::Checksum), true));
        page[8..12].copy_from_slice(&9999u32.to_le_bytes());
        assert_eq!(said(&page), (Some(ControlError::Version(9999)), false));
    }
}
