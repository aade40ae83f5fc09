//! Working memory of one transfer. The caller owns and reuses it (the preload library keeps a small
//! pool), so that a transfer allocates nothing and holds no clear page longer than it runs.

use pgseal_crypto::UNIT;

/// Data units that one transfer to the disk carries at most.
pub const RUN_UNITS: usize = 32;

/// The memory of one transfer, aligned for `O_DIRECT` and for the kernel, which copies aligned
/// memory in pieces of whole blocks.
#[repr(C, align(4096))]
pub struct Scratch {
    /// The bytes that go to the disk, or came from it: ciphertext only.
    pub run: [u8; RUN_UNITS * UNIT],
    /// One data unit in clear.
    pub unit: [u8; UNIT],
}

impl Scratch {
    /// Returns a scratch of zeros.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            run: [0; RUN_UNITS * UNIT],
            unit: [0; UNIT],
        }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}
