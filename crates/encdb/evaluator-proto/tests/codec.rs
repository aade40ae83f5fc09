//! Requests and responses: what is encoded is parsed as the same; what is cut short, too long or of
//! an unknown number is refused.

use std::borrow::Cow;
use std::cmp::Ordering;

use pgseal_cell::{DataKeyId, Type};
use pgseal_evaluator_proto::{
    AggregateRequest, AttachAs, Batch, Collation, ComparisonRequest, ConversionRequest,
    EachRequest, Filter, FilterScope, Filtered, Finding, Input, Items, KeyRow, Malformed, Matching,
    OperationRequest, Page, Parts, Position, Program, Refusal, Report, Request, Response,
    SessionRequest, Status, Unary,
};
use pgseal_value::{AggregateKind, Arithmetic, Interval};
use proptest::prelude::*;

const CELLS: Items<'_> = Items::Listed(&[b"first", b"", b"third"]);
const LIBC: Collation<'_> = Collation::Libc("de_DE.utf8");

fn session() -> Vec<Request<'static>> {
    let attach = |kind| {
        Request::Session(SessionRequest::Attach {
            kind,
            database: [7; 16],
            role: 16_384,
        })
    };
    vec![
        attach(AttachAs::Client),
        attach(AttachAs::ParallelWorker { ticket: [1; 16] }),
        attach(AttachAs::Background),
        Request::Session(SessionRequest::Tickets),
        Request::Session(SessionRequest::Message(b"message")),
        Request::Session(SessionRequest::LoadKeys(CELLS)),
        Request::Session(SessionRequest::LoadKeys(Items::Listed(&[]))),
        Request::Session(SessionRequest::Status),
        Request::Conversion(ConversionRequest::Encrypt {
            key: DataKeyId(0x0102_0304),
            ty: Type::Text,
            plain: b"plain",
        }),
        Request::Conversion(ConversionRequest::Decrypt(b"cell")),
        Request::Conversion(ConversionRequest::GenerateKey {
            name: "|alice|shop|",
            group: 5,
            deterministic: true,
        }),
    ]
}

fn descend(page: Option<Page<'static>>) -> Request<'static> {
    Request::Comparison(ComparisonRequest::Descend {
        collation: LIBC,
        probe: b"probe",
        index: [7; 16],
        block: 5,
        page,
    })
}

fn comparisons() -> Vec<Request<'static>> {
    vec![
        Request::Comparison(ComparisonRequest::Compare {
            collation: Collation::C,
            left: b"left",
            right: b"",
        }),
        Request::Comparison(ComparisonRequest::SearchPage {
            collation: LIBC,
            probe: b"probe",
            cells: CELLS,
        }),
        Request::Comparison(ComparisonRequest::Hash {
            seed: u64::MAX,
            cell: b"cell",
        }),
        descend(None),
        descend(Some(Page {
            cells: CELLS,
            children: &[1, 0, 0, 0, 2, 0, 0, 0],
            right: 3,
        })),
        Request::Comparison(ComparisonRequest::Rank {
            collation: LIBC,
            cells: CELLS,
        }),
        tokens(Parts::Words(LIBC)),
        tokens(Parts::Trigrams(Collation::C)),
        tokens(Parts::PatternTrigrams(LIBC)),
        Request::Comparison(ComparisonRequest::HasPrefix(b"cell")),
        Request::Comparison(ComparisonRequest::OrderPrefix(b"cell")),
    ]
}

fn tokens(parts: Parts<'static>) -> Request<'static> {
    let cell = b"cell";
    Request::Comparison(ComparisonRequest::Tokens { parts, cell })
}

fn operations() -> Vec<Request<'static>> {
    let like = |matching| {
        Request::Operation(OperationRequest::Like {
            matching,
            text: b"text",
            pattern: b"pattern",
        })
    };
    vec![
        Request::Operation(OperationRequest::Arithmetic {
            op: Arithmetic::Power,
            left: b"l",
            right: b"r",
        }),
        Request::Operation(OperationRequest::Unary {
            op: Unary::Absolute,
            cell: b"cell",
        }),
        Request::Operation(OperationRequest::Concat {
            left: b"l",
            right: b"r",
        }),
        like(Matching::Like),
        like(Matching::Ilike(LIBC)),
        like(Matching::Ilike(Collation::C)),
        like(Matching::Prefix),
        like(Matching::Regex(LIBC)),
        like(Matching::RegexInsensitive(Collation::C)),
        like(Matching::Similar(LIBC)),
        like(Matching::Words(LIBC)),
        Request::Operation(OperationRequest::LikeEscape {
            escape: "\u{10ffff}",
            pattern: b"pattern",
        }),
        Request::Operation(OperationRequest::AddInterval {
            interval: Interval {
                months: i32::MIN,
                days: 1,
                microseconds: i64::MAX,
            },
            cell: b"cell",
        }),
        Request::Operation(OperationRequest::Length(b"cell")),
        Request::Operation(OperationRequest::Cast {
            to: Type::Uuid,
            cell: b"cell",
        }),
        Request::Operation(OperationRequest::Compute {
            program: Program::parse(b"$(s1,-2)$M*$(b\"%2c\")-", CELLS.len()).expect("it fits"),
            operands: CELLS,
        }),
    ]
}

fn aggregates() -> Vec<Request<'static>> {
    let batch = Batch::of_cells(AggregateKind::Max, LIBC, CELLS);
    let computed = Batch {
        programs: Items::Listed(&[b"$$+"]),
        shape: &[1, 0],
        ..batch
    };
    let finish = |batch, stays| {
        Request::Aggregate(AggregateRequest::Finish {
            state: 1,
            batch,
            stays,
        })
    };
    vec![
        Request::Aggregate(AggregateRequest::Step { state: 3, batch }),
        Request::Aggregate(AggregateRequest::Combine { into: 1, from: 2 }),
        Request::Aggregate(AggregateRequest::Export(1)),
        Request::Aggregate(AggregateRequest::Import(b"state")),
        finish(batch, false),
        finish(batch, true),
        finish(computed, false),
        Request::Aggregate(AggregateRequest::Drop(u64::MAX)),
    ]
}

fn of_many() -> Vec<Request<'static>> {
    let compare = |rights| {
        Request::Each(EachRequest::Compare {
            collation: LIBC,
            lefts: CELLS,
            rights,
        })
    };
    let like = |matching| {
        Request::Each(EachRequest::Like {
            matching,
            pattern: b"pattern",
            texts: CELLS,
        })
    };
    vec![
        compare(CELLS),
        compare(Items::Listed(&[b"one"])),
        Request::Each(EachRequest::Tag(CELLS)),
        like(Matching::Like),
        like(Matching::Ilike(Collation::C)),
        like(Matching::Ilike(LIBC)),
        like(Matching::Prefix),
        like(Matching::Regex(LIBC)),
        like(Matching::RegexInsensitive(Collation::C)),
        like(Matching::Similar(LIBC)),
        like(Matching::Words(LIBC)),
        Request::Each(EachRequest::Compute {
            program: Program::parse(b"$$M*$-", CELLS.len()).expect("it fits"),
            operands: Items::Listed(&[b"1", b"", b"3", b"4", b"5", b""]),
        }),
        filter(b"=\x00\x80\x01~L\x01\x00"),
        Request::Each(EachRequest::Aggregate {
            counts: &[1, 0, 0, 0, 2, 0, 0, 0],
            batch: Batch::of_cells(AggregateKind::Avg, Collation::C, CELLS),
        }),
    ]
}

fn filter(conditions: &'static [u8]) -> Request<'static> {
    let scope = FilterScope {
        columns: 2,
        constants: 1,
        programs: Items::Listed(&[b"\x01\x00$#"]),
        collations: Items::Listed(&[b"de_DE"]),
    };
    Request::Each(EachRequest::Filter {
        filter: Filter::parse(conditions, &scope).expect("it fits"),
        programs: scope.programs,
        collations: scope.collations,
        constants: Items::Listed(&[b"constant"]),
        columns: 2,
        cells: Items::Listed(&[b"1", b"", b"3", b"4"]),
    })
}

fn requests() -> Vec<Request<'static>> {
    [
        session(),
        comparisons(),
        operations(),
        aggregates(),
        of_many(),
    ]
    .concat()
}

fn responses() -> Vec<Response<'static>> {
    vec![
        Response::Done,
        Response::Null,
        Response::Cell(b"cell"),
        Response::Bytes(b""),
        Response::Order(Ordering::Less),
        Response::Order(Ordering::Equal),
        Response::Order(Ordering::Greater),
        Response::Position(Position {
            before: 1,
            through: 2,
            descending: true,
        }),
        Response::Truth(true),
        Response::Hash(u64::MAX),
        Response::Findings(CELLS),
        Response::Ranks(&[0; 12]),
        Response::Tokens(&[0; 16]),
        Response::Tag([7; 16]),
        Response::Filtered(Filtered {
            hold: 513,
            fails: true,
        }),
        Response::Each(CELLS),
        Response::Number(9),
        Response::Tickets([3; 32]),
        Response::Status(Status {
            backend: 1,
            open: true,
            expires: 5,
            keys: 6,
            counters: CELLS,
        }),
        Response::Refused(Report {
            code: 3,
            sqlstate: *b"PE003",
            text: Cow::Borrowed("a sentence"),
        }),
    ]
}

fn encoded(request: &Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    bytes
}

fn answered(response: &Response<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    response.encode(&mut bytes);
    bytes
}

#[test]
fn requests_are_read_as_they_were_written() {
    for request in requests() {
        let bytes = encoded(&request);
        assert_eq!(Request::parse(&bytes), Ok(request));
        let longer = [&bytes[..], b"\0"].concat();
        assert_eq!(Request::parse(&longer), Err(Malformed), "{request:?}");
        for len in 0..bytes.len() {
            let cut = Request::parse(&bytes[..len]);
            assert_eq!(cut, Err(Malformed), "{request:?}, {len} bytes");
        }
    }
}

#[test]
fn responses_are_read_as_they_were_written() {
    for response in responses() {
        let bytes = answered(&response);
        assert_eq!(Response::parse(&bytes).as_ref(), Ok(&response));
        let longer = [&bytes[..], b"\0"].concat();
        assert_eq!(Response::parse(&longer), Err(Malformed), "{response:?}");
        for len in 0..bytes.len() {
            let cut = Response::parse(&bytes[..len]);
            assert_eq!(cut, Err(Malformed), "{response:?}, {len} bytes");
        }
    }
}

#[test]
fn findings_are_read_as_they_were_written() {
    let position = Position {
        before: 1,
        through: 3,
        descending: false,
    };
    let finding = Finding {
        block: 9,
        position,
        below: b"below",
        above: b"",
        equal: CELLS,
        far: b"far",
        uniform: true,
    };
    let mut items = Vec::new();
    finding.write_item(&mut items);
    finding.write_item(&mut items);
    let (count, bytes) = (2, &items[..]);
    for item in (Items::Received { count, bytes }).iter() {
        assert_eq!(Finding::parse(item), Ok(finding));
        assert_eq!(Finding::parse(&[item, b"\0"].concat()), Err(Malformed));
        for len in 0..item.len() {
            assert_eq!(Finding::parse(&item[..len]), Err(Malformed), "{len} bytes");
        }
    }
    assert_eq!(Items::Received { count, bytes }.iter().count(), 2);
}

#[test]
fn opcodes_are_distinct_and_others_are_refused() {
    let mut known: Vec<u8> = requests()
        .iter()
        .map(|request| encoded(request)[0])
        .collect();
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), 37);
    for opcode in (0..=255).filter(|opcode| !known.contains(opcode)) {
        let bytes = [&[opcode][..], &[0; 64]].concat();
        assert_eq!(Request::parse(&bytes), Err(Malformed), "{opcode}");
    }
}

#[test]
fn the_bytes_of_a_comparison() {
    let request = Request::Comparison(ComparisonRequest::Compare {
        collation: Collation::C,
        left: b"ab",
        right: b"c",
    });
    assert_eq!(
        encoded(&request),
        [0x10, 0, 0, 0, 0, 2, 0, 0, 0, b'a', b'b', 1, 0, 0, 0, b'c']
    );
}

#[test]
fn questions_about_many_have_operands_for_all() {
    let asked = |lefts: &[&[u8]], rights: &[&[u8]]| {
        let request = Request::Each(EachRequest::Compare {
            collation: Collation::C,
            lefts: Items::Listed(lefts),
            rights: Items::Listed(rights),
        });
        Request::parse(&encoded(&request)).map(|_| ())
    };
    assert_eq!(asked(&[b"a", b"b"], &[b"c", b"d"]), Ok(()));
    assert_eq!(asked(&[b"a", b"b"], &[b"c"]), Ok(()));
    assert_eq!(asked(&[b"a", b"b"], &[]), Err(Malformed));
    assert_eq!(asked(&[b"a"], &[b"b", b"c"]), Err(Malformed));
    let request = Request::Each(EachRequest::Compute {
        program: Program::parse(b"$$+", 2).expect("it fits"),
        operands: Items::Listed(&[b"a", b"b", b"c"]),
    });
    assert_eq!(Request::parse(&encoded(&request)), Err(Malformed));
    let counted = |counts: &[u8]| {
        let batch = Batch::of_cells(AggregateKind::Sum, Collation::C, CELLS);
        let request = Request::Each(EachRequest::Aggregate { counts, batch });
        Request::parse(&encoded(&request)).map(|_| ())
    };
    assert_eq!(counted(&[3, 0, 0, 0]), Ok(()));
    for counts in [
        &[2, 0, 0, 0][..],
        &[4, 0, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0],
        &[3],
    ] {
        assert_eq!(counted(counts), Err(Malformed), "{counts:?}");
    }
    let request = encoded(&filter(b"=\x00\x80\x01"));
    let columns = request.len() - 4 * 5 - 3 - 1;
    assert_eq!(request[columns], 2);
    for (number, parsed) in [(0, false), (1, true), (2, true), (3, false), (4, true)] {
        let mut request = request.clone();
        request[columns] = number;
        assert_eq!(Request::parse(&request).is_ok(), parsed, "{number} columns");
    }
}

#[test]
fn the_shape_of_a_batch_is_that_of_its_cells() {
    let inputs = |shape: &'static [u8]| {
        let batch = Batch {
            kind: AggregateKind::Sum,
            collation: Collation::C,
            programs: Items::Listed(&[b"$$+", b"$~"]),
            shape,
            cells: CELLS,
        };
        batch.inputs().map(|inputs| inputs.len())
    };
    for shape in [&[1, 0][..], &[0, 1], &[2, 2, 2], &[0, 0, 0], &[2, 1]] {
        assert_eq!(inputs(shape), Ok(shape.len()));
    }
    // Programs for no value, cells too few and too many, and a program that is not there.
    for shape in [&[][..], &[1, 1], &[1], &[3, 0, 0]] {
        assert_eq!(inputs(shape), Err(Malformed), "{shape:?}");
    }
}

#[test]
fn an_aggregate_of_two_numbers_has_pairs_of_cells() {
    let read = |kind, programs: &'static [&'static [u8]], shape: &'static [u8], cells| {
        let batch = Batch {
            programs: Items::Listed(programs),
            shape,
            ..Batch::of_cells(kind, Collation::C, Items::Listed(cells))
        };
        batch
            .inputs()
            .map(|inputs| (batch.len(), inputs.collect::<Vec<_>>()))
    };
    let pairs = |cells| read(AggregateKind::Corr, &[], &[], cells);
    let expected = vec![Input::Pair(b"y", b"x"), Input::Pair(b"b", b"a")];
    assert_eq!(pairs(&[b"y", b"x", b"b", b"a"]), Ok((2, expected)));
    assert_eq!(pairs(&[]), Ok((0, vec![])));
    assert_eq!(pairs(&[b"y", b"x", b"b"]), Err(Malformed));
    let programs: &[&[u8]] = &[b"$$+"];
    let computed = read(AggregateKind::Corr, programs, &[1], &[b"y", b"x"]);
    assert_eq!(computed, Err(Malformed));
    let both = read(AggregateKind::Sum, &[], &[], &[b"y", b"x"]);
    assert_eq!(both, Ok((2, vec![Input::Cell(b"y"), Input::Cell(b"x")])));
}

#[test]
fn answers_about_many_are_read_one_by_one_and_none_is_empty() {
    let mut items = Vec::new();
    Response::encode_item(Ok(&Response::Order(Ordering::Less)), &mut items);
    Response::encode_item(Err(Refusal::NoSession), &mut items);
    Response::encode_item(Ok(&Response::Cell(b"cell")), &mut items);
    let (count, bytes) = (3, &items[..]);
    let read: Vec<_> = Items::Received { count, bytes }
        .iter()
        .map(Response::parse_item)
        .collect();
    let expected = [
        Ok(Some(Response::Order(Ordering::Less))),
        Ok(None),
        Ok(Some(Response::Cell(b"cell"))),
    ];
    assert_eq!(read, expected);
    assert_eq!(Response::parse_item(b"\xff"), Err(Malformed));
}

#[test]
fn lists_give_what_was_listed() {
    let bytes = encoded(&Request::Session(SessionRequest::LoadKeys(CELLS)));
    let Ok(Request::Session(SessionRequest::LoadKeys(items))) = Request::parse(&bytes) else {
        panic!("it was a list");
    };
    let all: Vec<_> = items.iter().collect();
    assert_eq!(all, [&b"first"[..], b"", b"third"]);
    assert_eq!((items.len(), items.is_empty()), (3, false));
}

#[test]
fn a_count_of_4_billion_items_allocates_nothing() {
    let bytes = [&[0x04][..], &u32::MAX.to_le_bytes(), &[0; 400]].concat();
    assert_eq!(Request::parse(&bytes), Err(Malformed));
}

#[test]
fn rows_of_keys() {
    let row = KeyRow {
        name: "|alice|",
        wrapped: b"wrapped",
    };
    let item = row.encode();
    assert_eq!(KeyRow::parse(&item), Ok(row));
    assert_eq!(KeyRow::parse(&item[1..]), Err(Malformed));
    assert_eq!(KeyRow::parse(&[&item[..], b"x"].concat()), Err(Malformed));
}

proptest! {
    #[test]
    fn what_parses_is_encoded_as_the_same_bytes(
        bytes: Vec<u8>,
        index: prop::sample::Index,
        at: prop::sample::Index,
        byte: u8,
    ) {
        if let Ok(request) = Request::parse(&bytes) {
            prop_assert_eq!(encoded(&request), bytes);
        }
        let requests = requests();
        let mut altered = encoded(index.get(&requests));
        let at = at.index(altered.len());
        altered[at] = byte;
        if let Ok(request) = Request::parse(&altered) {
            prop_assert_eq!(encoded(&request), altered);
        }
        let responses = responses();
        let mut altered = answered(index.get(&responses));
        let at = at % altered.len();
        altered[at] = byte;
        if let Ok(response) = Response::parse(&altered) {
            prop_assert_eq!(answered(&response), altered);
        }
    }
}
