//! The names that an expression can use, and what is known of their values.

use std::collections::HashMap;

use pg_query::protobuf::{Node, RangeVar};
use pg_query::NodeEnum;

use crate::catalog::{Catalog, Cells, Columns};

/// The knowledge of an expression's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Cells of a known type
    Cell(Cells),
    /// A literal or a parameter itself, which takes the type of what it meets
    Open,
    /// A plain value that is computed from a literal or a parameter: it must meet no cells
    Derived,
    /// Nothing encrypted, and nothing open
    Plain,
    /// Something that is made of cells, or may be, of a type that is not known
    Unknown,
}

impl Kind {
    /// Returns the kind that decides when values of several kinds meet.
    pub(crate) fn common(kinds: impl IntoIterator<Item = Self>) -> Self {
        let rank = |kind: &Self| match kind {
            Self::Cell(_) => 4,
            Self::Unknown => 3,
            Self::Derived => 2,
            Self::Open => 1,
            Self::Plain => 0,
        };
        kinds.into_iter().max_by_key(rank).unwrap_or(Self::Plain)
    }

    /// Returns the kind of a value that is computed from values of these kinds, in a way that is
    /// not known.
    pub(crate) fn computed(kinds: impl IntoIterator<Item = Self>) -> Self {
        match Self::common(kinds) {
            Self::Cell(_) | Self::Unknown => Self::Unknown,
            Self::Derived | Self::Open => Self::Derived,
            Self::Plain => Self::Plain,
        }
    }

    /// Returns the kind of a column that has this value: behind a name a literal cannot be sealed.
    fn of_column(self) -> Self {
        match self {
            Self::Open => Self::Derived,
            kind => kind,
        }
    }
}

/// The columns that a query gives.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// The columns in their order, each with its name; behind a `*` there may be more between.
    pub(crate) columns: Vec<(String, Kind)>,
    /// Whether `*` gives columns whose number and names only the server knows.
    pub(crate) has_star: bool,
    /// The kind of columns that are not named.
    pub(crate) rest: Kind,
}

impl Default for Output {
    fn default() -> Self {
        Self {
            columns: Vec::new(),
            has_star: false,
            rest: Kind::Plain,
        }
    }
}

impl Output {
    /// Returns the kind of each column by its place; none if that is not known.
    pub(crate) fn kinds(&self) -> Option<Vec<Kind>> {
        let kinds = self.columns.iter().map(|(_, kind)| kind.clone());
        (!self.has_star).then(|| kinds.collect())
    }

    /// Returns the kind that all columns have in common.
    pub(crate) fn common(&self) -> Kind {
        let kinds = self.columns.iter().map(|(_, kind)| kind.clone());
        Kind::common(kinds.chain([self.rest.clone()]))
    }

    /// Returns the columns under the names that a list gives them.
    pub(crate) fn renamed(mut self, names: &[Node]) -> Self {
        if names.is_empty() {
            return self;
        }
        if self.has_star {
            return Self {
                rest: Kind::computed([self.common()]),
                ..Self::default()
            };
        }
        for ((known, _), name) in self.columns.iter_mut().zip(names) {
            name_of(name).unwrap_or_default().clone_into(known);
        }
        self
    }

    /// Returns the source that these columns are, under the names of an alias.
    pub(crate) fn source(self, names: &[Node]) -> Source {
        let output = self.renamed(names);
        let columns = output.columns.into_iter();
        Source {
            columns: columns
                .map(|(name, kind)| (name, kind.of_column()))
                .collect(),
            rest: output.rest.of_column(),
        }
    }
}

/// A table, a subquery or a function of `FROM`.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The columns that are not plain, by name.
    pub(crate) columns: HashMap<String, Kind>,
    /// The kind of all others.
    pub(crate) rest: Kind,
}

impl Source {
    /// Returns a source all of whose columns are of this kind.
    pub(crate) fn of_any(rest: Kind) -> Self {
        Self {
            columns: HashMap::new(),
            rest,
        }
    }

    /// Returns the source that a table is.
    pub(crate) fn of_table(columns: &Columns) -> Self {
        let kind = |(name, cells): (&String, &Cells)| match cells.is_mixed {
            true => (name.clone(), Kind::Unknown),
            false => (name.clone(), Kind::Cell(cells.clone())),
        };
        Self {
            columns: columns.iter().map(kind).collect(),
            rest: Kind::Plain,
        }
    }

    fn column(&self, name: &str) -> Option<Kind> {
        self.columns.get(name).cloned()
    }

    /// Returns the kind of a column of this name, if there is one.
    fn kind(&self, name: &str) -> Kind {
        self.column(name).unwrap_or_else(|| self.rest.clone())
    }

    /// Returns the kind of the row as a whole.
    fn row(&self) -> Kind {
        Kind::computed(self.columns.values().cloned().chain([self.rest.clone()]))
    }
}

/// The tables of one query, within the query that holds it.
#[derive(Debug)]
pub(crate) struct Scope<'p> {
    catalog: &'p Catalog,
    outer: Option<&'p Scope<'p>>,
    sources: Vec<(String, Source)>,
    queries: HashMap<String, Output>,
}

impl<'p> Scope<'p> {
    /// Returns the scope of a whole statement.
    pub(crate) fn new(catalog: &'p Catalog) -> Self {
        Self {
            catalog,
            outer: None,
            sources: Vec::new(),
            queries: HashMap::new(),
        }
    }

    /// Returns a scope within this one.
    pub(crate) fn inner(&'p self) -> Self {
        Scope {
            outer: Some(self),
            ..Self::new(self.catalog)
        }
    }

    /// Returns the catalog behind all names.
    pub(crate) fn catalog(&self) -> &'p Catalog {
        self.catalog
    }

    /// Adds the table that a statement changes, which is never a query of `WITH`. Returns its
    /// encrypted columns.
    pub(crate) fn add_target(&mut self, relation: &RangeVar) -> Columns {
        let columns = self.target(relation);
        self.add(name_in_statement(relation), Source::of_table(&columns));
        columns
    }

    /// Returns the encrypted columns of a table.
    pub(crate) fn target(&self, relation: &RangeVar) -> Columns {
        let known = self.catalog.table(&relation.schemaname, &relation.relname);
        known.unwrap_or_default()
    }

    /// Adds a table of `FROM`, or a query of `WITH`.
    pub(crate) fn add_relation(&mut self, relation: &RangeVar) {
        let names = relation
            .alias
            .as_ref()
            .map_or(&[][..], |alias| &alias.colnames);
        let query = relation
            .schemaname
            .is_empty()
            .then(|| self.query(&relation.relname));
        let source = match query.flatten() {
            Some(output) => output.clone().source(names),
            None => {
                let columns = self.target(relation);
                match names.is_empty() || columns.is_empty() {
                    true => Source::of_table(&columns),
                    // Only the server knows the order of a table's columns.
                    false => Source::of_any(Kind::Unknown),
                }
            }
        };
        self.add(name_in_statement(relation), source);
    }

    /// Adds a source under this name.
    pub(crate) fn add(&mut self, name: &str, source: Source) {
        self.sources.push((name.to_owned(), source));
    }

    /// Adds a query of `WITH`.
    pub(crate) fn add_query(&mut self, name: &str, output: Output) {
        self.queries.insert(name.to_owned(), output);
    }

    fn query(&self, name: &str) -> Option<&Output> {
        let outer = || self.outer.and_then(|outer| outer.query(name));
        self.queries.get(name).or_else(outer)
    }

    /// Returns all columns of the sources here, or of those of this name, and the kind of those
    /// that are not named.
    pub(crate) fn all(&self, table: Option<&str>) -> Output {
        let is_it = |name: &str| table.is_none_or(|table| table == name);
        let mut output = Output {
            has_star: true,
            ..Output::default()
        };
        if table == Some("*") {
            output.rest = Kind::Unknown;
            return output;
        }
        let sources = self.sources.iter();
        let mut found = sources.filter(|(name, _)| is_it(name)).peekable();
        if let (Some(table), Some(outer), None) = (table, self.outer, found.peek()) {
            return outer.all(Some(table));
        }
        for (_, source) in found {
            let columns = source.columns.iter();
            let columns = columns.map(|(name, kind)| (name.clone(), kind.clone()));
            output.columns.extend(columns);
            output.rest = Kind::common([output.rest, source.rest.clone()]);
        }
        output
    }

    /// Returns what a column reference gives. A bare name is looked for here, then outside.
    pub(crate) fn column(&self, fields: &[Node]) -> Kind {
        let names: Vec<&str> = fields.iter().filter_map(name_of).collect();
        match (names.as_slice(), fields.len() - names.len()) {
            ([column], 0) => self.bare(column),
            ([.., table, column], 0) => self.qualified(table, column),
            // `t.*` as a value, and a bare star
            ([.., table], 1) => Kind::computed([self.all(Some(table)).common()]),
            _ => Kind::computed([self.all(None).common()]),
        }
    }

    /// Whether a join by columns of this name, or by all of one name, has cells on one side and a
    /// value that is derived from a literal, or not known, on another.
    pub(crate) fn mixes(&self, column: Option<&str>) -> bool {
        let names = self
            .sources
            .iter()
            .flat_map(|(_, source)| source.columns.keys());
        let mut names = names.filter(|name| column.is_none_or(|column| column == *name));
        names.any(|name| {
            let of = |(_, source): &(String, Source)| source.kind(name);
            let kinds: Vec<Kind> = self.sources.iter().map(of).collect();
            let is_cell = |kind: &Kind| matches!(kind, Kind::Cell(_) | Kind::Unknown);
            let is_open = |kind: &Kind| matches!(kind, Kind::Derived | Kind::Unknown);
            kinds.iter().any(is_cell) && kinds.iter().any(is_open)
        })
    }

    fn bare(&self, column: &str) -> Kind {
        let named = self
            .sources
            .iter()
            .filter_map(|(_, source)| source.column(column));
        let rows = self.sources.iter().filter(|(name, _)| name == column);
        let rows = rows.map(|(_, source)| source.row());
        let here = Kind::common(named.chain(rows));
        let rest = Kind::common(self.sources.iter().map(|(_, source)| source.rest.clone()));
        let outer = self.outer.map_or(Kind::Plain, |outer| outer.bare(column));
        Kind::common([here, rest, outer])
    }

    fn knows(&self, table: &str) -> bool {
        let here = self.sources.iter().any(|(name, _)| name == table);
        here || self.outer.is_some_and(|outer| outer.knows(table))
    }

    fn qualified(&self, table: &str, column: &str) -> Kind {
        let here = self.sources.iter().filter(|(name, _)| name == table);
        let kinds: Vec<Kind> = here.map(|(_, source)| source.kind(column)).collect();
        // `t.f` may be a function of the row.
        let function = match self.catalog.is_mixed(column) {
            true => Kind::Unknown,
            false => Kind::Plain,
        };
        match (kinds.is_empty(), self.outer) {
            (true, None) => Kind::Unknown,
            (true, Some(outer)) => outer.qualified(table, column),
            (false, outer) => {
                let outer = outer.filter(|outer| outer.knows(table));
                let outer = outer.map(|outer| outer.qualified(table, column));
                Kind::common(kinds.into_iter().chain(outer).chain([function]))
            }
        }
    }
}

/// Returns the name by which a statement calls a table.
fn name_in_statement(relation: &RangeVar) -> &str {
    let alias = relation.alias.as_ref().map(|alias| &alias.aliasname);
    alias.unwrap_or(&relation.relname)
}

/// Returns the name that a node is.
pub(crate) fn name_of(node: &Node) -> Option<&str> {
    match &node.node {
        Some(NodeEnum::String(name)) => Some(&name.sval),
        _ => None,
    }
}

/// Returns the last of several names: that of a function or type without its schema.
pub(crate) fn last_name(names: &[Node]) -> &str {
    names.last().and_then(name_of).unwrap_or_default()
}
