//! The requests of one ring that are under way, in memory that all processes of a server share.
//!
//! The submitter of a request enters it, and the process that takes its answer removes it: with
//! PostgreSQL often another one. In between the request carries a token in place of its own
//! `user_data`. The token is no address that a processor accepts: a program that takes the answer
//! past this library finds nothing by it, and so does not take stored bytes for clear ones.
//!
//! One process at a time enters, and one at a time removes; the two may be at work at once.

use crate::liburing::Request;
use libc::{c_int, iovec};
use pgseal_crypto::{KeyId, KeyLength};
use pgseal_storage::layout::Spec;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// The upper bits of a token.
const TOKEN: u64 = 0x5ea1 << 48;

/// A request under way.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The submitter's own word.
    pub user_data: u64,
    /// Its place in the queue.
    place: u32,
    /// The request as the kernel sees it.
    request: Request,
    /// The work that is left when the answer comes.
    pub left: Left,
}

/// The work that is left when the answer comes.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // in slots of one size
pub enum Left {
    /// Nothing: the file was read when the request was submitted, with this result.
    Nothing(c_int),
    /// The pages are to be decrypted.
    Decrypt(Pages),
}

/// Whole pages of a sealed file, on their way into memory that all processes share. No key is in
/// here: the process that decrypts them has it, or can derive it.
#[derive(Clone, Debug)]
pub struct Pages {
    /// The submitter's descriptor of the file.
    pub fd: c_int,
    /// The name of the cluster's master key.
    pub key: KeyId,
    /// The length of the cluster's AES keys.
    pub length: KeyLength,
    /// How the file is stored.
    pub spec: Spec,
    /// In bytes.
    pub offset: u64,
    /// Where they go.
    pub into: Buffers,
}

/// Buffers in memory that all processes share.
#[derive(Clone, Copy, Debug)]
pub enum Buffers {
    /// One of them.
    One(iovec),
    /// An array, of so many.
    Array(*const iovec, usize),
}

/// Entries, each free or taken.
pub struct Table<'a>(pub &'a [Slot]);

/// One entry. All zeros is a free one.
#[repr(C, align(64))]
pub struct Slot {
    is_taken: AtomicBool,
    entry: UnsafeCell<MaybeUninit<Entry>>,
}

// SAFETY: the entry is written by the one process that enters, before it sets `is_taken`, and read
// by the one that removes, before it clears it.
unsafe impl Sync for Slot {}

/// Could this word be a token?
pub fn is_token(user_data: u64) -> bool {
    user_data >> 48 == TOKEN >> 48
}

impl Table<'_> {
    /// Is there a free entry?
    pub fn has_room(&self) -> bool {
        self.free().is_some()
    }

    /// Enters the request at this place of the queue, which gets a token. None: all entries are
    /// taken.
    pub fn enter(&self, place: u32, request: &mut Request, left: Left) -> Option<()> {
        let at = self.free()?;
        let slot = &self.0[at];
        let user_data = std::mem::replace(&mut request.user_data, TOKEN | at as u64);
        let entry = Entry {
            user_data,
            place,
            request: request.clone(),
            left,
        };
        // SAFETY: the entry is free, and this is the one process that takes free ones.
        unsafe { (*slot.entry.get()).write(entry) };
        slot.is_taken.store(true, Ordering::Release);
        Some(())
    }

    /// Was the request at this place entered as it is now? A token alone says nothing: a request
    /// may have it from an earlier one that was filled in at the same address.
    pub fn holds(&self, place: u32, request: &Request) -> bool {
        self.taken(request.user_data).is_some_and(|slot| {
            // SAFETY: the entry was written before `is_taken` was set, and this is the one process
            // that writes entries. What another one removes stays readable.
            let entry = unsafe { (*slot.entry.get()).assume_init_ref() };
            entry.place == place && entry.request == *request
        })
    }

    /// Removes the request that carries this token. None: there is no such request under way.
    pub fn remove(&self, token: u64) -> Option<Entry> {
        let slot = self.taken(token)?;
        // SAFETY: the entry was written before `is_taken` was set, and this is the one process that
        // removes entries.
        let entry = unsafe { (*slot.entry.get()).assume_init_ref().clone() };
        slot.is_taken.store(false, Ordering::Release);
        Some(entry)
    }

    /// Forgets all requests.
    pub fn clear(&self) {
        for slot in self.0 {
            slot.is_taken.store(false, Ordering::Release);
        }
    }

    fn taken(&self, token: u64) -> Option<&Slot> {
        let at = usize::try_from(token ^ TOKEN).ok()?;
        let slot = self.0.get(at)?;
        slot.is_taken.load(Ordering::Acquire).then_some(slot)
    }

    fn free(&self) -> Option<usize> {
        self.0
            .iter()
            .position(|slot| !slot.is_taken.load(Ordering::Acquire))
    }
}

impl Buffers {
    /// Do the buffers, and the array that names them, lie in this memory?
    ///
    /// # Safety
    /// An array in this memory may be read.
    pub unsafe fn lie_in(&self, (start, end): (usize, usize)) -> bool {
        let holds = |address: usize, len: usize| {
            start <= address && address.checked_add(len).is_some_and(|after| after <= end)
        };
        let holds_array = match *self {
            Self::One(_) => true,
            Self::Array(first, len) => holds(first.addr(), len * size_of::<iovec>()),
        };
        let holds_one = |one: &iovec| holds(one.iov_base.addr(), one.iov_len);
        // SAFETY: the array may be read, by this function's contract.
        holds_array && unsafe { self.vectors() }.iter().all(holds_one)
    }

    /// Returns the buffers.
    ///
    /// # Safety
    /// An array may be read.
    pub unsafe fn vectors(&self) -> &[iovec] {
        match self {
            Self::One(vector) => std::slice::from_ref(vector),
            // SAFETY: the array may be read, by this function's contract.
            Self::Array(first, len) => unsafe { std::slice::from_raw_parts(*first, *len) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn slots(count: usize) -> Vec<Slot> {
        let slot = || Slot {
            is_taken: AtomicBool::new(false),
            entry: UnsafeCell::new(MaybeUninit::uninit()),
        };
        std::iter::repeat_with(slot).take(count).collect()
    }

    fn enter(table: &Table, user_data: u64) -> Option<u64> {
        let mut request = Request {
            user_data,
            ..Request::default()
        };
        table.enter(0, &mut request, Left::Nothing(0))?;
        Some(request.user_data)
    }

    /// A word of a sequence that looks random.
    fn next(state: &mut u64) -> u64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *state >> 33
    }

    /// Any order of submissions and answers: each token leads to its own request, once.
    #[test]
    fn tokens_lead_back_in_any_order() {
        let slots = slots(8);
        let table = Table(&slots);
        let (mut state, mut under_way) = (7, HashMap::new());
        for user_data in 0..10_000 {
            if next(&mut state) % 2 == 0 {
                let token = enter(&table, user_data);
                assert_eq!(token.is_none(), under_way.len() == slots.len());
                under_way.extend(token.map(|token| (token, user_data)));
            } else if let Some(&token) = under_way.keys().min_by_key(|_| next(&mut state)) {
                let removed = table.remove(token).map(|entry| entry.user_data);
                assert_eq!(removed, under_way.remove(&token));
                assert!(table.remove(token).is_none(), "a second answer");
            }
            assert_eq!(table.has_room(), under_way.len() < slots.len());
        }
        table.clear();
        assert!(under_way.keys().all(|&token| table.remove(token).is_none()));
    }

    #[test]
    fn tokens_are_no_addresses_and_foreign_words_no_tokens() {
        let slots = slots(1);
        let token = enter(&Table(&slots), 1).expect("a free entry");
        assert!(is_token(token));
        // Neither with addresses of 48 bits nor with those of 57.
        assert!(token >> 47 != 0 && token >> 56 != 0 && token >> 63 == 0);
        assert!(![0, 1, 0x7fff_ffff_ffff, u64::MAX].into_iter().any(is_token));
        assert!(Table(&slots).remove(token + 1).is_none());
    }

    #[test]
    fn a_request_is_held_as_it_was_at_its_place() {
        let slots = slots(2);
        let table = Table(&slots);
        let mut request = Request {
            fd: 3,
            user_data: 1,
            ..Request::default()
        };
        assert!(!table.holds(5, &request), "without a token");
        table
            .enter(5, &mut request, Left::Nothing(0))
            .expect("room");
        assert!(table.holds(5, &request));
        assert!(!table.holds(13, &request), "a later one");
        let other = Request {
            operation: 23,
            ..request.clone()
        };
        assert!(!table.holds(5, &other), "filled in again");
        table.remove(request.user_data).expect("it was entered");
        assert!(!table.holds(5, &request), "answered");
    }

    #[test]
    fn an_array_elsewhere_is_not_read() {
        let nowhere = Buffers::Array(std::ptr::without_provenance(8), 1);
        // SAFETY: the array is in other memory, and is not read.
        assert!(!unsafe { nowhere.lie_in((100, 200)) });
    }

    #[test]
    fn buffers_lie_in_memory_or_not() {
        let vector = |address: usize, iov_len| iovec {
            iov_base: std::ptr::without_provenance_mut(address),
            iov_len,
        };
        for (address, len, lies) in [
            (100, 100, true),
            (100, 101, false),
            (99, 1, false),
            (200, 0, true),
            (150, usize::MAX, false),
        ] {
            let one = Buffers::One(vector(address, len));
            // SAFETY: there is no array.
            assert_eq!(unsafe { one.lie_in((100, 200)) }, lies, "{address} {len}");
        }
        let array = [vector(0, 8), vector(8, 8)];
        let buffers = Buffers::Array(array.as_ptr(), array.len());
        let of_array = (array.as_ptr().addr(), array.as_ptr_range().end.addr());
        // SAFETY: the array is the test's own.
        unsafe {
            assert!(!buffers.lie_in(of_array), "the buffers lie elsewhere");
            assert!(!buffers.lie_in((0, 16)), "the array lies elsewhere");
            assert!(buffers.lie_in((0, of_array.1)));
        }
    }
}
