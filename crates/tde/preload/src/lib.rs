//! `libpgseal.so`, between PostgreSQL's programs and libc's file calls (`LD_PRELOAD`).
//!
//! What goes into a sealed cluster's files is encrypted, what comes out is decrypted; sizes and
//! names stay. The name of a file decides how its bytes are stored (`pgseal_storage::classify`).
//!
//! Invariants:
//! 1. Never plaintext: a protected file that cannot be handled gives EIO and one line on stderr.
//! 2. A call on a descriptor that is not protected costs two loads and a jump.
//! 3. Descriptor look-up is lock-free, and no lock is held across a libc call: hooks run in signal
//!    handlers, threads, forked children, at exit, and before the constructor.
//! 4. Nothing is printed in normal work; errno is libc's.
//! 5. In a program that is not PostgreSQL's ([`programs`]) the library is inert.
//!
//! Codemap: [`symbols`] is the table of interposed functions; each leads to one function in
//! [`hooks`] or [`receivers`], which says what a server's connections are given. [`real`] is libc
//! itself. [`place`] finds the cluster and class of a path, [`policy`] decides how it is opened, by
//! what [`habits`] lists of PostgreSQL. [`clusters`] finds the keys, [`unlock`] where they come
//! from, [`key_material`] what else leads to them; [`files`] holds the open sealed files by
//! descriptor; [`declaration`] is what we say of ourselves to other servers, [`received`] what
//! becomes of WAL that they send and that is not stored as segments; [`settings`] are what a server
//! shows of itself to SQL, and [`tables`] what the extension `pgseal` adds, with [`counters`];
//! [`asked`] answers pgseal;
//! [`zero_fill`] knows the new segment that no key shows in, [`two_phase`] names a state that is
//! whole, both by what is remembered of a file in [`watched`]; [`rings`] knows io_uring's requests
//! that are under way, which [`liburing`] gives to the kernel; [`version`] shows which library a
//! server runs. [`disk`] and [`memory`] are what `pgseal_storage` works on.
//!
//! State: what a process knows is in one static for each subject. No code makes them, because a
//! hook may run before the constructor. [`process`] knows who the process is and what it may.

#![allow(unsafe_code)] // this crate is the edge to libc: every block says why it is sound

mod arena;
mod asked;
mod clusters;
mod contexts;
mod control;
mod counters;
mod declaration;
mod disk;
mod files;
mod habits;
mod hooks;
mod key_material;
mod libpq;
mod liburing;
mod list;
mod memory;
mod packed;
mod place;
#[forbid(unsafe_code)]
mod policy;
mod process;
mod programs;
mod real;
mod rebind;
mod received;
mod receivers;
mod report;
mod rescue;
mod rings;
mod secret;
mod server;
mod settings;
mod symbols;
mod tables;
mod two_phase;
mod unlock;
mod version;
mod wal;
mod watched;
mod zero_fill;

use libc::{c_char, c_int};

// Rust's standard library asks for an unwinder. It comes along: libgcc_s is a library more to load
// in every program, whose initialiser asks the processor for what it can do, which a virtual
// machine pays for.
#[link(name = "gcc_eh", kind = "static")]
extern "C" {}

// The unwinder asks the loader for tables by a function of glibc 2.35, and falls back on nothing. A
// panic aborts here, so there is nothing to unwind: it finds none, and an older glibc will do.
// Nobody else in the process sees this one.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl _dl_find_object",
    ".hidden _dl_find_object",
    "_dl_find_object:",
    "mov eax, -1",
    "ret"
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".globl _dl_find_object",
    ".hidden _dl_find_object",
    "_dl_find_object:",
    "mov w0, #-1",
    "ret"
);

/// Runs before `main`, in every program that the library is loaded into. glibc gives initialisers
/// what it gives `main`.
extern "C" fn start(_count: c_int, arguments: *const *mut c_char) {
    asked::answer();
    if programs::detect() {
        // SAFETY: `arguments` is `main`'s array: glibc gives initialisers what it gives `main`.
        unsafe { programs::silence_echo(arguments) };
        process::PROCESS.own_memory();
        unlock::take_handover();
        server::harden();
        version::show();
        declaration::start();
        received::start();
        packed::start();
        counters::start(server::symbol(c"track_io_timing"));
        receivers::start();
        rescue::start();
    }
    hooks::connections::take();
}

#[cfg(not(feature = "fips"))]
#[used]
#[link_section = ".init_array"]
static START: extern "C" fn(c_int, *const *mut c_char) = start;

// The FIPS module tests itself in an initialiser. Ours uses it, and comes after: `build.rs` links
// an object last that refers to this name, which nobody else sees.
#[cfg(feature = "fips")]
std::arch::global_asm!(
    ".pushsection .text",
    ".globl pgseal_start",
    ".hidden pgseal_start",
    ".type pgseal_start, %function",
    "pgseal_start:",
    concat!(contexts::jump!(), " {start}"),
    ".popsection",
    start = sym start,
);
