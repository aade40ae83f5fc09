//! Compiled expressions: what their steps give one by one, and no right more.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use pgseal_cell::grant::{KeyScope, Operation, Subject};
use pgseal_cell::{CellRef, DataKeyId, Mode, Type};
use pgseal_evaluator::engine::{CollationId, Connection};
use pgseal_evaluator_proto::{AttachAs, OperationRequest, Program, Refusal, Request, Step, Unary};
use pgseal_value::{Value, ValueError};
use proptest::collection::vec;
use proptest::prelude::*;

/// A cell, or nothing for NULL.
type Outcome = Result<Option<Vec<u8>>, Refusal>;

/// The operations that steps need, and the one that lets a value come under another key.
const OPERATIONS: [Operation; 5] = [
    Operation::Arithmetic,
    Operation::Text,
    Operation::Cast,
    Operation::Extract,
    Operation::ConvertOut,
];
/// Steps of one byte, and `(`, in whose place a function of text comes.
const STEPS: &[u8] = b"$$$$$$$$+-*/%^p|~@#0aj5IJKLMNOPQRSy(((";
const TEXT: [&str; 13] = [
    "$(s2)",
    "$(s-1,3)",
    "$(s1,-1)",
    "$(l)",
    "$(uC.UTF-8)",
    "$(iC.UTF-8)",
    "$(h-1)",
    "$(t1)",
    "$(v)",
    "$(n2)",
    "$(b)",
    "$(j3)",
    "$(k4,\"2%c3%a4\")",
];

/// A function of text alone.
fn of_text(program: &'static str) -> Program<'static> {
    Program::parse(program.as_bytes(), 1).unwrap()
}

/// One step as a request of its own; nothing is NULL.
fn alone(connection: &mut Connection, step: Step<'_>, stack: &mut Vec<Option<Vec<u8>>>) -> Outcome {
    let last = stack.pop().unwrap();
    let mut out = Vec::new();
    if let Step::Arithmetic(_) | Step::Concat = step {
        let (Some(left), Some(right)) = (stack.pop().unwrap(), last) else {
            return Ok(None);
        };
        match step {
            Step::Arithmetic(op) => connection.arithmetic(op, &left, &right, &mut out)?,
            _ => connection.concat(&left, &right, &mut out)?,
        }
        return Ok(Some(out));
    }
    let Some(cell) = last else { return Ok(None) };
    match step {
        Step::Cast(to) => connection.cast(to, &cell, &mut out)?,
        Step::Length => connection.length(&cell, &mut out)?,
        Step::Extract(field) => {
            let program = [b'$', Step::of_field(field).unwrap()];
            let program = Program::parse(&program, 1);
            let program = program.map_err(|_| Refusal::MalformedRequest)?;
            return compiled(connection, program, &[&cell]);
        }
        Step::Text(step) => {
            let mut all = TEXT.iter().map(|program| of_text(program));
            let program = all.find(|it| it.steps().last() == Some(Step::Text(step)));
            return compiled(connection, program.unwrap(), &[&cell]);
        }
        Step::Negate => connection.apply(Unary::Negate, &cell, &mut out)?,
        _ => connection.apply(Unary::Absolute, &cell, &mut out)?,
    };
    Ok(Some(out))
}

fn one_by_one(connection: &mut Connection, program: Program<'_>, operands: &[&[u8]]) -> Outcome {
    let (mut operands, mut stack) = (operands.iter(), Vec::new());
    for step in program.steps() {
        let made = match step {
            Step::Operand => {
                Some(operands.next().unwrap().to_vec()).filter(|cell| !cell.is_empty())
            }
            _ => alone(connection, step, &mut stack)?,
        };
        stack.push(made);
    }
    Ok(stack.pop().unwrap())
}

fn compiled(connection: &mut Connection, program: Program<'_>, operands: &[&[u8]]) -> Outcome {
    let mut out = Vec::new();
    let there = connection.compute(program, items(operands), &mut out)?;
    Ok(there.then_some(out))
}

/// Two keys of alice's, with such of the operations as the bits say, and a session with both.
fn session(granted: [u8; 2]) -> (Connection, [Sealer; 2]) {
    let alice = Party::new(1);
    let keys = [alice.key(11, false), alice.key(12, false)];
    let mut grants = Vec::new();
    for (key, bits) in keys.iter().zip(granted) {
        let all = OPERATIONS.iter().enumerate();
        let some: Vec<Operation> = all
            .filter(|(bit, _)| bits >> bit & 1 == 1)
            .map(|(_, op)| *op)
            .collect();
        if !some.is_empty() {
            grants.push(alice.grant_with(Subject::Owner, &some, |terms| {
                terms.keys = KeyScope::Keys(vec![key.cipher.id()]);
            }));
        }
    }
    let mut connection = connect(&engine(false), AttachAs::Client);
    open(&mut connection, &alice, &alice, &grants, &[]).unwrap();
    for key in &keys {
        assert_eq!(load(&mut connection, key), 1);
    }
    (connection, keys)
}

fn value(number: u8) -> Value {
    match number % 8 {
        0 => Value::Int4(0),
        1 => Value::Int4(7),
        2 => Value::Int4(i32::MIN),
        3 => Value::Int8(1 << 40),
        4 => Value::Float8(2.5),
        5 => Value::Date(9000),
        6 => Value::Bool(true),
        _ => Value::Text("12".into()),
    }
}

/// Returns what a cell says of itself, and its value's bytes.
fn read(keys: &[Sealer; 2], cell: &[u8]) -> (Type, Mode, DataKeyId, Vec<u8>) {
    let parsed = CellRef::parse(cell).unwrap();
    let id = parsed.key_id().unwrap();
    let key = keys.iter().find(|key| key.cipher.id() == id).unwrap();
    let mut plain = Vec::new();
    key.open(cell).encode(&mut plain);
    (parsed.ty(), parsed.mode(), id, plain)
}

/// Whether both are the same value under the same key, or the same refusal.
fn same(keys: &[Sealer; 2], compiled: &Outcome, alone: &Outcome) -> bool {
    match (compiled, alone) {
        (Ok(Some(a)), Ok(Some(b))) => read(keys, a) == read(keys, b),
        _ => compiled == alone,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn a_program_gives_what_its_steps_give_one_by_one(
        steps in vec(any::<prop::sample::Index>(), 1..24),
        values in vec(any::<(u8, bool, bool)>(), 24),
        all: bool,
        granted: [u8; 2],
    ) {
        let (mut connection, mut keys) = session(if all { [31; 2] } else { granted });
        // What does not fit together yet is left out.
        let (mut program, mut cells) = (Vec::new(), Vec::<Vec<u8>>::new());
        let mut height = 0_usize;
        for (at, index) in steps.into_iter().enumerate() {
            let byte = STEPS[index.index(STEPS.len())];
            let takes = match Step::from_byte(byte) {
                Some(Step::Operand) => 0,
                Some(Step::Arithmetic(_) | Step::Concat) => 2,
                _ => 1,
            };
            if height < takes {
                continue;
            }
            height = height + 1 - takes;
            if takes == 0 {
                let (number, second, null) = values[cells.len()];
                let sealed = keys[usize::from(second)].seal(&value(number));
                cells.push(if null && number % 4 == 0 { Vec::new() } else { sealed });
            }
            match byte {
                b'(' => program.extend(TEXT[at % TEXT.len()].bytes().skip(1)),
                _ => program.push(byte),
            }
        }
        program.extend(std::iter::repeat_n(b'+', height.saturating_sub(1)));
        let operands: Vec<&[u8]> = cells.iter().map(Vec::as_slice).collect();
        // Nothing, or an operand alone.
        let program = Program::parse(&program, operands.len());
        prop_assume!(program.is_ok());
        let program = program.unwrap();
        let made = compiled(&mut connection, program, &operands);
        let steps = one_by_one(&mut connection, program, &operands);
        prop_assert!(same(&keys, &made, &steps), "{program:?}: {:?} {:?}", made.err(), steps.err());
    }
}

/// x / x + x / x and so on: the oracle is not built in one request either.
#[test]
fn each_step_needs_its_grant() {
    let program = Program::parse(b"$$/$$/+y$|", 5).unwrap();
    for (granted, missing) in [
        (0b0000, Some(Operation::Arithmetic)),
        (0b0001, Some(Operation::Cast)),
        (0b0101, Some(Operation::Text)),
        (0b0111, None),
    ] {
        let (mut connection, [mut key, _]) = session([granted, 0]);
        let (a, b) = (key.int4(5), key.text("!"));
        let made = compiled(&mut connection, program, &[&a, &a, &a, &a, &b]);
        match missing {
            Some(operation) => assert_eq!(made, Err(no_grant(operation))),
            None => assert_eq!(key.open_text(&made.unwrap().unwrap()), "2!"),
        }
    }
}

/// Returns the result of a program for these texts, where these operations are granted.
fn searched(program: &str, operands: &[&str], granted: &[Operation]) -> Result<String, Refusal> {
    let (mut connection, _, mut key) = alice_with(&engine(false), granted);
    let cells: Vec<Vec<u8>> = operands.iter().map(|text| key.text(text)).collect();
    let cells: Vec<&[u8]> = cells.iter().map(Vec::as_slice).collect();
    let program = Program::parse(program.as_bytes(), cells.len())?;
    let made = compiled(&mut connection, program, &cells)?;
    Ok(made.map_or_else(String::new, |made| key.open(&made).to_text()))
}

#[test]
fn functions_of_text_take_plain_texts_and_operands() {
    let granted = [Operation::Text, Operation::CompareDerived];
    for (program, operands, result) in [
        ("$(b)", &["  a "][..], "a"),
        ("$(f\"b \")", &[" ba "], "a "),
        ("$(e\"%c3%a4\")", &["aä"], "a"),
        ("$$(b$)", &["xax", "x"], "a"),
        ("$$(p$)", &["äöü", "ü"], "3"),
        ("$$(p$)", &["äöü", "u"], "0"),
        ("$(r\"a\",\"%2c%29\")", &["bab"], "b,)b"),
        ("$(j4,\"xy\")(k5)", &["ab"], "xyab "),
        ("$$$(r$,$)", &["bab", "a", ""], "bb"),
        ("$$(r$,\"-\")", &["bab", "b"], "-a-"),
        ("$(d\"@\",-1)", &["a@b"], "b"),
        ("$$(d$,1)", &["a@b", "@"], "a"),
        // What was made on the way is looked for, and is looked into.
        ("$(v)$(v)(b$)", &["abc", "ca"], "b"),
        ("$$|$(h1)(p$)", &["a", "xb", "xy"], "2"),
    ] {
        let made = searched(program, operands, &granted);
        assert_eq!(made.as_deref(), Ok(result), "{program}");
    }
    let zero = searched("$(d\"@\",0)", &["a"], &granted);
    assert_eq!(zero, Err(Refusal::Value(ValueError::FieldZero)));
}

/// A result's length shows whether a text is in another. So where one is the caller's, or was made
/// here, a comparison with what was made here is asked for, too, as for a pattern of LIKE.
#[test]
fn what_is_looked_for_is_asked_for_as_a_pattern_is() {
    let (text, both) = (
        [Operation::Text],
        [Operation::Text, Operation::CompareDerived],
    );
    for (program, operands, is_text_enough) in [
        ("$(b)", &["a"][..], true),
        ("$(n2)", &["a"], true),
        ("$(j5)(k9,\"x\")", &["a"], true),
        ("$(h1)(t-1)(v)(i)", &["a"], true),
        ("$$(b$)", &["a", "b"], true),
        ("$$(p$)", &["a", "b"], true),
        ("$$$(r$,$)", &["a", "b", "c"], true),
        ("$$(d$,1)", &["a", "b"], true),
        ("$(b\"b\")", &["a"], false),
        ("$(r\"b\",\"\")", &["a"], false),
        ("$$(r$,\"c\")", &["a", "b"], false),
        ("$(d\"b\",1)", &["a"], false),
        ("$(v)$(b$)", &["a", "b"], false),
        ("$$(v)(p$)", &["a", "b"], false),
        ("$$$(v)(r$,$)", &["a", "b", "c"], false),
    ] {
        let refused = searched(program, operands, &[Operation::CompareDerived]);
        assert_eq!(refused, Err(no_grant(Operation::Text)), "{program}");
        let derived = no_grant(Operation::CompareDerived);
        let made = searched(program, operands, &text).map(|_| ());
        let expected = if is_text_enough { Ok(()) } else { Err(derived) };
        assert_eq!(made, expected, "{program}");
        assert!(searched(program, operands, &both).is_ok(), "{program}");
    }
}

/// A result is under the key of the first text, if what the other keys seal may flow there.
#[test]
fn each_operand_flows_into_the_result() {
    let program = Program::parse(b"$$$(r$,$)", 3).unwrap();
    let refused = no_grant(Operation::ConvertOut);
    // Text, and text with conversions to plaintext.
    let (less, more) = (0b00010, 0b10010);
    for (granted, refused) in [([less, more], None), ([more, less], Some(refused))] {
        let (mut connection, [mut one, mut other]) = session(granted);
        let (a, b) = (one.text("a"), other.text("b"));
        for operands in [[&a[..], &a, &b], [&a, &b, &a]] {
            let made = compiled(&mut connection, program, &operands);
            assert_eq!(made.err(), refused);
        }
    }
}

#[test]
fn what_is_null_is_not_looked_for() {
    let (mut connection, [mut key, _]) = session([0, 0]);
    let text = key.text("a");
    let program = Program::parse(b"$$$(r$,$)(b)", 3).unwrap();
    for at in 0..3 {
        let mut operands: [&[u8]; 3] = [&text; 3];
        operands[at] = b"";
        assert_eq!(compiled(&mut connection, program, &operands), Ok(None));
    }
}

/// The memory that a request takes is known by its length, so a short one has no long result.
#[test]
fn results_are_not_much_longer_than_what_they_are_made_of() {
    let granted = [Operation::Text];
    let (mut connection, _, mut key) = alice_with(&engine(false), &granted);
    let (a, long) = (key.text("a"), key.text(&"b".repeat(1000)));
    let many = key.text(&"a".repeat(65));
    for (program, operands, is_made) in [
        ("$(n65536)", &[&a][..], true),
        ("$(n65538)", &[&a], false),
        ("$(n1000000)", &[&a], false),
        ("$(n40000)$(n40000)|", &[&a, &a], false),
        ("$(j65537)", &[&a], true),
        ("$(k40000,\"%c3%a4\")", &[&a], false),
        ("$$$(r$,$)", &[&many, &a, &long], true),
        (
            "$$$(r$,$)",
            &[&many, &a, &key.text(&"b".repeat(1100))],
            false,
        ),
    ] {
        let operands: Vec<&[u8]> = operands.iter().map(|cell| cell.as_slice()).collect();
        let parsed = Program::parse(program.as_bytes(), operands.len()).unwrap();
        let made = compiled(&mut connection, parsed, &operands).map(|_| ());
        let expected = if is_made {
            Ok(())
        } else {
            Err(Refusal::TooLarge)
        };
        assert_eq!(made, expected, "{program}");
    }
}

/// The result of a program is as derived as that of a step: it is not compared without a grant.
#[test]
fn what_is_made_is_derived() {
    let (mut connection, [mut key, _]) = session([31, 0]);
    let (one, secret) = (key.int4(1), key.int4(3));
    let program = Program::parse(b"$$+$+", 3).unwrap();
    let three = compiled(&mut connection, program, &[&one, &one, &one])
        .unwrap()
        .unwrap();
    let compared = connection.compare(&three, &secret, CollationId::C);
    assert_eq!(compared, Err(no_grant(Operation::CompareDerived)));
}

#[test]
fn a_request_is_answered_by_a_cell_or_null() {
    let (mut connection, [mut key, _]) = session([31, 0]);
    let cells = [key.int4(1), key.int4(2), Vec::new()];
    let operands: Vec<&[u8]> = cells.iter().map(Vec::as_slice).collect();
    let mut ask = |operands: &[&[u8]]| {
        let program = Program::parse(b"$$+~", 2).unwrap();
        let operands = items(operands);
        call(
            &mut connection,
            &Request::Operation(OperationRequest::Compute { program, operands }),
        )
        .unwrap()
    };
    let (cell, null) = (ask(&operands[..2]), ask(&operands[1..]));
    assert!(cell.len() > cells[0].len() && null.len() == 1, "{null:?}");
}
