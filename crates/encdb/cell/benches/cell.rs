//! Measures the cost of a cell: `cargo bench -p pgseal-cell`. It prints medians over rounds, on one
//! thread, and asserts nothing.

use std::hint::black_box;
use std::time::Instant;

use pgseal_cell::{CellCipher, CellRef, DataKey, MasterKey, Mode, Nonces, Type};

const ROUNDS: usize = 101;
const CALLS: u32 = 2_000;

fn main() {
    let key = DataKey::from_bytes(&mut [7; 32]);
    let cipher = CellCipher::new(&key);
    let mut nonces = Nonces::new();
    for len in [4, 16, 120, 8192] {
        let ty = if len == 4 { Type::Int4 } else { Type::Text };
        let plain = vec![3; len];
        let mut cell = Vec::new();
        for mode in [Mode::Randomised, Mode::Deterministic] {
            measure(&format!("seal {len} bytes, {mode:?}"), || {
                cell.clear();
                let sealed = cipher.seal(ty, mode, black_box(&plain), &mut nonces, &mut cell);
                sealed.expect("random bytes");
            });
        }
        let mut out = Vec::with_capacity(len);
        let parsed = CellRef::parse(&cell).expect("a cell");
        measure(&format!("parse {len} bytes"), || {
            black_box(CellRef::parse(black_box(&cell)).is_ok());
        });
        measure(&format!("open {len} bytes"), || {
            let opened = cipher.open(black_box(&parsed), &mut out);
            opened.expect("authentic");
        });
    }
    let hash = MasterKey::from_bytes(&mut [7; 32]).hash_key();
    measure("hash 4 bytes", || {
        black_box(hash.hash(Type::Int4, black_box(&[1, 2, 3, 4]), 0));
    });
    measure("expand a data key", || {
        black_box(CellCipher::new(&key));
    });
}

fn measure(name: &str, mut call: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..CALLS).for_each(|_| call());
            start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:<32} {:>9.1} ns", rounds[ROUNDS / 2]);
}
