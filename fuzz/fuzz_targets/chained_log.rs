//! A chained log, as anybody may have written it: nothing panics, and a log that holds still holds
//! with one record more.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgseal_chain::{verify, Chain};

fuzz_target!(|data: &[u8]| {
    let found = verify(data);
    let line = data.strip_suffix(b"\n").unwrap_or(data);
    let start = line.iter().rposition(|byte| *byte == b'\n');
    let after = Chain::after(&data[start.map_or(0, |at| at + 1)..]);
    let Ok(found) = found else {
        return;
    };
    if found.torn {
        return;
    }
    let mut chain = after.expect("the last line of a log that holds is a record");
    let text = String::from_utf8_lossy(data);
    let next = chain.append(1, "unlocked", |fields| fields.text("login", &text));
    let longer = verify(&[data, next.as_bytes()].concat()[..]).expect("it goes on");
    assert_eq!(longer.records, found.records + 1);
});
