//! The question whether the session may, as a type. The value of a cell is [`Guarded`], and only a
//! [`Permit`] reads it. The questions here are the only ones that give permits, so nothing is
//! computed from a value before the session was asked for.
//!
//! A permit does not name the operands that it is for: a function asks about all that it reads, and
//! reads when it has the answer.

use pgseal_cell::grant::{GrantError, Operation};
use pgseal_evaluator_proto::Refusal;
use pgseal_value::{Type, Value};

use super::access::Access;
use super::cache::Opened;
use super::counts::Asked;
use super::rights::why_not;

/// The answer that the session may.
#[must_use]
pub struct Permit(());

#[cfg(test)]
impl Permit {
    /// Returns a permit for tests of what holds values.
    pub fn for_tests() -> Self {
        Self(())
    }
}

/// A value that no one has read before the session was asked for.
pub struct Guarded(Value);

impl Guarded {
    /// Guards a value that was opened or computed here.
    pub fn new(value: Value) -> Self {
        Self(value)
    }

    /// Returns the value.
    #[inline]
    pub fn read(&self, _: &Permit) -> &Value {
        &self.0
    }

    /// Returns the value, which is guarded no longer.
    pub fn unguard(self, _: &Permit) -> Value {
        self.0
    }

    /// Returns its type, which its cell shows, too.
    pub fn ty(&self) -> Type {
        self.0.ty()
    }

    /// Appends its bytes, which a cell is made of: nothing is learned by sealing a value.
    pub fn encode(&self, into: &mut Vec<u8>) {
        self.0.encode(into);
    }

    /// Returns another one of the same value.
    pub fn duplicate(&self) -> Self {
        Self(self.0.duplicate())
    }
}

/// The facts about an operand that decide about its use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    /// The place of its key.
    pub key: u16,
    /// It was derived here.
    pub derived: bool,
}

impl Opened {
    /// Returns the facts that decide about the cell's use.
    #[inline]
    pub(super) fn origin(&self) -> Origin {
        Origin {
            key: self.key,
            derived: self.derived,
        }
    }
}

impl Access {
    /// Asks whether these operands may be compared, hashed or ranked, and counts each.
    #[inline]
    pub(super) fn may_ask(&mut self, asked: Asked, operands: &[Origin]) -> Result<Permit, Refusal> {
        let permit = self.may_compare(operands)?;
        for operand in operands {
            self.counts.cell(asked, operand.key);
        }
        Ok(permit)
    }

    /// Asks whether these operands may be compared or hashed. What is of two owners is not,
    /// whatever they grant: their hashes differ, and a join must give the same rows by hashes as by
    /// order.
    #[inline]
    pub(super) fn may_compare(&mut self, operands: &[Origin]) -> Result<Permit, Refusal> {
        if self.of_two(operands) {
            return Err(Refusal::TwoOwners);
        }
        let operation = match operands.iter().any(|operand| operand.derived) {
            true => Operation::CompareDerived,
            false => Operation::CompareStored,
        };
        self.may(operation, operands)
    }

    /// Asks whether a cell may be compared with a plain value that the server has, and counts it.
    pub(super) fn may_compare_plain(&mut self, operand: Origin) -> Result<Permit, Refusal> {
        let permit = self.may(Operation::ComparePlain, &[operand])?;
        if operand.derived {
            let _permit = self.may(Operation::CompareDerived, &[operand])?;
        }
        self.counts.cell(Asked::Compared, operand.key);
        Ok(permit)
    }

    /// Asks whether one text may be looked for in another, where it shows in the answer, or in the
    /// length of the result. A text that was made here, is another owner's or, if `with_plain`, is
    /// the caller's asks what a comparison would.
    pub(super) fn may_search(
        &mut self,
        operands: &[Origin],
        with_plain: bool,
    ) -> Result<Permit, Refusal> {
        let permit = self.may(Operation::Text, operands)?;
        let is_derived = operands.iter().any(|operand| operand.derived);
        match with_plain || is_derived || self.of_two(operands) {
            true => self.may(Operation::CompareDerived, operands),
            false => Ok(permit),
        }
    }

    /// Whether the operands are of more than one owner: of its master key, for anybody may claim a
    /// public one.
    #[inline]
    pub(super) fn of_two(&self, operands: &[Origin]) -> bool {
        let mut pairs = operands.windows(2);
        pairs.any(|pair| {
            let (a, b) = (pair[0].key, pair[1].key);
            a != b && self.view.key(a).owner != self.view.key(b).owner
        })
    }

    /// Asks whether the operation is allowed with the key of every operand, and counts it.
    #[inline]
    pub(super) fn may(
        &mut self,
        operation: Operation,
        operands: &[Origin],
    ) -> Result<Permit, Refusal> {
        // Operands of one key are one use.
        let mut asked = None;
        for operand in operands {
            if asked != Some(operand.key) {
                self.may_with(operation, operand.key)?;
                asked = Some(operand.key);
            }
        }
        Ok(Permit(()))
    }

    #[inline]
    fn may_with(&mut self, operation: Operation, key: u16) -> Result<(), Refusal> {
        let rights = self.view.rights(key);
        if !rights.allows(operation) {
            return Err(self.no_grant(operation, key));
        }
        if let Some(grant) = rights.grant(operation) {
            self.counts.used(grant, operation);
        }
        Ok(())
    }

    #[cold]
    fn no_grant(&self, operation: Operation, key: u16) -> Refusal {
        let refusal = Refusal::NoGrant(operation);
        let Ok((session, database)) = self.session() else {
            return refusal;
        };
        let holdings = session.read();
        let (key, asker) = (
            &holdings.keys[usize::from(key)],
            holdings.asker(database, self.now),
        );
        let owner = holdings.owners[key.owner].public;
        match why_not(operation, key, owner, &holdings.grants, &asker) {
            Some(GrantError::Expired) => Refusal::GrantExpired,
            Some(GrantError::Revoked) => Refusal::GrantRevoked,
            _ => refusal,
        }
    }

    /// The key that a result of these operands is sealed with: the left one's. What flows there
    /// from another key must be allowed to.
    pub(super) fn result_key(
        &mut self,
        left: Origin,
        right: Option<Origin>,
    ) -> Result<u16, Refusal> {
        let Some(right) = right.filter(|right| right.key != left.key) else {
            return Ok(left.key);
        };
        let (into, from) = match self.view.key(left.key).sealing() {
            Some(_) => (left.key, right.key),
            None => (right.key, left.key),
        };
        self.may_flow(from, into)?;
        Ok(into)
    }

    /// Asks whether values of one key may come under another: with them no more may be done there
    /// than before. Anyone who may convert them to plaintext has them, and may put them anywhere;
    /// that is needed where the other key is another owner's, who grants what it likes.
    pub(super) fn may_flow(&mut self, from: u16, into: u16) -> Result<(), Refusal> {
        if from == into {
            return Ok(());
        }
        let rights = |key| self.view.rights(key);
        let gained = rights(into).beyond(rights(from));
        let is_plain = rights(from).allows(Operation::ConvertOut);
        let is_foreign = self.view.key(into).owner != self.view.key(from).owner;
        match gained {
            _ if is_foreign || is_plain => self.may_with(Operation::ConvertOut, from),
            Some(operation) => self.may_with(operation, from),
            None => Ok(()),
        }
    }
}
