//! receivers.bin, as anybody may have written it: nothing panics, and what was authenticated is
//! written again as the same values, byte for byte except for the counter and the MAC.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgseal_crypto::mac::ReceiverListMac;
use pgseal_crypto::MasterKey;
use pgseal_format::ReceiverList;

/// The place of the counter, after magic, format and key id.
const WRITTEN: std::ops::Range<usize> = 26..34;
const MAC: usize = 32;

fuzz_target!(|data: &[u8]| {
    let master = MasterKey::from_bytes(&mut std::array::from_fn(|i| i as u8));
    let _ = ReceiverList::decode(data, &master);
    let mut bytes = b"PGSEALRL\x01\0".to_vec();
    bytes.extend_from_slice(&master.key_id().0);
    bytes.extend_from_slice(data);
    let tag = ReceiverListMac::new(&master).tag(&bytes);
    bytes.extend_from_slice(&tag);
    let Ok(mut list) = ReceiverList::decode(&bytes, &master) else {
        return;
    };
    let written = list.write(&master);
    assert_eq!(written.len(), bytes.len());
    assert_eq!(written[..WRITTEN.start], bytes[..WRITTEN.start]);
    let body = WRITTEN.end..bytes.len() - MAC;
    assert_eq!(written[body.clone()], bytes[body]);
});
