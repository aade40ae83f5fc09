//! Going over the files of a data directory: finding them, reading them, many at a time, with a
//! bar that says how far it is. Shared by `verify` and `audit`.

pub mod pool;
pub mod progress;
pub mod walk;
