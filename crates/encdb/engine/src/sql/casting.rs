//! Casts, and truth values where SQL wants a condition.
//!
//! A cast to a plain type says what a value is before it becomes one of its column: the engine
//! follows it ([`Cast`]) and sends the type of the cells in its place.

use pg_query::protobuf::{AConst, AExpr, AExprKind, Node, String as Text, TypeCast};
use pg_query::NodeEnum;
use pgseal_client::Type;

use super::expression::{results, Met};
use super::kind::{cast_cells, cast_of_cells, kind_of};
use super::literal::Cast;
use super::scope::{last_name, Kind, Scope};
use super::utility::type_name;
use super::{cell_literal, Rewriter};
use crate::catalog::Cells;
use crate::refusal::Refusal;
use crate::values;

impl Rewriter<'_> {
    /// Goes through a cast whose value meets nothing encrypted. One of cells to a plain type
    /// becomes one to the type of its cells.
    pub(super) fn cast(&mut self, cast: &mut TypeCast, scope: &Scope<'_>) -> Result<(), Refusal> {
        let (to, given) = (cast_cells(cast, scope), cast_of_cells(cast, scope));
        let name = cast.type_name.as_ref();
        let name = name.map_or("", |it| last_name(&it.names));
        let met = match scope.catalog().is_mixed(name) {
            true => Met::Unknown,
            false => Met::Nothing,
        };
        let Some(arg) = cast.arg.as_deref_mut() else {
            return Ok(());
        };
        match (to, given) {
            (Some(cells), _) => self.seal(arg, &cells, scope),
            (None, Some(cells)) => {
                cast.type_name = type_name(&cells);
                self.is_changed = true;
                self.walk(arg, scope)
            }
            (None, None) => self.meet(arg, &met, scope),
        }
    }

    /// Goes through a cast to a plain type whose value meets cells.
    pub(super) fn seal_cast(
        &mut self,
        cast: &mut TypeCast,
        cells: &Cells,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let (Some(name), Some(arg)) = (&cast.type_name, cast.arg.as_deref_mut()) else {
            return Err(Refusal::Expression);
        };
        self.through(arg, cells, Cast::read(name, cells.is_array)?, scope)?;
        cast.type_name = type_name(cells);
        self.is_changed = true;
        Ok(())
    }

    /// Goes through a value that is cast and meets cells: the literals and parameters of which it
    /// may be one are cast instead.
    fn through(
        &mut self,
        node: &mut Node,
        cells: &Cells,
        by: Cast,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        if let Some(sealed) = self.sealed(node, cells, Some(by), scope)? {
            node.node = Some(sealed);
            return Ok(());
        }
        let element = cells.element();
        let (of, parts) = match &mut node.node {
            Some(NodeEnum::AArrayExpr(array)) if cells.is_array => (&element, &mut array.elements),
            Some(NodeEnum::CoalesceExpr(all)) => (cells, &mut all.args),
            Some(NodeEnum::CaseExpr(case)) => {
                let mut results = results(case).into_iter();
                results.try_for_each(|it| self.through(it, cells, by, scope))?;
                return self.conditions(case, scope);
            }
            Some(NodeEnum::AConst(AConst { isnull: true, .. })) => return Ok(()),
            _ if Some(by) == cells.ty.map(Cast::To) => return self.seal(node, cells, scope),
            _ => return Err(Refusal::Expression),
        };
        let mut parts = parts.iter_mut();
        parts.try_for_each(|it| self.through(it, of, by, scope))
    }

    /// Goes through a condition that may be missing.
    pub(super) fn optional_condition(
        &mut self,
        node: &mut Option<Box<Node>>,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        match node.as_deref_mut() {
            // `ON true`
            Some(node) => self.loosely(|this| this.as_mark(|this| this.condition(node, scope))),
            None => Ok(()),
        }
    }

    /// Goes through a condition. A cell is none: it is compared with the cell of `true`.
    pub(super) fn condition(&mut self, node: &mut Node, scope: &Scope<'_>) -> Result<(), Refusal> {
        let kind = kind_of(Some(node), scope);
        self.walk(node, scope)?;
        let cells = match kind {
            Kind::Cell(cells) if cells.ty == Some(Type::Bool) && !cells.is_array => cells,
            _ => return Ok(()),
        };
        // It is no value of the application's.
        let seal = |value: &_| self.seal.seal(&cells.keyname, value);
        let sealed = values::sealed_text("t", &cells, None, (&|| self.seal.times(), seal))?;
        let truth = cell_literal(sealed, &cells);
        self.is_changed = true;
        let of = |node: NodeEnum| Box::new(Node { node: Some(node) });
        node.node = Some(NodeEnum::AExpr(Box::new(AExpr {
            kind: AExprKind::AexprOp.into(),
            name: vec![*of(NodeEnum::String(Text {
                sval: "=".to_owned(),
            }))],
            lexpr: Some(Box::new(std::mem::take(node))),
            rexpr: Some(of(truth)),
            location: -1,
            ..AExpr::default()
        })));
        Ok(())
    }
}
