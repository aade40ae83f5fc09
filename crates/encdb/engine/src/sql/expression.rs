//! Expressions: each literal and parameter is sealed, or certainly meets nothing encrypted, or the
//! statement is refused.
//!
//! [`Rewriter::walk`] goes through an expression whose value meets nothing encrypted, and
//! [`Rewriter::seal`] through one whose value meets cells. Values that meet each other are a group
//! ([`Rewriter::group`]): if one of them is cells, the others are sealed or refused.

use pg_query::protobuf::{a_const, AExpr, AExprKind, CaseExpr, Node, SubLink, SubLinkType};
use pg_query::NodeEnum;
use pgseal_client::Type;

use super::calls::{builtin_name, OF_TEXT};
use super::constant::{constant_type, is_time};
use super::folding::{folded, is_same};
use super::interval::is_interval;
use super::kind::{cast_cells, compares, is_cast_of_open, kind_of, subquery_output};
use super::literal::Cast;
use super::parts::{has_open, has_plain, is_open, parts_mut};
use super::rows::is_row;
use super::scope::{last_name, name_of, Kind, Scope};
use super::sealing::Use;
use super::servers::orders;
use super::Rewriter;
use crate::catalog::Cells;
use crate::refusal::Refusal;

/// PostgreSQL's functions that give the time.
const CLOCK: [&str; 4] = [
    "now",
    "transaction_timestamp",
    "statement_timestamp",
    "clock_timestamp",
];

/// The thing that a value meets.
#[derive(Clone, Debug)]
pub(super) enum Met {
    /// Nothing that is known
    Nothing,
    /// Something that is certainly plain
    Plain,
    /// Cells: what is open is sealed
    Cells(Cells),
    /// Something that is not known: nothing may be open
    Unknown,
}

impl Met {
    /// Returns what a value meets that meets values of this kind.
    pub(super) fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Cell(cells) => Self::Cells(cells.clone()),
            Kind::Unknown | Kind::Mixed => Self::Unknown,
            Kind::Open | Kind::Derived => Self::Nothing,
            Kind::Plain => Self::Plain,
        }
    }

    /// Returns what values of these kinds meet that meet each other.
    pub(super) fn of_all(kinds: &[Kind]) -> Self {
        match Self::of(&Kind::common(kinds.iter().cloned())) {
            Self::Nothing if kinds.contains(&Kind::Plain) => Self::Plain,
            met => met,
        }
    }

    /// Whether a value that meets this needs no seal.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain | Self::Nothing)
    }
}

impl Rewriter<'_> {
    /// Goes through expressions that may be missing, whose values meet nothing encrypted.
    pub(super) fn walk_all<'n>(
        &mut self,
        nodes: impl IntoIterator<Item = &'n mut Node>,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let mut nodes = nodes.into_iter();
        nodes.try_for_each(|node| self.walk(node, scope))
    }

    /// Goes through an expression.
    pub(super) fn meet(
        &mut self,
        node: &mut Node,
        met: &Met,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        match met {
            Met::Nothing => self.walk(node, scope),
            Met::Plain => self.anchored(|this| this.walk(node, scope)),
            Met::Cells(cells) => self.seal(node, cells, scope),
            Met::Unknown if has_open(node, scope) => Err(Refusal::Expression),
            Met::Unknown => self.walk(node, scope),
        }
    }

    /// Goes through an expression whose value meets nothing encrypted.
    pub(super) fn walk(&mut self, node: &mut Node, scope: &Scope<'_>) -> Result<(), Refusal> {
        match is_open(node) {
            true => self.walk_part(node, scope),
            false => self.assigning(false, |this| {
                this.in_parts(|this| this.walk_part(node, scope))
            }),
        }
    }

    /// Goes through something whose value is assigned to the cells that it meets, or is not.
    pub(super) fn assigning<T>(&mut self, assigns: bool, go: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.assigns, assigns);
        let result = go(self);
        self.assigns = before;
        result
    }

    fn walk_part(&mut self, node: &mut Node, scope: &Scope<'_>) -> Result<(), Refusal> {
        let Some(inner) = &mut node.node else {
            return Ok(());
        };
        match inner {
            NodeEnum::AConst(literal) => {
                self.plain_literal(literal);
                Ok(())
            }
            NodeEnum::ParamRef(parameter) => self.plain_parameter(parameter.number),
            NodeEnum::AExpr(operator) => match folded(operator) {
                Some(answer) => {
                    self.is_changed |= !is_same(operator, &answer);
                    **operator = answer;
                    Ok(())
                }
                None => self.operator(operator, scope),
            },
            NodeEnum::SubLink(link) => self.subquery(link, scope),
            NodeEnum::FuncCall(call) => self.function(call, scope),
            NodeEnum::NullTest(test) => {
                if let Some(answer) = self.null_test(test, scope)? {
                    node.node = Some(answer);
                }
                Ok(())
            }
            NodeEnum::CaseExpr(case) => {
                self.as_mark(|this| this.group(results(case), scope))?;
                self.conditions(case, scope)
            }
            NodeEnum::CoalesceExpr(all) => self.group(all.args.iter_mut().collect(), scope),
            NodeEnum::MinMaxExpr(all) => self.group(all.args.iter_mut().collect(), scope),
            NodeEnum::AArrayExpr(array) => self.group(array.elements.iter_mut().collect(), scope),
            NodeEnum::TypeCast(cast) => self.cast(cast, scope),
            NodeEnum::BoolExpr(all) => {
                let mut conditions = all.args.iter_mut();
                conditions.try_for_each(|it| self.condition(it, scope))
            }
            NodeEnum::BooleanTest(test) => self.optional_condition(&mut test.arg, scope),
            // `(x).f` may be f(x).
            NodeEnum::AIndirection(part)
                if part
                    .indirection
                    .iter()
                    .filter_map(name_of)
                    .any(|name| scope.catalog().is_encrypted_name(name))
                    && part.arg.as_deref().is_some_and(|arg| has_open(arg, scope)) =>
            {
                Err(Refusal::Expression)
            }
            other => {
                let parts = parts_mut(other).ok_or(Refusal::Undecided("an expression"))?;
                self.walk_all(parts, scope)
            }
        }
    }

    /// Goes through expressions whose values are compared with each other.
    pub(super) fn compared(
        &mut self,
        nodes: Vec<&mut Node>,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        self.compare_alone(&nodes);
        let met = met_in(&nodes, scope);
        let mut others = Vec::with_capacity(nodes.len());
        for node in nodes {
            let is_done = match &met {
                Met::Cells(cells) => {
                    self.fold(node, cells, Use::Compared)? || self.of_server(node, &met, scope)?
                }
                _ => false,
            };
            others.extend((!is_done).then_some(node));
        }
        self.assigning(false, |this| {
            this.loosely(|this| this.group_with(others, &met, scope))
        })
    }

    /// Goes through expressions whose values meet each other.
    pub(super) fn group(
        &mut self,
        nodes: Vec<&mut Node>,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let met = met_in(&nodes, scope);
        self.group_with(nodes, &met, scope)
    }

    fn group_with(
        &mut self,
        nodes: Vec<&mut Node>,
        met: &Met,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        for node in nodes {
            match deciding(node, scope) {
                Kind::Cell(_) => self.walk(node, scope)?,
                _ => self.meet(node, met, scope)?,
            }
        }
        Ok(())
    }

    /// Goes through an expression whose value meets these cells.
    pub(super) fn seal(
        &mut self,
        node: &mut Node,
        cells: &Cells,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        if self.fold(node, cells, Use::Other)? {
            return Ok(());
        }
        if let Some(sealed) = self.sealed(node, cells, None, scope)? {
            node.node = Some(sealed);
            return Ok(());
        }
        let (kind, open) = (kind_of(Some(node), scope), has_open(node, scope));
        let Some(inner) = &mut node.node else {
            return Ok(());
        };
        let with = Met::Cells(cells.clone());
        match inner {
            NodeEnum::CollateClause(clause) => self.group_with(
                clause.arg.as_deref_mut().into_iter().collect(),
                &with,
                scope,
            ),
            NodeEnum::List(list) => self.group_with(list.items.iter_mut().collect(), &with, scope),
            NodeEnum::CoalesceExpr(all) => {
                self.group_with(all.args.iter_mut().collect(), &with, scope)
            }
            NodeEnum::MinMaxExpr(all) => {
                self.group_with(all.args.iter_mut().collect(), &with, scope)
            }
            NodeEnum::AArrayExpr(array) => {
                let element = Met::Cells(cells.element());
                self.group_with(array.elements.iter_mut().collect(), &element, scope)
            }
            NodeEnum::TypeCast(cast) if is_cast_of_open(cast, scope) => {
                self.seal_cast(cast, cells, scope)
            }
            inner if is_servers(inner) => Err(Refusal::Servers),
            NodeEnum::CaseExpr(case) => {
                self.group_with(results(case), &with, scope)?;
                self.conditions(case, scope)
            }
            NodeEnum::SubLink(link) if link.sub_link_type() == SubLinkType::ExprSublink => {
                self.query_of(link, &[with], scope)
            }
            NodeEnum::AExpr(operator) if computes(operator) => {
                self.computed(operator, cells, scope)
            }
            NodeEnum::FuncCall(call) if OF_TEXT.contains(&last_name(&call.funcname)) => {
                self.text_function(call, cells, scope)
            }
            _ => match kind {
                Kind::Cell(_) => self.walk(node, scope),
                Kind::Plain if !open => self.walk(node, scope),
                _ => Err(Refusal::Expression),
            },
        }
    }

    /// Returns what is in place of a literal or a parameter, with or without casts; none if
    /// the node is something else. `by` is a cast of the whole.
    pub(super) fn sealed(
        &mut self,
        node: &Node,
        cells: &Cells,
        mut by: Option<Cast>,
        scope: &Scope<'_>,
    ) -> Result<Option<NodeEnum>, Refusal> {
        let mut inner = node;
        while let Some(NodeEnum::TypeCast(cast)) = &inner.node {
            let (Some(name), Some(arg)) = (&cast.type_name, &cast.arg) else {
                return Ok(None);
            };
            if !is_open(arg) {
                return Ok(None);
            }
            // A cast to encdb's own type without a limit says nothing more; several would be taken
            // in turn.
            if cast_cells(cast, scope).is_none() || !name.typmods.is_empty() {
                let read = Cast::read(name, cells.is_array)?;
                if by.replace(read).is_some_and(|by| by != read) {
                    return Err(Refusal::Cast("several types".to_owned()));
                }
            }
            inner = arg;
        }
        match &inner.node {
            Some(NodeEnum::ParamRef(parameter)) => {
                self.sealed_parameter(parameter.number, cells, by)?;
                Ok(inner.node.clone())
            }
            Some(NodeEnum::AConst(literal)) if !literal.isnull => {
                self.literal(literal, cells, by).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn operator(&mut self, operator: &mut AExpr, scope: &Scope<'_>) -> Result<(), Refusal> {
        let name = last_name(&operator.name).to_owned();
        let of_array = matches!(
            AExprKind::try_from(operator.kind),
            Ok(AExprKind::AexprOpAny | AExprKind::AexprOpAll)
        );
        let computes = operator.kind == AExprKind::AexprOp as i32 && !compares(operator);
        let used = match of_array {
            true => Use::Other,
            false if computes => Use::Computed,
            false => Use::Compared,
        };
        let is_ordering = !of_array && orders(operator);
        let is_equality = is_ordering && matches!(&*name, "=" | "<>");
        let (Some(left), Some(right)) = (&mut operator.lexpr, &mut operator.rexpr) else {
            let both = [&mut operator.lexpr, &mut operator.rexpr];
            return self.walk_all(both.into_iter().flatten().map(Box::as_mut), scope);
        };
        if is_row(left) || is_row(right) {
            return self.rows(left, right, scope);
        }
        if let Some(NodeEnum::List(list)) = &mut right.node {
            let all: Vec<_> = std::iter::once(left.as_mut())
                .chain(&mut list.items)
                .collect();
            return match self.cells_elsewhere(&all).filter(|_| is_equality) {
                Some(cells) => self.group_with(all, &Met::Cells(cells), scope),
                None => self.compared(all, scope),
            };
        }
        let both = [&*left, &*right].map(|side| deciding(side, scope));
        let kinds = match both.iter().any(Kind::is_encrypted) {
            true => both,
            false => [&*left, &*right].map(|side| kind_of(Some(side), scope)),
        };
        if is_ordering && self.beside_server(left, right, &kinds, scope)? {
            return Ok(());
        }
        match kinds {
            [Kind::Cell(cells), Kind::Cell(_)] if !of_array || cells.is_array => {
                self.walk(left, scope)?;
                self.walk(right, scope)
            }
            [Kind::Cell(cells), _] => {
                let met = if of_array {
                    cells.array()
                } else {
                    met_by(&name, &cells, right)
                };
                self.seal_operand(right, (&cells, &met), (&name, used), scope)?;
                self.walk(left, scope)
            }
            [_, Kind::Cell(cells)] => {
                let met = match of_array {
                    true => cells.element(),
                    false => met_before(&name, &cells, left),
                };
                self.seal_operand(left, (&cells, &met), (&name, used), scope)?;
                self.walk(right, scope)
            }
            _ if computes => self.group(vec![left, right], scope),
            _ => {
                let both: Vec<&mut Node> = vec![left, right];
                match self.cells_elsewhere(&both).filter(|_| is_equality) {
                    Some(cells) => self.group_with(both, &Met::Cells(cells), scope),
                    None => self.compared(both, scope),
                }
            }
        }
    }

    /// Goes through what an operator takes beside cells, and the cells that it is then. An interval
    /// that a date or a time is moved by is plain, unless the statement encrypts the same one.
    fn seal_operand(
        &mut self,
        node: &mut Node,
        (beside, met): (&Cells, &Cells),
        (operator, used): (&str, Use),
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        if beside.ty.is_some_and(is_time) && matches!(operator, "+" | "-") && is_interval(node) {
            return self.loosely(|this| this.walk(node, scope));
        }
        match self.fold(node, met, used)? {
            true => Ok(()),
            false => self.assigning(false, |this| this.seal(node, met, scope)),
        }
    }

    /// Goes through `a + b` whose value meets these cells, or is cells.
    fn computed(
        &mut self,
        operator: &mut AExpr,
        cells: &Cells,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let name = last_name(&operator.name).to_owned();
        let sides = [&operator.lexpr, &operator.rexpr].map(|node| kind_of(node.as_deref(), scope));
        let own = match Kind::common(sides) {
            Kind::Cell(own) => own,
            _ => cells.clone(),
        };
        let both = [&mut operator.lexpr, &mut operator.rexpr];
        for side in both.into_iter().flatten() {
            match kind_of(Some(side), scope) {
                Kind::Cell(_) => self.walk(side, scope)?,
                _ => {
                    let met = met_by(&name, &own, side);
                    self.seal_operand(side, (&own, &met), (&name, Use::Computed), scope)?;
                }
            }
        }
        Ok(())
    }

    /// Goes through what decides in a CASE: conditions, or values that are compared with one.
    pub(super) fn conditions(
        &mut self,
        case: &mut CaseExpr,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let mut values: Vec<&mut Node> = Vec::with_capacity(case.args.len() + 1);
        for when in &mut case.args {
            if let Some(NodeEnum::CaseWhen(when)) = &mut when.node {
                values.extend(when.expr.as_deref_mut());
            }
        }
        match case.arg.as_deref_mut() {
            None => self.loosely(|this| {
                let mut values = values.into_iter();
                values.try_for_each(|it| this.condition(it, scope))
            }),
            Some(compared) => {
                values.push(compared);
                self.compared(values, scope)
            }
        }
    }

    /// Goes through a subquery, and what is compared with its columns.
    fn subquery(&mut self, link: &mut SubLink, scope: &Scope<'_>) -> Result<(), Refusal> {
        let output = subquery_output(link, scope);
        let Some(test) = link.testexpr.as_deref_mut() else {
            return self.query_of(link, &[], scope);
        };
        let tested: Vec<&mut Node> = match &mut test.node {
            Some(NodeEnum::RowExpr(row)) => row.args.iter_mut().collect(),
            _ => vec![test],
        };
        let given = output.kinds().filter(|kinds| kinds.len() == tested.len());
        let unknown = || vec![Kind::computed([output.any()]); tested.len()];
        let given = given.unwrap_or_else(unknown);
        let mut wanted = Vec::with_capacity(given.len());
        for (test, given) in tested.into_iter().zip(&given) {
            let met = Met::of_all(&[kind_of(Some(test), scope), given.clone()]);
            self.loosely(|this| this.group_with(vec![test], &met, scope))?;
            wanted.push(met);
        }
        self.query_of(link, &wanted, scope)
    }

    fn query_of(
        &mut self,
        link: &mut SubLink,
        wanted: &[Met],
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        match link.subselect.as_deref_mut() {
            Some(query) => self.query(query, wanted, scope),
            None => Ok(()),
        }
    }
}

/// Returns what expressions meet whose values meet each other.
fn met_in(nodes: &[&mut Node], scope: &Scope<'_>) -> Met {
    let deciding = Kind::common(nodes.iter().map(|node| deciding(node, scope)));
    let kinds = nodes.iter().map(|node| kind_of(Some(node), scope));
    let common = match deciding.is_encrypted() {
        true => deciding,
        false => Kind::common(kinds),
    };
    match Met::of(&common) {
        met if met.is_plain() => match nodes.iter().any(|node| has_plain(node, scope)) {
            true => Met::Plain,
            false => Met::Nothing,
        },
        met => met,
    }
}

/// Returns the kind by which an expression decides what it meets. A literal that is cast to encdb's
/// own type takes the key of what it meets, if that is of the same type.
fn deciding(node: &Node, scope: &Scope<'_>) -> Kind {
    let is_cast_literal = matches!(&node.node, Some(NodeEnum::TypeCast(cast))
        if is_open(node) && cast_cells(cast, scope).is_some());
    match is_cast_literal {
        true => Kind::Open,
        false => kind_of(Some(node), scope),
    }
}

/// Returns the results of a CASE.
pub(super) fn results(case: &mut CaseExpr) -> Vec<&mut Node> {
    let mut results: Vec<&mut Node> = Vec::with_capacity(case.args.len() + 1);
    for when in &mut case.args {
        if let Some(NodeEnum::CaseWhen(when)) = &mut when.node {
            results.extend(when.result.as_deref_mut());
        }
    }
    results.extend(case.defresult.as_deref_mut());
    results
}

/// Whether an expression is the server's clock or one of its names. The client's clock is not that
/// of the server's transaction, so it is not put in its place.
fn is_servers(node: &NodeEnum) -> bool {
    match node {
        NodeEnum::SqlvalueFunction(_) => true,
        NodeEnum::FuncCall(call) => CLOCK.contains(&builtin_name(call)),
        NodeEnum::TypeCast(cast) => {
            let arg = cast.arg.as_deref().and_then(|arg| arg.node.as_ref());
            arg.is_some_and(is_servers)
        }
        _ => false,
    }
}

fn computes(operator: &AExpr) -> bool {
    let is_plain = operator.kind == AExprKind::AexprOp as i32;
    let name = last_name(&operator.name);
    operator.kind == AExprKind::AexprNullif as i32
        || is_plain && super::kind::COMPUTING.contains(&name)
}

/// Returns the cells that an operator takes before these.
fn met_before(operator: &str, cells: &Cells, other: &Node) -> Cells {
    match cells.ty {
        Some(Type::Interval) => met_by(operator, cells, other),
        _ => cells.clone(),
    }
}

/// Returns the cells that an operator takes beside these: a date is moved by a number of days, a
/// time by an interval, and an interval is multiplied by a number.
fn met_by(operator: &str, cells: &Cells, other: &Node) -> Cells {
    let ty = match &other.node {
        Some(NodeEnum::AConst(it)) => {
            matches!(it.val, Some(a_const::Val::Ival(_))).then_some(Type::Int4)
        }
        Some(NodeEnum::TypeCast(cast)) => {
            let by = cast.type_name.as_ref().map(|it| Cast::read(it, false));
            by.and_then(Result::ok).map(Cast::ty)
        }
        _ => constant_type(other),
    };
    match (operator, cells.ty, ty) {
        ("+" | "-", Some(Type::Date), Some(Type::Int4)) => cells.of(Type::Int4),
        ("+", Some(Type::Date), None) => cells.of(Type::Int4),
        ("+" | "-", Some(time), Some(Type::Interval)) if is_time(time) => cells.of(Type::Interval),
        ("+", Some(Type::Interval), Some(time)) if is_time(time) => cells.of(time),
        ("*" | "/", Some(Type::Interval), _) => cells.of(Type::Float8),
        _ => cells.clone(),
    }
}
