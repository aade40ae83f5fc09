//! `libpgseal_in_process.so`, preloaded by `pgseal client exec --in-process`: the engine inside a
//! program that connects by libpq, or by anything else that calls libc.
//!
//! The program finds the path of a socket in PGHOST at which nobody listens. A `connect` to that
//! path is answered here: the descriptor becomes a connection to the server, over TLS where the
//! server is on a network. What the program sends and receives on it passes through an engine, in
//! the thread that called, so no other process and no other thread take part.
//!
//! Invariants:
//! 1. A program in which this is not loaded cannot connect: it finds no socket at that path.
//! 2. On a descriptor that is served here, no byte passes an engine by. A call that is not followed
//!    fails.
//! 3. While bytes wait for the program, its descriptor can be read, for programs wait with `poll`,
//!    `select` or `epoll`: the last byte of the server's stays in the kernel until then.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod channel;
mod connection;
mod dial;
mod hooks;
mod real;
mod stack;
mod table;
