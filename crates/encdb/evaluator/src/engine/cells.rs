//! Cells to values and back: look-up or opening, and sealing. An opened value is read with a
//! [`Permit`].

use pgseal_cell::{CellError, CellRef, HashKey, Mode, Nonces};
use pgseal_crypto::aead::Aead;
use pgseal_evaluator_proto::Refusal;
use pgseal_value::Value;

use super::ahead::Ahead;
use super::cache::{Cache, Opened, Place, MAX_LEN};
use super::permit::{Guarded, Origin, Permit};
use super::view::View;

/// The place of an opened cell until the next operation.
#[derive(Clone, Copy)]
pub(super) enum At {
    /// The cell is in the cache.
    Cached(Place),
    /// The cell is beside the cache, because it is too long, or there is no room for it.
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

/// Opens and seals the cells of one connection. The keys are those of its session's [`View`].
pub(super) struct Cells {
    cache: Cache,
    spare: Spare,
    ahead: Ahead,
    /// The plain bytes of the cell at hand.
    plain: Vec<u8>,
    nonces: Nonces,
    /// The cells of the request come from a scan: what is not in the cache stays out of it.
    passing: bool,
}

impl Cells {
    /// Returns a cache of at most about so many cells, none yet.
    pub(super) fn new(most: usize) -> Self {
        Self {
            cache: Cache::new(most),
            spare: Spare::default(),
            ahead: Ahead::default(),
            plain: Vec::new(),
            nonces: Nonces::new(),
            passing: false,
        }
    }

    /// Says whether the cells to come are those of a scan, which are met once or twice and would
    /// push all others out of the cache. To take one in costs about as much as to open it.
    pub(super) fn are_passing(&mut self, passing: bool) {
        self.passing = passing;
    }

    /// Opens cells side by side that will be asked for next, at most [`super::ahead::MOST`]. It
    /// passes over those that are in the cache.
    pub(super) fn open_ahead<'c>(&mut self, view: &View, cells: impl Iterator<Item = &'c [u8]>) {
        let Self { cache, ahead, .. } = self;
        ahead.open(view, cells.filter(|cell| cache.find(cell).is_none()));
    }

    /// Takes a cell into the cache that each row of a scan is computed with.
    pub(super) fn keep(&mut self, view: &View, cell: &[u8]) {
        let has_room = cell.len() <= MAX_LEN && self.cache.make_room(cell, None);
        if !has_room || self.cache.find(cell).is_some() {
            return;
        }
        // Whether it can be opened is found out, and told, when it is computed with.
        if let Ok(opened) = self.decrypt(view, cell) {
            self.cache.insert(cell, opened, None);
        }
    }

    /// Makes room for what the last operation met. What was opened before has another place now.
    #[inline]
    pub(super) fn grow(&mut self) {
        self.cache.grow();
    }

    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        self.cache.clear();
        self.spare = Spare::default();
        self.ahead.clear();
        zeroize::Zeroize::zeroize(&mut self.plain);
    }

    /// Returns where a cell is that was opened before and is in the cache.
    #[inline]
    pub(super) fn find(&mut self, cell: &[u8]) -> Option<At> {
        self.cache.find(cell).map(At::Cached)
    }

    /// The opened cell of one operand; `keep` is where the other one is.
    #[inline]
    pub(super) fn open(
        &mut self,
        view: &View,
        cell: &[u8],
        side: Side,
        keep: Option<At>,
    ) -> Result<At, Refusal> {
        match self.cache.find(cell) {
            Some(place) => Ok(At::Cached(place)),
            None if self.spare.holds(cell, side) => Ok(At::Spare(side)),
            None => self.open_anew(view, cell, side, keep),
        }
    }

    /// The opened cell of an only operand.
    #[inline]
    pub(super) fn open_one(&mut self, view: &View, cell: &[u8]) -> Result<At, Refusal> {
        self.open(view, cell, Side::Left, None)
    }

    /// Both operands.
    #[inline]
    pub(super) fn open_both(
        &mut self,
        view: &View,
        left: &[u8],
        right: &[u8],
    ) -> Result<(At, At), Refusal> {
        let a = self.open(view, left, Side::Left, None)?;
        let b = self.open(view, right, Side::Right, Some(a))?;
        Ok((a, b))
    }

    fn open_anew(
        &mut self,
        view: &View,
        cell: &[u8],
        side: Side,
        keep: Option<At>,
    ) -> Result<At, Refusal> {
        let opened = self.decrypt(view, cell)?;
        let keep = match keep {
            Some(At::Cached(place)) => Some(place),
            _ => None,
        };
        let admitted = match self.passing {
            false => self.cache.admit(cell, opened, keep),
            true => Err(opened),
        };
        Ok(match admitted {
            Ok(place) => At::Cached(place),
            Err(opened) => {
                self.spare.hold(cell, opened, side);
                At::Spare(side)
            }
        })
    }

    /// Opens a cell that is in no cache.
    pub(super) fn decrypt(&mut self, view: &View, cell: &[u8]) -> Result<Opened, Refusal> {
        if let Some(opened) = self.ahead.take(cell) {
            return Ok(opened);
        }
        let cell = CellRef::parse(cell)?;
        let mut refused = Refusal::KeyNotLoaded;
        for (place, granted) in view.keys.iter().enumerate() {
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

    /// Returns the value of an opened cell.
    #[inline]
    pub(super) fn read(&self, at: At, permit: &Permit) -> &Value {
        self.at(at).value.read(permit)
    }

    /// Returns the hash of an opened cell under its owner's key.
    #[inline]
    pub(super) fn hash(&mut self, at: At, permit: &Permit, key: &HashKey, seed: u64) -> u64 {
        let mut canonical = std::mem::take(&mut self.plain);
        canonical.clear();
        let ty = pgseal_value::hash_bytes(self.read(at, permit), &mut canonical);
        let hash = key.hash(ty, &canonical, seed);
        self.plain = canonical;
        hash
    }

    /// Appends the cell of a result, and remembers it, because results are operands soon.
    pub(super) fn seal_result(
        &mut self,
        view: &View,
        value: Guarded,
        key: u16,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let start = into.len();
        self.seal(view, &value, key, Mode::Derived, into)?;
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
        view: &View,
        value: &Guarded,
        key: u16,
        mode: Mode,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.plain.clear();
        value.encode(&mut self.plain);
        let cipher = view.key(key).sealing().ok_or(Refusal::Unsupported)?;
        cipher
            .seal(value.ty(), mode, &self.plain, &mut self.nonces, into)
            .map_err(|_| Refusal::NoRandom)
    }

    /// Appends what `write` writes, which is no cell, sealed by this cipher: nonce, tag, text.
    pub(super) fn seal_bytes(
        &mut self,
        cipher: &Aead,
        label: &[u8],
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), Refusal>,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.plain.clear();
        write(&mut self.plain)?;
        let nonce = self.nonces.take().map_err(|_| Refusal::NoRandom)?;
        let tag = cipher.seal(&nonce, label, &mut self.plain);
        into.extend_from_slice(&nonce);
        into.extend_from_slice(&tag);
        into.extend_from_slice(&self.plain);
        Ok(())
    }

    /// Returns the nonces of all that is sealed in this connection.
    pub(super) fn nonces(&mut self) -> &mut Nonces {
        &mut self.nonces
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
