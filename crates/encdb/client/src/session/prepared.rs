//! A statement that the server knows, and how its arguments go to it.

use tokio_postgres::types::ToSql;
use tokio_postgres::Statement;

use super::row;
use crate::argument::{Parameter, Wire};
use crate::column::Shape;
use crate::list::{ColumnName, OwnersList};
use crate::{Argument, ClientError, KeyRing};

/// A statement whose types are known, and what its parameters are for.
pub struct Prepared {
    pub(super) statement: Statement,
    pub(super) targets: Vec<Target>,
}

/// The key and the column of a parameter.
pub(super) struct Target {
    /// The key that seals it
    pub(super) keyname: String,
    /// The column, if the owner's list has it
    pub(super) listed: Option<ColumnName>,
}

impl Prepared {
    /// Returns the statement as the server describes it.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    /// Refuses a statement that gives columns of plain types: the server can make up what is in
    /// them.
    pub fn gives_sealed(&self) -> Result<(), ClientError> {
        self.statement.columns().iter().try_for_each(row::is_sealed)
    }

    /// Returns the keys that seal its parameters.
    pub(super) fn sealing(&self) -> impl Iterator<Item = &str> {
        let sealed = self
            .statement
            .params()
            .iter()
            .zip(&self.targets)
            .filter(|(ty, _)| Shape::of(ty) != Shape::Plain);
        sealed.map(|(_, target)| target.keyname.as_str())
    }

    pub(super) fn wires(
        &self,
        arguments: &[Argument<'_>],
        keys: &KeyRing,
        list: &OwnersList,
    ) -> Result<Vec<Wire>, ClientError> {
        let types = self.statement.params();
        if types.len() != arguments.len() {
            return Err(ClientError::Arguments {
                parameters: types.len(),
                arguments: arguments.len(),
            });
        }
        let wire = |(place, (ty, (target, argument))): (usize, (_, (&Target, &Argument<'_>)))| {
            if let Some(column) = &target.listed {
                list.argument(column, argument.is_plain())?;
            }
            let keyname = &target.keyname;
            Parameter { place, ty, keyname }.wire(*argument, keys)
        };
        let targets = self.targets.iter().zip(arguments);
        (1..).zip(types.iter().zip(targets)).map(wire).collect()
    }
}

pub(super) fn as_sql(wires: &[Wire]) -> Vec<&(dyn ToSql + Sync)> {
    wires
        .iter()
        .map(|wire| wire as &(dyn ToSql + Sync))
        .collect()
}
