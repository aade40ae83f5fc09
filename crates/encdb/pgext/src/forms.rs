//! The forms of cells and of wrapped keys, which anybody sees: no key and no evaluator is asked.

use pgseal_cell::{CellRef, WrappedKey};
use pgseal_evaluator_proto::Refusal;

use crate::shell::Failure;

/// Whether these bytes are a cell, of this type unless it is 0.
pub(crate) fn check(cell: &[u8], ty: u8) -> Result<(), Failure> {
    let cell = CellRef::parse(cell).map_err(Refusal::from)?;
    match ty == 0 || cell.ty() as u8 == ty {
        true => Ok(()),
        false => Err(Refusal::WrongType.into()),
    }
}

/// The number of a wrapped key, and whether its cells are deterministic.
pub(crate) fn wrapped_key(wrapped: &[u8]) -> Result<(u32, bool), Failure> {
    let wrapped = WrappedKey::parse(wrapped).map_err(Refusal::from)?;
    Ok((wrapped.id().0, wrapped.deterministic()))
}
