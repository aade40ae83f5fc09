//! `vectors/message.json`: sessions at the evaluator, most of which come to nothing; and sessions
//! between our own two ends.

use pgseal_cell::grant::{DatabaseId, Grant, GrantTerms, KeyScope, Operations, Serial, Subject};
use pgseal_cell::MasterKey;
use pgseal_crypto::exchange::ExchangeKey;
use pgseal_crypto::Secret;
use pgseal_evaluator_proto::message::{
    Claims, ClientSession, Command, EvaluatorSession, Hello, Kind, MessageError, OfferTerms,
    OpenTerms, Opened, Opening, PublicKey, Reply, SigningKey, TrustedOffer, VerifyEvidence,
    Welcome,
};
use pgseal_evaluator_proto::Refusal;
use serde::Deserialize;

#[derive(Deserialize)]
struct Vectors {
    sessions: Vec<Session>,
}

#[derive(Deserialize)]
struct Session {
    name: String,
    backend: u8,
    private: String,
    session_nonce: String,
    policy: String,
    expires: u64,
    evidence: String,
    hello: String,
    now: u64,
    report_data: String,
    offer: String,
    open: String,
    result: String,
    #[serde(flatten)]
    handed: Option<Handed>,
}

/// The part of a vector that it has if its session is opened.
#[derive(Deserialize)]
struct Handed {
    master: String,
    owner: String,
    client: String,
    asked: u64,
    grants: usize,
    revocations: usize,
    until: u64,
    session: String,
    opened: String,
    commands: Vec<CommandCase>,
}

#[derive(Deserialize)]
struct CommandCase {
    name: String,
    message: String,
    result: String,
    #[serde(default)]
    content: String,
    reply: Option<String>,
}

fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn array<const N: usize>(digits: &str) -> [u8; N] {
    bytes(digits).try_into().expect("as many bytes")
}

fn text(error: MessageError) -> &'static str {
    match error {
        MessageError::Malformed => "malformed",
        MessageError::Unknown => "unknown",
        MessageError::Refused => "refused",
        MessageError::Expired => "expired",
        MessageError::Random => "random",
    }
}

impl Session {
    fn welcome(&self) -> Welcome {
        let key = ExchangeKey::from_secret(&Secret::from_bytes(&mut array(&self.private)));
        let terms = OfferTerms {
            backend: self.backend,
            policy: array(&self.policy),
            expires: self.expires,
        };
        let (nonce, hello) = (array(&self.session_nonce), bytes(&self.hello));
        let welcome = Welcome::with(key, nonce, &hello, terms, |report_data| {
            assert_eq!(*report_data, array(&self.report_data), "{}", self.name);
            Ok::<_, MessageError>(bytes(&self.evidence))
        });
        welcome.expect("a hello")
    }
}

#[test]
fn every_session_goes_as_it_must() {
    let vectors = include_str!("../../../../vectors/message.json");
    let Vectors { sessions } = serde_json::from_str(vectors).expect("the vectors are JSON");
    assert_eq!(sessions.len(), 24);
    for case in sessions {
        let welcome = case.welcome();
        assert_eq!(welcome.message(), bytes(&case.offer), "{}", case.name);
        match (welcome.open(&bytes(&case.open), case.now), case.handed) {
            (Ok(opened), Some(handed)) => check_opened(&case.name, opened, &handed),
            (Err(error), None) => assert_eq!(text(error), case.result, "{}", case.name),
            (Ok(_), None) => panic!("{}: opened, not {}", case.name, case.result),
            (Err(error), Some(_)) => panic!("{}: {error}", case.name),
        }
    }
}

fn check_opened(name: &str, opened: Opened, handed: &Handed) {
    assert_eq!(opened.owner, PublicKey(array(&handed.owner)), "{name}");
    assert_eq!(opened.client, PublicKey(array(&handed.client)), "{name}");
    assert_eq!(opened.expires, handed.asked, "{name}");
    let lists = (opened.grants.len(), opened.revocations.len());
    assert_eq!(lists, (handed.grants, handed.revocations), "{name}");
    let (master, mut session, message) = opened.accept(handed.until);
    assert_eq!(master.expose(), &array(&handed.master), "{name}");
    assert_eq!(message, bytes(&handed.opened), "{name}");
    assert_eq!(session.id(), array(&handed.session), "{name}");
    for command in &handed.commands {
        check_command(&mut session, command);
    }
}

fn check_command(session: &mut EvaluatorSession, case: &CommandCase) {
    let content = bytes(&case.content);
    let reply = session.command(&bytes(&case.message), |_| match content.as_slice() {
        [1] => Ok(None),
        [2, _, _, _, _, wrapped @ ..] => Ok(Some(wrapped.to_vec())),
        [3, ..] => Err(Refusal::GrantExpired),
        other => panic!("{}: {other:?}", case.name),
    });
    match reply {
        Ok(reply) => assert_eq!(
            Some(reply),
            case.reply.as_deref().map(bytes),
            "{}",
            case.name
        ),
        Err(error) => assert_eq!(text(error), case.result, "{}", case.name),
    }
}

/// Trusts evidence that repeats the report data.
struct Echo;

impl VerifyEvidence for Echo {
    type Error = &'static str;

    fn verify(&self, claims: &Claims<'_>) -> Result<(), Self::Error> {
        if claims.evidence == claims.report_data {
            Ok(())
        } else {
            Err("other evidence")
        }
    }
}

const TERMS: OfferTerms = OfferTerms {
    backend: 0,
    policy: [3; 32],
    expires: 100,
};

fn welcome(hello: &[u8]) -> Welcome {
    Welcome::new(hello, TERMS, |report_data| {
        Ok::<_, MessageError>(report_data.to_vec())
    })
    .expect("a hello")
}

fn signing_key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&Secret::from_bytes(&mut [seed; 32]))
}

fn grant() -> Grant {
    let terms = GrantTerms {
        serial: Serial([1; 16]),
        owner: signing_key(1).public(),
        subject: Subject::Client(signing_key(2).public()),
        database: Some(DatabaseId([4; 16])),
        operations: Operations::ALL,
        not_before: 0,
        not_after: 1_000,
        keys: KeyScope::Groups(vec![9, 1, 9]),
    };
    Grant::sign(terms, &signing_key(1))
}

fn trusted(hello: Hello, evaluator: &Welcome) -> TrustedOffer {
    let offer = hello.offer(evaluator.message()).expect("an offer");
    offer.verify(&Echo).expect("evidence")
}

fn open(offer: TrustedOffer) -> (Opening, Vec<u8>) {
    let terms = OpenTerms {
        master: &MasterKey::from_bytes(&mut [7; 32]),
        owner: signing_key(1).public(),
        client: &signing_key(2),
        expires: 5_000,
        grants: &[grant()],
        revocations: &[],
    };
    offer.open(&terms).expect("a key")
}

fn session() -> (ClientSession, EvaluatorSession) {
    let hello = Hello::new().expect("random bytes");
    assert_eq!(Kind::of(&hello.message()), Ok(Kind::Hello));
    let evaluator = welcome(&hello.message());
    let (opening, message) = open(trusted(hello, &evaluator));
    assert_eq!(Kind::of(&message), Ok(Kind::Open));
    let opened = evaluator.open(&message, 99).expect("a session");
    assert_eq!(opened.grants, [grant()]);
    assert_eq!(opened.expires, 5_000);
    let (master, evaluator, message) = opened.accept(4_000);
    assert_eq!(master.expose(), &[7; 32]);
    let client = opening.opened(&message).expect("an answer");
    assert_eq!(client.expires(), 4_000);
    assert_eq!(client.id(), evaluator.id());
    (client, evaluator)
}

#[test]
fn two_ends_understand_each_other() {
    let (mut client, mut evaluator) = session();
    let encoded = grant().encode();
    let message = client.command(&Command::AddGrant(&encoded));
    assert_eq!(Kind::of(&message), Ok(Kind::Command));
    let reply = evaluator.command(&message, |command| {
        assert_eq!(command, Command::AddGrant(&encoded));
        Ok(None)
    });
    let reply = client.reply(&reply.expect("a command")).expect("a reply");
    assert_eq!(reply.reply(), Ok(Reply::Done));

    let generate = Command::GenerateKey {
        name: "|alice|shop|",
        group: 3,
        deterministic: true,
    };
    let message = client.command(&generate);
    let reply = evaluator.command(&message, |command| {
        assert_eq!(command, generate);
        Ok(Some(b"wrapped".to_vec()))
    });
    let reply = client.reply(&reply.expect("a command")).expect("a reply");
    assert_eq!(reply.reply(), Ok(Reply::WrappedKey(b"wrapped")));

    let message = client.command(&Command::Close);
    let reply = evaluator.command(&message, |_| Err(Refusal::NoSession));
    let reply = client.reply(&reply.expect("a command")).expect("a reply");
    assert_eq!(reply.reply(), Ok(Reply::Refused(Refusal::NoSession.into())));
}

#[test]
fn replies_are_for_the_last_command_of_the_session() {
    let (mut client, mut evaluator) = session();
    let first = client.command(&Command::Close);
    let first = evaluator.command(&first, |_| Ok(None)).expect("a command");
    client.command(&Command::Close);
    assert_eq!(client.reply(&first).err(), Some(MessageError::Refused));
    let (other, _) = session();
    assert_eq!(other.reply(&first).err(), Some(MessageError::Refused));
}

#[test]
fn every_flipped_bit_is_refused() {
    let hello = Hello::with_nonce([5; 32]);
    let evaluator = welcome(&hello.message());
    let good = evaluator.message().to_vec();
    for at in 0..good.len() {
        let mut flipped = good.clone();
        flipped[at] ^= 1;
        let offer = Hello::with_nonce([5; 32]).offer(&flipped);
        assert!(
            offer.ok().is_none_or(|offer| offer.verify(&Echo).is_err()),
            "offer, {at}"
        );
    }
    let (opening, message) = open(trusted(hello, &evaluator));
    for at in 0..message.len() {
        let evaluator = welcome(&Hello::with_nonce([5; 32]).message());
        let mut flipped = message.clone();
        flipped[at] ^= 1;
        assert!(evaluator.open(&flipped, 0).is_err(), "open, {at}");
    }
    let opened = evaluator.open(&message, 0).expect("a session");
    let (_, mut session, answer) = opened.accept(1);
    let mut client = opening.opened(&answer).expect("an answer");
    let command = client.command(&Command::Close);
    for at in 0..command.len() {
        let mut flipped = command.clone();
        flipped[at] ^= 1;
        assert!(
            session.command(&flipped, |_| Ok(None)).is_err(),
            "command, {at}"
        );
    }
    let reply = session.command(&command, |_| Ok(None)).expect("a command");
    for at in 0..reply.len() {
        let mut flipped = reply.clone();
        flipped[at] ^= 1;
        assert!(client.reply(&flipped).is_err(), "reply, {at}");
    }
}

#[test]
fn an_answer_is_for_one_offer() {
    let hello = Hello::with_nonce([5; 32]);
    let (first, second) = (welcome(&hello.message()), welcome(&hello.message()));
    let (_, message) = open(trusted(hello, &first));
    assert_eq!(second.open(&message, 0).err(), Some(MessageError::Refused));
    assert_eq!(first.open(&message, 100).err(), Some(MessageError::Expired));
}

#[test]
fn evidence_for_another_client_is_not_trusted() {
    let evaluator = welcome(&Hello::with_nonce([5; 32]).message());
    let offer = Hello::with_nonce([6; 32]).offer(evaluator.message());
    let offer = offer.expect("well formed");
    assert_eq!(offer.verify(&Echo).err(), Some("other evidence"));
}

#[test]
fn what_is_no_hello_is_refused() {
    for hello in [
        &b""[..],
        &[1, 1],
        &[1, 1, 0],
        &[0; 34],
        &[1, 2, 0],
        &[1; 35],
    ] {
        let refused = Welcome::new(hello, TERMS, |_| Ok::<_, MessageError>(Vec::new()));
        assert!(refused.is_err(), "{hello:?}");
    }
    assert_eq!(Kind::of(&[3, 2]), Err(MessageError::Unknown));
    assert_eq!(Kind::of(&[2, 1]), Err(MessageError::Malformed));
    assert_eq!(Kind::of(&[]), Err(MessageError::Malformed));
}
