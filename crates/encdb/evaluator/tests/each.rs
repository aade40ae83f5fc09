//! Questions about many cells: each is answered as if it came alone, and with no right more.
#![allow(clippy::unwrap_used)]

mod common;

use std::cmp::Ordering;

use common::*;
use pgseal_cell::grant::Operation;
use pgseal_cell::Mode;
use pgseal_evaluator::engine::Connection;
use pgseal_evaluator_proto::{
    AggregateRequest, Batch, Collation, ComparisonRequest, EachRequest, Filter, FilterScope,
    Filtered, Items, Matching, OperationRequest, Plain, Program, Request, Response,
};
use pgseal_value::{AggregateKind, Value};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const GRANTED: [Operation; 5] = [
    Operation::CompareDerived,
    Operation::ComparePlain,
    Operation::Arithmetic,
    Operation::Text,
    Operation::Words,
];
const PROGRAM: &[u8] = b"$$+";

/// Cells of several types, derived ones, plain operands, one that is broken in each part, a long
/// one, and none.
fn cells(key: &mut Sealer) -> Vec<Vec<u8>> {
    let texts = ["", "a%", "ab", "ba"].map(|text| Value::Text(text.into()));
    let numbers = [0, 7, 7, i32::MAX].map(Value::Int4);
    let others = [Value::Int8(7), Value::Date(9), Value::Float8(f64::NAN)];
    let values: Vec<Value> = texts.into_iter().chain(numbers).chain(others).collect();
    let stored = values.iter().map(|value| key.seal(value)).collect();
    let mut cells: Vec<Vec<u8>> = stored;
    cells.push(key.seal_as(&Value::Int4(7), Mode::Derived));
    cells.push(key.seal_as(&Value::Text("ab".into()), Mode::Derived));
    let plain = [Value::Int4(7), Value::Text("ab".into()), Value::Int8(8)];
    cells.extend(plain.iter().map(Plain::of));
    // In nonce, tag and text; the check byte is right.
    for at in [8, 20, 36] {
        let mut broken = cells[4].clone();
        broken[at] ^= 1;
        broken[0] ^= 1;
        cells.push(broken);
    }
    cells.push(key.seal(&Value::Text("ab".repeat(2000))));
    cells.push(Vec::new());
    cells
}

/// The answers about each; none where that cell is to be asked about alone.
fn together(connection: &mut Connection, request: EachRequest<'_>) -> Vec<Option<Vec<u8>>> {
    let response = call(connection, &Request::Each(request)).unwrap();
    let Response::Each(answers) = Response::parse(&response).unwrap() else {
        panic!("no answers about each");
    };
    assert_eq!(answers.len(), request.count() as usize);
    let there = |item: &[u8]| (!item.is_empty()).then(|| item.to_vec());
    answers.iter().map(there).collect()
}

/// The answer to a request; none if it is refused.
fn alone(connection: &mut Connection, request: Request<'_>) -> Option<Vec<u8>> {
    call(connection, &request).ok()
}

/// The bytes of the value of a cell that was answered: no two cells of one value are alike.
fn opened(key: &Sealer, answer: &[u8]) -> Option<Vec<u8>> {
    match Response::parse(answer).unwrap() {
        Response::Cell(cell) => {
            let mut bytes = vec![cell[1]];
            key.open(cell).encode(&mut bytes);
            Some(bytes)
        }
        Response::Null => None,
        other => panic!("{other:?}"),
    }
}

fn strings(cells: &[Vec<u8>]) -> Vec<&[u8]> {
    cells.iter().map(Vec::as_slice).collect()
}

proptest! {
    #[test]
    fn each_is_answered_as_if_it_came_alone(
        operations in subsequence(GRANTED.to_vec(), 0..=GRANTED.len()),
        chosen in vec(any::<prop::sample::Index>(), 2..40),
        matching in select(vec![
            Matching::Like,
            Matching::Ilike(Collation::C),
            Matching::Prefix,
            Matching::Regex(Collation::C),
            Matching::RegexInsensitive(Collation::C),
            Matching::Similar(Collation::C),
            Matching::Words(Collation::C),
        ]),
    ) {
        let (mut connection, _, mut key) = alice_with(&engine(false), &operations);
        let all = cells(&mut key);
        let several: Vec<Vec<u8>> = chosen.iter().map(|at| at.get(&all).clone()).collect();
        let lefts = strings(&several);
        let (probe, collation) = (lefts[0], Collation::C);
        let compare = |left, right| {
            Request::Comparison(ComparisonRequest::Compare { collation, left, right })
        };
        let c = &mut connection;
        let to_one: Vec<_> = lefts.iter().map(|left| alone(c, compare(left, probe))).collect();
        let rights: Vec<&[u8]> = lefts.iter().rev().copied().collect();
        let pairs = lefts.iter().zip(&rights);
        let pairs = pairs.map(|(left, right)| compare(left, right));
        let to_another: Vec<_> = pairs.map(|request| alone(c, request)).collect();
        for (rights, expected) in [(&[probe][..], to_one), (&rights, to_another)] {
            let (lefts, rights) = (items(&lefts), items(rights));
            let told = together(c, EachRequest::Compare { collation, lefts, rights });
            prop_assert_eq!(told, expected);
        }
        let like = |text| {
            Request::Operation(OperationRequest::Like { matching, text, pattern: probe })
        };
        let expected: Vec<_> = lefts.iter().map(|text| alone(c, like(text))).collect();
        let asked = EachRequest::Like { matching, pattern: probe, texts: items(&lefts) };
        prop_assert_eq!(together(c, asked), expected);
    }

    #[test]
    fn each_row_is_computed_as_if_it_came_alone(
        operations in subsequence(GRANTED.to_vec(), 0..=GRANTED.len()),
        chosen in vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let (mut connection, _, mut key) = alice_with(&engine(false), &operations);
        let all = cells(&mut key);
        let several: Vec<Vec<u8>> = chosen.iter().map(|at| at.get(&all).clone()).collect();
        let cells = strings(&several);
        let rows: Vec<&[&[u8]]> = cells.chunks_exact(2).collect();
        let program = Program::parse(PROGRAM, 2).unwrap();
        let operands = rows.concat();
        let told = together(
            &mut connection,
            EachRequest::Compute { program, operands: items(&operands) },
        );
        for (row, told) in rows.iter().zip(told) {
            let operands = items(row);
            let request = Request::Operation(OperationRequest::Compute { program, operands });
            let expected = alone(&mut connection, request);
            let values = [told, expected].map(|made| made.map(|made| opened(&key, &made)));
            prop_assert_eq!(&values[0], &values[1]);
        }
    }

    #[test]
    fn tags_are_equal_where_values_are(
        granted: bool,
        chosen in vec(any::<prop::sample::Index>(), 2..40),
    ) {
        let operations: &[Operation] = if granted { &[Operation::CompareDerived] } else { &[] };
        let (mut connection, _, mut key) = alice_with(&engine(false), operations);
        let all = cells(&mut key);
        let several: Vec<Vec<u8>> = chosen.iter().map(|at| at.get(&all).clone()).collect();
        let cells = strings(&several);
        let tags = together(&mut connection, EachRequest::Tag(items(&cells)));
        for (cell, tag) in cells.iter().zip(&tags) {
            let request = Request::Comparison(ComparisonRequest::Hash { seed: 0, cell });
            let hash = alone(&mut connection, request);
            // Both begin with a byte for the kind.
            let halves = [tag, &hash].map(|answer| answer.as_ref().map(|bytes| &bytes[1..9]));
            prop_assert_eq!(halves[0], halves[1]);
        }
        for (left, a) in cells.iter().zip(&tags) {
            for (right, b) in cells.iter().zip(&tags) {
                let collation = Collation::C;
                let compare = ComparisonRequest::Compare { collation, left, right };
                let order = alone(&mut connection, Request::Comparison(compare));
                let (Some(a), Some(b), Some(order)) = (a, b, order) else {
                    continue;
                };
                let alike = left[1] == right[1];
                let equal = Response::parse(&order) == Ok(Response::Order(Ordering::Equal));
                prop_assert!(!alike || (a == b) == equal, "{left:?} {right:?}");
            }
        }
    }
}

/// Granted for sums, and for what comes into them.
const FOR_SUMS: [Operation; 3] = [
    Operation::Aggregate,
    Operation::Arithmetic,
    Operation::CompareDerived,
];

proptest! {
    #[test]
    fn groups_are_aggregated_as_if_each_came_alone(
        operations in subsequence(FOR_SUMS.to_vec(), 0..=FOR_SUMS.len()),
        chosen in vec(any::<prop::sample::Index>(), 1..40),
        kind in select(AggregateKind::ALL.to_vec())
            .prop_filter("of one value", |kind| !kind.takes_pairs()),
        program in select(vec![&b"$$+"[..], b"$$*~", b"$@$-"]),
        sizes in vec(1_usize..5, 1..12),
    ) {
        let (mut connection, _, mut key) = alice_with(&engine(false), &operations);
        let all = cells(&mut key);
        let at = |number: usize| chosen[number % chosen.len()].get(&all).as_slice();
        // One value in two is a cell, the other one is computed of two.
        let (mut shape, mut cells, mut counts, mut groups) = (vec![], vec![], vec![], vec![]);
        for size in sizes {
            let (from, first) = (shape.len(), cells.len());
            for _ in 0..size {
                let computed = shape.len() % 2;
                shape.push(u8::try_from(computed).unwrap());
                (0..=computed).for_each(|_| cells.push(at(cells.len())));
            }
            counts.extend(u32::try_from(size).unwrap().to_le_bytes());
            groups.push((from..shape.len(), first..cells.len()));
        }
        let programs = [program];
        let batch = |shape, cells| Batch {
            programs: Items::Listed(&programs),
            shape,
            cells,
            ..Batch::of_cells(kind, Collation::C, Items::Listed(&[]))
        };
        let c = &mut connection;
        let expected: Vec<_> = groups.into_iter().map(|(values, range)| {
            let batch = batch(&shape[values], items(&cells[range]));
            alone(c, Request::Aggregate(AggregateRequest::Finish { state: 0, batch, stays: false }))
        }).collect();
        let batch = batch(&shape, items(&cells));
        let told = together(c, EachRequest::Aggregate { counts: &counts, batch });
        for (told, expected) in told.iter().zip(&expected) {
            let values = [told, expected].map(|made| made.as_ref().map(|made| opened(&key, made)));
            prop_assert_eq!(&values[0], &values[1]);
        }
    }

    #[test]
    fn a_sum_of_what_is_computed_is_that_of_the_sealed_results(
        operations in subsequence(FOR_SUMS.to_vec(), 0..=FOR_SUMS.len()),
        numbers in vec(any::<(i16, i16)>(), 1..20),
        kind in select(vec![AggregateKind::Sum, AggregateKind::Avg]),
        program in select(vec![&b"$$+"[..], b"$$*~", b"$M$/", b"$$-@"]),
    ) {
        let (mut connection, _, mut key) = alice_with(&engine(false), &operations);
        let numbers = numbers.iter().flat_map(|(a, b)| [*a, *b]);
        let cells: Vec<Vec<u8>> = numbers.map(|number| key.int4(number.into())).collect();
        let cells = strings(&cells);
        let c = &mut connection;
        let sealed: Option<Vec<Vec<u8>>> = cells.chunks_exact(2).map(|row| {
            let (program, operands) = (Program::parse(program, 2).unwrap(), items(row));
            let compute = OperationRequest::Compute { program, operands };
            let answer = alone(c, Request::Operation(compute))?;
            match Response::parse(&answer).unwrap() {
                Response::Cell(cell) => Some(cell.to_vec()),
                other => panic!("{other:?}"),
            }
        }).collect();
        let mut finish = |batch: Batch<'_>| {
            let finish = AggregateRequest::Finish { state: 0, batch, stays: false };
            alone(c, Request::Aggregate(finish)).map(|made| opened(&key, &made))
        };
        let expected = sealed.and_then(|sealed| {
            finish(Batch::of_cells(kind, Collation::C, items(&strings(&sealed))))
        });
        let (programs, shape) = ([program], vec![1; cells.len() / 2]);
        let told = finish(Batch {
            programs: Items::Listed(&programs),
            shape: &shape,
            ..Batch::of_cells(kind, Collation::C, items(&cells))
        });
        prop_assert_eq!(told, expected);
    }
}

/// The outcomes of two comparisons with a constant, of a match with it, and of a comparison of what
/// is computed of both.
type Outcomes = [Option<bool>; 4];

/// `(c < k OR NOT c LIKE k) AND c >= k AND c + k = c`
const FILTER: &[u8] = b"|\x02<\x00\x80\0~L\x00\x80g\x00\x80\0=\x40\x00\0";

/// Returns a filter's answer about a row, made of the answers about its parts.
fn expected(outcomes: Outcomes, is_null: bool) -> Filtered {
    let [less, same, like, sum] = outcomes.map(|outcome| match is_null {
        true => Some(None),
        false => outcome.map(Some),
    });
    // `c < k OR NOT c LIKE k`, which looks no further than it has to.
    let either = match less {
        Some(Some(true)) => less,
        Some(_) => like.map(|like| match (like, less) {
            (Some(false), _) => Some(true),
            (Some(true), Some(Some(false))) => Some(false),
            _ => None,
        }),
        None => None,
    };
    let mut hold = 0;
    for outcome in [either, same, sum] {
        match outcome {
            Some(Some(true)) => hold += 1,
            Some(_) => return Filtered { hold, fails: true },
            None => break,
        }
    }
    Filtered { hold, fails: false }
}

proptest! {
    #[test]
    fn a_filter_is_its_conditions_one_by_one(
        operations in subsequence(GRANTED.to_vec(), 0..=GRANTED.len()),
        chosen in vec(any::<prop::sample::Index>(), 1..40),
    ) {
        let (mut connection, _, mut key) = alice_with(&engine(false), &operations);
        let all = cells(&mut key);
        let several: Vec<Vec<u8>> = chosen.iter().map(|at| at.get(&all).clone()).collect();
        let cells = strings(&several);
        let (constant, collation, collations) = (cells[0], Collation::C, Items::Listed(&[]));
        let c = &mut connection;
        let rows: Vec<Filtered> = cells.iter().map(|cell| {
            let compare = ComparisonRequest::Compare { collation, left: cell, right: constant };
            let order = alone(c, Request::Comparison(compare));
            let order = order.map(|order| match Response::parse(&order).unwrap() {
                Response::Order(order) => order,
                other => panic!("{other:?}"),
            });
            let matching = Matching::Like;
            let like = OperationRequest::Like { matching, text: cell, pattern: constant };
            let like = alone(c, Request::Operation(like));
            let like = like.map(|like| Response::parse(&like).unwrap() == Response::Truth(true));
            let (program, operands) = (Program::parse(PROGRAM, 2).unwrap(), [*cell, constant]);
            let operands = items(&operands);
            let sum = alone(c, Request::Operation(OperationRequest::Compute { program, operands }));
            let sum = sum.and_then(|sum| match Response::parse(&sum).unwrap() {
                Response::Cell(sum) => {
                    let compare = ComparisonRequest::Compare { collation, left: sum, right: cell };
                    alone(c, Request::Comparison(compare))
                }
                _ => None,
            });
            let equal = |order: Vec<u8>| {
                Response::parse(&order).unwrap() == Response::Order(Ordering::Equal)
            };
            let outcomes = [
                order.map(Ordering::is_lt),
                order.map(Ordering::is_ge),
                like,
                sum.map(equal),
            ];
            expected(outcomes, cell.is_empty() || constant.is_empty())
        }).collect();
        let scope = FilterScope { columns: 1, constants: 1, programs: Items::Listed(&[b"\x02\x00\x80$$+"]),
collations };
        let filter = Filter::parse(FILTER, &scope).unwrap();
        let told = together(c, EachRequest::Filter {
            filter,
            programs: scope.programs,
            collations,
            constants: Items::Listed(&[constant]),
            columns: 1,
            cells: items(&cells),
        });
        for (told, row) in told.iter().zip(rows) {
            let told = told.as_ref().map(|told| Response::parse(told).unwrap());
            prop_assert_eq!(told, Some(Response::Filtered(row)));
        }
    }
}

/// Without a session nobody is told anything, and each is refused alone.
#[test]
fn nothing_is_told_without_a_session() {
    let (_, _, mut key) = alice_with(&engine(false), &[]);
    let cell = key.int4(1);
    let mut stranger = connect(&engine(false), pgseal_evaluator_proto::AttachAs::Client);
    let tags = together(&mut stranger, EachRequest::Tag(Items::Listed(&[&cell])));
    assert_eq!(tags, [None]);
}
