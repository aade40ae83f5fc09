//! Error rates of the test: on random bytes by proof, on ciphertext and real pages by trial.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of small whole numbers

use pgseal_crypto::{FileCipher, FileId, Fork, KeyLength, MasterKey};

use super::super::samples::{sample, SAMPLES};
use super::super::{header, Page};
use super::*;

/// ln n!, by Stirling's series above 20.
fn ln_factorial(n: f64) -> f64 {
    if n < 20.0 {
        return (1..=n as u32).map(|i| f64::from(i).ln()).sum();
    }
    let pi = std::f64::consts::PI;
    n * n.ln() - n + 0.5 * (2.0 * pi * n).ln() + 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3))
}

/// log10 of Chernoff's bound that chi-square of `n` random bytes exceeds `limit`, see the method.
fn log10_of_false_alarm(n: f64, limit: f64) -> f64 {
    let mean = n / 256.0;
    let ln_poisson = |k: f64, mean: f64| k * mean.ln() - mean - ln_factorial(k);
    // Counts beyond this have a probability below 10^-80, which nothing here can feel.
    let counts: Vec<f64> = (0..(8.0 * mean) as u32 + 80).map(f64::from).collect();
    let exponent = |t: f64| {
        let terms = counts
            .iter()
            .map(|k| ln_poisson(*k, mean) + t * (k - mean).powi(2) / mean);
        256.0 * terms.map(f64::exp).sum::<f64>().ln() - t * limit
    };
    let bound = (1..200).map(|i| exponent(f64::from(i) / 400.0));
    (bound.fold(0.0, f64::min) - ln_poisson(n, n)) / 10f64.ln()
}

#[test]
#[allow(clippy::cast_precision_loss)] // lengths up to 8192
fn the_limits_are_proved() {
    for (from, limit) in LIMITS {
        let bound = log10_of_false_alarm(from as f64, limit);
        assert!(bound < -9.0, "{from} bytes: 10^{bound:.2}");
        let tighter = log10_of_false_alarm(from as f64, limit - limit / 20.0);
        assert!(tighter > -10.0, "{from} bytes: the limit could be lower");
    }
    for n in (128..=8192).step_by(16) {
        let (_, limit) = LIMITS.iter().find(|(from, _)| n >= *from).expect("a limit");
        assert!(log10_of_false_alarm(n as f64, *limit) < -9.0, "{n} bytes");
    }
}

fn cipher(master: &MasterKey) -> FileCipher<'_> {
    FileCipher::new(
        master,
        KeyLength::Bits256,
        &FileId::relation(5, 1, Fork::Main, 0),
    )
}

#[test]
fn ciphertext_looks_random() {
    let master = MasterKey::from_bytes(&mut [7; 32]);
    let cipher = cipher(&master);
    let mut out: Page = [0; 8192];
    for unit in 0..20_000 {
        cipher.seal(unit, &[0; 8192], &mut out);
        assert_eq!(look(&out), Look::Random, "unit {unit}");
        for len in [128, 256, 512, 1024, 4096] {
            assert_eq!(look(&out[..len]), Look::Random, "unit {unit}, {len} bytes");
        }
    }
}

#[test]
fn real_pages_look_clear() {
    for (i, (name, _)) in SAMPLES.iter().enumerate() {
        let page = sample(i);
        let told = look(&page) == Look::Clear || header::is_plausible(&page);
        assert!(told, "{name}");
    }
    assert_eq!(look(&sample(7)), Look::Clear, "TOAST of random bytes");
    assert_eq!(look(&sample(8)), Look::Random, "only its header shows it");
}

#[test]
fn short_text_looks_clear() {
    let text =
        b"select name, salary from people where name = 'Miller' order by salary desc limit 9; \
                 update people set salary = salary * 1.1 where id = 42";
    assert_eq!(look(&text[..128]), Look::Clear);
    assert_eq!(look(&text[..127]), Look::Short);
}

#[test]
fn holes_are_left_out() {
    let master = MasterKey::from_bytes(&mut [7; 32]);
    let mut page: Page = [0; 8192];
    assert_eq!(look_between_holes(&page, BLOCK), None);
    cipher(&master).seal(0, &[0; 4096], &mut page[..4096]);
    assert_eq!(look(&page), Look::Clear);
    for hole in [BLOCK, SECTOR] {
        assert_eq!(look_between_holes(&page, hole), Some(Look::Random));
    }
    page[4096..4224].fill(b'x');
    for hole in [BLOCK, SECTOR] {
        assert_eq!(look_between_holes(&page, hole), Some(Look::Clear));
    }
    let few = [&[1; 24][..], &[0; 8168]].concat();
    assert_eq!(look_between_holes(&few, BLOCK), Some(Look::Short));
    assert_eq!(look_between_holes(&few, SECTOR), Some(Look::Clear));
}
