//! The columns and functions that are encrypted, as the rewriting of statements needs them.
//!
//! The owner's list decides. What the server says is added to it and never takes anything away: a
//! false server makes the engine seal or refuse more, not less.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pgseal_client::{
    encrypted_name, type_by_name, ColumnName, PlacedColumn, Statement, TableName, Type,
};

/// The cells that a column, or anything of its type, holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    /// The type of the values; none for `det_type` and `rnd_type`, which hold any.
    pub ty: Option<Type>,
    /// Whether each value is an array of cells.
    pub is_array: bool,
    /// Whether the column is of a composite or a range with cells in it, which are not followed.
    pub is_mixed: bool,
    /// The name of the data key that seals.
    pub keyname: Arc<str>,
}

impl Cells {
    /// Returns the cells of a type by the server's name, `enc_text` or `enc_text[]`; none for a
    /// plain type.
    pub fn by_type(name: &str, keyname: &Arc<str>) -> Option<Self> {
        let named = name.strip_prefix('_').unwrap_or(name);
        let element = named.trim_end_matches("[]");
        let is_any = matches!(element, "det_type" | "rnd_type");
        if !is_any && !element.starts_with("enc_") {
            return None;
        }
        let ty = type_by_name(element);
        (is_any || ty.is_some()).then(|| Self {
            ty,
            is_array: element.len() < name.len(), // `enc_text[]`, or `_enc_text`
            is_mixed: false,
            keyname: Arc::clone(keyname),
        })
    }

    /// Returns the cells of a column of a composite or a range.
    pub fn mixed(keyname: &Arc<str>) -> Self {
        Self {
            ty: None,
            is_array: false,
            is_mixed: true,
            keyname: Arc::clone(keyname),
        }
    }

    /// Returns the name of the type of one cell; none for cells of any type.
    pub(crate) fn type_name(&self) -> Option<&'static str> {
        self.ty.map(encrypted_name)
    }

    /// Returns the cells of one element of an array.
    pub(crate) fn element(&self) -> Self {
        Self {
            is_array: false,
            ..self.clone()
        }
    }

    /// Returns arrays of such cells.
    pub(crate) fn array(&self) -> Self {
        Self {
            is_array: true,
            ..self.clone()
        }
    }

    /// Returns cells of another type under the same key.
    pub(crate) fn of(&self, ty: Type) -> Self {
        Self {
            ty: Some(ty),
            is_array: false,
            is_mixed: false,
            keyname: Arc::clone(&self.keyname),
        }
    }
}

/// Whether a name is as those of encdb's types, of arrays of them and of their functions are.
fn is_own(name: &str) -> bool {
    let name = name.strip_prefix('_').unwrap_or(name);
    name.starts_with("enc_") || matches!(name, "det_type" | "rnd_type")
}

/// Names in small letters. Nearly every word of a statement is none of them, as its length says.
#[derive(Clone, Debug, Default)]
struct Names {
    all: HashSet<String>,
    /// The lengths of the names in bytes, each one bit; the last one is for those of 63 and more
    lengths: u64,
}

impl Names {
    fn insert(&mut self, name: &str) {
        let name = name.to_lowercase();
        self.lengths |= Self::length(&name);
        self.all.insert(name);
    }

    fn have(&self, name: &str) -> bool {
        self.lengths & Self::length(name) != 0 && self.all.contains(name)
    }

    fn length(name: &str) -> u64 {
        1 << name.len().min(63)
    }
}

/// A table with encrypted columns.
#[derive(Clone, Debug)]
struct Table {
    schema: String,
    columns: Columns,
    /// Those that the owner's list has: the server's word changes nothing of them.
    listed: Columns,
    /// All its columns in their order, by the server's word; none if not known
    order: Option<Vec<PlacedColumn>>,
    /// All its columns in their order, by the owner's list; none if not known
    placed: Option<Placed>,
}

/// The order of a table's columns, by which values without names of columns are sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placed {
    /// All its columns
    Known(Vec<PlacedColumn>),
    /// The server has other columns than the owner's list, or another order of them.
    Changed,
}

/// The encrypted columns of one table, by name.
pub(crate) type Columns = HashMap<String, Cells>;

/// A table that a statement defines, with its encrypted columns.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Its schema; empty: the one that the search path gives
    pub schema: String,
    /// Its name
    pub table: String,
    /// Its encrypted columns
    pub columns: HashMap<String, Cells>,
    /// How far the change reaches
    pub reach: Reach,
}

impl Definition {
    /// Returns a change that is not of one table.
    pub(crate) fn of_all(reach: Reach) -> Self {
        Self {
            schema: String::new(),
            table: String::new(),
            columns: HashMap::new(),
            reach,
        }
    }
}

/// The tables that a definition changes together with its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Nothing
    #[default]
    Itself,
    /// Its columns are those of the tables that inherit from it, too.
    Children,
    /// It inherits from the table of this name.
    Child(String),
    /// It is the table that had this name.
    Renamed(String),
    /// Nobody knows which table inherits from which.
    Inherited,
    /// A schema has another name.
    Schemas,
}

/// The columns, functions and types of one database that are encrypted.
#[derive(Clone, Debug)]
pub struct Catalog {
    tables: HashMap<String, Vec<Table>>,
    functions: HashMap<String, Vec<Vec<Option<Cells>>>>,
    types: HashMap<u32, Cells>,
    oids: HashMap<(Type, bool), u32>,
    mixed: HashSet<String>,
    /// The names of all tables, functions and of `mixed`, in small letters
    names: Names,
    default_key: Arc<str>,
    /// The number of definitions that statements have added
    definitions: u64,
    /// The schemas and names of the tables that inherit from those of a name
    children: HashMap<String, Vec<(String, String)>>,
    /// Whether statements have changed which tables inherit, in a way that is not known
    some_inherit: bool,
    /// Columns of tables that are not known: each table may have them.
    anywhere: Columns,
    /// Whether schemas have other names now
    ignores_schemas: bool,
}

impl Catalog {
    /// Makes an empty catalog. `default_key` seals where no column names another key.
    pub fn new(default_key: &str) -> Self {
        Self {
            tables: HashMap::new(),
            functions: HashMap::new(),
            types: HashMap::new(),
            oids: HashMap::new(),
            mixed: HashSet::new(),
            names: Names::default(),
            default_key: default_key.into(),
            definitions: 0,
            children: HashMap::new(),
            some_inherit: false,
            anywhere: Columns::new(),
            ignores_schemas: false,
        }
    }

    /// Returns the number of definitions that the driver's own statements have added.
    pub(crate) fn definitions(&self) -> u64 {
        self.definitions
    }

    /// Returns the name of the key that seals where no column names another one.
    pub fn default_key(&self) -> &Arc<str> {
        &self.default_key
    }

    /// Whether nothing is encrypted.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.functions.is_empty() && self.types.is_empty()
    }

    /// Adds a table that inherits from those of another name.
    pub fn add_child(&mut self, parent: &str, schema: &str, table: &str) {
        let child = (schema.to_owned(), table.to_owned());
        let children = self.children.entry(parent.to_owned()).or_default();
        if !children.contains(&child) {
            children.push(child);
        }
    }

    /// Whether some tables are known to inherit from others.
    pub(crate) fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// Returns the tables that inherit from those of this name, directly or not.
    fn descendants(&self, table: &str) -> Vec<(String, String)> {
        let mut found: Vec<(String, String)> = Vec::new();
        let mut names = vec![table.to_owned()];
        while let Some(name) = names.pop() {
            for child in self.children.get(&name).into_iter().flatten() {
                if !found.contains(child) {
                    names.push(child.1.clone());
                    found.push(child.clone());
                }
            }
        }
        found
    }

    /// Adds a column that the server calls encrypted.
    pub fn add_column(&mut self, name: &ColumnName, cells: Cells) {
        let table = self.table_mut(&name.schema, &name.table);
        table.columns.insert(name.column.clone(), cells);
    }

    /// Adds a column of the owner's list.
    pub fn add_listed(&mut self, name: &ColumnName, cells: Cells) {
        let table = self.table_mut(&name.schema, &name.table);
        table.listed.insert(name.column.clone(), cells);
    }

    /// Adds the order of a table's columns that the server shows. It decides what is opened, and
    /// never what is sealed.
    pub(crate) fn add_order(&mut self, table: &TableName, columns: Vec<PlacedColumn>) {
        self.table_mut(&table.schema, &table.table).order = Some(columns);
    }

    /// Adds the order of a table's columns by which values are sealed.
    pub fn add_placed(&mut self, table: &TableName, placed: Placed) {
        self.table_mut(&table.schema, &table.table).placed = Some(placed);
    }

    /// Returns a table's columns in their order by the server's word, if one table alone can be
    /// meant.
    pub(crate) fn order(&self, schema: &str, table: &str) -> Option<&[PlacedColumn]> {
        self.only(schema, table)?.order.as_deref()
    }

    /// Returns a table's columns in their order by the owner's list, if one table alone can be
    /// meant.
    pub(crate) fn placed(&self, schema: &str, table: &str) -> Option<&Placed> {
        self.only(schema, table)?.placed.as_ref()
    }

    /// Returns the only table that can be meant.
    fn only(&self, schema: &str, table: &str) -> Option<&Table> {
        let found = self.tables.get(table)?.iter();
        let mut found = found.filter(|known| schema.is_empty() || known.schema == schema);
        let only = found.next().filter(|_| found.next().is_none());
        only.filter(|_| !self.ignores_schemas)
    }

    /// Adds what a statement defines.
    pub(crate) fn define(&mut self, definition: Definition) {
        match &definition.reach {
            Reach::Inherited => {
                self.some_inherit = true;
                return;
            }
            Reach::Child(parent) => {
                self.add_child(parent, &definition.schema, &definition.table);
            }
            Reach::Renamed(old) => self.rename(old, &definition),
            Reach::Children => {
                for (schema, table) in self.descendants(&definition.table) {
                    self.add_columns(&schema, &table, definition.columns.clone());
                }
                if self.some_inherit {
                    self.anywhere.extend(definition.columns.clone());
                }
            }
            Reach::Schemas => self.ignores_schemas = true,
            Reach::Itself => {}
        }
        self.definitions += 1;
        if !definition.columns.is_empty() {
            self.add_columns(&definition.schema, &definition.table, definition.columns);
        }
    }

    /// Returns the names of all encrypted columns.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        let tables = self.tables.values().flatten();
        let known = tables.flat_map(|table| table.columns.keys().chain(table.listed.keys()));
        known.chain(self.anywhere.keys()).map(String::as_str)
    }

    fn add_columns(&mut self, schema: &str, table: &str, columns: Columns) {
        let table = self.table_mut(schema, table);
        table.columns.extend(columns);
        (table.order, table.placed) = (None, None);
    }

    /// Notes that a table has another name, as a parent and as a child.
    fn rename(&mut self, old: &str, new: &Definition) {
        let children = self.children.get(old).cloned().unwrap_or_default();
        let is_child = |of: &Vec<(String, String)>| of.iter().any(|(_, table)| table == old);
        let parents = self.children.iter().filter(|(_, of)| is_child(of));
        let parents: Vec<String> = parents.map(|(parent, _)| parent.clone()).collect();
        for (schema, table) in children {
            self.add_child(&new.table, &schema, &table);
        }
        for parent in parents {
            self.add_child(&parent, &new.schema, &new.table);
        }
    }

    fn table_mut(&mut self, schema: &str, table: &str) -> &mut Table {
        self.names.insert(table);
        let tables = self.tables.entry(table.to_owned()).or_default();
        let at = tables.iter().position(|known| known.schema == schema);
        let at = at.unwrap_or_else(|| {
            tables.push(Table {
                schema: schema.to_owned(),
                columns: Columns::new(),
                listed: Columns::new(),
                order: None,
                placed: None,
            });
            tables.len() - 1
        });
        &mut tables[at]
    }

    /// Adds a function of which some arguments are encrypted; the others are `None`.
    pub fn add_function(&mut self, name: &str, arguments: Vec<Option<Cells>>) {
        self.names.insert(name);
        let known = self.functions.entry(name.to_owned()).or_default();
        if !known.contains(&arguments) {
            known.push(arguments);
        }
    }

    /// Adds one of encdb's own types, or an array of one, by the server's OID.
    pub fn add_own_type(&mut self, oid: u32, cells: Cells) {
        if let Some(ty) = cells.ty {
            self.oids.insert((ty, cells.is_array), oid);
        }
        self.add_type(oid, cells);
    }

    /// Adds a type by the server's OID. Results of this type are opened.
    pub fn add_type(&mut self, oid: u32, cells: Cells) {
        self.types.insert(oid, cells);
    }

    /// Returns the cells that a type of this OID holds; none for a plain type.
    pub(crate) fn type_of(&self, oid: u32) -> Option<&Cells> {
        self.types.get(&oid)
    }

    /// Returns the OIDs of all types that hold cells.
    pub(crate) fn type_oids(&self) -> impl Iterator<Item = u32> + '_ {
        self.types.keys().copied()
    }

    /// Returns the OID of encdb's type of these cells; 0 if it is not known.
    pub(crate) fn oid_of(&self, cells: &Cells) -> u32 {
        let known = cells.ty.and_then(|ty| self.oids.get(&(ty, cells.is_array)));
        known.copied().unwrap_or_default()
    }

    /// Returns the encrypted columns of a table. Without a schema, the tables of this name in all
    /// schemas are one: which of them the server finds is the server's word. A table that was
    /// defined without a schema is one of any.
    pub(crate) fn table(&self, schema: &str, table: &str) -> Option<Columns> {
        let found = self.tables.get(table).map_or(&[][..], Vec::as_slice);
        let any = schema.is_empty() || self.ignores_schemas;
        let is_it = |known: &&Table| any || known.schema.is_empty() || known.schema == schema;
        let mut all: Vec<&Table> = found.iter().filter(is_it).collect();
        if all.is_empty() {
            // The schema may be a new name of one that is known.
            all = found.iter().collect();
        }
        let shown = all.iter().flat_map(|table| &table.columns);
        let listed = all.iter().flat_map(|table| &table.listed);
        let columns = self.anywhere.iter().chain(shown).chain(listed);
        let columns: Columns = columns
            .map(|(name, cells)| (name.clone(), cells.clone()))
            .collect();
        (!columns.is_empty()).then_some(columns)
    }

    /// Returns what the arguments of the functions of this name are.
    pub(crate) fn function(&self, name: &str) -> &[Vec<Option<Cells>>] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }

    /// Adds the name of a type or function that has something encrypted in it: a domain, a
    /// composite, a range, or a function that gives cells.
    pub fn add_mixed(&mut self, name: &str) {
        self.names.insert(name);
        self.mixed.insert(name.to_owned());
    }

    /// Whether something of this name has cells in it, which are not followed.
    pub(crate) fn is_mixed(&self, name: &str) -> bool {
        let element = name.strip_prefix('_').unwrap_or(name);
        self.mixed.contains(element) || self.tables.contains_key(element)
    }

    /// Whether this is the name of a type or function with cells in it, encdb's or another.
    pub(crate) fn is_encrypted_name(&self, name: &str) -> bool {
        is_own(name) || self.is_mixed(name)
    }

    /// Whether a statement has a name that is encrypted: a table, a function or a type. One that
    /// has none is none of the engine's business.
    pub fn concerns(&self, statement: &Statement<'_>) -> bool {
        !self.anywhere.is_empty()
            || statement.may_have_name(|name| self.may_name(name))
                && self.certainly_concerns(statement)
    }

    /// Whether a name in small letters may be one that is encrypted: every name is, as long as
    /// columns of unknown tables are.
    pub(crate) fn may_name(&self, name: &str) -> bool {
        !self.anywhere.is_empty() || is_own(name) || self.names.have(name)
    }

    fn certainly_concerns(&self, statement: &Statement<'_>) -> bool {
        statement.encrypted_type().is_some()
            || self.tables.keys().any(|name| statement.names(name))
            || self.functions.keys().any(|name| statement.names(name))
            || self.mixed.iter().any(|name| statement.names(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known_by_the_servers_names() {
        let key = Arc::from("k");
        let by = |name: &str| Cells::by_type(name, &key);
        let text = by("enc_text").expect("a type of encdb");
        assert_eq!((text.ty, text.is_array), (Some(Type::Text), false));
        let texts = by("enc_text[]").expect("an array of it");
        assert_eq!(texts, text.array());
        assert_eq!(texts.element(), text);
        assert_eq!(by("rnd_type").map(|cells| cells.ty), Some(None));
        for plain in ["text", "int4", "enc_nothing", "text[]", ""] {
            assert_eq!(by(plain), None, "{plain}");
        }
    }

    #[test]
    fn a_table_without_its_schema_is_every_table_of_its_name() {
        let mut catalog = Catalog::new("k");
        let cells = |ty: &str| Cells::by_type(ty, &Arc::from("k")).expect("a type of encdb");
        for (name, ty) in [("a.t.c", "enc_text"), ("b.t.d", "enc_int4")] {
            catalog.add_column(&name.parse().expect("a name"), cells(ty));
        }
        assert_eq!(catalog.table("", "t").map(|found| found.len()), Some(2));
        assert_eq!(catalog.table("b", "t").map(|found| found.len()), Some(1));
        assert_eq!(catalog.table("c", "t").map(|found| found.len()), Some(2));
        for (sql, concerns) in [
            ("SELECT * FROM t", true),
            ("SELECT * FROM \"t\"", true),
            ("SELECT 't' FROM u", false),
            ("SELECT NULL::enc_int4", true),
        ] {
            assert_eq!(catalog.concerns(&Statement::new(sql)), concerns, "{sql}");
        }
    }
}
