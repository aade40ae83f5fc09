//! The statements of the online form. Each has names and cells in it, and no value.

use super::super::sql::{ident, literal};
use super::{left, names, OnlinePlan, Unfinished};
use crate::protect::{Facts, KeptConstraint, KeptIndex, Plan, PlannedColumn, Wanted};
use crate::to_hex;
use pgseal_crypto::sign::SigningKey;

/// The temporary table of cells, by the places of their rows. It is emptied at each commit.
const CELLS: &str = "pg_temp.pgseal_cells";

impl OnlinePlan {
    fn table(&self) -> String {
        self.plan.ident()
    }

    /// Returns the names of the plain columns, and those of the new ones.
    fn pairs(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let columns = self.plan.columns.iter();
        columns.map(|column| (ident(&column.name), ident(&names::column(column.number))))
    }

    fn joined(&self, write: impl Fn((String, String)) -> String, between: &str) -> String {
        let parts: Vec<String> = self.pairs().map(write).collect();
        parts.join(between)
    }

    /// The condition that a row has a value whose cell is missing.
    fn is_dirty(&self) -> String {
        let missing = |(plain, new)| format!("({plain} IS NOT NULL AND {new} IS NULL)");
        self.joined(missing, " OR ")
    }

    fn function(&self) -> String {
        format!(
            "{}.{}",
            ident(&self.plan.schema),
            ident(&names::function(self.plan.oid))
        )
    }

    /// Adds the columns and the trigger, in one transaction. The function's comment is the state.
    pub(crate) fn begin(&self) -> String {
        let columns = self.plan.columns.iter().map(|column| {
            let (name, ty) = (names::column(column.number), self.plan.type_of(column));
            format!("ADD COLUMN {} {ty}{}", ident(&name), collation(column))
        });
        let columns: Vec<String> = columns.collect();
        let (table, function) = (self.table(), self.function());
        let state = Unfinished {
            columns: self.numbers(),
            keyname: self.plan.keyname.clone(),
        };
        let trigger = ident(names::TRIGGER);
        format!(
            "ALTER TABLE ONLY {table} {}; CREATE FUNCTION {function}() RETURNS trigger LANGUAGE \
             plpgsql AS {}; COMMENT ON FUNCTION {function}() IS {}; CREATE TRIGGER {trigger} \
             BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {function}(); \
             ALTER TABLE ONLY {table} ENABLE ALWAYS TRIGGER {trigger}",
            columns.join(", "),
            literal(&self.body()),
            literal(&state.to_comment()),
        )
    }

    fn numbers(&self) -> Vec<i16> {
        let numbers = self.plan.columns.iter().map(|column| column.number);
        let mut numbers: Vec<i16> = numbers.collect();
        numbers.sort_unstable();
        numbers
    }

    /// The function's body. Only the client makes a cell where there was none, so an update that
    /// finds a cell is an application's. If there are indexes on cells, it must not put the cell
    /// into them again, because its connection cannot compare it.
    fn body(&self) -> String {
        let clear = self.joined(|(_, new)| format!("NEW.{new} := NULL;"), " ");
        let new = self.joined(|(plain, _)| format!("NEW.{plain}"), ", ");
        let old = self.joined(|(plain, _)| format!("OLD.{plain}"), ", ");
        let changed = format!("pg_catalog.record_image_ne(ROW({new}), ROW({old}))");
        let condition = match self.kept.indexes.is_empty() {
            true => changed,
            false => {
                let has_cell = self.joined(|(_, new)| format!("OLD.{new} IS NOT NULL"), " OR ");
                format!("{has_cell} OR {changed}")
            }
        };
        format!(
            "BEGIN IF TG_OP = 'INSERT' THEN {clear} ELSIF {condition} THEN {clear} END IF; \
             RETURN NEW; END"
        )
    }

    /// Gives the function the body that the indexes of now need: one may have been made since.
    pub(crate) fn refresh(&self) -> String {
        format!(
            "CREATE OR REPLACE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql AS {}",
            self.function(),
            literal(&self.body())
        )
    }

    /// Makes the table of cells, for this session.
    pub(crate) fn prepare_cells(&self) -> String {
        let columns = (1..).zip(&self.plan.columns);
        let columns = columns.map(|(n, column)| format!(", c{n} {}", self.plan.type_of(column)));
        let columns: String = columns.collect();
        format!("CREATE TEMPORARY TABLE pgseal_cells (place tid{columns}) ON COMMIT DELETE ROWS")
    }

    fn values(&self) -> String {
        let columns = self.plan.columns.iter().map(PlannedColumn::expression);
        let columns: Vec<String> = columns.collect();
        columns.join(", ")
    }

    /// Reads and locks dirty rows of a range of blocks. Rows that others have locked are left for
    /// later.
    pub(crate) fn read_blocks(&self, (from, to): (u32, u32), rows: u32) -> String {
        format!(
            "SELECT ctid, {} FROM ONLY {} WHERE ctid >= '({from},0)' AND ctid < '({to},0)' \
             AND ({}) LIMIT {rows} FOR {} SKIP LOCKED",
            self.values(),
            self.table(),
            self.is_dirty(),
            self.strength(),
        )
    }

    /// Reads and locks dirty rows by their index.
    pub(crate) fn read_dirty(&self, rows: u32) -> String {
        format!(
            "SELECT ctid, {} FROM ONLY {} WHERE {} LIMIT {rows} FOR {} SKIP LOCKED",
            self.values(),
            self.table(),
            self.is_dirty(),
            self.strength(),
        )
    }

    /// A column of a unique index counts as a key, whose update waits for foreign keys' locks.
    fn strength(&self) -> &'static str {
        match self.has_unique() {
            true => "UPDATE",
            false => "NO KEY UPDATE",
        }
    }

    pub(crate) fn empty_cells() -> String {
        format!("TRUNCATE {CELLS}")
    }

    /// Puts the cells into the rows, which are locked.
    pub(crate) fn store_cells(&self) -> String {
        let sets = (1..).zip(self.pairs());
        let sets: Vec<String> = sets
            .map(|(n, (_, new))| format!("{new} = cells.c{n}"))
            .collect();
        format!(
            "UPDATE ONLY {} AS own SET {} FROM {CELLS} AS cells WHERE own.ctid = cells.place",
            self.table(),
            sets.join(", ")
        )
    }

    pub(crate) fn blocks(&self) -> String {
        format!(
            "SELECT pg_catalog.pg_relation_size({}::pg_catalog.oid) / \
             pg_catalog.current_setting('block_size')::pg_catalog.int8",
            self.plan.oid
        )
    }

    /// Counts the dirty rows.
    pub(crate) fn count_dirty(&self) -> String {
        format!(
            "SELECT pg_catalog.count(*) FROM ONLY {} WHERE {}",
            self.table(),
            self.is_dirty()
        )
    }

    pub(crate) fn index_dirty(&self) -> String {
        format!(
            "CREATE INDEX CONCURRENTLY {} ON {} ((true)) WHERE {}",
            ident(&names::dirty(self.plan.oid)),
            self.table(),
            self.is_dirty()
        )
    }

    /// Exchanges the columns, under the lock. Indexes and constraints of the plain columns go with
    /// them. `defaults` are the cells of the new defaults, in the columns' order. `by` signs what
    /// is left for later.
    pub(crate) fn exchange(&self, defaults: &[Option<Vec<u8>>], by: &SigningKey) -> String {
        let (table, function) = (self.table(), self.function());
        let dirty = ident(&names::dirty(self.plan.oid));
        let mut all = vec![
            format!("DROP TRIGGER {} ON {table}", ident(names::TRIGGER)),
            format!("DROP FUNCTION {function}()"),
            format!("DROP INDEX {}.{dirty}", ident(&self.plan.schema)),
        ];
        let drops = self.joined(|(plain, _)| format!("DROP COLUMN {plain}"), ", ");
        all.push(format!("ALTER TABLE ONLY {table} {drops}"));
        for (plain, new) in self.pairs() {
            all.push(format!(
                "ALTER TABLE ONLY {table} RENAME COLUMN {new} TO {plain}"
            ));
        }
        let with_defaults = self.plan.columns.iter().zip(defaults);
        all.extend(with_defaults.filter_map(|(column, default)| {
            let cell = to_hex(default.as_deref()?);
            let (name, ty) = (ident(&column.name), self.plan.unlimited_type_of(column));
            Some(format!(
                "ALTER TABLE ONLY {table} ALTER COLUMN {name} SET DEFAULT '\\x{cell}'::{ty}"
            ))
        }));
        all.extend(self.kept.columns.iter().cloned());
        for constraint in &self.kept.constraints {
            all.extend([constraint.add.clone(), self.note_constraint(constraint, by)]);
        }
        let indexes = self.kept.indexes.iter();
        all.extend(indexes.map(|index| self.note_index(index, by)));
        all.join("; ")
    }

    /// Keeps what is to be done for an index after the exchange, as its comment.
    fn note_index(&self, index: &KeptIndex, by: &SigningKey) -> String {
        let items = left::written((&self.plan.schema, &index.name()), &index.after, by);
        let names = [&self.plan.schema, &index.name()];
        comment("INDEX %I.%I", &names, &items)
    }

    /// Returns such a comment of a constraint.
    fn note_constraint(&self, constraint: &KeptConstraint, by: &SigningKey) -> String {
        let items = left::written((&self.table(), &constraint.name), &constraint.after, by);
        let names = [&constraint.name, &self.plan.schema, &self.plan.table];
        comment("CONSTRAINT %I ON %I.%I", &names, &items)
    }
}

/// Makes an array of texts the comment of an object.
fn comment(object: &str, names: &[&String], items: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|it| literal(it)).collect();
    let items: Vec<String> = items.iter().map(|it| literal(it)).collect();
    let body = format!(
        "BEGIN EXECUTE pg_catalog.format('COMMENT ON {object} IS %L', {}, \
         ARRAY[{}]::pg_catalog.text[]::pg_catalog.text); END",
        names.join(", "),
        items.join(", ")
    );
    format!("DO {}", literal(&body))
}

/// Returns the statements that take everything back that an unfinished run has made; none
/// if there is no such run. Indexes go with the columns.
pub(crate) fn undo(facts: &Facts) -> Option<String> {
    let begun = facts.unfinished.as_ref()?;
    let schema = ident(&facts.schema);
    let table = format!("{schema}.{}", ident(&facts.table));
    let drops = begun.columns.iter();
    let drops = drops.map(|number| format!("DROP COLUMN {}", ident(&names::column(*number))));
    let drops: Vec<String> = drops.collect();
    Some(format!(
        "DROP TRIGGER {} ON {table}; DROP FUNCTION {schema}.{}(); DROP INDEX IF EXISTS \
         {schema}.{}; ALTER TABLE ONLY {table} {}",
        ident(names::TRIGGER),
        ident(&names::function(facts.oid)),
        ident(&names::dirty(facts.oid)),
        drops.join(", ")
    ))
}

/// Locks the table, whose schema is known.
pub(crate) fn lock(wanted: &Wanted) -> String {
    let schema = wanted.schema.iter().map(|it| ident(it) + ".");
    let schema: String = schema.collect();
    let table = ident(&wanted.table);
    format!("LOCK TABLE ONLY {schema}{table} IN ACCESS EXCLUSIVE MODE")
}

impl Plan {
    pub(crate) fn drop_index(&self, name: &str) -> String {
        let (schema, name) = (ident(&self.schema), ident(name));
        format!("DROP INDEX CONCURRENTLY {schema}.{name}")
    }

    /// Finishes an index: the final one, which is built, gets its name in place of the interim one.
    pub(crate) fn replace_index(&self, name: &str, finish: &[String]) -> String {
        let index = format!("{}.{}", ident(&self.schema), ident(name));
        let begin = match names::finished_of(name) {
            Some(_) => format!("DROP INDEX {index}"),
            None => format!("COMMENT ON INDEX {index} IS NULL"),
        };
        let all = [begin].into_iter().chain(finish.iter().cloned());
        all.collect::<Vec<_>>().join("; ")
    }
}

fn collation(column: &PlannedColumn) -> String {
    let collation = column.collation.as_ref();
    collation
        .map(|it| format!(" COLLATE {it}"))
        .unwrap_or_default()
}
