//! Operators and functions on cells. Each looks its operands up, asks whether the session may, and
//! then computes.

use std::cmp::Ordering;

use pgseal_cell::grant::Operation;
use pgseal_evaluator_proto::{Collation, Matching, Plain, Position, Prefix, Refusal, Unary};
use pgseal_value::{Arithmetic, Interval, Reading, Type, Value, ValueError};

use super::cells::{At, Side};
use super::counts::Asked;
use super::expressions::{Made, Operand};
use super::permit::Permit;
use super::prefixes::OpenPrefix;
use super::{CollationId, Connection, SharedCollation};

/// Where a probe is among `len` sorted values; `order` is that of one of them beside it.
pub(super) fn position(
    len: usize,
    descending: bool,
    mut order: impl FnMut(usize) -> Result<Ordering, Refusal>,
) -> Result<Position, Refusal> {
    let mut order = |at| match descending {
        true => order(at).map(Ordering::reverse),
        false => order(at),
    };
    let before = bound(0, len, |at| Ok(order(at)?.is_lt()))?;
    let through = bound(before, len, |at| Ok(order(at)?.is_le()))?;
    let number = |place| u32::try_from(place).map_err(|_| Refusal::TooLarge);
    Ok(Position {
        before: number(before)?,
        through: number(through)?,
        descending,
    })
}

/// The first place that is not left behind.
fn bound(
    mut low: usize,
    mut high: usize,
    mut behind: impl FnMut(usize) -> Result<bool, Refusal>,
) -> Result<usize, Refusal> {
    while low < high {
        let middle = low.midpoint(high);
        match behind(middle)? {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Ok(low)
}

/// The thing whose place among cells is looked for.
pub(super) enum Probe {
    /// A cell that is open
    Cell(At),
    /// A plain value that the server has
    Plain(Value),
    /// An end of the range of texts that begin alike
    Prefix(OpenPrefix),
}

/// Whether an operand is to be a cell.
#[inline]
fn is_cell(operand: &[u8]) -> bool {
    Plain::parse(operand).is_none() && Prefix::parse(operand).is_none()
}

impl Connection {
    /// The order of two cells of one type, of two integers, floats or times. One of both may be a
    /// [`Plain`] value, or a [`Prefix`]; both may be prefixes, or one and a plain value.
    #[inline]
    pub fn compare(
        &mut self,
        left: &[u8],
        right: &[u8],
        collation: CollationId,
    ) -> Result<Ordering, Refusal> {
        self.begin_operation()?;
        let (cell, probe, is_right) = match (is_cell(left), is_cell(right)) {
            (true, true) => {
                let (a, b) = self.cells.open_both(&self.access.view, left, right)?;
                return self.order(a, b, collation);
            }
            (true, false) => (left, right, true),
            (false, true) => (right, left, false),
            (false, false) => return self.compare_ends(left, right),
        };
        let probe = self.probe(probe)?;
        let order = self.order_of(cell, &probe, collation)?;
        Ok(if is_right { order } else { order.reverse() })
    }

    /// The order of a cell beside a probe.
    fn order_of(
        &mut self,
        cell: &[u8],
        probe: &Probe,
        collation: CollationId,
    ) -> Result<Ordering, Refusal> {
        let keep = match probe {
            Probe::Cell(at) => Some(*at),
            Probe::Plain(_) | Probe::Prefix(_) => None,
        };
        let at = self
            .cells
            .open(&self.access.view, cell, Side::Right, keep)?;
        match probe {
            Probe::Cell(probe) => self.order(at, *probe, collation),
            Probe::Plain(plain) => {
                let permit = self.access.may_compare_plain(self.cells.origin(at))?;
                let value = self.cells.read(at, &permit);
                pgseal_value::compare(value, plain, self.collations.rules(collation))
                    .map_err(|_| Refusal::WrongType)
            }
            Probe::Prefix(prefix) => {
                let text = self.cells.at(at);
                let (value, origin) = (&text.value, text.origin());
                self.access.order_beside(value, origin, prefix, collation)
            }
        }
    }

    /// Opens a probe.
    pub(super) fn probe(&mut self, probe: &[u8]) -> Result<Probe, Refusal> {
        if let Some(plain) = Plain::parse(probe) {
            return plain.value().map(Probe::Plain);
        }
        if let Some(prefix) = Prefix::parse(probe) {
            return self.open_prefix(prefix).map(Probe::Prefix);
        }
        let at = self.cells.open_one(&self.access.view, probe)?;
        Ok(Probe::Cell(at))
    }

    #[inline]
    fn order(&mut self, a: At, b: At, collation: CollationId) -> Result<Ordering, Refusal> {
        let operands = [self.cells.origin(a), self.cells.origin(b)];
        let permit = self.access.may_ask(Asked::Compared, &operands)?;
        let (a, b) = (self.cells.read(a, &permit), self.cells.read(b, &permit));
        pgseal_value::compare(a, b, self.collations.rules(collation))
            .map_err(|_| Refusal::WrongType)
    }

    /// Where a probe is among cells that are sorted, either way. Only the cells that the search
    /// meets are opened.
    pub fn search_page(
        &mut self,
        probe: &[u8],
        cells: &[&[u8]],
        collation: CollationId,
    ) -> Result<Position, Refusal> {
        let descending = match cells {
            [first, .., last] => self.compare(first, last, collation)? == Ordering::Greater,
            _ => false,
        };
        self.begin_operation()?;
        let probe = self.probe(probe)?;
        position(cells.len(), descending, |at| {
            self.order_of(cells[at], &probe, collation)
        })
    }

    /// A keyed hash: equal values of one owner have equal hashes, also two integers and two floats.
    #[inline]
    pub fn hash(&mut self, seed: u64, cell: &[u8]) -> Result<u64, Refusal> {
        self.begin_operation()?;
        let at = self.cells.open_one(&self.access.view, cell)?;
        let origin = self.cells.origin(at);
        let permit = self.access.may_ask(Asked::Hashed, &[origin])?;
        let owner = self.access.view.owner(origin.key);
        Ok(self.cells.hash(at, &permit, &owner.hash, seed))
    }

    /// A number that sorts as the cell does, as far as it goes. Only where the caller could see the
    /// value anyway.
    #[inline]
    pub fn order_prefix(&mut self, cell: &[u8]) -> Result<u64, Refusal> {
        if !self.access.shared.config.inline {
            return Err(Refusal::Unsupported);
        }
        self.begin_operation()?;
        let at = self.cells.open_one(&self.access.view, cell)?;
        let operands = [self.cells.origin(at)];
        let permit = self.access.may_ask(Asked::Ranked, &operands)?;
        Ok(pgseal_value::order_prefix(self.cells.read(at, &permit)))
    }

    /// `left op right`
    pub fn arithmetic(
        &mut self,
        op: Arithmetic,
        left: &[u8],
        right: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.binary(Operation::Arithmetic, left, right, into, |a, b| {
            pgseal_value::arithmetic(op, a, b)
        })
    }

    /// `left || right`
    pub fn concat(&mut self, left: &[u8], right: &[u8], into: &mut Vec<u8>) -> Result<(), Refusal> {
        self.binary(Operation::Text, left, right, into, pgseal_value::concat)
    }

    fn binary(
        &mut self,
        operation: Operation,
        left: &[u8],
        right: &[u8],
        into: &mut Vec<u8>,
        compute: impl FnOnce(&Value, &Value) -> Result<Value, ValueError>,
    ) -> Result<(), Refusal> {
        self.begin_operation()?;
        let (left, right) = (Operand::Cell(left), Operand::Cell(right));
        let made = self.of_both(operation, &left, &right, compute)?;
        let view = &self.access.view;
        self.cells.seal_result(view, made.value, made.key, into)
    }

    fn unary(
        &mut self,
        operation: Operation,
        cell: &[u8],
        compute: impl FnOnce(&Value) -> Result<Option<Value>, ValueError>,
    ) -> Result<Option<Made>, Refusal> {
        self.begin_operation()?;
        self.of_one(operation, &Operand::Cell(cell), compute)
    }

    /// Seals the result of a function; false if it is null.
    pub(super) fn seal_if_any(
        &mut self,
        result: Option<Made>,
        into: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
        match result {
            Some(Made { value, key }) => {
                let view = &self.access.view;
                self.cells.seal_result(view, value, key, into)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// A function of one cell to a cell of its type.
    pub fn apply(&mut self, op: Unary, cell: &[u8], into: &mut Vec<u8>) -> Result<bool, Refusal> {
        let result = self.unary(Operation::Arithmetic, cell, |value| {
            match op {
                Unary::Negate => pgseal_value::negate(value),
                Unary::Absolute => pgseal_value::absolute(value),
            }
            .map(Some)
        })?;
        self.seal_if_any(result, into)
    }

    /// A date or instant and an interval.
    pub fn add_interval(
        &mut self,
        interval: Interval,
        cell: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
        let result = self.unary(Operation::Arithmetic, cell, |value| {
            pgseal_value::add_interval(value, interval).map(Some)
        })?;
        self.seal_if_any(result, into)
    }

    /// A pattern with the backslash as its escape, made of one with another. The result's length
    /// shows whether the plain escape occurs, so it is a comparison with what the caller knows.
    pub fn like_escape(
        &mut self,
        pattern: &[u8],
        escape: &str,
        into: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
        self.begin_operation()?;
        let at = self.cells.open_one(&self.access.view, pattern)?;
        let origin = self.cells.origin(at);
        let permit = self.access.may_search(&[origin], true)?;
        let value = pgseal_value::like_escape(self.cells.read(at, &permit), escape)?;
        self.seal_if_any(Some(Made::new(value, origin.key)), into)
    }

    /// How long a text or how many bytes, as a cell of int4.
    pub fn length(&mut self, cell: &[u8], into: &mut Vec<u8>) -> Result<bool, Refusal> {
        let result = self.unary(Operation::Text, cell, |value| {
            pgseal_value::length(value).map(|length| Some(Value::Int4(length)))
        })?;
        self.seal_if_any(result, into)
    }

    /// The value in another type.
    pub fn cast(&mut self, to: Type, cell: &[u8], into: &mut Vec<u8>) -> Result<bool, Refusal> {
        let result = self.unary(Operation::Cast, cell, |value| {
            pgseal_value::cast(value, to).map(Some)
        })?;
        self.seal_if_any(result, into)
    }

    /// LIKE, or ILIKE in a collation.
    pub fn like(
        &mut self,
        text: &[u8],
        pattern: &[u8],
        insensitive: Option<CollationId>,
    ) -> Result<bool, Refusal> {
        let (a, b, permit) = self.may_match(text, pattern)?;
        let rules = insensitive.map(|collation| self.collations.rules(collation));
        let (text, pattern) = (self.cells.read(a, &permit), self.cells.read(b, &permit));
        Ok(pgseal_value::like(text, pattern, rules)?)
    }

    /// Whether a text starts with another.
    pub fn starts_with(&mut self, text: &[u8], prefix: &[u8]) -> Result<bool, Refusal> {
        let (a, b, permit) = self.may_match(text, prefix)?;
        let (text, prefix) = (self.cells.read(a, &permit), self.cells.read(b, &permit));
        Ok(pgseal_value::starts_with(text, prefix)?)
    }

    /// Whether a text matches a regular expression, by the letters of a collation.
    fn regex(
        &mut self,
        text: &[u8],
        pattern: &[u8],
        reading: Reading,
        collation: Collation<'_>,
    ) -> Result<bool, Refusal> {
        let collation = self.collation(collation)?;
        let (a, b, permit) = self.may_match(text, pattern)?;
        let rules = self.collations.rules(collation);
        let pattern = self.cells.read(b, &permit);
        let (wanted, room) = ((reading, collation), self.access.member.room());
        let regex = self.patterns.get(pattern, wanted, rules, room)?;
        Ok(regex.matches(self.cells.read(a, &permit))?)
    }

    /// Whether a text may be compared with a pattern, and where both are.
    fn may_match(&mut self, text: &[u8], pattern: &[u8]) -> Result<(At, At, Permit), Refusal> {
        self.begin_operation()?;
        let (a, b) = self.cells.open_both(&self.access.view, text, pattern)?;
        let operands = [self.cells.origin(a), self.cells.origin(b)];
        let permit = self.access.may_search(&operands, false)?;
        Ok((a, b, permit))
    }

    /// LIKE and its like, as a request names them.
    pub(super) fn matches(
        &mut self,
        matching: Matching<'_>,
        text: &[u8],
        pattern: &[u8],
    ) -> Result<bool, Refusal> {
        match matching {
            Matching::Like => self.like(text, pattern, None),
            Matching::Ilike(name) => {
                let collation = self.collation(name)?;
                self.like(text, pattern, Some(collation))
            }
            Matching::Prefix => self.starts_with(text, pattern),
            Matching::Regex(name) => self.regex(text, pattern, Reading::Sensitive, name),
            Matching::RegexInsensitive(name) => {
                self.regex(text, pattern, Reading::Insensitive, name)
            }
            Matching::Similar(name) => self.regex(text, pattern, Reading::Similar, name),
            Matching::Words(name) => self.has_words(text, pattern, name),
        }
    }

    /// The rules of the collation of this name.
    pub(super) fn rules(&mut self, collation: Collation<'_>) -> Result<SharedCollation, Refusal> {
        let id = self.collation(collation)?;
        Ok(self.collations.owned_rules(id))
    }

    /// The collation of this name, for this connection.
    pub fn collation(&mut self, collation: Collation<'_>) -> Result<CollationId, Refusal> {
        let find = self.access.shared.config.collation;
        match collation {
            Collation::C => Ok(CollationId::C),
            Collation::Libc(name) => self.collations.id(name, find),
        }
    }
}
