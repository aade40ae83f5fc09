//! The library that the extension `encdb` links: an evaluator behind the C interface of
//! `extension/encdb/src/pgext.h`.
//!
//! [`abi`] turns C's arguments into slices and is the only place that is unsafe; [`shell`] is what
//! one backend has of an evaluator, be it the engine in this process or the process behind a
//! socket; [`handover`] brings a session to parallel workers, which [`peers`] distinguishes from
//! others; [`forms`] looks at bytes alone; [`states`] keeps the numbers of aggregates' states
//! apart, and [`warning`] what the log says.
//!
//! Invariants:
//! 1. C calls from one thread, and is called back for one question alone, which needs no shell:
//!    [`abi`] has the shell for itself.
//! 2. No call panics for what comes from C or from an evaluator, because a panic ends the backend.
//! 3. Nothing here opens a cell: that is the evaluator's, in this process or elsewhere.

use pgseal_evaluator::os::LockedHeap;

pub mod abi;
mod forms;
mod handover;
mod peers;
mod shell;
mod states;
mod transport;
mod warning;

/// The heap. Any allocation here may hold a key or a value.
#[global_allocator]
static HEAP: LockedHeap = LockedHeap::new();
