//! Cells that are opened side by side, before they are asked for one by one.
//!
//! A scan, a sum or a sort asks about hundreds of cells by one request. Four cells that are opened
//! side by side take little longer than one. The operation that a request asks for lists
//! the cells that it will open next. When it opens a cell of the same bytes, it gets the value.
//!
//! Whether the session may use a value is asked when it is used, as of any cell. A cell that cannot
//! be opened is left out: it is opened alone when it is asked for, and refused with its own reason.

use std::ops::Range;

use pgseal_cell::{CellCipher, CellRef, Mode, HEADER, LANES};
use pgseal_value::Value;

use super::cache::Opened;
use super::permit::Guarded;
use super::view::View;

/// The cells that are opened ahead at most.
pub(super) const MOST: usize = 16;
/// The longest value that is opened ahead, in bytes: a long one takes as long alone.
const MAX_PLAIN: usize = 128;

/// Returns the number of rows of so many cells each that are opened ahead, at least one.
pub(super) fn rows(cells: usize) -> usize {
    (MOST / cells.max(1)).max(1)
}

/// Cells that were opened and not asked for.
#[derive(Default)]
pub(super) struct Ahead {
    /// The cells, in the order in which they were listed
    held: Vec<Held>,
    /// Their bytes, one behind the other
    bytes: Vec<u8>,
    /// The first that was not asked for
    next: usize,
    plain: [Vec<u8>; LANES],
}

struct Held {
    /// The cell's place in [`Ahead::bytes`]
    cell: Range<usize>,
    opened: Option<Opened>,
}

/// A cell with its key.
struct Pending<'v, 'c> {
    cipher: &'v CellCipher,
    cell: CellRef<'c>,
    key: u16,
}

impl Ahead {
    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        zeroize::Zeroize::zeroize(&mut self.plain);
    }

    /// Opens the first [`MOST`] of these cells, in place of what was opened before.
    pub(super) fn open<'c>(&mut self, view: &View, cells: impl Iterator<Item = &'c [u8]>) {
        self.held.clear();
        self.bytes.clear();
        self.next = 0;
        let known = cells.filter_map(|cell| Pending::of(view, cell)).take(MOST);
        let mut known = known.peekable();
        while known.peek().is_some() {
            let mut four = [const { None }; LANES];
            four.iter_mut().for_each(|lane| *lane = known.next());
            self.open_some(&four);
        }
    }

    /// Opens up to four cells. One alone is not worth it.
    fn open_some(&mut self, some: &[Option<Pending<'_, '_>>; LANES]) {
        let [Some(first), Some(second), third, fourth] = some else {
            return;
        };
        // Lanes that nobody needs open the first cell again.
        let third = third.as_ref().unwrap_or(first);
        let four = [first, second, third, fourth.as_ref().unwrap_or(first)];
        let cells = four.map(|pending| pending.cell);
        let ciphers = four.map(|pending| pending.cipher);
        let opened = CellCipher::open_four(ciphers, &cells, &mut self.plain);
        for ((pending, opened), plain) in some.iter().zip(opened).zip(&self.plain) {
            let (Some(pending), Ok(())) = (pending, opened) else {
                continue;
            };
            if let Ok(value) = Value::decode(pending.cell.ty(), plain) {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(pending.cell.bytes());
                self.held.push(Held {
                    cell: start..self.bytes.len(),
                    opened: Some(Opened {
                        value: Guarded::new(value),
                        key: pending.key,
                        derived: pending.cell.mode() == Mode::Derived,
                    }),
                });
            }
        }
    }

    /// Returns what a cell of these bytes holds, if it was opened. It and those that were listed
    /// before it are not here any more.
    #[inline]
    pub(super) fn take(&mut self, cell: &[u8]) -> Option<Opened> {
        let rest = self.held.get_mut(self.next..)?;
        let bytes = &self.bytes;
        let at = rest
            .iter()
            .position(|held| bytes[held.cell.clone()] == *cell)?;
        self.next += at + 1;
        rest[at].opened.take()
    }
}

impl<'v, 'c> Pending<'v, 'c> {
    /// Finds the key of a cell that can be opened beside others.
    fn of(view: &'v View, cell: &'c [u8]) -> Option<Self> {
        if cell.len() > HEADER + MAX_PLAIN {
            return None;
        }
        let cell = CellRef::parse(cell).ok()?;
        let key = view.place(|key| key.fits(&cell))?;
        let cipher = view.key(key).sealing()?;
        Some(Self { cipher, cell, key })
    }
}
