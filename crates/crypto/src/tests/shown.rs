//! Logs and reports show public names, whole.

use super::first_master;
use crate::passphrase::Argon2Params;
use crate::sign::PublicKey;
use crate::{FileId, Fork};

#[test]
fn a_key_is_shown_by_its_public_name() {
    let id = first_master().key_id();
    assert_eq!(id.to_string(), "07c3ae1ad793c43def72e2be8064c70a");
    assert_eq!(format!("{id:?}"), "KeyId(07c3ae1ad793c43def72e2be8064c70a)");
}

#[test]
fn a_public_key_is_shown_in_hexadecimal() {
    let key = PublicKey(std::array::from_fn(|i| i as u8));
    let digits = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    assert_eq!(key.to_string(), digits);
    assert_eq!(format!("{key:?}"), format!("PublicKey({digits})"));
}

#[test]
fn a_file_is_shown_by_class_and_identity() {
    let slru = FileId::slru(b"pg_xact/0000").unwrap();
    assert_eq!(format!("{slru:?}"), "Slru(pg_xact/0000)");
    let relation = FileId::relation(5, 16384, Fork::Vm, 1);
    assert_eq!(
        format!("{relation:?}"),
        r"Relation(\x00\x00\x00\x05\x00\x00@\x00\x02\x00\x00\x00\x01)"
    );
}

#[test]
fn the_cost_of_a_passphrase_is_what_was_asked_for() {
    let params = Argon2Params::for_writing(65_536, 3, 4).unwrap();
    let cost = (params.memory_kib(), params.passes(), params.lanes());
    assert_eq!(cost, (65_536, 3, 4));
}
