//! Who may open a key file, and how: slots and the secrets that open them.
//!
//! Pure: a provider's I/O (running a command, asking for a passphrase, reading a file) is the
//! caller's; what its answer means is decided here.

#![forbid(unsafe_code)]

mod slot;

pub use slot::{command_key, open_derived, open_text, seal_derived, DerivedError, NotAnAesKey};
