//! Operations on values, extreme ones first, by a session with all rights: every request is
//! answered, and nothing panics, which in use would end a server's backend or the evaluator.
//! Sessions, keys and imported states, whose bytes others make, have tests of their own.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use pgseal_cell::grant::Operation;
use pgseal_cell::{CellRef, DataKeyId, Mode};
use pgseal_evaluator::engine::Connection;
use pgseal_evaluator_proto::{
    AggregateRequest, Batch, Collation, ComparisonRequest, ConversionRequest, EachRequest, Filter,
    FilterScope, Items, Matching, OperationRequest, Page, Parts, Plain, Prefix, Program, Request,
    Response, Unary,
};
use pgseal_value::{AggregateKind, Arithmetic, Interval, PrefixEnd, Type, Value};
use proptest::collection::vec;
use proptest::prelude::*;

/// The texts of every type's border cases; each is tried as every type.
const TEXTS: [&str; 34] = [
    "0",
    "1",
    "-1",
    "-0.0",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "NaN",
    "Infinity",
    "-Infinity",
    "1.7976931348623157e308",
    "5e-324",
    "3.4028235e38",
    "1e-45",
    "1e131071",
    "-1e-16383",
    "99999999999999999999999999999999999999.999999999999999999",
    "true",
    "epoch",
    "infinity",
    "-infinity",
    "4713-01-01 BC",
    "5874897-12-31",
    "294276-12-31 23:59:59.999999",
    "2000-02-29",
    "1999-12-31 24:00:00",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "\\x00ff",
    "",
    "%",
    "_%\\",
    "\u{1f600}straße\u{0301}",
    "İıſ",
];

/// Numbers that functions take as they are.
const NUMBERS: [i32; 9] = [0, 1, -1, 2, 7, i32::MAX, i32::MIN, i32::MAX - 1, 1 << 20];

const ALL: [Operation; 11] = [
    Operation::CompareStored,
    Operation::CompareDerived,
    Operation::Arithmetic,
    Operation::Text,
    Operation::Words,
    Operation::Trigrams,
    Operation::Aggregate,
    Operation::Cast,
    Operation::Extract,
    Operation::ConvertIn,
    Operation::ConvertOut,
];
const UNARY: [Unary; 2] = [Unary::Negate, Unary::Absolute];
/// Filters of a column, up to two constants, and two programs.
const FILTERS: [&[u8]; 7] = [
    b"=\x00\x80\x00",
    b"<\x80\x00\x00g\x00\x81\x00",
    b"|\x02L\x00\x81!\x00\x80\x00",
    b"~&\x02l\x00\x00\x00I\x00\x80\x00",
    b"S\x80\x00>\x00\x80\x00",
    b"=\x40\x80\x00|\x02<\x00\x40\x00g\x40\x40\x00",
    b"L\x41\x80=\x41\x00\x00",
];

const PROGRAMS: [&[u8]; 16] = [
    b"$$+@",
    b"$y$y|",
    b"$M$M^",
    b"$~$*I",
    b"$$-O",
    b"$(s-1,4)$(s2147483647,2147483647)|",
    b"$(lC.UTF-8)$(u)|",
    b"$(uxx_XX)$(s-2147483648)|",
    b"$(b)$(t-2147483648)(b$)",
    b"$(iC.UTF-8)$(h2147483647)(p$)",
    b"$$(r$,\"ab%2c\")",
    b"$(r\"b\",\"\")$(d\"%25\",-2147483648)|",
    b"$$(d$,2147483647)",
    b"$(g)$(g\"%25\")|",
    b"$(j2147483647)$(k-2147483648,\"%c3%a4\")(b$)(k1000,\"xy\")",
    b"$(n3)$(n1000)(e$)",
];
/// The last is none.
const COLLATIONS: [Collation<'static>; 5] = [
    Collation::C,
    Collation::C,
    Collation::Libc("C.UTF-8"),
    Collation::Libc("C.UTF-8"),
    Collation::Libc("xx_XX"),
];
/// Cells and states that are remembered at most.
const MAX_BYTES: usize = 400;

/// Random numbers that say what is asked.
type Step = [u32; 6];

/// A session, the cells that it has met, and its aggregates' states.
struct Asker {
    connection: Connection,
    key: DataKeyId,
    cells: Vec<Vec<u8>>,
    states: Vec<u64>,
}

fn pick<T: Copy>(from: &[T], number: u32) -> T {
    from[number as usize % from.len()]
}

fn border_cells(key: &mut Sealer) -> Vec<Vec<u8>> {
    let each = |ty| {
        TEXTS
            .iter()
            .filter_map(move |text| Value::parse(ty, text).ok())
    };
    let values = Type::ALL.into_iter().flat_map(each);
    let long = Value::Text("ab%".repeat(100_000));
    let mut cells: Vec<_> = values.chain([long]).map(|value| key.seal(&value)).collect();
    // Cells that are authentic and hold no value of their type.
    for (ty, plain) in [(Type::Text, b"\xff\xfe".as_slice()), (Type::Int4, b"123")] {
        let mut cell = Vec::new();
        let mut nonces = pgseal_cell::Nonces::new();
        let sealed = key
            .cipher
            .seal(ty, Mode::Randomised, plain, &mut nonces, &mut cell);
        sealed.unwrap();
        cells.push(cell);
    }
    let mut broken = cells[0].clone();
    broken[20] ^= 1;
    let plain = Plain::of(&Value::Int4(7));
    for end in [PrefixEnd::Low, PrefixEnd::High] {
        let patterns = ["a%", "ab", "%"].map(|pattern| Prefix::of(&key.text(pattern), end));
        cells.extend(patterns);
    }
    cells.extend([plain, Prefix::of(&broken, PrefixEnd::Low)]);
    cells.extend([broken, Vec::new(), b"no cell".to_vec()]);
    cells
}

impl Asker {
    fn new(inline: bool) -> Self {
        let (connection, _, mut key) = alice_with(&engine(inline), &ALL);
        let cells = border_cells(&mut key);
        let id = CellRef::parse(&cells[0]).unwrap().key_id().unwrap();
        Self {
            connection,
            key: id,
            cells,
            states: vec![0],
        }
    }

    /// Mostly two cells of one type: of two types most operations are refused at once.
    fn two(&self, [_, a, b, c, ..]: Step) -> (&[u8], &[u8]) {
        let left = self.cell(a);
        let start = b as usize % self.cells.len();
        let mut others = self.cells[start..].iter().chain(&self.cells[..start]);
        let alike = others.find(|other| other.get(1) == left.get(1) || c % 8 == 0);
        (left, alike.map_or(left, Vec::as_slice))
    }

    fn cell(&self, number: u32) -> &[u8] {
        &self.cells[number as usize % self.cells.len()]
    }

    /// Mostly one of the last that began.
    fn state(&self, number: u32) -> u64 {
        let lately = self.states.len().saturating_sub(3);
        match number % 8 {
            0 => u64::from(number / 8),
            1 => 0,
            _ => pick(&self.states[lately..], number / 8),
        }
    }

    fn several(&self, step: Step) -> Vec<&[u8]> {
        let cell = |at: u32| {
            self.two([0, step[1], step[2].wrapping_add(at), step[3], 0, 0])
                .1
        };
        (0..step[4] % 40).map(cell).collect()
    }

    fn ask(&mut self, step: Step) {
        let several = self.several(step);
        let both: [&[u8]; 2] = self.two(step).into();
        let children = [step[5] % 4, step[4] % 4].map(u32::to_le_bytes).concat();
        let request = match step[0] % 5 {
            0 => self.compared(step, items(&several), &children),
            4 => of_many(step, items(&several), items(&both)),
            1 => self.aggregated(step, items(&several)),
            _ => self.computed(step, items(&both)),
        };
        let begins = matches!(request, Request::Aggregate(AggregateRequest::Step { .. }));
        let (mut bytes, mut response) = (Vec::new(), Vec::new());
        request.encode(&mut bytes);
        self.connection.call(&bytes, &mut response);
        match Response::parse(&response).unwrap() {
            Response::Cell(cell) if self.cells.len() < MAX_BYTES => self.cells.push(cell.to_vec()),
            Response::Number(state) if begins && self.states.len() < MAX_BYTES => {
                self.states.push(state)
            }
            _ => (),
        }
    }

    /// Answered in clear.
    fn compared<'a>(&'a self, step: Step, cells: Items<'a>, children: &'a [u8]) -> Request<'a> {
        let [kind, .., d, e] = step;
        let (left, right) = self.two(step);
        let collation = pick(&COLLATIONS, d);
        match kind / 4 % 11 {
            0 => Request::Comparison(ComparisonRequest::Compare {
                collation,
                left,
                right,
            }),
            1 => Request::Comparison(ComparisonRequest::SearchPage {
                collation,
                probe: left,
                cells,
            }),
            2 | 3 => Request::Comparison(ComparisonRequest::Descend {
                collation,
                probe: left,
                index: [0; 16],
                block: e % 4,
                page: (kind % 2 == 0).then_some(Page {
                    cells,
                    children: &children[..4 * (d as usize % 3)],
                    right: d % 4,
                }),
            }),
            4 => Request::Comparison(ComparisonRequest::Hash {
                seed: u64::from(d),
                cell: left,
            }),
            5 => Request::Comparison(ComparisonRequest::Rank { collation, cells }),
            6 => Request::Operation(OperationRequest::Like {
                matching: matching(e, collation),
                text: left,
                pattern: right,
            }),
            7 => Request::Conversion(ConversionRequest::Decrypt(left)),
            8 => Request::Comparison(ComparisonRequest::Tokens {
                parts: parts(e, collation),
                cell: left,
            }),
            9 => Request::Comparison(ComparisonRequest::HasPrefix(left)),
            _ => Request::Comparison(ComparisonRequest::OrderPrefix(left)),
        }
    }

    fn aggregated<'a>(&self, step: Step, cells: Items<'a>) -> Request<'a> {
        let [kind, _, b, c, d, e] = step;
        let (state, other) = (self.state(b), self.state(e));
        let batch = Batch::of_cells(pick(&AggregateKind::ALL, c), pick(&COLLATIONS, d), cells);
        match kind / 4 % 6 {
            0 | 1 => Request::Aggregate(AggregateRequest::Step { state, batch }),
            2 => Request::Aggregate(AggregateRequest::Combine {
                into: state,
                from: other,
            }),
            3 => Request::Aggregate(AggregateRequest::Export(state)),
            4 => Request::Aggregate(AggregateRequest::Drop(state)),
            _ => Request::Aggregate(AggregateRequest::Finish {
                state,
                batch,
                stays: d % 2 == 0,
            }),
        }
    }

    /// Answered by a cell.
    fn computed<'a>(&'a self, step: Step, operands: Items<'a>) -> Request<'a> {
        let [kind, a, b, c, d, _] = step;
        let (left, right) = self.two(step);
        match kind / 4 % 11 {
            0 | 1 => Request::Operation(OperationRequest::Arithmetic {
                op: pick(&Arithmetic::ALL, d),
                left,
                right,
            }),
            2 => Request::Operation(OperationRequest::AddInterval {
                interval: interval(step),
                cell: left,
            }),
            3 => Request::Operation(OperationRequest::Unary {
                op: pick(&UNARY, c),
                cell: left,
            }),
            4 => Request::Operation(OperationRequest::Concat { left, right }),
            5 => Request::Operation(OperationRequest::LikeEscape {
                escape: pick(&["", "\\", "é", "ab"], d),
                pattern: left,
            }),
            6 | 7 => Request::Operation(OperationRequest::Cast {
                to: pick(&Type::ALL, d),
                cell: left,
            }),
            8 | 9 => Request::Operation(OperationRequest::Compute {
                program: Program::parse(pick(&PROGRAMS, d), 2).unwrap(),
                operands,
            }),
            _ if a % 2 == 0 => Request::Operation(OperationRequest::Length(left)),
            _ => Request::Conversion(ConversionRequest::Encrypt {
                key: DataKeyId(self.key.0 ^ u32::from(b % 8 == 0)),
                ty: pick(&Type::ALL, d),
                plain: right,
            }),
        }
    }
}

fn of_many<'a>([kind, _, _, c, d, e]: Step, several: Items<'a>, two: Items<'a>) -> Request<'a> {
    let collation = pick(&COLLATIONS, d);
    let one = two.iter().next().unwrap_or_default();
    Request::Each(match kind / 5 % 5 {
        0 => EachRequest::Compare {
            collation,
            lefts: several,
            rights: several,
        },
        1 => EachRequest::Tag(several),
        2 => EachRequest::Like {
            matching: matching(e, collation),
            pattern: one,
            texts: several,
        },
        3 => EachRequest::Compute {
            program: Program::parse(pick(&PROGRAMS, c), 2).unwrap(),
            operands: two,
        },
        _ => filter(pick(&FILTERS, c), two, several),
    })
}

fn filter<'a>(bytes: &'static [u8], constants: Items<'a>, cells: Items<'a>) -> EachRequest<'a> {
    let scope = FilterScope {
        columns: 1,
        constants: constants.len(),
        programs: Items::Listed(&[b"\x02\x00\x80$$+", b"\x01\x00$(l)"]),
        collations: Items::Listed(&[]),
    };
    EachRequest::Filter {
        filter: Filter::parse(bytes, &scope).unwrap(),
        programs: scope.programs,
        collations: scope.collations,
        constants,
        columns: 1,
        cells,
    }
}

fn matching(number: u32, collation: Collation<'static>) -> Matching<'static> {
    match number % 7 {
        0 => Matching::Like,
        1 => Matching::Ilike(collation),
        2 => Matching::Regex(collation),
        3 => Matching::RegexInsensitive(collation),
        4 => Matching::Similar(collation),
        5 => Matching::Words(collation),
        _ => Matching::Prefix,
    }
}

fn parts(number: u32, collation: Collation<'static>) -> Parts<'static> {
    match number % 3 {
        0 => Parts::Words(collation),
        1 => Parts::Trigrams(collation),
        _ => Parts::PatternTrigrams(collation),
    }
}

fn interval([_, a, b, _, d, e]: Step) -> Interval {
    Interval {
        months: pick(&NUMBERS, a),
        days: pick(&NUMBERS, b),
        microseconds: i64::from(pick(&NUMBERS, e)) << (d % 33),
    }
}

proptest! {
    #[test]
    fn every_request_is_answered(inline: bool, steps in vec(any::<Step>(), 1..400)) {
        let mut asker = Asker::new(inline);
        for step in steps {
            asker.ask(step);
        }
    }
}
