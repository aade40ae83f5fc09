//! Memory for AWS-LC, whose cipher contexts hold expanded keys: slots of locked memory, wiped.
//!
//! AWS-LC looks for these functions as weak symbols, and for jemalloc's `sdallocx`. They are
//! defined here, because a weak symbol that is left open is a stranger's to define; and not by
//! `no_mangle`, which would export them and so hand our allocator to any other copy of AWS-LC or
//! BoringSSL in the process. `cargo xtask surface` checks both.
//!
//! Invariant: every block begins in the arena or came from `malloc`; the address says which.

use crate::memory::{CONTEXT_SIZE, MEMORY};
use libc::{c_int, c_void, size_t};
use std::ptr::NonNull;

extern "C" fn relock() {
    MEMORY.contexts.relock();
}

extern "C" fn allocate(size: size_t) -> *mut c_void {
    // What is larger holds no key and is on the heap.
    let fits = size <= CONTEXT_SIZE;
    let slot = fits.then(|| MEMORY.contexts.take(relock)).flatten();
    // SAFETY: malloc takes any size.
    slot.map_or_else(
        || unsafe { libc::malloc(size) },
        |slot| slot.as_ptr().cast(),
    )
}

/// Bytes that a block has room for.
unsafe extern "C" fn room(block: *mut c_void) -> size_t {
    if MEMORY.contexts.holds(block.addr()) {
        return CONTEXT_SIZE;
    }
    // SAFETY: the block is not in the arena, so it came from malloc.
    unsafe { libc::malloc_usable_size(block) }
}

unsafe extern "C" fn release(block: *mut c_void) {
    let Some(slot) = NonNull::new(block) else {
        return;
    };
    // SAFETY: the block came from `allocate`, and AWS-LC is done with it.
    unsafe {
        if MEMORY.contexts.holds(block.addr()) {
            MEMORY.contexts.give_back(slot.cast());
        } else {
            libc::explicit_bzero(block, room(block));
            libc::free(block);
        }
    }
}

unsafe extern "C" fn resize(block: *mut c_void, size: size_t) -> *mut c_void {
    let new = allocate(size);
    if block.is_null() || new.is_null() {
        return new;
    }
    // SAFETY: both blocks are live and apart; what is copied fits in either.
    unsafe {
        libc::memcpy(new, block, size.min(room(block)));
        release(block);
    }
    new
}

/// jemalloc's sized `free`; AWS-LC has no use for it while it has the functions above.
unsafe extern "C" fn release_sized(block: *mut c_void, _size: size_t, _flags: c_int) {
    // SAFETY: as for `release`.
    unsafe { release(block) }
}

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "b"
    };
}

#[cfg(feature = "fips")]
pub(crate) use jump;

/// Defines `$symbol` for the linker alone.
macro_rules! hidden {
    ($($symbol:literal => $function:path;)*) => {$(
        std::arch::global_asm!(
            ".pushsection .text",
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            concat!(".type ", $symbol, ", %function"),
            concat!($symbol, ":"),
            concat!(jump!(), " {function}"),
            ".popsection",
            function = sym $function,
        );
    )*};
}

hidden! {
    "OPENSSL_memory_alloc" => allocate;
    "OPENSSL_memory_free" => release;
    "OPENSSL_memory_get_size" => room;
    "OPENSSL_memory_realloc" => resize;
    "sdallocx" => release_sized;
}
