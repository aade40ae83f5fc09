//! Filters: the conditions of a query on many rows by one request.
//!
//! Each comparison is one that the session could have asked for alone, with the same rights asked
//! and the same uses counted; conditions behind one that fails are not looked at. Where one is
//! refused, the row's answer ends before it: the caller asks about it alone, and is refused then.

use pgseal_evaluator_proto::{
    Condition, Filter, FilterOperand, FilterScope, Filtered, Items, Refusal, Response,
};

use super::Connection;

/// The cells that a condition may name.
struct Row<'r, 'c> {
    constants: &'r [&'c [u8]],
    cells: &'r [&'c [u8]],
}

impl<'c> Row<'_, 'c> {
    /// Returns the operand's cell; none if it is NULL.
    fn cell(&self, operand: FilterOperand) -> Result<Option<&'c [u8]>, Refusal> {
        let cell = match operand {
            FilterOperand::Column(number) => self.cells.get(usize::from(number)),
            FilterOperand::Constant(number) => self.constants.get(usize::from(number)),
        };
        let cell = cell.ok_or(Refusal::MalformedRequest)?;
        Ok((!cell.is_empty()).then_some(*cell))
    }
}

impl Connection {
    /// Appends how far each row gets.
    pub(super) fn filter_each(
        &mut self,
        filter: Filter<'_>,
        scope: &FilterScope<'_>,
        (constants, cells): (Items<'_>, Items<'_>),
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let conditions = filter.conditions(scope)?;
        let constants: Vec<&[u8]> = constants.iter().collect();
        for constant in &constants {
            self.cells.keep(&self.access.view, constant);
        }
        let mut cells = cells.iter();
        let mut row = Vec::with_capacity(scope.columns);
        loop {
            row.clear();
            row.extend(cells.by_ref().take(scope.columns));
            if row.len() < scope.columns || row.is_empty() {
                return Ok(());
            }
            let row = Row {
                constants: &constants,
                cells: &row,
            };
            let filtered = Response::Filtered(self.filter(&conditions, &row));
            Response::encode_item(Ok(&filtered), into);
        }
    }

    fn filter(&mut self, conditions: &[Condition<'_>], row: &Row<'_, '_>) -> Filtered {
        let mut hold = 0;
        for condition in conditions {
            match self.holds(condition, row) {
                Ok(Some(true)) => hold += 1,
                Ok(_) => return Filtered { hold, fails: true },
                Err(_) => break,
            }
        }
        Filtered { hold, fails: false }
    }

    /// Whether a condition holds; none is NULL.
    fn holds(
        &mut self,
        condition: &Condition<'_>,
        row: &Row<'_, '_>,
    ) -> Result<Option<bool>, Refusal> {
        match condition {
            Condition::Compare {
                comparison,
                left,
                right,
                collation,
            } => {
                let (Some(left), Some(right)) = (row.cell(*left)?, row.cell(*right)?) else {
                    return Ok(None);
                };
                let collation = self.collation(*collation)?;
                let order = self.compare(left, right, collation)?;
                Ok(Some(comparison.holds(order)))
            }
            Condition::Matches {
                matching,
                text,
                pattern,
            } => match (row.cell(*text)?, row.cell(*pattern)?) {
                (Some(text), Some(pattern)) => self.matches(*matching, text, pattern).map(Some),
                _ => Ok(None),
            },
            Condition::All(conditions) => self.until(false, conditions, row),
            Condition::Any(conditions) => self.until(true, conditions, row),
            Condition::Not(condition) => Ok(self.holds(condition, row)?.map(|holds| !holds)),
        }
    }

    /// AND, which one false condition ends, or OR, which a true one does.
    fn until(
        &mut self,
        end: bool,
        conditions: &[Condition<'_>],
        row: &Row<'_, '_>,
    ) -> Result<Option<bool>, Refusal> {
        let mut outcome = Some(!end);
        for condition in conditions {
            match self.holds(condition, row)? {
                Some(holds) if holds == end => return Ok(Some(end)),
                Some(_) => {}
                None => outcome = None,
            }
        }
        Ok(outcome)
    }
}
