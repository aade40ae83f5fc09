//! Compiled expressions: operators, casts and functions of cells in postfix order.
//!
//! A step is one byte: the operator's sign as in SQL, `$` for the next operand, `~` for the
//! negative, `@` for the absolute value, `p` for the power as it is since PostgreSQL 16, `m` for
//! `age(a, b)`, `#` for the length, a digit or a letter from `a` to `l` for a field of a time, and
//! another letter for a cast: 0x40 with the type's number. Other functions are in parentheses, with
//! their other arguments: those of text ([`TextStep`]) by a small letter, those of numbers and
//! times by a capital one ([`number`]). All are ASCII, because `EXPLAIN` shows them.
//!
//! Invariant: a [`Program`] takes all its operands, never one that is not there, and leaves one
//! value, which its last step made.

mod number;
mod text;

use pgseal_value::{Arithmetic, Field, Limit, Rounding, Type};

use crate::Malformed;
pub use number::{StepFraction, StepZone};
pub use text::{PlainText, TextArgument, TextStep};

/// Operands of a program at most: PostgreSQL's functions have 100 arguments. The extension's header
/// says the same.
const MAX_OPERANDS: usize = 64;
/// Bytes of a program at most.
const MAX_BYTES: usize = 256;

const OPERAND: u8 = b'$';
/// The bytes around a function that has a letter.
const BEGIN: u8 = b'(';
const END: u8 = b')';
const CAST: u8 = 0x40;
/// The steps of [`Field::ALL`], in its order.
const FIELDS: &[u8; Field::ALL.len()] = b"0123456789abcdefghijkl";

/// A step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Puts the next operand on the stack.
    Operand,
    /// Takes two values and gives the operator's result.
    Arithmetic(Arithmetic),
    /// Takes two numbers and gives the double that is so far on the way from the first one.
    Between(StepFraction),
    /// `||`
    Concat,
    /// Takes one value: `-x`.
    Negate,
    /// `abs(x)`
    Absolute,
    /// `length(x)`
    Length,
    /// `extract(field FROM x)`, which may be NULL.
    Extract(Field),
    /// `date_part(field, x)`, which may be NULL.
    DatePart(Field),
    /// `to_char(x, format)` of a number or a time, which may be NULL.
    ToChar(PlainText<'a>),
    /// `round(x, 2)` and its like
    Round(Rounding),
    /// `date_trunc(field, x)`
    DateTrunc(Field),
    /// `x AT TIME ZONE zone`
    AtZone(StepZone<'a>),
    /// The value as a column with this limit holds it. A value within the limit stays the cell that
    /// it was.
    Limit(Limit),
    /// The value in another type.
    Cast(Type),
    /// A function of text.
    Text(TextStep<'a>),
}

impl<'a> Step<'a> {
    /// Takes the first step off these bytes; none if there is none or it is malformed.
    fn take(bytes: &mut &'a [u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first()?;
        if *first != BEGIN {
            *bytes = rest;
            return Self::from_byte(*first);
        }
        let end = rest.iter().position(|byte| *byte == END)?;
        let (call, rest) = (&rest[..end], &rest[end + 1..]);
        *bytes = rest;
        match call.first() {
            Some(b'A'..=b'Z') => number::parse(call),
            _ => TextStep::parse(call).map(Self::Text),
        }
    }

    /// The step of a byte.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            OPERAND => Self::Operand,
            b'+' => Self::Arithmetic(Arithmetic::Add),
            b'-' => Self::Arithmetic(Arithmetic::Sub),
            b'*' => Self::Arithmetic(Arithmetic::Mul),
            b'/' => Self::Arithmetic(Arithmetic::Div),
            b'%' => Self::Arithmetic(Arithmetic::Mod),
            b'^' => Self::Arithmetic(Arithmetic::Power),
            b'p' => Self::Arithmetic(Arithmetic::PowerSince16),
            b'm' => Self::Arithmetic(Arithmetic::Age),
            b'|' => Self::Concat,
            b'~' => Self::Negate,
            b'@' => Self::Absolute,
            b'#' => Self::Length,
            _ => match FIELDS.iter().position(|field| *field == byte) {
                Some(at) => Self::Extract(Field::ALL[at]),
                None => Self::Cast(Type::from_byte(byte.checked_sub(CAST)?)?),
            },
        })
    }

    /// The byte of the step that takes this field.
    pub fn of_field(field: Field) -> Option<u8> {
        let at = Field::ALL.iter().position(|each| *each == field)?;
        FIELDS.get(at).copied()
    }

    /// How many values it takes from the stack; it leaves one.
    fn takes(self) -> usize {
        match self {
            Self::Operand => 0,
            Self::Arithmetic(_) | Self::Between(_) | Self::Concat => 2,
            Self::Negate | Self::Absolute | Self::Length | Self::Extract(_) | Self::Cast(_) => 1,
            Self::Round(_)
            | Self::DatePart(_)
            | Self::ToChar(_)
            | Self::DateTrunc(_)
            | Self::AtZone(_)
            | Self::Limit(_) => 1,
            Self::Text(text) => text.takes(),
        }
    }
}

/// Steps that fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program<'a>(&'a [u8]);

impl<'a> Program<'a> {
    /// The program of these bytes, for so many operands.
    pub fn parse(bytes: &'a [u8], operands: usize) -> Result<Self, Malformed> {
        if bytes.len() > MAX_BYTES || operands > MAX_OPERANDS {
            return Err(Malformed);
        }
        let (mut values, mut taken, mut computes) = (0_usize, 0, false);
        let mut rest = bytes;
        while !rest.is_empty() {
            let step = Step::take(&mut rest).ok_or(Malformed)?;
            values = values.checked_sub(step.takes()).ok_or(Malformed)? + 1;
            computes = step != Step::Operand;
            taken += usize::from(!computes);
        }
        match values == 1 && taken == operands && computes {
            true => Ok(Self(bytes)),
            false => Err(Malformed),
        }
    }

    /// How many operands a program of these bytes takes, if it is one.
    pub fn operands(bytes: &[u8]) -> usize {
        let steps = steps(bytes);
        steps.filter(|step| *step == Step::Operand).count()
    }

    /// How many operands it takes, at least one.
    pub fn row(self) -> usize {
        Self::operands(self.0)
    }

    /// Its bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the steps one after the other.
    pub fn steps(self) -> impl Iterator<Item = Step<'a>> + use<'a> {
        steps(self.0)
    }
}

/// Returns the steps up to one that is malformed.
fn steps(mut bytes: &[u8]) -> impl Iterator<Item = Step<'_>> {
    std::iter::from_fn(move || Step::take(&mut bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_one_step_or_none() {
        let steps: Vec<Step> = (0..=255).filter_map(Step::from_byte).collect();
        for (place, step) in steps.iter().enumerate() {
            assert!(!steps[..place].contains(step), "{step:?} has two bytes");
        }
        let fields = Field::ALL.map(|field| Step::from_byte(Step::of_field(field)?));
        assert_eq!(fields, Field::ALL.map(|field| Some(Step::Extract(field))));
        let others = Arithmetic::ALL.len() + Type::ALL.len() + fields.len();
        assert_eq!(steps.len(), 5 + others);
    }

    #[test]
    fn programs_fit_together() {
        for (bytes, operands) in [
            ("$$+", 2),
            ("$$$*-~", 3),
            ("$M", 1),
            ("$@y$|", 2),
            ("$(s1,2)", 1),
            ("$(s-3)$(u$|x)|(l)", 2),
            ("$$$(r$,$)(b)", 3),
            ("$(d\"(\",-1)$$|(p$)", 3),
            ("$(R2)(T)$(C)*(F)(R-2147483648)", 2),
            ("$(De)(D1)(Pf)", 1),
            ("$(M\"YYYY-MM %22T%22\")", 1),
            ("$(O-3600)(ZAmerica/Sao_Paulo)(Z<-03>+3)", 1),
            ("$(V200)(W10485760)(N1000,-1000)", 1),
            ("$$(L0)", 2),
            ("$$(L4607182418800017408)", 2),
        ] {
            let program = Program::parse(bytes.as_bytes(), operands).map(Program::bytes);
            assert_eq!(program, Ok(bytes.as_bytes()));
        }
        // Nothing, an operand alone, one too few, one too many, what is left over, an unknown step.
        for (bytes, operands) in [
            ("", 0),
            ("$", 1),
            ("$+", 1),
            ("+", 0),
            ("$$+", 1),
            ("$$+", 3),
            ("$$", 2),
            ("$~$", 2),
            ("$?", 1),
            ("$A", 1),
            ("$\u{80}", 1),
            ("(s1)", 0),
            ("$(s1", 1),
            ("$s1)", 1),
            ("$()", 1),
            ("$(s)", 1),
            ("$(s1,)", 1),
            ("$(s1,2,3)", 1),
            ("$(s2147483648)", 1),
            ("$(!1)", 1),
            ("$(u\u{7f})", 1),
            ("$$(r$,$)", 2),
            ("$(p$)", 1),
            ("$(b\")\")", 1),
            ("$(Rx)", 1),
            ("$(R2147483648)", 1),
            ("$(C1)", 1),
            ("$(D)", 1),
            ("$(D3)", 1),
            ("$(D$)", 1),
            ("$(D11)", 1),
            // Of one value; and fractions that are none: above 1, below 0, NaN, no number.
            ("$(L0)", 1),
            ("$$(L4607182418800017409)", 2),
            ("$$(L13830554455654793216)", 2),
            ("$$(L9221120237041090560)", 2),
            ("$$(L)", 2),
            ("$$(L0.5)", 2),
        ] {
            assert_eq!(
                Program::parse(bytes.as_bytes(), operands),
                Err(Malformed),
                "{bytes}"
            );
        }
    }

    #[test]
    fn arguments_of_times_and_limits_are_checked() {
        for call in [
            "MYYYY",
            "P",
            "P?",
            "Z",
            "O",
            "O604800",
            "ZA B",
            "V",
            "V0",
            "W10485761",
            "N5",
            "N0,0",
            "N1001,0",
            "N5,1001",
            "N5,2,1",
        ] {
            let program = format!("$({call})");
            assert_eq!(
                Program::parse(program.as_bytes(), 1),
                Err(Malformed),
                "{call}"
            );
        }
    }

    #[test]
    fn programs_end_somewhere() {
        let long = |operators| format!("${}", "~".repeat(operators));
        assert!(Program::parse(long(MAX_BYTES - 1).as_bytes(), 1).is_ok());
        assert!(Program::parse(long(MAX_BYTES).as_bytes(), 1).is_err());
        let wide = |operands| format!("{}{}", "$".repeat(operands), "+".repeat(operands - 1));
        assert!(Program::parse(wide(MAX_OPERANDS).as_bytes(), MAX_OPERANDS).is_ok());
        assert!(Program::parse(wide(MAX_OPERANDS + 1).as_bytes(), MAX_OPERANDS + 1).is_err());
    }
}
