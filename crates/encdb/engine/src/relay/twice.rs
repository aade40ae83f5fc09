//! The values of one `Bind`, of which none that meets no column may be one that is sealed.

use pgseal_value::Value;

use crate::literals::{Literals, Plain};
use crate::sql::Parameter;
use crate::times::SessionTimes;
use crate::values::{plain_value, Given, BINARY};

/// The values of one `Bind`, beside those of its statement's text.
pub(super) struct Twice {
    literals: Literals,
    /// Whether something of the statement meets no column, so that sealed values matter
    has_loose: bool,
}

impl Twice {
    /// Begins with the literals of a statement that has these parameters.
    pub(super) fn new(literals: &Literals, parameters: &[Parameter]) -> Self {
        let has_loose = literals.has_loose() || parameters.iter().any(Parameter::is_loose);
        let literals = match has_loose {
            true => literals.clone(),
            false => Literals::default(),
        };
        Self {
            literals,
            has_loose,
        }
    }

    /// Takes the value of a parameter that is sealed.
    pub(super) fn seal(&mut self, value: &Value) {
        if self.has_loose {
            self.literals.seal(value);
        }
    }

    /// Takes a parameter that is sent as it is. `told` is its type by the server's word.
    pub(super) fn add(&mut self, given: &Given<'_>, used: &Parameter, told: u32) {
        match used {
            Parameter::Mark if is_mark(given.bytes) => {}
            used if used.is_loose() => {
                add_given(&mut self.literals, given);
                // The server's word adds to what it may be.
                if let (0, BINARY) = (given.oid, given.format) {
                    let told = plain_value(&Given {
                        oid: told,
                        ..*given
                    });
                    let told = told.iter().map(Plain::from);
                    told.for_each(|plain| self.literals.add_loose(plain));
                }
            }
            _ => {}
        }
    }

    /// Whether a value that meets no column is one that is sealed.
    pub(super) fn is_it(&self, times: SessionTimes<'_>) -> bool {
        self.has_loose && self.literals.are_twice(times)
    }
}

/// Notes what a parameter that meets no column may be to the server.
fn add_given(literals: &mut Literals, given: &Given<'_>) {
    if given.format != BINARY {
        let text = String::from_utf8_lossy(given.bytes).into_owned();
        return literals.add_loose(Plain::Text(text));
    }
    match plain_value(given) {
        Some(value) => literals.add_loose(Plain::from(&value)),
        None => literals.add_bytes(given.bytes),
    }
}

/// Whether a parameter is 0 or 1, in whatever form.
fn is_mark(bytes: &[u8]) -> bool {
    match bytes.split_last() {
        Some((last, rest)) => {
            matches!(last, 0 | 1 | b'0' | b'1') && rest.iter().all(|byte| *byte == 0)
        }
        None => false,
    }
}
