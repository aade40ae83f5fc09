//! States of aggregates, by their handles.

use std::ffi::{c_char, c_int};

use pgseal_evaluator_proto::{AggregateRequest, Batch, Items, Request};
use pgseal_value::AggregateKind;

use super::{list, locale, put, report, shell, PgsealBytes};
use crate::shell::Failure;

/// `PgsealBatch`.
#[repr(C)]
pub struct PgsealBatch {
    kind: u8,
    locale: *const c_char,
    programs: *const PgsealBytes,
    nprograms: usize,
    shape: PgsealBytes,
    cells: *const PgsealBytes,
    ncells: usize,
}

impl PgsealBatch {
    /// Calls `used` with the batch as a request has it.
    ///
    /// # Safety
    /// Its cells and its locale are readable, as the header demands.
    pub(super) unsafe fn with<T>(
        &self,
        used: impl FnOnce(Batch<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // SAFETY: cells and locale are readable during the call, by this function's contract.
        let (cells, collation) = unsafe { (list(self.cells, self.ncells)?, locale(self.locale)?) };
        // SAFETY: the programs are readable during the call, by this function's contract.
        let programs = unsafe { list(self.programs, self.nprograms)? };
        used(Batch {
            kind: match self.kind {
                b'a' => AggregateKind::Avg,
                b'<' => AggregateKind::Min,
                b'>' => AggregateKind::Max,
                b'V' => AggregateKind::VarPop,
                b'v' => AggregateKind::VarSamp,
                b'D' => AggregateKind::StddevPop,
                b'd' => AggregateKind::StddevSamp,
                b'&' => AggregateKind::BoolAnd,
                b'|' => AggregateKind::BoolOr,
                b'c' => AggregateKind::Corr,
                b'P' => AggregateKind::CovarPop,
                b'p' => AggregateKind::CovarSamp,
                b'm' => AggregateKind::RegrSlope,
                b'i' => AggregateKind::RegrIntercept,
                b'r' => AggregateKind::RegrR2,
                b'X' => AggregateKind::RegrAvgX,
                b'Y' => AggregateKind::RegrAvgY,
                b'x' => AggregateKind::RegrSxx,
                b'y' => AggregateKind::RegrSyy,
                b'z' => AggregateKind::RegrSxy,
                _ => AggregateKind::Sum,
            },
            collation,
            programs: Items::Listed(&programs),
            // SAFETY: the shape is readable during the call, by this function's contract.
            shape: unsafe { self.shape.get() },
            cells: Items::Listed(&cells),
        })
    }
}

interface! {
    /// Takes cells into a state; 0 begins one.
    fn pgseal_aggregate_step(state: *mut u64, batch: *const PgsealBatch) -> c_int {
        let shell = shell();
        let outcome = (*batch).with(|batch| {
            let state = shell.states.inner(state.read())?;
            shell.state(&Request::Aggregate(AggregateRequest::Step { state, batch }))
        });
        put(shell, outcome, state)
    }

    /// Takes another state into this one; the other ends.
    fn pgseal_aggregate_combine(into: u64, from: u64) -> c_int {
        let shell = shell();
        let both = (shell.states.inner(into), shell.states.inner(from));
        let outcome = match both {
            (Ok(into), Ok(from)) => {
                let request = AggregateRequest::Combine { into, from };
                shell.done(&Request::Aggregate(request))
            }
            (Err(gone), _) | (_, Err(gone)) => Err(gone.into()),
        };
        report(shell, outcome)
    }

    /// Exports the state, sealed for another process of the query.
    fn pgseal_aggregate_export(state: u64, sealed: *mut PgsealBytes) -> c_int {
        let shell = shell();
        let outcome = match shell.states.inner(state) {
            Ok(state) => {
                let request = Request::Aggregate(AggregateRequest::Export(state));
                shell.bytes(&request).map(PgsealBytes::from)
            }
            Err(gone) => Err(gone.into()),
        };
        put(shell, outcome, sealed)
    }

    /// Imports a state that was exported.
    fn pgseal_aggregate_import(sealed: PgsealBytes, state: *mut u64) -> c_int {
        let shell = shell();
        let outcome = shell.state(&Request::Aggregate(AggregateRequest::Import(sealed.get())));
        put(shell, outcome, state)
    }

    /// Returns the result, after the last cells.
    fn pgseal_aggregate_finish(
        state: u64,
        batch: *const PgsealBatch,
        stays: c_int,
        result: *mut PgsealBytes,
        is_null: *mut c_int,
    ) -> c_int {
        let shell = shell();
        let outcome = (*batch).with(|batch| {
            let request = Request::Aggregate(AggregateRequest::Finish {
                state: shell.states.inner(state)?,
                batch,
                stays: stays != 0,
            });
            let cell = shell.cell_or_null(&request)?;
            is_null.write(c_int::from(cell.is_none()));
            Ok(PgsealBytes::from(cell.unwrap_or_default()))
        });
        put(shell, outcome, result)
    }

    /// Ends a state. Does nothing if it is gone.
    fn pgseal_aggregate_drop(state: u64) {
        shell().drop_state(state);
    }
}
