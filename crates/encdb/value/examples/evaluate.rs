//! Evaluates expressions from stdin, one in a line, for tests/encdb-values: a word for the
//! operation, then its operands, all divided by spaces. Texts are in hexadecimal behind an `x`.
//!
//! Prints for each `value <text> <send format>`, both in hexadecimal, `null`, or `error
//! <SQLSTATE>`; and `broken <why>` if what must hold of every value does not.

use std::cmp::Ordering;
use std::io::{self, BufRead, Write};

use pgseal_value::{
    absolute, add_interval, arithmetic, at_time_zone, cast, compare, concat, date_part, date_trunc,
    extract, hash_bytes, initcap, left, length, like, like_escape, limited, lower, negate,
    order_prefix, pad, position, repeat, replace, reverse, right, round, similar_to_escape,
    split_part, starts_with, substring, to_char, trim, upper, Aggregate, AggregateKind, Arithmetic,
    Ends, Field, Interval, IntervalStyle, Limit, NamedZone, Reading, Regex, Rounding, Type, Value,
    ValueError, C,
};

fn main() -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        writeln!(out, "{}", answer(&line?))?;
    }
    out.flush()
}

fn answer(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let result = evaluate(words[0], &words[1..]);
    match result {
        Ok(Some(value)) => {
            if let Some(why) = broken(&value) {
                return format!("broken {why}");
            }
            let mut sent = Vec::new();
            value.encode(&mut sent);
            format!("value x{} x{}", hex(value.to_text().as_bytes()), hex(&sent))
        }
        Ok(None) => "null".to_owned(),
        Err(error) => format!("error {}", error.sqlstate()),
    }
}

/// Returns the form that a value does not come back from: its bytes or its text. Every value must
/// come back from both.
fn broken(value: &Value) -> Option<&'static str> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    let decoded = Value::decode(value.ty(), &bytes).ok();
    // The text of the least time is none that PostgreSQL reads.
    let parsed = match value {
        Value::Interval(it) if it.microseconds == i64::MIN => Some(value.duplicate()),
        _ => Value::parse(value.ty(), &value.to_text()).ok(),
    };
    for (copy, why) in [(decoded, "decode"), (parsed, "parse")] {
        let Some(copy) = copy else {
            return Some(why);
        };
        if compare(value, &copy, &C) != Ok(Ordering::Equal) || value.to_text() != copy.to_text() {
            return Some(why);
        }
    }
    None
}

/// The limit of `varchar` with a number of characters, or of `numeric` with those of digits.
fn limit(operation: &str, words: &[&str]) -> Limit {
    let number = |word: &str| word.parse().expect("a number");
    match operation {
        "varchar" => Limit::Characters {
            most: number(words[0]),
            cuts: words[1] == "t",
        },
        _ => Limit::Digits {
            precision: number(words[0]),
            scale: number(words[1]),
        },
    }
}

/// The value as a column with this limit holds it.
fn within(limit: Limit, value: Value) -> Result<Value, ValueError> {
    Ok(limited(limit, &value)?.unwrap_or(value))
}

fn evaluate(operation: &str, words: &[&str]) -> Result<Option<Value>, ValueError> {
    if let Some(op) = operator(operation) {
        let (a, b) = (value(words[0], words[1])?, value(words[2], words[3])?);
        return arithmetic(op, &a, &b).map(Some);
    }
    match operation {
        "extract" => {
            let field = Field::from_name(words[0]).expect("a field");
            return extract(field, &value(words[1], words[2])?);
        }
        "date_part" => {
            let field = Field::from_name(words[0]).expect("a field");
            return date_part(field, &value(words[1], words[2])?);
        }
        "date_trunc" => {
            let field = Field::from_name(words[0]).expect("a field");
            return date_trunc(field, &value(words[1], words[2])?).map(Some);
        }
        "aggregate" => return aggregate(words),
        "pairs" => return pairs(words),
        "styled" => {
            let style = IntervalStyle::from_name(words[0]).expect("a style");
            let interval = Interval::parse(&text(words[1]), style)?;
            return Ok(Some(Value::Text(interval.to_text(style))));
        }
        "to_char" => {
            let shown = to_char(&value(words[0], words[1])?, &text(words[2]))?;
            return Ok(shown.map(Value::Text));
        }
        _ => {}
    }
    let a = value(words[0], words[1])?;
    if let Some(made) = of_text(operation, &a, &words[2..]) {
        return made.map(Some);
    }
    let number = |word: &str| word.parse().expect("a number");
    let decimals = || words.get(2).map_or(0, |word| number(word));
    let result = match operation {
        "round" => round(Rounding::Round(decimals()), &a)?,
        "trunc" => round(Rounding::Truncate(decimals()), &a)?,
        "ceil" => round(Rounding::Ceil, &a)?,
        "floor" => round(Rounding::Floor, &a)?,
        "zone" => at_time_zone(&a, &NamedZone::new(words[2]).expect("a zone"))?,
        "varchar" | "digits" => within(limit(operation, &words[2..]), a)?,
        "parse" => a,
        "cast" => cast(&a, ty(words[2]))?,
        "negate" => negate(&a)?,
        "abs" => absolute(&a)?,
        "length" => Value::Int4(length(&a)?),
        "lower" => lower(&a, &C)?,
        "upper" => upper(&a, &C)?,
        "substring" => substring(&a, number(words[2]), words.get(3).map(|len| number(len)))?,
        "concat" => concat(&a, &value(words[2], words[3])?)?,
        "compare" => Value::Int4(compared(&a, &value(words[2], words[3])?)?),
        "add-interval" => add_interval(&a, interval(&words[2..]))?,
        "sub-interval" => add_interval(&a, interval(&words[2..]).negated())?,
        "escape" => like_escape(&a, &text(words[2]))?,
        "regex" | "iregex" | "similar" => matched(operation, &a, &value(words[2], words[3])?)?,
        "similar_escape" => similar_to_escape(&a, &text(words[2]))?,
        "like" | "ilike" => {
            let pattern = like_escape(&value(words[2], words[3])?, &text(words[4]))?;
            let insensitive = (operation == "ilike").then_some(&C as &dyn pgseal_value::Collate);
            Value::Bool(like(&a, &pattern, insensitive)?)
        }
        _ => panic!("{operation} is no operation"),
    };
    Ok(Some(result))
}

/// Whether a text matches a pattern.
fn matched(operation: &str, text: &Value, pattern: &Value) -> Result<Value, ValueError> {
    let reading = match operation {
        "iregex" => Reading::Insensitive,
        "similar" => Reading::Similar,
        _ => Reading::Sensitive,
    };
    let regex = Regex::new(pattern, reading, &C, || Ok::<_, ValueError>(()))?;
    regex.matches(text).map(Value::Bool)
}

/// Evaluates a function of a text, with the texts or numbers behind it; none if it is something
/// else.
fn of_text(operation: &str, a: &Value, words: &[&str]) -> Option<Result<Value, ValueError>> {
    let number = |at: usize| words[at].parse().expect("a number");
    let given = |at: usize| value("text", words[at]).expect("a text");
    let word = |at: usize| text(words[at]);
    Some(match operation {
        "initcap" => initcap(a, &C),
        "reverse" => reverse(a),
        "left" => left(a, number(0)),
        "right" => right(a, number(0)),
        "repeat" => repeat(a, number(0)),
        "lpad" => pad(a, Ends::Left, number(0), &word(1)),
        "rpad" => pad(a, Ends::Right, number(0), &word(1)),
        "btrim" => trim(a, Ends::Both, &word(0)),
        "ltrim" => trim(a, Ends::Left, &word(0)),
        "rtrim" => trim(a, Ends::Right, &word(0)),
        "position" => position(a, &word(0)).map(Value::Int4),
        "replace" => replace(a, &word(0), &word(1)),
        "split_part" => split_part(a, &word(0), number(1)),
        "starts_with" => starts_with(a, &given(0)).map(Value::Bool),
        _ => return None,
    })
}

fn interval(words: &[&str]) -> Interval {
    Interval {
        months: words[0].parse().expect("a number"),
        days: words[1].parse().expect("a number"),
        microseconds: words[2].parse().expect("a number"),
    }
}

fn operator(word: &str) -> Option<Arithmetic> {
    Some(match word {
        "+" => Arithmetic::Add,
        "-" => Arithmetic::Sub,
        "*" => Arithmetic::Mul,
        "/" => Arithmetic::Div,
        "%" => Arithmetic::Mod,
        "^" => Arithmetic::Power,
        "age" => Arithmetic::Age,
        _ => return None,
    })
}

/// The order as a number; 2 and 3 if prefixes or hashes disagree with it.
fn compared(a: &Value, b: &Value) -> Result<i32, ValueError> {
    let order = compare(a, b, &C)?;
    let prefixes = order_prefix(a).cmp(&order_prefix(b));
    let (mut hash_a, mut hash_b) = (Vec::new(), Vec::new());
    hash_bytes(a, &mut hash_a);
    hash_bytes(b, &mut hash_b);
    Ok(if prefixes != Ordering::Equal && prefixes != order {
        2
    } else if (order == Ordering::Equal) != (hash_a == hash_b) {
        3
    } else {
        order as i32
    })
}

/// The aggregate of pairs of numbers one by one.
fn pairs(words: &[&str]) -> Result<Option<Value>, ValueError> {
    let kind = match words[0] {
        "corr" => AggregateKind::Corr,
        "covar_pop" => AggregateKind::CovarPop,
        "covar_samp" => AggregateKind::CovarSamp,
        "regr_slope" => AggregateKind::RegrSlope,
        "regr_intercept" => AggregateKind::RegrIntercept,
        "regr_r2" => AggregateKind::RegrR2,
        "regr_avgx" => AggregateKind::RegrAvgX,
        "regr_avgy" => AggregateKind::RegrAvgY,
        "regr_sxx" => AggregateKind::RegrSxx,
        "regr_syy" => AggregateKind::RegrSyy,
        _ => AggregateKind::RegrSxy,
    };
    let mut aggregate = Aggregate::new(kind, Type::Float8)?;
    for pair in words[3..].chunks_exact(2) {
        let [y, x] = [1, 2].map(|side| Value::parse(ty(words[side]), &text(pair[side - 1])));
        aggregate.step_pair(&y?, &x?)?;
    }
    aggregate.finish()
}

/// The aggregate of values one by one; and, where PostgreSQL's result does not depend on it, of two
/// halves that are combined, one of them by way of bytes.
fn aggregate(words: &[&str]) -> Result<Option<Value>, ValueError> {
    let kind = match words[0] {
        "count" => AggregateKind::Count,
        "sum" => AggregateKind::Sum,
        "avg" => AggregateKind::Avg,
        "min" => AggregateKind::Min,
        "max" => AggregateKind::Max,
        "var_pop" => AggregateKind::VarPop,
        "variance" => AggregateKind::VarSamp,
        "stddev_pop" => AggregateKind::StddevPop,
        "stddev" => AggregateKind::StddevSamp,
        "bool_and" => AggregateKind::BoolAnd,
        _ => AggregateKind::BoolOr,
    };
    let ty = ty(words[1]);
    let values: Result<Vec<Value>, ValueError> = words[2..]
        .iter()
        .map(|word| Value::parse(ty, &text(word)))
        .collect();
    let values = values?;
    let whole = stepped(kind, ty, &values)?;
    let result = whole.finish();
    let sums_floats = matches!(ty, Type::Float4 | Type::Float8)
        && !matches!(
            kind,
            AggregateKind::Count | AggregateKind::Min | AggregateKind::Max
        );
    if !sums_floats {
        let (first, second) = values.split_at(values.len() / 2);
        let mut combined = stepped(kind, ty, first)?;
        let mut bytes = Vec::new();
        match stepped(kind, ty, second) {
            // The sum of all intervals may be in range, and that of a half not.
            Err(_) if ty == Type::Interval => return result,
            second => second?.encode(&mut bytes),
        }
        combined.combine(&Aggregate::decode(&bytes)?, &C)?;
        let parts = combined.finish();
        let print = |result: &Result<Option<Value>, ValueError>| match result {
            Ok(value) => value.as_ref().map(Value::to_text).unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        assert_eq!(print(&parts), print(&result), "halves of {words:?}");
    }
    result
}

fn stepped(kind: AggregateKind, ty: Type, values: &[Value]) -> Result<Aggregate, ValueError> {
    let mut aggregate = Aggregate::new(kind, ty)?;
    for value in values {
        aggregate.step(value, &C)?;
    }
    Ok(aggregate)
}

fn value(name: &str, word: &str) -> Result<Value, ValueError> {
    Value::parse(ty(name), &text(word))
}

fn ty(name: &str) -> Type {
    match name {
        "int4" => Type::Int4,
        "int8" => Type::Int8,
        "float4" => Type::Float4,
        "float8" => Type::Float8,
        "numeric" => Type::Decimal,
        "bool" => Type::Bool,
        "date" => Type::Date,
        "timestamp" => Type::Timestamp,
        "timestamptz" => Type::TimestampTz,
        "uuid" => Type::Uuid,
        "bytea" => Type::Bytea,
        "interval" => Type::Interval,
        "text" => Type::Text,
        _ => panic!("{name} is no type"),
    }
}

fn text(word: &str) -> String {
    let digits = word.strip_prefix('x').expect("hexadecimal");
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
    let bytes = (0..digits.len()).step_by(2).map(byte).collect();
    String::from_utf8(bytes).expect("UTF-8")
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
