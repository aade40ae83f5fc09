//! Random bytes: from the kernel, or in a FIPS build from the random generator of its module.

use crate::awslc;

/// `N` bytes of getrandom(2): all of them, whatever signals arrive, and never a state of our own
/// that a fork could copy. In a FIPS build they come from the module, which knows of forks.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], RandomError> {
    let mut bytes = [0; N];
    if !awslc::random(&mut bytes) {
        getrandom::fill(&mut bytes).map_err(RandomError)?;
    }
    Ok(bytes)
}

/// The kernel gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the kernel gave no random bytes ({0}): check that no seccomp filter blocks getrandom(2)")]
pub struct RandomError(getrandom::Error);
