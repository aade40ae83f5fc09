//! Compares the needs of a run with what there is, before anything is made.

use std::path::Path;

use nix::sys::statvfs::statvfs;

use crate::error::BenchError;
use crate::host::machine;

/// The most that a set of clusters takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Bytes below the data directory.
    pub disk: u64,
    /// Bytes of memory: shared buffers and backends.
    pub memory: u64,
}

/// Refuses what cannot succeed.
pub fn check(needs: Needs, data: &Path) -> Result<(), BenchError> {
    let free = statvfs(data).map_or(u64::MAX, |at| at.blocks_available() * at.fragment_size());
    compare(needs, data, free, machine::memory("MemAvailable:"))
}

fn compare(needs: Needs, data: &Path, disk: u64, memory: u64) -> Result<(), BenchError> {
    if needs.disk > disk {
        return Err(BenchError::Needs(format!(
            "the run needs {} of disk, and {} has {}: name a larger place with --data, or ask for smaller clusters",
            gigabytes(needs.disk), data.display(), gigabytes(disk)
        )));
    }
    if needs.memory > memory {
        return Err(BenchError::Needs(format!(
            "the run needs {} of memory, and {} are available: ask for smaller buffers or fewer connections",
            gigabytes(needs.memory), gigabytes(memory)
        )));
    }
    Ok(())
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_both_numbers() {
        let needs = Needs {
            disk: 12_300_000_000,
            memory: 2_000_000_000,
        };
        let text = |disk, memory| match compare(needs, Path::new("/srv"), disk, memory) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(text(12_300_000_000, 2_000_000_000), "");
        let disk = "the run needs 12.3 GB of disk, and /srv has 4.0 GB: ";
        assert!(text(4_000_000_000, u64::MAX).starts_with(disk));
        let memory = "the run needs 2.0 GB of memory, and 1.0 GB are available: ";
        assert!(text(u64::MAX, 1_000_000_000).starts_with(memory));
    }
}
