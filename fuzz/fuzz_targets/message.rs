//! Messages between client and evaluator, as the server between them may have written them: nothing
//! panics, and nothing is taken that the other end did not seal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgseal_crypto::exchange::{ExchangeKey, Sender};
use pgseal_crypto::{sha256, Secret};
use pgseal_evaluator_proto::message::{Command, Hello, Kind, MessageError, OfferTerms, Welcome};

const TERMS: OfferTerms = OfferTerms {
    backend: 0,
    policy: [1; 32],
    expires: 1,
};

fn key() -> ExchangeKey {
    ExchangeKey::from_secret(&Secret::from_bytes(&mut [7; 32]))
}

fn welcome(hello: &[u8], evidence: &[u8]) -> Result<Welcome, MessageError> {
    Welcome::with(key(), [2; 32], hello, TERMS, |_| Ok(evidence.to_vec()))
}

fuzz_target!(|data: &[u8]| {
    let _ = (Kind::of(data), Command::parse(data));
    let _ = welcome(data, b"evidence");
    let hello = Hello::with_nonce([3; 32]);
    let message = hello.message();
    if let Ok(offer) = hello.offer(data) {
        assert!(data.ends_with(offer.claims().evidence));
    }
    let ours = welcome(&message, b"evidence").expect("a hello");
    let evidence = ours.message().to_vec();
    assert!(ours.open(data, 0).is_err());
    assert!(open_inside(&message, &evidence, data));
});

/// Seals `inside` as a client would but does not sign it; returns whether it is refused.
fn open_inside(hello: &[u8], evidence: &[u8], inside: &[u8]) -> bool {
    let transcript = sha256(&[b"pgseal/transcript/1\0", hello, evidence]);
    let (encapsulated, mut sender) = Sender::begin(&key().public(), &transcript).expect("a key");
    let sealed = sender.seal(&[], inside);
    let len = u32::try_from(sealed.len()).expect("libFuzzer's inputs are small");
    let open = [&[3, 1], &encapsulated[..], &len.to_le_bytes(), &sealed].concat();
    let ours = welcome(hello, b"evidence").expect("a hello");
    assert_eq!(ours.message(), evidence);
    matches!(
        ours.open(&open, 0).err(),
        Some(MessageError::Malformed | MessageError::Refused)
    )
}
