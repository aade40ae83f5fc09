//! Audit logs that were computed elsewhere, and what must come of each.
#![allow(clippy::unwrap_used)]

use pgseal_evaluator::audit::{hex, verify, Broken, Chain, Event};

fn vectors() -> Vec<serde_json::Value> {
    let vectors = include_str!("../../../../vectors/audit_log.json");
    let vectors: serde_json::Value = serde_json::from_str(vectors).unwrap();
    vectors["logs"].as_array().unwrap().clone()
}

fn text(vector: &serde_json::Value) -> String {
    let lines = vector["lines"].as_array().unwrap().iter();
    let lines: Vec<&str> = lines.map(|line| line.as_str().unwrap()).collect();
    match vector["torn"].as_bool() {
        Some(true) => lines.join("\n"),
        _ => lines.join("\n") + "\n",
    }
}

#[test]
fn every_log_is_judged_as_the_vectors_say() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 9);
    for vector in &vectors {
        let name = &vector["name"];
        match (verify(text(vector).as_bytes()), vector["broken"].as_u64()) {
            (Ok(found), None) => {
                assert_eq!(Some(found.records), vector["records"].as_u64(), "{name}");
                assert_eq!(Some(&*hex(&found.head)), vector["head"].as_str(), "{name}");
                assert_eq!(found.torn, vector["torn"].as_bool() == Some(true), "{name}");
            }
            (Err(Broken::Line(line)), Some(broken)) => assert_eq!(line, broken, "{name}"),
            (found, _) => panic!("{name}: {found:?}"),
        }
    }
}

/// Returns the policy that an evaluator without hardware evidence states.
fn policy_of_software() -> [u8; 32] {
    let config = pgseal_evaluator::engine::Config {
        evidence: Box::new(pgseal_evaluator::evidence::Software),
        collation: pgseal_evaluator::os::collation,
        inline: false,
        cache: 64,
        states: 1,
        pages: 0,
        connections: 1000,
        memory: 1 << 30,
        logs: true,
    };
    pgseal_evaluator::engine::Engine::new(config).policy()
}

/// The example of the page, and one of every event.
#[test]
fn what_is_written_is_what_the_vectors_have() {
    let vectors = vectors();
    let mut chain = Chain::new();
    let start = Event::Start {
        version: "0.1.0",
        policy: policy_of_software(),
        previous: None,
    };
    let log = chain.append(1_800_000_000_000_000, &start)
        + &chain.append(1_800_000_000_500_000, &Event::Stop);
    assert_eq!(log, text(&vectors[0]));

    every_event_is_written(Some(*chain.head()), &text(&vectors[1]));
}

fn every_event_is_written(previous: Option<[u8; 32]>, expected: &str) {
    let (owner, grant) = ([1; 32], [3; 16]);
    let events = [
        Event::Start {
            version: "0.1.0",
            policy: [7; 32],
            previous,
        },
        Event::Open {
            session: 1,
            owner,
            subject: [2; 32],
            expiry: 99,
        },
        Event::Handed {
            session: 1,
            grants: 3,
        },
        Event::Worker {
            session: 1,
            count: 25,
        },
        Event::Granted { session: 1, grant },
        Event::Use {
            session: 1,
            grant,
            operation: "arithmetic",
            count: 12,
        },
        Event::Cells {
            session: 1,
            key: 10,
            compared: 14,
            hashed: 1,
            ranked: 0,
        },
        Event::Refused {
            session: 1,
            refusal: "PE011",
            operation: Some("cast"),
            count: 1,
        },
        Event::Refused {
            session: 0,
            refusal: "PE009",
            operation: None,
            count: 2,
        },
        Event::KeyMade {
            session: 1,
            key: 10,
        },
        Event::Revoked {
            session: 1,
            owner,
            sequence: 4,
        },
        Event::Close { session: 1 },
        Event::Stop,
    ];
    let mut chain = Chain::new();
    let log: String = (100..)
        .zip(&events)
        .map(|(now, event)| chain.append(now, event))
        .collect();
    assert_eq!(log, expected);
}
