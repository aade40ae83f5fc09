//! The only unsafe file: AWS-LC's C functions behind types that cannot be misused.
//!
//! Called by `xts`, `cipher`, `derive` and `mac`. AWS-LC fails here for two reasons only: no memory
//! is left, or our arguments are wrong. Neither leaves a safe way on, so both panic.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};

use aws_lc_sys as ffi;

use crate::{KeyLength, BLOCK};

/// Which way a block cipher runs. Counter modes always run `Seal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Seal,
    Open,
}

/// The modes of AES that we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// AWS-LC's own XTS; AES-256 only, the key is K1 || K2.
    Xts256,
    /// Independent blocks: the ground that XTS is composed on.
    Ecb(KeyLength),
    /// Counter mode; the whole 16-byte block is a big-endian counter.
    Ctr(KeyLength),
}

impl Mode {
    fn key_bytes(self) -> usize {
        match self {
            Self::Xts256 => 64,
            Self::Ecb(length) | Self::Ctr(length) => length.bytes(),
        }
    }

    fn table(self) -> *const ffi::EVP_CIPHER {
        // SAFETY: these take nothing and return a pointer to a constant table.
        unsafe {
            match self {
                Self::Xts256 => ffi::EVP_aes_256_xts(),
                Self::Ecb(KeyLength::Bits128) => ffi::EVP_aes_128_ecb(),
                Self::Ecb(KeyLength::Bits192) => ffi::EVP_aes_192_ecb(),
                Self::Ecb(KeyLength::Bits256) => ffi::EVP_aes_256_ecb(),
                Self::Ctr(KeyLength::Bits128) => ffi::EVP_aes_128_ctr(),
                Self::Ctr(KeyLength::Bits192) => ffi::EVP_aes_192_ctr(),
                Self::Ctr(KeyLength::Bits256) => ffi::EVP_aes_256_ctr(),
            }
        }
    }
}

/// An expanded key. Two allocations when made, none later; AWS-LC wipes them when it is dropped.
pub struct Context(NonNull<ffi::EVP_CIPHER_CTX>);

// SAFETY: plain memory that this value alone owns; AWS-LC ties no thread to a context.
unsafe impl Send for Context {}

impl Context {
    pub fn new(mode: Mode, direction: Direction, key: &[u8]) -> Self {
        assert_eq!(key.len(), mode.key_bytes(), "the key has the mode's length");
        // SAFETY: takes nothing; the result is checked.
        let raw = unsafe { ffi::EVP_CIPHER_CTX_new() };
        let context = Self(NonNull::new(raw).expect("memory for a cipher context"));
        let iv = [0; BLOCK];
        // SAFETY: the context is live, `key` has the length that `mode` reads, `iv` is 16 bytes.
        let done = unsafe {
            ffi::EVP_CipherInit_ex(
                context.0.as_ptr(),
                mode.table(),
                ptr::null_mut(),
                key.as_ptr(),
                iv.as_ptr(),
                i32::from(direction == Direction::Seal),
            )
        };
        assert_eq!(done, 1, "memory for a key schedule, and unequal XTS keys");
        context
    }

    /// Starts a data unit (XTS: `iv` is the tweak) or a stream (CTR: the first counter block).
    #[inline]
    pub fn start(&mut self, iv: &[u8; BLOCK]) {
        // SAFETY: the context is live and keyed; a null cipher and key and -1 keep all but the IV.
        let done = unsafe {
            ffi::EVP_CipherInit_ex(
                self.0.as_ptr(),
                ptr::null(),
                ptr::null_mut(),
                ptr::null(),
                iv.as_ptr(),
                -1,
            )
        };
        assert_eq!(done, 1, "a keyed context takes an IV");
    }

    /// Runs the cipher from `input` to `out`; whole blocks only, but for CTR.
    #[inline]
    pub fn run(&mut self, input: &[u8], out: &mut [u8]) {
        assert_eq!(input.len(), out.len(), "the cipher keeps lengths");
        // SAFETY: both slices are `len` bytes, and distinct because one is borrowed mutably.
        unsafe { self.run_raw(input.as_ptr(), out.as_mut_ptr(), out.len()) }
    }

    /// Runs the cipher in place; whole blocks only, but for CTR.
    #[inline]
    pub fn run_in_place(&mut self, buf: &mut [u8]) {
        let start = buf.as_mut_ptr();
        // SAFETY: one buffer of `len` bytes; AWS-LC allows input and output to be the same.
        unsafe { self.run_raw(start, start, buf.len()) }
    }

    /// # Safety
    /// `input` and `out` point to `len` bytes each, and are equal or do not overlap.
    #[inline]
    unsafe fn run_raw(&mut self, input: *const u8, out: *mut u8, len: usize) {
        // SAFETY: the context is live; the caller answers for the buffers.
        let done = unsafe { ffi::EVP_Cipher(self.0.as_ptr(), out, input, len) };
        assert_eq!(done, 1, "a started context takes a unit");
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by EVP_CIPHER_CTX_new, freed once.
        unsafe { ffi::EVP_CIPHER_CTX_free(self.0.as_ptr()) }
    }
}

/// HKDF-Expand (RFC 5869) with SHA-256; allocates nothing.
pub fn hkdf_expand(key: &[u8; 32], info: &[u8], out: &mut [u8]) {
    // SAFETY: each pointer goes with the length of its slice; the digest is a constant table.
    let done = unsafe {
        ffi::HKDF_expand(
            out.as_mut_ptr(),
            out.len(),
            ffi::EVP_sha256(),
            key.as_ptr(),
            key.len(),
            info.as_ptr(),
            info.len(),
        )
    };
    assert_eq!(done, 1, "HKDF-Expand of at most 8160 bytes");
}

/// HMAC-SHA256; allocates nothing.
pub fn hmac(key: &[u8; 32], data: &[u8]) -> [u8; 32] {
    let mut tag = [0; 32];
    // SAFETY: each pointer goes with the length of its slice; SHA-256 writes 32 bytes to `tag`, and
    // a null length pointer is allowed.
    let done = unsafe {
        ffi::HMAC(
            ffi::EVP_sha256(),
            key.as_ptr().cast(),
            key.len(),
            data.as_ptr(),
            data.len(),
            tag.as_mut_ptr(),
            ptr::null_mut(),
        )
    };
    assert!(!done.is_null(), "HMAC-SHA256 of a slice");
    tag
}
