//! The key file, `pg_encryption/key.bin`: the one place that decides who can open a cluster.
//!
//! `"PGSEALKF" || u32 length of the whole file || bound header || u64 generation || u8 slot count
//! || slots || 32 MAC`. The MAC is over everything before it, under a key derived from the master.
//! A file without the magic is one raw wrapping for the configured unwrap command, as other
//! products keep it.
//!
//! States, each a type: [`UnverifiedKeyFile`] (well formed; anybody may have written it), then
//! [`KeyFile`] (its MAC was checked, or we made it). Only a `KeyFile` can be written.
//!
//! Invariants: 1..=16 slots with distinct ids, at most [`MAX_FILE`] bytes; what is written is read
//! back as the same values; decoding stops at the first thing it does not know.

use pgseal_crypto::mac::KeyFileMac;
use pgseal_crypto::passphrase::ParamsError;
use pgseal_crypto::pbkdf2::IterationsError;
use pgseal_crypto::MasterKey;
use zeroize::Zeroizing;

use crate::cluster::HeaderError;
use crate::reader::Reader;
use crate::slot::SlotError;
use crate::{Header, Slot, SlotKind, BOUND_HEADER};

/// Bytes of the MAC at the end.
pub const MAC: usize = 32;

/// The largest key file that is read or written.
pub const MAX_FILE: usize = 256 * 1024;

/// The most slots in a file.
pub const MAX_SLOTS: usize = 16;

const MAGIC: &[u8; 8] = b"PGSEALKF";
const FIXED: usize = MAGIC.len() + 4 + BOUND_HEADER + 8 + 1;

/// Why bytes are not a key file that we can use. The text goes on from the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// No bytes at all.
    #[error("is empty: restore it from a copy")]
    Empty,
    /// Fewer bytes than the file says it has.
    #[error("is cut short ({have} bytes): restore it from a copy")]
    Truncated {
        /// Bytes that there are
        have: usize,
    },
    /// More bytes than the file says it has, or than any key file has.
    #[error("is longer than it says: restore it from a copy")]
    TooLong,
    /// Written by a later pgseal.
    #[error("is of format {0}, newer than this pgseal knows: install a newer pgseal")]
    NewerFormat(u16),
    /// Bytes stored in a way that a later pgseal knows.
    #[error("names cipher suite {0}, which this pgseal does not know: install a newer pgseal")]
    UnknownSuite(u8),
    /// A slot that a later pgseal knows.
    #[error("has a slot of type {0}, which this pgseal does not know: install a newer pgseal")]
    UnknownSlot(u8),
    /// Argon2id parameters out of range.
    #[error("has a bad passphrase slot: {0}")]
    Argon2(ParamsError),
    /// A number of iterations out of range.
    #[error("has a bad passphrase slot: {0}")]
    Pbkdf2(IterationsError),
    /// Values that no version writes.
    #[error("is damaged ({0}): restore it from a copy")]
    Damaged(&'static str),
}

/// The slots or commands of a key file are not those that it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key is right but the file was altered after it was written: restore it from a copy")]
pub struct Altered;

/// A slot that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// All ids are taken.
    #[error("key.bin has {MAX_SLOTS} slots already: replace one")]
    Full,
    /// More than 64 kB of parameters or wrapping.
    #[error("a command, path or wrapped key of more than 60000 bytes does not fit into key.bin")]
    TooLong,
    /// The file would be larger than one that is read.
    #[error("key.bin has at most {} bytes, too few for this slot beside the others: first replace the slot with the longest wrapped key by a shorter one", MAX_FILE)]
    NoRoom,
}

/// The two forms of `key.bin`.
pub enum KeyImage {
    /// One wrapping without header, for the configured unwrap command.
    Raw(Vec<u8>),
    /// A key file.
    File(UnverifiedKeyFile),
}

impl KeyImage {
    /// Distinguishes the two forms by the magic, and decodes a key file.
    pub fn decode(bytes: &[u8]) -> Result<Self, KeyFileError> {
        if bytes.is_empty() {
            return Err(KeyFileError::Empty);
        }
        if bytes.len() > MAX_FILE {
            return Err(KeyFileError::TooLong);
        }
        if bytes.starts_with(MAGIC) || MAGIC.starts_with(bytes) {
            return UnverifiedKeyFile::decode(bytes).map(Self::File);
        }
        Ok(Self::Raw(bytes.to_vec()))
    }
}

/// A well-formed key file that is not authenticated; it only serves to find a slot that unlocks it.
pub struct UnverifiedKeyFile {
    bytes: Zeroizing<Vec<u8>>,
    header: Header,
    generation: u64,
    slots: Vec<Slot>,
}

impl UnverifiedKeyFile {
    fn decode(bytes: &[u8]) -> Result<Self, KeyFileError> {
        let body = body(bytes)?;
        let mut reader = Reader::new(body);
        let header = Header::read(&mut reader)?;
        let generation = reader.u64().ok_or(CUT)?;
        if generation == 0 {
            return Err(KeyFileError::Damaged("generation 0"));
        }
        let slots = slots(&mut reader)?;
        Ok(Self {
            bytes: Zeroizing::new(bytes.to_vec()),
            header,
            generation,
            slots,
        })
    }

    /// Returns the file as it was read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the header that the file claims.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How often the file claims to have been written.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the key slots that the file claims.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Authenticates the file with the master key that one of its slots gave.
    pub fn authenticate(self, master: &MasterKey) -> Result<KeyFile, Altered> {
        let (body, tag) = self.bytes.split_last_chunk::<MAC>().ok_or(Altered)?;
        if !KeyFileMac::new(master).verify(body, tag) {
            return Err(Altered);
        }
        Ok(KeyFile {
            header: self.header,
            generation: self.generation,
            slots: self.slots,
        })
    }
}

/// A key file that was authenticated, or that we made.
pub struct KeyFile {
    header: Header,
    generation: u64,
    slots: Vec<Slot>,
}

impl KeyFile {
    /// A file for a new cluster; it opens nothing before a slot is added.
    pub fn new(header: Header) -> Self {
        Self {
            header,
            generation: 0,
            slots: Vec::new(),
        }
    }

    /// A file in the place of one that is lost. Its generation is not the first, because its slots
    /// were not made with the cluster.
    pub fn anew(header: Header) -> Self {
        Self {
            generation: 1,
            ..Self::new(header)
        }
    }

    /// Returns the file's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How often the file was written.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the key slots.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Adds a key slot under the lowest free id, which is returned.
    pub fn add(&mut self, kind: SlotKind) -> Result<u8, AddError> {
        if !kind.fits() {
            return Err(AddError::TooLong);
        }
        let taken = |id: &u8| self.slots.iter().any(|slot| slot.id == *id);
        let mut ids = (1..).take(MAX_SLOTS);
        let id = ids.find(|id| !taken(id)).ok_or(AddError::Full)?;
        let slot = Slot { id, kind };
        let slots: usize = self.slots.iter().chain([&slot]).map(Slot::size).sum();
        if FIXED + slots + MAC > MAX_FILE {
            return Err(AddError::NoRoom);
        }
        self.slots.push(slot);
        Ok(id)
    }

    /// Whether all ids are taken, so that a slot must be removed before another is added.
    pub fn is_full(&self) -> bool {
        self.slots.len() == MAX_SLOTS
    }

    /// Removes a key slot; returns whether it existed.
    pub fn remove(&mut self, id: u8) -> bool {
        let before = self.slots.len();
        self.slots.retain(|slot| slot.id != id);
        self.slots.len() < before
    }

    /// The bytes of the next generation.
    pub fn write(&mut self, master: &MasterKey) -> Zeroizing<Vec<u8>> {
        assert!(
            !self.slots.is_empty(),
            "a key file without a slot opens for nobody"
        );
        self.generation += 1;
        let mut rest = Zeroizing::new(Vec::new());
        for slot in &self.slots {
            slot.write(&mut rest);
        }
        let total = FIXED + rest.len() + MAC;
        let mut out = Zeroizing::new(Vec::with_capacity(total));
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(
            &u32::try_from(total)
                .expect("16 slots of 128 kB")
                .to_le_bytes(),
        );
        out.extend_from_slice(&self.header.bound());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.push(u8::try_from(self.slots.len()).expect("at most 16 slots"));
        out.extend_from_slice(&rest);
        let tag = KeyFileMac::new(master).tag(&out);
        out.extend_from_slice(&tag);
        out
    }
}

const CUT: KeyFileError = KeyFileError::Damaged("a field is cut short");

/// Returns the bytes between the length and the MAC, if the length is right.
fn body(bytes: &[u8]) -> Result<&[u8], KeyFileError> {
    let have = bytes.len();
    if have < FIXED + MAC {
        return Err(KeyFileError::Truncated { have });
    }
    let mut reader = Reader::new(&bytes[MAGIC.len()..have - MAC]);
    let length = reader.u32().ok_or(CUT)?;
    let body = reader.rest();
    // A later format may count its length in another way; the error must name that format.
    let format = Reader::new(body).u16().ok_or(CUT)?;
    if format > Header::FORMAT {
        return Err(KeyFileError::NewerFormat(format));
    }
    match usize::try_from(length) {
        Ok(length) if length == have => Ok(body),
        Ok(length) if length < have => Err(KeyFileError::TooLong),
        _ => Err(KeyFileError::Truncated { have }),
    }
}

fn slots(reader: &mut Reader<'_>) -> Result<Vec<Slot>, KeyFileError> {
    let count = usize::from(reader.u8().ok_or(CUT)?);
    if !(1..=MAX_SLOTS).contains(&count) {
        return Err(KeyFileError::Damaged("it must have 1 to 16 slots"));
    }
    let mut slots = Vec::<Slot>::with_capacity(count);
    for _ in 0..count {
        let slot = Slot::read(reader)?;
        if slots.iter().any(|other| other.id == slot.id) {
            return Err(KeyFileError::Damaged("two slots have one id"));
        }
        slots.push(slot);
    }
    if !reader.is_empty() {
        return Err(KeyFileError::Damaged("bytes follow the last slot"));
    }
    Ok(slots)
}

impl From<HeaderError> for KeyFileError {
    fn from(error: HeaderError) -> Self {
        match error {
            HeaderError::Cut => CUT,
            HeaderError::Format(0) => Self::Damaged("format 0"),
            HeaderError::Format(format) => Self::NewerFormat(format),
            HeaderError::Suite(0) => Self::Damaged("cipher suite 0"),
            HeaderError::Suite(suite) => Self::UnknownSuite(suite),
            HeaderError::Length(_) => Self::Damaged("its key length is not 128, 192 or 256"),
            HeaderError::Flags(_) => Self::Damaged("unknown flags"),
        }
    }
}

impl From<SlotError> for KeyFileError {
    fn from(error: SlotError) -> Self {
        match error {
            SlotError::Cut => CUT,
            SlotError::Type(kind) => Self::UnknownSlot(kind),
            SlotError::Argon2(error) => Self::Argon2(error),
            SlotError::Pbkdf2(error) => Self::Pbkdf2(error),
            SlotError::Bad(what) => Self::Damaged(what),
        }
    }
}
