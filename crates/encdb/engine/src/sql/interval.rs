//! Intervals as literals, in the forms that PostgreSQL reads alike under every setting: amounts
//! with units, such as `'1 year 2 months'`, and one number with the unit behind it, `'90' day`.

use pg_query::protobuf::{a_const, AExpr, AExprKind, Node, TypeCast};
use pg_query::NodeEnum;
use pgseal_value::Interval;

use super::literal::whole_number;
use super::scope::last_name;

const SECOND: i64 = 1_000_000;
/// The digits behind the point of a second.
const FRACTION: usize = 6;

/// A unit, by PostgreSQL's number of the field (`INTERVAL_MASK`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Month = 1,
    Year = 2,
    Day = 3,
    Hour = 10,
    Minute = 11,
    Second = 12,
    /// A field of no typmod
    Week = 24,
}

const UNITS: [(Unit, &[&str]); 7] = [
    (Unit::Year, &["y", "yr", "yrs", "year", "years"]),
    (Unit::Month, &["mon", "mons", "month", "months"]),
    (Unit::Week, &["w", "week", "weeks"]),
    (Unit::Day, &["d", "day", "days"]),
    (Unit::Hour, &["h", "hr", "hrs", "hour", "hours"]),
    (Unit::Minute, &["m", "min", "mins", "minute", "minutes"]),
    (Unit::Second, &["s", "sec", "secs", "second", "seconds"]),
];

/// Whether an expression certainly gives an interval: a cast to it, `make_interval(...)`, or a
/// product of it with a number.
pub(super) fn is_interval(node: &Node) -> bool {
    match &node.node {
        Some(NodeEnum::TypeCast(cast)) => is_named(cast),
        Some(NodeEnum::FuncCall(call)) => super::calls::builtin_name(call) == "make_interval",
        Some(NodeEnum::AExpr(operator)) => is_product(operator),
        _ => false,
    }
}

/// Whether an operator gives an interval: `interval '1 day' * 3`, `-interval '1 day'`.
fn is_product(operator: &AExpr) -> bool {
    let is_it = |side: &Option<Box<Node>>| side.as_deref().is_some_and(is_interval);
    let (left, right) = (is_it(&operator.lexpr), is_it(&operator.rexpr));
    let is_builtin = operator.kind == AExprKind::AexprOp as i32 && operator.name.len() == 1;
    is_builtin
        && match last_name(&operator.name) {
            "*" => left || right,
            "/" => left,
            "-" => right && operator.lexpr.is_none(),
            _ => false,
        }
}

fn is_named(cast: &TypeCast) -> bool {
    let name = cast.type_name.as_ref();
    name.is_some_and(|it| last_name(&it.names) == "interval" && it.array_bounds.is_empty())
}

/// Returns the value of a literal interval; none if it is no literal, or of another form.
pub(super) fn interval(node: &Node) -> Option<Interval> {
    let cast = match &node.node {
        Some(NodeEnum::TypeCast(cast)) if is_named(cast) => cast,
        _ => return None,
    };
    let text = match &cast.arg.as_deref()?.node {
        Some(NodeEnum::AConst(literal)) => match literal.val.as_ref()? {
            a_const::Val::Sval(text) => &text.sval,
            _ => return None,
        },
        _ => return None,
    };
    match cast.type_name.as_ref()?.typmods.as_slice() {
        [] => of_text(text),
        [mask] => {
            let mask = u32::from(whole_number(mask)?);
            let is_it = |unit: Unit| 1_u32 << unit as u32 == mask;
            let (unit, _) = UNITS.iter().find(|(unit, _)| is_it(*unit))?;
            of_amounts([(*unit, Amount::parse(text.trim_matches(' '))?)])
        }
        _ => None,
    }
}

/// A number with an optional fraction.
struct Amount {
    whole: i32,
    micros: i64,
}

impl Amount {
    fn parse(text: &str) -> Option<Self> {
        let (digits, is_negative) = match text.strip_prefix('-') {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
        if !is_number(whole) || !is_number(fraction) || fraction.len() > FRACTION {
            return None;
        }
        let sign = if is_negative { -1 } else { 1 };
        Some(Self {
            whole: whole.parse::<i32>().ok()? * sign,
            micros: format!("{fraction:0<FRACTION$}").parse::<i64>().ok()? * i64::from(sign),
        })
    }
}

/// Reads amounts with units. A sign before one of several may hold for all, as `IntervalStyle`
/// says, so that such a text is not read here.
fn of_text(text: &str) -> Option<Interval> {
    let mut amounts = Vec::new();
    let mut rest = text.trim_matches(' ');
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_alphabetic() || c == ' ')?;
        let (amount, behind) = rest.split_at(end);
        let behind = behind.trim_start_matches(' ');
        let end = behind.find(|c: char| !c.is_ascii_alphabetic());
        let (word, behind) = behind.split_at(end.unwrap_or(behind.len()));
        let word = word.to_ascii_lowercase();
        let (unit, _) = UNITS.iter().find(|(_, names)| names.contains(&&*word))?;
        let is_twice = amounts.iter().any(|(known, _)| known == unit);
        amounts.push((*unit, Amount::parse(amount).filter(|_| !is_twice)?));
        rest = behind.trim_start_matches(' ');
    }
    let is_signed = text.contains('-') && amounts.len() > 1;
    of_amounts(amounts).filter(|_| !is_signed && !text.trim().is_empty())
}

fn of_amounts(amounts: impl IntoIterator<Item = (Unit, Amount)>) -> Option<Interval> {
    let mut sum = Interval {
        months: 0,
        days: 0,
        microseconds: 0,
    };
    for (unit, Amount { whole, micros }) in amounts {
        if micros != 0 && unit != Unit::Second {
            return None;
        }
        let seconds = |each: i64| i64::from(whole).checked_mul(each * SECOND);
        let (months, days, time) = match unit {
            Unit::Year => (whole.checked_mul(12)?, 0, 0),
            Unit::Month => (whole, 0, 0),
            Unit::Week => (0, whole.checked_mul(7)?, 0),
            Unit::Day => (0, whole, 0),
            Unit::Hour => (0, 0, seconds(3600)?),
            Unit::Minute => (0, 0, seconds(60)?),
            Unit::Second => (0, 0, seconds(1)? + micros),
        };
        sum.months = sum.months.checked_add(months)?;
        sum.days = sum.days.checked_add(days)?;
        sum.microseconds = sum.microseconds.checked_add(time)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(expression: &str) -> Node {
        let parsed = pg_query::parse(&format!("SELECT {expression}"), 0).expect("a statement");
        let statement = parsed.protobuf.stmts[0].stmt.clone();
        let target = match statement.and_then(|it| it.node) {
            Some(NodeEnum::SelectStmt(select)) => select.target_list[0].node.clone(),
            _ => None,
        };
        match target {
            Some(NodeEnum::ResTarget(target)) => *target.val.expect("a value"),
            _ => panic!("a query"),
        }
    }

    fn read(literal: &str) -> Option<(i32, i32, i64)> {
        let read = interval(&parsed(literal));
        read.map(|it| (it.months, it.days, it.microseconds))
    }

    #[test]
    fn amounts_with_units_are_read() {
        for (literal, expected) in [
            ("interval '1' year", (12, 0, 0)),
            ("interval '-3' month", (-3, 0, 0)),
            ("interval ' 90 ' day", (0, 90, 0)),
            ("interval '1.5' second", (0, 0, 1_500_000)),
            ("'1 year 2 mons'::interval", (14, 0, 0)),
            (
                "cast('2 WEEKS 1day 3h' as interval)",
                (0, 15, 10_800_000_000),
            ),
            (
                "'1 days 3600.000250 seconds'::interval",
                (0, 1, 3_600_000_250),
            ),
            ("'-0.5 s'::pg_catalog.interval", (0, 0, -500_000)),
            ("interval '0 min'", (0, 0, 0)),
        ] {
            assert_eq!(read(literal), Some(expected), "{literal}");
        }
    }

    #[test]
    fn other_forms_are_left_to_the_server() {
        for literal in [
            "interval ''",
            "interval '1'",
            "interval '1 day 1 day'",
            "interval '-1 day 2 hours'",
            "interval '1 day ago'",
            "interval '1.5 days'",
            "interval '1.5' month",
            "interval '1 day 02:03'",
            "interval 'P1D'",
            "interval '+1 day'",
            "interval '1 day' day",
            "interval '1' day to hour",
            "interval '1.5' second(0)",
            "interval '1.1234567 seconds'",
            "interval '999999999 years'",
            "interval '99999999999 days'",
            "interval 'infinity'",
            "'1 day'::text",
            "'{1 day}'::interval[]",
            "interval '1 d\u{e9}'",
        ] {
            assert_eq!(read(literal), None, "{literal}");
        }
    }

    #[test]
    fn intervals_are_told_apart() {
        for (literal, expected) in [
            ("$1::interval", true),
            ("make_interval(days => 3)", true),
            ("3 * interval '1 day'", true),
            ("-(interval '1 day' / 2)", true),
            ("now() - interval '1 day'", false),
            ("2 / interval '1 day'", false),
            ("app.make_interval(1)", false),
        ] {
            assert_eq!(is_interval(&parsed(literal)), expected, "{literal}");
        }
    }
}
