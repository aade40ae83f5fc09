//! Is a data directory's `global/pg_control` sealed? The proof that the library was at work in a
//! program that made the directory; asked by the twins before they put a key file in place.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file, below `data`.
pub fn path(data: &Path) -> PathBuf {
    data.join("global/pg_control")
}

/// In clear it ends in zeros.
pub fn is_sealed(data: &Path) -> io::Result<bool> {
    let bytes = fs::read(path(data))?;
    let tail = bytes.get(4096..).unwrap_or_default();
    Ok(tail.iter().any(|&byte| byte != 0))
}
