//! Comparisons of literals with each other, which the answer represents: an application that leaves
//! a search open writes `'ada' = '' OR name = 'ada'`. So the server does not see the literal. The
//! answer is `1 = 1` or `1 = 0`, which a result has under the same name.

use pg_query::protobuf::{a_const, AConst, AExpr, AExprKind, Integer, Node};
use pg_query::NodeEnum;

use super::scope::last_name;

/// A literal whose type is certain. Text is equal byte by byte, in every collation of a literal.
#[derive(PartialEq, Eq)]
enum Known<'n> {
    Text(&'n str),
    Number(i32),
}

/// Returns a comparison with the same answer as one of literals of one type, by `=` or `<>`; none
/// for any other operator.
pub(super) fn folded(operator: &AExpr) -> Option<AExpr> {
    let answer = answer(operator)?;
    let number = |ival| {
        let val = Some(a_const::Val::Ival(Integer { ival }));
        let literal = AConst {
            val,
            ..AConst::default()
        };
        Box::new(Node {
            node: Some(NodeEnum::AConst(literal)),
        })
    };
    let equals = Node {
        node: Some(NodeEnum::String(pg_query::protobuf::String {
            sval: "=".to_owned(),
        })),
    };
    Some(AExpr {
        kind: AExprKind::AexprOp.into(),
        name: vec![equals],
        lexpr: Some(number(1)),
        rexpr: Some(number(i32::from(answer))),
        location: operator.location,
        ..AExpr::default()
    })
}

/// Whether two comparisons have the same operands.
pub(super) fn is_same(one: &AExpr, other: &AExpr) -> bool {
    let value = |node: &Option<Box<Node>>| match node.as_deref().map(|it| &it.node) {
        Some(Some(NodeEnum::AConst(literal))) => literal.val.clone(),
        _ => None,
    };
    let parts = |it: &AExpr| (it.name == other.name, value(&it.lexpr), value(&it.rexpr));
    parts(one) == parts(other)
}

fn answer(operator: &AExpr) -> Option<bool> {
    let [name] = operator.name.as_slice() else {
        return None;
    };
    let equals = match last_name(std::slice::from_ref(name)) {
        "=" => true,
        "<>" => false,
        _ => return None,
    };
    let left = known(operator.lexpr.as_deref()?)?;
    let right = operator.rexpr.as_deref()?;
    let all = match (AExprKind::try_from(operator.kind).ok()?, &right.node) {
        (AExprKind::AexprOp, _) => vec![known(right)?],
        (AExprKind::AexprIn, Some(NodeEnum::List(list))) => {
            list.items.iter().map(known).collect::<Option<_>>()?
        }
        _ => return None,
    };
    let kind = std::mem::discriminant(&left);
    let is_one_type = all.iter().all(|it| std::mem::discriminant(it) == kind);
    is_one_type.then(|| all.contains(&left) == equals)
}

fn known(node: &Node) -> Option<Known<'_>> {
    match node.node.as_ref()? {
        NodeEnum::AConst(literal) if !literal.isnull => match literal.val.as_ref()? {
            a_const::Val::Sval(text) => Some(Known::Text(&text.sval)),
            a_const::Val::Ival(number) => Some(Known::Number(number.ival)),
            _ => None,
        },
        // Text stays what it is.
        NodeEnum::TypeCast(cast) => {
            let name = cast.type_name.as_ref()?;
            let is_text = matches!(last_name(&name.names), "text" | "varchar")
                && name.typmods.is_empty()
                && name.array_bounds.is_empty();
            let inner = known(cast.arg.as_deref()?)?;
            (is_text && matches!(inner, Known::Text(_))).then_some(inner)
        }
        _ => None,
    }
}
