//! Cells that were opened lately, with what they hold, so that a cell that is met again costs a
//! look-up and not a decryption.
//!
//! The whole cell is the key: one that differs in a bit is another cell, is opened, and fails. A
//! value is here only because its cell was authentic under a key of this session; whether the
//! session may use it is asked at every use, of the key ([`Opened::key`]) and not of the cache.
//!
//! Sets of [`WAYS`] slots; a slot that was used since it was last looked at for eviction stays.
//! Into a set that is full a cell comes when it is met for the second time: most that a search in
//! an index meets are never met again, and to take one in costs as much as to open it. It begins
//! small and doubles while it has no room, up to the limit that [`Cache::new`] is given. Cells that
//! are long take at most [`MAX_LONG`] bytes together.

use super::permit::Guarded;

/// The value of a cell, and what decides about its use.
pub struct Opened {
    /// The value.
    pub value: Guarded,
    /// The place of the cell's key in the session's list.
    pub key: u16,
    /// The evaluator made this cell from others.
    pub derived: bool,
}

/// A slot of the cache, until the next insertion that does not keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// The longest cell that is kept.
pub const MAX_LEN: usize = 4096;
/// The bytes that long cells and what they hold may take: locked memory is dear, and each
/// connection has some.
const MAX_LONG: usize = 8 << 20;
/// Slots that are looked at for one cell's room.
const MAX_LOOKED: usize = 1024;

const WAYS: usize = 4;
const FIRST_SETS: usize = 64;
/// Bytes of a cell beside all else in two cache lines.
const SMALL: usize = 62;
/// Cells that were met once and are remembered as such, for every slot.
const SEEN: usize = 4;

/// The bit of a tag that says that the slot is filled.
const FILLED: u32 = 1;
/// The bit of a tag that says that the slot was found since it was last looked at for eviction.
const USED: u32 = 2;

/// Opened cells of one session.
pub struct Cache {
    /// 0: empty. Else a part of the cell's hash, [`FILLED`], and [`USED`] or not.
    tags: Vec<[u32; WAYS]>,
    slots: Vec<Slot>,
    /// Tags of cells that were not taken in, each at a place of its own.
    seen: Vec<u32>,
    most_sets: usize,
    /// Cells that were pushed out or not taken in since it last grew.
    crowded: usize,
    /// The bytes that long cells take.
    long: usize,
    /// The slot that was looked at last for a long cell to push out.
    hand: usize,
}

#[repr(C, align(128))]
struct Slot {
    len: u16,
    small: [u8; SMALL],
    content: Option<Opened>,
    /// The bytes of a cell that is longer than `small`.
    long: Option<Box<[u8]>>,
}

const _: () = assert!(size_of::<Slot>() == 128);

impl Slot {
    const fn empty() -> Self {
        Self {
            len: 0,
            small: [0; SMALL],
            content: None,
            long: None,
        }
    }

    #[inline]
    fn holds(&self, cell: &[u8]) -> bool {
        match self.small.get(..cell.len()) {
            Some(small) => usize::from(self.len) == cell.len() && *small == *cell,
            None => self.long.as_ref().is_some_and(|long| **long == *cell),
        }
    }

    /// The bytes that a long cell takes beside the slot: it is there as it came and, about as
    /// long, opened.
    fn long(&self) -> usize {
        self.long.as_ref().map_or(0, |cell| 2 * cell.len())
    }

    fn fill(&mut self, cell: &[u8], content: Opened) {
        *self = Self::empty();
        if cell.len() <= SMALL {
            self.small[..cell.len()].copy_from_slice(cell);
            self.len = u16::try_from(cell.len()).expect("at most 62");
        } else {
            self.long = Some(cell.into());
        }
        self.content = Some(content);
    }
}

/// A number from a cell's nonce and tag, which differ from cell to cell: place and tag in one.
#[inline]
fn hash(cell: &[u8]) -> Option<u64> {
    let nonce: [u8; 8] = cell.get(8..16)?.try_into().ok()?;
    let tag: [u8; 8] = cell.get(20..28)?.try_into().ok()?;
    let mixed = u64::from_le_bytes(nonce) ^ u64::from_le_bytes(tag).rotate_left(17);
    Some(mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The place of a hash among so many, a power of two, and its tag.
#[inline]
fn place_of(hash: u64, places: usize) -> (usize, u32) {
    let high = u32::try_from(hash >> 32).expect("32 bits");
    let low = u32::try_from(hash & 0xffff_ffff).expect("32 bits");
    (high as usize & (places - 1), low & !USED | FILLED)
}

impl Cache {
    /// An empty cache of at most about `most` cells.
    pub fn new(most: usize) -> Self {
        let most_sets = (most / WAYS).next_power_of_two().max(1);
        let mut cache = Self {
            tags: Vec::new(),
            slots: Vec::new(),
            seen: Vec::new(),
            most_sets,
            crowded: 0,
            long: 0,
            hand: 0,
        };
        cache.resize(FIRST_SETS.min(most_sets));
        cache
    }

    fn resize(&mut self, sets: usize) {
        self.tags = vec![[0; WAYS]; sets];
        self.slots = std::iter::repeat_with(Slot::empty)
            .take(sets * WAYS)
            .collect();
        self.seen = vec![0; sets * WAYS * SEEN];
        (self.crowded, self.long, self.hand) = (0, 0, 0);
    }

    /// Returns where the cell is, if it is here.
    #[inline]
    pub fn find(&mut self, cell: &[u8]) -> Option<Place> {
        let (set, tag) = place_of(hash(cell)?, self.tags.len());
        for way in 0..WAYS {
            let at = set * WAYS + way;
            if self.tags[set][way] & !USED == tag && self.slots[at].holds(cell) {
                self.tags[set][way] |= USED;
                return Some(Place(u32::try_from(at).expect("few slots")));
            }
        }
        None
    }

    /// Returns what the slot at a place holds.
    #[inline]
    pub fn at(&self, place: Place) -> &Opened {
        self.slots[place.0 as usize]
            .content
            .as_ref()
            .expect("a place is that of a filled slot")
    }

    /// Takes a cell in at another place than the one to be kept, if there is room or it was met
    /// before; else gives back what it holds.
    #[inline]
    pub fn admit(
        &mut self,
        cell: &[u8],
        content: Opened,
        keep: Option<Place>,
    ) -> Result<Place, Opened> {
        match cell.len() <= MAX_LEN && self.is_welcome(cell) && self.make_room(cell, keep) {
            true => Ok(self.insert(cell, content, keep)),
            false => Err(content),
        }
    }

    /// Whether there is room for so long a cell, for which other long ones go that were not met
    /// lately.
    #[inline]
    pub fn make_room(&mut self, cell: &[u8], keep: Option<Place>) -> bool {
        cell.len() <= SMALL || self.push_out(2 * cell.len(), keep)
    }

    fn push_out(&mut self, bytes: usize, keep: Option<Place>) -> bool {
        for _ in 0..MAX_LOOKED {
            if self.long + bytes <= MAX_LONG {
                break;
            }
            self.hand = (self.hand + 1) % self.slots.len();
            let at = self.hand;
            let (set, way) = (at / WAYS, at % WAYS);
            let kept = keep.is_some_and(|place| place.0 as usize == at);
            if self.slots[at].long() == 0 || kept {
                continue;
            }
            match self.tags[set][way] & USED {
                0 => self.empty(set, way),
                _ => self.tags[set][way] &= !USED,
            }
        }
        self.long + bytes <= MAX_LONG
    }

    fn empty(&mut self, set: usize, way: usize) {
        let at = set * WAYS + way;
        self.tags[set][way] = 0;
        self.long -= self.slots[at].long();
        self.slots[at] = Slot::empty();
    }

    fn is_welcome(&mut self, cell: &[u8]) -> bool {
        let Some(hash) = hash(cell) else { return false };
        let (set, _) = place_of(hash, self.tags.len());
        if self.tags[set].contains(&0) {
            return true;
        }
        let (at, tag) = place_of(hash, self.seen.len());
        let met = std::mem::replace(&mut self.seen[at], tag) == tag;
        self.crowded += usize::from(!met);
        met
    }

    /// Takes a cell in, of at most [`MAX_LEN`] bytes, at another place than the one to be kept.
    pub fn insert(&mut self, cell: &[u8], content: Opened, keep: Option<Place>) -> Place {
        let hash = hash(cell).expect("a cell that was opened has a header");
        let (set, tag) = place_of(hash, self.tags.len());
        let way = self.victim(set, keep);
        let at = set * WAYS + way;
        if self.tags[set][way] != 0 {
            self.crowded += 1;
            self.empty(set, way);
        }
        self.tags[set][way] = tag;
        self.slots[at].fill(cell, content);
        self.long += self.slots[at].long();
        Place(u32::try_from(at).expect("few slots"))
    }

    fn victim(&mut self, set: usize, keep: Option<Place>) -> usize {
        let tags = &mut self.tags[set];
        if let Some(free) = tags.iter().position(|tag| *tag == 0) {
            return free;
        }
        let kept = |way: usize| keep == u32::try_from(set * WAYS + way).ok().map(Place);
        for _ in 0..2 {
            for way in (0..WAYS).filter(|way| !kept(*way)) {
                if tags[way] & USED == 0 {
                    return way;
                }
                tags[way] &= !USED;
            }
        }
        usize::from(kept(0))
    }

    /// Makes room, if it lacked since the last time. Places are void afterwards.
    #[inline]
    pub fn grow(&mut self) {
        if self.crowded < self.slots.len() || self.tags.len() >= self.most_sets {
            return;
        }
        self.double();
    }

    #[cold]
    fn double(&mut self) {
        let sets = self.tags.len() * 2;
        let old = std::mem::take(&mut self.slots);
        self.resize(sets);
        for slot in old {
            let cell = match &slot.long {
                None => hash(&slot.small[..usize::from(slot.len)]),
                Some(long) => hash(long),
            };
            let Some(hash) = cell else { continue };
            let (set, tag) = place_of(hash, sets);
            if let Some(way) = self.tags[set].iter().position(|tag| *tag == 0) {
                self.tags[set][way] = tag;
                self.long += slot.long();
                self.slots[set * WAYS + way] = slot;
            }
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.resize(FIRST_SETS.min(self.most_sets));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use pgseal_value::Value;

    use super::super::permit::Permit;
    use super::*;

    fn cell(number: u32, len: usize) -> Vec<u8> {
        let mut state = u64::from(number).wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
        let mut bytes = Vec::new();
        while bytes.len() < len {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend(state.to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    fn opened(number: i32) -> Opened {
        Opened {
            value: Guarded::new(Value::Int4(number)),
            key: 0,
            derived: false,
        }
    }

    fn number(cache: &Cache, place: Place) -> i32 {
        match *cache.at(place).value.read(&Permit::for_tests()) {
            Value::Int4(number) => number,
            _ => panic!("an int4 was put in"),
        }
    }

    #[test]
    fn what_was_put_in_is_found_and_nothing_else_is() {
        let mut cache = Cache::new(1024);
        for (index, len) in [39, 40, 62, 63, 300].into_iter().enumerate() {
            let index = i32::try_from(index).unwrap();
            let cell = cell(7 + index.unsigned_abs(), len);
            assert!(cache.find(&cell).is_none());
            let place = cache.insert(&cell, opened(index), None);
            assert_eq!(cache.find(&cell), Some(place));
            assert_eq!(number(&cache, place), index);
            for bit in 0..8 * len {
                let mut flipped = cell.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(cache.find(&flipped).is_none(), "bit {bit} of {len} bytes");
            }
            assert!(cache.find(&cell[..len - 1]).is_none());
        }
        assert!(cache.find(&[]).is_none() && cache.find(&[1; 20]).is_none());
        cache.clear();
        assert!(cache.find(&cell(7, 39)).is_none());
    }

    #[test]
    fn a_kept_place_survives_any_insertion() {
        let mut cache = Cache::new(4);
        let first = cell(0, 39);
        let kept = cache.insert(&first, opened(-1), None);
        for next in 1..1000 {
            let bytes = cell(next, 39);
            let content = opened(i32::try_from(next).unwrap());
            let place = cache.insert(&bytes, content, Some(kept));
            assert_ne!(place, kept);
            assert_eq!(number(&cache, kept), -1);
            assert_eq!(cache.find(&bytes), Some(place));
        }
    }

    #[test]
    fn where_there_is_no_room_a_cell_comes_in_when_it_is_met_again() {
        let mut cache = Cache::new(FIRST_SETS * WAYS);
        let cells: Vec<_> = (0..4000).map(|next| cell(next, 39)).collect();
        let mut turned_away = Vec::new();
        for (cell, number) in cells.iter().zip(0..) {
            match cache.admit(cell, opened(number), None) {
                Ok(_) => assert!(cache.find(cell).is_some()),
                Err(content) => {
                    let permit = Permit::for_tests();
                    let kept = content.value.read(&permit);
                    assert!(matches!(kept, Value::Int4(same) if *same == number));
                    assert!(cache.find(cell).is_none());
                    turned_away.push(cell);
                }
            }
        }
        assert_eq!(turned_away.len(), cells.len() - FIRST_SETS * WAYS);
        for cell in turned_away.iter().rev().take(50) {
            assert!(cache.admit(cell, opened(0), None).is_ok());
            assert!(cache.find(cell).is_some());
        }
        assert!(cache.admit(&cell(1, MAX_LEN + 1), opened(0), None).is_err());
    }

    #[test]
    fn long_cells_have_a_bound_and_those_that_are_met_stay() {
        let mut cache = Cache::new(16384);
        let dear = cell(0, 4000);
        assert!(cache.admit(&dear, opened(-1), None).is_ok());
        for next in 1..8000 {
            let bytes = cell(next, 4000);
            let kept = cache.find(&dear).unwrap();
            let place = cache.admit(&bytes, opened(i32::try_from(next).unwrap()), Some(kept));
            assert_eq!(cache.find(&bytes), place.ok());
            assert_eq!(number(&cache, kept), -1);
            cache.grow();
            let slots = cache.slots.iter().map(Slot::long).sum();
            assert!(cache.long == slots && slots <= MAX_LONG);
        }
        // Nearly all of the room is used, and small ones take none of it.
        assert!(cache.long > MAX_LONG - 2 * 8000);
        let small = cell(9000, 39);
        assert!(cache.admit(&small, opened(9000), None).is_ok() && cache.find(&small).is_some());
        cache.clear();
        assert_eq!(cache.long, 0);
    }

    #[test]
    fn it_grows_while_it_evicts_and_then_holds_what_fits() {
        let mut cache = Cache::new(16384);
        for _ in 0..40 {
            for next in 0..8000 {
                let bytes = cell(next, 39);
                if cache.find(&bytes).is_none() {
                    let content = opened(i32::try_from(next).unwrap());
                    drop(cache.admit(&bytes, content, None));
                    cache.grow();
                }
            }
        }
        assert_eq!(cache.slots.len(), 16384);
        let held = (0..8000).filter(|next| cache.find(&cell(*next, 39)).is_some());
        assert!(held.count() > 7600);
    }
}
