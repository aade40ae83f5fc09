//! The form that a sealed cluster's files have on disk: which class a name belongs to, which key
//! and tweak that gives, and how reads, writes, truncations and renames of any range become
//! transfers of whole cipher blocks.
//!
//! The crate knows only [`Disk`]: no file, no environment, no clock. The preload library and
//! `pgseal verify` bring the real disk; the tests bring one that fails. Nothing above this crate
//! knows the mode: a suite (here [`pgseal_crypto::FileCipher`]) turns a run of a data unit into
//! bytes.
//!
//! Reading order: [`classify`] (names to classes), [`layout`] (classes to keys and rules),
//! [`transfer`] (what each works with), [`sealed`] (ranges to transfers), [`restore`] (renames
//! across identities), [`wal`] (segment names and page headers), [`tar`] and [`passing`] (segments
//! in a tar, and before compression), [`control`] (the few fields of `pg_control` that decide
//! something), [`version`] (which PostgreSQL may run), [`journal`] (whether a cluster is being
//! converted).
#![forbid(unsafe_code)]

pub mod classify;
pub mod control;
pub mod disk;
pub mod journal;
pub mod layout;
pub mod passing;
pub mod restore;
pub mod scratch;
pub mod sealed;
pub mod tar;
pub mod transfer;
pub mod untar;
pub mod version;
pub mod wal;

pub use disk::{Disk, Errno, Lock};
pub use sealed::SealedFile;
pub use transfer::Transfer;
