//! The small records: a handover, a conversion's journal, a receiver's token, a wrapped payload, a
//! control file, a WAL page's long header. What decodes is encoded as the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgseal_crypto::MasterKey;
use pgseal_storage::journal::Journal;

use pgseal_format::{handover, Payload, ReceiverToken};
use pgseal_storage::control::Control;
use pgseal_storage::wal::WalName;

fuzz_target!(|data: &[u8]| {
    if let Ok(entries) = handover::decode(data) {
        let entries: Vec<_> = entries.collect();
        let files: Vec<_> = handover::files(data).expect("it was a record").collect();
        let functions = handover::functions(data).expect("it was a record");
        let again = handover::encode(functions, &entries, &files).expect("it was a record");
        assert_eq!(again.as_slice(), data);
    }
    if let Ok(journal) = Journal::decode(data) {
        assert_eq!(journal.encode(), data);
    }
    let _ = Payload::decode(data);
    let _ = Control::parse(data);
    token(data);
    long_header(data);
});

/// A token that nobody granted holds for nobody.
fn token(data: &[u8]) {
    let master = MasterKey::from_bytes(&mut [7; 32]);
    if let Ok(token) = ReceiverToken::parse(data) {
        assert!(token.verify(&master, 1, b"rep", 0).is_err());
    }
}

fn long_header(data: &[u8]) {
    let name = b"000000010000000000000001";
    let name = WalName::parse(name).expect("a segment's name");
    let _ = name.header(data);
}
