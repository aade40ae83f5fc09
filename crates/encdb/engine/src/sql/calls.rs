//! Calls of functions: whose functions they are, and which are of text.

use pg_query::protobuf::FuncCall;

use super::scope::{last_name, name_of, Scope};

/// Functions of encdb whose first argument is text, and whose others are text or count.
pub(super) const OF_TEXT: [&str; 26] = [
    "left",
    "right",
    "lower",
    "upper",
    "initcap",
    "reverse",
    "repeat",
    "lpad",
    "rpad",
    "substr",
    "substring",
    "length",
    "char_length",
    "like_escape",
    "similar_to_escape",
    "concat",
    "concat_ws",
    "string_agg",
    "btrim",
    "ltrim",
    "rtrim",
    "position",
    "strpos",
    "replace",
    "split_part",
    "starts_with",
];

/// Returns the name of a function of PostgreSQL or of encdb; empty: it is of another schema.
pub(super) fn builtin_name(call: &FuncCall) -> &str {
    match call.funcname.as_slice() {
        [name] => name_of(name),
        [schema, name] if matches!(name_of(schema), Some("pg_catalog" | "encdb")) => name_of(name),
        _ => None,
    }
    .unwrap_or_default()
}

/// Whether a function is one of encdb's, a cast to a type with cells, or gives something encrypted.
pub(super) fn is_own(call: &FuncCall, scope: &Scope<'_>) -> bool {
    let mut names = call.funcname.iter().filter_map(name_of);
    names.any(|it| it == "encdb") || scope.catalog().is_encrypted_name(last_name(&call.funcname))
}
