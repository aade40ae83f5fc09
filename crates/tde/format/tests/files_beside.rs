//! `vectors/receiver_list.json` and `vectors/slot_notes.json`: files beside `key.bin`, most of them
//! bad, and what each says under a master key.

use pgseal_crypto::MasterKey;
use pgseal_format::{
    hex, BesideError, ListedToken, ReceiverList, SlotNote, Stamp, TokenId, UnverifiedNotes,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case<T> {
    name: String,
    master: String,
    file: String,
    result: String,
    read: Option<Vec<T>>,
}

#[derive(Deserialize)]
struct Vectors<T> {
    cases: Vec<Case<T>>,
}

impl<T> Case<T> {
    fn master(&self) -> MasterKey {
        MasterKey::from_bytes(&mut hex::parse(self.master.as_bytes()).expect("64 digits"))
    }

    fn bytes(&self) -> Vec<u8> {
        bytes(&self.file)
    }
}

/// The bytes of a text of any length in hexadecimal.
fn bytes(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16);
    digits.map(|pair| byte(pair).expect("digits")).collect()
}

#[derive(Debug, Deserialize, PartialEq)]
struct Token {
    id: String,
    expiry: u64,
    granted: u64,
    revoked: u64,
    role: String,
}

impl Token {
    fn of(token: &ListedToken) -> Self {
        Self {
            id: token.id.to_string(),
            expiry: token.expiry,
            granted: token.granted,
            revoked: token.revoked,
            role: String::from_utf8(token.role.clone()).expect("the vectors' are texts"),
        }
    }
}

#[test]
fn lists_of_receivers() {
    let text = include_str!("../../../../vectors/receiver_list.json");
    let vectors: Vectors<Token> = serde_json::from_str(text).expect("the vectors are JSON");
    assert_eq!(vectors.cases.len(), 23);
    for case in vectors.cases {
        let list = ReceiverList::decode(&case.bytes(), &case.master());
        let result = match &list {
            Ok(_) => "holds",
            Err(BesideError::Damaged) => "damaged",
            Err(BesideError::Newer(_)) => "newer",
            Err(BesideError::OtherKey) => "other key",
            Err(BesideError::Altered) => "altered",
        };
        assert_eq!(result, case.result, "{}", case.name);
        let read = list
            .ok()
            .map(|list| list.tokens().iter().map(Token::of).collect());
        assert_eq!(read, case.read, "{}", case.name);
    }
}

#[test]
fn ids_of_tokens() {
    #[derive(Deserialize)]
    struct Ids {
        ids: Vec<Id>,
    }
    #[derive(Deserialize)]
    struct Id {
        token: String,
        id: String,
    }
    let text = include_str!("../../../../vectors/receiver_list.json");
    let Ids { ids } = serde_json::from_str(text).expect("the vectors are JSON");
    for id in ids {
        assert_eq!(TokenId::of(id.token.as_bytes()).to_string(), id.id);
    }
}

#[derive(Debug, Deserialize, PartialEq)]
struct Note {
    slot: u8,
    fingerprint: String,
    made: Option<When>,
    proved: Option<When>,
    label: String,
}

#[derive(Debug, Deserialize, PartialEq)]
struct When {
    time: u64,
    uid: u32,
    user: String,
}

impl When {
    fn of(stamp: &Stamp) -> Self {
        Self {
            time: stamp.time,
            uid: stamp.uid,
            user: stamp.user.clone(),
        }
    }
}

impl Note {
    fn of(note: &SlotNote) -> Self {
        let digits = note.fingerprint.iter().map(|byte| format!("{byte:02x}"));
        Self {
            slot: note.slot,
            fingerprint: digits.collect(),
            made: note.made.as_ref().map(When::of),
            proved: note.proved.as_ref().map(When::of),
            label: note.label.clone(),
        }
    }
}

#[test]
fn notes_about_slots() {
    let text = include_str!("../../../../vectors/slot_notes.json");
    let vectors: Vectors<Note> = serde_json::from_str(text).expect("the vectors are JSON");
    assert_eq!(vectors.cases.len(), 24);
    for case in vectors.cases {
        let read = UnverifiedNotes::decode(&case.bytes());
        let read = read.and_then(|read| read.authenticate(&case.master()));
        let result = match &read {
            Ok(_) => "holds",
            Err(BesideError::Damaged) => "damaged",
            Err(BesideError::Newer(_)) => "newer",
            Err(BesideError::OtherKey) => "other key",
            Err(BesideError::Altered) => "altered",
        };
        assert_eq!(result, case.result, "{}", case.name);
        let read = read
            .ok()
            .map(|read| read.notes().iter().map(Note::of).collect());
        assert_eq!(read, case.read, "{}", case.name);
    }
}
