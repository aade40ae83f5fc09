//! Properties of all values: forms lead back, orders are orders, and simple models of arithmetic,
//! LIKE, substring and aggregates agree. PostgreSQL itself is asked by tests/encdb-values.

use std::cmp::Ordering;

use proptest::prelude::*;
use proptest::sample::select;

use pgseal_value::{
    add_interval, arithmetic, cast, compare, extract, hash_bytes, like, order_prefix, substring,
    Aggregate, AggregateKind, Arithmetic, Field, Interval, Type, Value, ValueError, C,
};

fn any_type() -> impl Strategy<Value = Type> {
    select(Type::ALL.to_vec())
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    bytes
}

fn hashed(value: &Value) -> (Type, Vec<u8>) {
    let mut bytes = Vec::new();
    (hash_bytes(value, &mut bytes), bytes)
}

fn parsed(ty: Type, text: &str) -> Value {
    Value::parse(ty, text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Texts that are numbers, dates or words, or nearly.
fn likely_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        "[-+]?[0-9]{0,30}[.]?[0-9]{0,20}(e[-+]?[0-9]{1,3})?",
        "[0-9]{1,6}-[0-9]{1,2}-[0-9]{1,2}([ T][0-9:.]{0,16}([-+][0-9:]{0,6})?)?( BC)?",
        "([0-9]{1,8}|[a-z]{1,9}|[-+.:/, ]){0,9}",
        "\\\\x[0-9a-f]{0,12}",
        "\\PC{0,12}",
        any::<String>(),
    ]
}

/// Bytes that are a numeric, or nearly.
fn likely_numeric() -> impl Strategy<Value = Vec<u8>> {
    let head = (
        any::<i16>(),
        select(vec![0u16, 0x4000, 0xc000, 0xd000, 0xf000, 1]),
        0u16..0x4100,
    );
    let digits = proptest::collection::vec(0u16..10_001, 0..12);
    (head, digits).prop_map(|((weight, sign, scale), digits)| {
        let len = u16::try_from(digits.len()).unwrap_or(0);
        let mut bytes = len.to_be_bytes().to_vec();
        bytes.extend(weight.to_be_bytes());
        bytes.extend(sign.to_be_bytes());
        bytes.extend(scale.to_be_bytes());
        bytes.extend(digits.iter().flat_map(|digit| digit.to_be_bytes()));
        bytes
    })
}

/// Comes back from its bytes and its text, and is its own equal.
fn check_forms(value: &Value) -> Result<(), TestCaseError> {
    let ty = value.ty();
    let text = value.to_text();
    for copy in [Value::decode(ty, &encoded(value)), Value::parse(ty, &text)] {
        let copy = copy.map_err(|error| TestCaseError::fail(format!("{ty:?} {text}: {error}")))?;
        prop_assert_eq!(compare(value, &copy, &C), Ok(Ordering::Equal));
        prop_assert_eq!(copy.to_text(), &*text);
        prop_assert_eq!(hashed(&copy), hashed(value));
        prop_assert_eq!(order_prefix(&copy), order_prefix(value));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn bytes_give_values_that_lead_back(
        ty in any_type(),
        bytes in prop_oneof![proptest::collection::vec(any::<u8>(), 0..24), likely_numeric()],
    ) {
        if let Ok(value) = Value::decode(ty, &bytes) {
            check_forms(&value)?;
        }
        if let Ok(value) = Value::decode(Type::Decimal, &bytes) {
            check_forms(&value)?;
        }
    }

    #[test]
    fn texts_give_values_that_lead_back(ty in any_type(), text in likely_text()) {
        if let Ok(value) = Value::parse(ty, &text) {
            check_forms(&value)?;
            for to in Type::ALL {
                if let Ok(other) = cast(&value, to) {
                    check_forms(&other)?;
                }
            }
            for field in Field::ALL {
                if let Ok(Some(part)) = extract(field, &value) {
                    check_forms(&part)?;
                }
            }
        }
    }

    #[test]
    fn orders_prefixes_and_hashes_agree(
        ty in any_type(),
        texts in proptest::collection::vec(likely_text(), 3),
    ) {
        let values: Vec<Value> =
            texts.iter().filter_map(|text| Value::parse(ty, text).ok()).collect();
        for a in &values {
            for b in &values {
                let order = compare(a, b, &C).expect("one type");
                prop_assert_eq!(compare(b, a, &C), Ok(order.reverse()));
                prop_assert_eq!(order == Ordering::Equal, hashed(a) == hashed(b));
                let prefixes = order_prefix(a).cmp(&order_prefix(b));
                prop_assert!(prefixes == Ordering::Equal || prefixes == order);
                for c in &values {
                    if order.is_le() && compare(b, c, &C).is_ok_and(Ordering::is_le) {
                        prop_assert!(compare(a, c, &C).is_ok_and(Ordering::is_le));
                    }
                }
            }
        }
    }

    #[test]
    fn two_types_are_ordered_as_one(
        texts in proptest::collection::vec(likely_text(), 2),
        floats in (any::<f32>(), any::<f64>()),
        integers in (any::<i32>(), prop_oneof![any::<i64>(), any::<i32>().prop_map(i64::from)]),
    ) {
        let (a, b) = (Value::Int4(integers.0), Value::Int8(integers.1));
        let order = i64::from(integers.0).cmp(&integers.1);
        prop_assert_eq!(compare(&a, &b, &C), Ok(order));
        prop_assert_eq!(compare(&b, &a, &C), Ok(order.reverse()));
        let same = Value::Int8(integers.0.into());
        prop_assert_eq!(hashed(&a), hashed(&same));
        let (a, b) = (Value::Float4(floats.0), Value::Float8(floats.1));
        let wide = Value::Float8(f64::from(floats.0));
        prop_assert_eq!(compare(&a, &b, &C), compare(&wide, &b, &C));
        prop_assert_eq!(compare(&b, &a, &C), compare(&b, &wide, &C));
        let Ok(date) = Value::parse(Type::Date, &texts[0]) else { return Ok(()) };
        for ty in [Type::Timestamp, Type::TimestampTz] {
            let Ok(b) = Value::parse(ty, &texts[1]) else { continue };
            let order = compare(&date, &b, &C).expect("two times");
            prop_assert_eq!(compare(&b, &date, &C), Ok(order.reverse()));
            match cast(&date, ty) {
                Ok(a) => prop_assert_eq!(compare(&a, &b, &C), Ok(order)),
                Err(_) => prop_assert_eq!(order == Ordering::Less, b.to_text() == "infinity"),
            }
        }
    }

    #[test]
    fn numerics_compute_as_integers_do(
        a in -10i128.pow(30)..10i128.pow(30),
        b in -10i128.pow(18)..10i128.pow(18),
        scale in 0usize..9,
        op in select(vec![Arithmetic::Add, Arithmetic::Sub, Arithmetic::Mul, Arithmetic::Mod]),
    ) {
        let shift = |number: i128, decimals: usize| parsed(Type::Decimal, &format!("{number}e-{decimals}"));
        let (a, b) = (a >> (b & 63), b >> (a & 31));
        let expected = match op {
            Arithmetic::Add => Some((a + b, scale)),
            Arithmetic::Sub => Some((a - b, scale)),
            Arithmetic::Mul => a.checked_mul(b).map(|product| (product, 2 * scale)),
            _ => a.checked_rem(b).map(|rest| (rest, scale)),
        };
        let result = arithmetic(op, &shift(a, scale), &shift(b, scale));
        match (result, expected) {
            (Ok(result), Some((number, decimals))) => {
                prop_assert_eq!(result.to_text(), shift(number, decimals).to_text());
            }
            (Err(error), None) => prop_assert_eq!(error, ValueError::DivisionByZero),
            (Ok(_), None) => prop_assert_eq!(op, Arithmetic::Mul),
            (Err(error), Some(_)) => return Err(TestCaseError::fail(error.to_string())),
        }
    }

    #[test]
    fn quotients_are_the_nearest_of_their_scale(
        a in "-?[1-9][0-9]{0,40}([.][0-9]{1,20})?",
        b in "-?[1-9][0-9]{0,40}([.][0-9]{1,20})?",
    ) {
        let (x, y) = (parsed(Type::Decimal, &a), parsed(Type::Decimal, &b));
        let apply = |op, a: &Value, b: &Value| {
            arithmetic(op, a, b).map_err(|error| TestCaseError::fail(error.to_string()))
        };
        let quotient = apply(Arithmetic::Div, &x, &y)?;
        let text = quotient.to_text();
        let scale = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let error = apply(Arithmetic::Sub, &apply(Arithmetic::Mul, &quotient, &y)?, &x)?;
        let limit = apply(Arithmetic::Mul, &parsed(Type::Decimal, &format!("5e-{}", scale + 1)), &y)?;
        let size = |value: &Value| pgseal_value::absolute(value).expect("a number");
        let order = compare(&size(&error), &size(&limit), &C);
        prop_assert!(order.is_ok_and(Ordering::is_le), "{} / {} = {}", a, b, text);
    }

    #[test]
    fn like_agrees_with_its_definition(
        text in "[ab\u{e4}]{0,8}",
        pattern in "([ab\u{e4}_%]|\\\\[ab%_]){0,8}",
    ) {
        let expected = defined_like(
            &text.chars().collect::<Vec<_>>(),
            &pattern.chars().collect::<Vec<_>>(),
        );
        let (value, wanted) = (Value::Text(text.clone()), Value::Text(pattern.clone()));
        prop_assert_eq!(like(&value, &wanted, None), Ok(expected));
        let bytes = Value::Bytea(text.replace('\u{e4}', "c").into());
        let wanted = Value::Bytea(pattern.replace('\u{e4}', "c").into());
        prop_assert_eq!(like(&bytes, &wanted, None), Ok(expected));
    }

    #[test]
    fn days_and_microseconds_lead_back(
        instant in any::<i32>(),
        days in -1_000_000i32..1_000_000,
        microseconds in -(1i64 << 56)..(1 << 56),
    ) {
        let there = Interval { months: 0, days, microseconds };
        let value = Value::Timestamp(i64::from(instant) * 1_000_003);
        let sum = add_interval(&value, there).expect("far from the ends");
        let back = add_interval(&sum, there.negated()).expect("far from the ends");
        prop_assert_eq!(compare(&value, &back, &C), Ok(Ordering::Equal));
        let order = 0.cmp(&(i64::from(days) * 86_400_000_000 + microseconds));
        prop_assert_eq!(compare(&value, &sum, &C), Ok(order));
    }

    #[test]
    fn substrings_are_those_of_characters(
        text in "\\PC{0,9}",
        from in -12i32..12,
        len in proptest::option::of(0i32..12),
    ) {
        let end = len.map_or(i32::MAX, |len| from + len);
        let inside = |place: usize| i32::try_from(place + 1).is_ok_and(|at| at >= from && at < end);
        let numbered = text.chars().enumerate();
        let expected: String = numbered.filter(|(at, _)| inside(*at)).map(|(_, c)| c).collect();
        let found = substring(&Value::Text(text), from, len).map(|value| value.to_text());
        prop_assert_eq!(found, Ok(expected));
    }

    #[test]
    fn states_are_bytes_and_halves_make_a_whole(
        kind in select(AggregateKind::ALL.to_vec()),
        ty in any_type(),
        texts in proptest::collection::vec(likely_text(), 0..9),
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let _ = Aggregate::decode(&bytes);
        let Ok(mut whole) = Aggregate::new(kind, ty) else {
            return Ok(());
        };
        let mut halves = [kind, kind].map(|kind| Aggregate::new(kind, ty).expect("as before"));
        for (index, text) in texts.iter().enumerate() {
            if let Ok(value) = Value::parse(ty, text) {
                let half = &mut halves[usize::from(index >= texts.len() / 2)];
                let step = |aggregate: &mut Aggregate| match kind.takes_pairs() {
                    true => aggregate.step_pair(&value, &value),
                    false => aggregate.step(&value, &C),
                };
                if step(&mut whole).is_err() || step(half).is_err() {
                    return Ok(());
                }
            }
        }
        let mut state = Vec::new();
        halves[1].encode(&mut state);
        let second = Aggregate::decode(&state).expect("a state");
        let combined = halves[0].combine(&second, &C);
        if kind.takes_pairs() && combined == Err(ValueError::Overflow) {
            return Ok(());
        }
        combined.expect("of one kind");
        let [first, _] = &halves;
        let print = |aggregate: &Aggregate| {
            aggregate.finish().map(|value| value.map(|value| value.to_text()))
        };
        if !matches!(ty, Type::Float4 | Type::Float8) && !kind.takes_pairs() {
            prop_assert_eq!(print(first), print(&whole));
        }
        for len in 0..state.len() {
            let _ = Aggregate::decode(&state[..len]);
        }
    }

    #[test]
    fn no_operation_panics(
        types in (any_type(), any_type()),
        texts in (likely_text(), likely_text()),
        op in select(vec![
            Arithmetic::Add,
            Arithmetic::Sub,
            Arithmetic::Mul,
            Arithmetic::Div,
            Arithmetic::Mod,
        ]),
    ) {
        let (a, b) = (Value::parse(types.0, &texts.0), Value::parse(types.1, &texts.1));
        if let (Ok(a), Ok(b)) = (a, b) {
            if let Ok(result) = arithmetic(op, &a, &b) {
                check_forms(&result)?;
            }
        }
    }
}

/// LIKE, as the manual has it.
fn defined_like(text: &[char], pattern: &[char]) -> bool {
    match (pattern, text) {
        ([], _) => text.is_empty(),
        (['%', rest @ ..], _) => (0..=text.len()).any(|at| defined_like(&text[at..], rest)),
        (['_', rest @ ..], [_, after @ ..]) => defined_like(after, rest),
        (['\\', c, rest @ ..], [first, after @ ..]) => c == first && defined_like(after, rest),
        ([c, rest @ ..], [first, after @ ..]) => c == first && defined_like(after, rest),
        (_, []) => false,
    }
}
