//! slots.bin, as anybody may have written it: nothing panics, and what was authenticated is written
//! again as the same values, byte for byte except for the counter and the MAC.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgseal_crypto::mac::SlotNotesMac;
use pgseal_crypto::MasterKey;
use pgseal_format::UnverifiedNotes;

/// The place of the key id and of the counter, after magic and format.
const KEY_ID: std::ops::Range<usize> = 10..26;
const WRITTEN: std::ops::Range<usize> = 26..34;
const MAC: usize = 32;

fuzz_target!(|data: &[u8]| {
    let _ = UnverifiedNotes::decode(data);
    let master = MasterKey::from_bytes(&mut std::array::from_fn(|i| i as u8));
    let bytes = completed(data, &master);
    let Ok(notes) = UnverifiedNotes::decode(&bytes) else {
        return;
    };
    let mut notes = notes.authenticate(&master).expect("the MAC is right");
    let written = notes.write(&master);
    assert_eq!(written.len(), bytes.len());
    assert_eq!(written[..WRITTEN.start], bytes[..WRITTEN.start]);
    let body = WRITTEN.end..bytes.len() - MAC;
    assert_eq!(written[body.clone()], bytes[body]);
});

/// The bytes with a true key id and a true MAC, so that the fuzzer gets behind them.
fn completed(data: &[u8], master: &MasterKey) -> Vec<u8> {
    let mut bytes = b"PGSEALSN\x01\0".to_vec();
    assert_eq!(bytes.len(), KEY_ID.start);
    bytes.extend_from_slice(&master.key_id().0);
    bytes.extend_from_slice(data);
    let tag = SlotNotesMac::new(master).tag(&bytes);
    bytes.extend_from_slice(&tag);
    bytes
}
