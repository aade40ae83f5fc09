//! Statements that change rows.

use pg_query::protobuf::{
    DeleteStmt, InsertStmt, MergeStmt, MergeWhenClause, MultiAssignRef, Node, OnConflictClause,
    ResTarget, ReturningClause, UpdateStmt,
};
use pg_query::NodeEnum;

use super::expression::Met;
use super::query::{add_changed, add_source, add_sources, output_of};
use super::scope::{Kind, Scope, Source};
use super::Rewriter;
use crate::catalog::Columns;
use crate::refusal::Refusal;

impl Rewriter<'_> {
    pub(super) fn insert(
        &mut self,
        insert: &mut InsertStmt,
        outer: &Scope<'_>,
    ) -> Result<(), Refusal> {
        // The rows see the queries of WITH, and neither the table nor its columns.
        let mut queries = outer.inner();
        self.with(insert.with_clause.as_mut(), &mut queries)?;
        let mut scope = queries.inner();
        let relation = insert.relation.as_ref();
        let columns = relation.map_or_else(Columns::new, |it| add_changed(&mut scope, it));
        let wanted: Vec<_> = insert.cols.iter().map(|it| target(it, &columns)).collect();
        if let Some(rows) = insert.select_stmt.as_deref_mut() {
            let given = output_of(rows, &queries);
            let kinds = given
                .columns
                .iter()
                .map(|(_, kind)| kind)
                .chain([&given.rest]);
            let gives_open = kinds
                .into_iter()
                .any(|it| matches!(it, Kind::Open | Kind::Derived));
            let before = self.open();
            self.query(rows, &wanted, &queries)?;
            let names_none = insert.cols.is_empty() && !columns.is_empty();
            if names_none && (gives_open || self.open() > before) {
                let name = relation.map_or("", |relation| &relation.relname);
                return Err(Refusal::NoColumns("INSERT", name.to_owned()));
            }
        }
        if let Some(conflict) = insert.on_conflict_clause.as_deref_mut() {
            scope.add("excluded", Source::of_table(&columns));
            self.conflict(conflict, &columns, &scope)?;
        }
        self.returning(insert.returning_clause.as_mut(), &scope)
    }

    fn conflict(
        &mut self,
        conflict: &mut OnConflictClause,
        columns: &Columns,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        if let Some(infer) = conflict.infer.as_deref_mut() {
            self.indexed(&mut infer.index_elems, scope)?;
            self.walk_all(infer.where_clause.as_deref_mut(), scope)?;
        }
        self.assignments(&mut conflict.target_list, columns, scope)?;
        self.walk_all(conflict.where_clause.as_deref_mut(), scope)
    }

    /// Goes through the columns and expressions of an index.
    pub(super) fn indexed(
        &mut self,
        elements: &mut [Node],
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        for element in elements {
            if let Some(NodeEnum::IndexElem(element)) = &mut element.node {
                self.walk_all(element.expr.as_deref_mut(), scope)?;
            }
        }
        Ok(())
    }

    pub(super) fn update(
        &mut self,
        update: &mut UpdateStmt,
        outer: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let mut scope = outer.inner();
        self.with(update.with_clause.as_mut(), &mut scope)?;
        let relation = update.relation.as_ref();
        let columns = relation.map_or_else(Columns::new, |it| add_changed(&mut scope, it));
        add_sources(&mut scope, &update.from_clause);
        self.sources(&mut update.from_clause, &scope)?;
        self.assignments(&mut update.target_list, &columns, &scope)?;
        self.walk_all(update.where_clause.as_deref_mut(), &scope)?;
        self.returning(update.returning_clause.as_mut(), &scope)
    }

    pub(super) fn delete(
        &mut self,
        delete: &mut DeleteStmt,
        outer: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let mut scope = outer.inner();
        self.with(delete.with_clause.as_mut(), &mut scope)?;
        if let Some(relation) = &delete.relation {
            add_changed(&mut scope, relation);
        }
        add_sources(&mut scope, &delete.using_clause);
        self.sources(&mut delete.using_clause, &scope)?;
        self.walk_all(delete.where_clause.as_deref_mut(), &scope)?;
        self.returning(delete.returning_clause.as_mut(), &scope)
    }

    pub(super) fn merge(
        &mut self,
        merge: &mut MergeStmt,
        outer: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let mut scope = outer.inner();
        self.with(merge.with_clause.as_mut(), &mut scope)?;
        let relation = merge.relation.as_ref();
        let columns = relation.map_or_else(Columns::new, |it| add_changed(&mut scope, it));
        if let Some(source) = merge.source_relation.as_deref_mut() {
            add_source(&mut scope, source);
            self.source(source, &scope)?;
        }
        self.walk_all(merge.join_condition.as_deref_mut(), &scope)?;
        for when in &mut merge.merge_when_clauses {
            if let Some(NodeEnum::MergeWhenClause(when)) = &mut when.node {
                self.merge_when(when, &columns, &scope)?;
            }
        }
        self.returning(merge.returning_clause.as_mut(), &scope)
    }

    fn merge_when(
        &mut self,
        when: &mut MergeWhenClause,
        columns: &Columns,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        self.walk_all(when.condition.as_deref_mut(), scope)?;
        if when.values.is_empty() {
            return self.assignments(&mut when.target_list, columns, scope);
        }
        if when.target_list.is_empty() && !columns.is_empty() {
            return Err(Refusal::NoColumns("INSERT", "of MERGE".to_owned()));
        }
        let wanted: Vec<_> = when
            .target_list
            .iter()
            .map(|it| target(it, columns))
            .collect();
        self.columns(when.values.iter_mut(), &wanted, scope)
    }

    /// Goes through `SET a = 1, (b, c) = (2, 3)`.
    fn assignments(
        &mut self,
        list: &mut [Node],
        columns: &Columns,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let wanted: Vec<_> = list.iter().map(|it| target(it, columns)).collect();
        for (at, assigned) in list.iter_mut().enumerate() {
            let Some(NodeEnum::ResTarget(assigned)) = &mut assigned.node else {
                continue;
            };
            self.assignment(assigned, at, &wanted, scope)?;
        }
        Ok(())
    }

    fn assignment(
        &mut self,
        assigned: &mut ResTarget,
        at: usize,
        wanted: &[Met],
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        self.walk_all(&mut assigned.indirection, scope)?;
        let Some(value) = assigned.val.as_deref_mut() else {
            return Ok(());
        };
        if let Some(NodeEnum::MultiAssignRef(several)) = &mut value.node {
            return self.assigned_together(several, at, wanted, scope);
        }
        self.meet(value, &wanted[at], scope)
    }

    /// Goes through the row or query of which each of several columns gets one part. Each of these
    /// assignments has the whole of it.
    fn assigned_together(
        &mut self,
        several: &mut MultiAssignRef,
        at: usize,
        wanted: &[Met],
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let number = |number: i32| usize::try_from(number).unwrap_or_default();
        let first = (at + 1).saturating_sub(number(several.colno));
        let end = (first + number(several.ncolumns)).min(wanted.len());
        let wanted = wanted.get(first..end).unwrap_or_default();
        let Some(source) = several.source.as_deref_mut() else {
            return Ok(());
        };
        match &mut source.node {
            Some(NodeEnum::RowExpr(row)) => self.columns(row.args.iter_mut(), wanted, scope),
            Some(NodeEnum::SubLink(link)) => match link.subselect.as_deref_mut() {
                Some(query) => self.query(query, wanted, scope),
                None => Ok(()),
            },
            _ => Err(Refusal::Undecided("an assignment of several columns")),
        }
    }

    fn returning(
        &mut self,
        clause: Option<&mut ReturningClause>,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        match clause {
            // Other names of the rows before and after
            Some(clause) if !clause.options.is_empty() => {
                Err(Refusal::Undecided("options of RETURNING"))
            }
            Some(clause) => {
                let results = clause.exprs.iter_mut().filter_map(super::query::value_of);
                self.columns(results, &[], scope)
            }
            None => Ok(()),
        }
    }
}

/// Returns what a value meets that is assigned to a column, or to a part of one.
fn target(target: &Node, columns: &Columns) -> Met {
    let Some(NodeEnum::ResTarget(target)) = &target.node else {
        return Met::Plain;
    };
    let is_part = !target.indirection.is_empty();
    match columns.get(&target.name) {
        Some(cells) if cells.is_mixed => Met::Unknown,
        Some(cells) if is_part && cells.is_array => Met::Cells(cells.element()),
        Some(cells) if !is_part => Met::Cells(cells.clone()),
        Some(_) => Met::Unknown,
        // The field of a composite may be encrypted.
        None if is_part => Met::Unknown,
        None => Met::Plain,
    }
}
