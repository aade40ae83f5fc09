//! Functions: which of their arguments are encrypted.

use pg_query::protobuf::{a_const, CoercionForm, FuncCall, Node, String as Text};
use pg_query::NodeEnum;
use pgseal_client::Type;
use pgseal_value::{Field, Format, NamedZone, NumberFormat};

use super::calls::{builtin_name, is_own, OF_TEXT};
use super::code;
use super::expression::Met;
use super::fraction::has_fractions;
use super::kind::{common_of, kind_of};
use super::parts::{has_open, has_plain};
use super::scope::{last_name, Kind, Scope};
use super::Rewriter;
use crate::catalog::Cells;
use crate::refusal::Refusal;

/// Functions whose second argument counts, rows or decimals, and whose third is a value like the
/// first.
const COUNTING: [&str; 5] = ["lag", "lead", "nth_value", "round", "trunc"];

impl Rewriter<'_> {
    /// Goes through a call.
    pub(super) fn function(
        &mut self,
        call: &mut FuncCall,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let name = last_name(&call.funcname).to_owned();
        // The scan of the text has not seen a name with escapes.
        let called = code::of_name(&name);
        if let Some(called) = called.filter(|_| call.args.iter().any(|it| has_open(it, scope))) {
            return Err(Refusal::Code(called));
        }
        let known = scope.catalog().function(&name);
        let names_arguments = call.func_variadic
            || call
                .args
                .iter()
                .any(|it| matches!(it.node, Some(NodeEnum::NamedArgExpr(_))));
        match known {
            [] => self.arguments(call, scope)?,
            [arguments] if arguments.len() == call.args.len() && !names_arguments => {
                for (value, cells) in call.args.iter_mut().zip(arguments) {
                    let met = match cells {
                        None => Met::Plain,
                        Some(cells) if cells.is_mixed => Met::Unknown,
                        Some(cells) => Met::Cells(cells.clone()),
                    };
                    self.grouping(false, |this| this.meet(value, &met, scope))?;
                }
            }
            _ => self.nothing_open(&mut call.args, "an argument of a function", scope)?,
        }
        self.aggregate(call, scope)
    }

    /// Goes through the order, the filter and the window of an aggregate.
    fn aggregate(&mut self, call: &mut FuncCall, scope: &Scope<'_>) -> Result<(), Refusal> {
        let is_encrypted = common_of(&call.agg_order, scope).is_encrypted();
        let compares = call.agg_within_group && is_encrypted && !has_fractions(call);
        if compares && call.args.iter().any(|it| has_open(it, scope)) {
            return Err(Refusal::Undecided(
                "an argument of an aggregate within a group",
            ));
        }
        self.walk_all(&mut call.agg_order, scope)?;
        self.optional_condition(&mut call.agg_filter, scope)?;
        match call.over.as_deref_mut() {
            Some(window) => self.window(window, scope),
            None => Ok(()),
        }
    }

    /// Goes through the arguments of a function of encdb, or of PostgreSQL.
    fn arguments(&mut self, call: &mut FuncCall, scope: &Scope<'_>) -> Result<(), Refusal> {
        let name = builtin_name(call).to_owned();
        let of_time = is_plain_of_time(&name, call.args.first())
            && matches!(kind_of(call.args.get(1), scope), Kind::Cell(_));
        if is_own(call, scope) && !of_time {
            let what =
                "an argument of a function of encdb, or of one that works with encrypted values";
            return self.nothing_open(&mut call.args, what, scope);
        }
        if has_fractions(call) {
            return self.anchored(|this| this.walk_all(&mut call.args, scope));
        }
        match (
            kind_of(call.args.first(), scope),
            common_of(&call.args, scope),
        ) {
            (Kind::Cell(cells), _) if OF_TEXT.contains(&name.as_str()) => {
                self.text_function(call, &cells, scope)
            }
            (_, Kind::Cell(cells))
                if matches!(name.as_str(), "concat" | "concat_ws")
                    && cells.ty == Some(Type::Text) =>
            {
                self.text_function(call, &cells, scope)
            }
            (Kind::Cell(cells), _) if COUNTING.contains(&name.as_str()) => {
                let (first, rest) = call.args.split_at_mut(1);
                self.walk_all(first, scope)?;
                let (count, value) = rest.split_at_mut(rest.len().min(1));
                self.counts(count, true, scope)?;
                self.columns(value.iter_mut(), &[Met::Cells(cells)], scope)
            }
            (Kind::Cell(cells), _) if name == "to_char" && has_format(call, &cells) => {
                let (time, format) = call.args.split_at_mut(1);
                self.walk_all(time, scope)?;
                self.anchored(|this| this.walk_all(format, scope))
            }
            (_, Kind::Cell(_)) if name == "age" => {
                self.group(call.args.iter_mut().collect(), scope)?;
                self.call_own(call);
                Ok(())
            }
            (_, all) if all.is_encrypted() => {
                let is_plain = is_plain_of_time(&name, call.args.first());
                self.call_timezone(call, scope);
                let (plain, others) = call.args.split_at_mut(usize::from(is_plain));
                // A literal within an argument that is cells is sealed there.
                let meets = |it: &Node| {
                    has_open(it, scope) && !matches!(kind_of(Some(it), scope), Kind::Cell(_))
                };
                if others.iter().any(meets) {
                    return Err(Refusal::Function(last_name(&call.funcname).to_owned()));
                }
                self.anchored(|this| this.walk_all(plain, scope))?;
                self.walk_all(others, scope)
            }
            _ => match call.args.iter().any(|it| has_plain(it, scope)) {
                true => self.anchored(|this| this.walk_all(&mut call.args, scope)),
                false => self.walk_all(&mut call.args, scope),
            },
        }
    }

    /// Makes `c AT TIME ZONE zone` a call of the extension's function, which the parser does not
    /// find: it calls `pg_catalog.timezone`.
    fn call_timezone(&mut self, call: &mut FuncCall, scope: &Scope<'_>) {
        let of_cells = call.args.get(1);
        let of_cells = of_cells.is_some_and(|it| matches!(kind_of(Some(it), scope), Kind::Cell(_)));
        if of_cells && builtin_name(call) == "timezone" {
            self.call_own(call);
        }
    }

    /// Makes a call one of the extension's function of this name. It is in the schema `encdb`, so
    /// that calls of PostgreSQL's with literals alone have one candidate.
    fn call_own(&mut self, call: &mut FuncCall) {
        let name = |name: &str| Node {
            node: Some(NodeEnum::String(Text {
                sval: name.to_owned(),
            })),
        };
        call.funcname = vec![name("encdb"), name(builtin_name(call))];
        call.funcformat = CoercionForm::CoerceExplicitCall.into();
        self.is_changed = true;
    }

    /// Goes through `substr(c, 1, 2)`, `replace(c, 'a', 'b')` and their like: the first arguments
    /// are text, the others count. `LIKE ... ESCAPE` and `SIMILAR TO` are such calls, too.
    pub(super) fn text_function(
        &mut self,
        call: &mut FuncCall,
        cells: &Cells,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        let name = last_name(&call.funcname);
        // The second argument of `substring` may be a pattern.
        let escapes = matches!(name, "like_escape" | "similar_to_escape");
        let counts = name != "substring";
        let pads = matches!(name, "lpad" | "rpad");
        // With a plain value PostgreSQL's own is called, which joins the digits of cells.
        let joins = matches!(name, "concat" | "concat_ws");
        let is_cells = |it: &Node| matches!(kind_of(Some(it), scope), Kind::Cell(_));
        let has_plain = call
            .args
            .iter()
            .any(|it| !has_open(it, scope) && !is_cells(it));
        let meets = call
            .args
            .iter()
            .any(|it| has_open(it, scope) && !is_cells(it));
        if joins && has_plain && meets {
            return Err(Refusal::Function(name.to_owned()));
        }
        let texts = call.args.len().min(1 + texts_beside(name));
        let (texts, rest) = call.args.split_at_mut(texts);
        for text in texts {
            match kind_of(Some(text), scope) {
                Kind::Cell(_) => self.walk(text, scope)?,
                _ => self.seal(text, &cells.of(Type::Text), scope)?,
            }
        }
        let (numbers, fill) = match pads {
            true => rest.split_at_mut(rest.len().min(1)),
            false => (rest, &mut [][..]),
        };
        match escapes {
            true => self.escape(numbers, scope)?,
            false => self.counts(numbers, counts, scope)?,
        }
        self.escape(fill, scope)?;
        if joins && !has_plain {
            self.call_own(call);
        }
        Ok(())
    }

    /// Goes through the character that escapes in a pattern, or fills, or none. It is no secret.
    fn escape(&mut self, arguments: &mut [Node], scope: &Scope<'_>) -> Result<(), Refusal> {
        let is_character = |node: &Node| match &node.node {
            Some(NodeEnum::AConst(literal)) => match &literal.val {
                Some(a_const::Val::Sval(text)) => text.sval.chars().count() <= 1,
                _ => false,
            },
            _ => false,
        };
        match arguments.iter().all(is_character) {
            true => self.walk_all(arguments, scope),
            false => Err(Refusal::Expression),
        }
    }

    /// Goes through arguments that count, which are no secret: whole numbers, and parameters if
    /// they certainly count.
    fn counts(
        &mut self,
        arguments: &mut [Node],
        parameters: bool,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        for argument in arguments {
            let met = match counts(argument, parameters) {
                true => Met::Plain,
                false => Met::Unknown,
            };
            self.meet(argument, &met, scope)?;
        }
        Ok(())
    }

    /// Goes through expressions of which none may have a literal or a parameter.
    pub(super) fn nothing_open(
        &mut self,
        nodes: &mut [Node],
        what: &'static str,
        scope: &Scope<'_>,
    ) -> Result<(), Refusal> {
        match nodes.iter().any(|it| has_open(it, scope)) {
            true => Err(Refusal::Undecided(what)),
            false => self.walk_all(nodes, scope),
        }
    }
}

/// How many texts a function of text has beside the first one.
fn texts_beside(function: &str) -> usize {
    match function {
        "btrim" | "ltrim" | "rtrim" | "position" | "strpos" | "split_part" | "starts_with" => 1,
        "string_agg" => 1,
        "replace" => 2,
        "concat" | "concat_ws" => usize::MAX - 1,
        _ => 0,
    }
}

/// Returns the text of a literal.
fn literal_text(argument: &Node) -> Option<&str> {
    match &argument.node {
        Some(NodeEnum::AConst(literal)) => match &literal.val {
            Some(a_const::Val::Sval(text)) => Some(&text.sval),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the first argument of `extract`, `date_part`, `date_trunc` and `AT TIME ZONE` is the
/// name of a field or a zone, which is no secret.
pub(super) fn is_plain_of_time(function: &str, argument: Option<&Node>) -> bool {
    let Some(text) = argument.and_then(literal_text) else {
        return false;
    };
    let is_it = |field: &Field| field.name().eq_ignore_ascii_case(text);
    match function {
        "extract" | "date_part" | "date_trunc" => Field::ALL.iter().any(is_it),
        "timezone" => NamedZone::of_database(text).is_some(),
        _ => false,
    }
}

/// Whether a call of `to_char` has a number or a time, and a format of its kind with nothing but
/// keywords and what separates them.
fn has_format(call: &FuncCall, cells: &Cells) -> bool {
    let [_, format] = call.args.as_slice() else {
        return false;
    };
    let is_number = cells.ty.is_some_and(Type::is_number);
    let is_bare = |format| match is_number {
        true => NumberFormat::new(format).is_ok_and(|it| it.is_bare()),
        false => Format::new(format).is_ok_and(|it| it.is_bare()),
    };
    !call.func_variadic && literal_text(format).is_some_and(is_bare)
}

/// Whether an argument is a whole number, or a parameter that is one.
fn counts(argument: &Node, parameters: bool) -> bool {
    match &argument.node {
        Some(NodeEnum::ParamRef(_)) => parameters,
        Some(NodeEnum::AConst(literal)) => matches!(literal.val, Some(a_const::Val::Ival(_))),
        Some(NodeEnum::TypeCast(cast)) => {
            let ty = cast
                .type_name
                .as_ref()
                .map_or("", |it| last_name(&it.names));
            let is_whole = matches!(ty, "int2" | "int4" | "int8");
            // The cast says that it counts.
            is_whole && cast.arg.as_deref().is_some_and(|it| counts(it, true))
        }
        _ => false,
    }
}
