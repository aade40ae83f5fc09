//! The fractions of `percentile_cont` and `percentile_disc`, which are plain numbers everywhere. A
//! literal that is none, because it is below 0 or above 1, may be a value of the column.

use pg_query::protobuf::{a_const, FuncCall, Node, TypeCast};
use pg_query::NodeEnum;

use super::calls::builtin_name;
use super::scope::last_name;

/// Types that a fraction is cast to.
const NUMBERS: [&str; 4] = ["float8", "float4", "numeric", "int4"];

/// Whether a call is of a percentile of one expression, and says its fractions as numbers or as
/// parameters that are certainly numbers.
pub(super) fn has_fractions(call: &FuncCall) -> bool {
    let is_alone = call.agg_order.len() == 1 && !call.func_variadic;
    let is_it = matches!(call.args.as_slice(), [one] if is_fractions(one));
    is_percentile(call) && is_alone && is_it
}

/// Whether a call is of a percentile, and has one number as its fraction.
pub(super) fn has_one_fraction(call: &FuncCall) -> bool {
    is_percentile(call) && matches!(call.args.as_slice(), [one] if is_number(one))
}

fn is_percentile(call: &FuncCall) -> bool {
    let name = builtin_name(call);
    call.agg_within_group && matches!(name, "percentile_cont" | "percentile_disc")
}

fn is_number(node: &Node) -> bool {
    match &node.node {
        Some(NodeEnum::AConst(literal)) => match &literal.val {
            Some(a_const::Val::Ival(number)) => matches!(number.ival, 0 | 1),
            Some(a_const::Val::Fval(number)) => is_fraction(&number.fval),
            _ => false,
        },
        _ => false,
    }
}

fn is_fraction(text: &str) -> bool {
    let is_digits = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_digits && matches!(text.parse::<f64>(), Ok(number) if number <= 1.0)
}

fn is_fractions(node: &Node) -> bool {
    match &node.node {
        Some(NodeEnum::AArrayExpr(array)) => array.elements.iter().all(is_fractions),
        Some(NodeEnum::TypeCast(cast)) => is_cast_of_fractions(cast),
        _ => is_number(node),
    }
}

/// Whether a cast leads to numbers: from a number, a parameter, or the text of an array of numbers.
fn is_cast_of_fractions(cast: &TypeCast) -> bool {
    let name = cast.type_name.as_ref();
    let name = name.map_or("", |name| last_name(&name.names));
    let Some(arg) = cast.arg.as_deref() else {
        return false;
    };
    let is_written = match &arg.node {
        Some(NodeEnum::ParamRef(_)) => true,
        Some(NodeEnum::AConst(literal)) => match &literal.val {
            Some(a_const::Val::Sval(text)) => is_array_of_numbers(&text.sval),
            _ => is_number(arg),
        },
        _ => is_fractions(arg),
    };
    is_written && NUMBERS.contains(&name)
}

fn is_array_of_numbers(text: &str) -> bool {
    let mut all = text
        .split(['{', '}', ',', ' '])
        .filter(|part| !part.is_empty());
    all.all(is_fraction)
}
