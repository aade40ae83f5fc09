//! Measures the cost of a page for the cipher alone, in this process, before and after a recipe's
//! rounds.
//!
//! `FileCipher` is what the library runs; it is measured on one page that stays in the processor's
//! caches, on one thread. The figure is the median over short rounds, so that a neighbour that
//! takes the processor for a moment does not show.

use std::hint::black_box;
use std::time::Instant;

use pgseal_crypto::{FileCipher, FileId, Fork, KeyLength, MasterKey, UNIT};

use crate::statistics::median;

const ROUNDS: usize = 101;
const CALLS: u32 = 200;

/// Nanoseconds that a page takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageCost {
    /// The time that decryption takes, in nanoseconds.
    pub open_ns: f64,
    /// The time that encryption takes, in nanoseconds.
    pub seal_ns: f64,
}

/// Measures it; takes some tenths of a second.
pub fn measure(length: KeyLength) -> PageCost {
    let master = MasterKey::from_bytes(&mut [7; 32]);
    let id = FileId::relation(5, 16384, Fork::Main, 0);
    let cipher = FileCipher::new(&master, length, &id);
    let (plain, mut out, mut page) = ([1; UNIT], [0; UNIT], [2; UNIT]);
    let (mut open, mut seal) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        open.push(per_call(|unit| cipher.open(unit, &mut page)));
        seal.push(per_call(|unit| cipher.seal(unit, &plain, &mut out)));
    }
    PageCost {
        open_ns: median(&open),
        seal_ns: median(&seal),
    }
}

/// Nanoseconds of one call, from [`CALLS`] of them.
pub fn per_call(mut call: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    for unit in 0..CALLS {
        call(black_box(u64::from(unit)));
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_a_plausible_time() {
        for length in [KeyLength::Bits128, KeyLength::Bits192, KeyLength::Bits256] {
            let cost = measure(length);
            for ns in [cost.open_ns, cost.seal_ns] {
                assert!((100.0..1e6).contains(&ns), "{length:?}: {cost:?}");
            }
        }
    }
}
