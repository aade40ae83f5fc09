//! AWS-LC's C functions behind types that cannot be misused. The feature `fips` takes them from
//! AWS-LC's FIPS module instead.
//!
//! Called by `xts`, `cipher`, `derive`, `mac`, `secret`, `random`, `pbkdf2` and `exchange`. AWS-LC
//! fails here for two reasons only: no memory is left, or our arguments are wrong. Neither leaves a
//! safe way on, so both panic. What comes from outside (points, ciphertexts) is refused by `None`.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

#[cfg(feature = "fips")]
use aws_lc_fips_sys as ffi;
#[cfg(not(feature = "fips"))]
use aws_lc_sys as ffi;

use crate::{KeyLength, BLOCK};

mod hpke;
mod module;
mod wrapping;

pub use hpke::{HpkeContext, HpkeKey};
#[cfg(all(test, feature = "fips"))]
pub use module::is_approved;
pub use module::{random, sha256, sha512, version};
pub use wrapping::{gcm_open, gcm_seal, pbkdf2};

/// Which way a block cipher runs. Counter modes always run `Seal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// encrypt
    Seal,
    /// decrypt
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
    /// Expands `key`, which must have the mode's length, and for XTS two different halves.
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

    /// Runs the cipher from `input` to `out`, on whole blocks except in counter mode.
    #[inline]
    pub fn run(&mut self, input: &[u8], out: &mut [u8]) {
        assert_eq!(input.len(), out.len(), "the cipher keeps lengths");
        // SAFETY: both slices are `len` bytes, and distinct because one is borrowed mutably.
        unsafe { self.run_raw(input.as_ptr(), out.as_mut_ptr(), out.len()) }
    }

    /// Runs the cipher in place, on whole blocks except in counter mode.
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
        // SAFETY: the context is live; by this function's contract both pointers cover `len` bytes
        // and are equal or do not overlap.
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

/// Overwrites `bytes`; unlike an assignment it is not optimised away.
pub fn cleanse(bytes: &mut [MaybeUninit<u8>]) {
    // SAFETY: as many bytes as the slice has.
    unsafe { ffi::OPENSSL_cleanse(bytes.as_mut_ptr().cast(), bytes.len()) };
}

/// Compares in a time that depends only on the lengths.
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    // SAFETY: as many bytes as either slice has are read.
    let same = |len| unsafe { ffi::CRYPTO_memcmp(a.as_ptr().cast(), b.as_ptr().cast(), len) == 0 };
    a.len() == b.len() && same(a.len())
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

/// HMAC-SHA256 under a key that was taken in beforehand. AWS-LC wipes it when it is dropped.
pub struct HmacKey(NonNull<ffi::HMAC_CTX>);

// SAFETY: plain memory that this value alone owns and that nothing changes after it was made.
unsafe impl Send for HmacKey {}
// SAFETY: after `new`, `tag` only copies the context and only `drop`, which owns it, frees it, so
// that no two threads write to it.
unsafe impl Sync for HmacKey {}

impl HmacKey {
    /// Takes a key in.
    pub fn new(key: &[u8; 32]) -> Self {
        // SAFETY: takes nothing; the result is checked.
        let raw = unsafe { ffi::HMAC_CTX_new() };
        let context = Self(NonNull::new(raw).expect("memory for a MAC's key"));
        // SAFETY: the context is live; the pointer goes with its length; the digest is a constant
        // table.
        let done = unsafe {
            let key = key.as_ptr().cast();
            ffi::HMAC_Init_ex(raw, key, 32, ffi::EVP_sha256(), ptr::null_mut())
        };
        assert_eq!(done, 1, "HMAC-SHA256 of a key");
        context
    }

    /// The tag of the parts, one after the other; allocates nothing.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = MaybeUninit::<ffi::HMAC_CTX>::uninit();
        let context = context.as_mut_ptr();
        let mut tag = [0; 32];
        // SAFETY: the context is initialised before its use and cleaned up once, after it; the one
        // that is copied is live and keyed; each pointer goes with the length of its slice; SHA-256
        // writes 32 bytes to `tag`.
        let done = unsafe {
            ffi::HMAC_CTX_init(context);
            let mut done = ffi::HMAC_CTX_copy_ex(context, self.0.as_ptr());
            for part in parts {
                done &= ffi::HMAC_Update(context, part.as_ptr(), part.len());
            }
            done &= ffi::HMAC_Final(context, tag.as_mut_ptr(), ptr::null_mut());
            ffi::HMAC_CTX_cleanup(context);
            done
        };
        assert_eq!(done, 1, "HMAC-SHA256 of slices");
        tag
    }
}

impl Drop for HmacKey {
    fn drop(&mut self) {
        // SAFETY: made by HMAC_CTX_new, freed once.
        unsafe { ffi::HMAC_CTX_free(self.0.as_ptr()) }
    }
}

/// Allocates `size` bytes, aligned to 16; null if it cannot. The other two arguments say nothing.
pub type Allocate = unsafe extern "C" fn(usize, *const c_char, c_int) -> *mut c_void;

/// Moves an allocation to another size; the old bytes must be wiped if they move.
pub type Reallocate = unsafe extern "C" fn(*mut c_void, usize, *const c_char, c_int) -> *mut c_void;

/// Wipes an allocation (AWS-LC leaves that to it) and frees it; never called with null.
pub type Release = unsafe extern "C" fn(*mut c_void, *const c_char, c_int);

/// Makes AWS-LC allocate its contexts with the caller's functions, so that expanded keys can be
/// kept in locked memory. Returns false and changes nothing if that was done before.
///
/// # Safety
/// Nothing of this crate was used before in this process, or its memory would be freed by the wrong
/// function. The three functions keep their contracts, and may be called by any thread.
pub unsafe fn route_allocations(
    allocate: Allocate,
    reallocate: Reallocate,
    release: Release,
) -> bool {
    // SAFETY: by this function's contract the three functions keep theirs and AWS-LC holds no
    // memory that another allocator gave.
    let done =
        unsafe { ffi::CRYPTO_set_mem_functions(Some(allocate), Some(reallocate), Some(release)) };
    done == 1
}

#[cfg(test)]
mod tests {
    //! AWS-LC's allocations, counted. They can be routed once in a process and only before all
    //! else, so the counting test runs alone, in a child.

    #![allow(clippy::unwrap_used)]

    use std::alloc::{alloc, dealloc, Layout};
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;
    use crate::aead::{Aead, LegacyAead};
    use crate::{FileCipher, FileId, Fork, Mac, MasterKey, Secret};

    static MADE: AtomicUsize = AtomicUsize::new(0);
    static FREED: AtomicUsize = AtomicUsize::new(0);

    const HEADER: usize = 16;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size + HEADER, HEADER).unwrap()
    }

    unsafe extern "C" fn allocate(size: usize, _: *const c_char, _: c_int) -> *mut c_void {
        MADE.fetch_add(1, SeqCst);
        // SAFETY: the layout is not empty; its header holds the size for `release`.
        unsafe {
            let start = alloc(layout(size));
            start.cast::<usize>().write(size);
            start.add(HEADER).cast()
        }
    }

    unsafe extern "C" fn reallocate(
        old: *mut c_void,
        size: usize,
        file: *const c_char,
        line: c_int,
    ) -> *mut c_void {
        // SAFETY: `allocate` made `old` and wrote its size in front; both cover what is copied.
        unsafe {
            let new = allocate(size, file, line);
            let held = old.cast::<u8>().sub(HEADER).cast::<usize>().read();
            ptr::copy_nonoverlapping(old.cast::<u8>(), new.cast(), held.min(size));
            release(old, file, line);
            new
        }
    }

    unsafe extern "C" fn release(memory: *mut c_void, _: *const c_char, _: c_int) {
        FREED.fetch_add(1, SeqCst);
        // SAFETY: made by `allocate`, which wrote the size in front.
        unsafe {
            let start = memory.cast::<u8>().sub(HEADER);
            dealloc(start, layout(start.cast::<usize>().read()));
        }
    }

    /// Set in the child alone.
    const ALONE: &str = "PGSEAL_TEST_ALONE";

    #[test]
    fn counted_alone() {
        if std::env::var_os(ALONE).is_none() {
            return;
        }
        // SAFETY: this process runs no other test.
        assert!(unsafe { route_allocations(allocate, reallocate, release) });
        // SAFETY: this process runs no other test; AWS-LC refuses to be routed twice and changes
        // nothing.
        assert!(!unsafe { route_allocations(allocate, reallocate, release) });
        let master = MasterKey::from_bytes(&mut [7; 32]);
        for (length, first) in [
            (KeyLength::Bits128, 4),
            (KeyLength::Bits192, 4),
            (KeyLength::Bits256, 2),
        ] {
            let before = MADE.load(SeqCst);
            let made = || MADE.load(SeqCst) - before;
            let cipher = FileCipher::new(&master, length, &FileId::relation(1, 2, Fork::Main, 3));
            assert_eq!(made(), 0, "making a cipher allocates nothing");
            let mut page = [0; 8192];
            for unit in 0..100 {
                cipher.seal(unit, &[1; 8192], &mut page);
            }
            assert_eq!(made(), first, "sealing allocates at its first use");
            for unit in 0..100 {
                cipher.open(unit, &mut page);
            }
            assert_eq!(made(), 2 * first, "opening allocates at its first use");
            drop(cipher);
            assert_eq!(FREED.load(SeqCst), MADE.load(SeqCst), "all is freed");
        }
        println!("counted {} allocations", MADE.load(SeqCst));
        small_seals_allocate_nothing();
        exchanges_free_what_they_allocate();
    }

    fn small_seals_allocate_nothing() {
        let key = Secret::from_bytes(&mut [7; 32]);
        let (aead, mac, legacy) = (Aead::new(&key), Mac::new(&key), LegacyAead::new(&[7; 16]));
        let before = MADE.load(SeqCst);
        let mut text = [1; 40];
        let tag = aead.seal(&[0; 12], b"ad", &mut text);
        let mut out = [0; 40];
        assert!(aead.open(&[0; 12], b"ad", &text, &tag, &mut out).is_ok());
        assert!(legacy.open(&[0; 12], b"", &text, &tag, &mut out).is_err());
        mac.tag(&[b"ad", &text]);
        assert_eq!(MADE.load(SeqCst), before);
        drop((aead, mac, legacy));
        assert_eq!(FREED.load(SeqCst), before);
        println!("and none for small seals");
    }

    /// AWS-LC leaves the wiping of an allocation to `Release`, so what is freed is wiped. Its
    /// random generator keeps what it allocates at its first use.
    fn exchanges_free_what_they_allocate() {
        drop(HpkeKey::generate());
        let live = || MADE.load(SeqCst) - FREED.load(SeqCst);
        let before = live();
        let key = HpkeKey::generate();
        let (encapsulated, sender) = HpkeContext::sender(&key.public(), b"info").unwrap();
        let receiver = HpkeContext::recipient(&key, &encapsulated, b"info").unwrap();
        assert!(live() >= before + 3, "a pair and both ends");
        drop((key, sender, receiver));
        assert_eq!(live(), before, "all is freed");
        println!("and exchanges are freed");
    }

    #[test]
    fn allocations_are_routed_and_happen_at_first_use_only() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["awslc::tests::counted_alone", "--exact", "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success()
                && text.contains("counted 20 allocations")
                && text.contains("and none for small seals")
                && text.contains("and exchanges are freed"),
            "{text}"
        );
    }
}
