//! The file that the script of sysbench maps, to be stopped by and to count in.
//!
//! It holds words of eight bytes, the least significant first: word 0 is not zero when the script
//! shall end, and word 1 + N counts the transactions of thread N.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{files, BenchError};

const WORD: u64 = 8;
/// One page, which the script maps: words for 256 threads and more.
const SIZE: u64 = 4096;

/// The file, for as long as a script runs.
#[derive(Debug)]
pub(super) struct Board {
    path: PathBuf,
    file: File,
}

impl Board {
    /// Makes a file of zeros, in the place of one that was there.
    pub(super) fn make(path: &Path) -> Result<Self, BenchError> {
        let mut open = OpenOptions::new();
        open.read(true).write(true).create(true).truncate(true);
        let file = open.open(path).map_err(files(path))?;
        file.set_len(SIZE).map_err(files(path))?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Its path, for the script.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Asks the threads to end after the transaction that they are in.
    pub(super) fn stop(&self) -> Result<(), BenchError> {
        let written = self.file.write_all_at(&1u64.to_le_bytes(), 0);
        written.map_err(files(&self.path))
    }

    /// Returns the transactions of each thread so far.
    pub(super) fn counts(&self, threads: u32) -> Result<Vec<u64>, BenchError> {
        let each = (1..=u64::from(threads)).map(|word| self.word(word * WORD));
        each.collect::<io::Result<_>>().map_err(files(&self.path))
    }

    fn word(&self, place: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, place)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_counts_behind_the_word_that_stops_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("board");
        let board = Board::make(&path).expect("a file");
        let script = OpenOptions::new()
            .write(true)
            .open(&path)
            .expect("it is there");
        script
            .write_all_at(&7u64.to_le_bytes(), 16)
            .expect("within the page");
        assert_eq!(board.counts(2).expect("two words"), [0, 7]);
        board.stop().expect("the file is there");
        assert_eq!(
            std::fs::read(&path).expect("the file")[..8],
            1u64.to_le_bytes()
        );
        assert_eq!(
            Board::make(&path)
                .expect("anew")
                .counts(2)
                .expect("two words"),
            [0, 0]
        );
    }
}
