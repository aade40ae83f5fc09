//! The checks of a cluster: `verify` reads every page with the key, `audit` searches the stored
//! bytes without it, `doctor` looks at the machine and at what is around a cluster, and `status`
//! says whether a data directory is sealed and opens. The command `pgseal` brings options, output
//! and exit codes.
//!
//! Invariant: nothing here writes, to a cluster or to standard output.
//!
//! Reading order: [`scan`] (the files of a data directory, many at a time), [`pages`] (what a page
//! looks like), [`verify`], [`audit`], then [`doctor`] and [`status`], which judge texts of the
//! kernel and the key file.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
// The variants of an error are explained by their sentences, the fields of a report by their names.
#![allow(missing_docs)]

pub mod audit;
mod configuration;
pub mod describe;
pub mod discover;
pub mod doctor;
pub mod metrics;
pub mod pages;
pub mod report;
pub mod scan;
pub mod status;
pub mod unlisted;
pub mod verify;
pub mod versions;
