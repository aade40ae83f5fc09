//! Encrypted values of columns: the cell that holds one value, the keys that seal cells, and the
//! grants by which an owner lets others compute with them. The crate does no input or output.
//!
//! Invariants:
//! 1. Parsing takes any bytes: it never panics, and every refusal is a typed error.
//! 2. An opened cell had the type, mode and key that its envelope names. A cell whose envelope was
//!    changed is refused.
//! 3. No cell is an unkeyed function of its plaintext.
//! 4. Types that are wiped hold the key material, and no error text holds a value.
//!
//! `docs/format/cell.md`, `datakey.md` and `grant.md` specify the layouts.

#![forbid(unsafe_code)]

mod cell;
mod cipher;
mod data_key;
pub mod grant;
mod legacy;
mod owner;

pub use cell::{CellError, CellRef, Envelope, Mode, HEADER, LEGACY_HEADER};
pub use cipher::CellCipher;
pub use data_key::{DataKey, DataKeyId, KeyAlgorithm, UnwrapError, Unwrapped, WrappedKey};
pub use legacy::{LegacyCipher, LegacyKey};
pub use owner::{HashKey, MasterKey, OwnerId, TokenKey, TokenKind};
pub use pgseal_crypto::aead::LANES;
pub use pgseal_crypto::sign::PublicKey;
pub use pgseal_crypto::Nonces;
pub use pgseal_value::Type;
