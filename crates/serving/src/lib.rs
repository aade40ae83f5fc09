//! The parts that the servers of pgseal share, the exporter and the proxy: certificates of TLS
//! ([`tls`]), and HTTP for those who watch them ([`http`]).
//!
//! Invariant: requests have limits of size and of time, also of clients that are known.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod http;
pub mod tls;
