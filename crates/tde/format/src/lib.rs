//! Byte layouts of what pgseal stores and passes on: the key file, the payload that providers wrap,
//! notes about slots, the handover record, and receiver tokens. Pure: bytes in, types out.
//!
//! Invariants:
//! 1. All integers are little-endian; `docs/format/` restates each layout.
//! 2. Decoding takes any bytes: it never panics, and every refusal is a typed error.
//! 3. Key material stays in types that are wiped, or is borrowed from the caller's memory.

#![forbid(unsafe_code)]

mod beside;
mod cluster;
pub mod handover;
pub mod hex;
mod keyfile;
mod payload;
mod reader;
mod receiver;
mod receiver_list;
mod slot;
mod slot_notes;

pub use beside::BesideError;
pub use cluster::{ClusterId, Header, BOUND_HEADER};
pub use keyfile::{
    AddError, Altered, KeyFile, KeyFileError, KeyImage, UnverifiedKeyFile, MAC, MAX_FILE, MAX_SLOTS,
};
pub use payload::{Payload, PayloadError, PAYLOAD};
pub use reader::Reader;
pub use receiver::{ReceiverToken, TokenError};
pub use receiver_list::{ListedToken, ReceiverList, TokenId, MAX_LIST};
pub use slot::{Cost, Kdf, SecretSource, Slot, SlotKind};
pub use slot_notes::{
    plain_text, Fingerprint, SlotNote, SlotNotes, Stamp, UnverifiedNotes, MAX_NOTES,
};
