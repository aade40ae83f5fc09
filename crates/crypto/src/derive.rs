//! Derivation of every key from the master key.
//!
//! `key = HKDF-Expand-SHA256(master, info, length)`, where
//! `info = "pgseal/1" || purpose u8 || suite u8 || keybits u16be || class u8 || idlen u8 || id`.
//! There is no extract step, because the master key is 32 uniform bytes. Suite and key length are
//! inside, because a short output of HKDF is a prefix of a long one. Keys of the cluster (not of a
//! file) have zeros for suite, bits and class, and an empty id.
//!
//! Invariant: no two uses of a key share an `info`.
//!
//! Keys are derived where they are used up, under [`without_trace`](crate::without_trace): what is
//! moved leaves copies behind.

use zeroize::Zeroizing;

use crate::awslc::{self, Direction};
use crate::file_id::FileId;
use crate::xts::{Schedule, MAX_KEY_BYTES};
use crate::{KeyLength, MasterKey, Suite};

/// The uses of a file's keys. The numbers are part of each key's derivation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FilePurpose {
    /// K1 || K2 of XTS
    Xts = 1,
    /// the mask of a last block that is not full; 32 bytes whatever the cluster's key length
    Tail = 2,
    /// the position-only stream of files that are appended to; the cluster's key length
    Keystream = 9,
}

/// The uses of a cluster's keys. The numbers are part of each key's derivation; 3 and 8 are
/// reserved (tags, freshness).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ClusterPurpose {
    /// the public name of the master key
    KeyId = 4,
    /// ties a wrapped key to its key file's header
    Bind = 5,
    /// authenticates the key file
    KeyFile = 6,
    /// lets a receiver have clear pages
    Receiver = 7,
    /// authenticates the notes about key slots
    SlotNotes = 10,
    /// authenticates the list of receiver tokens
    ReceiverList = 11,
}

const LABEL: &[u8; 8] = b"pgseal/1";
const HEADER: usize = LABEL.len() + 6;

/// The byte that is appended to `info` for a second derivation if K1 equals K2.
const AGAIN: u8 = 1;

/// HKDF's `info`, which no two uses share: header, identity, and room for `AGAIN`.
pub struct Info {
    bytes: [u8; HEADER + 255 + 1],
    len: usize,
}

impl Info {
    pub fn of_file(purpose: FilePurpose, length: KeyLength, id: &FileId) -> Self {
        let mut info = Self::empty();
        info.push(LABEL);
        info.push(&[purpose as u8, Suite::AesXts as u8]);
        info.push(&length.bits().to_be_bytes());
        let id_len = u8::try_from(id.bytes().len()).expect("an identity has at most 255 bytes");
        info.push(&[id.class() as u8, id_len]);
        info.push(id.bytes());
        info
    }

    pub fn of_cluster(purpose: ClusterPurpose) -> Self {
        let mut info = Self::empty();
        info.push(LABEL);
        info.push(&[purpose as u8, 0, 0, 0, 0, 0]);
        info
    }

    fn empty() -> Self {
        Self {
            bytes: [0; HEADER + 255 + 1],
            len: 0,
        }
    }

    fn push(&mut self, part: &[u8]) {
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Fills `out` with a key of the cluster.
pub fn cluster_key(master: &MasterKey, purpose: ClusterPurpose, out: &mut [u8]) {
    awslc::hkdf_expand(master.expose(), Info::of_cluster(purpose).as_slice(), out);
}

/// The XTS keys of a file, expanded for one direction.
pub fn schedule(
    master: &MasterKey,
    length: KeyLength,
    id: &FileId,
    direction: Direction,
) -> Schedule {
    let info = Info::of_file(FilePurpose::Xts, length, id);
    schedule_by(direction, length, info, |info, out| {
        awslc::hkdf_expand(master.expose(), info, out)
    })
}

/// The key of a file's masked tail.
pub fn tail_key(master: &MasterKey, length: KeyLength, id: &FileId) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    let info = Info::of_file(FilePurpose::Tail, length, id);
    awslc::hkdf_expand(master.expose(), info.as_slice(), &mut *key);
    key
}

/// The key of a file's keystream: the first `length.bytes()` bytes count.
pub fn keystream_key(master: &MasterKey, length: KeyLength, id: &FileId) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    let info = Info::of_file(FilePurpose::Keystream, length, id);
    awslc::hkdf_expand(master.expose(), info.as_slice(), &mut key[..length.bytes()]);
    key
}

/// XTS with K1 = K2 is weak: then one byte is appended to `info` and the pair is derived again.
pub fn schedule_by(
    direction: Direction,
    length: KeyLength,
    mut info: Info,
    expand: impl Fn(&[u8], &mut [u8]),
) -> Schedule {
    let mut pair = Zeroizing::new([0; MAX_KEY_BYTES]);
    let pair = &mut pair[..2 * length.bytes()];
    expand(info.as_slice(), pair);
    Schedule::new(direction, length, pair).unwrap_or_else(|| {
        info.push(&[AGAIN]);
        expand(info.as_slice(), pair);
        Schedule::new(direction, length, pair)
            .expect("HKDF gives two different keys in two attempts")
    })
}
