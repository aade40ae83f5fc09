//! `pgseal key …`: the ways that open a cluster's key.

pub mod audit;
pub mod check;
pub mod label;
pub mod list;
pub mod remove;
pub mod rotate;
mod slots;
pub mod unwrap;
pub mod wrap;
