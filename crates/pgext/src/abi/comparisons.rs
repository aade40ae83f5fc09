//! What is asked of cells and answered in clear: order, equality, hashes.

use std::ffi::{c_char, c_int};

use pgseal_evaluator_proto::{Items, Position, Request, Response, POSITION};

use super::{list, locale, put, report, shell, PgsealBytes};
use crate::shell::{self as other_side};

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

interface! {
    /// Whether these bytes are a cell, of this type unless it is 0.
    fn pgseal_check(cell: PgsealBytes, ty: u8) -> c_int {
        let outcome = other_side::check(cell.get(), ty);
        report(shell(), outcome)
    }

    /// The order of two cells: below, at or above 0.
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

    /// Where a probe stands among the sorted cells of a page.
    fn pgseal_search(
        probe: PgsealBytes,
        cells: *const PgsealBytes,
        ncells: usize,
        name: *const c_char,
        position: *mut PgsealPosition,
    ) -> c_int {
        let shell = shell();
        let cells = list(cells, ncells);
        let outcome = locale(name).and_then(|collation| {
            let request = Request::SearchPage {
                collation,
                probe: probe.get(),
                cells: Items::Listed(&cells),
            };
            shell.ask(&request, |response| match response {
                Response::Position(position) => Some(position.into()),
                _ => None,
            })
        });
        put(shell, outcome, position)
    }

    /// Hands over the sorted cells of a page, to be asked for by its number.
    fn pgseal_keep_page(page: u32, cells: *const PgsealBytes, ncells: usize) -> c_int {
        let shell = shell();
        let cells = list(cells, ncells);
        let cells = Items::Listed(&cells);
        let outcome = shell.done(&Request::KeepPage { page, cells });
        report(shell, outcome)
    }

    /// Where a probe stands on pages that were kept.
    fn pgseal_search_kept(
        probe: PgsealBytes,
        pages: *const u32,
        npages: usize,
        name: *const c_char,
        positions: *mut PgsealPosition,
    ) -> c_int {
        let shell = shell();
        let mut numbers = Vec::with_capacity(4 * npages);
        for at in 0..npages {
            numbers.extend_from_slice(&pages.add(at).read().to_le_bytes());
        }
        let outcome = locale(name).and_then(|collation| {
            let request = Request::SearchKept {
                collation,
                probe: probe.get(),
                pages: &numbers,
            };
            shell.ask(&request, |response| match response {
                Response::Positions(bytes) if bytes.len() == POSITION * npages => {
                    for (at, position) in bytes.chunks_exact(POSITION).enumerate() {
                        positions.add(at).write(Position::parse(position).ok()?.into());
                    }
                    Some(())
                }
                _ => None,
            })
        });
        report(shell, outcome)
    }

    /// The ranks of cells: a sort of all of them.
    fn pgseal_rank(
        cells: *const PgsealBytes,
        ncells: usize,
        name: *const c_char,
        ranks: *mut u32,
    ) -> c_int {
        let shell = shell();
        let cells = list(cells, ncells);
        let outcome = locale(name).and_then(|collation| {
            let request = Request::Rank {
                collation,
                cells: Items::Listed(&cells),
            };
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

    /// The keyed hash of a cell's value.
    fn pgseal_hash(cell: PgsealBytes, seed: u64, hash: *mut u64) -> c_int {
        let shell = shell();
        let outcome = shell.hash(seed, cell.get());
        put(shell, outcome, hash)
    }

    /// A number that sorts as the cell does, as far as it goes.
    fn pgseal_order_prefix(cell: PgsealBytes, prefix: *mut u64) -> c_int {
        let shell = shell();
        let outcome = shell.order_prefix(cell.get());
        put(shell, outcome, prefix)
    }

    /// LIKE and ILIKE, with the backslash as escape.
    fn pgseal_like(
        text: PgsealBytes,
        pattern: PgsealBytes,
        insensitive: c_int,
        name: *const c_char,
        matches: *mut c_int,
    ) -> c_int {
        let shell = shell();
        let outcome = locale(name).and_then(|collation| {
            let request = Request::Like {
                insensitive: (insensitive != 0).then_some(collation),
                text: text.get(),
                pattern: pattern.get(),
            };
            shell.ask(&request, |response| match response {
                Response::Truth(truth) => Some(c_int::from(truth)),
                _ => None,
            })
        });
        put(shell, outcome, matches)
    }
}
