//! The time to open short messages of AES-256-GCM-SIV, alone by AWS-LC and four side by side:
//! `cargo bench -p pgseal-crypto --bench cells`. The lengths are those of cells: integers, times,
//! short texts. Every round runs both; the figures are medians over the rounds. Nothing is
//! asserted.

use std::hint::black_box;
use std::time::Instant;

use pgseal_crypto::aead::{open_four, Aead, Sealed, LANES, NONCE, TAG};
use pgseal_crypto::Secret;

const ROUNDS: usize = 301;
const CALLS: u32 = 400;
/// The associated data of a cell has so many bytes.
const AD: [u8; 20] = [1; 20];

struct Message {
    nonce: [u8; NONCE],
    text: Vec<u8>,
    tag: [u8; TAG],
}

fn main() {
    let aead = Aead::new(&Secret::generate().expect("randomness"));
    println!(
        "{:>6} {:>10} {:>10} {:>6}",
        "bytes", "alone, ns", "four, ns", "ratio"
    );
    for length in [4, 8, 16, 40, 120] {
        let messages = [1, 2, 3, 4].map(|number| sealed(&aead, number, length));
        let mut rounds: Vec<[f64; 2]> = (0..ROUNDS)
            .map(|_| {
                [
                    nanoseconds(|| alone(&aead, &messages)),
                    nanoseconds(|| four(&aead, &messages)),
                ]
            })
            .collect();
        let mut median = |of: &dyn Fn(&[f64; 2]) -> f64| {
            rounds.sort_by(|a, b| of(a).total_cmp(&of(b)));
            of(&rounds[ROUNDS / 2])
        };
        let (one, by_four) = (median(&|round| round[0]), median(&|round| round[1]));
        let ratio = median(&|round| round[1] / round[0]);
        println!("{length:>6} {one:>10.1} {by_four:>10.1} {ratio:>6.2}");
    }
}

fn sealed(aead: &Aead, number: u8, length: usize) -> Message {
    let (nonce, mut text) = ([number; NONCE], vec![number; length]);
    let tag = aead.seal(&nonce, &AD, &mut text);
    Message { nonce, text, tag }
}

/// Returns the time for one message.
fn nanoseconds(mut open: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..CALLS).for_each(|_| open());
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS) / LANES as f64
}

fn alone(aead: &Aead, messages: &[Message; LANES]) {
    let mut out = [0; 128];
    for message in black_box(messages) {
        let out = &mut out[..message.text.len()];
        let opened = aead.open(&message.nonce, &AD, &message.text, &message.tag, out);
        assert_eq!(black_box(opened), Ok(()));
    }
}

fn four(aead: &Aead, messages: &[Message; LANES]) {
    let mut outs = [[0; 128]; LANES];
    let mut rooms = outs.iter_mut();
    let mut messages = black_box(messages).each_ref().map(|message| Sealed {
        nonce: &message.nonce,
        ad: &AD,
        text: &message.text,
        tag: &message.tag,
        out: &mut rooms.next().expect("one for each")[..message.text.len()],
    });
    let opened = open_four([aead; LANES], &mut messages);
    assert_eq!(black_box(opened), [Ok(()); LANES]);
}
