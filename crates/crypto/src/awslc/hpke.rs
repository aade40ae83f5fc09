//! HPKE (RFC 9180) with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-256-GCM. Called by
//! `exchange`.

use std::ptr::NonNull;

use zeroize::Zeroizing;

use super::ffi;
use crate::Secret;

/// A key pair of HPKE's KEM, DHKEM(X25519, HKDF-SHA256). AWS-LC wipes it when it is dropped.
pub struct HpkeKey(NonNull<ffi::EVP_HPKE_KEY>);

// SAFETY: plain memory that this value alone owns and that nothing changes after it was made.
unsafe impl Send for HpkeKey {}
// SAFETY: after the constructors, the pair is only read, and only `drop`, which owns it, frees it,
// so that no two threads write to it.
unsafe impl Sync for HpkeKey {}

impl HpkeKey {
    /// Makes a random pair.
    pub fn generate() -> Self {
        let key = Self::empty();
        // SAFETY: the key is live and zeroed; the KEM is a constant table.
        let done = unsafe {
            ffi::EVP_HPKE_KEY_generate(key.0.as_ptr(), ffi::EVP_hpke_x25519_hkdf_sha256())
        };
        assert_eq!(done, 1, "random bytes for a key");
        key
    }

    /// Returns the pair of a private key, which any 32 bytes are.
    pub fn from_bytes(private: &[u8; 32]) -> Self {
        let key = Self::empty();
        // SAFETY: the key is live and zeroed; the pointer goes with its length.
        let done = unsafe {
            let kem = ffi::EVP_hpke_x25519_hkdf_sha256();
            ffi::EVP_HPKE_KEY_init(key.0.as_ptr(), kem, private.as_ptr(), private.len())
        };
        assert_eq!(done, 1, "any 32 bytes are a private key of X25519");
        key
    }

    fn empty() -> Self {
        // SAFETY: takes nothing; the result is checked.
        let raw = unsafe { ffi::EVP_HPKE_KEY_new() };
        Self(NonNull::new(raw).expect("memory for a key pair"))
    }

    /// The public key.
    pub fn public(&self) -> [u8; 32] {
        let (mut public, mut len) = ([0; 32], 0);
        // SAFETY: the key is live; at most 32 bytes are written.
        let done = unsafe {
            ffi::EVP_HPKE_KEY_public_key(self.0.as_ptr(), public.as_mut_ptr(), &raw mut len, 32)
        };
        assert!(done == 1 && len == 32, "a public key of X25519 is 32 bytes");
        public
    }
}

impl Drop for HpkeKey {
    fn drop(&mut self) {
        // SAFETY: made by EVP_HPKE_KEY_new, freed once.
        unsafe { ffi::EVP_HPKE_KEY_free(self.0.as_ptr()) }
    }
}

/// One end of an HPKE exchange. AWS-LC wipes it when it is dropped.
pub struct HpkeContext(NonNull<ffi::EVP_HPKE_CTX>);

// SAFETY: plain memory that this value alone owns; AWS-LC ties no thread to a context.
unsafe impl Send for HpkeContext {}

impl HpkeContext {
    /// The bytes that AES-256-GCM adds to a message: its tag.
    const OVERHEAD: usize = 16;

    /// The sender's end, and what the recipient needs; none if `public` is no key.
    pub fn sender(public: &[u8; 32], info: &[u8]) -> Option<([u8; 32], Self)> {
        let context = Self::empty();
        let (mut encapsulated, mut len) = ([0; 32], 0);
        // SAFETY: the context is live and zeroed; each pointer goes with its length; the tables are
        // constant.
        let done = unsafe {
            ffi::EVP_HPKE_CTX_setup_sender(
                context.0.as_ptr(),
                encapsulated.as_mut_ptr(),
                &raw mut len,
                encapsulated.len(),
                ffi::EVP_hpke_x25519_hkdf_sha256(),
                ffi::EVP_hpke_hkdf_sha256(),
                ffi::EVP_hpke_aes_256_gcm(),
                public.as_ptr(),
                public.len(),
                info.as_ptr(),
                info.len(),
            )
        };
        (done == 1 && len == 32).then_some((encapsulated, context))
    }

    /// The recipient's end; none if `encapsulated` is no key.
    pub fn recipient(key: &HpkeKey, encapsulated: &[u8; 32], info: &[u8]) -> Option<Self> {
        let context = Self::empty();
        // SAFETY: context and key are live; each pointer goes with its length.
        let done = unsafe {
            ffi::EVP_HPKE_CTX_setup_recipient(
                context.0.as_ptr(),
                key.0.as_ptr(),
                ffi::EVP_hpke_hkdf_sha256(),
                ffi::EVP_hpke_aes_256_gcm(),
                encapsulated.as_ptr(),
                encapsulated.len(),
                info.as_ptr(),
                info.len(),
            )
        };
        (done == 1).then_some(context)
    }

    fn empty() -> Self {
        // SAFETY: takes nothing; the result is checked.
        let raw = unsafe { ffi::EVP_HPKE_CTX_new() };
        Self(NonNull::new(raw).expect("memory for an exchange"))
    }

    /// Seals the next message.
    pub fn seal(&mut self, ad: &[u8], plain: &[u8]) -> Vec<u8> {
        let (mut out, mut len) = (vec![0; plain.len() + Self::OVERHEAD], 0);
        // SAFETY: the context is live and a sender's; each pointer goes with its length.
        let done = unsafe {
            ffi::EVP_HPKE_CTX_seal(
                self.0.as_ptr(),
                out.as_mut_ptr(),
                &raw mut len,
                out.len(),
                plain.as_ptr(),
                plain.len(),
                ad.as_ptr(),
                ad.len(),
            )
        };
        assert!(done == 1 && len == out.len(), "a sender seals");
        out
    }

    /// Opens the next message; none if it is not authentic.
    pub fn open(&mut self, ad: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (mut out, mut len) = (Zeroizing::new(vec![0; sealed.len()]), 0);
        // SAFETY: the context is live and a recipient's; each pointer goes with its length.
        let done = unsafe {
            ffi::EVP_HPKE_CTX_open(
                self.0.as_ptr(),
                out.as_mut_ptr(),
                &raw mut len,
                out.len(),
                sealed.as_ptr(),
                sealed.len(),
                ad.as_ptr(),
                ad.len(),
            )
        };
        out.truncate(len);
        (done == 1).then_some(out)
    }

    /// A secret of both ends.
    pub fn export(&self, context: &[u8]) -> Secret {
        let mut secret = [0; 32];
        // SAFETY: the context is live and set up; each pointer goes with its length.
        let done = unsafe {
            ffi::EVP_HPKE_CTX_export(
                self.0.as_ptr(),
                secret.as_mut_ptr(),
                secret.len(),
                context.as_ptr(),
                context.len(),
            )
        };
        assert_eq!(done, 1, "32 bytes are not too many");
        Secret::from_bytes(&mut secret)
    }
}

impl Drop for HpkeContext {
    fn drop(&mut self) {
        // SAFETY: made by EVP_HPKE_CTX_new, freed once.
        unsafe { ffi::EVP_HPKE_CTX_free(self.0.as_ptr()) }
    }
}
