//! Room that is shared out among public keys. Anybody makes as many keys as he likes and fills what
//! they are given: what is too much goes from whoever has the most, and nobody gets room by making
//! others' shares smaller than his own.

use std::collections::{BTreeMap, VecDeque};

use pgseal_cell::PublicKey;

/// What keys have here, each thing with its weight, at most so much of all.
pub struct Shares<T> {
    of: BTreeMap<PublicKey, Share<T>>,
    taken: usize,
    most: usize,
}

struct Share<T> {
    /// The oldest first
    things: VecDeque<(usize, T)>,
    weight: usize,
}

/// There is no room for this, and nobody has more.
pub struct Full<T>(pub T);

impl<T> Shares<T> {
    /// Room for things that weigh so much together.
    pub fn new(most: usize) -> Self {
        Self {
            of: BTreeMap::new(),
            taken: 0,
            most,
        }
    }

    /// What each key has, the oldest first.
    pub fn all(&self) -> impl Iterator<Item = impl Iterator<Item = &T>> {
        { self.of.values() }.map(|share| share.things.iter().map(|(_, thing)| thing))
    }

    /// What this key has.
    pub fn of(&self, who: PublicKey) -> impl Iterator<Item = &T> {
        let share = self.of.get(&who).into_iter();
        share.flat_map(|share| share.things.iter().map(|(_, thing)| thing))
    }

    /// Drops what is not to be kept.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for share in self.of.values_mut() {
            share.things.retain(|(_, thing)| keep(thing));
            share.weight = share.things.iter().map(|(weight, _)| weight).sum();
        }
        self.of.retain(|_, share| !share.things.is_empty());
        self.taken = self.of.values().map(|share| share.weight).sum();
    }

    /// One thing more of this key; the oldest of those that have more make room for it.
    pub fn add(&mut self, who: PublicKey, weight: usize, thing: T) -> Result<(), Full<T>> {
        let share = self.of.get(&who).map_or(0, |share| share.weight) + weight;
        while self.taken + weight > self.most {
            let heaviest = { self.of.iter() }.max_by_key(|(_, share)| share.weight);
            let heaviest = heaviest.filter(|(_, heaviest)| heaviest.weight > share);
            let Some((&key, _)) = heaviest else {
                return Err(Full(thing));
            };
            self.take(key);
        }
        let share = self.of.entry(who).or_insert_with(|| Share {
            things: VecDeque::new(),
            weight: 0,
        });
        share.things.push_back((weight, thing));
        share.weight += weight;
        self.taken += weight;
        Ok(())
    }

    /// Takes the oldest thing of this key out.
    pub fn take(&mut self, who: PublicKey) -> Option<T> {
        let share = self.of.get_mut(&who)?;
        let (weight, thing) = share.things.pop_front()?;
        share.weight -= weight;
        self.taken -= weight;
        if share.things.is_empty() {
            self.of.remove(&who);
        }
        Some(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> PublicKey {
        PublicKey([number; 32])
    }

    fn of(shares: &Shares<u32>, who: u8) -> Vec<u32> {
        shares.of(key(who)).copied().collect()
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
