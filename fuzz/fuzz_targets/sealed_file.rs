//! Any sequence of calls on a sealed file is as on a plain one: the storage tests' property, led by
//! coverage instead of by chance.

#![no_main]

#[path = "../../crates/tde/storage/tests/support/mod.rs"]
mod support;

use libfuzzer_sys::fuzz_target;
use support::{layouts, Data, Kind, Op, Twin, LENGTHS};

/// Bytes that stand for one call: what, place, length, alignment.
const CALL: usize = 7;
/// Offsets and lengths stay below six pages, so that runs are fast and meet.
const REACH: usize = 6 * 8192;

fuzz_target!(|data: &[u8]| {
    let Some((&[layout, length], calls)) = data.split_first_chunk() else {
        return;
    };
    let layouts = layouts();
    let layout = layouts[usize::from(layout) % layouts.len()];
    let length = LENGTHS[usize::from(length) % LENGTHS.len()];
    let mut twin = Twin::new(Kind::new(layout, length));
    for call in calls.chunks_exact(CALL).take(24) {
        twin.apply(&op(call));
        twin.check();
    }
});

fn op(call: &[u8]) -> Op {
    let number = |at| usize::from(u16::from_le_bytes([call[at], call[at + 1]])) % REACH;
    let (offset, len, shift) = (number(1), number(3), usize::from(call[5] % 17));
    match call[0] % 6 {
        0 => Op::Read { offset, len, shift },
        1 => Op::SetSize(offset),
        2 => Op::Allocate {
            offset,
            len: len + 1,
        },
        3 => Op::Reopen,
        kind => Op::Write {
            offset,
            len,
            shift,
            data: match kind {
                4 => Data::Zeros,
                _ => Data::Seed(u64::from(call[6])),
            },
        },
    }
}
