//! How to tell what 8 kB of bytes are: a page of PostgreSQL in clear, or ciphertext.
//!
//! Pure functions over bytes, for `verify` and `audit`.

pub mod checksum;
pub mod header;
pub mod randomness;
#[cfg(test)]
pub mod samples;

/// One page.
pub type Page = [u8; pgseal_crypto::UNIT];
