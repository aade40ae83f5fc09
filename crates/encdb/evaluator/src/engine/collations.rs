//! The collations that a connection has named. A request names one by its number, so that a name is
//! looked up once and not for each comparison.

use std::sync::Arc;

use pgseal_evaluator_proto::Refusal;
use pgseal_value::{Collate, C};

/// The rules of a collation, as connections share them.
pub type SharedCollation = Arc<dyn Collate + Send + Sync>;

/// The most collations of a connection.
const MAX_COLLATIONS: usize = 256;

/// A collation of this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollationId(u32);

impl CollationId {
    /// The order by code point; also for all that is no text.
    pub const C: Self = Self(0);
}

/// The collations of one connection, by their numbers from 1 on.
#[derive(Default)]
pub(super) struct Collations(Vec<(String, SharedCollation)>);

impl Collations {
    /// Returns the number of a collation. `find` looks for the rules of a name that is new.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownCollation`] if `find` has no rules, [`Refusal::TooMany`] if the connection
    /// has named as many as it may.
    pub(super) fn id(
        &mut self,
        name: &str,
        find: fn(&str) -> Option<SharedCollation>,
    ) -> Result<CollationId, Refusal> {
        let known = self.0.iter().position(|(known, _)| known == name);
        let index = match known {
            Some(index) => index,
            None if self.0.len() >= MAX_COLLATIONS => return Err(Refusal::TooMany),
            None => {
                let rules = find(name).ok_or(Refusal::UnknownCollation)?;
                self.0.push((name.to_owned(), rules));
                self.0.len() - 1
            }
        };
        let number = u32::try_from(index + 1).map_err(|_| Refusal::TooMany)?;
        Ok(CollationId(number))
    }

    /// Returns the rules of a collation; C for one that is not this connection's.
    #[inline]
    pub(super) fn rules(&self, collation: CollationId) -> &dyn Collate {
        match self.named(collation) {
            Some((_, rules)) => &**rules,
            None => &C,
        }
    }

    /// Returns the rules for a caller that changes the connection meanwhile.
    pub(super) fn owned_rules(&self, collation: CollationId) -> SharedCollation {
        match self.named(collation) {
            Some((_, rules)) => Arc::clone(rules),
            None => Arc::new(C),
        }
    }

    /// Returns the name of a collation; the empty one is C.
    pub(super) fn name(&self, collation: CollationId) -> &str {
        self.named(collation).map_or("", |(name, _)| name)
    }

    #[inline]
    fn named(&self, collation: CollationId) -> Option<&(String, SharedCollation)> {
        let index = (collation.0 as usize).checked_sub(1)?;
        self.0.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Option<SharedCollation> {
        (name != "none").then(|| Arc::new(C) as SharedCollation)
    }

    #[test]
    fn a_name_has_one_number() {
        let mut collations = Collations::default();
        let first = collations.id("de_DE", find).expect("it is found");
        let other = collations.id("sv_SE", find).expect("it is found");
        assert!(first != other && first != CollationId::C);
        assert_eq!(collations.id("de_DE", find), Ok(first));
        assert_eq!(collations.name(other), "sv_SE");
        assert_eq!(collations.name(CollationId::C), "");
        assert_eq!(collations.name(CollationId(7)), "");
    }

    #[test]
    fn what_is_unknown_and_what_is_too_much_is_refused() {
        let mut collations = Collations::default();
        let unknown = collations.id("none", find);
        assert_eq!(unknown, Err(Refusal::UnknownCollation));
        for number in 0..MAX_COLLATIONS {
            assert!(collations.id(&number.to_string(), find).is_ok());
        }
        assert_eq!(collations.id("one more", find), Err(Refusal::TooMany));
        assert!(collations.id("0", find).is_ok());
    }
}
