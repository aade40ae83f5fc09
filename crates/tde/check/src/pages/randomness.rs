//! Are bytes ciphertext? The test that `audit` and `verify` rest on.
//!
//! Method: Pearson's chi-square of the byte values against the uniform distribution,
//! `sum((count - n/256)^2 / (n/256))` over the 256 values. For ciphertext it is about 255; for a
//! page of PostgreSQL, of which some values (0 above all) are frequent, in the tens of thousands.
//!
//! The limits are proved, not estimated: with counts as independent Poisson variables, Chernoff's
//! bound of their sum, divided by the probability that they add up to n, is below 10^-9.3 for
//! each row of [`LIMITS`] (a test computes it). So random bytes are taken for clear less than once
//! in 10^9 pages. The limit falls with n, so between two rows the shorter one's holds.
//!
//! What it cannot see: clear bytes that are themselves compressed or encrypted throughout. A page
//! of a relation that holds such values is told by its header instead ([`super::header`]).

/// The kind of content that bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// As ciphertext does.
    Random,
    /// As ciphertext does not.
    Clear,
    /// Too few to tell.
    Short,
}

/// Length from which on a limit holds, and the limit.
const LIMITS: [(usize, f64); 6] = [
    (8192, 480.0),
    (4096, 490.0),
    (1024, 580.0),
    (512, 695.0),
    (256, 905.0),
    (128, 1365.0),
];

/// Bytes that a hole has in files which are extended at any length.
pub const BLOCK: usize = pgseal_crypto::BLOCK;
/// Bytes that a hole has in files which are written by pages: what a disk writes or leaves when the
/// power goes.
pub const SECTOR: usize = 512;

/// How `bytes` look.
pub fn look(bytes: &[u8]) -> Look {
    let mut counts = [0; 256];
    count(&mut counts, bytes);
    verdict(&counts, bytes.len())
}

/// How `bytes` look without their pieces of `hole` bytes that are all zeros. `None` if there is
/// nothing else.
pub fn look_between_holes(bytes: &[u8], hole: usize) -> Option<Look> {
    let mut counts = [0; 256];
    let mut len = 0;
    for piece in bytes.chunks(hole) {
        if piece.iter().any(|&byte| byte != 0) {
            count(&mut counts, piece);
            len += piece.len();
        }
    }
    (len > 0).then(|| verdict(&counts, len))
}

fn count(counts: &mut [u32; 256], bytes: &[u8]) {
    for &byte in bytes {
        counts[usize::from(byte)] += 1;
    }
}

fn verdict(counts: &[u32; 256], len: usize) -> Look {
    let Some((_, limit)) = LIMITS.iter().find(|(from, _)| len >= *from) else {
        return Look::Short;
    };
    if chi_square(counts) > *limit {
        Look::Clear
    } else {
        Look::Random
    }
}

fn chi_square(counts: &[u32; 256]) -> f64 {
    let total: f64 = counts.iter().copied().map(f64::from).sum();
    let expected = total / 256.0;
    let square = |&count: &u32| (f64::from(count) - expected).powi(2);
    counts.iter().map(square).sum::<f64>() / expected
}

#[cfg(test)]
mod tests;
