//! Properties of all cells: a sealed value opens again, equal values give equal cells only in
//! deterministic mode, and a cell opens only under its own type, mode and key.

use pgseal_cell::{CellCipher, CellError, CellRef, DataKey, Mode, Nonces, Type};
use proptest::prelude::*;

const MODES: [Mode; 3] = [Mode::Randomised, Mode::Deterministic, Mode::Derived];

fn cipher(seed: u8) -> CellCipher {
    CellCipher::new(&DataKey::from_bytes(&mut [seed; 32]))
}

fn seal(cipher: &CellCipher, ty: Type, mode: Mode, plain: &[u8]) -> Vec<u8> {
    let mut cell = Vec::new();
    let sealed = cipher.seal(ty, mode, plain, &mut Nonces::new(), &mut cell);
    sealed.expect("random bytes");
    cell
}

fn open(cipher: &CellCipher, cell: &[u8]) -> Result<Vec<u8>, CellError> {
    let mut plain = Vec::new();
    cipher.open(&CellRef::parse(cell)?, &mut plain)?;
    Ok(plain)
}

/// Returns a type that takes any length. The rest of the envelope is the same for all types.
fn any_length() -> impl Strategy<Value = Type> {
    prop::sample::select(vec![Type::Text, Type::Bytea, Type::Decimal])
}

proptest! {
    #[test]
    fn what_was_sealed_is_opened(ty in any_length(), plain: Vec<u8>) {
        for mode in MODES {
            let cell = seal(&cipher(1), ty, mode, &plain);
            prop_assert_eq!(cell.len(), plain.len() + 35);
            prop_assert_eq!(open(&cipher(1), &cell), Ok(plain.clone()));
        }
    }

    #[test]
    fn only_deterministic_cells_repeat(ty in any_length(), plain: Vec<u8>) {
        for mode in MODES {
            let again = seal(&cipher(1), ty, mode, &plain) == seal(&cipher(1), ty, mode, &plain);
            prop_assert_eq!(again, mode == Mode::Deterministic);
        }
    }

    #[test]
    fn deterministic_cells_depend_on_the_key_in_every_part(
        plain in prop::collection::vec(any::<u8>(), 4..40)
    ) {
        let of = |key| seal(&cipher(key), Type::Text, Mode::Deterministic, &plain);
        let (one, other) = (of(1), of(2));
        for part in [3..7, 7..19, 19..35, 35..one.len()] {
            prop_assert_ne!(&one[part.clone()], &other[part]);
        }
    }

    #[test]
    fn a_cell_holds_for_its_type_mode_and_key(plain: Vec<u8>, from in 0..3_usize, to in 0..3_u8) {
        let cell = seal(&cipher(1), Type::Text, MODES[from], &plain);
        prop_assert!(open(&cipher(2), &cell).is_err());
        let bytea = Type::Bytea as u8;
        let mut moved = cell.clone();
        moved[0] ^= moved[1] ^ bytea;
        moved[1] = bytea;
        prop_assert_eq!(open(&cipher(1), &moved), Err(CellError::NotAuthentic));
        let mode = 0x11 + to;
        let mut moved = cell.clone();
        moved[0] ^= moved[2] ^ mode;
        moved[2] = mode;
        prop_assert_eq!(open(&cipher(1), &moved).is_ok(), mode == cell[2]);
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes: Vec<u8>) {
        if let Ok(cell) = CellRef::parse(&bytes) {
            prop_assert_eq!(cell.bytes(), &bytes[..]);
        }
    }
}

#[test]
fn a_buffer_that_was_used_holds_nothing_else() {
    let cell = seal(&cipher(1), Type::Text, Mode::Randomised, b"short");
    let mut buffer = b"a longer value that was here before".to_vec();
    let parsed = CellRef::parse(&cell).expect("a cell");
    assert_eq!(cipher(1).open(&parsed, &mut buffer), Ok(()));
    assert_eq!(buffer, b"short");
    assert_eq!(
        cipher(2).open(&parsed, &mut buffer),
        Err(CellError::NotAuthentic)
    );
    assert!(!buffer.windows(5).any(|window| window == b"short"));
}

#[test]
fn a_megabyte_of_text() {
    let text = vec![b'x'; 1 << 20];
    let cell = seal(&cipher(1), Type::Text, Mode::Deterministic, &text);
    assert_eq!(open(&cipher(1), &cell), Ok(text));
}
