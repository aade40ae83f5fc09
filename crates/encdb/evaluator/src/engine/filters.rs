//! Filters: the conditions of a query on many rows by one request.
//!
//! Each comparison is one that the session could have asked for alone, with the same rights asked
//! and the same uses counted; conditions behind one that fails are not looked at. Where one is
//! refused, the row's answer ends before it: the caller asks about it alone, and is refused then.

use std::cmp::Ordering;

use pgseal_cell::grant::Operation;
use pgseal_evaluator_proto::{
    Condition, Filter, FilterOperand, FilterProgram, FilterScope, Filtered, Items, Matching, Plain,
    Refusal, Response,
};
use pgseal_value::Value;

use super::ahead;
use super::cache::Opened;
use super::counts::Asked;
use super::expressions::Made;
use super::texts::Growth;
use super::{CollationId, Connection};

/// A cell of a request, and its value once it is needed. It stays out of the cache: a scan meets it
/// once, and a constant is opened once for all rows.
struct Operand<'c> {
    cell: &'c [u8],
    opened: Option<Opened>,
    /// The value, if it is a plain one.
    plain: Option<Value>,
}

impl<'c> Operand<'c> {
    fn new(cell: &'c [u8]) -> Self {
        Self {
            cell,
            opened: None,
            plain: None,
        }
    }
}

/// The value of an operand.
enum Side<'r> {
    Opened(&'r Opened),
    Plain(&'r Value),
}

/// The result of a program for a row, once it is needed; then none is NULL.
type Computed = Option<Option<Opened>>;

/// The values that a condition may name.
struct Row<'r, 'c> {
    programs: &'r [FilterProgram<'c>],
    constants: Vec<Operand<'c>>,
    columns: Vec<Operand<'c>>,
    computed: Vec<Computed>,
}

impl<'c> Row<'_, 'c> {
    fn cell(&self, operand: FilterOperand) -> Option<&Operand<'c>> {
        match operand {
            FilterOperand::Column(number) => self.columns.get(usize::from(number)),
            FilterOperand::Constant(number) => self.constants.get(usize::from(number)),
            FilterOperand::Computed(_) => None,
        }
    }

    fn cell_mut(&mut self, operand: FilterOperand) -> Option<&mut Operand<'c>> {
        match operand {
            FilterOperand::Column(number) => self.columns.get_mut(usize::from(number)),
            FilterOperand::Constant(number) => self.constants.get_mut(usize::from(number)),
            FilterOperand::Computed(_) => None,
        }
    }

    /// Returns the value of an operand that was opened; none if it is NULL.
    fn opened(&self, operand: FilterOperand) -> Option<&Opened> {
        match operand {
            FilterOperand::Computed(number) => {
                let made = self.computed.get(usize::from(number))?;
                made.as_ref()?.as_ref()
            }
            cell => self.cell(cell)?.opened.as_ref(),
        }
    }

    /// Returns the value of an operand that was opened, or is plain; none if it is NULL.
    fn side(&self, operand: FilterOperand) -> Option<Side<'_>> {
        let plain = self.cell(operand).and_then(|cell| cell.plain.as_ref());
        match plain {
            Some(value) => Some(Side::Plain(value)),
            None => self.opened(operand).map(Side::Opened),
        }
    }

    /// The next row; false if there is none.
    fn advance(&mut self, cells: &mut impl Iterator<Item = &'c [u8]>, columns: usize) -> bool {
        self.columns.clear();
        self.columns.extend(cells.take(columns).map(Operand::new));
        for (made, program) in self.computed.iter_mut().zip(self.programs) {
            // What is made of constants alone is made once.
            if program.operands.iter().any(FilterOperand::is_column) {
                *made = None;
            }
        }
        self.columns.len() == columns && columns > 0
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
        let (conditions, programs) = (filter.conditions(scope)?, scope.programs()?);
        self.begin_operation()?;
        self.growth = Growth::of_request();
        if !programs.is_empty() {
            constants
                .iter()
                .for_each(|cell| self.cells.keep(&self.access.view, cell));
        }
        let mut row = Row {
            programs: &programs,
            constants: constants.iter().map(Operand::new).collect(),
            columns: Vec::with_capacity(scope.columns),
            computed: programs.iter().map(|_| None).collect(),
        };
        let looked_at = conditions
            .first()
            .map_or(Vec::new(), |condition| columns_of(condition, &programs));
        let (mut cells, mut some) = (cells.iter(), Vec::new());
        loop {
            some.clear();
            some.extend(
                cells
                    .by_ref()
                    .take(scope.columns * ahead::rows(looked_at.len())),
            );
            if some.is_empty() {
                return Ok(());
            }
            self.open_columns(&some, scope.columns, &looked_at);
            let mut rows = some.iter().copied();
            while row.advance(&mut rows, scope.columns) {
                let filtered = Response::Filtered(self.filter(&conditions, &mut row));
                Response::encode_item(Ok(&filtered), into);
            }
        }
    }

    /// Opens some columns of rows side by side.
    fn open_columns(&mut self, rows: &[&[u8]], width: usize, columns: &[usize]) {
        let rows = rows.chunks_exact(width.max(1));
        let cells = rows.flat_map(|row| columns.iter().filter_map(|column| row.get(*column)));
        self.open_ahead(cells.copied());
    }

    fn filter(&mut self, conditions: &[Condition<'_>], row: &mut Row<'_, '_>) -> Filtered {
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
        row: &mut Row<'_, '_>,
    ) -> Result<Option<bool>, Refusal> {
        match condition {
            Condition::Compare {
                comparison,
                left,
                right,
                collation,
            } => {
                let collation = self.collation(*collation)?;
                let order = self.order_in_row(row, [*left, *right], collation)?;
                Ok(order.map(|order| comparison.holds(order)))
            }
            Condition::Matches {
                matching,
                text,
                pattern,
            } => self.matches_in_row(row, *matching, [*text, *pattern]),
            Condition::All(conditions) => self.until(false, conditions, row),
            Condition::Any(conditions) => self.until(true, conditions, row),
            Condition::Not(condition) => Ok(self.holds(condition, row)?.map(|holds| !holds)),
        }
    }

    /// Opens both operands, or computes them; false if one is NULL.
    fn open_in_row(
        &mut self,
        row: &mut Row<'_, '_>,
        operands: [FilterOperand; 2],
    ) -> Result<bool, Refusal> {
        let is_null = |row: &Row<'_, '_>| {
            let mut cells = operands.iter().filter_map(|operand| row.cell(*operand));
            cells.any(|operand| operand.cell.is_empty())
        };
        if is_null(row) {
            return Ok(false);
        }
        for operand in operands {
            if let FilterOperand::Computed(number) = operand {
                self.compute_in_row(row, usize::from(number))?;
                continue;
            }
            let operand = row.cell_mut(operand).ok_or(Refusal::MalformedRequest)?;
            match Plain::parse(operand.cell) {
                _ if operand.opened.is_some() || operand.plain.is_some() => {}
                Some(plain) => operand.plain = Some(plain.value()?),
                None => {
                    operand.opened = Some(self.cells.decrypt(&self.access.view, operand.cell)?);
                }
            }
        }
        Ok(operands.iter().all(|operand| row.side(*operand).is_some()))
    }

    fn compute_in_row(&mut self, row: &mut Row<'_, '_>, number: usize) -> Result<(), Refusal> {
        if row.computed.get(number).is_some_and(Option::is_some) {
            return Ok(());
        }
        let made = row.programs.get(number).ok_or(Refusal::MalformedRequest)?;
        let cells = made
            .operands
            .iter()
            .filter_map(|operand| row.cell(*operand));
        let cells: Vec<&[u8]> = cells.map(|operand| operand.cell).collect();
        let value = self.compute_value(made.program, Items::Listed(&cells))?;
        row.computed[number] = Some(value.map(|Made { value, key }| Opened {
            value,
            key,
            derived: true,
        }));
        Ok(())
    }

    /// The order of two values, as [`Connection::compare`] finds it; none if one is NULL.
    fn order_in_row(
        &mut self,
        row: &mut Row<'_, '_>,
        operands: [FilterOperand; 2],
        collation: CollationId,
    ) -> Result<Option<Ordering>, Refusal> {
        if !self.open_in_row(row, operands)? {
            return Ok(None);
        }
        let [Some(left), Some(right)] = operands.map(|operand| row.side(operand)) else {
            return Ok(None);
        };
        let (left, right) = match (left, right) {
            (Side::Opened(left), Side::Opened(right)) => {
                let origins = [left.origin(), right.origin()];
                let permit = self.access.may_ask(Asked::Compared, &origins)?;
                (left.value.read(&permit), right.value.read(&permit))
            }
            (Side::Opened(left), Side::Plain(right)) => {
                let permit = self.access.may_compare_plain(left.origin())?;
                (left.value.read(&permit), right)
            }
            (Side::Plain(left), Side::Opened(right)) => {
                let permit = self.access.may_compare_plain(right.origin())?;
                (left, right.value.read(&permit))
            }
            (Side::Plain(_), Side::Plain(_)) => return Err(Refusal::MalformedRequest),
        };
        let order = pgseal_value::compare(left, right, self.collations.rules(collation));
        order.map(Some).map_err(|_| Refusal::WrongType)
    }

    /// Whether a text matches, as [`Connection::matches`] finds it; none if one of both is NULL.
    fn matches_in_row(
        &mut self,
        row: &mut Row<'_, '_>,
        matching: Matching<'_>,
        operands: [FilterOperand; 2],
    ) -> Result<Option<bool>, Refusal> {
        if !self.open_in_row(row, operands)? {
            return Ok(None);
        }
        // A pattern is a cell.
        let is_plain = |operand: &FilterOperand| matches!(row.side(*operand), Some(Side::Plain(_)));
        if operands.iter().any(is_plain) {
            return Err(Refusal::WrongType);
        }
        let letters = match matching {
            Matching::Like | Matching::Prefix => None,
            Matching::Ilike(collation) | Matching::Words(collation) => {
                Some(self.collation(collation)?)
            }
            _ => return self.is_regex_in_row(row, matching, operands).map(Some),
        };
        let [Some(text), Some(pattern)] = operands.map(|operand| row.opened(operand)) else {
            return Ok(None);
        };
        let origins = [text.origin(), pattern.origin()];
        let permit = match matching {
            Matching::Words(_) => self.access.may_take_apart(Operation::Words, &origins)?,
            _ => self.access.may_search(&origins, false)?,
        };
        let (text, pattern) = (text.value.read(&permit), pattern.value.read(&permit));
        let rules = letters.map(|collation| self.collations.rules(collation));
        Ok(Some(match (matching, rules) {
            (Matching::Prefix, _) => pgseal_value::starts_with(text, pattern)?,
            (Matching::Words(_), Some(rules)) => pgseal_value::has_words(text, pattern, rules)?,
            _ => pgseal_value::like(text, pattern, rules)?,
        }))
    }

    /// Whether a text that is a cell matches a regular expression. The cell is opened again, beside
    /// the expressions that are kept for their patterns' cells; what is computed is asked alone.
    fn is_regex_in_row(
        &mut self,
        row: &Row<'_, '_>,
        matching: Matching<'_>,
        operands: [FilterOperand; 2],
    ) -> Result<bool, Refusal> {
        match operands.map(|operand| row.cell(operand)) {
            [Some(text), Some(pattern)] => self.matches(matching, text.cell, pattern.cell),
            _ => Err(Refusal::Unsupported),
        }
    }

    /// AND, which one false condition ends, or OR, which a true one does.
    fn until(
        &mut self,
        end: bool,
        conditions: &[Condition<'_>],
        row: &mut Row<'_, '_>,
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

/// Returns the columns that a condition is sure to look at, unless a value is NULL or refused:
/// cells behind a condition that fails are not opened.
fn columns_of(condition: &Condition<'_>, programs: &[FilterProgram<'_>]) -> Vec<usize> {
    let operands = match condition {
        Condition::Compare { left, right, .. } => [*left, *right],
        Condition::Matches { text, pattern, .. } => [*text, *pattern],
        Condition::All(conditions) | Condition::Any(conditions) => {
            let first = conditions.first();
            return first.map_or(Vec::new(), |first| columns_of(first, programs));
        }
        Condition::Not(condition) => return columns_of(condition, programs),
    };
    let mut columns = Vec::new();
    for operand in operands {
        let of_program = match operand {
            FilterOperand::Computed(number) => programs.get(usize::from(number)),
            FilterOperand::Column(_) | FilterOperand::Constant(_) => None,
        };
        let all = of_program.map_or(&[][..], |program| &program.operands);
        columns.extend(
            all.iter()
                .chain([&operand])
                .filter_map(|operand| match operand {
                    FilterOperand::Column(number) => Some(usize::from(*number)),
                    FilterOperand::Constant(_) | FilterOperand::Computed(_) => None,
                }),
        );
    }
    columns
}
