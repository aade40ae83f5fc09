//! Classes of characters by name, and the cases of letters, as a locale has them.

use std::ops::RangeInclusive;

use super::set::{Set, LAST};
use crate::collate::Class;
use crate::{Collate, RegexError};

/// Code points whose cases are looked up for one pattern at most.
const MAX_FOLDED: u32 = 4 << 20;

/// The letters of a locale, for one pattern.
pub(super) struct Letters<'a> {
    rules: &'a dyn Collate,
    insensitive: bool,
    folded: u32,
}

impl<'a> Letters<'a> {
    pub(super) fn new(rules: &'a dyn Collate, insensitive: bool) -> Self {
        Self {
            rules,
            insensitive,
            folded: 0,
        }
    }

    pub(super) fn ignore_case(&mut self, insensitive: bool) {
        self.insensitive = insensitive;
    }

    /// Returns the members of a class by its name in `[:name:]`.
    pub(super) fn named(&self, name: &str) -> Result<Vec<(u32, u32)>, RegexError> {
        let name = match name {
            "lower" | "upper" if self.insensitive => "alpha",
            name => name,
        };
        let class = match name {
            "alnum" => Class::Alnum,
            "alpha" => Class::Alpha,
            "digit" => Class::Digit,
            "graph" => Class::Graph,
            "lower" => Class::Lower,
            "print" => Class::Print,
            "punct" => Class::Punct,
            "space" => Class::Space,
            "upper" => Class::Upper,
            "word" => return Ok(self.word()),
            "ascii" => return Ok(vec![(0, 0x7f)]),
            "blank" => return Ok(vec![(0x20, 0x20), (9, 9)]),
            "cntrl" => return Ok(vec![(0, 0x1f), (0x7f, 0x9f)]),
            "xdigit" => return Ok(of_ascii([b'0'..=b'9', b'a'..=b'f', b'A'..=b'F'])),
            _ => return Err(RegexError::Class),
        };
        Ok(self.rules.members(class))
    }

    /// Returns the characters that words are made of.
    pub(super) fn word(&self) -> Vec<(u32, u32)> {
        let mut word = self.rules.members(Class::Alnum);
        word.extend(of_ascii([b'_'..=b'_']));
        word
    }

    /// Whether words are made of ASCII alone.
    pub(super) fn has_ascii_words(&self) -> bool {
        let members = self.rules.members(Class::Alnum);
        members.iter().all(|(_, last)| *last < 0x80)
    }

    /// Returns what a character in a pattern matches.
    pub(super) fn single(&self, code: u32) -> Vec<(u32, u32)> {
        let cases = match char::from_u32(code) {
            Some(letter) if self.insensitive => self.cases(letter),
            _ => [code; 2],
        };
        cases.map(|code| (code, code)).to_vec()
    }

    fn cases(&self, letter: char) -> [u32; 2] {
        [self.rules.lower_of(letter), self.rules.upper_of(letter)].map(u32::from)
    }

    /// Returns what a range in brackets matches.
    pub(super) fn range(&mut self, first: u32, last: u32) -> Result<Vec<(u32, u32)>, RegexError> {
        if first > last {
            return Err(RegexError::Range);
        }
        let mut ranges = vec![(first, last)];
        if !self.insensitive {
            return Ok(ranges);
        }
        self.folded = self.folded.saturating_add((last - first).min(LAST));
        if self.folded > MAX_FOLDED {
            return Err(RegexError::TooComplex);
        }
        let letters = (first..=last.min(LAST)).filter_map(char::from_u32);
        for code in letters.flat_map(|letter| self.cases(letter)) {
            if code < first || code > last {
                ranges.push((code, code));
            }
        }
        Ok(ranges)
    }
}

fn of_ascii<const COUNT: usize>(ranges: [RangeInclusive<u8>; COUNT]) -> Vec<(u32, u32)> {
    let codes = |range: RangeInclusive<u8>| (u32::from(*range.start()), u32::from(*range.end()));
    ranges.into_iter().map(codes).collect()
}

/// Joins ranges to the set that brackets mean.
pub(super) fn set_of(ranges: Vec<(u32, u32)>, negated: bool, without_newline: bool) -> Set {
    let set = Set::of(ranges);
    if !negated {
        return set;
    }
    let mut excluded = set.ranges().to_vec();
    if without_newline {
        excluded.push((0x0a, 0x0a));
    }
    Set::of(excluded).complement()
}
