//! Questions about cells that are answered in clear: order, equality, hashes.

use std::ffi::{c_char, c_int};

use pgseal_evaluator_proto::{
    ComparisonRequest, Finding, Items, OperationRequest, Page, Position, Refusal, Request,
    Response, MAX_EQUAL,
};

use super::{list, locale, matching, parts, put, report, shell, PgsealBytes};
use crate::forms;

/// `PgsealPosition`.
#[repr(C)]
pub struct PgsealPosition {
    before: u32,
    through: u32,
    descending: c_int,
}

impl From<Position> for PgsealPosition {
    fn from(position: Position) -> Self {
        Self {
            before: position.before,
            through: position.through,
            descending: c_int::from(position.descending),
        }
    }
}

/// `PgsealStart`.
#[repr(C)]
pub struct PgsealStart {
    index: [u8; 16],
    block: u32,
    right: u32,
    cells: *const PgsealBytes,
    ncells: usize,
    children: *const u32,
    nchildren: usize,
}

impl PgsealStart {
    /// Returns the blocks of the children, as a request takes them.
    ///
    /// # Safety
    /// `children` points to `nchildren` numbers that are readable.
    unsafe fn children(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 * self.nchildren);
        for at in 0..self.nchildren {
            // SAFETY: `at` is below `nchildren`, so that number is readable, by this contract.
            let block = unsafe { self.children.add(at).read() };
            bytes.extend_from_slice(&block.to_le_bytes());
        }
        bytes
    }
}

/// `PgsealFinding`.
#[repr(C)]
pub struct PgsealFinding {
    block: u32,
    position: PgsealPosition,
    below: PgsealBytes,
    above: PgsealBytes,
    equal: [PgsealBytes; MAX_EQUAL],
    nequal: usize,
    far: PgsealBytes,
    uniform: c_int,
}

impl From<Finding<'_>> for PgsealFinding {
    fn from(finding: Finding<'_>) -> Self {
        let mut equal = [PgsealBytes::from(&[][..]); MAX_EQUAL];
        for (place, cell) in equal.iter_mut().zip(finding.equal.iter()) {
            *place = cell.into();
        }
        Self {
            block: finding.block,
            position: finding.position.into(),
            below: finding.below.into(),
            above: finding.above.into(),
            equal,
            nequal: finding.equal.len().min(MAX_EQUAL),
            far: finding.far.into(),
            uniform: c_int::from(finding.uniform),
        }
    }
}

interface! {
    /// Fails unless these bytes are a cell, of this type unless it is 0.
    fn pgseal_check(cell: PgsealBytes, ty: u8) -> c_int {
        let outcome = forms::check(cell.get(), ty);
        report(shell(), outcome)
    }

    /// Returns the order of two cells: below, at or above 0.
    fn pgseal_compare(
        left: PgsealBytes,
        right: PgsealBytes,
        name: *const c_char,
        order: *mut c_int,
    ) -> c_int {
        let shell = shell();
        let outcome = locale(name)
            .and_then(|locale| shell.compare(left.get(), right.get(), locale))
            .map(|order| order as c_int);
        put(shell, outcome, order)
    }

    /// Finds where a probe is among the sorted cells of a page.
    fn pgseal_search(
        probe: PgsealBytes,
        cells: *const PgsealBytes,
        ncells: usize,
        name: *const c_char,
        position: *mut PgsealPosition,
    ) -> c_int {
        let shell = shell();
        let both = list(cells, ncells).and_then(|cells| Ok((cells, locale(name)?)));
        let outcome = both.and_then(|(cells, collation)| {
            let request = Request::Comparison(ComparisonRequest::SearchPage {
                collation,
                probe: probe.get(),
                cells: Items::Listed(&cells),
            });
            shell.ask(&request, |response| match response {
                Response::Position(position) => Some(position.into()),
                _ => None,
            })
        });
        put(shell, outcome, position)
    }

    /// Finds where a probe is in an index, from a page on. The findings lie in the answer,
    /// until the next call.
    fn pgseal_descend(
        probe: PgsealBytes,
        start: *const PgsealStart,
        name: *const c_char,
        findings: *mut PgsealFinding,
        nfindings: *mut usize,
    ) -> c_int {
        let shell = shell();
        let start = &*start;
        let both = list(start.cells, start.ncells).and_then(|cells| Ok((cells, locale(name)?)));
        let outcome = both.and_then(|(cells, collation)| {
            let children = start.children();
            let page = (!cells.is_empty()).then_some(Page {
                cells: Items::Listed(&cells),
                children: &children,
                right: start.right,
            });
            let request = Request::Comparison(ComparisonRequest::Descend {
                collation,
                probe: probe.get(),
                index: start.index,
                block: start.block,
                page,
            });
            let found = shell.findings(&request)?;
            for (at, item) in found.iter().enumerate() {
                let finding = Finding::parse(item).map_err(Refusal::from)?;
                findings.add(at).write(finding.into());
            }
            Ok(found.len())
        });
        put(shell, outcome, nfindings)
    }

    /// Returns the ranks of cells: a sort of all of them.
    fn pgseal_rank(
        cells: *const PgsealBytes,
        ncells: usize,
        name: *const c_char,
        ranks: *mut u32,
    ) -> c_int {
        let shell = shell();
        let both = list(cells, ncells).and_then(|cells| Ok((cells, locale(name)?)));
        let outcome = both.and_then(|(cells, collation)| {
            let request = Request::Comparison(ComparisonRequest::Rank {
                collation,
                cells: Items::Listed(&cells),
            });
            shell.ask(&request, |response| match response {
                Response::Ranks(bytes) if bytes.len() == 4 * ncells => {
                    for (at, rank) in bytes.chunks_exact(4).enumerate() {
                        let rank = [rank[0], rank[1], rank[2], rank[3]];
                        ranks.add(at).write(u32::from_le_bytes(rank));
                    }
                    Some(())
                }
                _ => None,
            })
        });
        report(shell, outcome)
    }

    /// Returns the keyed hash of a cell's value.
    fn pgseal_hash(cell: PgsealBytes, seed: u64, hash: *mut u64) -> c_int {
        let shell = shell();
        let outcome = shell.hash(seed, cell.get());
        put(shell, outcome, hash)
    }

    /// Returns the tokens of a text, 8 bytes each, until the next call; `told` says whether there
    /// are any: those of a pattern may not be told.
    fn pgseal_tokens(
        cell: PgsealBytes,
        kind: c_int,
        name: *const c_char,
        tokens: *mut PgsealBytes,
        told: *mut c_int,
    ) -> c_int {
        let shell = shell();
        let outcome = parts(kind, name).and_then(|parts| {
            let cell = cell.get();
            let request = Request::Comparison(ComparisonRequest::Tokens { parts, cell });
            let found = shell.tokens(&request)?;
            told.write(c_int::from(found.is_some()));
            Ok(PgsealBytes::from(found.unwrap_or_default()))
        });
        put(shell, outcome, tokens)
    }

    /// Returns whether an index serves a pattern of LIKE by its beginning.
    fn pgseal_has_prefix(pattern: PgsealBytes, has: *mut c_int) -> c_int {
        let shell = shell();
        let request = Request::Comparison(ComparisonRequest::HasPrefix(pattern.get()));
        let outcome = shell.ask(&request, |response| match response {
            Response::Truth(truth) => Some(c_int::from(truth)),
            _ => None,
        });
        put(shell, outcome, has)
    }

    /// Returns a number that sorts as the cell does, as far as it goes.
    fn pgseal_order_prefix(cell: PgsealBytes, prefix: *mut u64) -> c_int {
        let shell = shell();
        let outcome = shell.order_prefix(cell.get());
        put(shell, outcome, prefix)
    }

    /// Answers LIKE and ILIKE, with the backslash as escape, and starts_with.
    fn pgseal_like(
        text: PgsealBytes,
        pattern: PgsealBytes,
        how: c_int,
        name: *const c_char,
        matches: *mut c_int,
    ) -> c_int {
        let shell = shell();
        let outcome = matching(how, name).and_then(|matching| {
            let request = Request::Operation(OperationRequest::Like {
                matching,
                text: text.get(),
                pattern: pattern.get(),
            });
            shell.ask(&request, |response| match response {
                Response::Truth(truth) => Some(c_int::from(truth)),
                _ => None,
            })
        });
        put(shell, outcome, matches)
    }
}
