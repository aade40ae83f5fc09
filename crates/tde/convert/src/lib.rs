//! Conversion of a stopped cluster in place: plain to sealed, sealed to plain, one key to another
//! (docs/format/conversion.md).
//!
//! Names are the journal. A file X is written again as `X.pgseal`, and X goes; when all are stored
//! so, every `X.pgseal` becomes X. `pg_control` goes first and comes back last: no server starts
//! in between. Power may fail before and after every call of [`Files`] and [`KeyDirectory`].
//!
//! Pure over these two traits: the command brings the file system, the tests one that forgets what
//! was not synced.
//!
//! Reading order: [`Journal`] (what is being done), [`plan`] (what becomes of which name), [`copy`]
//! (the bytes of one file), [`steps`] (the order of writes).
#![forbid(unsafe_code)]

pub mod copy;
pub mod files;
pub mod plan;
pub mod steps;

pub use files::{Files, KeyDirectory};
pub use pgseal_storage::journal::{Journal, Kind, Phase};
