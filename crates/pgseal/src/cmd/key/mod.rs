//! `pgseal key …`: the ways that open a cluster's key.

pub mod audit;
pub mod backup;
pub mod check;
mod due;
mod from_server;
pub mod label;
pub mod list;
mod new_file;
pub mod remove;
pub mod restore;
pub mod rotate;
mod sheet;
mod slots;
pub mod unwrap;
pub mod wrap;
