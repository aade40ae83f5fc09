//! The cost of a page, beside AWS-LC's own in the same run: `cargo bench -p pgseal-crypto`.
//!
//! Every round runs all variants in a rotating order; the figures are medians over the rounds, and
//! the ratio is the median of the rounds' ratios to AWS-LC's XTS in the same direction. One thread;
//! nothing is asserted.

use std::hint::black_box;
use std::time::Instant;

use pgseal_crypto::internals::{hkdf_expand, Context, Direction, Engine, Mode, Schedule};
use pgseal_crypto::{FileCipher, FileId, Fork, KeyLength, MasterKey, UNIT};

const ROUNDS: usize = 301;
const CALLS: u32 = 400;

struct Variant<'a> {
    name: String,
    bytes: usize,
    baseline: Option<&'static str>,
    call: Box<dyn FnMut(u64) + 'a>,
    ns: Vec<f64>,
}

impl<'a> Variant<'a> {
    fn new(
        name: impl Into<String>,
        bytes: usize,
        baseline: Option<&'static str>,
        call: impl FnMut(u64) + 'a,
    ) -> Self {
        Self {
            name: name.into(),
            bytes,
            baseline,
            call: Box::new(call),
            ns: Vec::new(),
        }
    }

    fn round(&mut self) {
        let start = Instant::now();
        for unit in 0..CALLS {
            (self.call)(black_box(u64::from(unit)));
        }
        self.ns
            .push(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
    }
}

const RAW_SEAL: &str = "AWS-LC XTS-256 seal";
const RAW_OPEN: &str = "AWS-LC XTS-256 open";

/// Two different keys.
const PAIR: [u8; 64] = {
    let mut pair = [1; 64];
    pair[0] = 2;
    pair
};

fn main() {
    let master = MasterKey::from_bytes(&mut [7; 32]);
    let id = FileId::relation(5, 16384, Fork::Main, 0);
    let mut variants = raw_xts();
    variants.extend(composed());
    for length in [KeyLength::Bits256, KeyLength::Bits192, KeyLength::Bits128] {
        variants.extend(raw_ecb(length));
        variants.extend(pages(&master, &id, length));
    }
    variants.extend(set_up(&master, &id));
    for round in 0..ROUNDS {
        let count = variants.len();
        for turn in 0..count {
            variants[(round + turn) % count].round();
        }
    }
    report(&variants);
}

/// The two calls that XTS costs at least: set the tweak, run the page.
fn raw_xts() -> Vec<Variant<'static>> {
    let mut sealing = Context::new(Mode::Xts256, Direction::Seal, &PAIR);
    let mut opening = Context::new(Mode::Xts256, Direction::Open, &PAIR);
    let (plain, mut out, mut buf) = (page(1), page(2), page(3));
    vec![
        Variant::new(RAW_SEAL, UNIT, None, move |unit| {
            sealing.start(&u128::from(unit).to_le_bytes());
            sealing.run(&plain, &mut out);
        }),
        Variant::new(RAW_OPEN, UNIT, None, move |unit| {
            opening.start(&u128::from(unit).to_le_bytes());
            opening.run_in_place(&mut buf);
        }),
    ]
}

/// The ground that 128 and 192 are composed on.
fn raw_ecb(length: KeyLength) -> Vec<Variant<'static>> {
    let mut ecb = Context::new(
        Mode::Ecb(length),
        Direction::Seal,
        &[9; 32][..length.bytes()],
    );
    let (plain, mut out) = (page(1), page(2));
    let name = format!("AWS-LC ECB-{} seal", length.bits());
    vec![Variant::new(name, UNIT, Some(RAW_SEAL), move |_| {
        ecb.run(&plain, &mut out)
    })]
}

fn composed() -> Vec<Variant<'static>> {
    let (engine, length) = (Engine::Composed, KeyLength::Bits256);
    let mut keys = Schedule::on(engine, Direction::Seal, length, &PAIR).expect("unequal keys");
    let (plain, mut out) = (page(1), page(2));
    vec![Variant::new(
        "composed XTS-256 seal",
        UNIT,
        Some(RAW_SEAL),
        move |unit| {
            keys.run(u128::from(unit).to_le_bytes(), &plain, &mut out);
        },
    )]
}

fn pages<'a>(master: &'a MasterKey, id: &FileId, length: KeyLength) -> Vec<Variant<'a>> {
    let bits = length.bits();
    let (plain, mut out, mut buf) = (page(1), page(2), page(3));
    let sealing = FileCipher::new(master, length, id);
    let opening = FileCipher::new(master, length, id);
    vec![
        Variant::new(
            format!("FileCipher {bits} seal"),
            UNIT,
            Some(RAW_SEAL),
            move |unit| {
                sealing.seal(unit, &plain, &mut out);
            },
        ),
        Variant::new(
            format!("FileCipher {bits} open"),
            UNIT,
            Some(RAW_OPEN),
            move |unit| {
                opening.open(unit, &mut buf);
            },
        ),
    ]
}

fn set_up<'a>(master: &'a MasterKey, id: &'a FileId) -> Vec<Variant<'a>> {
    let mut key = [0; 64];
    let (plain, mut out) = (page(1), page(2));
    vec![
        Variant::new("HKDF-Expand, 64 bytes", 0, None, move |_| {
            hkdf_expand(master.expose(), black_box(&[1; 27]), &mut key);
        }),
        Variant::new("FileCipher::new", 0, None, move |_| {
            black_box(FileCipher::new(master, KeyLength::Bits256, id));
        }),
        Variant::new("FileCipher::new + first 16 bytes", 0, None, move |unit| {
            let cipher = FileCipher::new(master, KeyLength::Bits256, id);
            cipher.seal(unit, &plain[..16], &mut out[..16]);
        }),
    ]
}

fn page(fill: u8) -> Vec<u8> {
    vec![fill; UNIT]
}

fn report(variants: &[Variant<'_>]) {
    println!(
        "{:34} {:>9} {:>7} {:>14}",
        "", "ns/call", "GB/s", "AWS-LC's speed"
    );
    for variant in variants {
        let ns = median(variant.ns.clone());
        let rate = if variant.bytes == 0 {
            0.0
        } else {
            variant.bytes as f64 / ns
        };
        let rate = if rate == 0.0 {
            String::new()
        } else {
            format!("{rate:.2}")
        };
        let share = variant.baseline.map_or(String::new(), |name| {
            let base = variants
                .iter()
                .find(|v| v.name == name)
                .expect("the baseline ran");
            let ratios = base.ns.iter().zip(&variant.ns).map(|(base, ns)| base / ns);
            format!("{:.1} %", 100.0 * median(ratios.collect()))
        });
        println!("{:34} {ns:>9.0} {rate:>7} {share:>14}", variant.name);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
