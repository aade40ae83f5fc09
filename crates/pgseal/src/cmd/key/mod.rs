//! `pgseal key …`: the ways that open a cluster's key.

pub mod check;
pub mod rotate;
mod slots;
pub mod unwrap;
pub mod wrap;
