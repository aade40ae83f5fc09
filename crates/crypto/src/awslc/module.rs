//! The identity of AWS-LC, its digests, and, in a FIPS build, its random bytes and its service
//! indicator.

use std::mem::MaybeUninit;

use super::ffi;

/// The name and version of the FIPS module; none in a build that has none.
pub fn version() -> Option<&'static str> {
    #[cfg(feature = "fips")]
    {
        // SAFETY: takes nothing; the text is a constant that ends with a zero byte.
        let text = unsafe { std::ffi::CStr::from_ptr(ffi::awslc_version_string()) };
        text.to_str().ok().filter(|_| is_operational())
    }
    #[cfg(not(feature = "fips"))]
    None
}

/// Whether the module is in FIPS mode. It ends the process when one of its self tests fails.
#[cfg(feature = "fips")]
fn is_operational() -> bool {
    // SAFETY: takes nothing and reads a constant.
    unsafe { ffi::FIPS_mode() == 1 }
}

/// Fills `out` from the random generator of the FIPS module. False where there is no such module.
pub fn random(out: &mut [u8]) -> bool {
    #[cfg(feature = "fips")]
    {
        // SAFETY: as many bytes are written as the slice has. The module ends the process rather
        // than give fewer.
        unsafe { ffi::RAND_bytes(out.as_mut_ptr(), out.len()) == 1 }
    }
    #[cfg(not(feature = "fips"))]
    {
        let _ = out;
        false
    }
}

/// Whether the module's service indicator says, for this thread, that `act` was an approved
/// service.
#[cfg(all(test, feature = "fips"))]
pub fn is_approved<R>(act: impl FnOnce() -> R) -> (bool, R) {
    // SAFETY: takes nothing and reads this thread's counter.
    let before = unsafe { ffi::FIPS_service_indicator_before_call() };
    let result = act();
    // SAFETY: takes nothing and reads this thread's counter.
    let after = unsafe { ffi::FIPS_service_indicator_after_call() };
    (before != after, result)
}

/// Defines a digest of parts, one after the other. Its state, which may hold bytes of a key, is
/// wiped.
macro_rules! digest {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $init:ident, $update:ident, $finish:ident) => {
        $(#[$doc])*
        pub fn $name(parts: &[&[u8]]) -> [u8; $bytes] {
            let mut context = [MaybeUninit::uninit()];
            let (state, mut out) = (context[0].as_mut_ptr(), [0; $bytes]);
            // SAFETY: the context is initialised before its use; each pointer goes with the length
            // of its slice; the digest has the length of `out`.
            let done = unsafe {
                let mut done = ffi::$init(state);
                for part in parts {
                    done &= ffi::$update(state, part.as_ptr().cast(), part.len());
                }
                done & ffi::$finish(out.as_mut_ptr(), state)
            };
            assert_eq!(done, 1, "a digest of slices");
            // SAFETY: the context is one value of plain memory, and nothing reads it again.
            unsafe { ffi::OPENSSL_cleanse(state.cast(), size_of_val(&context)) };
            out
        }
    };
}

digest! {
    /// SHA-256 of the parts, one after the other.
    sha256, 32, SHA256_Init, SHA256_Update, SHA256_Final
}
digest! {
    /// SHA-512 of the parts, one after the other.
    sha512, 64, SHA512_Init, SHA512_Update, SHA512_Final
}
