//! The journal of a conversion: 64 bytes that say what is being done to a cluster, and how far it
//! is. Whatever opens a cluster looks for one, so it is here and not with the conversions.

use crate::control::Control;
use crate::wal::is_segment_size;
use pgseal_crypto::KeyId;

/// Bytes of a journal.
pub const SIZE: usize = 64;
const MAGIC: &[u8; 8] = b"PGSEALCV";
const FORMAT: u16 = 1;
const CRC: usize = SIZE - 4;

/// The kinds of conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A plain cluster becomes a sealed one.
    Seal = 1,
    /// A sealed cluster becomes a plain one.
    Unseal = 2,
    /// A sealed cluster gets another master key.
    Rekey = 3,
}

impl Kind {
    /// The subcommand that does it.
    #[must_use]
    pub fn command(self) -> &'static str {
        match self {
            Self::Seal => "seal",
            Self::Unseal => "unseal",
            Self::Rekey => "rekey",
        }
    }

    /// The verb for what it does to files.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Self::Seal => "encrypt",
            Self::Unseal => "decrypt",
            Self::Rekey => "reencrypt",
        }
    }
}

/// The phases of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Files are being stored beside themselves, under names of their own.
    Storing = 1,
    /// All are stored, and get their names.
    Placing = 2,
}

/// The state of a conversion, and the cluster that it converts.
#[derive(Clone, Debug, PartialEq)]
pub struct Journal {
    /// The kind of conversion.
    pub kind: Kind,
    /// The phase that it is in.
    pub phase: Phase,
    /// Bytes of a WAL segment.
    pub wal_segment_size: u32,
    /// Version of the system catalogs, which names the cluster's directories in tablespaces.
    pub catalog_version: u32,
    /// The cluster's system identifier.
    pub system_id: u64,
    /// The key that the files come from, if they are sealed.
    pub from: Option<KeyId>,
    /// The key that they go to, if they shall be sealed.
    pub to: Option<KeyId>,
}

/// Why a journal cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Written by a later version.
    #[error("was written by a newer pgseal: use that one")]
    Newer,
    /// Not what was written.
    #[error("is damaged: restore the cluster from a backup")]
    Damaged,
}

impl Journal {
    /// A conversion that begins.
    #[must_use]
    pub fn new(control: &Control, from: Option<KeyId>, to: Option<KeyId>) -> Option<Self> {
        let kind = match (from, to) {
            (None, Some(_)) => Kind::Seal,
            (Some(_), None) => Kind::Unseal,
            (Some(_), Some(_)) => Kind::Rekey,
            (None, None) => return None,
        };
        Some(Self {
            kind,
            phase: Phase::Storing,
            wal_segment_size: control.wal_segment_size,
            catalog_version: control.catalog_version,
            system_id: control.system_id,
            from,
            to,
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; SIZE] {
        let id = |key: Option<KeyId>| key.map_or([0; 16], |KeyId(id)| id);
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[10] = self.kind as u8;
        bytes[11] = self.phase as u8;
        bytes[12..16].copy_from_slice(&self.wal_segment_size.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.catalog_version.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.system_id.to_le_bytes());
        bytes[28..44].copy_from_slice(&id(self.from));
        bytes[44..60].copy_from_slice(&id(self.to));
        let crc = crc32c::crc32c(&bytes[..CRC]);
        bytes[CRC..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a journal.
    pub fn decode(bytes: &[u8]) -> Result<Self, JournalError> {
        let magic = bytes.get(..8) == Some(MAGIC);
        if magic && bytes.len() >= 10 && u16::from_le_bytes(array(bytes, 8)) > FORMAT {
            return Err(JournalError::Newer);
        }
        let whole = magic && bytes.len() == SIZE;
        if !whole || crc32c::crc32c(&bytes[..CRC]) != u32::from_le_bytes(array(bytes, CRC)) {
            return Err(JournalError::Damaged);
        }
        Self::fields(bytes).ok_or(JournalError::Damaged)
    }

    /// Returns `None` if a value is one that no version writes.
    fn fields(bytes: &[u8]) -> Option<Self> {
        let id = |at| {
            Some(array(bytes, at))
                .filter(|id| *id != [0; 16])
                .map(KeyId)
        };
        let (from, to) = (id(28), id(44));
        let kind = match (bytes[10], from, to) {
            (1, None, Some(_)) => Kind::Seal,
            (2, Some(_), None) => Kind::Unseal,
            (3, Some(_), Some(_)) => Kind::Rekey,
            _ => return None,
        };
        let phase = match bytes[11] {
            1 => Phase::Storing,
            2 => Phase::Placing,
            _ => return None,
        };
        let wal_segment_size = u32::from_le_bytes(array(bytes, 12));
        let known = u16::from_le_bytes(array(bytes, 8)) == FORMAT;
        (known && is_segment_size(u64::from(wal_segment_size))).then_some(Self {
            kind,
            phase,
            wal_segment_size,
            catalog_version: u32::from_le_bytes(array(bytes, 16)),
            system_id: u64::from_le_bytes(array(bytes, 20)),
            from,
            to,
        })
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(from: Option<KeyId>, to: Option<KeyId>) -> Journal {
        let control = Control {
            system_id: 0x0102_0304_0506_0708,
            version: 1300,
            catalog_version: 202_209_061,
            state: crate::control::State::ShutDown,
            checkpoint: 0x0300_0028,
            timeline: 1,
            block_size: 8192,
            wal_block_size: 8192,
            wal_segment_size: 16 << 20,
            data_checksums: true,
            wal_log_hints: false,
        };
        Journal::new(&control, from, to).expect("one end is sealed")
    }

    fn id(byte: u8) -> Option<KeyId> {
        Some(KeyId([byte; 16]))
    }

    #[test]
    fn a_journal_reads_back() {
        for (from, to) in [(None, id(2)), (id(1), None), (id(1), id(2))] {
            for phase in [Phase::Storing, Phase::Placing] {
                let journal = Journal {
                    phase,
                    ..journal(from, to)
                };
                assert_eq!(Journal::decode(&journal.encode()), Ok(journal));
            }
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let mut expected = b"PGSEALCV\x01\x00\x03\x01\x00\x00\x00\x01".to_vec();
        expected.extend(202_209_061u32.to_le_bytes());
        expected.extend([8, 7, 6, 5, 4, 3, 2, 1]);
        expected.extend([1; 16]);
        expected.extend([2; 16]);
        expected.extend(crc32c::crc32c(&expected).to_le_bytes());
        assert_eq!(journal(id(1), id(2)).encode()[..], expected);
    }

    #[test]
    fn damage_and_newer_formats_are_told_apart() {
        let good = journal(id(1), id(2)).encode();
        for at in 0..SIZE {
            let mut bad = good;
            bad[at] ^= 0x10;
            let newer = at == 8 || at == 9;
            let expected = if newer {
                JournalError::Newer
            } else {
                JournalError::Damaged
            };
            assert_eq!(Journal::decode(&bad), Err(expected), "byte {at}");
        }
        for other in [&good[..63], &good[..9], &good[..8], &[0xFF; SIZE], b""] {
            assert_eq!(Journal::decode(other), Err(JournalError::Damaged));
        }
    }

    /// Decodes a journal in which one byte is another, under a checksum that fits.
    fn with(at: usize, byte: u8) -> Result<Journal, JournalError> {
        let mut bytes = journal(id(1), id(2)).encode();
        bytes[at] = byte;
        let crc = crc32c::crc32c(&bytes[..CRC]);
        bytes[CRC..].copy_from_slice(&crc.to_le_bytes());
        Journal::decode(&bytes)
    }

    #[test]
    fn values_that_no_version_writes_are_damage() {
        assert_eq!(with(10, 3), Ok(journal(id(1), id(2))));
        for (at, byte, what) in [
            (8, 0, "format"),
            (10, 0, "kind"),
            (10, 1, "kind without a key that it comes from"),
            (10, 2, "kind without a key that it goes to"),
            (10, 4, "kind"),
            (11, 0, "phase"),
            (11, 3, "phase"),
            (13, 1, "size of a segment"),
            (15, 0, "size of a segment"),
        ] {
            assert_eq!(with(at, byte), Err(JournalError::Damaged), "{what} {byte}");
        }
    }

    #[test]
    fn kinds_have_a_command_and_a_verb() {
        let words =
            [Kind::Seal, Kind::Unseal, Kind::Rekey].map(|kind| (kind.command(), kind.verb()));
        let expected = [
            ("seal", "encrypt"),
            ("unseal", "decrypt"),
            ("rekey", "reencrypt"),
        ];
        assert_eq!(words, expected);
    }
}
