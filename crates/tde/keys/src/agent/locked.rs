//! Bytes that are never swapped to disk: pages of their own, so that the smallest limit of locked
//! memory has room for them.

use std::io;
use std::ops::Deref;

use memmap2::{Advice, MmapMut};
use zeroize::Zeroize;

/// Bytes in locked pages that no core has, wiped when dropped.
pub struct Locked {
    pages: MmapMut,
    is_locked: bool,
}

impl Locked {
    /// Copies bytes into such pages. Where the limit does not allow the lock they are held without
    /// it.
    pub fn copy(bytes: &[u8]) -> io::Result<Self> {
        let mut pages = MmapMut::map_anon(bytes.len())?;
        pages.advise(Advice::DontDump)?;
        let is_locked = pages.lock().is_ok();
        pages.copy_from_slice(bytes);
        Ok(Self { pages, is_locked })
    }

    /// Whether the pages are locked.
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }
}

impl Deref for Locked {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.pages
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.pages.zeroize();
    }
}
