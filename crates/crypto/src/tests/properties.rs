//! Properties that the storage crate relies on, for any key length, unit, length and alignment.

use proptest::collection::vec;
use proptest::prelude::*;

use super::first_master;
use crate::{FileCipher, FileId, Fork, KeyLength};

fn lengths() -> impl Strategy<Value = KeyLength> {
    prop_oneof![
        Just(KeyLength::Bits128),
        Just(KeyLength::Bits192),
        Just(KeyLength::Bits256)
    ]
}

fn units() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::from(u32::MAX)),
        Just(u64::MAX),
        any::<u64>()
    ]
}

/// Whole blocks, at most a page.
fn runs() -> impl Strategy<Value = Vec<u8>> {
    (1..=512usize).prop_flat_map(|blocks| vec(any::<u8>(), 16 * blocks))
}

fn with_cipher<R>(length: KeyLength, act: impl FnOnce(&FileCipher<'_>) -> R) -> R {
    let master = first_master();
    act(&FileCipher::new(
        &master,
        length,
        &FileId::relation(5, 16384, Fork::Main, 0),
    ))
}

fn sealed(cipher: &FileCipher<'_>, unit: u64, plain: &[u8]) -> Vec<u8> {
    let mut out = vec![0; plain.len()];
    cipher.seal(unit, plain, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn opening_undoes_sealing_at_every_alignment(
        length in lengths(), unit in units(), plain in runs(),
        from in 0..64usize, to in 0..64usize,
    ) {
        with_cipher(length, |cipher| {
            let input = [vec![0; from], plain.clone()].concat();
            let mut out = vec![0xee; to + plain.len() + 8];
            cipher.seal(unit, &input[from..], &mut out[to..to + plain.len()]);
            prop_assert_eq!(&out[to..to + plain.len()], sealed(cipher, unit, &plain));
            cipher.open(unit, &mut out[to..to + plain.len()]);
            let expected = [vec![0xee; to], plain, vec![0xee; 8]].concat();
            prop_assert_eq!(out, expected);
            Ok(())
        })?;
    }

    #[test]
    fn a_prefix_is_sealed_as_in_the_whole(
        length in lengths(), unit in units(), plain in runs(), blocks in 1..=512usize,
    ) {
        with_cipher(length, |cipher| {
            let whole = sealed(cipher, unit, &plain);
            let part = (16 * blocks).min(plain.len());
            prop_assert_eq!(&sealed(cipher, unit, &plain[..part]), &whole[..part]);
            Ok(())
        })?;
    }

    #[test]
    fn a_flipped_bit_garbles_its_block_and_no_other(
        length in lengths(), unit in units(), plain in runs(), at in any::<prop::sample::Index>(),
    ) {
        with_cipher(length, |cipher| {
            let mut buf = sealed(cipher, unit, &plain);
            let bit = at.index(8 * buf.len());
            let block = bit / 128 * 16..bit / 128 * 16 + 16;
            buf[bit / 8] ^= 1 << (bit % 8);
            cipher.open(unit, &mut buf);
            prop_assert_ne!(&buf[block.clone()], &plain[block.clone()]);
            buf[block.clone()].copy_from_slice(&plain[block]);
            prop_assert_eq!(buf, plain);
            Ok(())
        })?;
    }

    #[test]
    fn units_and_files_differ(length in lengths(), unit in units(), plain in runs()) {
        let master = first_master();
        let here = FileCipher::new(&master, length, &FileId::wal(0));
        let there = FileCipher::new(&master, length, &FileId::wal(1));
        let stored = sealed(&here, unit, &plain);
        prop_assert_ne!(&stored, &sealed(&here, unit ^ 1, &plain));
        prop_assert_ne!(&stored, &sealed(&here, unit ^ (1 << 63), &plain));
        prop_assert_ne!(&stored, &sealed(&there, unit, &plain));
    }

    #[test]
    fn a_mask_undoes_itself_and_depends_on_place_and_length(
        length in lengths(), block in any::<u64>(), tail in vec(any::<u8>(), 8..15),
    ) {
        with_cipher(length, |cipher| {
            let mut masked = tail.clone();
            cipher.mask_tail(block, &mut masked);
            prop_assert_ne!(&masked, &tail);
            let mut elsewhere = tail.clone();
            cipher.mask_tail(block ^ 1, &mut elsewhere);
            prop_assert_ne!(&masked, &elsewhere);
            let mut longer = [tail.as_slice(), &[0]].concat();
            cipher.mask_tail(block, &mut longer);
            prop_assert_ne!(&masked[..], &longer[..tail.len()]);
            cipher.mask_tail(block, &mut masked);
            prop_assert_eq!(masked, tail);
            Ok(())
        })?;
    }

    #[test]
    fn a_stream_depends_on_the_position_alone(
        length in lengths(), offset in 0..u64::MAX / 2, data in vec(any::<u8>(), 1..600),
        cut in any::<prop::sample::Index>(),
    ) {
        with_cipher(length, |cipher| {
            let mut whole = data.clone();
            cipher.keystream(offset, &mut whole);
            let mut parts = data.clone();
            let (first, second) = parts.split_at_mut(cut.index(data.len()));
            cipher.keystream(offset + first.len() as u64, second);
            cipher.keystream(offset, first);
            prop_assert_eq!(&parts, &whole);
            cipher.keystream(offset, &mut whole);
            prop_assert_eq!(whole, data);
            Ok(())
        })?;
    }
}

#[test]
#[should_panic(expected = "a run is whole blocks")]
fn no_run_of_half_a_block() {
    with_cipher(KeyLength::Bits256, |cipher| cipher.open(0, &mut [0; 24]));
}

#[test]
#[should_panic(expected = "a run is whole blocks")]
fn no_run_beyond_a_page() {
    with_cipher(KeyLength::Bits256, |cipher| cipher.open(0, &mut [0; 8208]));
}

#[test]
#[should_panic(expected = "a run is whole blocks")]
fn no_empty_run() {
    with_cipher(KeyLength::Bits128, |cipher| cipher.seal(0, &[], &mut []));
}

#[test]
#[should_panic(expected = "sealing keeps lengths")]
fn no_run_into_another_length() {
    with_cipher(KeyLength::Bits256, |cipher| {
        cipher.seal(0, &[0; 32], &mut [0; 16])
    });
}

#[test]
#[should_panic(expected = "a tail has 1 to 15 bytes")]
fn no_tail_of_a_whole_block() {
    with_cipher(KeyLength::Bits256, |cipher| {
        cipher.mask_tail(0, &mut [0; 16])
    });
}
