//! Tables of how files are opened, over all roles, connections, classes and flags.

mod protected;
mod streams;

use super::*;
use pgseal_storage::classify::classify;
use std::cell::RefCell;

const ROLES: [Role; 4] = [Role::Inert, Role::Tool, Role::Server, Role::Viewer];
const CONNECTIONS: [Connection; 9] = [
    Connection::Off,
    Connection::Undecided,
    Connection::Session,
    Connection::Trusted,
    Connection::Unproven,
    Connection::Raw,
    Connection::Clear,
    Connection::Ending,
    Connection::Cut,
];
const BACKUPS: [Opens; 3] = [Opens::Usual, Opens::Raw, Opens::Refused];

/// The answer for one opening by its flags.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    /// Clear bytes of a file that is not protected.
    Clear,
    /// Through the cipher.
    Cipher,
    /// Through the cipher, and the descriptor is looked at.
    Checked,
    /// As it is stored.
    Stored,
    /// Not at all.
    No,
}
use Answer::{Checked, Cipher, Clear, No, Stored};

/// The flags of the table's columns: reading; reading and writing; writing; and reading and writing
/// with O_CREAT, O_TRUNC and O_APPEND.
const COLUMNS: [c_int; 6] = [
    libc::O_RDONLY,
    libc::O_RDWR,
    libc::O_WRONLY,
    libc::O_RDWR | libc::O_CREAT,
    libc::O_RDWR | libc::O_TRUNC,
    libc::O_RDWR | libc::O_APPEND,
];

/// Pages are what PostgreSQL opens in one way only.
const PAGES: [Answer; 6] = [Cipher, Cipher, Checked, Cipher, Checked, Checked];
const OTHERS: [Answer; 6] = [Checked; 6];

/// One path of each class, and how it is opened where no base backup and no archiver asks.
const TABLE: [(&str, [Answer; 6]); 17] = [
    ("base/5/16384", PAGES),
    ("base/5/16384.1", PAGES),
    ("base/5/16384_init", PAGES),
    ("base/5/16384_fsm", PAGES),
    ("base/5/16384_vm", PAGES),
    ("base/5/t3_16384", PAGES),
    ("pg_xact/0000", PAGES),
    ("pg_commit_ts/0000", PAGES),
    ("global/pg_control", PAGES),
    ("pg_wal/000000010000000000000001", PAGES),
    ("pg_wal/xlogtemp.123", PAGES),
    ("pg_wal/RECOVERYXLOG", [Stored; 6]),
    ("base/pgsql_tmp/pgsql_tmp123.0", OTHERS),
    ("pg_twophase/000002EA", OTHERS),
    ("pg_encryption/key.bin", [No; 6]),
    ("pg_dynshmem/mmap.1", [No; 6]),
    ("postgresql.conf", [Clear; 6]),
];

/// Facts that are given, and a note of which were asked for.
struct Given<'a> {
    backup: Opens,
    target: Target<'a>,
    /// Its spelling does not tell what it is.
    is_unclear: bool,
    is_foreign: bool,
    is_set: bool,
    is_archiver: bool,
    is_in_cluster: bool,
    lacks_images: bool,
    takes_received_wal: bool,
    allows_server: bool,
    streams_to_sql: bool,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Given<'a> {
    /// The facts of an ordinary opening.
    fn new(target: Target<'a>) -> Self {
        Self {
            backup: Opens::Usual,
            target,
            is_unclear: false,
            is_foreign: false,
            is_set: false,
            is_archiver: false,
            is_in_cluster: true,
            lacks_images: false,
            takes_received_wal: false,
            allows_server: true,
            streams_to_sql: false,
            asked: RefCell::new(Vec::new()),
        }
    }

    fn ask<T>(&self, name: &'static str, answer: T) -> T {
        self.asked.borrow_mut().push(name);
        answer
    }
}

impl Foreign for Given<'_> {
    fn is_foreign(&self) -> bool {
        self.ask("is_foreign", self.is_foreign)
    }

    fn is_set(&self) -> bool {
        self.ask("is_set", self.is_set)
    }

    fn is_archiver(&self) -> bool {
        self.ask("is_archiver", self.is_archiver)
    }
}

impl Facts for Given<'_> {
    fn backup(&self) -> Opens {
        self.ask("backup", self.backup)
    }

    fn spelled(&self) -> Option<Target<'_>> {
        let spelled = Some(self.target).filter(|_| !self.is_unclear);
        self.ask("spelled", spelled)
    }

    fn followed(&self) -> Target<'_> {
        self.ask("followed", self.target)
    }

    fn is_in_cluster(&self) -> bool {
        self.ask("is_in_cluster", self.is_in_cluster)
    }

    fn lacks_images(&self) -> bool {
        self.ask("lacks_images", self.lacks_images)
    }

    fn takes_received_wal(&self) -> bool {
        self.ask("takes_received_wal", self.takes_received_wal)
    }

    fn allows_server(&self) -> bool {
        self.ask("allows_server", self.allows_server)
    }

    fn streams_to_sql(&self) -> bool {
        self.ask("streams_to_sql", self.streams_to_sql)
    }
}

fn everybody() -> impl Iterator<Item = Who> {
    ROLES.into_iter().flat_map(|role| {
        CONNECTIONS
            .into_iter()
            .map(move |connection| Who { role, connection })
    })
}

/// All access modes with all flags that make, empty, append, or open no file.
fn all_flags() -> impl Iterator<Item = c_int> {
    let access = [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR];
    let others = [
        libc::O_CREAT,
        libc::O_EXCL,
        libc::O_TRUNC,
        libc::O_APPEND,
        libc::O_PATH,
        libc::O_DIRECTORY,
        libc::O_TMPFILE,
    ];
    access.into_iter().flat_map(move |access| {
        (0..1 << others.len()).map(move |set: usize| {
            let chosen = (0..others.len()).filter(|bit| set >> bit & 1 != 0);
            chosen.fold(access, |flags, bit| flags | others[bit])
        })
    })
}

fn opens_a_file(flags: c_int) -> bool {
    flags & (libc::O_PATH | libc::O_DIRECTORY) == 0
}

/// Every combination of the facts that can matter to a target that is not clear.
fn all_facts(target: Target<'_>) -> impl Iterator<Item = Given<'_>> {
    BACKUPS.into_iter().flat_map(move |backup| {
        (0..1 << 6).map(move |set: u32| {
            let fact = |bit: u32| set >> bit & 1 != 0;
            Given {
                backup,
                is_unclear: fact(0),
                is_foreign: fact(1),
                is_set: fact(2),
                is_archiver: fact(3),
                takes_received_wal: fact(4),
                allows_server: fact(5),
                ..Given::new(target)
            }
        })
    })
}

/// Decides to the end: what is clear unless a link is in the way meets one.
fn decide_to_the_end(who: Who, flags: c_int, facts: &Given) -> Verdict {
    match decide(who, flags, facts) {
        Verdict::ClearUnlessLinked(_) => decide_followed(who, flags, facts),
        verdict => verdict,
    }
}

fn answer(verdict: Verdict) -> Answer {
    match verdict {
        Verdict::Clear(_) => Clear,
        Verdict::Protected(protection) if protection.may_come_from_sql => Checked,
        Verdict::Protected(_) => Cipher,
        Verdict::AsStored(Check::FromSql) => Stored,
        Verdict::Refused(..) => No,
        other => panic!("{other:?} is in no table"),
    }
}

#[test]
fn each_class_is_opened_as_the_table_says() {
    for (path, row) in TABLE {
        let class = classify(path.as_bytes()).class;
        for (flags, expected) in COLUMNS.into_iter().zip(row) {
            for who in everybody() {
                let facts = Given::new(Target::Sealed(&class));
                let found = answer(decide(who, flags, &facts));
                assert_eq!(found, expected, "{path} by {who:?} with {flags:#o}");
            }
        }
    }
}

/// The classes of the table whose bytes are not clear. What `restore_command` brought is stored as
/// it came.
fn sealed_classes() -> impl Iterator<Item = Class> {
    let classes = TABLE.map(|(path, _)| classify(path.as_bytes()).class);
    classes.into_iter().filter(|class| *class != Class::Clear)
}

#[test]
fn no_combination_gives_a_sealed_class_in_clear() {
    let mut cases = 0;
    for class in sealed_classes() {
        for facts in all_facts(Target::Sealed(&class)) {
            for flags in all_flags() {
                for role in ROLES {
                    let who = Who {
                        role,
                        connection: Connection::Session,
                    };
                    let verdict = decide_to_the_end(who, flags, &facts);
                    let is_clear = matches!(
                        verdict,
                        Verdict::Clear(_) | Verdict::ClearUnlessLinked(_) | Verdict::ReceivedWal(_)
                    );
                    let is_opened = verdict == Verdict::Untouched && opens_a_file(flags);
                    assert!(!is_clear && !is_opened, "{class:?} {who:?} {flags:#o}");
                    cases += 1;
                }
                facts.asked.borrow_mut().clear();
            }
        }
    }
    assert!(cases > 1_000_000, "{cases}");
}

#[test]
fn stored_bytes_are_for_raw_backups_the_archiver_and_restored_wal() {
    for class in sealed_classes() {
        for facts in all_facts(Target::Sealed(&class)) {
            for flags in COLUMNS {
                let who = Who {
                    role: Role::Server,
                    connection: Connection::Raw,
                };
                let is_stored = matches!(
                    decide_to_the_end(who, flags, &facts),
                    Verdict::AsStored(_) | Verdict::Pages | Verdict::CarriedControl
                );
                let is_wal = matches!(class, Class::WalSegment(_));
                let expected = match facts.backup {
                    Opens::Raw => true,
                    Opens::Refused => false,
                    Opens::Usual if class == Class::WalRestored => true,
                    Opens::Usual => is_wal && facts.is_archiver && flags == libc::O_RDONLY,
                };
                // A spelling that does not tell is taken for clear until a link is met; a server
                // may have been refused before.
                let refused = facts.is_unclear && !facts.takes_received_wal;
                if !(refused && facts.is_foreign) {
                    assert_eq!(is_stored, expected, "{class:?} {flags:#o}");
                }
            }
        }
    }
}

#[test]
fn a_refused_backup_opens_nothing() {
    for (path, _) in TABLE {
        let class = classify(path.as_bytes()).class;
        for target in [Target::Clear, Target::Sealed(&class)] {
            let facts = Given {
                backup: Opens::Refused,
                ..Given::new(target)
            };
            for who in everybody() {
                let refused = Verdict::Refused(libc::EACCES, Reason::Denied);
                assert_eq!(decide(who, libc::O_RDONLY, &facts), refused, "{path}");
            }
        }
    }
}

#[test]
fn a_raw_backup_takes_what_is_stored() {
    for (path, expected) in [
        ("base/5/16384", Verdict::AsStored(Check::FromAll)),
        ("base/5/16384_fsm", Verdict::Pages),
        ("pg_xact/0000", Verdict::Pages),
        ("global/pg_control", Verdict::CarriedControl),
        (
            "pg_wal/000000010000000000000001",
            Verdict::AsStored(Check::FromAll),
        ),
        ("pg_encryption/key.bin", Verdict::AsStored(Check::FromAll)),
        ("postgresql.conf", Verdict::AsStored(Check::FromAll)),
    ] {
        let class = classify(path.as_bytes()).class;
        let facts = Given {
            backup: Opens::Raw,
            ..Given::new(Target::Sealed(&class))
        };
        for who in everybody() {
            assert_eq!(decide(who, libc::O_RDONLY, &facts), expected, "{path}");
        }
    }
    let facts = Given {
        backup: Opens::Raw,
        ..Given::new(Target::Denied(libc::EACCES))
    };
    for who in everybody() {
        let stored = Verdict::AsStored(Check::FromAll);
        assert_eq!(decide(who, libc::O_RDONLY, &facts), stored);
    }
}

#[test]
fn what_is_denied_keeps_its_errno() {
    for errno in [libc::EACCES, libc::EIO] {
        let refused = Verdict::Refused(errno, Reason::Denied);
        for facts in all_facts(Target::Denied(errno))
            .filter(|facts| facts.backup == Opens::Usual && !(facts.is_unclear && facts.is_foreign))
        {
            for who in everybody() {
                for flags in all_flags().filter(|flags| opens_a_file(*flags)) {
                    assert_eq!(decide_to_the_end(who, flags, &facts), refused, "{flags:#o}");
                }
                facts.asked.borrow_mut().clear();
            }
        }
    }
}

#[test]
fn what_cannot_be_sealed_says_why() {
    let class = classify(b"pg_dynshmem/mmap.1").class;
    let Class::Refused(advice) = class else {
        panic!("{class:?}")
    };
    let facts = Given::new(Target::Sealed(&class));
    for who in everybody() {
        let refused = Verdict::Refused(libc::ENOTSUP, Reason::CannotBeSealed(advice));
        assert_eq!(decide(who, libc::O_RDWR, &facts), refused);
    }
}

#[test]
fn a_server_that_may_not_run_opens_neither_control_nor_new_wal() {
    for (path, comes_first) in [
        ("global/pg_control", true),
        ("pg_wal/xlogtemp.123", true),
        ("pg_wal/000000010000000000000001", false),
        ("base/5/16384", false),
    ] {
        let class = classify(path.as_bytes()).class;
        let facts = Given {
            allows_server: false,
            ..Given::new(Target::Sealed(&class))
        };
        for (who, flags) in everybody().flat_map(|who| COLUMNS.map(|flags| (who, flags))) {
            let refused = Verdict::Refused(libc::EPERM, Reason::Denied);
            assert_eq!(decide(who, flags, &facts) == refused, comes_first, "{path}");
        }
    }
}

#[test]
fn lo_import_gets_stored_pages_in_sessions_without_trust() {
    for who in everybody() {
        let hides = matches!(
            who.connection,
            Connection::Session | Connection::Unproven | Connection::Raw
        );
        for (path, row) in TABLE {
            let class = classify(path.as_bytes()).class;
            for flags in COLUMNS {
                let facts = Given::new(Target::Sealed(&class));
                if let Verdict::Protected(protection) = decide(who, flags, &facts) {
                    let expected = hides && row == PAGES && flags == libc::O_RDONLY;
                    let found = protection.hidden_from_import;
                    assert_eq!(found, expected, "{path} {who:?} {flags:#o}");
                }
            }
        }
    }
}

/// A server and a name that is in a directory that PostgreSQL does not have.
fn foreign(target: Target<'_>) -> Given<'_> {
    Given {
        is_foreign: true,
        ..Given::new(target)
    }
}

#[test]
fn a_server_writes_nothing_where_postgresql_has_no_directory() {
    let read_only = Verdict::Clear(libc::O_RDONLY | libc::O_CLOEXEC);
    for who in everybody() {
        let makes = [libc::O_CREAT, libc::O_TRUNC, libc::O_APPEND];
        let flags = COLUMNS.into_iter().chain(makes);
        for flags in flags.map(|flags| flags | libc::O_CLOEXEC) {
            let expected = match flags & !libc::O_CLOEXEC {
                _ if who.role != Role::Server => Verdict::Clear(flags),
                // Recovery opens each file so, to sync it.
                libc::O_RDONLY | libc::O_RDWR => read_only,
                _ => Verdict::Refused(libc::EPERM, Reason::Foreign),
            };
            assert_eq!(decide(who, flags, &foreign(Target::Clear)), expected);
            let unclear = Given {
                is_unclear: true,
                ..foreign(Target::Clear)
            };
            let expected = match expected {
                Verdict::Clear(flags) => Verdict::ClearUnlessLinked(flags),
                refused => refused,
            };
            assert_eq!(decide(who, flags, &unclear), expected);
        }
    }
}

#[test]
fn a_server_writes_there_what_a_setting_names_and_what_it_archives() {
    let server = Who {
        role: Role::Server,
        connection: Connection::Undecided,
    };
    for flags in COLUMNS {
        let named = Given {
            is_set: true,
            ..foreign(Target::Clear)
        };
        let archived = Given {
            is_archiver: true,
            ..foreign(Target::Clear)
        };
        assert_eq!(decide(server, flags, &named), Verdict::Clear(flags));
        assert_eq!(decide(server, flags, &archived), Verdict::Clear(flags));
    }
}

#[test]
fn a_file_without_a_name_is_made_outside_clusters_only() {
    let class = classify(b"base/5/16384").class;
    let refused = Verdict::Refused(libc::EOPNOTSUPP, Reason::Denied);
    let flags = libc::O_TMPFILE | libc::O_RDWR;
    for who in everybody() {
        let sealed = Given::new(Target::Sealed(&class));
        assert_eq!(decide(who, flags, &sealed), refused);
        for is_in_cluster in [false, true] {
            let clear = Given {
                is_in_cluster,
                ..Given::new(Target::Clear)
            };
            let expected = match who.role {
                Role::Server if is_in_cluster => refused,
                _ => Verdict::Untouched,
            };
            assert_eq!(decide(who, flags, &clear), expected, "{who:?}");
        }
    }
}

#[test]
fn a_viewer_copies_pages_without_images_with_care() {
    for who in everybody() {
        for flags in COLUMNS {
            let facts = Given {
                lacks_images: true,
                ..Given::new(Target::Clear)
            };
            let expected = match (who.role, flags) {
                (Role::Viewer, libc::O_RDONLY) => Verdict::Pages,
                _ => Verdict::Clear(flags),
            };
            assert_eq!(decide(who, flags, &facts), expected, "{who:?} {flags:#o}");
        }
    }
}

#[test]
fn received_wal_is_sealed_on_its_way_whatever_link_leads_there() {
    for (who, is_unclear) in everybody().flat_map(|who| [(who, false), (who, true)]) {
        let facts = Given {
            is_unclear,
            takes_received_wal: true,
            ..Given::new(Target::Clear)
        };
        let flags = libc::O_WRONLY | libc::O_CREAT;
        assert_eq!(decide(who, flags, &facts), Verdict::ReceivedWal(flags));
    }
}

/// The facts that an opening by a server asks for, in their order. Each may be a system call.
#[test]
fn an_opening_asks_for_no_more_than_it_needs() {
    let [relation, wal, control] = [
        "base/5/16384",
        "pg_wal/000000010000000000000001",
        "global/pg_control",
    ]
    .map(|path| classify(path.as_bytes()).class);
    let usual = ["backup", "spelled"];
    let (read, update) = (libc::O_RDONLY, libc::O_RDWR);
    let rows: [(Target, bool, c_int, &[&str]); 8] = [
        (Target::Sealed(&relation), false, update, &[]),
        (Target::Sealed(&wal), false, update, &[]),
        (Target::Sealed(&wal), false, read, &["is_archiver"]),
        (Target::Sealed(&control), false, read, &["allows_server"]),
        (Target::Clear, false, read, &["takes_received_wal"]),
        (Target::Clear, true, read, &["takes_received_wal"]),
        (
            Target::Clear,
            true,
            update,
            &["takes_received_wal", "is_foreign"],
        ),
        (
            Target::Clear,
            false,
            update,
            &["is_foreign", "takes_received_wal"],
        ),
    ];
    for (target, is_unclear, flags, more) in rows {
        let facts = Given {
            is_unclear,
            ..Given::new(target)
        };
        let server = Who {
            role: Role::Server,
            connection: Connection::Session,
        };
        let _ = decide(server, flags, &facts);
        let expected: Vec<_> = usual.iter().chain(more).copied().collect();
        assert_eq!(*facts.asked.borrow(), expected, "{target:?} {flags:#o}");
    }
    let facts = Given::new(Target::Clear);
    let nobody = Who {
        role: Role::Tool,
        connection: Connection::Off,
    };
    assert_eq!(
        decide(nobody, libc::O_DIRECTORY, &facts),
        Verdict::Untouched
    );
    assert!(facts.asked.borrow().is_empty());
}
