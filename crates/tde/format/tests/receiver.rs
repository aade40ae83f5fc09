//! `vectors/receiver.json`: tokens, most of them bad, and what a server says to each.

use pgseal_crypto::MasterKey;
use pgseal_format::{hex, ReceiverToken, TokenError};
use serde::Deserialize;

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    master: String,
    system_id: u64,
    role: String,
    now: u64,
    token: String,
    result: String,
}

impl Case {
    fn master(&self) -> MasterKey {
        MasterKey::from_bytes(&mut hex::parse(self.master.as_bytes()).expect("64 digits"))
    }

    fn result(&self) -> &'static str {
        let (master, role) = (self.master(), self.role.as_bytes());
        let verdict = ReceiverToken::parse(self.token.as_bytes())
            .and_then(|token| token.verify(&master, self.system_id, role, self.now));
        match verdict {
            Ok(()) => "holds",
            Err(TokenError::Malformed) => "malformed",
            Err(TokenError::Foreign) => "foreign",
            Err(TokenError::OtherRole) => "other role",
            Err(TokenError::Expired) => "expired",
        }
    }
}

fn cases() -> Vec<Case> {
    let vectors = include_str!("../../../../vectors/receiver.json");
    let Vectors { cases } = serde_json::from_str(vectors).expect("the vectors are JSON");
    assert_eq!(cases.len(), 40);
    cases
}

#[test]
fn every_token_is_judged_as_it_must_be() {
    for case in cases() {
        assert_eq!(case.result(), case.result, "{}", case.name);
    }
}

#[test]
fn a_grant_gives_the_tokens_that_hold() {
    for case in cases().iter().filter(|case| case.result == "holds") {
        let expiry = case.token.split('.').nth(1).expect("an expiry");
        let expiry = expiry.parse().expect("a number");
        let role = case.role.as_bytes();
        let token = ReceiverToken::grant(&case.master(), case.system_id, role, expiry);
        assert_eq!(token, case.token.as_bytes(), "{}", case.name);
    }
}

#[test]
fn no_changed_byte_leaves_a_token_good() {
    let case = &cases()[0];
    let verdict = |token: &[u8]| {
        ReceiverToken::parse(token)?.verify(&case.master(), case.system_id, b"repl", case.now)
    };
    assert_eq!(verdict(case.token.as_bytes()), Ok(()));
    for at in 0..case.token.len() {
        for bit in 0..8 {
            let mut token = case.token.clone().into_bytes();
            token[at] ^= 1 << bit;
            assert!(verdict(&token).is_err(), "byte {at}, bit {bit}");
        }
    }
}
