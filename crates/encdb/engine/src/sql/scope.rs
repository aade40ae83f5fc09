//! The names that an expression can use, and what is known of their values.

use std::collections::HashMap;

use pg_query::protobuf::{Node, RangeVar};
use pg_query::NodeEnum;

use crate::catalog::{Catalog, Cells, Columns};

/// The knowledge of an expression's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Cells of a known type, and nothing open: whatever is open in it is sealed
    Cell(Cells),
    /// A literal or a parameter itself, which takes the type of what it meets
    Open,
    /// A plain value that is computed from a literal or a parameter: it must meet no cells
    Derived,
    /// Nothing encrypted, and nothing open
    Plain,
    /// Something that is made of cells, or may be, of a type that is not known
    Unknown,
    /// Something that may be cells, and may be a literal or a parameter, or is made of both
    Mixed,
}

impl Kind {
    /// Returns the kind that decides when values of several kinds meet, each of which is gone
    /// through: what is open beside cells is sealed or refused there.
    pub(crate) fn common(kinds: impl IntoIterator<Item = Self>) -> Self {
        let mut kinds: Vec<Self> = kinds.into_iter().collect();
        match kinds.iter().position(|kind| matches!(kind, Self::Cell(_))) {
            Some(at) => kinds.swap_remove(at),
            None => Self::any_of(kinds),
        }
    }

    /// Returns the kind of a value that is one of these, of which nobody knows which one. Nothing
    /// of it can be sealed any more, so openness beside cells stays.
    pub(crate) fn either(kinds: impl IntoIterator<Item = Self>) -> Self {
        let mut kinds: Vec<Self> = kinds.into_iter().collect();
        let is_open = kinds.iter().any(Self::is_open);
        match kinds.iter().position(|kind| matches!(kind, Self::Cell(_))) {
            Some(_) if is_open => Self::Mixed,
            Some(at) => kinds.swap_remove(at),
            None => Self::any_of(kinds),
        }
    }

    /// Returns the kind of several values without cells of a known type.
    fn any_of(kinds: Vec<Self>) -> Self {
        let has = |wanted: Self| kinds.contains(&wanted);
        let is_open = kinds.iter().any(Self::is_open);
        match has(Self::Unknown) || has(Self::Mixed) {
            true if is_open => Self::Mixed,
            true => Self::Unknown,
            false if has(Self::Derived) => Self::Derived,
            false if is_open => Self::Open,
            false => Self::Plain,
        }
    }

    /// Returns the kind of a value that is computed from values of these kinds, in a way that is
    /// not known.
    pub(crate) fn computed(kinds: impl IntoIterator<Item = Self>) -> Self {
        match Self::either(kinds) {
            Self::Cell(_) => Self::Unknown,
            Self::Open => Self::Derived,
            kind => kind,
        }
    }

    /// Whether a literal or a parameter is in the value.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Open | Self::Derived | Self::Mixed)
    }

    /// Whether the value is, or may be, made of cells.
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Cell(_) | Self::Unknown | Self::Mixed)
    }

    /// Returns the kind of a column that has this value: behind a name a literal cannot be sealed.
    pub(crate) fn of_column(self) -> Self {
        match self {
            Self::Open => Self::Derived,
            kind => kind,
        }
    }
}

/// The columns that a query gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// The columns in their order, each with its name, which is empty if it is not certain; behind
    /// a `*` there may be more between.
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

    /// Returns the kind of a column, whichever it is.
    pub(crate) fn any(&self) -> Kind {
        let kinds = self.columns.iter().map(|(_, kind)| kind.clone());
        Kind::either(kinds.chain([self.rest.clone()]))
    }

    /// Returns the columns under the names that a list gives them.
    pub(crate) fn renamed(mut self, names: &[Node]) -> Self {
        if names.is_empty() {
            return self;
        }
        if self.has_star {
            return Self {
                rest: Kind::computed([self.any()]),
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
        let mut source = Source::of_any(output.rest.of_column());
        for (name, kind) in output.columns {
            source.add(&name, kind.of_column());
        }
        source
    }
}

/// A table, a subquery or a function of `FROM`.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The columns that certainly exist, by name.
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

    /// Adds a column. Without a certain name it is one of the others.
    pub(crate) fn add(&mut self, name: &str, kind: Kind) {
        if name.is_empty() {
            self.rest = Kind::either([self.rest.clone(), kind]);
            return;
        }
        let known = self.columns.remove(name);
        let kind = Kind::either(known.into_iter().chain([kind]));
        self.columns.insert(name.to_owned(), kind);
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
///
/// Names are resolved from the inside to the outside, as PostgreSQL does it: a source that
/// certainly has a column decides, and one that may have it leaves those outside as candidates. The
/// queries of `WITH` are in a scope around that of the sources, so that a subquery of `FROM` sees
/// the first and not the second.
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

    /// Returns the scope around this one: what a subquery of `FROM` sees without `LATERAL`.
    pub(crate) fn outside(&self) -> &Scope<'p> {
        self.outer.unwrap_or(self)
    }

    /// Returns the number of sources here.
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// Returns the scope of a condition of a join: its sources are those from this one on.
    pub(crate) fn joined(&self, first: usize) -> Self {
        Scope {
            catalog: self.catalog,
            outer: self.outer,
            sources: self.sources[first..].to_vec(),
            queries: HashMap::new(),
        }
    }

    /// Puts one source in place of those from this one on, whose names an alias of a join hides.
    pub(crate) fn hide(&mut self, first: usize, name: &str, source: Source) {
        self.sources.truncate(first);
        self.add(name, source);
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

    /// Returns the query of `WITH` of this name, if it is one of this scope.
    pub(crate) fn own_query(&self, name: &str) -> Option<&Output> {
        self.queries.get(name)
    }

    /// Returns all columns of the sources here, or of those of this name, and the kind of those
    /// that are not named.
    pub(crate) fn all(&self, table: Option<&str>) -> Output {
        let mut output = Output {
            has_star: true,
            ..Output::default()
        };
        let is_it = |name: &str| table.is_none_or(|table| table == name);
        let sources = self.sources.iter();
        let mut found = sources.filter(|(name, _)| is_it(name)).peekable();
        match (table, self.outer, found.peek()) {
            (Some(table), Some(outer), None) => return outer.all(Some(table)),
            (Some(_), None, None) => output.rest = Kind::Mixed,
            _ => {}
        }
        for (_, source) in found {
            let columns = source.columns.iter();
            let columns = columns.map(|(name, kind)| (name.clone(), kind.clone()));
            output.columns.extend(columns);
            output.rest = Kind::either([output.rest, source.rest.clone()]);
        }
        output
    }

    /// Returns what a column reference gives.
    pub(crate) fn column(&self, fields: &[Node]) -> Kind {
        let names: Vec<&str> = fields.iter().filter_map(name_of).collect();
        match (names.as_slice(), fields.len() - names.len()) {
            ([column], 0) => self.bare(column),
            ([table, column], 0) => self.qualified(table, column, false),
            ([.., table, column], 0) => self.qualified(table, column, true),
            // `t.*` as a value, and a bare star
            ([.., table], 1) => Kind::computed([self.all(Some(table)).any()]),
            _ => Kind::computed([self.all(None).any()]),
        }
    }

    /// Whether a join by a column of this name, or by all of one name, has cells on one side and a
    /// value that is derived from a literal, or not known, on another.
    pub(crate) fn mixes(&self, column: Option<&str>) -> bool {
        let own = self
            .sources
            .iter()
            .flat_map(|(_, source)| source.columns.keys().map(String::as_str));
        // No column has the empty name: it represents those that are not named.
        let names: Vec<&str> = match column {
            Some(column) => vec![column],
            None => own.chain([""]).collect(),
        };
        names.into_iter().any(|name| {
            let kinds = self.sources.iter().map(|(_, source)| source.kind(name));
            let kinds: Vec<Kind> = kinds.collect();
            let is_open = |kind: &Kind| kind.is_open() || *kind == Kind::Unknown;
            kinds.iter().any(Kind::is_encrypted) && kinds.iter().any(is_open)
        })
    }

    /// Returns what a name without a table gives: the column of a source that certainly has one,
    /// otherwise whatever may have it here and outside, or the row of a source of this name.
    pub(crate) fn bare(&self, column: &str) -> Kind {
        let sources = self.sources.iter();
        let named: Vec<Kind> = sources
            .filter_map(|(_, source)| source.column(column))
            .collect();
        if !named.is_empty() {
            // A function of this name may have a column of it.
            let same = self.sources.iter().filter(|(name, _)| name == column);
            return Kind::either(named.into_iter().chain(same.map(|(_, it)| it.rest.clone())));
        }
        let rest = self.sources.iter().map(|(_, source)| source.rest.clone());
        let rows = self.sources.iter().filter(|(name, _)| name == column);
        let rows = rows.map(|(_, source)| source.row());
        let outer = self.outer.map(|outer| outer.bare(column));
        Kind::either(rest.chain(rows).chain(outer))
    }

    /// Whether a source has this name, here or outside.
    pub(crate) fn knows(&self, table: &str) -> bool {
        let here = self.sources.iter().any(|(name, _)| name == table);
        here || self.outer.is_some_and(|outer| outer.knows(table))
    }

    /// Returns what the column of a table gives: that of the innermost source of this name. A name
    /// with a schema may be that of one further out, too.
    fn qualified(&self, table: &str, column: &str, has_schema: bool) -> Kind {
        let here = self.sources.iter().filter(|(name, _)| name == table);
        let kinds: Vec<Kind> = here.map(|(_, source)| source.kind(column)).collect();
        let outer = || match self.outer {
            Some(outer) => outer.qualified(table, column, has_schema),
            None => Kind::Mixed,
        };
        if kinds.is_empty() {
            return outer();
        }
        // `t.f` may be a function of the row.
        let function = self.catalog.is_encrypted_name(column);
        let function = function.then_some(Kind::Unknown);
        let is_outside = has_schema && self.outer.is_some_and(|outer| outer.knows(table));
        Kind::either(
            kinds
                .into_iter()
                .chain(function)
                .chain(is_outside.then(outer)),
        )
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
