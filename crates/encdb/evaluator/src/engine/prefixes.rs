//! The ends of the range of texts that begin as a pattern of LIKE does, beside texts and each
//! other: what an index is searched for.
//!
//! Their order says what LIKE says and what a comparison does, and needs the rights of both.

use std::cmp::Ordering;

use pgseal_cell::grant::Operation;
use pgseal_evaluator_proto::{Prefix, Refusal};
use pgseal_value::{PrefixEnd, Value};

use super::access::Access;
use super::counts::Asked;
use super::operations::Probe;
use super::permit::{Guarded, Origin, Permit};
use super::{CollationId, Connection};

/// An end whose pattern is open.
pub(super) struct OpenPrefix {
    pattern: Guarded,
    pub origin: Origin,
    end: PrefixEnd,
}

impl Access {
    /// The order of a text beside an end.
    pub(super) fn order_beside(
        &mut self,
        text: &Guarded,
        origin: Origin,
        prefix: &OpenPrefix,
        collation: CollationId,
    ) -> Result<Ordering, Refusal> {
        // Only in this order texts that begin alike are together.
        if collation != CollationId::C {
            return Err(Refusal::UnknownCollation);
        }
        let permit = self.may_match_and_compare(&[origin, prefix.origin])?;
        let (text, pattern) = (text.read(&permit), prefix.pattern.read(&permit));
        pgseal_value::order_beside_prefix(text, pattern, prefix.end).map_err(|_| Refusal::WrongType)
    }

    fn may_match_and_compare(&mut self, operands: &[Origin]) -> Result<Permit, Refusal> {
        let _permit = self.may_search(operands, false)?;
        self.may_ask(Asked::Compared, operands)
    }

    fn order_of_prefixes(
        &mut self,
        left: &OpenPrefix,
        right: &OpenPrefix,
    ) -> Result<Ordering, Refusal> {
        let permit = self.may_match_and_compare(&[left.origin, right.origin])?;
        let [left, right] = [left, right].map(|it| (it.pattern.read(&permit), it.end));
        pgseal_value::order_of_prefixes(left, right).map_err(|_| Refusal::WrongType)
    }

    /// The order of a plain value that the server has beside an end.
    fn order_of_plain(&mut self, plain: &Value, prefix: &OpenPrefix) -> Result<Ordering, Refusal> {
        let _permit = self.may_match_and_compare(&[prefix.origin])?;
        let permit = self.may_compare_plain(prefix.origin)?;
        let pattern = prefix.pattern.read(&permit);
        pgseal_value::order_beside_prefix(plain, pattern, prefix.end)
            .map_err(|_| Refusal::WrongType)
    }
}

impl Connection {
    /// Whether an index serves a pattern by its beginning. Where the session may not match the
    /// pattern and compare with it, or has texts of other owners, which it may match and not
    /// compare, texts are matched one by one, or refused then.
    pub fn has_prefix(&mut self, pattern: &[u8]) -> Result<bool, Refusal> {
        self.begin_operation()?;
        let at = self.cells.open_one(&self.access.view, pattern)?;
        let origin = self.cells.origin(at);
        let compare = match origin.derived {
            true => Operation::CompareDerived,
            false => Operation::CompareStored,
        };
        let rights = self.access.view.rights(origin.key);
        let may = rights.allows(compare) && rights.allows(Operation::Text);
        if !may || !self.access.view.is_of_one_owner(origin.key) {
            return Ok(false);
        }
        let permit = self.access.may_search(&[origin], false)?;
        Ok(pgseal_value::has_prefix(self.cells.read(at, &permit))?)
    }

    /// Opens the pattern of an end.
    pub(super) fn open_prefix(&mut self, prefix: Prefix<'_>) -> Result<OpenPrefix, Refusal> {
        let at = self.cells.open_one(&self.access.view, prefix.pattern)?;
        let pattern = self.cells.at(at);
        Ok(OpenPrefix {
            pattern: pattern.value.duplicate(),
            origin: pattern.origin(),
            end: prefix.end,
        })
    }

    /// The order of two that are no cells: an index puts the conditions of a search in order. At
    /// least one is an end.
    pub(super) fn compare_ends(&mut self, left: &[u8], right: &[u8]) -> Result<Ordering, Refusal> {
        match (self.probe(left)?, self.probe(right)?) {
            (Probe::Prefix(left), Probe::Prefix(right)) => {
                self.access.order_of_prefixes(&left, &right)
            }
            (Probe::Plain(left), Probe::Prefix(right)) => self.access.order_of_plain(&left, &right),
            (Probe::Prefix(left), Probe::Plain(right)) => {
                let order = self.access.order_of_plain(&right, &left)?;
                Ok(order.reverse())
            }
            _ => Err(Refusal::MalformedRequest),
        }
    }
}
