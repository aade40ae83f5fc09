//! Reads of pages that another process may be writing at the same moment.

use crate::process::{Connection, PROCESS};
use crate::receivers::guard;
use pgseal_crypto::UNIT;
use pgseal_storage::scratch::Scratch;

/// Returns whether no other process writes the pages of relations that this process reads. A
/// server's buffers are locked against that. Its walsenders, its sessions with a token, which read
/// files by name, and other programs read beside its writers. WAL has its writer beside every
/// reader: the startup process of a standby, decoding in SQL, the summarizer.
pub fn reads_alone() -> bool {
    PROCESS.is_server() && has_locks(PROCESS.connection())
}

fn has_locks(state: Connection) -> bool {
    !guard::is_watched(state) && state != Connection::Trusted
}

/// Makes the memory resident that a read goes through which may race.
pub fn make_all_resident(scratch: &mut Scratch) {
    make_resident(&mut scratch.unit);
    make_resident(&mut scratch.run[..UNIT]);
}

/// Touches every page of memory under `buf`. Where the kernel's copy meets one that is not there,
/// it goes on byte by byte, and a write may come between two bytes of a cipher block: then the
/// whole block is noise. With the pages there, aligned blocks are copied in one piece.
pub fn make_resident(buf: &mut [u8]) {
    const PAGE_BYTES: usize = 4096;
    let to_boundary = buf.as_ptr().align_offset(PAGE_BYTES).min(buf.len());
    let (first, rest) = buf.split_at_mut(to_boundary);
    for page in std::iter::once(first).chain(rest.chunks_mut(PAGE_BYTES)) {
        if let Some(byte) = page.first_mut() {
            *byte = std::hint::black_box(*byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_read_files_by_name_race_with_writers() {
        for state in [Connection::Off, Connection::Undecided, Connection::Session] {
            assert!(has_locks(state), "{state:?}");
        }
        for state in [
            Connection::Trusted,
            Connection::Unproven,
            Connection::Raw,
            Connection::Clear,
        ] {
            assert!(!has_locks(state), "{state:?}");
        }
    }
}
