//! Room that is shared out among database roles, and what a role has among public keys. Any user
//! can make any number of keys and fill what they are given. What is too much goes from the role
//! that has the most, and there from the key that has the most. No role or key gets room by making
//! others' shares smaller than its own.

use std::collections::{BTreeMap, VecDeque};

use pgseal_cell::PublicKey;

use super::roles::Role;

/// The holder of a thing: a key, by the role that brought it; None is a role, too.
pub type Holder = (Option<Role>, PublicKey);

/// The things that holders have here, each with its weight, at most so much of all.
pub struct Shares<T> {
    of: BTreeMap<Holder, Share<T>>,
    /// The weight of what the keys of each role have together.
    roles: BTreeMap<Option<Role>, usize>,
    taken: usize,
    most: usize,
}

struct Share<T> {
    /// The oldest first
    things: VecDeque<(usize, T)>,
    weight: usize,
}

/// There is no room for this, and no holder has more.
pub struct Full<T>(pub T);

const FIRST: PublicKey = PublicKey([0; 32]);
const LAST: PublicKey = PublicKey([0xff; 32]);

impl<T> Shares<T> {
    /// Room for things that weigh so much together.
    pub fn new(most: usize) -> Self {
        Self {
            of: BTreeMap::new(),
            roles: BTreeMap::new(),
            taken: 0,
            most,
        }
    }

    /// Returns the things of each holder, the oldest first.
    pub fn all(&self) -> impl Iterator<Item = impl Iterator<Item = &T>> {
        self.of
            .values()
            .map(|share| share.things.iter().map(|(_, thing)| thing))
    }

    /// Returns the things of this key, whichever role brought it.
    pub fn of(&self, key: PublicKey) -> impl Iterator<Item = &T> {
        let shares = self
            .roles
            .keys()
            .filter_map(move |role| self.of.get(&(*role, key)));
        shares.flat_map(|share| share.things.iter().map(|(_, thing)| thing))
    }

    /// Drops what is not to be kept.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.roles.clear();
        for ((role, _), share) in &mut self.of {
            share.things.retain(|(_, thing)| keep(thing));
            share.weight = share.things.iter().map(|(weight, _)| weight).sum();
            if share.weight > 0 {
                *self.roles.entry(*role).or_default() += share.weight;
            }
        }
        self.of.retain(|_, share| !share.things.is_empty());
        self.taken = self.roles.values().sum();
    }

    /// Adds a thing of this holder; the oldest of those that have more make room for it.
    pub fn add(&mut self, who: Holder, weight: usize, thing: T) -> Result<(), Full<T>> {
        while self.taken + weight > self.most {
            match self.who_gives(who, weight) {
                Some(heaviest) => drop(self.take(heaviest)),
                None => return Err(Full(thing)),
            }
        }
        let share = self.of.entry(who).or_insert_with(|| Share {
            things: VecDeque::new(),
            weight: 0,
        });
        share.things.push_back((weight, thing));
        share.weight += weight;
        *self.roles.entry(who.0).or_default() += weight;
        self.taken += weight;
        Ok(())
    }

    /// Returns the key that has the most, of the role that has the most. None if `who` has no less
    /// with this weight more.
    fn who_gives(&self, who: Holder, weight: usize) -> Option<Holder> {
        let own = self.roles.get(&who.0).map_or(0, |own| *own) + weight;
        let (&role, &heaviest) = self.roles.iter().max_by_key(|(_, weight)| **weight)?;
        let role = if heaviest > own { role } else { who.0 };
        let keys = self.of.range((role, FIRST)..=(role, LAST));
        let (&holder, share) = keys.max_by_key(|(_, share)| share.weight)?;
        let own = self.of.get(&who).map_or(0, |own| own.weight) + weight;
        (role != who.0 || share.weight > own).then_some(holder)
    }

    /// Takes the oldest thing of this holder out.
    pub fn take(&mut self, who: Holder) -> Option<T> {
        let share = self.of.get_mut(&who)?;
        let (weight, thing) = share.things.pop_front()?;
        share.weight -= weight;
        self.taken -= weight;
        if share.things.is_empty() {
            self.of.remove(&who);
        }
        let of_role = self.roles.get_mut(&who.0)?;
        *of_role -= weight;
        if *of_role == 0 {
            self.roles.remove(&who.0);
        }
        Some(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key of one role.
    fn key(number: u8) -> Holder {
        (Some(1), PublicKey([number; 32]))
    }

    fn of(shares: &Shares<u32>, who: u8) -> Vec<u32> {
        shares.of(key(who).1).copied().collect()
    }

    #[test]
    fn a_role_of_many_keys_leaves_room_to_another() {
        let mut shares = Shares::new(100);
        let of = |role, key| (Some(role), PublicKey([key; 32]));
        for who in 0..100 {
            assert!(shares.add(of(1, who), 1, 1).is_ok());
        }
        // Another's only key has more than any of those, and as much as all of them at last.
        for _ in 0..50 {
            assert!(shares.add(of(2, 200), 1, 2).is_ok());
        }
        assert!(shares.add(of(2, 200), 1, 2).is_err() && shares.add(of(2, 201), 1, 2).is_ok());
        assert_eq!(shares.of(PublicKey([200; 32])).count(), 49);
        assert!(shares.add(of(1, 200), 1, 1).is_err(), "each key has one");
        assert!(shares.add(of(3, 200), 1, 3).is_ok());
        assert_eq!(shares.of(PublicKey([200; 32])).count(), 49);
        assert_eq!(shares.roles[&Some(1)] + shares.roles[&Some(2)], 99);
        shares.retain(|role| *role == 3);
        assert_eq!((shares.taken, shares.roles.len()), (1, 1));
    }

    #[test]
    fn room_comes_from_whoever_has_the_most() {
        let mut shares = Shares::new(100);
        for thing in 0..100 {
            assert!(shares.add(key(1), 1, thing).is_ok());
        }
        assert!(
            shares.add(key(1), 1, 100).is_err(),
            "it has the most itself"
        );
        for thing in 0..50 {
            assert!(shares.add(key(2), 1, thing).is_ok());
        }
        assert_eq!(of(&shares, 1), (50..100).collect::<Vec<_>>());
        assert_eq!(of(&shares, 2), (0..50).collect::<Vec<_>>());
        assert!(shares.add(key(2), 1, 50).is_err(), "nobody has more");
        assert!(shares.add(key(3), 10, 7).is_ok());
        assert_eq!((of(&shares, 3), shares.taken), (vec![7], 100));
    }

    #[test]
    fn a_heavy_thing_counts_for_what_it_weighs() {
        let mut shares = Shares::new(100);
        assert!(shares.add(key(1), 101, 0).is_err());
        assert!(shares.add(key(1), 90, 1).is_ok());
        for who in 2..12 {
            assert!(shares.add(key(who), 2, 2).is_ok());
        }
        assert_eq!((of(&shares, 1), shares.taken), (vec![], 20));
        assert!(shares.add(key(1), 90, 3).is_err());
        assert_eq!(shares.all().count(), 10);
    }

    #[test]
    fn what_is_dropped_makes_room() {
        let mut shares = Shares::new(10);
        for thing in 0..10 {
            assert!(shares.add(key(1), 1, thing).is_ok());
        }
        shares.retain(|thing| *thing >= 8);
        assert_eq!((of(&shares, 1), shares.taken), (vec![8, 9], 2));
        assert_eq!((shares.take(key(1)), shares.taken), (Some(8), 1));
        assert_eq!(shares.take(key(2)), None);
        shares.retain(|_| false);
        assert_eq!(shares.all().count(), 0);
    }
}
