//! The plan: which columns become what, or everything that blocks it.

use pgseal_value::{limited, Limit};
use tokio_postgres::types::Type as PgType;

use super::constant::{constant, Constant};
use super::{ColumnFacts, Facts, ForeignKey, IndexFacts, Object, ObjectKind, Obstacle, Wanted};
use crate::column::plain_type;
use crate::list::quoted;
use crate::{encrypted_name, ColumnName, ListedColumn, OwnersList, Type, Value};

/// The access methods that have a default operator class for each encrypted type.
const METHODS: [&str; 2] = ["btree", "hash"];

/// The change of a table.
pub struct Plan {
    /// The table's OID
    pub oid: u32,
    /// The schema of the extension's types
    pub types: String,
    /// The table's schema
    pub schema: String,
    /// The table's name
    pub table: String,
    /// The columns that become encrypted; none if all are already
    pub columns: Vec<PlannedColumn>,
    /// The columns that the server and the owner's list have as encrypted already
    pub done: Vec<String>,
    /// The indexes that are built anew, in the owner's session
    pub indexes: Vec<String>,
    /// Sentences for the operator, one for each fact
    pub notes: Vec<String>,
    /// The planner's guess of the number of rows; negative if there is none
    pub rows: i64,
    /// The size of the table without its indexes, in bytes
    pub bytes: u64,
    /// The data key that seals
    pub keyname: String,
}

/// A column that becomes encrypted.
pub struct PlannedColumn {
    /// Its name
    pub name: String,
    /// `pg_attribute.attnum`
    pub number: i16,
    /// The type that it has, as SQL writes it
    pub plain: String,
    /// The type of its values
    pub ty: Type,
    /// The type that the server casts values to, if the client does not read its own
    pub(crate) cast: Option<&'static str>,
    /// The limit that it keeps: `(200)`, `(12,2)`; empty without one
    pub limit: String,
    /// The collation that it keeps, in quotes
    pub collation: Option<String>,
    /// Whether it has a default now
    pub has_default: bool,
    /// The default that it gets, to be sealed
    pub default: Option<Value>,
}

impl PlannedColumn {
    /// Returns the name of the type that it gets.
    pub fn encrypted(&self) -> &'static str {
        encrypted_name(self.ty)
    }
}

impl Plan {
    /// Makes the plan, or returns each obstacle. `list` is what the identity keeps of the
    /// database.
    pub fn new(facts: &Facts, wanted: &Wanted, list: &OwnersList) -> Result<Self, Vec<Obstacle>> {
        let mut obstacles = of_table(facts, wanted);
        let (mut columns, mut done) = (Vec::new(), Vec::new());
        for column in &facts.columns {
            if column.encrypted.is_some() {
                match is_listed(facts, column, list) {
                    true => done.push(column.name.clone()),
                    false => obstacles.push(Obstacle::Encrypted(full_name(facts, column))),
                }
                continue;
            }
            match planned(facts, column, wanted) {
                Ok(column) => columns.push(column),
                Err(found) => obstacles.extend(found),
            }
        }
        let is_plain = |name: &String| !done.contains(name);
        if facts.columns.iter().any(|column| is_plain(&column.name)) {
            obstacles.extend(of_dependents(facts, &done));
        }
        if !obstacles.is_empty() {
            return Err(obstacles);
        }
        Ok(Self {
            oid: facts.oid,
            types: facts.types.clone(),
            schema: facts.schema.clone(),
            table: facts.table.clone(),
            indexes: facts.indexes.iter().map(|it| it.name.clone()).collect(),
            notes: notes(facts, &columns),
            columns,
            done,
            rows: facts.rows,
            bytes: facts.bytes,
            keyname: wanted.keyname.clone(),
        })
    }

    /// Returns the entries of the owner's list for the columns that become encrypted.
    pub fn entries(&self) -> Vec<(ColumnName, ListedColumn)> {
        let entry = |column: &PlannedColumn| {
            let name = ColumnName {
                schema: self.schema.clone(),
                table: self.table.clone(),
                column: column.name.clone(),
            };
            let listed = ListedColumn {
                ty: column.encrypted().to_owned(),
                keyname: self.keyname.clone(),
            };
            (name, listed)
        };
        self.columns.iter().map(entry).collect()
    }

    /// Returns the table's name, in quotes where SQL needs them.
    pub fn name(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.table))
    }
}

fn table_name(facts: &Facts) -> String {
    format!("{}.{}", quoted(&facts.schema), quoted(&facts.table))
}

fn full_name(facts: &Facts, column: &ColumnFacts) -> String {
    format!("{}.{}", table_name(facts), quoted(&column.name))
}

/// Whether the owner's list has the column with the type that the server shows.
fn is_listed(facts: &Facts, column: &ColumnFacts, list: &OwnersList) -> bool {
    let name = ColumnName {
        schema: facts.schema.clone(),
        table: facts.table.clone(),
        column: column.name.clone(),
    };
    let listed = list.column(&name).map(|listed| listed.ty.as_str());
    listed.is_some() && listed == column.encrypted.as_deref()
}

fn of_table(facts: &Facts, wanted: &Wanted) -> Vec<Obstacle> {
    let table = table_name(facts);
    let mut found = Vec::new();
    match (facts.kind, facts.persistence) {
        ('r', 't') => found.push(Obstacle::Temporary(table.clone())),
        ('r' | 'p', _) => {}
        _ => return vec![Obstacle::NoTable(table)],
    }
    if facts.schema.starts_with("pg_") || matches!(&*facts.schema, "information_schema" | "encdb") {
        return vec![Obstacle::System(table)];
    }
    if !facts.is_owned {
        found.push(Obstacle::NotOwned(table.clone()));
    }
    if facts.is_related || facts.kind == 'p' {
        found.push(Obstacle::Related(table.clone()));
    }
    if facts.is_typed {
        found.push(Obstacle::Typed(table.clone()));
    }
    for name in &wanted.columns {
        if !facts.columns.iter().any(|column| column.name == *name) {
            let (table, column) = (table.clone(), quoted(name));
            found.push(Obstacle::NoColumn { table, column });
        }
    }
    found
}

fn planned(
    facts: &Facts,
    column: &ColumnFacts,
    wanted: &Wanted,
) -> Result<PlannedColumn, Vec<Obstacle>> {
    let Some((ty, cast)) = cell_type(column, wanted.drops_limits) else {
        return Err(vec![no_type(column)]);
    };
    let mut found = of_column(facts, column, wanted.drops_limits);
    // What generates a column is no default, though the catalog keeps it as one.
    let kept = column.default.as_ref().filter(|_| !column.is_generated);
    let default = kept.and_then(|expression| {
        // The server writes a default of smallint as an integer, too.
        let names = [column.bare_type.as_str(), "integer"];
        let names = &names[..if column.ty == PgType::INT2.oid() {
            2
        } else {
            1
        }];
        let mut constants = names.iter().map(|name| constant(ty, name, expression));
        let constant = constants.find_map(|it| within_limit(column, it?));
        if constant.is_none() {
            found.push(Obstacle::Default {
                table: table_name(facts),
                column: quoted(&column.name),
                expression: expression.clone(),
            });
        }
        constant
    });
    match found.is_empty() {
        true => Ok(PlannedColumn {
            name: column.name.clone(),
            number: column.number,
            plain: column.type_name.clone(),
            ty,
            cast,
            limit: kept_limit(column, wanted.drops_limits)
                .unwrap_or_default()
                .to_owned(),
            collation: column.collation.clone(),
            has_default: kept.is_some(),
            default: default.and_then(Constant::value),
        }),
        false => Err(found),
    }
}

/// Returns what is in the way of a column whose type has an encrypted one, apart from its default.
fn of_column(facts: &Facts, column: &ColumnFacts, drops_limits: bool) -> Vec<Obstacle> {
    let (table, name) = (table_name(facts), quoted(&column.name));
    let mut found = Vec::new();
    if has_limit(column) && kept_limit(column, drops_limits).is_none() && !drops_limits {
        found.push(Obstacle::Limit {
            table: table.clone(),
            column: name.clone(),
            ty: column.type_name.clone(),
            bare: unlimited(column),
        });
    }
    if column.is_icu {
        found.push(Obstacle::Icu(format!("column {name}")));
    }
    if column.is_identity {
        let (table, column) = (table.clone(), name.clone());
        found.push(Obstacle::Identity { table, column });
    }
    if column.is_generated {
        let column = name;
        found.push(Obstacle::Generated { table, column });
    }
    found
}

/// Returns the cell type of a column, and the type that the server casts its values to; none for
/// types that lose something. Without limits `character(9)` may lose its blanks, which count for
/// nothing when such values are compared.
fn cell_type(column: &ColumnFacts, drops_limits: bool) -> Option<(Type, Option<&'static str>)> {
    let ty = PgType::from_oid(column.ty)?;
    match ty {
        PgType::INT2 if drops_limits => return Some((Type::Int4, Some("pg_catalog.int4"))),
        PgType::BPCHAR if drops_limits => return Some((Type::Text, Some("pg_catalog.text"))),
        _ => {}
    }
    let loses = [PgType::BPCHAR, PgType::NAME, PgType::UNKNOWN].contains(&ty);
    let ty = plain_type(&ty).filter(|_| !loses)?;
    Some((ty, None))
}

/// Whether a column's type has a limit. The digits of `timestamp(6)` are all that there are.
fn has_limit(column: &ColumnFacts) -> bool {
    column.type_name != column.bare_type && !column.type_name.starts_with("timestamp(6)")
}

/// Returns the limit of a column if the encrypted type can have it, in parentheses.
fn kept_limit(column: &ColumnFacts, drops_limits: bool) -> Option<&str> {
    let has_it = matches!(&*column.bare_type, "character varying" | "numeric") && !drops_limits;
    let limit = column.type_name.strip_prefix(column.bare_type.as_str());
    limit.filter(|limit| has_it && limit.starts_with('('))
}

/// Returns a default as a column of this type holds it: the server does not write that it applies
/// the limit to a default. None if the limit is not known here.
fn within_limit(column: &ColumnFacts, default: Constant) -> Option<Constant> {
    let digits = column.type_name.strip_prefix("numeric(");
    match (default, digits.and_then(|it| it.strip_suffix(')'))) {
        (Constant::Value(value), Some(digits)) => {
            let (precision, scale) = digits.split_once(',')?;
            let (precision, scale) = (precision.parse().ok()?, scale.parse().ok()?);
            let kept = limited(Limit::Digits { precision, scale }, &value).ok()?;
            Some(Constant::Value(kept.unwrap_or(value)))
        }
        (default, _) => {
            let is_known = !has_limit(column) || column.bare_type == "character varying";
            is_known.then_some(default)
        }
    }
}

fn unlimited(column: &ColumnFacts) -> String {
    match column.bare_type.as_str() {
        "character varying" => "text".to_owned(),
        bare => bare.to_owned(),
    }
}

fn no_type(column: &ColumnFacts) -> Obstacle {
    let name = quoted(&column.name);
    let wider = match column.bare_type.as_str() {
        "smallint" => Some("integer"),
        "character" | "name" | "\"char\"" | "bpchar" => Some("text"),
        "time without time zone" | "json" | "jsonb" | "inet" | "cidr" | "xml" => Some("text"),
        _ => None,
    };
    let advice = match wider {
        Some(wider) if matches!(column.bare_type.as_str(), "smallint" | "character") => format!(
            "run ALTER TABLE ... ALTER COLUMN {name} TYPE {wider} first, or this with --drop-limits"
        ),
        Some(wider) => format!("run ALTER TABLE ... ALTER COLUMN {name} TYPE {wider} first"),
        None => "convert it to one of the types that docs/encdb-values.md lists first".to_owned(),
    };
    Obstacle::Type {
        column: name,
        ty: column.type_name.clone(),
        advice,
    }
}

fn of_dependents(facts: &Facts, done: &[String]) -> Vec<Obstacle> {
    let indexes = facts.indexes.iter().filter_map(of_index);
    let keys = facts.foreign_keys.iter();
    let keys = keys.filter_map(|key| of_foreign_key(facts, key));
    let objects = facts.objects.iter();
    let objects = objects.filter(|object| !done.contains(&object.column));
    let objects = objects.map(|object| of_object(facts, object));
    let mut found: Vec<Obstacle> = indexes.chain(keys).chain(objects).collect();
    for trigger in &facts.triggers {
        let named = |column: &&ColumnFacts| mentions(&trigger.body, &column.name);
        if let Some(column) = facts.columns.iter().find(named) {
            found.push(Obstacle::Trigger {
                trigger: quoted(&trigger.name),
                column: quoted(&column.name),
            });
        }
    }
    found.dedup();
    found
}

fn of_index(index: &IndexFacts) -> Option<Obstacle> {
    let name = quoted(&index.name);
    if index.is_exclusion {
        return Some(Obstacle::Exclusion(name));
    }
    if index.has_expression {
        return Some(Obstacle::IndexExpression(name));
    }
    if index.has_predicate {
        return Some(Obstacle::Predicate(name));
    }
    if !METHODS.contains(&index.method.as_str()) {
        let method = index.method.clone();
        return Some(Obstacle::Method {
            index: name,
            method,
        });
    }
    if let Some(class) = index.class.clone() {
        return Some(Obstacle::Class { index: name, class });
    }
    index.is_icu.then(|| Obstacle::Icu(format!("index {name}")))
}

/// A foreign key within the table is kept if each of its columns is encrypted together with the
/// one that it refers to.
fn of_foreign_key(facts: &Facts, key: &ForeignKey) -> Option<Obstacle> {
    let is_wanted = |number: &i16| facts.columns.iter().any(|column| column.number == *number);
    let mut pairs = key.from.iter().zip(&key.to);
    let stays = key.is_own && pairs.all(|(from, to)| is_wanted(from) == is_wanted(to));
    (!stays).then(|| Obstacle::ForeignKey {
        name: quoted(&key.name),
        table: key.table.clone(),
    })
}

fn of_object(facts: &Facts, object: &Object) -> Obstacle {
    let (name, column) = (object.name.clone(), quoted(&object.column));
    match object.kind {
        ObjectKind::Check => Obstacle::Check { name, column },
        ObjectKind::WholeRow => Obstacle::WholeRow(name),
        ObjectKind::Sequence => Obstacle::Sequence { name, column },
        ObjectKind::RowType => Obstacle::RowType {
            name,
            table: table_name(facts),
        },
        _ => Obstacle::Dependent { name, column },
    }
}

/// Whether a text has this name as a word. Case is not looked at: SQL folds it.
fn mentions(body: &str, name: &str) -> bool {
    let (body, name) = (body.to_lowercase(), name.to_lowercase());
    let is_letter = |c: char| c == '_' || c.is_alphanumeric();
    body.match_indices(&name).any(|(at, found)| {
        let before = body[..at].chars().next_back().is_some_and(is_letter);
        let after = body[at + found.len()..]
            .chars()
            .next()
            .is_some_and(is_letter);
        !before && !after
    })
}

fn notes(facts: &Facts, columns: &[PlannedColumn]) -> Vec<String> {
    let mut notes = Vec::new();
    for trigger in &facts.triggers {
        notes.push(format!(
            "trigger {} stays; its function sees encrypted values of the columns",
            quoted(&trigger.name)
        ));
    }
    for publication in &facts.publications {
        notes.push(format!(
            "publication {} sends encrypted values from then on: change the columns' types on its \
             subscribers first",
            quoted(publication)
        ));
    }
    let limited = columns.iter();
    let loses = |column: &&PlannedColumn| {
        let is_limited = column.plain.contains('(') || column.plain.starts_with("interval ");
        let has_limit = is_limited && !column.plain.starts_with("timestamp(6)");
        column.cast.is_some() || has_limit && column.limit.is_empty()
    };
    for column in limited.filter(loses) {
        notes.push(format!(
            "column {} loses the limit of {}: check it in the application",
            quoted(&column.name),
            column.plain
        ));
    }
    for column in columns.iter().filter(|column| !column.limit.is_empty()) {
        notes.push(format!(
            "column {} keeps the limit of {}: sessions that change it need the grant limit",
            quoted(&column.name),
            column.plain
        ));
    }
    for column in columns.iter().filter(|column| column.default.is_some()) {
        notes.push(format!(
            "rows that take the default of column {} can be seen to have the same value",
            quoted(&column.name)
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
