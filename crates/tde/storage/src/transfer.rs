//! The open file and the memory with which every transfer of a sealed file works.

use crate::scratch::Scratch;
use crate::Disk;

/// An open file, and the memory that one transfer to or from it may use.
pub struct Transfer<'a, D> {
    /// The file as it is stored.
    pub disk: &'a D,
    /// The memory. What it held before does not matter.
    pub scratch: &'a mut Scratch,
}

impl<'a, D: Disk> Transfer<'a, D> {
    /// Borrows both for one transfer, or for several of them in turn.
    pub const fn new(disk: &'a D, scratch: &'a mut Scratch) -> Self {
        Self { disk, scratch }
    }
}
