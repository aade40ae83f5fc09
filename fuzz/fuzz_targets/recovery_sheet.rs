//! The lines of a recovery sheet, as anybody may have typed them: nothing panics, and what is read
//! is printed again as the same lines, in their order.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgseal_recovery::{join, Sheet};

fuzz_target!(|text: &str| {
    let Ok(sheet) = Sheet::parse(text) else {
        return;
    };
    let lines = sheet.lines();
    let again = Sheet::parse(&lines).expect("what is printed is read");
    assert_eq!(*again.lines(), *lines);
    let _ = join(&[sheet, again]);
});
