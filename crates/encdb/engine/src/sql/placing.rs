//! Values without names of columns: `INSERT INTO t VALUES (...)`, `COPY t FROM STDIN`, and the
//! columns that `SELECT *` gives.
//!
//! A value goes to the column that the owner's list has in its place. The statement that is sent
//! names the columns, so that a server with another order does not change which value is sealed.

use pg_query::protobuf::{
    CopyStmt, InsertStmt, MergeWhenClause, Node, RangeVar, ResTarget, SelectStmt, String as Text,
};
use pg_query::NodeEnum;

use super::change::unnested;
use super::kind::{kind_of, star, Star};
use super::output::output_of;
use super::scope::{Kind, Scope};
use super::Rewriter;
use crate::catalog::{Catalog, Cells, Placed};
use crate::copy::CopyColumn;
use crate::refusal::Refusal;

impl Rewriter<'_> {
    /// Names the columns of an `INSERT` that names none, as many as its rows have values.
    pub(super) fn name_inserted(
        &mut self,
        insert: &mut InsertStmt,
        queries: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let (Some(relation), Some(rows)) = (&insert.relation, insert.select_stmt.as_deref_mut())
        else {
            return Ok(());
        };
        if let (true, Some(values)) = (insert.cols.is_empty(), width(rows, queries)) {
            insert.cols = self.first_columns(relation, values, queries)?;
        }
        Ok(())
    }

    /// Names the columns of an `INSERT` of `MERGE` that names none.
    pub(super) fn name_merged(
        &mut self,
        when: &mut MergeWhenClause,
        relation: Option<&RangeVar>,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let Some(relation) = relation.filter(|_| when.target_list.is_empty()) else {
            return Ok(());
        };
        if !when.values.is_empty() {
            when.target_list = self.first_columns(relation, when.values.len(), scope)?;
        }
        Ok(())
    }

    /// Returns so many first columns of a table; none if their order is not known.
    fn first_columns(
        &mut self,
        relation: &RangeVar,
        values: usize,
        scope: &Scope<'_>,
    ) -> Result<Vec<Node>, Refusal> {
        let known = match placed(scope.catalog(), relation) {
            None => return Ok(Vec::new()),
            Some(Placed::Known(columns)) => columns.get(..values),
            Some(Placed::Changed) => None,
        };
        let other = || Refusal::OtherOrder("INSERT", relation.relname.clone());
        let columns = known.ok_or_else(other)?.iter();
        self.is_changed = true;
        Ok(columns.map(|column| target(&column.name)).collect())
    }

    /// Names the columns of a `COPY ... FROM` that names none.
    pub(super) fn name_copied(
        &mut self,
        copy: &mut CopyStmt,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let relation = copy.relation.as_ref().filter(|_| copy.attlist.is_empty());
        let Some(relation) = relation.filter(|_| copy.is_from) else {
            return Ok(());
        };
        match placed(scope.catalog(), relation) {
            None => {}
            Some(Placed::Changed) => {
                return Err(Refusal::OtherOrder("COPY", relation.relname.clone()));
            }
            Some(Placed::Known(columns)) => {
                let columns = columns.iter().filter(|column| !column.is_generated);
                copy.attlist = columns.map(|column| text(&column.name)).collect();
                self.is_changed = true;
            }
        }
        Ok(())
    }
}

/// Returns the order of a table, if it is known and something in the table is encrypted.
fn placed<'c>(catalog: &'c Catalog, relation: &RangeVar) -> Option<&'c Placed> {
    catalog.placed(&relation.schemaname, &relation.relname)
}

/// Returns how many values each row has; none if only the server knows.
fn width(rows: &mut Node, queries: &Scope<'_>) -> Option<usize> {
    if queries.catalog().function("unnest").is_empty() {
        if let Some(arrays) = unnested(rows) {
            return Some(arrays.len());
        }
    }
    let output = output_of(rows, queries);
    (!output.has_star).then_some(output.columns.len())
}

fn text(name: &str) -> Node {
    Node {
        node: Some(NodeEnum::String(Text {
            sval: name.to_owned(),
        })),
    }
}

fn target(name: &str) -> Node {
    Node {
        node: Some(NodeEnum::ResTarget(Box::new(ResTarget {
            name: name.to_owned(),
            ..ResTarget::default()
        }))),
    }
}

/// Returns the columns of the rows of a query with stars, by the order of columns that the server
/// shows; none if it is not known for a table, or the query is more than results of tables.
pub(super) fn with_stars(query: &Node, scope: &Scope<'_>) -> Option<Vec<CopyColumn>> {
    let Some(NodeEnum::SelectStmt(select)) = &query.node else {
        return None;
    };
    let is_simple = select.with_clause.is_none() && select.larg.is_none();
    let mut tables = Vec::new();
    for source in &select.from_clause {
        add_tables(source, scope, &mut tables)?;
    }
    is_simple.then(|| results(select, &tables, scope))?
}

/// A table of `FROM`, by the name that it has in the statement.
struct Source<'q> {
    name: &'q str,
    columns: Vec<CopyColumn>,
}

/// Adds the tables of a part of `FROM`, in the order of their columns in `*`.
fn add_tables<'q>(source: &'q Node, scope: &Scope<'_>, tables: &mut Vec<Source<'q>>) -> Option<()> {
    match &source.node {
        Some(NodeEnum::RangeVar(relation)) => tables.push(table(relation, scope)?),
        Some(NodeEnum::JoinExpr(join)) => {
            // Columns of USING come first and once, and an alias hides the tables.
            let is_bare = !join.is_natural && join.using_clause.is_empty() && join.alias.is_none();
            for side in [&join.larg, &join.rarg] {
                add_tables(side.as_deref().filter(|_| is_bare)?, scope, tables)?;
            }
        }
        _ => return None,
    }
    Some(())
}

fn table<'q>(relation: &'q RangeVar, scope: &Scope<'_>) -> Option<Source<'q>> {
    let order = scope
        .catalog()
        .order(&relation.schemaname, &relation.relname)?;
    let cells = scope.target(relation);
    let column = |name: &str| CopyColumn {
        name: name.to_owned(),
        cells: cells.get(name).cloned(),
    };
    let alias = relation.alias.as_ref();
    if alias.is_some_and(|alias| !alias.colnames.is_empty()) {
        return None;
    }
    Some(Source {
        name: alias.map_or(&relation.relname, |alias| &alias.aliasname),
        columns: order.iter().map(|placed| column(&placed.name)).collect(),
    })
}

fn results(
    select: &SelectStmt,
    tables: &[Source<'_>],
    outer: &Scope<'_>,
) -> Option<Vec<CopyColumn>> {
    let mut scope = outer.inner();
    super::output::add_sources(&mut scope, &select.from_clause);
    let mut columns = Vec::new();
    for target in &select.target_list {
        let Some(NodeEnum::ResTarget(target)) = &target.node else {
            return None;
        };
        let value = target.val.as_deref();
        match star(value) {
            Some(Star::All) => columns.extend(tables.iter().flat_map(|it| it.columns.clone())),
            Some(Star::Table(name)) => {
                let found = tables.iter().find(|it| it.name == name)?;
                columns.extend(found.columns.clone());
            }
            Some(Star::Fields(_)) => return None,
            None => columns.push(CopyColumn {
                name: super::naming::output_name(&target.name, value, &scope)?,
                cells: cells_of(kind_of(value, &scope)),
            }),
        }
    }
    Some(columns)
}

fn cells_of(kind: Kind) -> Option<Cells> {
    match kind {
        Kind::Cell(cells) => Some(cells),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pgseal_client::{PlacedColumn, TableName};

    use super::super::tests::{catalog, legible, Legible};
    use super::super::{analyze, Analysis, PreparedByName};
    use super::*;

    /// Returns the catalog with the order of two tables, `note` and the generated `sum` of which
    /// are plain.
    fn placed() -> Catalog {
        let mut catalog = catalog();
        let table = |table: &str| TableName {
            schema: "public".to_owned(),
            table: table.to_owned(),
        };
        let columns = ["id", "name", "sum", "age", "note"].map(|name| PlacedColumn {
            name: name.to_owned(),
            is_generated: name == "sum",
        });
        catalog.add_order(&table("person"), columns.to_vec());
        catalog.add_placed(&table("person"), Placed::Known(columns.to_vec()));
        catalog.add_placed(&table("pet"), Placed::Changed);
        catalog
    }

    fn analyzed(sql: &str) -> Result<Analysis, Refusal> {
        analyze(sql, &placed(), &PreparedByName::new(), &Legible)
    }

    #[test]
    fn values_go_to_the_columns_of_the_list() {
        for (sql, expected) in [
            (
                "INSERT INTO person VALUES (1, 'x', DEFAULT, 7)",
                "INSERT INTO person (id, name, sum, age) VALUES (1, '<n:text:x>', DEFAULT, '<a:integer:7>')",
            ),
            (
                "INSERT INTO public.person VALUES (1), (2)",
                "INSERT INTO public.person (id) VALUES (1), (2)",
            ),
            (
                "INSERT INTO person SELECT 1, 'x' FROM pg_class ON CONFLICT DO NOTHING",
                "INSERT INTO person (id, name) SELECT 1, '<n:text:x>' FROM pg_class ON CONFLICT DO NOTHING",
            ),
            (
                "INSERT INTO person SELECT * FROM unnest($1::int[], $2::text[])",
                "INSERT INTO person (id, name) SELECT * FROM unnest($1::int[], $2)",
            ),
            ("INSERT INTO person DEFAULT VALUES", "INSERT INTO person DEFAULT VALUES"),
            ("INSERT INTO person SELECT * FROM other", "INSERT INTO person SELECT * FROM other"),
            (
                "MERGE INTO person USING other ON false WHEN NOT MATCHED THEN INSERT VALUES (1, 'x')",
                "MERGE INTO person USING other ON false WHEN NOT MATCHED THEN INSERT (id, name) VALUES (1, '<n:text:x>')",
            ),
            ("COPY person FROM STDIN", "COPY person(id, name, age, note) FROM STDIN"),
        ] {
            let analysis = analyzed(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            let sent = analysis.text.unwrap_or_else(|| sql.to_owned());
            assert_eq!(legible(&sent), expected, "{sql}");
        }
    }

    #[test]
    fn another_order_is_refused() {
        for sql in [
            "INSERT INTO person VALUES (1, 'x', DEFAULT, 7, 'y', 'z')",
            "INSERT INTO pet VALUES ('x')",
            "COPY pet FROM STDIN",
            "MERGE INTO pet USING other ON false WHEN NOT MATCHED THEN INSERT VALUES ('x')",
            // The table is made anew, or may be another one.
            "DROP TABLE public.person; CREATE TABLE public.person (name enc_text, id int); \
             INSERT INTO person VALUES ('x', 1)",
            "CREATE TEMP TABLE person (name enc_text, id int); INSERT INTO person VALUES ('x', 1)",
            "INSERT INTO person SELECT *, 'x' FROM other",
        ] {
            let refused = analyzed(sql).err().unwrap_or_else(|| panic!("{sql}"));
            let is_it = matches!(refused, Refusal::OtherOrder(..) | Refusal::NoColumns(..));
            assert!(is_it, "{sql}: {refused}");
        }
    }

    #[test]
    fn stars_give_the_columns_of_their_tables() {
        let columns = |sql: &str| {
            let analysis = analyzed(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            let plan = analysis.copies[0].plan.clone();
            let shown = |it: &CopyColumn| it.cells.as_ref().map_or("-", |_| "c").to_owned();
            plan.map(|plan| plan.columns.iter().map(shown).collect::<String>())
        };
        for (sql, expected) in [
            ("COPY (SELECT * FROM person) TO STDOUT", Some("-c-c-")),
            (
                "COPY (SELECT age, p.*, 1 AS one FROM person p WHERE id = 1) TO STDOUT",
                Some("c-c-c--"),
            ),
            (
                "COPY (SELECT b.*, a.name FROM person a JOIN person b ON true) TO STDOUT",
                Some("-c-c-c"),
            ),
            ("COPY person TO STDOUT", Some("-cc-")),
            (
                "COPY (SELECT * FROM person a JOIN other b ON true) TO STDOUT",
                None,
            ),
            (
                "COPY (SELECT * FROM person a JOIN person b USING (id)) TO STDOUT",
                None,
            ),
        ] {
            assert_eq!(columns(sql).as_deref(), expected, "{sql}");
        }
    }
}
