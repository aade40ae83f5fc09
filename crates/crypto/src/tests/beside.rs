//! The MACs of the two files beside a key file, against the vectors of these files.

use serde::Deserialize;

use super::{first_master, hex, vectors, Hex};
use crate::mac::{KeyFileMac, ReceiverListMac, SlotNotesMac};
use crate::MasterKey;

/// Bytes of the MAC that ends a file.
const MAC: usize = 32;

#[derive(Deserialize)]
struct Files {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    result: String,
    master: Hex,
    file: Hex,
}

impl Case {
    fn parts(&self) -> (&[u8], [u8; MAC]) {
        let (data, tag) = self.file.0.split_last_chunk().unwrap();
        (data, *tag)
    }
}

/// Holds one kind of MAC against the files that hold, and those that somebody altered.
fn check(
    Files { cases }: &Files,
    tag: fn(&MasterKey, &[u8]) -> [u8; MAC],
    verify: fn(&MasterKey, &[u8], &[u8; MAC]) -> bool,
) {
    let results = |result| cases.iter().filter(move |case| case.result == result);
    assert!(results("holds").count() >= 3 && results("altered").count() >= 3);
    for case in results("holds") {
        let ((data, stored), master) = (case.parts(), case.master.master());
        assert_eq!(hex(&tag(&master, data)), hex(&stored), "{}", case.name);
        assert!(verify(&master, data, &stored), "{}", case.name);
        for bit in 0..8 * MAC {
            let mut flipped = stored;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!verify(&master, data, &flipped), "{}, {bit}", case.name);
        }
        let other = MasterKey::from_bytes(&mut [7; 32]);
        assert!(!verify(&other, data, &stored), "{}", case.name);
    }
    for case in results("altered") {
        let (data, stored) = case.parts();
        assert!(!verify(&case.master.master(), data, &stored));
    }
}

#[test]
fn macs_of_slot_notes() {
    check(
        &vectors!("slot_notes.json"),
        |master, data| SlotNotesMac::new(master).tag(data),
        |master, data, tag| SlotNotesMac::new(master).verify(data, tag),
    );
}

#[test]
fn macs_of_receiver_lists() {
    check(
        &vectors!("receiver_list.json"),
        |master, data| ReceiverListMac::new(master).tag(data),
        |master, data, tag| ReceiverListMac::new(master).verify(data, tag),
    );
}

/// A file of one kind is not taken for one of another kind.
#[test]
fn one_file_has_three_macs() {
    let master = first_master();
    let file = KeyFileMac::new(&master).tag(b"HEADER");
    let notes = SlotNotesMac::new(&master).tag(b"HEADER");
    let list = ReceiverListMac::new(&master).tag(b"HEADER");
    assert!(file != notes && notes != list && list != file);
    assert!(!SlotNotesMac::new(&master).verify(b"HEADER", &list));
    assert!(!ReceiverListMac::new(&master).verify(b"HEADER", &notes));
}
