//! Filters: conditions on the cells of a row, all of which are to hold, in the order of a query.
//!
//! A condition is in prefix notation, and each of its parts begins with a sign:
//!
//! | sign | what follows | what it is |
//! | --- | --- | --- |
//! | `=` `!` `<` `l` `>` `g` | two operands, a collation | `=`, `<>`, `<`, `<=`, `>`, `>=` |
//! | `L` | two operands | LIKE |
//! | `I` | two operands, a collation | ILIKE |
//! | `S` | two operands | `starts_with` |
//! | `R` `T` | two operands, a collation | `~`, SIMILAR TO |
//! | `W` | two operands, a collation | `@@` |
//! | `&` | a number, so many conditions | AND |
//! | `\|` | a number, so many conditions | OR |
//! | `~` | a condition | NOT |
//!
//! An operand is a byte: the number of a column, 64 and the number of a program, or 128 and the
//! number of a constant. A collation is a byte: 0 is C, and else the number of a name, from 1 on.
//!
//! A program is `number of operands u8 | operands | steps`; its operands are columns and constants.
//!
//! Invariant: a [`Filter`] has at least one condition, and each of its numbers is that of something
//! that the request has.

use crate::request::{Collation, Matching};
use crate::wire::{Malformed, Reader};
use crate::{Items, Program};

/// The most bytes of a filter.
const MAX_BYTES: usize = 2048;
/// The deepest that conditions are in each other.
const MAX_DEPTH: usize = 16;
/// The bit of an operand that is a constant.
const CONSTANT: u8 = 0x80;
/// The bit of an operand that is computed.
const COMPUTED: u8 = 0x40;

/// The question that a comparison of two cells answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Comparison {
    fn from_sign(sign: u8) -> Option<Self> {
        Some(match sign {
            b'=' => Self::Equal,
            b'!' => Self::NotEqual,
            b'<' => Self::Less,
            b'l' => Self::AtMost,
            b'>' => Self::Greater,
            b'g' => Self::AtLeast,
            _ => return None,
        })
    }

    /// Whether two cells of this order are what it asks for.
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

/// One of the cells that a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterOperand {
    /// The cell of the row in this column.
    Column(u8),
    /// The result of a program for cells of the row.
    Computed(u8),
    /// A cell that is the same for all rows.
    Constant(u8),
}

impl FilterOperand {
    /// Whether it differs from row to row.
    pub fn is_column(&self) -> bool {
        matches!(self, Self::Column(_))
    }
}

/// A program of a filter, and what it is applied to.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterProgram<'a> {
    /// The steps.
    pub program: Program<'a>,
    /// Columns and constants.
    pub operands: Vec<FilterOperand>,
}

/// A condition; it is true, false or, because of NULL, neither.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition<'a> {
    /// Compares two cells.
    Compare {
        /// The question.
        comparison: Comparison,
        /// The cell on the left.
        left: FilterOperand,
        /// The cell on the right.
        right: FilterOperand,
        /// The collation of texts.
        collation: Collation<'a>,
    },
    /// Matches a text.
    Matches {
        /// The kind of match.
        matching: Matching<'a>,
        /// The text.
        text: FilterOperand,
        /// The pattern.
        pattern: FilterOperand,
    },
    /// AND
    All(Vec<Self>),
    /// OR
    Any(Vec<Self>),
    /// NOT
    Not(Box<Self>),
}

/// The parts of a request that a filter may name.
#[derive(Clone, Copy, Debug)]
pub struct FilterScope<'a> {
    /// The number of columns in a row.
    pub columns: usize,
    /// The number of constants.
    pub constants: usize,
    /// The programs.
    pub programs: Items<'a>,
    /// The names of collations.
    pub collations: Items<'a>,
}

impl<'a> FilterScope<'a> {
    /// Returns the programs, in their order.
    ///
    /// # Errors
    /// If one is malformed, or names what is not in the scope.
    pub fn programs(&self) -> Result<Vec<FilterProgram<'a>>, Malformed> {
        let columns = FilterScope {
            programs: Items::Listed(&[]),
            ..*self
        };
        let programs = self.programs.iter();
        programs.map(|item| program(item, &columns)).collect()
    }
}

fn program<'a>(item: &'a [u8], scope: &FilterScope<'a>) -> Result<FilterProgram<'a>, Malformed> {
    let mut reader = Reader::new(item);
    let count = reader.u8()?;
    let operands = (0..count).map(|_| operand(&mut reader, scope));
    let operands = operands.collect::<Result<Vec<_>, _>>()?;
    Ok(FilterProgram {
        program: Program::parse(reader.rest(), operands.len())?,
        operands,
    })
}

/// Conditions that were checked against what the request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter<'a>(&'a [u8]);

impl<'a> Filter<'a> {
    /// Checks the bytes of a filter.
    ///
    /// # Errors
    /// If they are no conditions, or name what is not in the scope.
    pub fn parse(bytes: &'a [u8], scope: &FilterScope<'a>) -> Result<Self, Malformed> {
        let filter = Self(bytes);
        scope.programs()?;
        match bytes.len() <= MAX_BYTES && !filter.conditions(scope)?.is_empty() {
            true => Ok(filter),
            false => Err(Malformed),
        }
    }

    /// Its bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the conditions, in their order.
    ///
    /// # Errors
    /// If the scope is not the one that they were checked against.
    pub fn conditions(self, scope: &FilterScope<'a>) -> Result<Vec<Condition<'a>>, Malformed> {
        let mut reader = Reader::new(self.0);
        let mut conditions = Vec::new();
        while !reader.rest().is_empty() {
            conditions.push(condition(&mut reader, scope, MAX_DEPTH)?);
        }
        Ok(conditions)
    }
}

fn condition<'a>(
    reader: &mut Reader<'a>,
    scope: &FilterScope<'a>,
    depth: usize,
) -> Result<Condition<'a>, Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed)?;
    let sign = reader.u8()?;
    if let Some(comparison) = Comparison::from_sign(sign) {
        return Ok(Condition::Compare {
            comparison,
            left: operand(reader, scope)?,
            right: operand(reader, scope)?,
            collation: collation(reader, scope)?,
        });
    }
    let mut several = || {
        let count = reader.u8()?;
        let each = (0..count).map(|_| condition(reader, scope, depth));
        each.collect::<Result<Vec<_>, _>>()
    };
    Ok(match sign {
        b'&' => Condition::All(several()?),
        b'|' => Condition::Any(several()?),
        b'~' => Condition::Not(Box::new(condition(reader, scope, depth)?)),
        _ => {
            let (text, pattern) = (operand(reader, scope)?, operand(reader, scope)?);
            let matching = match sign {
                b'L' => Matching::Like,
                b'I' => Matching::Ilike(collation(reader, scope)?),
                b'S' => Matching::Prefix,
                b'R' => Matching::Regex(collation(reader, scope)?),
                b'T' => Matching::Similar(collation(reader, scope)?),
                b'W' => Matching::Words(collation(reader, scope)?),
                _ => return Err(Malformed),
            };
            Condition::Matches {
                matching,
                text,
                pattern,
            }
        }
    })
}

fn operand(reader: &mut Reader<'_>, scope: &FilterScope<'_>) -> Result<FilterOperand, Malformed> {
    let byte = reader.u8()?;
    let (operand, number, count) = match (byte & CONSTANT, byte & COMPUTED) {
        (0, 0) => (FilterOperand::Column(byte), byte, scope.columns),
        (0, _) => {
            let number = byte & !COMPUTED;
            (
                FilterOperand::Computed(number),
                number,
                scope.programs.len(),
            )
        }
        _ => {
            let number = byte & !CONSTANT;
            (FilterOperand::Constant(number), number, scope.constants)
        }
    };
    match usize::from(number) < count {
        true => Ok(operand),
        false => Err(Malformed),
    }
}

fn collation<'a>(
    reader: &mut Reader<'a>,
    scope: &FilterScope<'a>,
) -> Result<Collation<'a>, Malformed> {
    let Some(at) = usize::from(reader.u8()?).checked_sub(1) else {
        return Ok(Collation::C);
    };
    let name = scope.collations.iter().nth(at).ok_or(Malformed)?;
    match std::str::from_utf8(name) {
        Ok(name) if !name.is_empty() => Ok(Collation::Libc(name)),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: FilterScope<'_> = FilterScope {
        columns: 2,
        constants: 1,
        programs: Items::Listed(&[b"\x02\x01\x80$$+", b"\x01\x00$#"]),
        collations: Items::Listed(&[b"de_DE"]),
    };

    fn parsed(bytes: &[u8]) -> Result<Vec<Condition<'_>>, Malformed> {
        Filter::parse(bytes, &SCOPE)?.conditions(&SCOPE)
    }

    #[test]
    fn conditions_are_read() {
        let compare = |comparison, collation| Condition::Compare {
            comparison,
            left: FilterOperand::Column(1),
            right: FilterOperand::Constant(0),
            collation,
        };
        let least = compare(Comparison::AtLeast, Collation::C);
        assert_eq!(parsed(b"g\x01\x80\0"), Ok(vec![least.clone()]));
        let other = compare(Comparison::NotEqual, Collation::Libc("de_DE"));
        let like = Condition::Matches {
            matching: Matching::Like,
            text: FilterOperand::Column(0),
            pattern: FilterOperand::Constant(0),
        };
        let regex = Condition::Matches {
            matching: Matching::Regex(Collation::Libc("de_DE")),
            text: FilterOperand::Column(0),
            pattern: FilterOperand::Constant(0),
        };
        assert_eq!(parsed(b"R\x00\x80\x01"), Ok(vec![regex]));
        let either = Condition::Any(vec![other, Condition::Not(Box::new(like))]);
        let bytes = b"|\x02!\x01\x80\x01~L\x00\x80g\x01\x80\0";
        assert_eq!(parsed(bytes), Ok(vec![either, least]));
        assert_eq!(parsed(b"&\0"), Ok(vec![Condition::All(Vec::new())]));
        let computed = Condition::Compare {
            comparison: Comparison::Less,
            left: FilterOperand::Computed(1),
            right: FilterOperand::Computed(0),
            collation: Collation::C,
        };
        assert_eq!(parsed(b"<\x41\x40\0"), Ok(vec![computed]));
        let programs = SCOPE.programs().expect("they fit");
        let operands = [FilterOperand::Column(1), FilterOperand::Constant(0)];
        assert_eq!(programs[0].operands, operands);
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        // Nothing, a sign alone, an unknown one, a column, a constant, a program and a collation
        // too many, one condition of two, and what is cut short.
        for bytes in [
            &b""[..],
            b"=",
            b"?\0\0\0",
            b"=\x02\x80\0",
            b"=\x00\x81\0",
            b"=\x42\x80\0",
            b"=\x00\x80\x02",
            b"&\x02=\x00\x80\0",
            b"I\x00\x80",
            b"~",
        ] {
            assert_eq!(parsed(bytes), Err(Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn programs_of_filters_fit_their_operands() {
        // Nothing, an operand too few and too many, a column that is not there, and a program.
        for item in [
            &b""[..],
            b"\x01\x00$$+",
            b"\x02\x00\x00$#",
            b"\x01\x02$#",
            b"\x01\x40$#",
        ] {
            let programs = [&b"\x01\x00$#"[..], item];
            let scope = FilterScope {
                programs: Items::Listed(&programs),
                ..SCOPE
            };
            assert_eq!(
                Filter::parse(b"=\x40\x80\0", &scope),
                Err(Malformed),
                "{item:?}"
            );
        }
    }

    #[test]
    fn filters_end_somewhere() {
        let deep = |depth: usize| [&vec![b'~'; depth][..], b"=\x00\x80\0"].concat();
        assert!(parsed(&deep(MAX_DEPTH - 1)).is_ok());
        assert_eq!(parsed(&deep(MAX_DEPTH)), Err(Malformed));
        let long = |count: usize| b"=\x00\x80\0".repeat(count);
        assert!(parsed(&long(MAX_BYTES / 4)).is_ok());
        assert_eq!(parsed(&long(MAX_BYTES / 4 + 1)), Err(Malformed));
    }
}
