//! One cipher is used by several threads, and by code that interrupts itself.

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::thread;

use super::{first_master, plain};
use crate::cached::Cached;
use crate::{FileCipher, FileId, Fork, KeyLength};

#[test]
fn a_kept_value_is_made_once() {
    let (cached, made) = (Cached::empty(), Cell::new(0));
    let make = || made.replace(made.get() + 1);
    assert_eq!(cached.with(make, |value| *value), 0);
    assert_eq!(cached.with(make, |value| *value), 0);
    assert_eq!(made.get(), 1);
}

/// A signal handler meets the value that the interrupted code holds.
#[test]
fn a_value_in_use_is_replaced_for_the_call() {
    let (cached, made) = (Cached::empty(), Cell::new(0));
    let make = || made.replace(made.get() + 1);
    cached.with(make, |outer| {
        assert_eq!(cached.with(make, |inner| *inner), 1);
        assert_eq!(*outer, 0);
    });
    assert_eq!(cached.with(make, |value| *value), 0);
    assert_eq!(made.get(), 2);
}

#[test]
fn a_value_that_saw_a_panic_is_not_used_again() {
    let (cached, made) = (Cached::empty(), Cell::new(0));
    let make = || made.replace(made.get() + 1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        cached.with(make, |_| panic!("in the middle of a unit"));
    }));
    assert!(panicked.is_err());
    assert_eq!(cached.with(make, |value| *value), 1);
}

#[test]
fn threads_share_a_cipher() {
    let master = first_master();
    let id = FileId::relation(5, 16384, Fork::Main, 0);
    for length in [KeyLength::Bits128, KeyLength::Bits256] {
        let cipher = FileCipher::new(&master, length, &id);
        thread::scope(|scope| {
            for thread in 0..4u64 {
                let cipher = &cipher;
                scope.spawn(move || everything(cipher, thread << 32));
            }
        });
    }
}

fn everything(cipher: &FileCipher<'_>, first_unit: u64) {
    let (page, mut buf) = (plain(8192), vec![0; 8192]);
    for unit in first_unit..first_unit + 500 {
        cipher.seal(unit, &page, &mut buf);
        cipher.mask_tail(unit, &mut buf[..7]);
        cipher.keystream(unit, &mut buf[100..900]);
        cipher.keystream(unit, &mut buf[100..900]);
        cipher.mask_tail(unit, &mut buf[..7]);
        cipher.open(unit, &mut buf);
        assert_eq!(buf, page, "unit {unit}");
    }
}
