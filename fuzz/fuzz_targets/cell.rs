//! Cells and wrapped data keys, as anybody may have written them: nothing panics, what was sealed
//! is opened, and one flipped bit is refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgseal_cell::{
    CellCipher, CellRef, DataKey, LegacyCipher, LegacyKey, MasterKey, Mode, Nonces, PublicKey,
    Type, WrappedKey,
};

fuzz_target!(|data: &[u8]| {
    judge(data);
    if let Some((_, rest)) = data.split_first() {
        // With a true check byte, so that the fuzzer gets behind it.
        let check = rest.iter().fold(0, |sum, byte| sum ^ byte);
        judge(&[&[check], rest].concat());
    }
    seal(data);
    wrapped(data);
});

/// Asserts that our keys open no bytes that they did not seal.
fn judge(data: &[u8]) {
    let Ok(cell) = CellRef::parse(data) else {
        return;
    };
    assert_eq!(cell.bytes(), data);
    assert!(cell.plain_len() <= data.len());
    let mut out = Vec::new();
    let cipher = CellCipher::new(&DataKey::from_bytes(&mut [7; 32]));
    assert!(cipher.open(&cell, &mut out).is_err());
    let legacy = LegacyKey::from_bytes(&mut [7; 16]);
    assert!(LegacyCipher::new(&legacy).open(&cell).is_err());
}

/// Type, mode and place of a flipped bit come first.
fn seal(data: &[u8]) {
    let Some((&[ty, mode, at, bit], plain)) = data.split_first_chunk() else {
        return;
    };
    let mode = [Mode::Randomised, Mode::Deterministic, Mode::Derived][usize::from(mode % 3)];
    let ty = Type::ALL[usize::from(ty) % Type::ALL.len()];
    let cipher = CellCipher::new(&DataKey::from_bytes(&mut [9; 32]));
    let mut sealed = Vec::new();
    let done = cipher.seal(ty, mode, plain, &mut Nonces::new(), &mut sealed);
    done.expect("random bytes");
    let Ok(cell) = CellRef::parse(&sealed) else {
        return; // not a length of its type
    };
    let mut out = Vec::new();
    assert_eq!(cipher.open(&cell, &mut out), Ok(()));
    assert_eq!(out, plain);
    let at = 1 + usize::from(at) % (sealed.len() - 1);
    let flip = 1 << (bit % 8);
    sealed[at] ^= flip;
    assert!(CellRef::parse(&sealed).is_err());
    sealed[0] ^= flip;
    if let Ok(cell) = CellRef::parse(&sealed) {
        assert!(cipher.open(&cell, &mut out).is_err());
    }
}

fn wrapped(data: &[u8]) {
    let master = MasterKey::from_bytes(&mut [7; 32]);
    if let Ok(key) = WrappedKey::parse(data) {
        assert!(key.unwrap(&master, &PublicKey([1; 32]), "name").is_err());
    }
}
