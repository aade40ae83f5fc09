//! Tables of how files are opened for streams.

use super::*;

/// `fopen`'s modes as flags: r, r+, w and a+.
const MODES: [c_int; 4] = [
    libc::O_RDONLY,
    libc::O_RDWR,
    libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC,
    libc::O_RDWR | libc::O_CREAT | libc::O_APPEND,
];

#[test]
fn a_stream_that_is_read_for_sql_gives_what_is_stored() {
    let stored = Verdict::AsStored(Check::FromSql);
    for (path, _) in TABLE {
        let class = classify(path.as_bytes()).class;
        for target in [Target::Clear, Target::Sealed(&class)] {
            for (who, flags) in everybody().flat_map(|who| MODES.map(|flags| (who, flags))) {
                let facts = |streams_to_sql| Given {
                    streams_to_sql,
                    ..Given::new(target)
                };
                let usual = decide(who, flags, &facts(false));
                assert_eq!(decide_stream(who, flags, &facts(false)), usual, "{path}");
                let expected = match flags {
                    libc::O_RDONLY => stored,
                    _ => usual,
                };
                let found = decide_stream(who, flags, &facts(true));
                assert_eq!(found, expected, "{path} by {who:?} with {flags:#o}");
            }
        }
    }
}

/// The process is asked about only where it is read, and the name is not asked about then.
#[test]
fn a_stream_asks_for_no_more_than_it_needs() {
    let server = Who {
        role: Role::Server,
        connection: Connection::Session,
    };
    let facts = Given {
        streams_to_sql: true,
        ..Given::new(Target::Clear)
    };
    let _ = decide_stream(server, libc::O_RDONLY, &facts);
    assert_eq!(*facts.asked.borrow(), ["streams_to_sql"]);
    facts.asked.borrow_mut().clear();
    let _ = decide_stream(server, libc::O_WRONLY, &facts);
    assert!(!facts.asked.borrow().contains(&"streams_to_sql"));
}
