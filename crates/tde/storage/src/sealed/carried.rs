//! `pg_control` as a raw base backup carries it (docs/format/files.md).
//!
//! Newer minor releases (seen in 15.20) read as many bytes as the file's fields have, check the
//! CRC, and send those bytes and zeros. So a raw session is given, in place of the stored page:
//! the fields before the CRC, sealed as a file of that length, and a CRC over the result. The page
//! keeps all fields; an unsealed server finds no values that it could start with; and anyone who
//! reads the restored file with its key gets the clear page.

use super::SealedFile;
use crate::control::{checked, complete, Control, MAX_SIZE};
use crate::layout::BLOCK;
use pgseal_crypto::{BLOCK as BLOCK_LEN, UNIT};

impl SealedFile<'_> {
    /// Returns the page to carry for a clear one; none for bytes that are no control file.
    #[must_use]
    pub fn carry_control(&self, clear: &[u8; UNIT]) -> Option<[u8; UNIT]> {
        let end = checked(clear)?;
        let mut page = *clear;
        let (body, tail) = page[..end].split_at_mut(body_len(end));
        self.cipher
            .seal(self.unit_at(0), &clear[..body.len()], body);
        self.mask_carried(body.len(), tail);
        page[..BLOCK_LEN].copy_from_slice(&clear[..BLOCK_LEN]);
        complete(&mut page, end);
        Some(page)
    }

    /// Puts the clear page in place of a carried one. Returns whether it was one.
    pub(super) fn open_carried(&self, unit: &mut [u8]) -> bool {
        let Some(end) = checked(unit) else {
            return false;
        };
        let mut page = [0; MAX_SIZE];
        page[..end].copy_from_slice(&unit[..end]);
        let (body, tail) = page[..end].split_at_mut(body_len(end));
        self.cipher.open(self.unit_at(0), body);
        self.mask_carried(body.len(), tail);
        page[..BLOCK_LEN].copy_from_slice(&unit[..BLOCK_LEN]);
        complete(&mut page, end);
        // A clear file, or one under another key, must go on to fail at its CRC.
        let carried = Control::is_clear(&page);
        if carried {
            unit[..MAX_SIZE].copy_from_slice(&page);
        }
        carried
    }

    fn mask_carried(&self, at: usize, tail: &mut [u8]) {
        if !tail.is_empty() {
            self.cipher.mask_tail(at as u64 / BLOCK, tail);
        }
    }
}

/// The whole blocks of `len` bytes.
const fn body_len(len: usize) -> usize {
    len - len % BLOCK_LEN
}
