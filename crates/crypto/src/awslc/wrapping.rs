//! Wrapping under a passphrase by approved functions: PBKDF2 and AES-256-GCM whose nonce AWS-LC
//! chooses. Called by `pbkdf2`.

use std::ptr;

use zeroize::Zeroizing;

use super::ffi;

/// Bytes that [`gcm_seal`] adds: a tag of 16, then the nonce of 12.
pub const OVERHEAD: usize = 28;

/// PBKDF2-HMAC-SHA512 (SP 800-132, RFC 8018).
pub fn pbkdf2(secret: &[u8], salt: &[u8], iterations: u32, out: &mut [u8]) {
    // SAFETY: each pointer goes with the length of its slice; the digest is a constant table.
    let done = unsafe {
        ffi::PKCS5_PBKDF2_HMAC(
            secret.as_ptr().cast(),
            secret.len(),
            salt.as_ptr(),
            salt.len(),
            iterations,
            ffi::EVP_sha512(),
            out.len(),
            out.as_mut_ptr(),
        )
    };
    assert_eq!(done, 1, "PBKDF2 with at least one iteration");
}

/// AES-256-GCM of `plain`: ciphertext, tag, and the random nonce that AWS-LC chose.
pub fn gcm_seal(key: &[u8; 32], ad: &[u8], plain: &[u8]) -> Vec<u8> {
    let mut out = vec![0; plain.len() + OVERHEAD];
    let mut len = 0;
    // SAFETY: the context is live; each pointer goes with the length of its slice; the nonce is
    // AWS-LC's own, so that none is read.
    let done = unsafe {
        ffi::EVP_AEAD_CTX_seal(
            GcmKey::new(key).0,
            out.as_mut_ptr(),
            &raw mut len,
            out.len(),
            ptr::null(),
            0,
            plain.as_ptr(),
            plain.len(),
            ad.as_ptr(),
            ad.len(),
        )
    };
    assert!(
        done == 1 && len == out.len(),
        "AES-GCM seals less than 64 GiB"
    );
    out
}

/// Opens what [`gcm_seal`] made; none if it is not authentic.
pub fn gcm_open(key: &[u8; 32], ad: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut out = Zeroizing::new(vec![0; sealed.len()]);
    let mut len = 0;
    // SAFETY: the context is live; each pointer goes with the length of its slice; the nonce is in
    // `sealed`, so that none is read beside it.
    let done = unsafe {
        ffi::EVP_AEAD_CTX_open(
            GcmKey::new(key).0,
            out.as_mut_ptr(),
            &raw mut len,
            out.len(),
            ptr::null(),
            0,
            sealed.as_ptr(),
            sealed.len(),
            ad.as_ptr(),
            ad.len(),
        )
    };
    out.truncate(len);
    (done == 1).then_some(out)
}

/// An expanded key of AES-256-GCM. AWS-LC wipes it when it is dropped.
struct GcmKey(*mut ffi::EVP_AEAD_CTX);

impl GcmKey {
    fn new(key: &[u8; 32]) -> Self {
        // SAFETY: the table is constant; 32 bytes are its key's length; 0 asks for the longest tag.
        let raw = unsafe {
            ffi::EVP_AEAD_CTX_new(
                ffi::EVP_aead_aes_256_gcm_randnonce(),
                key.as_ptr(),
                key.len(),
                0,
            )
        };
        assert!(!raw.is_null(), "memory for a key of AES-GCM");
        Self(raw)
    }
}

impl Drop for GcmKey {
    fn drop(&mut self) {
        // SAFETY: made by EVP_AEAD_CTX_new, freed once.
        unsafe { ffi::EVP_AEAD_CTX_free(self.0) }
    }
}
