//! Recovery sheets: pages of paper from which a lost key file is made anew
//! (docs/format/recovery-sheet.md).
//!
//! A sheet holds the cluster's header, its master key wrapped under a random recovery secret, and
//! either that secret or one share of it. `line.rs` spells bytes so that a mistyped line is named,
//! `sheet.rs` has the bytes, `share.rs` splits and joins the secret, `page.rs` is what is printed.
//!
//! Pure: no files and no clock. Only the command links this crate, for it holds what splits
//! secrets and draws codes.

#![forbid(unsafe_code)]

mod line;
mod page;
mod share;
mod sheet;

pub use page::About;
pub use share::{join, split, Count, CountError, JoinError};
pub use sheet::{Part, Sheet, SheetError, Wrapped, MAX_TEXT};
