//! The FIPS module's service indicator, for each of its services that encryption at rest uses. Only
//! a FIPS build has these tests: `make test-fips`.

use crate::awslc::{gcm_open, gcm_seal, is_approved, pbkdf2, random};
use crate::mac::{BindMac, KeyFileMac, ReceiverMac};
use crate::passphrase::SALT;
use crate::pbkdf2::{derive, Pbkdf2Params, LEAST_SECRET};
use crate::{
    fips_module, random_bytes, sha256, sha512, FileCipher, FileId, Fork, KeyLength, Mac, MasterKey,
    Secret, UNIT,
};

fn master() -> MasterKey {
    MasterKey::from_bytes(&mut std::array::from_fn(|i| i as u8))
}

fn file() -> FileId {
    FileId::relation(5, 16384, Fork::Main, 0)
}

/// Asserts that the service was approved, and returns its result.
fn approved<R>(service: &str, act: impl FnOnce() -> R) -> R {
    let (is_approved, result) = is_approved(act);
    assert!(is_approved, "{service} is not approved");
    result
}

#[test]
fn the_module_is_the_one_that_the_certificate_names() {
    assert_eq!(fips_module(), Some("AWS-LC FIPS 3.1.0"));
}

/// Keys are derived at the first use, so that each service is asked for alone at the second.
#[test]
fn pages_tails_and_streams() {
    let master = master();
    let cipher = FileCipher::new(&master, KeyLength::Bits256, &file());
    let (plain, mut page, mut tail) = ([7; UNIT], [0; UNIT], [7; 5]);
    cipher.seal(0, &plain, &mut page);
    cipher.open(0, &mut page);
    cipher.mask_tail(0, &mut tail);
    cipher.keystream(0, &mut tail);
    approved("AES-256-XTS, encrypting", || {
        cipher.seal(3, &plain, &mut page)
    });
    approved("AES-256-XTS, decrypting", || cipher.open(3, &mut page));
    assert_eq!(page, plain);
    approved("AES-256-ECB of a tail", || cipher.mask_tail(1, &mut tail));
    approved("AES-256-CTR of a stream", || {
        cipher.keystream(16, &mut tail)
    });
}

#[test]
fn derivation_and_tags() {
    let master = master();
    approved("HKDF-Expand", || master.key_id());
    let bind = approved("HKDF-Expand", || BindMac::new(&master));
    approved("HMAC-SHA256", || bind.tag(b"header"));
    let key_file = KeyFileMac::new(&master);
    approved("HMAC-SHA256", || key_file.tag(b"file"));
    approved("a receiver's token", || {
        ReceiverMac::new(&master).tag(1, 2, b"role")
    });
    let mac = Mac::new(&Secret::from_bytes(&mut [1; 32]));
    approved("HMAC-SHA256 of parts", || mac.tag(&[b"a", b"b"]));
}

#[test]
fn digests_and_random_bytes() {
    approved("SHA-256", || sha256(&[b"a", b"b"]));
    approved("SHA-512", || sha512(&[b"a", b"b"]));
    let first = approved("the random generator", || random_bytes::<32>().unwrap());
    assert_ne!(first, random_bytes::<32>().unwrap());
    approved("a new master key", || MasterKey::generate().unwrap());
    assert!(random(&mut [0; 1]));
}

#[test]
fn passphrases() {
    let secret = [7; LEAST_SECRET];
    let make = || derive(&secret, &[5; SALT], Pbkdf2Params::LEAST).unwrap();
    let kek = approved("PBKDF2-HMAC-SHA512", make);
    let wrapped = approved("AES-256-GCM, encrypting", || {
        kek.wrap(b"payload", b"header")
    });
    let plain = approved("AES-256-GCM, decrypting", || {
        kek.open(&wrapped, b"header").unwrap()
    });
    assert_eq!(**plain, *b"payload");
}

/// The indicator can say no: for a secret that is too short, too few iterations, a short salt, and
/// where nothing was authentic.
#[test]
fn the_indicator_refuses() {
    let mut key = [0; 32];
    for (secret, salt, iterations) in [(13, 32, 1000), (14, 15, 1000), (14, 32, 999)] {
        let (secret, salt) = (vec![7; secret], vec![7; salt]);
        let (is_approved, ()) = is_approved(|| pbkdf2(&secret, &salt, iterations, &mut key));
        assert!(!is_approved, "{} {} {iterations}", secret.len(), salt.len());
    }
    let mut sealed = gcm_seal(&[1; 32], b"", b"text");
    sealed[0] ^= 1;
    let (is_approved, opened) = is_approved(|| gcm_open(&[1; 32], b"", &sealed));
    assert!(!is_approved && opened.is_none());
}
