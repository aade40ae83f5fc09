//! Who may open a key file, and how: slots, the secrets that open them, and their rotation.
//!
//! Pure: a provider's I/O (running a command, asking for a passphrase, reading a file) is the
//! caller's; what its answer means is decided here.

#![forbid(unsafe_code)]

mod recipe;
mod rewrite;
mod slot;
mod source;

pub use recipe::{expand, passphrase_files, tells_secret};
pub use rewrite::{add_slot, RewriteError, Store};
pub use slot::{command_key, open_derived, open_text, seal_derived, DerivedError, NotAnAesKey};
pub use source::{Origin, SourceError, Sources};
