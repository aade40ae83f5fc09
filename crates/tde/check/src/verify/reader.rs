//! Reading a sealed file page by page: each as it is stored, and in clear.

use indicatif::ProgressBar;
use pgseal_crypto::{BLOCK, UNIT};
use pgseal_keys::raw::Raw;
use pgseal_storage::disk::read_full;
use pgseal_storage::layout::PAGE;
use pgseal_storage::scratch::Scratch;
use pgseal_storage::{Errno, SealedFile, Transfer};

use crate::pages::Page;

/// A page in both forms. A hole is zeros in clear.
pub struct Pair<'a> {
    pub stored: &'a Page,
    pub clear: &'a Page,
}

impl Pair<'_> {
    /// Zeros that nobody sealed, all of them or some: who zeroes a page except a sector that held
    /// zeros must not hide it, and an extension that a crash tore looks the same.
    pub fn is_hole(&self) -> bool {
        is_zero(self.clear) && self.has_stored_zeros()
    }

    /// Ciphertext has 16 zero bytes in a row at such a place once in 2^128 blocks.
    pub fn has_stored_zeros(&self) -> bool {
        self.stored.chunks_exact(BLOCK).any(is_zero)
    }
}

/// Gives each whole page of the file to `each`, with its number; a part of a page at the end is
/// left out.
pub fn pages(
    sealed: &SealedFile<'_>,
    transfer: &mut Transfer<Raw>,
    bar: &ProgressBar,
    mut each: impl FnMut(u64, Result<Pair<'_>, Errno>),
) {
    let Scratch { run, unit } = transfer.scratch;
    let mut offset = 0;
    loop {
        match read_run(transfer.disk, run, offset) {
            Ok(have) if have < UNIT => return,
            Ok(have) => {
                for stored in run[..have].chunks_exact(UNIT) {
                    let stored: &Page = stored.try_into().expect("a chunk is a page");
                    unit.copy_from_slice(stored);
                    sealed.open_in_place(unit, offset);
                    each(
                        offset / PAGE,
                        Ok(Pair {
                            stored,
                            clear: unit,
                        }),
                    );
                    offset += PAGE;
                }
                bar.inc(have as u64);
            }
            Err(errno) => {
                each(offset / PAGE, Err(errno));
                offset += PAGE;
                bar.inc(PAGE);
            }
        }
    }
}

/// As many pages as fit; if they cannot be read, the first alone.
fn read_run(disk: &Raw, run: &mut [u8], offset: u64) -> Result<usize, Errno> {
    read_full(disk, run, offset).or_else(|_| read_full(disk, &mut run[..UNIT], offset))
}

pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
