//! Statements other than queries.

use std::slice;
use std::sync::Arc;

use pg_query::protobuf::{
    AlterTableStmt, ColumnDef, CreateStmt, ExecuteStmt, IndexStmt, IntoClause, Node, ObjectType,
    PrepareStmt, RangeVar, RenameStmt, SelectStmt, TypeName,
};
use pg_query::NodeEnum;

use super::expression::Met;
use super::kind::{is_encrypted, type_cells};
use super::output::output_of;
use super::parts::is_open;
use super::scope::{last_name, Kind, Scope, Source};
use super::{Parameter, Prepared, Rewriter};
use crate::catalog::{Cells, Columns, Definition, Reach};
use crate::literals::Plain;
use crate::refusal::Refusal;

impl Rewriter<'_> {
    /// Goes through one statement.
    pub(super) fn statement(&mut self, node: &mut Node, scope: &Scope<'_>) -> Result<(), Refusal> {
        let Some(statement) = &mut node.node else {
            return Ok(());
        };
        match statement {
            NodeEnum::SelectStmt(it) => {
                if let Some(into) = into_of(it).cloned() {
                    self.define_as(into.rel.as_ref(), &[], Some(node), scope)?;
                }
                self.query(node, &[], scope)
            }
            NodeEnum::InsertStmt(_)
            | NodeEnum::UpdateStmt(_)
            | NodeEnum::DeleteStmt(_)
            | NodeEnum::MergeStmt(_) => self.query(node, &[], scope),
            NodeEnum::ExplainStmt(it) => self.optional(&mut it.query, scope),
            NodeEnum::DeclareCursorStmt(it) => self.optional(&mut it.query, scope),
            NodeEnum::CreateTableAsStmt(it) => {
                let into = it.into.as_deref();
                let names = into.map_or(&[][..], |into| &into.col_names);
                self.define_as(
                    into.and_then(|it| it.rel.as_ref()),
                    names,
                    it.query.as_deref(),
                    scope,
                )?;
                self.optional(&mut it.query, scope)
            }
            NodeEnum::ViewStmt(it) => {
                self.define_as(it.view.as_ref(), &it.aliases, it.query.as_deref(), scope)?;
                self.optional(&mut it.query, scope)
            }
            NodeEnum::RenameStmt(it) => self.rename(it, scope),
            NodeEnum::AlterObjectSchemaStmt(it) => {
                let Some(relation) = &it.relation else {
                    return Err(Refusal::Undecided("a new schema of something with cells"));
                };
                let to = RangeVar {
                    schemaname: it.newschema.clone(),
                    ..relation.clone()
                };
                self.define(Some(&to), scope.target(relation));
                Ok(())
            }
            NodeEnum::PrepareStmt(it) => self.prepare(it, scope),
            NodeEnum::ExecuteStmt(it) => self.execute(it, scope),
            NodeEnum::CopyStmt(it) => self.copy(it, scope),
            NodeEnum::CallStmt(it) => match it.funccall.as_deref_mut() {
                Some(call) => self.function(call, scope),
                None => Ok(()),
            },
            NodeEnum::CreateStmt(it) => self.create_table(it, scope),
            NodeEnum::AlterTableStmt(it) => self.alter_table(it, scope),
            NodeEnum::IndexStmt(it) => self.index(it, scope),
            NodeEnum::VariableSetStmt(it) => {
                // Options of transactions are no values.
                let values = it.args.iter_mut().filter(|value| is_open(value));
                self.as_mark(|this| this.walk_all(values, scope))
            }
            NodeEnum::CommentStmt(it) => {
                self.loose
                    .literals
                    .add_loose(Plain::Text(it.comment.clone()));
                Ok(())
            }
            other if has_no_values(other) => Ok(()),
            _ => Err(Refusal::Undecided("a statement of another kind")),
        }
    }

    fn optional(
        &mut self,
        statement: &mut Option<Box<Node>>,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        match statement.as_deref_mut() {
            Some(statement) => self.statement(statement, scope),
            None => Ok(()),
        }
    }

    /// Notes a table with these encrypted columns.
    fn define(&mut self, relation: Option<&RangeVar>, columns: Columns) {
        if !columns.is_empty() {
            self.define_with(relation, columns, Reach::Itself);
        }
    }

    /// Notes a table, and what else changes with it.
    fn define_with(&mut self, relation: Option<&RangeVar>, columns: Columns, reach: Reach) {
        let Some(relation) = relation else {
            return;
        };
        self.analysis.defined.push(Definition {
            schema: relation.schemaname.clone(),
            table: relation.relname.clone(),
            columns,
            reach,
        });
    }

    /// Notes from which tables another one inherits.
    fn define_child(&mut self, relation: Option<&RangeVar>, parents: &[Node], scope: &Scope<'_>) {
        for parent in parents {
            if let Some(NodeEnum::RangeVar(parent)) = &parent.node {
                let reach = Reach::Child(parent.relname.clone());
                self.define_with(relation, scope.target(parent), reach);
            }
        }
    }

    /// Notes a table or view that is made of a query.
    fn define_as(
        &mut self,
        relation: Option<&RangeVar>,
        names: &[Node],
        query: Option<&Node>,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let Some(query) = query else {
            return Ok(());
        };
        let output = output_of(query, scope).renamed(names);
        let is_unknown = |kind: &Kind| matches!(kind, Kind::Unknown | Kind::Mixed);
        let columns = output.columns.iter();
        if is_unknown(&output.rest) || columns.clone().any(|(_, kind)| is_unknown(kind)) {
            return Err(Refusal::Undecided("a table that is made of a query"));
        }
        if columns
            .clone()
            .any(|(name, kind)| name.is_empty() && kind.is_encrypted())
        {
            return Err(Refusal::Nameless);
        }
        let cells = |(name, kind)| match kind {
            Kind::Cell(cells) => Some((name, cells)),
            _ => None,
        };
        self.define(
            relation,
            output.columns.into_iter().filter_map(cells).collect(),
        );
        Ok(())
    }

    /// Notes the new name of a table, of a column, or of whatever else has columns.
    fn rename(&mut self, rename: &RenameStmt, scope: &Scope<'_>) -> Result<(), Refusal> {
        if rename.rename_type() == ObjectType::ObjectSchema {
            self.analysis
                .defined
                .push(Definition::of_all(Reach::Schemas));
            return Ok(());
        }
        let Some(relation) = &rename.relation else {
            return Err(Refusal::Undecided("a new name of something with cells"));
        };
        let columns = scope.target(relation);
        if rename.rename_type() == ObjectType::ObjectColumn {
            let cells = columns.get(&rename.subname).cloned();
            let renamed = cells.map(|cells| (rename.newname.clone(), cells));
            let renamed: Columns = renamed.into_iter().collect();
            if !renamed.is_empty() {
                self.define_with(Some(relation), renamed, Reach::Children);
            }
        } else {
            let to = RangeVar {
                relname: rename.newname.clone(),
                ..relation.clone()
            };
            let reach = Reach::Renamed(relation.relname.clone());
            self.define_with(Some(&to), columns, reach);
        }
        Ok(())
    }

    /// Goes through `PREPARE`, whose parameters are not those of the message.
    fn prepare(&mut self, prepare: &mut PrepareStmt, scope: &Scope<'_>) -> Result<(), Refusal> {
        let outer = std::mem::take(&mut self.analysis.parameters);
        self.optional(&mut prepare.query, scope)?;
        let mut parameters = std::mem::replace(&mut self.analysis.parameters, outer);
        self.loose.settle(&mut parameters);
        if !self.loose.cast_in_vain(&parameters).is_empty() {
            return Err(Refusal::Undecided("a parameter of PREPARE that is cast"));
        }
        for (at, parameter) in parameters.iter().enumerate() {
            if matches!(parameter, Parameter::OnlyNull(_)) {
                let ty = prepare.argtypes.get_mut(at);
                let ty = ty.ok_or(Refusal::Undecided("a parameter of PREPARE without a type"))?;
                ty.node = Some(NodeEnum::TypeName(named_type("bool", false)));
                self.is_changed = true;
            }
        }
        for (ty, parameter) in prepare.argtypes.iter_mut().zip(&parameters) {
            if let Parameter::Cells(cells, _) = parameter {
                let name = type_name(cells).ok_or(Refusal::AnyType)?;
                ty.node = Some(NodeEnum::TypeName(name));
                self.is_changed = true;
            }
        }
        let prepared = &mut self.analysis.prepared;
        let known = prepared.get(&prepare.name).is_some();
        let statement = Prepared {
            parameters,
            literals: self.loose.literals.clone().beside_parameters(),
        };
        prepared.insert(prepare.name.clone(), Some(statement).filter(|_| !known));
        Ok(())
    }

    fn execute(&mut self, execute: &mut ExecuteStmt, scope: &Scope<'_>) -> Result<(), Refusal> {
        let here = self.analysis.prepared.get(&execute.name);
        let known = here.or_else(|| self.prepared.get(&execute.name)).cloned();
        let Some(known) = known.flatten() else {
            return self.nothing_open(&mut execute.params, "a parameter of EXECUTE", scope);
        };
        self.loose.literals.add(&known.literals);
        for (value, parameter) in execute.params.iter_mut().zip(known.parameters) {
            let met = match parameter {
                Parameter::OnlyNull(_) => {
                    self.only_null(value)?;
                    Met::Nothing
                }
                Parameter::Mark => {
                    self.as_mark(|this| this.walk(value, scope))?;
                    continue;
                }
                Parameter::Cells(cells, _) => Met::Cells(cells),
                Parameter::Plain => Met::Plain,
                _ => Met::Nothing,
            };
            self.meet(value, &met, scope)?;
        }
        Ok(())
    }

    fn create_table(&mut self, create: &mut CreateStmt, scope: &Scope<'_>) -> Result<(), Refusal> {
        let mut inner = scope.inner();
        if create.of_typename.is_some() {
            return Err(Refusal::Undecided("a table of a type"));
        }
        let mut columns = parent(&create.inh_relations, scope);
        columns.extend(like(&create.table_elts, scope));
        columns.extend(defined(&create.table_elts, &inner));
        let name = create.relation.as_ref().map(|it| it.relname.as_str());
        inner.add(name.unwrap_or_default(), Source::of_table(&columns));
        self.define(create.relation.as_ref(), columns);
        self.define_child(create.relation.as_ref(), &create.inh_relations, scope);
        for element in &mut create.table_elts {
            self.definition(element, None, &inner)?;
        }
        self.walk_constraints(&mut create.constraints, None, &inner)?;
        for element in create
            .partspec
            .iter_mut()
            .flat_map(|it| &mut it.part_params)
        {
            if let Some(NodeEnum::PartitionElem(element)) = &mut element.node {
                self.walk_all(element.expr.as_deref_mut(), &inner)?;
            }
        }
        match create.partbound.is_some() && !parent(&create.inh_relations, scope).is_empty() {
            true => Err(Refusal::Undecided("bounds of a partition")),
            false => Ok(()),
        }
    }

    /// Goes through the definition of a column, whose cells may be known, or of a constraint.
    fn definition(
        &mut self,
        element: &mut Node,
        known: Option<&Cells>,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        match &mut element.node {
            Some(NodeEnum::ColumnDef(column)) => self.column(column, known, scope),
            Some(NodeEnum::Constraint(_)) => {
                self.walk_constraints(slice::from_mut(element), None, scope)
            }
            Some(NodeEnum::TableLikeClause(_)) | None => Ok(()),
            Some(_) => Err(Refusal::Undecided("a definition of another kind")),
        }
    }

    fn column(
        &mut self,
        column: &mut ColumnDef,
        known: Option<&Cells>,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let name = column
            .type_name
            .as_ref()
            .map_or("", |it| last_name(&it.names));
        if scope.catalog().is_mixed(name) {
            return Err(Refusal::Undecided("a column of a type with cells in it"));
        }
        let cells = column
            .type_name
            .as_ref()
            .and_then(|ty| type_cells(ty, scope));
        let cells = cells.map(|cells| known.cloned().unwrap_or(cells));
        let met = cells.clone().map_or(Met::Plain, Met::Cells);
        let value = column.raw_default.as_deref_mut();
        self.columns(value.into_iter(), &[met], scope)?;
        self.walk_constraints(&mut column.constraints, cells.as_ref(), scope)
    }

    /// Goes through constraints of a column of these cells, or of a table. A default is one.
    fn walk_constraints(
        &mut self,
        constraints: &mut [Node],
        cells: Option<&Cells>,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        use pg_query::protobuf::ConstrType;
        for constraint in constraints {
            let Some(NodeEnum::Constraint(constraint)) = &mut constraint.node else {
                continue;
            };
            let gives = matches!(
                constraint.contype(),
                ConstrType::ConstrDefault | ConstrType::ConstrGenerated
            );
            let met = cells.filter(|_| gives).cloned();
            let wanted = [met.map_or(Met::Plain, Met::Cells)];
            let value = constraint.raw_expr.as_deref_mut();
            self.columns(value.into_iter(), &wanted, scope)?;
            self.walk_all(constraint.where_clause.as_deref_mut(), scope)?;
            if !constraint.exclusions.is_empty() {
                self.exclusions(&mut constraint.exclusions, scope)?;
            }
        }
        Ok(())
    }

    /// Goes through the index elements of `EXCLUDE`, each with its operator.
    fn exclusions(&mut self, pairs: &mut [Node], scope: &Scope<'_>) -> Result<(), Refusal> {
        for pair in pairs {
            if let Some(NodeEnum::List(pair)) = &mut pair.node {
                self.indexed(&mut pair.items, scope)?;
            }
        }
        Ok(())
    }

    fn alter_table(
        &mut self,
        alter: &mut AlterTableStmt,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let relation = alter.relation.as_ref();
        let mut inner = scope.inner();
        let mut columns = relation.map_or_else(Columns::new, |it| scope.target(it));
        let mut new = added(&alter.cmds, &inner);
        for (name, cells) in &mut new {
            // Its key stays.
            if let Some(known) = columns.get(name) {
                cells.keyname = Arc::clone(&known.keyname);
            }
        }
        columns.extend(new.clone());
        let name = relation.map_or("", |it| it.relname.as_str());
        inner.add(name, Source::of_table(&columns));
        let is_type = alter.objtype() == ObjectType::ObjectType;
        if is_type && alter.cmds.iter().any(|it| changes_encrypted(it, &inner)) {
            return Err(Refusal::Undecided(
                "an attribute of a type with cells in it",
            ));
        }
        if !new.is_empty() {
            self.define_with(relation, new, Reach::Children);
        }
        for command in &mut alter.cmds {
            let Some(NodeEnum::AlterTableCmd(command)) = &mut command.node else {
                continue;
            };
            let Some(definition) = command.def.as_deref_mut() else {
                continue;
            };
            let cells = columns.get(&command.name).cloned();
            let met = cells.map_or(Met::Plain, Met::Cells);
            match &mut definition.node {
                Some(NodeEnum::ColumnDef(_) | NodeEnum::Constraint(_)) => {
                    self.definition(definition, columns.get(&command.name), &inner)?;
                }
                Some(NodeEnum::PartitionCmd(it)) if it.bound.is_some() && !columns.is_empty() => {
                    return Err(Refusal::Undecided("bounds of a partition"));
                }
                Some(NodeEnum::PartitionCmd(it)) => {
                    let reach = Reach::Child(
                        alter
                            .relation
                            .as_ref()
                            .map_or_else(String::new, |it| it.relname.clone()),
                    );
                    self.define_with(it.name.as_ref(), Columns::new(), reach);
                }
                Some(NodeEnum::RangeVar(_)) => {
                    let parent = slice::from_ref(definition);
                    self.define_child(alter.relation.as_ref(), parent, scope);
                }
                Some(node) if has_no_values(node) => {}
                _ => self.meet(definition, &met, &inner)?,
            }
        }
        Ok(())
    }

    fn index(&mut self, index: &mut IndexStmt, scope: &Scope<'_>) -> Result<(), Refusal> {
        let mut inner = scope.inner();
        if let Some(relation) = &index.relation {
            inner.add_target(relation);
        }
        self.indexed(&mut index.index_params, &inner)?;
        self.walk_all(index.where_clause.as_deref_mut(), &inner)
    }
}

/// Returns the table that a query makes, which the leftmost query of a union names.
fn into_of(query: &SelectStmt) -> Option<&IntoClause> {
    let left = || query.larg.as_deref().and_then(into_of);
    query.into_clause.as_deref().or_else(left)
}

/// Returns the encrypted columns of the tables that these nodes name.
fn parent(relations: &[Node], scope: &Scope<'_>) -> Columns {
    let relation = |node: &Node| match &node.node {
        Some(NodeEnum::RangeVar(relation)) => scope.target(relation),
        _ => Columns::new(),
    };
    relations.iter().flat_map(relation).collect()
}

/// Returns the encrypted columns of the tables that `LIKE` names.
fn like(elements: &[Node], scope: &Scope<'_>) -> Columns {
    let columns = |element: &Node| match &element.node {
        Some(NodeEnum::TableLikeClause(like)) => like.relation.as_ref().map(|it| scope.target(it)),
        _ => None,
    };
    elements.iter().filter_map(columns).flatten().collect()
}

/// Returns the encrypted columns that `ALTER TABLE` adds, or gives another type.
fn added(commands: &[Node], scope: &Scope<'_>) -> Columns {
    let column = |command: &Node| match &command.node {
        Some(NodeEnum::AlterTableCmd(command)) => {
            let Some(NodeEnum::ColumnDef(column)) = &command.def.as_deref()?.node else {
                return None;
            };
            let cells = type_cells(column.type_name.as_ref()?, scope)?;
            let name = match column.colname.is_empty() {
                true => &command.name,
                false => &column.colname,
            };
            Some((name.clone(), cells))
        }
        _ => None,
    };
    commands.iter().filter_map(column).collect()
}

/// Whether a command gives a column a type with cells, or one that has cells in it.
fn changes_encrypted(command: &Node, scope: &Scope<'_>) -> bool {
    let Some(NodeEnum::AlterTableCmd(command)) = &command.node else {
        return false;
    };
    match command.def.as_deref().and_then(|it| it.node.as_ref()) {
        Some(NodeEnum::ColumnDef(column)) => {
            let ty = column.type_name.as_ref();
            ty.is_some_and(|ty| is_encrypted(ty, scope))
        }
        _ => false,
    }
}

/// Returns the encrypted columns that a table's definition has.
fn defined(elements: &[Node], scope: &Scope<'_>) -> Columns {
    let column = |element: &Node| match &element.node {
        Some(NodeEnum::ColumnDef(column)) => {
            let cells = type_cells(column.type_name.as_ref()?, scope)?;
            Some((column.colname.clone(), cells))
        }
        _ => None,
    };
    elements.iter().filter_map(column).collect()
}

/// Returns the type of cells, as SQL names it; none for cells of any type.
pub(super) fn type_name(cells: &Cells) -> Option<TypeName> {
    Some(named_type(cells.type_name()?, cells.is_array))
}

fn named_type(name: &str, is_array: bool) -> TypeName {
    let node = |node: NodeEnum| Node { node: Some(node) };
    let name = node(NodeEnum::String(pg_query::protobuf::String {
        sval: name.to_owned(),
    }));
    let bounds = node(NodeEnum::Integer(pg_query::protobuf::Integer { ival: -1 }));
    TypeName {
        names: vec![name],
        typemod: -1,
        array_bounds: is_array.then_some(bounds).into_iter().collect(),
        ..TypeName::default()
    }
}

/// Whether a statement, or a part of one, names things and has no values of columns.
fn has_no_values(node: &NodeEnum) -> bool {
    matches!(
        node,
        NodeEnum::TransactionStmt(_)
            | NodeEnum::VariableShowStmt(_)
            | NodeEnum::DiscardStmt(_)
            | NodeEnum::DeallocateStmt(_)
            | NodeEnum::ClosePortalStmt(_)
            | NodeEnum::FetchStmt(_)
            | NodeEnum::DropStmt(_)
            | NodeEnum::TruncateStmt(_)
            | NodeEnum::LockStmt(_)
            | NodeEnum::VacuumStmt(_)
            | NodeEnum::ReindexStmt(_)
            | NodeEnum::ClusterStmt(_)
            | NodeEnum::GrantStmt(_)
            | NodeEnum::AlterOwnerStmt(_)
            | NodeEnum::RefreshMatViewStmt(_)
            | NodeEnum::CreateExtensionStmt(_)
            | NodeEnum::RoleSpec(_)
            | NodeEnum::ReplicaIdentityStmt(_)
            | NodeEnum::PartitionCmd(_)
            | NodeEnum::List(_)
            | NodeEnum::String(_)
            | NodeEnum::Integer(_)
    )
}
