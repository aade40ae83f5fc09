//! Renames across identities: the same clear bytes under another key and tweak.
//!
//! A rename that changes identity makes a new file, and never rewrites the old one in place. A
//! crash between the two steps must leave the source as it was, and a hard link may share its
//! bytes. The caller fsyncs and renames the new file.

use crate::disk::{read_full, write_full};
use crate::layout::PAGE;
use crate::scratch::{Scratch, RUN_UNITS};
use crate::sealed::is_zero;
use crate::{Disk, Errno, SealedFile, Transfer};
use pgseal_crypto::UNIT;

/// The form in which one end of a copy is stored.
pub enum Stored<'a, 'k> {
    /// The bytes are stored as they are.
    Clear,
    /// The bytes are sealed.
    Sealed(&'a SealedFile<'k>),
}

impl Stored<'_, '_> {
    /// Reads clear bytes at `at`; a short count is the end of the file.
    pub fn read(
        &self,
        transfer: &mut Transfer<impl Disk>,
        buf: &mut [u8],
        at: u64,
    ) -> Result<usize, Errno> {
        match self {
            Self::Clear => read_full(transfer.disk, buf, at),
            Self::Sealed(file) => file.read_at(transfer, buf, at),
        }
    }

    /// Writes clear bytes at `at`, all of them.
    pub fn write(
        &self,
        transfer: &mut Transfer<impl Disk>,
        data: &[u8],
        at: u64,
    ) -> Result<(), Errno> {
        let Self::Sealed(file) = self else {
            return write_full(transfer.disk, data, at).map_err(|(_, errno)| errno);
        };
        let mut done = 0;
        while done < data.len() {
            done += file.write_at(transfer, &data[done..], at + done as u64)?;
        }
        Ok(())
    }
}

/// Copies all of `source` to the empty file `target`. `page` holds clear bytes and is wiped.
pub fn copy<S: Disk, T: Disk>(
    (source, from): (&S, &Stored),
    (target, to): (&T, &Stored),
    scratch: &mut Scratch,
    page: &mut [u8; UNIT],
) -> Result<(), Errno> {
    let mut at = 0;
    let result = loop {
        match copy_page((source, from), (target, to), scratch, page, at) {
            Ok(UNIT) => at += PAGE,
            Ok(_) => break Ok(()),
            Err(errno) => break Err(errno),
        }
    };
    page.fill(0);
    result
}

/// Re-stores the first page of a recycled WAL segment. So a tool that looks for the segment size
/// in the first file of `pg_wal` still finds a header. The rest of the old segment is noise under
/// the new name, as plain PostgreSQL leaves old bytes there.
pub fn first_page(
    transfer: &mut Transfer<impl Disk>,
    from: &SealedFile,
    to: &SealedFile,
    page: &mut [u8; UNIT],
) -> Result<(), Errno> {
    let (from, to) = (Stored::Sealed(from), Stored::Sealed(to));
    let read = from.read(transfer, page, 0);
    let result = read.and_then(|have| to.write(transfer, &page[..have], 0));
    page.fill(0);
    result
}

/// Copies the page at `at`; fewer bytes than a page are the end of the file.
fn copy_page<S: Disk, T: Disk>(
    (source, from): (&S, &Stored),
    (target, to): (&T, &Stored),
    scratch: &mut Scratch,
    page: &mut [u8; UNIT],
    at: u64,
) -> Result<usize, Errno> {
    let have = from.read(&mut Transfer::new(source, scratch), page, at)?;
    to.write(&mut Transfer::new(target, scratch), &page[..have], at)?;
    Ok(have)
}

/// Are all bytes of the file zeros? Then no identity shows, and a rename needs no re-store.
pub fn is_all_zeros(transfer: &mut Transfer<impl Disk>) -> Result<bool, Errno> {
    for at in (0..transfer.disk.size()?).step_by(RUN_UNITS * UNIT) {
        let have = read_full(transfer.disk, &mut transfer.scratch.run, at)?;
        if !is_zero(&transfer.scratch.run[..have]) {
            return Ok(false);
        }
    }
    Ok(true)
}
