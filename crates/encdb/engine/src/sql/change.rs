//! Statements that change rows.

use pg_query::protobuf::{
    BoolExpr, BoolExprType, ColumnRef, DeleteStmt, InferClause, InsertStmt, MergeStmt,
    MergeWhenClause, MultiAssignRef, Node, NullTest, NullTestType, OnConflictClause, ResTarget,
    ReturningClause, SelectStmt, String as Text, UpdateStmt,
};
use pg_query::NodeEnum;

use super::expression::Met;
use super::kind::{star, Star};
use super::output::{add_versions, output_of};
use super::query::MAX_COLUMNS;
use super::scope::{last_name, Kind, Scope, Source};
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
        self.name_inserted(insert, &queries)?;
        let mut scope = queries.inner();
        let relation = insert.relation.as_ref();
        let columns = relation.map_or_else(Columns::new, |it| scope.add_target(it));
        let wanted: Vec<_> = match columns.is_empty() && insert.cols.is_empty() {
            true => vec![Met::Plain; MAX_COLUMNS],
            false => insert.cols.iter().map(|it| target(it, &columns)).collect(),
        };
        if let Some(rows) = insert.select_stmt.as_deref_mut() {
            let names_none = insert.cols.is_empty() && !columns.is_empty();
            if self.rows_of(rows, &wanted, &queries)? && names_none {
                let name = relation.map_or("", |relation| &relation.relname);
                return Err(Refusal::NoColumns("INSERT", name.to_owned()));
            }
        }
        if let Some(conflict) = insert.on_conflict_clause.as_deref_mut() {
            scope.add("excluded", Source::of_table(&columns));
            self.conflict(conflict, &columns, &scope)?;
        }
        self.returning(insert.returning_clause.as_mut(), &columns, &mut scope)
    }

    /// Goes through the rows that are inserted. Returns whether a plain literal or parameter is in
    /// them.
    fn rows_of(
        &mut self,
        rows: &mut Node,
        wanted: &[Met],
        queries: &Scope<'_>,
    ) -> Result<bool, Refusal> {
        let is_own = !queries.catalog().function("unnest").is_empty();
        if let Some(arrays) = unnested(rows).filter(|it| it.len() == wanted.len() && !is_own) {
            self.assigning(true, |this| this.arrays(arrays, wanted, queries))?;
            return Ok(false);
        }
        let given = output_of(rows, queries);
        let mut kinds = given.columns.iter().map(|(_, kind)| kind);
        let gives_open = kinds.any(Kind::is_open) || given.rest.is_open();
        let before = self.open();
        self.assigning(true, |this| this.query(rows, wanted, queries))?;
        Ok(gives_open || self.open() > before)
    }

    /// Goes through arrays of which each has the values of one column.
    fn arrays(
        &mut self,
        arrays: &mut [Node],
        wanted: &[Met],
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        for (array, wanted) in arrays.iter_mut().zip(wanted) {
            let met = match wanted {
                Met::Cells(cells) if cells.is_array => Met::Unknown,
                Met::Cells(cells) => Met::Cells(cells.array()),
                met => met.clone(),
            };
            self.meet(array, &met, scope)?;
        }
        Ok(())
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
            self.is_changed |= admits_partial(infer, columns);
        }
        self.assignments(&mut conflict.target_list, columns, scope)?;
        self.optional_condition(&mut conflict.where_clause, scope)
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
        let mut queries = outer.inner();
        self.with(update.with_clause.as_mut(), &mut queries)?;
        let mut scope = queries.inner();
        let relation = update.relation.as_ref();
        let columns = relation.map_or_else(Columns::new, |it| scope.add_target(it));
        self.sources(&mut update.from_clause, &mut scope)?;
        self.assignments(&mut update.target_list, &columns, &scope)?;
        self.optional_condition(&mut update.where_clause, &scope)?;
        self.returning(update.returning_clause.as_mut(), &columns, &mut scope)
    }

    pub(super) fn delete(
        &mut self,
        delete: &mut DeleteStmt,
        outer: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let mut queries = outer.inner();
        self.with(delete.with_clause.as_mut(), &mut queries)?;
        let mut scope = queries.inner();
        let relation = delete.relation.as_ref();
        let columns = relation.map_or_else(Columns::new, |it| scope.add_target(it));
        self.sources(&mut delete.using_clause, &mut scope)?;
        self.optional_condition(&mut delete.where_clause, &scope)?;
        self.returning(delete.returning_clause.as_mut(), &columns, &mut scope)
    }

    pub(super) fn merge(
        &mut self,
        merge: &mut MergeStmt,
        outer: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let mut queries = outer.inner();
        self.with(merge.with_clause.as_mut(), &mut queries)?;
        let mut scope = queries.inner();
        let relation = merge.relation.as_ref();
        let columns = relation.map_or_else(Columns::new, |it| scope.add_target(it));
        if let Some(source) = merge.source_relation.as_deref_mut() {
            self.source(source, &mut scope)?;
        }
        self.optional_condition(&mut merge.join_condition, &scope)?;
        for when in &mut merge.merge_when_clauses {
            if let Some(NodeEnum::MergeWhenClause(when)) = &mut when.node {
                self.name_merged(when, relation, &scope)?;
                self.merge_when(when, &columns, &scope)?;
            }
        }
        self.returning(merge.returning_clause.as_mut(), &columns, &mut scope)
    }

    fn merge_when(
        &mut self,
        when: &mut MergeWhenClause,
        columns: &Columns,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        self.optional_condition(&mut when.condition, scope)?;
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
        self.assigning(true, |this| {
            this.columns(when.values.iter_mut(), &wanted, scope)
        })
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
        self.assigning(true, |this| this.meet(value, &wanted[at], scope))
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
            Some(NodeEnum::RowExpr(row)) => self.assigning(true, |this| {
                this.columns(row.args.iter_mut(), wanted, scope)
            }),
            Some(NodeEnum::SubLink(link)) => match link.subselect.as_deref_mut() {
                Some(query) => self.assigning(true, |this| this.query(query, wanted, scope)),
                None => Ok(()),
            },
            _ => Err(Refusal::Undecided("an assignment of several columns")),
        }
    }

    fn returning(
        &mut self,
        clause: Option<&mut ReturningClause>,
        columns: &Columns,
        scope: &mut Scope<'_>,
    ) -> Result<(), Refusal> {
        add_versions(scope, columns);
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

/// Lets `ON CONFLICT (column)` find an index with the condition that its encrypted columns are not
/// NULL, which is what there is until `pgseal client protect --online` has built the final one. An
/// index without a condition is found as before. Returns whether there is such a column.
fn admits_partial(infer: &mut InferClause, columns: &Columns) -> bool {
    let names = infer.index_elems.iter().filter_map(|it| match &it.node {
        Some(NodeEnum::IndexElem(element)) if columns.contains_key(&element.name) => {
            Some(element.name.clone())
        }
        _ => None,
    });
    let mut conditions: Vec<Node> = names.map(is_not_null).collect();
    if conditions.is_empty() {
        return false;
    }
    conditions.extend(infer.where_clause.take().map(|it| *it));
    let all = BoolExpr {
        boolop: BoolExprType::AndExpr.into(),
        args: conditions,
        ..BoolExpr::default()
    };
    infer.where_clause = Some(Box::new(Node {
        node: Some(NodeEnum::BoolExpr(Box::new(all))),
    }));
    true
}

fn is_not_null(column: String) -> Node {
    let name = NodeEnum::String(Text { sval: column });
    let column = NodeEnum::ColumnRef(ColumnRef {
        fields: vec![Node { node: Some(name) }],
        ..ColumnRef::default()
    });
    let test = NullTest {
        arg: Some(Box::new(Node { node: Some(column) })),
        nulltesttype: NullTestType::IsNotNull.into(),
        ..NullTest::default()
    };
    Node {
        node: Some(NodeEnum::NullTest(Box::new(test))),
    }
}

/// Returns the arguments of `SELECT * FROM unnest(...)`, if the query has nothing else.
pub(super) fn unnested(query: &mut Node) -> Option<&mut [Node]> {
    let Some(NodeEnum::SelectStmt(select)) = &mut query.node else {
        return None;
    };
    if select.target_list.len() != 1 || select.from_clause.len() != 1 {
        return None;
    }
    let rest = SelectStmt {
        target_list: Vec::new(),
        from_clause: Vec::new(),
        ..select.as_ref().clone()
    };
    let is_bare = rest == bare(&rest);
    let ([target], [source]) = (&mut *select.target_list, &mut *select.from_clause) else {
        return None;
    };
    let is_all = matches!(
        star(super::query::value_of(target).as_deref()),
        Some(Star::All)
    );
    let Some(NodeEnum::RangeFunction(source)) = &mut source.node else {
        return None;
    };
    let has_more = source.ordinality || source.is_rowsfrom || !source.coldeflist.is_empty();
    let [Node {
        node: Some(NodeEnum::List(list)),
    }] = &mut *source.functions
    else {
        return None;
    };
    match list.items.first_mut().and_then(|it| it.node.as_mut()) {
        Some(NodeEnum::FuncCall(call)) if is_bare && is_all && !has_more => {
            let has_more = call.agg_filter.is_some() || call.over.is_some();
            let is_bare = !has_more && call.agg_order.is_empty() && !call.func_variadic;
            (is_bare && last_name(&call.funcname) == "unnest").then_some(&mut *call.args)
        }
        _ => None,
    }
}

/// Returns what a query has in common with one that only has results and sources.
fn bare(query: &SelectStmt) -> SelectStmt {
    SelectStmt {
        limit_option: query.limit_option,
        op: pg_query::protobuf::SetOperation::SetopNone.into(),
        ..SelectStmt::default()
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
