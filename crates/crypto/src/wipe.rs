//! Wipes what a key leaves on the stack and in registers. Called by what derives a key and expands
//! it, and by `preload` when keys arrive.
#![allow(unsafe_code)]

use std::arch::asm;
use std::mem::MaybeUninit;

use crate::awslc::cleanse;

/// Runs `act` and wipes the stack that it used, and vector registers. Registers are spilled there
/// and values moved, and nothing else wipes those copies; PostgreSQL's processes leave their stacks
/// in core dumps.
pub fn without_trace<R>(act: impl FnOnce() -> R) -> R {
    #[inline(never)]
    fn below<R>(act: impl FnOnce() -> R) -> R {
        act()
    }
    let result = below(act);
    wipe_stack();
    wipe_registers();
    result
}

/// Zeroes the vector registers that a call need not preserve. libc copies keys through them, and
/// what it leaves there the dynamic linker, at the next call of a function that it has not found
/// yet, and the kernel, at a signal, write to the stack.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn wipe_registers() {
    // SAFETY: zeroes registers that are named as overwritten, by what this processor has.
    unsafe {
        if is_x86_feature_detected!("avx512f") {
            asm!(
                ".irp register,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                "vpxord zmm\\register, zmm\\register, zmm\\register",
                ".endr",
                clobber_abi("C"),
                options(nomem, nostack, preserves_flags),
            );
        }
        if is_x86_feature_detected!("avx") {
            asm!(
                "vzeroall",
                clobber_abi("C"),
                options(nomem, nostack, preserves_flags)
            );
        } else {
            asm!(
                ".irp register,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "pxor xmm\\register, xmm\\register",
                ".endr",
                clobber_abi("C"),
                options(nomem, nostack, preserves_flags),
            );
        }
    }
}

/// Zeroes the vector registers that a call need not preserve. `v8` to `v15` are left out, because a
/// call preserves their lower halves.
#[cfg(target_arch = "aarch64")]
#[inline(never)]
fn wipe_registers() {
    // SAFETY: zeroes registers that are named as overwritten.
    unsafe {
        asm!(
            ".irp register,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "movi v\\register\\().2d, #0",
            ".endr",
            clobber_abi("C"),
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// Overwrites what returned calls left on the stack below the caller: derivation and expansion of a
/// key go less than half as deep.
#[inline(never)]
fn wipe_stack() {
    let mut dead = [const { MaybeUninit::<u8>::uninit() }; 8 << 10];
    cleanse(&mut dead);
}

/// Copies `bytes` to each vector register, to show that they are wiped.
#[cfg(all(test, target_arch = "x86_64"))]
#[inline(always)]
pub fn fill_registers(bytes: &[u8; 16]) {
    // SAFETY: reads the 16 bytes of `bytes` and overwrites registers that are named as overwritten,
    // which this processor has.
    unsafe {
        asm!(
            ".irp register,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "movdqu xmm\\register, [{from}]",
            ".endr",
            from = in(reg) bytes.as_ptr(),
            clobber_abi("C"),
            options(readonly, nostack, preserves_flags),
        );
        if is_x86_feature_detected!("avx512f") {
            asm!(
                ".irp register,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                "vbroadcasti32x4 zmm\\register, [{from}]",
                ".endr",
                from = in(reg) bytes.as_ptr(),
                clobber_abi("C"),
                options(readonly, nostack, preserves_flags),
            );
        }
    }
}

/// Returns what the vector registers hold; zeros on a processor without AVX.
#[cfg(all(test, target_arch = "x86_64"))]
#[inline(always)]
pub fn registers() -> Vec<u8> {
    let mut saved = [0u8; 2048];
    let to = saved.as_mut_ptr();
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: 32 registers of 64 bytes each, which this processor has.
        unsafe {
            asm!(
                ".set at, 0",
                ".irp register,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "vmovdqu64 [{to} + at], zmm\\register",
                ".set at, at + 64",
                ".endr",
                ".irp register,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                "vmovdqu64 [{to} + at], zmm\\register",
                ".set at, at + 64",
                ".endr",
                to = in(reg) to,
            );
        }
    } else if is_x86_feature_detected!("avx") {
        // SAFETY: 16 registers of 32 bytes each, which this processor has.
        unsafe {
            asm!(
                ".set at, 0",
                ".irp register,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "vmovdqu [{to} + at], ymm\\register",
                ".set at, at + 32",
                ".endr",
                to = in(reg) to,
            );
        }
    }
    saved.to_vec()
}
