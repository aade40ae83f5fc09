//! Questions about many cells in one request: each cell is answered as if it came alone, with the
//! same rights asked and the same uses counted. What is refused is left out of the answer, and is
//! refused, and counted, when it is asked for alone.

use pgseal_evaluator_proto::{
    counts_of, Batch, EachRequest, FilterScope, Items, Program, Refusal, Response,
};

use super::ahead;
use super::counts::Asked;
use super::texts::Growth;
use super::Connection;

/// The seed of the second half of a tag; that of the first is 0.
const SECOND: u64 = u64::from_le_bytes(*b"tag half");

impl Connection {
    /// Appends the answers about each cell.
    pub(super) fn each(
        &mut self,
        request: EachRequest<'_>,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.cells.are_passing(true);
        let answered = self.answer_all(request, into);
        self.cells.are_passing(false);
        answered
    }

    fn answer_all(&mut self, request: EachRequest<'_>, into: &mut Vec<u8>) -> Result<(), Refusal> {
        match request {
            EachRequest::Compare {
                collation,
                lefts,
                rights,
            } => {
                let collation = self.collation(collation)?;
                // A right one for all is opened once.
                let (same, asked) = match rights.len() {
                    1 => (lefts.len(), 1),
                    _ => (1, 2),
                };
                let rights = rights
                    .iter()
                    .flat_map(|right| std::iter::repeat_n(right, same));
                let rows = lefts.iter().zip(rights).map(<[&[u8]; 2]>::from);
                self.answer_each(rows, asked, into, |this, [left, right]| {
                    this.compare(left, right, collation).map(Response::Order)
                });
            }
            EachRequest::Tag(cells) => {
                let rows = cells.iter().map(|cell| [cell]);
                self.answer_each(rows, 1, into, |this, [cell]| {
                    this.tag(cell).map(Response::Tag)
                });
            }
            EachRequest::Like {
                matching,
                pattern,
                texts,
            } => {
                let rows = texts.iter().map(|text| [text]);
                self.answer_each(rows, 1, into, |this, [text]| {
                    this.matches(matching, text, pattern).map(Response::Truth)
                });
            }
            EachRequest::Compute { program, operands } => {
                self.compute_each(program, operands, into);
            }
            EachRequest::Aggregate { counts, batch } => {
                self.aggregate_each(counts, batch, into)?;
            }
            EachRequest::Filter {
                filter,
                programs,
                collations,
                constants,
                columns,
                cells,
            } => {
                let scope = FilterScope {
                    columns: usize::from(columns),
                    constants: constants.len(),
                    programs,
                    collations,
                };
                self.filter_each(filter, &scope, (constants, cells), into)?;
            }
        }
        Ok(())
    }

    /// Answers about each row, of whose cells the first so many are opened side by side with those
    /// of other rows.
    fn answer_each<'c, const N: usize>(
        &mut self,
        mut rows: impl Iterator<Item = [&'c [u8]; N]>,
        opened: usize,
        into: &mut Vec<u8>,
        ask: impl Fn(&mut Self, [&'c [u8]; N]) -> Result<Response<'static>, Refusal>,
    ) {
        let mut some = Vec::with_capacity(ahead::MOST);
        loop {
            some.clear();
            some.extend(rows.by_ref().take(ahead::rows(opened)));
            if some.is_empty() {
                return;
            }
            let cells = some.iter().flat_map(|row| row.iter().take(opened));
            self.open_ahead(cells.copied());
            for row in &some {
                let answer = ask(self, *row);
                Response::encode_item(answer.as_ref().map_err(|refusal| *refusal), into);
            }
        }
    }

    fn compute_each(&mut self, program: Program<'_>, operands: Items<'_>, into: &mut Vec<u8>) {
        let width = program.row();
        if operands.len() >= 2 * width {
            let second = operands.iter().skip(width);
            self.keep_constants(operands.iter().take(width).zip(second));
        }
        let (mut operands, mut some, mut cell) = (operands.iter(), Vec::new(), Vec::new());
        self.growth = Growth::of_request();
        loop {
            some.clear();
            some.extend(operands.by_ref().take(width * ahead::rows(width)));
            if some.is_empty() {
                return;
            }
            self.open_ahead(some.iter().copied());
            for row in some.chunks_exact(width) {
                cell.clear();
                let made = self.compute_row(program, Items::Listed(row), &mut cell);
                let answer = made.map(|there| match there {
                    true => Response::Cell(&cell),
                    false => Response::Null,
                });
                Response::encode_item(answer.as_ref().map_err(|refusal| *refusal), into);
            }
        }
    }

    /// Aggregates each group as [`Connection::aggregate_end`] does, without a state before.
    fn aggregate_each(
        &mut self,
        counts: &[u8],
        batch: Batch<'_>,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let collation = self.collation(batch.collation)?;
        let (mut rest, mut result) = (batch.inputs()?, Vec::new());
        for count in counts_of(counts) {
            if count > rest.len() {
                return Err(Refusal::MalformedRequest);
            }
            let group = rest.clone().take(count);
            rest.by_ref().take(count).for_each(drop);
            result.clear();
            let made = self.end_of(0, (batch.kind, collation), group, &mut result);
            let answer = made.map(|there| match there {
                true => Response::Cell(&result),
                false => Response::Null,
            });
            Response::encode_item(answer.as_ref().map_err(|refusal| *refusal), into);
        }
        Ok(())
    }

    /// Keeps the operands that are the same in the first two rows, and so, very likely, in all.
    pub(super) fn keep_constants<'c>(&mut self, rows: impl Iterator<Item = (&'c [u8], &'c [u8])>) {
        for (cell, next) in rows {
            if cell == next {
                self.cells.keep(&self.access.view, cell);
            }
        }
    }

    /// Two hashes of a cell, which tell equal values from others.
    fn tag(&mut self, cell: &[u8]) -> Result<[u8; 16], Refusal> {
        self.begin_operation()?;
        let at = self.cells.open_one(&self.access.view, cell)?;
        let origin = self.cells.origin(at);
        let permit = self.access.may_ask(Asked::Hashed, &[origin])?;
        let key = &self.access.view.owner(origin.key).hash;
        let halves = [0, SECOND].map(|seed| self.cells.hash(at, &permit, key, seed).to_le_bytes());
        let mut tag = [0; 16];
        tag[..8].copy_from_slice(&halves[0]);
        tag[8..].copy_from_slice(&halves[1]);
        Ok(tag)
    }
}
