//! Any path below a data directory has a class, and names that nobody knows fail closed: below
//! base/, global/, pg_*/ and PG_*/ a file is clear only if a row of the table says so.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgseal_storage::classify::{classify, Class};

fuzz_target!(|path: &[u8]| {
    let found = classify(path);
    let closed = [&b"base/"[..], b"global/", b"pg_", b"PG_"]
        .iter()
        .any(|start| path.starts_with(start))
        && path.contains(&b'/');
    if found.row.is_none() {
        assert_eq!(closed, found.class != Class::Clear);
    }
    if let Class::WalSegment(name) = found.class {
        for size in [1 << 20, 16 << 20, 1 << 30] {
            let _ = name.spec(size);
        }
    }
});
