//! Memory that a request takes while it is answered: no more than is asked of the kernel before.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::*;
use pgseal_cell::grant::Operation;
use pgseal_cell::Type;
use pgseal_evaluator::engine::{most_memory, Engine};
use pgseal_evaluator::os::LockedHeap;
use pgseal_evaluator_proto::{
    AggregateRequest, Batch, Collation, ComparisonRequest, ConversionRequest, EachRequest, Filter,
    FilterScope, Items, Matching, OperationRequest, Program, Request,
};
use pgseal_value::{AggregateKind, Value};

/// It gives what is large back to the kernel at once, so that the kernel counts what there is.
#[global_allocator]
static HEAP: LockedHeap = LockedHeap::new();

/// A line of what the kernel counts of this process, in bytes.
fn counted(line: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let (_, rest) = status.split_once(line).unwrap();
    let kilobytes: usize = rest.split_whitespace().next().unwrap().parse().unwrap();
    kilobytes << 10
}

/// The bytes that are small, and not asked for.
const SMALL: usize = 1 << 20;
const LONG: usize = 4 << 20;

const ALL: [Operation; 7] = [
    Operation::Arithmetic,
    Operation::Text,
    Operation::Aggregate,
    Operation::Cast,
    Operation::ConvertIn,
    Operation::ConvertOut,
    Operation::CompareDerived,
];
const UTF8: Collation<'_> = Collation::Libc("C.UTF-8");

/// Answers a request in a connection that has done nothing yet, and returns how often its bytes
/// were there at once.
fn answer(engine: &Engine, request: &Request<'_>) -> f64 {
    let (mut connection, ..) = alice_with(engine, &ALL);
    // The most is what there is, from here on.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = counted("VmRSS:");
    let (mut bytes, mut response) = (Vec::new(), Vec::new());
    let len = request.encoded_len();
    bytes.reserve_exact(len);
    request.encode(&mut bytes);
    let opcode = bytes[0];
    assert_eq!(bytes.len(), len, "{opcode:#x}");
    connection.call(&bytes, &mut response);
    let taken = counted("VmHWM:").saturating_sub(before);
    assert!(
        taken <= most_memory(len) + SMALL,
        "{opcode:#x}: {taken} bytes for a request of {len}"
    );
    taken as f64 / len as f64
}

fn of_two<'a>(left: &'a [u8], right: &'a [u8], both: &'a [&'a [u8]]) -> Vec<Request<'a>> {
    let like = |matching| {
        Request::Operation(OperationRequest::Like {
            matching,
            text: left,
            pattern: right,
        })
    };
    vec![
        Request::Comparison(ComparisonRequest::Compare {
            collation: Collation::C,
            left,
            right,
        }),
        Request::Comparison(ComparisonRequest::SearchPage {
            collation: Collation::C,
            probe: left,
            cells: items(both),
        }),
        Request::Operation(OperationRequest::Concat { left, right }),
        like(Matching::Like),
        like(Matching::Ilike(UTF8)),
        like(Matching::Prefix),
        like(Matching::Regex(UTF8)),
        like(Matching::Similar(Collation::C)),
        like(Matching::Words(UTF8)),
    ]
}

fn of_one<'a>(cell: &'a [u8], alone: &'a [&'a [u8]]) -> Vec<Request<'a>> {
    let computed = |program: &'a [u8]| {
        Request::Operation(OperationRequest::Compute {
            program: Program::parse(program, 1).unwrap(),
            operands: items(alone),
        })
    };
    vec![
        Request::Comparison(ComparisonRequest::Hash { seed: 0, cell }),
        computed(b"$(lC.UTF-8)"),
        computed(b"$(uC.UTF-8)"),
        computed(b"$(iC.UTF-8)"),
        computed(b"$(s2)"),
        computed(b"$(h-1)"),
        computed(b"$(v)"),
        computed(b"$(r\"a\",\"\")"),
        computed(b"$(d\"b\",-1)"),
        computed(b"$(g)"),
        Request::Operation(OperationRequest::LikeEscape {
            escape: "#",
            pattern: cell,
        }),
        Request::Operation(OperationRequest::Length(cell)),
        Request::Conversion(ConversionRequest::Decrypt(cell)),
    ]
}

fn of_many<'a>(cells: &'a [&'a [u8]]) -> Vec<Request<'a>> {
    let batch = Batch::of_cells(AggregateKind::Max, Collation::C, items(cells));
    vec![
        Request::Comparison(ComparisonRequest::Rank {
            collation: Collation::C,
            cells: items(cells),
        }),
        Request::Aggregate(AggregateRequest::Step { state: 0, batch }),
        Request::Aggregate(AggregateRequest::Finish {
            state: 0,
            batch,
            stays: false,
        }),
    ]
}

fn of_each<'a>(cells: &'a [&'a [u8]], one: &'a [&'a [u8]]) -> Vec<Request<'a>> {
    let (all, collation) = (items(cells), Collation::C);
    let compare = |rights| EachRequest::Compare {
        collation,
        lefts: all,
        rights,
    };
    let none = Items::Listed(&[]);
    let scope = FilterScope {
        columns: 1,
        constants: 1,
        programs: none,
        collations: none,
    };
    let filter = EachRequest::Filter {
        filter: Filter::parse(b"=\0\x80\0", &scope).unwrap(),
        programs: none,
        collations: none,
        constants: items(one),
        columns: 1,
        cells: all,
    };
    let each = [
        compare(items(one)),
        compare(all),
        EachRequest::Tag(all),
        EachRequest::Like {
            matching: Matching::Like,
            pattern: one[0],
            texts: all,
        },
        EachRequest::Compute {
            program: Program::parse(b"$~", 1).unwrap(),
            operands: all,
        },
        filter,
    ];
    each.into_iter().map(Request::Each).collect()
}

#[test]
fn no_request_takes_more_than_is_asked_for() {
    let engine = engine(true);
    let (_, _, mut key) = alice_with(&engine, &ALL);
    let (text, other) = (key.text(&"a".repeat(LONG)), key.text(&"ı".repeat(LONG / 2)));
    let bytes = key.seal(&Value::Bytea(vec![1; LONG]));
    let pair: [&[u8]; 2] = [&text, &other];
    let four: [&[u8]; 4] = [&text, &other, &text, &other];
    let short: Vec<Vec<u8>> = (0..100_000).map(|number| key.int4(number)).collect();
    let short: Vec<&[u8]> = short.iter().map(Vec::as_slice).collect();
    let plain = vec![b'x'; LONG];
    let mut requests = of_two(&text, &other, &pair);
    requests.extend(of_two(&bytes, &bytes, &pair));
    let (first, second): ([&[u8]; 1], [&[u8]; 1]) = ([&text], [&other]);
    requests.extend(of_one(&text, &first));
    requests.extend(of_one(&other, &second));
    requests.extend(of_many(&four).into_iter().chain(of_many(&short)));
    // Cells that are NULL are the shortest.
    let none: Vec<&[u8]> = vec![&[]; 1 << 20];
    let one = [short[0]];
    requests.extend(
        of_each(&short, &one)
            .into_iter()
            .chain(of_each(&none, &one)),
    );
    requests.extend(of_many(&none));
    // The longest results, and the longest texts beside another one.
    let (letter, twice) = (key.text("a"), key.text(&"ab".repeat(20)));
    let few: [&[u8]; 3] = [&text, &letter, &twice];
    let repeated: [&[u8]; 1] = [&letter];
    for (program, operands) in [
        ("$$|$|$|", &four[..]),
        ("$$(p$)", &pair),
        ("$$(b$)", &pair),
        ("$$$(r$,$)", &four[..3]),
        ("$$$(r$,$)", &few),
        ("$(n60000)", &repeated),
        ("$(j60000)", &repeated),
    ] {
        requests.push(Request::Operation(OperationRequest::Compute {
            program: Program::parse(program.as_bytes(), operands.len()).unwrap(),
            operands: items(operands),
        }));
    }
    requests.push(Request::Conversion(ConversionRequest::Encrypt {
        key: key.cipher.id(),
        ty: Type::Text,
        plain: &plain,
    }));
    let most = requests.iter().map(|request| answer(&engine, request));
    // What is asked for is not far more than what is needed, either.
    assert!(most.fold(0.0, f64::max) > 4.0);
}
