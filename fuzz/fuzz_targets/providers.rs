//! Any URI is divided or refused, and no setting of it is a secret. A search for a field in any
//! bytes of a KMIP server ends, and finds nothing outside of the message.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgseal_kms::kmip::ttlv::{Fields, Tag};
use pgseal_kms::uri::{decode, Uri};

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        uri(text);
    }
    for tag in [0x42_0020, 0x42_0004, 0] {
        message(Fields(data), Tag(tag), 4);
    }
});

fn uri(text: &str) {
    let Ok(mut uri) = Uri::parse(text) else {
        return;
    };
    let _ = decode(&uri.body);
    if uri.body_settings(';').is_ok() {
        for secret in ["pin-value", "password", "passphrase", "client-secret"] {
            assert_eq!(uri.take(secret), None);
        }
    }
    let _ = uri.finish();
}

fn message(fields: Fields<'_>, tag: Tag, depth: u8) {
    let found = [fields.bytes(tag), fields.text(tag).map(str::as_bytes)];
    for part in found.into_iter().flatten() {
        assert!(part.len() <= fields.0.len());
    }
    let _ = fields.enumeration(tag);
    if let Some(inner) = fields.structure(tag).filter(|_| depth > 0) {
        message(inner, tag, depth - 1);
    }
}
