//! Questions about many cells by one request. A cell that has no answer is to be asked about alone.

use std::ffi::{c_char, c_int};

use pgseal_evaluator_proto::{
    EachRequest, Filter, FilterScope, Items, Program, Refusal, Request, Response,
};

use super::aggregates::PgsealBatch;
use super::{list, locale, matching, report, shell, PgsealBytes};
use crate::shell::Failure;

/// No answer, among orders and truths.
const UNTOLD: i8 = 2;

/// `PgsealTag`.
#[repr(C)]
pub struct PgsealTag {
    bytes: [u8; 16],
    told: c_int,
}

/// `PgsealComputed`.
#[repr(C)]
pub struct PgsealComputed {
    cell: PgsealBytes,
    told: c_int,
}

/// `PgsealFilter`.
#[repr(C)]
pub struct PgsealFilter {
    conditions: PgsealBytes,
    programs: *const PgsealBytes,
    nprograms: usize,
    collations: *const PgsealBytes,
    ncollations: usize,
    constants: *const PgsealBytes,
    nconstants: usize,
    columns: u8,
}

/// `PgsealFiltered`.
#[repr(C)]
pub struct PgsealFiltered {
    hold: u32,
    fails: c_int,
}

interface! {
    /// Compares each of many cells with the one at its place, or with the only one.
    fn pgseal_compare_each(
        lefts: *const PgsealBytes,
        nlefts: usize,
        rights: *const PgsealBytes,
        nrights: usize,
        name: *const c_char,
        orders: *mut i8,
    ) -> c_int {
        let lists = list(lefts, nlefts).and_then(|lefts| Ok((lefts, list(rights, nrights)?)));
        let all = lists.and_then(|(lefts, rights)| Ok((lefts, rights, locale(name)?)));
        let outcome = all.and_then(|(lefts, rights, collation)| {
            let request = EachRequest::Compare {
                collation,
                lefts: Items::Listed(&lefts),
                rights: Items::Listed(&rights),
            };
            each(request, nlefts, |at, answer| {
                let order = match answer {
                    None => UNTOLD,
                    Some(Response::Order(order)) => order as i8,
                    Some(_) => return false,
                };
                orders.add(at).write(order);
                true
            })
        });
        report(shell(), outcome)
    }

    /// Matches each of many texts as pgseal_like does.
    fn pgseal_like_each(
        texts: *const PgsealBytes,
        ntexts: usize,
        pattern: PgsealBytes,
        how: c_int,
        name: *const c_char,
        truths: *mut i8,
    ) -> c_int {
        let both = list(texts, ntexts).and_then(|texts| Ok((texts, matching(how, name)?)));
        let outcome = both.and_then(|(texts, matching)| {
            let request = EachRequest::Like {
                matching,
                pattern: pattern.get(),
                texts: Items::Listed(&texts),
            };
            each(request, ntexts, |at, answer| {
                let truth = match answer {
                    None => UNTOLD,
                    Some(Response::Truth(truth)) => i8::from(truth),
                    Some(_) => return false,
                };
                truths.add(at).write(truth);
                true
            })
        });
        report(shell(), outcome)
    }

    /// Returns the tags of many cells.
    fn pgseal_tag_each(cells: *const PgsealBytes, ncells: usize, tags: *mut PgsealTag) -> c_int {
        let outcome = list(cells, ncells).and_then(|cells| {
            each(EachRequest::Tag(Items::Listed(&cells)), ncells, |at, answer| {
                let (bytes, told) = match answer {
                    None => ([0; 16], 0),
                    Some(Response::Tag(bytes)) => (bytes, 1),
                    Some(_) => return false,
                };
                tags.add(at).write(PgsealTag { bytes, told });
                true
            })
        });
        report(shell(), outcome)
    }

    /// Runs a program for each of many rows. The results lie in the answer, until the next call.
    fn pgseal_compute_each(
        program: PgsealBytes,
        operands: *const PgsealBytes,
        noperands: usize,
        nrows: usize,
        results: *mut PgsealComputed,
    ) -> c_int {
        let Ok(program) = Program::parse(program.get(), noperands) else {
            return report(shell(), Err(Refusal::MalformedRequest.into()));
        };
        let outcome = list(operands, noperands.saturating_mul(nrows)).and_then(|operands| {
            let operands = Items::Listed(&operands);
            each(EachRequest::Compute { program, operands }, nrows, |at, answer| {
                let Some(computed) = computed(answer) else {
                    return false;
                };
                results.add(at).write(computed);
                true
            })
        });
        report(shell(), outcome)
    }

    /// Aggregates the cells of many groups. The results lie in the answer, until the next call.
    fn pgseal_aggregate_each(
        batch: *const PgsealBatch,
        counts: *const u32,
        ngroups: usize,
        results: *mut PgsealComputed,
    ) -> c_int {
        let counts = (0..ngroups).flat_map(|at| counts.add(at).read().to_le_bytes());
        let packed: Vec<u8> = counts.collect();
        let outcome = (*batch).with(|batch| {
            let counts = &packed[..];
            let request = EachRequest::Aggregate { counts, batch };
            each(request, ngroups, |at, answer| match computed(answer) {
                Some(computed) => {
                    results.add(at).write(computed);
                    true
                }
                None => false,
            })
        });
        report(shell(), outcome)
    }

    /// Asks how far each of many rows gets through a filter.
    fn pgseal_filter_each(
        filter: *const PgsealFilter,
        cells: *const PgsealBytes,
        nrows: usize,
        filtered: *mut PgsealFiltered,
    ) -> c_int {
        let outcome = ask_filter(&*filter, cells, nrows, |at, answer| {
            let row = match answer {
                Some(Response::Filtered(row)) => row,
                _ => return false,
            };
            filtered.add(at).write(PgsealFiltered {
                hold: row.hold.into(),
                fails: row.fails.into(),
            });
            true
        });
        report(shell(), outcome)
    }
}

/// Returns what C gets of an answer to one of many; none if it is of another kind.
fn computed(answer: Option<Response<'_>>) -> Option<PgsealComputed> {
    let (cell, told) = match answer {
        None => (&[][..], 0),
        Some(Response::Null) => (&[][..], 1),
        Some(Response::Cell(cell)) => (cell, 1),
        Some(_) => return None,
    };
    Some(PgsealComputed {
        cell: cell.into(),
        told,
    })
}

/// Asks about the rows of a filter.
///
/// # Safety
/// The filter and the cells of `nrows` rows are as `pgext.h` says.
unsafe fn ask_filter(
    asked: &PgsealFilter,
    cells: *const PgsealBytes,
    nrows: usize,
    take: impl FnMut(usize, Option<Response<'_>>) -> bool,
) -> Result<(), Failure> {
    // SAFETY: the constants and their bytes are readable during the call, by this contract.
    let constants = unsafe { list(asked.constants, asked.nconstants) }?;
    // SAFETY: the programs and their bytes are readable during the call, by this contract.
    let programs = unsafe { list(asked.programs, asked.nprograms) }?;
    // SAFETY: the names and their bytes are readable during the call, by this contract.
    let collations = unsafe { list(asked.collations, asked.ncollations) }?;
    // SAFETY: there are `columns` cells of each row, readable during the call, by this contract.
    let cells = unsafe { list(cells, nrows.saturating_mul(asked.columns.into())) }?;
    let scope = FilterScope {
        columns: asked.columns.into(),
        constants: constants.len(),
        programs: Items::Listed(&programs),
        collations: Items::Listed(&collations),
    };
    // SAFETY: the conditions are readable during the call, by this contract.
    let filter = Filter::parse(unsafe { asked.conditions.get() }, &scope).map_err(Refusal::from)?;
    let request = EachRequest::Filter {
        filter,
        programs: scope.programs,
        collations: scope.collations,
        constants: Items::Listed(&constants),
        columns: asked.columns,
        cells: Items::Listed(&cells),
    };
    each(request, nrows, take)
}

/// Asks, and hands over each of exactly so many answers, until `take` finds one of another kind.
fn each(
    request: EachRequest<'_>,
    count: usize,
    mut take: impl FnMut(usize, Option<Response<'_>>) -> bool,
) -> Result<(), Failure> {
    let answers = shell().each(&Request::Each(request))?;
    if answers.len() != count {
        return Err(Refusal::MalformedRequest.into());
    }
    for (at, item) in answers.iter().enumerate() {
        let answer = Response::parse_item(item).map_err(Refusal::from)?;
        if !take(at, answer) {
            return Err(Refusal::MalformedRequest.into());
        }
    }
    Ok(())
}
