//! Unlocking: who may open a cluster's key file, by which slot, and the keys that it gives.
//!
//! The command and the wrappers use this crate, and it knows neither. `recipe`, `rewrite`, `slot`
//! and `source` are pure; the rest runs commands, asks at the terminal and reads files. No secret
//! is in an argument, the environment, a message or a core.

#![forbid(unsafe_code)]
// They abort when they fail, and standard output is the command's.
#![deny(clippy::print_stdout, clippy::print_stderr)]
// The variants of an error are explained by their sentences.
#![allow(missing_docs)]

pub mod agent;
pub mod approved;
pub mod audit;
pub mod check;
pub mod cluster;
pub mod command;
pub mod control_file;
pub mod conversion;
pub mod cost;
pub mod exit;
pub mod interrupt;
pub mod key_set;
pub mod keybin;
pub mod machine;
pub mod memfd;
pub mod memory;
pub mod new_key;
pub mod new_slot;
pub mod notes;
pub mod notice;
pub mod passphrase;
pub mod pin;
pub mod postgres;
pub mod provider;
pub mod raw;
pub mod receivers;
mod recipe;
mod rewrite;
pub mod server;
mod settings;
mod slot;
mod source;
mod terminal;
pub mod unlock;
pub mod who;
pub mod writer;

pub use recipe::{expand, passphrase_files, tells_secret};
pub use rewrite::{add_slot, remove_slot, RewriteError, Store};
pub use slot::{command_key, open_derived, open_text, seal_derived, DerivedError, NotAnAesKey};
pub use source::{Kind, Origin, SourceError, Sources};
