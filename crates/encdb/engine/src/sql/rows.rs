//! Comparisons of rows.

use pg_query::protobuf::Node;
use pg_query::NodeEnum;

use super::kind::{kind_of, star};
use super::scope::{Kind, Scope};
use super::Rewriter;
use crate::refusal::Refusal;

impl Rewriter<'_> {
    /// Goes through comparisons of rows, column by column: with a row, or with a list of rows.
    pub(super) fn rows(
        &mut self,
        left: &mut Node,
        right: &mut Node,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let kinds = [&*left, &*right].map(|node| kind_of(Some(node), scope));
        match (&mut left.node, &mut right.node) {
            (Some(NodeEnum::RowExpr(left)), Some(NodeEnum::RowExpr(right))) => {
                self.row_by_row(vec![&mut left.args, &mut right.args], scope)
            }
            (Some(NodeEnum::RowExpr(left)), Some(NodeEnum::List(list))) => {
                let mut rows = vec![left.args.as_mut_slice()];
                for item in &mut list.items {
                    match &mut item.node {
                        Some(NodeEnum::RowExpr(row)) => rows.push(&mut row.args),
                        _ => return Err(Refusal::Undecided("a comparison of rows")),
                    }
                }
                self.row_by_row(rows, scope)
            }
            _ if Kind::common(kinds).is_encrypted() => Err(Refusal::Expression),
            _ => {
                self.walk(left, scope)?;
                self.walk(right, scope)
            }
        }
    }

    /// Goes through rows that are compared, column by column.
    fn row_by_row(&mut self, rows: Vec<&mut [Node]>, scope: &Scope<'_>) -> Result<(), Refusal> {
        let width = rows.first().map_or(0, |row| row.len());
        let mut all = rows.iter().flat_map(|row| row.iter());
        if rows.iter().any(|row| row.len() != width) || all.any(|it| star(Some(it)).is_some()) {
            return Err(Refusal::Undecided("a comparison of rows"));
        }
        let mut rows: Vec<_> = rows.into_iter().map(|row| row.iter_mut()).collect();
        for _ in 0..width {
            let column: Vec<&mut Node> = rows.iter_mut().filter_map(Iterator::next).collect();
            self.column_of_rows(column, scope)?;
        }
        Ok(())
    }

    /// Goes through one column of rows that are compared. Rows within rows are compared two by two.
    fn column_of_rows(
        &mut self,
        mut column: Vec<&mut Node>,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let has_rows = column.iter().any(|value| is_row(value));
        match column.as_mut_slice() {
            [left, right] if has_rows => self.rows(left, right, scope),
            _ if has_rows => Err(Refusal::Undecided("a comparison of rows")),
            _ => self.compared(column, scope),
        }
    }
}

/// Whether an expression is a row.
pub(super) fn is_row(node: &Node) -> bool {
    matches!(node.node, Some(NodeEnum::RowExpr(_)))
}
