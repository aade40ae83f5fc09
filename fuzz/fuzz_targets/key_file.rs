//! key.bin, as anybody may have written it: nothing panics, and what was authenticated is written
//! again as the same values, byte for byte except for the generation and the MAC.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgseal_crypto::mac::KeyFileMac;
use pgseal_crypto::MasterKey;
use pgseal_format::KeyImage;

/// The place of the generation, after magic, length and bound header.
const GENERATION: std::ops::Range<usize> = 61..69;
const MAC: usize = 32;

fuzz_target!(|data: &[u8]| {
    let _ = KeyImage::decode(data);
    let master = MasterKey::from_bytes(&mut std::array::from_fn(|i| i as u8));
    let bytes = completed(data, &master);
    let Ok(KeyImage::File(file)) = KeyImage::decode(&bytes) else {
        return;
    };
    let mut file = file.authenticate(&master).expect("the MAC is right");
    if file.generation() == u64::MAX {
        return;
    }
    let written = file.write(&master);
    assert_eq!(written.len(), bytes.len());
    assert_eq!(written[..GENERATION.start], bytes[..GENERATION.start]);
    let body = GENERATION.end..bytes.len() - MAC;
    assert_eq!(written[body.clone()], bytes[body]);
    assert!(matches!(KeyImage::decode(&written), Ok(KeyImage::File(_))));
});

/// The bytes with a true length and a true MAC, so that the fuzzer gets behind them.
fn completed(data: &[u8], master: &MasterKey) -> Vec<u8> {
    let mut bytes = b"PGSEALKF\0\0\0\0".to_vec();
    bytes.extend_from_slice(data);
    let len = u32::try_from(bytes.len() + MAC).expect("libFuzzer's inputs are small");
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    let tag = KeyFileMac::new(master).tag(&bytes);
    bytes.extend_from_slice(&tag);
    bytes
}
