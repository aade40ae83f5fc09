//! Statements as they are sent: literals beside encrypted columns are sealed in the text, and
//! parameters are told apart.
//!
//! PostgreSQL's own parser reads a statement, and names are resolved as the server resolves them,
//! as far as encrypted columns are concerned. A literal or parameter is sealed if its value meets
//! such a column: compared with it, assigned to it, computed with it. It stays as it is if what it
//! meets is certainly plain. In between, the statement is refused: a server that computes with a
//! plain value sees it. So a new kind of statement or expression is refused until it is known here.

mod calls;
mod casting;
mod change;
mod code;
mod constant;
mod copy;
mod expression;
mod folding;
mod fraction;
mod function;
mod glance;
mod interval;
mod kind;
mod literal;
mod loose;
mod naming;
mod output;
mod parts;
mod placing;
mod query;
mod rows;
mod scope;
mod sealing;
mod servers;
mod utility;

use std::borrow::Cow;
use std::collections::HashMap;

use pg_query::protobuf::{
    a_const, AConst, DiscardMode, Node, ParseResult, RawStmt, String as Text, TypeCast,
};
use pg_query::NodeEnum;
use pgseal_client::{Statement, Type};
use pgseal_value::Value;

use crate::catalog::{Catalog, Cells, Definition, Reach};
use crate::copy::CopyRows;
use crate::literals::Literals;
use crate::refusal::Refusal;
use crate::times::Times;
use crate::values;
pub(crate) use code::{is_statement, names_encrypted};
pub use literal::{converted, value_of_text, Cast, Conversion};
use loose::Loose;
use scope::Scope;
use sealing::SameCells;

/// The use that a statement has for a parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Parameter {
    /// The statement does not use it.
    #[default]
    Unused,
    /// Nothing encrypted
    Plain,
    /// Nothing that is known, in a statement that seals others: it must be no value of theirs
    Loose,
    /// The same, where 0 and 1 are no values: the only result of a query, a result of CASE
    Mark,
    /// Nothing but the question whether it is null, and the type to which the statement cast it
    OnlyNull(Option<Cast>),
    /// Cells, and how the value becomes one for them
    Cells(Cells, Conversion),
}

/// A statement that has a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Its parameters, `$1` first.
    pub parameters: Vec<Parameter>,
    /// The literals of its text, from which loose parameters must differ.
    pub literals: Literals,
}

/// Statements of `PREPARE` by their names.
/// Two statements that were given one name are none: nobody knows which of them the server took.
pub type PreparedByName = HashMap<String, Option<Prepared>>;

/// The result of reading the text of one or several statements.
#[derive(Debug, Default)]
pub struct Analysis {
    /// The text to send; none if it is sent as it is.
    pub text: Option<String>,
    /// The parameters, `$1` first.
    pub parameters: Vec<Parameter>,
    /// The literals that are compared with parameters.
    pub literals: Literals,
    /// The statements that the text prepares by name.
    pub prepared: PreparedByName,
    /// The tables that it defines, with columns that are encrypted.
    pub defined: Vec<Definition>,
    /// The rows of each COPY from or to the driver, in order.
    pub copies: Vec<CopyRows>,
    /// Whether it has a name that is encrypted.
    pub concerns: bool,
}

/// The most parameters that a message of the protocol has.
const MAX_PARAMETERS: usize = 65_535;

/// Seals values.
pub trait Seal {
    /// Returns the cell of a value under a key, in binary.
    fn seal(&self, keyname: &str, value: &Value) -> Result<Vec<u8>, Refusal>;

    /// Returns the settings by which the session reads times.
    fn times(&self) -> Times {
        Times::default()
    }
}

/// Reads the text of a statement, or of several, and seals its literals.
pub fn analyze(
    text: &str,
    catalog: &Catalog,
    prepared: &PreparedByName,
    seal: &dyn Seal,
) -> Result<Analysis, Refusal> {
    match glance::is_apart(text, catalog) {
        true => Ok(Analysis::default()),
        false => read(text, catalog, prepared, seal),
    }
}

/// Reads a text of which one look does not tell that it is apart.
fn read(
    text: &str,
    catalog: &Catalog,
    prepared: &PreparedByName,
    seal: &dyn Seal,
) -> Result<Analysis, Refusal> {
    let statement = Statement::new(text);
    let statements = statement.split();
    if !catalog.is_empty() {
        code::check(text, &statements, catalog)?;
        code::check_strings(text, catalog)?;
    }
    // Nothing else uses a statement's name.
    let by_name = || {
        ["execute", "prepare", "deallocate"]
            .iter()
            .any(|it| statement.names(it))
    };
    let names_prepared = || by_name() && prepared.keys().any(|name| statement.names(name));
    // What was prepared before a table had encrypted columns is not known.
    let executes = |it: &Statement<'_>| it.runs_code() == Some("EXECUTE");
    let may_execute = || catalog.definitions() > 0 && statements.iter().any(executes);
    if !catalog.concerns(&statement) && !names_prepared() && !may_execute() {
        return Ok(Analysis {
            defined: unread(text, &statements, catalog),
            ..Analysis::default()
        });
    }
    if statement.has_doubtful_name() {
        return Err(Refusal::Undecided("a name with letters beyond ASCII"));
    }
    let mut rewriter = Rewriter::new(seal, prepared);
    let mut read = rewriter.run(text, catalog);
    while read.is_err() {
        let Some((number, cells)) = rewriter.torn.take() else {
            break;
        };
        let mut torn = std::mem::take(&mut rewriter.sealed_elsewhere);
        if torn.insert(number, cells).is_some() {
            break;
        }
        rewriter = Rewriter {
            sealed_elsewhere: torn,
            ..Rewriter::new(seal, prepared)
        };
        read = rewriter.run(text, catalog);
    }
    let mut tree = read?;
    let in_vain = rewriter.loose.cast_in_vain(&rewriter.analysis.parameters);
    if !in_vain.is_empty() {
        rewriter = Rewriter {
            bare_parameters: in_vain,
            sealed_elsewhere: rewriter.sealed_elsewhere,
            ..Rewriter::new(seal, prepared)
        };
        tree = rewriter.run(text, catalog)?;
    }
    if rewriter.seen_parameters < statement.parameters() {
        return Err(Refusal::Undecided("a parameter"));
    }
    if rewriter.is_changed {
        let text = pg_query::deparse(&tree, Default::default());
        rewriter.analysis.text = Some(text.map_err(|_| Refusal::Syntax)?);
    }
    Ok(rewriter.analysis)
}

/// The kind of a statement, by its first word.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kind {
    /// Whether it may be a `COPY`
    pub(crate) may_copy: bool,
    /// Whether the server plans it, and then refuses to run it (0A000) when its columns have
    /// changed. Others, such as EXECUTE, show what something else gives by now.
    pub(crate) has_fixed_result: bool,
    /// Whether it may deallocate statements
    pub(crate) may_deallocate: bool,
}

impl Kind {
    /// Returns the kind of a text.
    pub(crate) fn of(text: &[u8]) -> Self {
        const PLANNED: [&str; 6] = ["select", "with", "insert", "update", "delete", "merge"];
        let (first, rest) = text.split_at(letters(text));
        let is_word = !first.is_empty() && rest.first().is_some_and(|next| *next == b' ');
        // Most texts begin with it.
        let all = match is_word {
            true => String::from_utf8_lossy(first),
            false => String::from_utf8_lossy(text),
        };
        let word = Statement::first_word_of(&all).unwrap_or_default();
        let is_one = |words: &[&str]| words.iter().any(|it| word.eq_ignore_ascii_case(it));
        Self {
            may_copy: is_one(&["copy"]),
            has_fixed_result: is_one(&PLANNED),
            may_deallocate: is_one(&["deallocate", "discard"]),
        }
    }
}

/// Whether a text has a statement that may commit by itself, in a procedure or a block.
pub(crate) fn may_commit(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let is_it = |it: &Statement<'_>| matches!(it.runs_code(), Some("DO" | "CALL"));
    Statement::new(&text).split().iter().any(is_it)
}

/// Returns the number of letters with which a text begins.
fn letters(text: &[u8]) -> usize {
    let letters = text.iter().take_while(|byte| byte.is_ascii_alphabetic());
    letters.count()
}

/// Returns the name of the statement that a `DEALLOCATE` names, if the text is nothing else; empty:
/// all, as after `DISCARD ALL`. Of texts of other [`Kind`]s it returns none.
pub(crate) fn deallocated(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let tree = pg_query::parse(text, 0).ok()?.protobuf;
    let [only] = tree.stmts.as_slice() else {
        return None;
    };
    match &only.stmt.as_deref()?.node {
        Some(NodeEnum::DeallocateStmt(it)) if it.isall => Some(String::new()),
        Some(NodeEnum::DeallocateStmt(it)) => Some(it.name.clone()),
        Some(NodeEnum::DiscardStmt(it)) if it.target() == DiscardMode::DiscardAll => {
            Some(String::new())
        }
        _ => None,
    }
}

/// Returns the changes of statements that name nothing encrypted and so are not read: names of
/// schemas, and inheritance between tables.
fn unread(text: &str, statements: &[Statement<'_>], catalog: &Catalog) -> Vec<Definition> {
    let changed = |statement: &Statement<'_>| {
        let begins = |word: &str| {
            let first = statement.first_word();
            first.is_some_and(|first| first.eq_ignore_ascii_case(word))
        };
        let has = |words: &[&str]| words.iter().any(|word| statement.names(word));
        let renames = begins("alter") && has(&["rename"]);
        match () {
            () if renames && has(&["schema"]) => Some(Reach::Schemas),
            () if renames && catalog.has_children() => Some(Reach::Inherited),
            () if begins("alter") && has(&["inherit", "attach"]) => Some(Reach::Inherited),
            () if begins("create") && has(&["inherits", "partition"]) => Some(Reach::Inherited),
            () => None,
        }
    };
    if catalog.is_empty() {
        return Vec::new();
    }
    let changes = statements.iter().filter_map(changed);
    let in_code = code::changed_in(text, statements);
    changes.chain(in_code).map(Definition::of_all).collect()
}

/// Goes through a statement, changes it, and notes what its parameters are.
struct Rewriter<'s> {
    seal: &'s dyn Seal,
    prepared: &'s PreparedByName,
    analysis: Analysis,
    is_changed: bool,
    /// Whether a value that meets cells now is assigned to them.
    assigns: bool,
    /// Whether a query is gone through that groups or sorts.
    groups: bool,
    /// The cells of its literals.
    same: SameCells,
    /// The number of literals and parameters that were left plain.
    open: usize,
    /// The number of parameters that were gone through.
    seen_parameters: usize,
    loose: Loose,
    /// The parameters whose casts are left out where it is asked whether they are null
    bare_parameters: Vec<i32>,
    /// The parameters that meet cells in one place and literals alone in another, with the cells.
    /// A comparison by `=` seals the literals too.
    sealed_elsewhere: HashMap<i32, Cells>,
    /// The parameter whose two uses do not agree, with the cells of one of them
    torn: Option<(i32, Cells)>,
}

impl<'s> Rewriter<'s> {
    fn new(seal: &'s dyn Seal, prepared: &'s PreparedByName) -> Self {
        Self {
            seal,
            prepared,
            analysis: Analysis {
                concerns: true,
                ..Analysis::default()
            },
            is_changed: false,
            assigns: false,
            groups: false,
            same: SameCells::default(),
            open: 0,
            seen_parameters: 0,
            loose: Loose::default(),
            bare_parameters: Vec::new(),
            sealed_elsewhere: HashMap::new(),
            torn: None,
        }
    }

    /// Goes through a text. Returns its statements as they are sent.
    fn run(&mut self, text: &str, catalog: &Catalog) -> Result<ParseResult, Refusal> {
        let parsed = pg_query::parse(text, 0);
        let mut tree = parsed.map_err(|_| Refusal::Syntax)?.protobuf;
        self.statements(&mut tree, catalog)?;
        self.loose.decide(&|| self.seal.times())?;
        self.loose.settle(&mut self.analysis.parameters);
        self.analysis.literals = std::mem::take(&mut self.loose.literals).beside_parameters();
        Ok(tree)
    }

    /// Goes through statements, each of which sees what those before it define.
    fn statements(&mut self, tree: &mut ParseResult, catalog: &Catalog) -> Result<(), Refusal> {
        let mut catalog = Cow::Borrowed(catalog);
        for RawStmt { stmt, .. } in &mut tree.stmts {
            let known = self.analysis.defined.len();
            if let Some(statement) = stmt.as_deref_mut() {
                self.statement(statement, &Scope::new(&catalog))?;
            }
            for definition in &self.analysis.defined[known..] {
                catalog.to_mut().define(definition.clone());
            }
        }
        Ok(())
    }

    /// Returns how many literals and parameters were left plain so far.
    fn open(&self) -> usize {
        self.open
    }

    fn parameter(&mut self, number: i32) -> Result<&mut Parameter, Refusal> {
        let number = usize::try_from(number).unwrap_or_default().max(1);
        if number > MAX_PARAMETERS {
            return Err(Refusal::Undecided("the number of a parameter"));
        }
        let parameters = &mut self.analysis.parameters;
        if parameters.len() < number {
            parameters.resize_with(number, Parameter::default);
        }
        parameters
            .get_mut(number - 1)
            .ok_or(Refusal::TwoUses(number))
    }

    fn sealed_parameter(
        &mut self,
        number: i32,
        cells: &Cells,
        by: Option<Cast>,
    ) -> Result<(), Refusal> {
        // A cast to the plain type is left out.
        self.is_changed |= by.is_some();
        self.loose.seal_parameter();
        let rounds = self.assigns;
        self.use_parameter(
            number,
            Parameter::Cells(cells.clone(), Conversion { by, rounds }),
        )
    }

    fn use_parameter(&mut self, number: i32, used: Parameter) -> Result<(), Refusal> {
        self.seen_parameters += 1;
        let place = self.parameter(number)?;
        match place.and(used.clone()) {
            Some(both) => *place = both,
            None => {
                let cells = [place.cells(), used.cells()].into_iter().flatten().next();
                self.torn = cells.map(|cells| (number, cells.clone()));
                let number = usize::try_from(number).unwrap_or_default();
                return Err(Refusal::TwoUses(number));
            }
        }
        Ok(())
    }

    /// Returns the literal of sealed cells that is in place of a plain one.
    fn literal(
        &mut self,
        literal: &AConst,
        cells: &Cells,
        by: Option<Cast>,
    ) -> Result<NodeEnum, Refusal> {
        let ty = cells.ty.ok_or(Refusal::AnyType)?;
        let text = literal::text_of(literal, ty)?;
        let reuses = self.reuses();
        let literals = &mut self.loose.literals;
        let seal = |value: &_| {
            literals.seal(value);
            match reuses {
                true => self.same.of(self.seal, &cells.keyname, value),
                false => self.seal.seal(&cells.keyname, value),
            }
        };
        let sealed = values::sealed_text(&text, cells, by, (&|| self.seal.times(), seal))?;
        if by.is_some() && ty == Type::Text && !cells.is_array {
            // A cast may cut it.
            literals.seal(&Value::Text(text));
        }
        self.is_changed = true;
        Ok(cell_literal(sealed, cells))
    }
}

/// Returns a literal of sealed cells, with its type for what gives it none: CASE, ARRAY.
fn cell_literal(sealed: String, cells: &Cells) -> NodeEnum {
    let constant = NodeEnum::AConst(AConst {
        val: Some(a_const::Val::Sval(Text { sval: sealed })),
        ..AConst::default()
    });
    NodeEnum::TypeCast(Box::new(TypeCast {
        arg: Some(Box::new(Node {
            node: Some(constant),
        })),
        type_name: utility::type_name(cells),
        location: -1,
    }))
}

/// Returns bytes as the text that types of cells read, `\x` and hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    text.push_str(&pgseal_client::to_hex(bytes));
    text
}

#[cfg(test)]
mod tests;
