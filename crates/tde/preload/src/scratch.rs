//! The working memory of a transfer.

use crate::memory::MEMORY;
use pgseal_storage::scratch::Scratch;

/// Runs `work` with a scratch of its own.
pub fn with<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    MEMORY.with_scratch(work)
}
