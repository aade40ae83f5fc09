//! `pgseal key …`: the ways that open a cluster's key.

pub mod check;
pub mod rotate;
mod slots;
pub mod unwrap;
pub mod wrap;

pub use check::{NoCopy, SlotsDoNotOpen};
pub use slots::ChangeError;
pub use unwrap::OnTerminal;
