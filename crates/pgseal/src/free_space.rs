//! How much a file system takes yet.

use std::io;
use std::path::Path;

use nix::sys::statvfs::statvfs;

/// Bytes that are free for this user on the file system of `path`.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let system = statvfs(path)?;
    Ok(system.blocks_available() * system.fragment_size())
}
