//! `COPY`: what its fields are for, and how they are written.

use std::sync::Arc;

use pg_query::protobuf::{CopyStmt, DefElem, Node, RangeVar};
use pg_query::NodeEnum;

use super::output::output_of;
use super::placing::with_stars;
use super::scope::{name_of, Kind, Scope};
use super::Rewriter;
use crate::catalog::Columns;
use crate::copy::{CopyColumn, CopyFormat, CopyPlan, CopyRows, Direction, Header, Marks, Quotes};
use crate::refusal::Refusal;

/// Options that change nothing of how fields are read.
const OF_NO_CONCERN: [&str; 5] = [
    "force_quote",
    "freeze",
    "log_verbosity",
    "on_error",
    "reject_limit",
];

impl Rewriter<'_> {
    /// Goes through `COPY`, and notes what becomes of its rows.
    pub(super) fn copy(&mut self, copy: &mut CopyStmt, scope: &Scope<'_>) -> Result<(), Refusal> {
        self.name_copied(copy, scope)?;
        let mut inner = scope.inner();
        let relation = copy.relation.as_ref();
        let columns = relation.map_or_else(Columns::new, |it| inner.add_target(it));
        match copy.is_from {
            true => self.rows_in(copy, &columns)?,
            false => self.rows_out(copy, &columns, scope)?,
        }
        if let Some(query) = copy.query.as_deref_mut() {
            self.statement(query, scope)?;
        }
        self.walk_all(copy.where_clause.as_deref_mut(), &inner)
    }

    /// Notes rows that the driver sends. Columns that the statement does not name have their order
    /// from the owner's list; the server's word does not decide which of them are sealed.
    fn rows_in(&mut self, copy: &CopyStmt, columns: &Columns) -> Result<(), Refusal> {
        let named = named(copy, columns);
        let is_encrypted = match named.is_empty() {
            true => !columns.is_empty(),
            false => named.iter().any(|column| column.cells.is_some()),
        };
        let from_driver = copy.filename.is_empty() && !copy.is_program;
        match (is_encrypted, from_driver) {
            (true, false) => return Err(Refusal::CopyFile),
            (true, true) if named.is_empty() => {
                let table = copy.relation.as_ref().map_or("", |it| &it.relname);
                return Err(Refusal::NoColumns("COPY", table.to_owned()));
            }
            (true, true) => {
                let cells = || named.iter().filter_map(|column| column.cells.as_ref());
                if cells().any(|cells| cells.is_mixed || cells.ty.is_none()) {
                    return Err(Refusal::Undecided("a row of COPY"));
                }
                let format = format(&copy.options)?;
                let plan = CopyPlan {
                    columns: named,
                    format,
                };
                self.note_rows(Direction::ToServer, Some(plan));
            }
            (false, true) => self.note_rows(Direction::ToServer, None),
            (false, false) => {}
        }
        Ok(())
    }

    /// Notes rows that the driver gets. Where only the server knows which columns they have, cells
    /// are given as they are.
    fn rows_out(
        &mut self,
        copy: &CopyStmt,
        columns: &Columns,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        if !copy.filename.is_empty() || copy.is_program {
            return Ok(());
        }
        let found = match copy.query.as_deref() {
            Some(query) => selected(query, scope),
            None => Some(all(copy, columns, scope)).filter(|all| !all.is_empty()),
        };
        let is_encrypted =
            |columns: &Vec<_>| columns.iter().any(|it: &CopyColumn| it.cells.is_some());
        let plan = found.filter(is_encrypted).map(|columns| {
            let format = format(&copy.options)?;
            Ok::<_, Refusal>(CopyPlan { columns, format })
        });
        self.note_rows(Direction::ToDriver, plan.transpose()?);
        Ok(())
    }

    fn note_rows(&mut self, direction: Direction, plan: Option<CopyPlan>) {
        let plan = plan.map(Arc::new);
        self.analysis.copies.push(CopyRows { direction, plan });
    }
}

/// Returns the columns that a COPY names.
fn named(copy: &CopyStmt, columns: &Columns) -> Vec<CopyColumn> {
    let names = copy.attlist.iter().filter_map(name_of);
    names.map(|name| column(name, columns)).collect()
}

/// Returns the columns that a COPY names, or those of its table.
fn all(copy: &CopyStmt, columns: &Columns, scope: &Scope<'_>) -> Vec<CopyColumn> {
    let table = copy.relation.as_ref().filter(|_| copy.attlist.is_empty());
    let order = |it: &RangeVar| scope.catalog().order(&it.schemaname, &it.relname);
    match table.and_then(order) {
        Some(all) => {
            let stored = all.iter().filter(|it| !it.is_generated);
            stored.map(|it| column(&it.name, columns)).collect()
        }
        None => named(copy, columns),
    }
}

fn column(name: &str, columns: &Columns) -> CopyColumn {
    CopyColumn {
        name: name.to_owned(),
        cells: columns.get(name).cloned(),
    }
}

/// Returns the columns of a query's rows; none if only the server knows them.
fn selected(query: &Node, scope: &Scope<'_>) -> Option<Vec<CopyColumn>> {
    let output = output_of(query, scope);
    let column = |(name, kind)| CopyColumn {
        name,
        cells: match kind {
            Kind::Cell(cells) => Some(cells),
            _ => None,
        },
    };
    match output.has_star {
        true => with_stars(query, scope),
        false => Some(output.columns.into_iter().map(column).collect()),
    }
}

/// Reads how rows are written. An option that is not known may change how they are read.
fn format(options: &[Node]) -> Result<CopyFormat, Refusal> {
    let options: Vec<(&str, &DefElem)> = options.iter().filter_map(option).collect();
    let find = |name: &str| {
        let found = options.iter().find(|(known, _)| *known == name);
        found.map(|(_, option)| *option)
    };
    let known = [
        "format",
        "delimiter",
        "null",
        "header",
        "quote",
        "escape",
        "encoding",
    ];
    let is_known = |name: &&str| known.contains(name) || OF_NO_CONCERN.contains(name);
    if options.iter().any(|(name, _)| !is_known(name)) {
        return Err(Refusal::Undecided("an option of COPY"));
    }
    if let Some(encoding) = find("encoding").and_then(text_of) {
        if !["utf8", "utf-8"].contains(&encoding.to_ascii_lowercase().as_str()) {
            return Err(Refusal::Encoding);
        }
    }
    let one = |name, default| match find(name).map(|it| text_of(it).unwrap_or_default()) {
        None => Ok(default),
        Some(text) if text.len() == 1 => Ok(text.as_bytes()[0]),
        Some(_) => Err(Refusal::Undecided("an option of COPY")),
    };
    let marks = |delimiter, null: &str| {
        Ok::<_, Refusal>(Marks {
            delimiter: one("delimiter", delimiter)?,
            null: find("null")
                .and_then(text_of)
                .unwrap_or_else(|| null.to_owned())
                .into_bytes(),
            header: header(find("header"))?,
        })
    };
    match find("format").and_then(text_of).as_deref() {
        None | Some("text") => Ok(CopyFormat::Text(marks(b'\t', "\\N")?)),
        Some("csv") => {
            let quote = one("quote", b'"')?;
            let escape = one("escape", quote)?;
            Ok(CopyFormat::Csv(marks(b',', "")?, Quotes { quote, escape }))
        }
        Some("binary") => Ok(CopyFormat::Binary),
        Some(_) => Err(Refusal::Undecided("an option of COPY")),
    }
}

fn option(node: &Node) -> Option<(&str, &DefElem)> {
    match &node.node {
        Some(NodeEnum::DefElem(option)) => Some((&option.defname, option)),
        _ => None,
    }
}

/// Reads `HEADER`: without a value it is true.
fn header(option: Option<&DefElem>) -> Result<Header, Refusal> {
    let Some(option) = option else {
        return Ok(Header::None);
    };
    let text = text_of(option).map(|text| text.to_ascii_lowercase());
    match text.as_deref() {
        None | Some("true" | "on" | "1") => Ok(Header::Ignored),
        Some("false" | "off" | "0") => Ok(Header::None),
        Some("match") => Ok(Header::Match),
        Some(_) => Err(Refusal::Undecided("an option of COPY")),
    }
}

/// Returns the value of an option as PostgreSQL's `defGetString` gives it.
fn text_of(option: &DefElem) -> Option<String> {
    match &option.arg.as_deref()?.node {
        Some(NodeEnum::String(text)) => Some(text.sval.clone()),
        Some(NodeEnum::Integer(number)) => Some(number.ival.to_string()),
        Some(NodeEnum::Boolean(truth)) => Some(truth.boolval.to_string()),
        _ => Some(String::new()),
    }
}
