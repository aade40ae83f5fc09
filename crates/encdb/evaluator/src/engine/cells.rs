//! Cells to values and back: look-up or opening, and sealing. An opened value is read with a
//! [`Permit`](super::permit::Permit).

use pgseal_cell::{CellError, CellRef, Mode};
use pgseal_evaluator_proto::Refusal;
use pgseal_value::Value;

use super::cache::{Opened, Place, MAX_LEN};
use super::permit::{Guarded, Origin};
use super::Connection;

/// The place of an opened cell until the next operation.
#[derive(Clone, Copy)]
pub(super) enum At {
    /// The cell lies in the cache.
    Cached(Place),
    /// The cell lies beside the cache, because it is too long, or there is no room for it.
    Spare(Side),
}

/// The side of an operand.
#[derive(Clone, Copy)]
pub(super) enum Side {
    /// The left one, or the only one.
    Left,
    /// The right one.
    Right,
}

/// The last cell of each side that the cache did not take: a probe is an operand of all
/// comparisons of its search.
#[derive(Default)]
pub(super) struct Spare([Held; 2]);

#[derive(Default)]
struct Held {
    /// The cell; empty if it is too long to be looked for.
    cell: Vec<u8>,
    content: Option<Opened>,
}

impl Spare {
    #[inline]
    fn holds(&self, cell: &[u8], side: Side) -> bool {
        let held = &self.0[side as usize];
        held.content.is_some() && !cell.is_empty() && held.cell == cell
    }

    fn hold(&mut self, cell: &[u8], content: Opened, side: Side) {
        let held = &mut self.0[side as usize];
        held.cell.clear();
        if cell.len() <= MAX_LEN {
            held.cell.extend_from_slice(cell);
        }
        held.content = Some(content);
    }
}

impl Connection {
    /// Makes ready for a lookup of the operands of an operation. Fails without a session that has
    /// not ended.
    #[inline]
    pub(super) fn begin_operation(&mut self) -> Result<(), Refusal> {
        self.cache.grow();
        self.fresh()
    }

    /// The opened cell of one operand; `keep` is where the other one lies.
    #[inline]
    pub(super) fn open(
        &mut self,
        cell: &[u8],
        side: Side,
        keep: Option<At>,
    ) -> Result<At, Refusal> {
        match self.cache.find(cell) {
            Some(place) => Ok(At::Cached(place)),
            None if self.spare.holds(cell, side) => Ok(At::Spare(side)),
            None => self.open_anew(cell, side, keep),
        }
    }

    /// Both operands.
    #[inline]
    pub(super) fn open_both(&mut self, left: &[u8], right: &[u8]) -> Result<(At, At), Refusal> {
        let a = self.open(left, Side::Left, None)?;
        let b = self.open(right, Side::Right, Some(a))?;
        Ok((a, b))
    }

    fn open_anew(&mut self, cell: &[u8], side: Side, keep: Option<At>) -> Result<At, Refusal> {
        let opened = self.decrypt(cell)?;
        let keep = match keep {
            Some(At::Cached(place)) => Some(place),
            _ => None,
        };
        Ok(match self.cache.admit(cell, opened, keep) {
            Ok(place) => At::Cached(place),
            Err(opened) => {
                self.spare.hold(cell, opened, side);
                At::Spare(side)
            }
        })
    }

    /// Fails if there is no key that may be this cell's.
    pub(super) fn has_key(&self, cell: &[u8]) -> Result<(), Refusal> {
        let cell = CellRef::parse(cell)?;
        let mut keys = self.view.keys.iter();
        let fits = keys.any(|granted| granted.key.fits(&cell));
        fits.then_some(()).ok_or(Refusal::KeyNotLoaded)
    }

    /// Opens a cell that is in no cache.
    pub(super) fn decrypt(&mut self, cell: &[u8]) -> Result<Opened, Refusal> {
        let cell = CellRef::parse(cell)?;
        let mut refused = Refusal::KeyNotLoaded;
        for (place, granted) in self.view.keys.iter().enumerate() {
            if !granted.key.fits(&cell) {
                continue;
            }
            match granted.key.open(&cell, &mut self.plain) {
                Ok(()) => {
                    return Ok(Opened {
                        value: Guarded::new(Value::decode(cell.ty(), &self.plain)?),
                        key: u16::try_from(place).map_err(|_| Refusal::TooMany)?,
                        derived: cell.mode() == Mode::Derived,
                    })
                }
                // Cells of version 0 name no key: another one may be theirs.
                Err(CellError::NotAuthentic) => refused = Refusal::NotAuthentic,
                Err(error) => return Err(error.into()),
            }
        }
        Err(refused)
    }

    /// An opened cell.
    #[inline]
    pub(super) fn at(&self, at: At) -> &Opened {
        match at {
            At::Cached(place) => self.cache.at(place),
            At::Spare(side) => self.spare.0[side as usize]
                .content
                .as_ref()
                .expect("a spare place was filled before"),
        }
    }

    /// Returns the facts that decide about the use of an opened cell.
    #[inline]
    pub(super) fn origin(&self, at: At) -> Origin {
        self.at(at).origin()
    }

    pub(super) fn key(&self, place: u16) -> &super::Key {
        &self.view.keys[usize::from(place)].key
    }

    /// Appends the cell of a result, and remembers it, because results are operands soon.
    pub(super) fn seal_result(
        &mut self,
        value: Guarded,
        key: u16,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let start = into.len();
        self.seal(&value, key, Mode::Derived, into)?;
        let cell = &into[start..];
        if cell.len() <= MAX_LEN && self.cache.make_room(cell, None) {
            let opened = Opened {
                value,
                key,
                derived: true,
            };
            self.cache.insert(cell, opened, None);
        }
        Ok(())
    }

    /// Appends the cell of a value.
    pub(super) fn seal(
        &mut self,
        value: &Guarded,
        key: u16,
        mode: Mode,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.plain.clear();
        value.encode(&mut self.plain);
        let key = &self.view.keys[usize::from(key)].key;
        let cipher = key.sealing().ok_or(Refusal::Unsupported)?;
        cipher
            .seal(value.ty(), mode, &self.plain, &mut self.nonces, into)
            .map_err(|_| Refusal::NoRandom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> Opened {
        Opened {
            value: Guarded::new(Value::Bool(true)),
            key: 0,
            derived: false,
        }
    }

    #[test]
    fn a_spare_cell_is_found_by_all_its_bytes_on_its_side() {
        let mut spare = Spare::default();
        assert!(!spare.holds(&[], Side::Left));
        spare.hold(&[1; 39], opened(), Side::Left);
        assert!(spare.holds(&[1; 39], Side::Left) && !spare.holds(&[1; 39], Side::Right));
        assert!(!spare.holds(&[1; 38], Side::Left) && !spare.holds(&[], Side::Left));
        // Nothing is taken for a cell that is too long, not even no cell.
        let long = vec![1; MAX_LEN + 1];
        spare.hold(&long, opened(), Side::Left);
        for cell in [&long[..], &[1; 39], &[]] {
            assert!(!spare.holds(cell, Side::Left));
        }
    }
}
