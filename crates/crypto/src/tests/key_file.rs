//! Master keys, their names, the key file's MACs, and wrapping under a passphrase.

use serde::Deserialize;

use super::{first_master, hex, vectors, Hex};
use crate::mac::{BindMac, KeyFileMac, ReceiverMac};
use crate::passphrase::{derive, Argon2Params, Kek, ParamsError, WrongKey, OVERHEAD};
use crate::pbkdf2::{self, IterationsError, Pbkdf2Params, TooShort};
use crate::{KeyId, KeyLength, MasterKey, UnknownKeyLength};

#[derive(Deserialize)]
struct Macs {
    cases: Vec<Mac>,
}

#[derive(Deserialize)]
struct Mac {
    master: Hex,
    data: Hex,
    key_id: String,
    bind: Hex,
    key_file: Hex,
}

#[test]
fn macs() {
    let Macs { cases } = vectors!("mac.json");
    assert_eq!(cases.len(), 6);
    for case in &cases {
        let master = case.master.master();
        assert_eq!(master.key_id().to_string(), case.key_id);
        let (bind, file) = (BindMac::new(&master), KeyFileMac::new(&master));
        assert_eq!(hex(&bind.tag(&case.data.0)), hex(&case.bind.0));
        assert_eq!(hex(&file.tag(&case.data.0)), hex(&case.key_file.0));
        assert!(bind.verify(&case.data.0, &case.bind.array()));
        assert!(file.verify(&case.data.0, &case.key_file.array()));
    }
}

#[test]
fn a_flipped_bit_of_a_mac_is_seen() {
    let (bind, file) = (
        BindMac::new(&first_master()),
        KeyFileMac::new(&first_master()),
    );
    for bit in 0..128 {
        let mut tag = bind.tag(b"HEADER");
        tag[bit / 8] ^= 1 << (bit % 8);
        assert!(!bind.verify(b"HEADER", &tag), "bit {bit}");
        let mut tag = file.tag(b"HEADER");
        tag[bit / 4] ^= 1 << (bit % 8);
        assert!(!file.verify(b"HEADER", &tag), "bit {bit}");
    }
    assert!(!bind.verify(b"HEADEr", &bind.tag(b"HEADER")));
}

#[test]
fn names_and_macs_of_the_design() {
    let master = first_master();
    assert_eq!(
        master.key_id().to_string(),
        "07c3ae1ad793c43def72e2be8064c70a"
    );
    assert_eq!(
        hex(&BindMac::new(&master).tag(b"HEADER")),
        "aef992254442fdb604aa4b6b0a40b67c"
    );
}

#[test]
fn the_receiver_tag_of_the_design() {
    let master = first_master();
    let mac = ReceiverMac::new(&master);
    let (id, expiry) = (7_000_000_000_000_000_001, 1_800_000_000);
    let tag = mac.tag(id, expiry, b"repl");
    assert_eq!(hex(&tag), "6278d3b6897d2d78f40dea91a97a1f99");
    assert!(mac.verify(id, expiry, b"repl", &tag));
    assert!(!mac.verify(id + 1, expiry, b"repl", &tag));
    assert!(!mac.verify(id, expiry + 1, b"repl", &tag));
    assert!(!mac.verify(id, expiry, b"repL", &tag));
}

#[test]
fn master_keys() {
    assert_eq!((size_of::<MasterKey>(), align_of::<MasterKey>()), (32, 1));
    let mut bytes = [7; 32];
    let key = MasterKey::from_bytes(&mut bytes);
    assert_eq!((key.expose(), bytes), (&[7; 32], [0; 32]));
    let (a, b) = (
        MasterKey::generate().unwrap(),
        MasterKey::generate().unwrap(),
    );
    assert_ne!(a.expose(), b.expose());
    assert_ne!(a.key_id(), b.key_id());
    assert_eq!(KeyId([1; 16]), KeyId([1; 16]));
}

#[test]
fn key_lengths() {
    for bits in [128, 192, 256] {
        assert_eq!(KeyLength::try_from(bits).unwrap().bits(), bits);
    }
    let error = KeyLength::try_from(255).unwrap_err();
    assert_eq!(error, UnknownKeyLength(255));
    assert_eq!(
        error.to_string(),
        "255 is not a key length: use 128, 192 or 256"
    );
}

#[derive(Deserialize)]
struct Passphrases {
    cases: Vec<Passphrase>,
}

#[derive(Deserialize)]
struct Passphrase {
    passphrase: Hex,
    salt: Hex,
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    aad: Hex,
    plain: Hex,
    wrapped: Hex,
}

impl Passphrase {
    fn kek(&self) -> Kek {
        let params = Argon2Params::for_reading(self.memory_kib, self.passes, self.lanes);
        derive(&self.passphrase.0, &self.salt.array(), params.unwrap()).unwrap()
    }
}

#[test]
fn passphrases() {
    let Passphrases { cases } = vectors!("passphrase.json");
    assert_eq!(cases.len(), 3);
    for case in &cases {
        assert_eq!(
            *case.kek().open(&case.wrapped.0, &case.aad.0).unwrap(),
            case.plain.0
        );
        assert_eq!(
            hex(&case.kek().wrap(&case.plain.0, &case.aad.0)),
            hex(&case.wrapped.0)
        );
    }
}

/// The cheapest parameters that Argon2 has: what is tested here is AES-GCM.
fn cheap(passphrase: &[u8]) -> Kek {
    derive(
        passphrase,
        &[5; 32],
        Argon2Params::for_reading(8, 1, 1).unwrap(),
    )
    .unwrap()
}

#[test]
fn nothing_but_the_right_bytes_opens() {
    let wrapped = cheap(b"ok").wrap(b"payload", b"header");
    assert_eq!(wrapped.len(), b"payload".len() + OVERHEAD);
    let kek = cheap(b"ok");
    assert_eq!(**kek.open(&wrapped, b"header").unwrap(), *b"payload");
    assert_eq!(
        cheap(b"oK").open(&wrapped, b"header").unwrap_err(),
        WrongKey
    );
    assert_eq!(kek.open(&wrapped, b"headeR").unwrap_err(), WrongKey);
    for len in 0..wrapped.len() {
        assert_eq!(
            kek.open(&wrapped[..len], b"header").unwrap_err(),
            WrongKey,
            "length {len}"
        );
    }
    for bit in 0..8 * wrapped.len() {
        let mut flipped = wrapped.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            kek.open(&flipped, b"header").unwrap_err(),
            WrongKey,
            "bit {bit}"
        );
    }
}

#[test]
fn limits_of_argon2() {
    use ParamsError::{NotArgon2, TooCheap, TooDear};
    let write = |m, t, p| Argon2Params::for_writing(m, t, p).map(|_| ());
    let read = |m, t, p| Argon2Params::for_reading(m, t, p).map(|_| ());
    assert_eq!(write(65_536, 3, 4), Ok(()));
    assert_eq!(write(65_535, 3, 4), Err(TooCheap));
    assert_eq!(write(65_536, 2, 4), Err(TooCheap));
    assert_eq!(write(65_536, 3, 3), Err(TooCheap));
    assert_eq!(write(4_194_304, 64, 16), Ok(()));
    for too_dear in [(4_194_305, 3, 4), (65_536, 65, 4), (65_536, 3, 17)] {
        let (m, t, p) = too_dear;
        assert_eq!(write(m, t, p), Err(TooDear));
        assert_eq!(read(m, t, p), Err(TooDear));
    }
    assert_eq!(read(8, 1, 1), Ok(()));
    for impossible in [(7, 1, 1), (8, 0, 1), (8, 1, 0), (15, 1, 2)] {
        let (m, t, p) = impossible;
        assert_eq!(read(m, t, p), Err(NotArgon2));
    }
}

#[derive(Deserialize)]
struct Hardened {
    cases: Vec<HardenedCase>,
}

#[derive(Deserialize)]
struct HardenedCase {
    secret: Hex,
    salt: Hex,
    iterations: u32,
    aad: Hex,
    plain: Hex,
    wrapped: Hex,
}

#[test]
fn pbkdf2() {
    let Hardened { cases } = vectors!("pbkdf2.json");
    assert_eq!(cases.len(), 3);
    for case in &cases {
        let params = Pbkdf2Params::for_reading(case.iterations).unwrap();
        let kek = pbkdf2::derive(&case.secret.0, &case.salt.array(), params).unwrap();
        let opened = kek.open(&case.wrapped.0, &case.aad.0).unwrap();
        assert_eq!(*opened, case.plain.0);
        let wrapped = [(); 2].map(|()| kek.wrap(&case.plain.0, &case.aad.0));
        assert_ne!(wrapped[0], wrapped[1], "every nonce is fresh");
        for again in wrapped {
            assert_eq!(again.len(), case.wrapped.0.len());
            assert_eq!(*kek.open(&again, &case.aad.0).unwrap(), case.plain.0);
        }
        assert_eq!(kek.open(&case.wrapped.0, b"other").err(), Some(WrongKey));
    }
}

#[test]
fn limits_of_pbkdf2() {
    let read = |n| Pbkdf2Params::for_reading(n).map(Pbkdf2Params::iterations);
    assert_eq!(read(1_000), Ok(1_000));
    assert_eq!(read(20_000_000), Ok(20_000_000));
    assert_eq!(read(999), Err(IterationsError::TooFew(999)));
    assert_eq!(read(20_000_001), Err(IterationsError::TooMany(20_000_001)));
    for (asked, written) in [(0, 210_000), (400_000, 400_000), (u32::MAX, 20_000_000)] {
        assert_eq!(Pbkdf2Params::for_writing(asked).iterations(), written);
    }
    let short = pbkdf2::derive(&[1; 13], &[0; 32], Pbkdf2Params::LEAST);
    assert_eq!(short.err(), Some(TooShort));
}
