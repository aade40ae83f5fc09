//! The bytes of one file, read as they are stored and written as they shall be.
//!
//! What a server reads from the copy is what it read from the file. Runs of whole pages are one
//! transfer each way; edges and tails are the storage crate's business.

use pgseal_crypto::UNIT;
use pgseal_storage::disk::write_full;
use pgseal_storage::restore::Stored;
use pgseal_storage::scratch::{Scratch, RUN_UNITS};
use pgseal_storage::{Disk, Errno, Transfer};
use zeroize::Zeroize;

/// How whole pages that read as zeros are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeros {
    /// They are written like all others.
    Write,
    /// They are stored as zeros.
    Keep,
    /// They become holes.
    Hole,
}

const RUN: usize = RUN_UNITS * UNIT;

/// Working memory of one thread.
#[repr(C, align(4096))]
pub struct Work {
    /// Pages in clear: aligned, so that they are decrypted where they are read.
    clear: [u8; RUN],
    scratch: Scratch,
}

impl Work {
    /// Empty memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            clear: [0; RUN],
            scratch: Scratch::new(),
        }
    }
}

impl Default for Work {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.clear.zeroize();
        self.scratch.unit.zeroize();
    }
}

/// Copies all of `source` to the empty file `target`, and calls `progress` with the bytes of each
/// run. Fails with EIO if it copies more or less than `source` had at the start.
pub fn copy<D: Disk>(
    (source, from): (&D, &Stored),
    (target, to): (&D, &Stored),
    zeros: Zeros,
    work: &mut Work,
    progress: &impl Fn(u64),
) -> Result<(), Errno> {
    let size = source.size()?;
    let mut at = 0;
    loop {
        let mut reading = Transfer::new(source, &mut work.scratch);
        let have = from.read(&mut reading, &mut work.clear, at)?;
        let mut writing = Transfer::new(target, &mut work.scratch);
        write_run(to, &mut writing, zeros, &work.clear[..have], at)?;
        at += have as u64;
        progress(have as u64);
        if have < RUN {
            break;
        }
    }
    if target.size()? < at {
        // It ends in a hole.
        target.set_size(at)?;
    }
    let whole = at == size && target.size()? == size;
    whole.then_some(()).ok_or(Errno::EIO)
}

fn write_run(
    to: &Stored,
    transfer: &mut Transfer<impl Disk>,
    zeros: Zeros,
    clear: &[u8],
    at: u64,
) -> Result<(), Errno> {
    if zeros == Zeros::Write {
        return to.write(transfer, clear, at);
    }
    let is_hole = |page: &[u8]| page.len() == UNIT && page.iter().all(|&byte| byte == 0);
    let mut done = 0;
    while done < clear.len() {
        let rest = &clear[done..];
        let hole = is_hole(&rest[..rest.len().min(UNIT)]);
        let same = rest
            .chunks(UNIT)
            .take_while(|page| is_hole(page) == hole)
            .map(<[u8]>::len)
            .sum();
        let (run, at) = (&rest[..same], at + done as u64);
        match (hole, zeros) {
            (true, Zeros::Hole) => {}
            (true, _) => write_full(transfer.disk, run, at).map_err(|(_, errno)| errno)?,
            (false, _) => to.write(transfer, run, at)?,
        }
        done += same;
    }
    Ok(())
}
