//! XTS itself: published vectors through both engines, and the engines against each other.

use serde::Deserialize;

use super::{hex, key_length, plain, vectors, Hex};
use crate::awslc::{Context, Direction, Mode};
use crate::xts::{position, Engine, Schedule};
use crate::KeyLength;

#[derive(Deserialize)]
struct File {
    standard: Vec<Standard>,
    composed: Vec<Composed>,
}

#[derive(Deserialize)]
struct Standard {
    source: String,
    keybits: u16,
    key: Hex,
    tweak: Hex,
    plain: Hex,
    cipher: Hex,
}

#[derive(Deserialize)]
struct Composed {
    keybits: u16,
    key: Hex,
    unit: u64,
    length: usize,
    cipher_first: String,
    cipher_last: String,
}

fn check(case: &Standard, engine: Engine) {
    let keys =
        |direction| Schedule::on(engine, direction, key_length(case.keybits), &case.key.0).unwrap();
    let mut out = vec![0; case.plain.0.len()];
    keys(Direction::Seal).run(case.tweak.array(), &case.plain.0, &mut out);
    assert_eq!(out, case.cipher.0, "{} sealed, {engine:?}", case.source);
    keys(Direction::Open).run_in_place(case.tweak.array(), &mut out);
    assert_eq!(out, case.plain.0, "{} opened, {engine:?}", case.source);
}

#[test]
fn published_vectors_through_the_composed_engine() {
    let File { standard, .. } = vectors!("xts.json");
    for case in &standard {
        check(case, Engine::Composed);
    }
    let count = |bits| standard.iter().filter(|case| case.keybits == bits).count();
    assert_eq!((count(128), count(256)), (109, 105));
}

#[test]
fn published_vectors_through_the_native_engine() {
    let File { standard, .. } = vectors!("xts.json");
    let wide: Vec<_> = standard.iter().filter(|case| case.keybits == 256).collect();
    assert_eq!(wide.len(), 105);
    for case in wide {
        check(case, Engine::Native);
    }
}

#[test]
fn composed_192() {
    let File { composed, .. } = vectors!("xts.json");
    assert_eq!(composed.len(), 3);
    for case in &composed {
        let length = key_length(case.keybits);
        let mut keys = Schedule::new(Direction::Seal, length, &case.key.0).unwrap();
        let mut out = vec![0; case.length];
        keys.run(position(case.unit), &plain(case.length), &mut out);
        let last = out.len().saturating_sub(32);
        assert_eq!(
            hex(&out[..out.len().min(32)]),
            case.cipher_first,
            "unit {}",
            case.unit
        );
        assert_eq!(hex(&out[last..]), case.cipher_last, "unit {}", case.unit);
    }
    assert_eq!(
        &composed[0].cipher_first[..32],
        "afa5ba9adb60711b16169ad5fba79534"
    );
}

/// IEEE 1619-2007's first vector has K1 = K2 = 0.
#[test]
fn equal_keys_are_refused() {
    for length in [KeyLength::Bits128, KeyLength::Bits192, KeyLength::Bits256] {
        let mut pair = vec![0; 2 * length.bytes()];
        for engine in [Engine::Native, Engine::Composed] {
            let refused = Schedule::on(engine, Direction::Seal, length, &pair);
            assert!(refused.is_none(), "{length:?}");
        }
        let last = pair.len() - 1;
        pair[last] = 1;
        let taken = Schedule::new(Direction::Seal, length, &pair);
        assert!(taken.is_some(), "{length:?}");
    }
}

#[test]
fn composed_256_is_native_256() {
    let mut stream = Context::new(Mode::Ctr(KeyLength::Bits256), Direction::Seal, &[1; 32]);
    let mut random = vec![0; 64 + 8 + 2 + 8192];
    let (mut native_out, mut composed_out) = (vec![0; 8192], vec![0; 8192]);
    for round in 0..100_000 {
        stream.run_in_place(&mut random);
        let (pair, rest) = random.split_at(64);
        let (unit, rest) = rest.split_at(8);
        let (blocks, plain) = rest.split_at(2);
        let unit = position(u64::from_le_bytes(unit.try_into().unwrap()));
        let len = 16 * (1 + usize::from(u16::from_le_bytes([blocks[0], blocks[1]])) % 512);
        let keys =
            |engine, direction| Schedule::on(engine, direction, KeyLength::Bits256, pair).unwrap();
        let (native, composed) = (Engine::Native, Engine::Composed);
        keys(native, Direction::Seal).run(unit, &plain[..len], &mut native_out[..len]);
        keys(composed, Direction::Seal).run(unit, &plain[..len], &mut composed_out[..len]);
        assert_eq!(native_out[..len], composed_out[..len], "round {round}");
        keys(composed, Direction::Open).run_in_place(unit, &mut native_out[..len]);
        keys(native, Direction::Open).run_in_place(unit, &mut composed_out[..len]);
        assert_eq!(native_out[..len], plain[..len], "round {round}");
        assert_eq!(composed_out[..len], plain[..len], "round {round}");
    }
}
