//! Sets of characters: sorted ranges of code points that neither meet nor touch.

/// The last code point.
pub(super) const LAST: u32 = 0x10_ffff;

#[derive(Clone, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(super) struct Set(Vec<(u32, u32)>);

impl Set {
    /// Returns the set of these ranges, in any order.
    pub(super) fn of(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.retain(|(first, _)| *first <= LAST);
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match joined.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        if let Some((_, end)) = joined.last_mut() {
            *end = (*end).min(LAST);
        }
        Self(joined)
    }

    /// Returns all characters that are not in it.
    pub(super) fn complement(&self) -> Self {
        let mut ranges = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for (first, last) in &self.0 {
            if next < *first {
                ranges.push((next, first - 1));
            }
            next = last + 1;
        }
        if next <= LAST {
            ranges.push((next, LAST));
        }
        Self(ranges)
    }

    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    pub(super) fn contains(&self, letter: char) -> bool {
        let code = u32::from(letter);
        let behind = self.0.partition_point(|(first, _)| *first <= code);
        behind > 0 && code <= self.0[behind - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_turned_over() {
        let set = Set::of(vec![(9, 9), (1, 3), (4, 5), (2, 3), (u32::MAX, u32::MAX)]);
        assert_eq!(set.ranges(), [(1, 5), (9, 9)]);
        assert_eq!(set.complement().ranges(), [(0, 0), (6, 8), (10, LAST)]);
        assert_eq!(set.complement().complement(), set);
        assert_eq!(Set::default().complement().ranges(), [(0, LAST)]);
        assert_eq!(Set::of(vec![(5, u32::MAX)]).ranges(), [(5, LAST)]);
        let has = |code| set.contains(char::from(code));
        assert_eq!(
            [0, 1, 5, 6, 9, 10].map(has),
            [false, true, true, false, true, false]
        );
    }
}
