//! The statements of a connection by their names, which the protocol and SQL share.
//!
//! Texts are numbered in the order in which the driver sent them, for the server's answers come
//! later: what a `DEALLOCATE` removes is what an earlier text made.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use super::Columns;
use crate::catalog::Catalog;
use crate::copy::CopyRows;
use crate::literals::Literals;
use crate::sql::{Parameter, Prepared, PreparedByName};
use crate::values::{BINARY, TEXT};
use crate::wire::format_of;

/// The OID of `bool`, the type of a parameter of which the server learns only whether it is null
const BOOL: u32 = 16;

/// A statement that the server was given.
#[derive(Debug, Default)]
pub(super) struct Statement {
    pub(super) parameters: Vec<Parameter>,
    /// The literals of its text, from which loose parameters must differ
    pub(super) literals: Literals,
    /// The types that the driver declared
    pub(super) declared: Vec<u32>,
    /// The types of parameters, once the server has told them
    pub(super) told: OnceLock<Vec<u32>>,
    /// The cells of each column, once the server has told them
    pub(super) columns: OnceLock<Columns>,
    /// The name of the statement that this one deallocates; empty: all
    pub(super) deallocates: Option<String>,
    /// Whether it may be a COPY, as its first word says
    pub(super) may_copy: bool,
    /// Whether the server refuses to run it when it has other columns than it had
    pub(super) has_fixed_result: bool,
    /// The rows of each COPY in it; none if it names nothing encrypted
    pub(super) copies: Option<Vec<CopyRows>>,
    /// The number of its text
    pub(super) number: u64,
    /// The text of a `Parse`, to be read again when the catalog has changed
    pub(super) text: Vec<u8>,
    /// The number of definitions that the catalog had when the text was read last
    pub(super) definitions: AtomicU64,
}

impl Statement {
    /// Returns it as SQL can execute it.
    pub(super) fn prepared(&self) -> Prepared {
        Prepared {
            parameters: self.parameters.clone(),
            literals: self.literals.clone(),
        }
    }

    /// Returns the type of a parameter, by the server's word; 0 if it is not told yet.
    pub(super) fn told(&self, at: usize) -> u32 {
        let told = self.told.get().and_then(|told| told.get(at));
        told.copied().unwrap_or_default()
    }

    /// Whether a parameter of it is sealed, or not sent, or must not be a literal that is sealed.
    pub(super) fn is_encrypted(&self) -> bool {
        let seals = self.literals.seals();
        self.parameters.iter().any(|parameter| match parameter {
            Parameter::Cells(..) | Parameter::OnlyNull(_) => true,
            parameter => seals && parameter.is_loose(),
        })
    }

    /// Returns the types of parameters as the server is told them: cells have encdb's.
    pub(super) fn declared_to_server(&self, catalog: &Catalog) -> Vec<u32> {
        let of = |at: usize| match self.parameters.get(at) {
            Some(Parameter::Cells(cells, _)) => catalog.oid_of(cells),
            Some(Parameter::OnlyNull(_)) => BOOL,
            _ => self.declared.get(at).copied().unwrap_or_default(),
        };
        let count = self.declared.len().max(self.parameters.len());
        (0..count).map(of).collect()
    }

    /// Returns the formats in which the server is asked for the columns, if they are others than
    /// the driver wants: cells come in binary, which is half as long as their text.
    pub(super) fn formats_to_ask(&self, wanted: &[u16]) -> Option<Vec<u16>> {
        let columns = self.columns.get().filter(|_| self.has_fixed_result)?;
        let is_cell = |at: usize| columns[at].is_some();
        let comes_as_text = |at| is_cell(at) && format_of(wanted, at) == TEXT;
        let is_list = wanted.len() <= 1 || wanted.len() == columns.len();
        if !is_list || !(0..columns.len()).any(comes_as_text) {
            return None;
        }
        let ask = |at| match is_cell(at) {
            true => BINARY,
            false => format_of(wanted, at),
        };
        Some((0..columns.len()).map(ask).collect())
    }

    /// Whether the server calls a parameter encrypted that is not sealed.
    pub(super) fn is_told_otherwise(&self, catalog: &Catalog) -> bool {
        let told = self.told.get().map_or(&[][..], Vec::as_slice);
        let is_sealed = |at| matches!(self.parameters.get(at), Some(Parameter::Cells(..)));
        let mut told = told.iter().enumerate();
        told.any(|(at, oid)| catalog.type_of(*oid).is_some() && !is_sealed(at))
    }
}

/// A statement that gets a name, and the one that had it before.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) name: Vec<u8>,
    pub(super) statement: Arc<Statement>,
    pub(super) before: Option<Arc<Statement>>,
}

/// The statements of one connection.
#[derive(Debug, Default)]
pub(super) struct Statements {
    /// The statements of `Parse`
    parsed: HashMap<Vec<u8>, Arc<Statement>>,
    /// The statements with something encrypted, of `PREPARE` and of `Parse`, by their names in SQL
    prepared: PreparedByName,
    /// The number of the text that SQL prepared a name in last
    prepared_in: HashMap<String, u64>,
    /// The number of texts up to now
    texts: u64,
}

impl Statements {
    /// Returns the number of the next text.
    pub(super) fn next_number(&mut self) -> u64 {
        self.texts += 1;
        self.texts
    }

    /// Returns what SQL can execute by name.
    pub(super) fn prepared(&self) -> &PreparedByName {
        &self.prepared
    }

    /// Forgets what statements of SQL are: the catalog they were read with has changed.
    pub(super) fn doubt_prepared(&mut self) {
        self.prepared.values_mut().for_each(|known| *known = None);
    }

    /// Returns the statement of this name: one of the protocol's, or one that SQL prepared. Where
    /// nobody knows which of two the server has, there is none.
    pub(super) fn find(&self, name: &[u8]) -> Option<Arc<Statement>> {
        let text = std::str::from_utf8(name).ok();
        let prepared = text.and_then(|name| self.prepared.get(name));
        let number = text.and_then(|name| self.prepared_in.get(name));
        match (self.parsed.get(name), prepared) {
            (Some(parsed), Some(prepared)) if number.is_some_and(|it| *it > parsed.number) => {
                let is_same = prepared.as_ref() == Some(&parsed.prepared());
                is_same.then(|| Arc::clone(parsed))
            }
            (Some(parsed), _) => Some(Arc::clone(parsed)),
            (None, prepared) => {
                let prepared = prepared?.clone()?;
                Some(Arc::new(Statement {
                    parameters: prepared.parameters,
                    literals: prepared.literals,
                    ..Statement::default()
                }))
            }
        }
    }

    /// Notes a `Parse`. Returns it with what had its name before.
    pub(super) fn parse(&mut self, name: &[u8], statement: Arc<Statement>) -> Named {
        let before = self.parsed.insert(name.to_vec(), Arc::clone(&statement));
        Named {
            name: name.to_vec(),
            statement,
            before,
        }
    }

    /// Notes a name of SQL's. One that is in use keeps its statement, for the server refuses it.
    pub(super) fn prepare(&mut self, name: String, prepared: Option<Prepared>) {
        let known = self.prepared.entry(name);
        let known = known.or_insert_with(|| prepared.clone());
        if *known != prepared {
            *known = None;
        }
    }

    /// Notes a name that a `PREPARE` of SQL gives, in the text of this number.
    pub(super) fn prepare_in(&mut self, number: u64, name: String, prepared: Option<Prepared>) {
        self.prepared_in.insert(name.clone(), number);
        self.prepare(name, prepared);
    }

    /// Takes the server's word that it has a statement, whatever came before.
    pub(super) fn parsed(&mut self, named: Named) {
        let known = self.parsed.get(&named.name);
        if known.is_none_or(|known| known.number <= named.statement.number) {
            self.parsed.insert(named.name, named.statement);
        }
    }

    /// Gives a name back whose `Parse` the server passed over, unless a later one has it.
    pub(super) fn undo_parse(&mut self, named: Named) {
        let has_it = self.parsed.get(&named.name);
        if has_it.is_some_and(|it| Arc::ptr_eq(it, &named.statement)) {
            match named.before {
                Some(before) => self.parsed.insert(named.name, before),
                None => self.parsed.remove(&named.name),
            };
        }
    }

    /// Takes a `Close`. Returns the statement that had the name.
    pub(super) fn close(&mut self, name: &[u8]) -> Option<Arc<Statement>> {
        self.parsed.remove(name)
    }

    /// Gives a name back whose `Close` the server passed over.
    pub(super) fn undo_close(&mut self, name: Vec<u8>, before: Arc<Statement>) {
        self.parsed.entry(name).or_insert(before);
    }

    /// Takes the deallocation of a name, or of all, by the text of this number. What later texts
    /// have made stays.
    pub(super) fn deallocated(&mut self, name: &str, number: u64) {
        let is_it = |known: &[u8]| name.is_empty() || known == name.as_bytes();
        self.parsed
            .retain(|known, statement| !is_it(known) || statement.number > number);
        let prepared_in = &self.prepared_in;
        let parsed = &self.parsed;
        self.prepared.retain(|known, _| {
            let is_later = prepared_in.get(known).is_some_and(|it| *it > number);
            !is_it(known.as_bytes()) || is_later || parsed.contains_key(known.as_bytes())
        });
    }
}
