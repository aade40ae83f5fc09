//! The evaluator, which computes with encrypted values for a server that cannot read them.
//!
//! - [`engine`]: keys, sessions, grants, operations; pure except for random bytes.
//! - [`audit`]: the log's records and the chain through them; pure.
//! - [`evidence`]: what an evaluator can show of the machine that it runs on.
//! - [`cli`]: the program's command line.
//! - [`client`]: a backend's connection to an isolated evaluator.
//! - [`os`]: what only kernel and libc can do; the only `unsafe` code.
//!
//! Callers: the program `pgseal-evaluator` (the isolated form, one process for a server), and the
//! extension's library (the inline form, one engine in each backend).

pub mod audit;
pub mod cli;
pub mod client;
pub mod engine;
pub mod evidence;
pub mod os;
