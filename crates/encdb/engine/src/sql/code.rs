//! Bodies of code, which are literals to the parser: `DO`, functions and procedures.
//!
//! A body is sent if nothing of it can meet an encrypted column: it is in SQL or PL/pgSQL, runs no
//! text as a statement, and has no word, not even within a string, that is the name of something
//! encrypted. All other bodies with literals are refused.

use pg_query::protobuf::{DefElem, Node};
use pg_query::NodeEnum;
use pgseal_client::Statement;

use super::scope::name_of;
use crate::catalog::{Catalog, Reach};
use crate::refusal::Refusal;

/// Functions that run a text as a statement, by the beginning of their names.
const OF_CODE: [&str; 5] = [
    "query_to_xml",
    "ts_stat",
    "ts_rewrite",
    "dblink",
    "crosstab",
];

/// Refuses a text with code of which nothing says what it does with the literals in it.
pub(super) fn check(
    text: &str,
    statements: &[Statement<'_>],
    catalog: &Catalog,
) -> Result<(), Refusal> {
    for statement in statements {
        let values = || statement.has_literals() || statement.parameters() > 0;
        if let Some(called) = of_code(statement).filter(|_| values()) {
            return Err(Refusal::Code(called));
        }
    }
    let code = statements.iter().find_map(|statement| {
        let code = statement.runs_code().filter(|_| statement.has_literals());
        code.filter(|it| !matches!(*it, "CALL" | "EXECUTE"))
    });
    match code.filter(|_| !is_apart(text, catalog)) {
        Some(code) => Err(Refusal::Code(code)),
        None => Ok(()),
    }
}

/// The words with which a statement with values begins.
const VERBS: [&str; 22] = [
    "select", "insert", "update", "delete", "merge", "with", "values", "prepare", "execute",
    "copy", "call", "do", "create", "alter", "explain", "begin", "start", "set", "declare",
    "truncate", "lock", "comment",
];
/// The part of a value in which its first word is looked for, in bytes.
const HEAD: usize = 4096;

/// Refuses a text that has a statement in a string, which a function may run.
pub(super) fn check_strings(text: &str, catalog: &Catalog) -> Result<(), Refusal> {
    let strings = text.contains(['\'', '$']).then(|| Statement::strings(text));
    let mut strings = strings.iter().flatten();
    match strings.any(|string| is_statement(string.as_bytes(), catalog)) {
        true => Err(Refusal::Text),
        false => Ok(()),
    }
}

/// Whether a value is itself a statement that has literals and names something encrypted: the
/// server would see them if a function runs it, and if it is stored.
pub(crate) fn is_statement(value: &[u8], catalog: &Catalog) -> bool {
    if !may_begin(value) {
        return false;
    }
    let head = String::from_utf8_lossy(&value[..value.len().min(HEAD)]);
    let word = Statement::new(&head).names_in_order().next();
    if !word.is_some_and(|word| VERBS.contains(&word.as_str())) {
        return false;
    }
    let text = String::from_utf8_lossy(value);
    let statement = Statement::new(&text);
    let names = || catalog.concerns(&statement) || names_encrypted(&text, catalog);
    statement.has_literals() && names() && pg_query::parse(&text, 0).is_ok()
}

/// Whether a string, as it is in a text, may have a statement in it, as its first bytes tell.
pub(super) fn may_have_statement(string: &str) -> bool {
    let has_escapes = string.starts_with(['e', 'E', 'u', 'U']) && string.contains('\\');
    let has_pieces = string.contains(['\n', '\r']) && string.matches('\'').count() > 2;
    let begin = match string.strip_prefix('$') {
        Some(rest) => rest.find('$').map(|end| end + 2),
        None => string.find('\'').map(|quote| quote + 1),
    };
    let inner = begin.and_then(|begin| string.get(begin..));
    has_escapes || has_pieces || inner.is_none_or(|inner| may_begin(inner.as_bytes()))
}

/// Whether a value may begin with a verb, as its first bytes tell: every parameter is asked.
fn may_begin(value: &[u8]) -> bool {
    let start = value.iter().position(|byte| *byte > b' ');
    let start = &value[start.unwrap_or(value.len())..];
    let letters = start.iter().take_while(|byte| byte.is_ascii_alphabetic());
    let word = &start[..letters.count()];
    match word {
        [] => matches!(start.first(), Some(b'(' | b'-' | b'/' | b';')),
        word => VERBS
            .iter()
            .any(|verb| word.eq_ignore_ascii_case(verb.as_bytes())),
    }
}

/// Whether a text has a word, be it in a string, that is the name of something encrypted.
pub(crate) fn names_encrypted(text: &str, catalog: &Catalog) -> bool {
    catalog.concerns(&Statement::new(&words(text)))
}

/// Returns the changes of names and of inheritance that bodies of a text may make, now or when they
/// are called.
pub(super) fn changed_in(text: &str, statements: &[Statement<'_>]) -> Vec<Reach> {
    let is_code = |it: &Statement<'_>| {
        let code = it.runs_code();
        code.is_some_and(|code| !matches!(code, "CALL" | "EXECUTE"))
    };
    if !statements.iter().any(is_code) {
        return Vec::new();
    }
    let words = words(text);
    let words = Statement::new(&words);
    let has = |names: &[&str]| names.iter().any(|name| words.names(name));
    let inherits = has(&["inherit", "inherits", "attach", "partition"]) || has(&["rename"]);
    let schemas = has(&["rename"]) && has(&["schema"]);
    let inherits = inherits.then_some(Reach::Inherited);
    inherits
        .into_iter()
        .chain(schemas.then_some(Reach::Schemas))
        .collect()
}

/// Returns the function of this name that runs a text as a statement.
pub(super) fn of_name(name: &str) -> Option<&'static str> {
    let may_be = name.starts_with(['q', 't', 'd', 'c']);
    let mut all = OF_CODE.into_iter().filter(|_| may_be);
    all.find(|code| name.starts_with(code))
}

/// Returns the function that a statement names and that runs a text as a statement.
fn of_code(statement: &Statement<'_>) -> Option<&'static str> {
    let begins = |code: &&str| statement.has_name(|name| name.starts_with(*code));
    let found = statement
        .has_name(|name| of_name(name).is_some())
        .then(|| OF_CODE.into_iter().find(begins));
    found.flatten()
}

/// Whether the bodies of a text have nothing to do with what is encrypted.
fn is_apart(text: &str, catalog: &Catalog) -> bool {
    let Ok(parsed) = pg_query::parse(text, 0) else {
        return false;
    };
    let words = words(text);
    let words = Statement::new(&words);
    if catalog.concerns(&words) || Statement::new(text).has_doubtful_name() {
        return false;
    }
    if has_rows(&words) && catalog.columns().any(|column| words.names(column)) {
        return false;
    }
    let nodes = parsed.protobuf.stmts.iter();
    let mut nodes = nodes.filter_map(|it| it.stmt.as_deref()?.node.as_ref());
    nodes.all(|node| match node {
        NodeEnum::DoStmt(code) => is_known(&code.args, "plpgsql"),
        NodeEnum::CreateFunctionStmt(it) => is_known(&it.options, "sql"),
        _ => true,
    })
}

/// Whether code may have rows of tables that it does not name: those of a trigger, of a cursor, or
/// of an argument of any type.
fn has_rows(words: &Statement<'_>) -> bool {
    let types = ["trigger", "event_trigger", "record", "refcursor"];
    let any = [
        "element",
        "array",
        "nonarray",
        "range",
        "multirange",
        "compatible",
    ];
    words.names_in_order().any(|word| {
        let is_any = || {
            any.iter()
                .any(|it| word.strip_prefix("any").is_some_and(|w| w.starts_with(it)))
        };
        types.contains(&word.as_str()) || word == "any" || is_any()
    })
}

/// Whether a body is in a language that is read here, and runs no text as a statement.
fn is_known(options: &[Node], default: &str) -> bool {
    let find = |name: &str| {
        options
            .iter()
            .filter_map(option)
            .find(|it| it.defname == name)
    };
    let language = find("language")
        .and_then(|it| it.arg.as_deref())
        .map(name_of);
    let language = language.unwrap_or(Some(default)).unwrap_or_default();
    let body = find("as").and_then(|it| it.arg.as_deref());
    let parts = match body.map(|it| &it.node) {
        Some(Some(NodeEnum::List(list))) => list.items.as_slice(),
        Some(Some(NodeEnum::String(_))) => body.map(std::slice::from_ref).unwrap_or_default(),
        // BEGIN ATOMIC, which is a part of the statement
        None => &[],
        Some(_) => return false,
    };
    let mut bodies = parts.iter().map(|it| name_of(it).unwrap_or_default());
    matches!(language, "sql" | "plpgsql") && !bodies.any(runs_text)
}

/// Whether a body may run a text as a statement, or hides names in signs.
fn runs_text(body: &str) -> bool {
    let words = words(body);
    let words = Statement::new(&words);
    words.names("execute") || of_code(&words).is_some() || Statement::new(body).names("")
}

fn option(node: &Node) -> Option<&DefElem> {
    match &node.node {
        Some(NodeEnum::DefElem(option)) => Some(option),
        _ => None,
    }
}

/// Returns all words of a text, those within its strings and comments too.
pub(super) fn words(text: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || !c.is_ascii();
    let words: Vec<&str> = text.split(|c| !is_part(c)).collect();
    words.join(" ")
}
