//! The isolated evaluator as a process: what it refuses, what it survives, what it leaves behind.
//!
//! As root the evaluator becomes `nobody`, as it would become its own user; by somebody else it is
//! started without locking memory, which that user may not do. The clients that are killed are this
//! program again, as children.
#![allow(clippy::unwrap_used)]

mod common;
mod host;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use common::*;
use host::*;
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;
use pgseal_cell::grant::{Operation, Subject};
use pgseal_evaluator::client::{ConnectError, Ring};
use pgseal_evaluator_proto::{
    AggregateRequest, AttachAs, Batch, Collation, ComparisonRequest, OperationRequest, Refusal,
    Request, Response, SessionRequest,
};
use pgseal_value::{AggregateKind, Arithmetic};

#[test]
fn a_session_is_opened_over_the_ring_and_everything_is_logged() {
    let evaluator = Evaluator::start(&[]);
    let alice = party(1);
    let grant = alice.grant(
        Subject::Owner,
        &[Operation::Arithmetic, Operation::Aggregate],
    );
    let mut backend = evaluator.backend(&alice, &[grant]);
    let mut key = alice.key(11, false);
    let (a, b) = (key.int4(20), key.int4(22));
    assert_eq!(backend.compare(&a, &b), Ok(255));
    let sum = Request::Operation(OperationRequest::Arithmetic {
        op: Arithmetic::Add,
        left: &a,
        right: &b,
    });
    let cell = backend.call_cell(&sum).unwrap();
    assert_eq!(key.open_int4(&cell), 42);
    assert_eq!(
        backend.compare(&a, &cell),
        Err(Refusal::NoGrant(Operation::CompareDerived).code())
    );
    let (text, big) = ("x".repeat(1 << 20), "x".repeat(1 << 20) + "y");
    let (text, big) = (key.text(&text), key.text(&big));
    assert_eq!(backend.compare(&text, &big), Ok(255));
    let named = Request::Comparison(ComparisonRequest::Compare {
        collation: Collation::Libc("C.UTF-8"),
        left: &text,
        right: &big,
    });
    assert_eq!(backend.call(&named).unwrap()[1], 255);
    let unknown = Request::Comparison(ComparisonRequest::Compare {
        collation: Collation::Libc("xx_YY"),
        left: &a,
        right: &b,
    });
    assert_eq!(
        backend.call(&unknown),
        Err(Refusal::UnknownCollation.code())
    );
    let cells: [&[u8]; 2] = [&a, &b];
    let batch = Batch::of_cells(AggregateKind::Sum, Collation::C, items(&cells));
    let step = Request::Aggregate(AggregateRequest::Step { state: 0, batch });
    assert!(backend.call(&step).is_ok());
    drop(backend);
    let log = evaluator.stop();
    for part in [
        "\"event\":\"start\"",
        "\"event\":\"open\"",
        "\"event\":\"granted\"",
        "\"operation\":\"arithmetic\",\"count\":1",
        "\"operation\":\"aggregate\",\"count\":1",
        "\"refusal\":\"PE011\",\"operation\":\"compare-derived\",\"count\":1",
        "\"refusal\":\"PE020\",\"count\":1",
        "\"event\":\"close\"",
        "\"event\":\"stop\"",
    ] {
        assert!(log.contains(part), "{part} in\n{log}");
    }
}

#[test]
fn one_flipped_byte_of_the_log_is_found_and_so_is_a_missing_log() {
    let evaluator = Evaluator::start(&[]);
    let directory = evaluator.log_directory();
    drop(evaluator.backend(&party(1), &[]));
    evaluator.stop();
    let second = Evaluator::start_in(&directory, &[]);
    drop(second.backend(&party(1), &[]));
    second.stop();
    let third = Evaluator::start_in(&directory, &[]);
    third.stop();
    let logs = logs(&directory);
    assert_eq!(logs.len(), 3);
    let (code, out, _) = verify(&logs);
    assert_eq!((code, out.lines().count()), (0, 3), "{out}");
    let head = out
        .lines()
        .last()
        .unwrap()
        .rsplit(' ')
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(verify_with(&logs, Some(&head)).0, 0);
    assert_eq!(verify_with(&logs[..2], Some(&head)).0, 1);
    let emptied = directory.path().join("emptied");
    fs::write(&emptied, "").unwrap();
    assert_eq!(verify_with(std::slice::from_ref(&emptied), None).0, 0);
    let (code, _, why) = verify_with(&[emptied], Some(&head));
    assert!(code == 1 && why.contains("no record is left"), "{why}");
    let (code, _, why) = verify(&[logs[0].clone(), logs[2].clone()]);
    assert!(code == 1 && why.contains("one is missing"), "{why}");
    let whole = fs::read(&logs[1]).unwrap();
    for at in [0, 10, whole.len() / 2, whole.len() - 10] {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&logs[1], &bytes).unwrap();
        let (code, _, why) = verify(&logs);
        assert!(
            code == 1 && why.contains("is not what was written"),
            "byte {at}: {why}"
        );
    }
    // No evaluator writes on behind a broken log.
    let mut newest = fs::read(&logs[2]).unwrap();
    newest[20] ^= 1;
    fs::write(&logs[2], newest).unwrap();
    let refused = Evaluator::try_start(&directory, &[]);
    assert!(refused.unwrap_err().contains("is not what was written"));
}

#[test]
fn it_dies_and_comes_back_and_sessions_are_gone() {
    let evaluator = Evaluator::start(&[]);
    let alice = party(1);
    let mut backend = evaluator.backend(&alice, &[]);
    let mut key = alice.key(11, false);
    let (a, b) = (key.int4(1), key.int4(2));
    assert_eq!(backend.compare(&a, &b), Ok(255));
    let directory = evaluator.log_directory();
    let socket = evaluator.socket();
    evaluator.kill();
    let start = Instant::now();
    assert_eq!(
        backend.compare(&a, &b),
        Err(Refusal::EvaluatorAbsent.code())
    );
    assert!(start.elapsed() < Duration::from_secs(60));
    assert!(matches!(
        Ring::connect(&socket),
        Err(ConnectError::Absent(_))
    ));
    // The socket that it left is no hindrance.
    let again = Evaluator::start_at(&directory, &socket, &[]);
    let mut backend = Backend::attach(&socket, AttachAs::Client);
    assert_eq!(backend.compare(&a, &b), Err(Refusal::NoSession.code()));
    backend.open(&alice, &[]);
    assert_eq!(backend.compare(&a, &b), Ok(255));
    drop(backend);
    again.stop();
    let (code, out, why) = verify(&logs(&directory));
    assert_eq!(code, 0, "{out}{why}");
}

#[test]
fn malformed_frames_and_a_scribbled_ring_harm_nobody_else() {
    let evaluator = Evaluator::start(&[]);
    let alice = party(1);
    let mut backend = evaluator.backend(&alice, &[]);
    let mut key = alice.key(11, false);
    let (a, b) = (key.int4(1), key.int4(2));
    let mut valid = Vec::new();
    Request::Comparison(ComparisonRequest::Compare {
        collation: Collation::C,
        left: &a,
        right: &b,
    })
    .encode(&mut valid);
    let mut random = Random(7);
    let mut rogue = Backend::attach(&evaluator.socket(), AttachAs::Client);
    for _ in 0..20_000 {
        let mut frame = valid.clone();
        match random.below(3) {
            0 => frame.truncate(random.below(frame.len())),
            1 => {
                let at = random.below(frame.len());
                frame[at] ^= random.byte();
            }
            _ => frame = (0..random.below(300)).map(|_| random.byte()).collect(),
        }
        let answer = rogue.send(&frame).unwrap();
        assert!(Response::parse(&answer).is_ok());
    }
    for round in 0..200 {
        scribble(&evaluator.socket(), &mut random);
        if round % 20 == 0 {
            assert_eq!(backend.compare(&a, &b), Ok(255));
        }
    }
    assert_eq!(backend.compare(&a, &b), Ok(255));
    drop((backend, rogue));
    evaluator.stop();
}

#[test]
fn it_cannot_be_looked_into_and_leaves_no_core() {
    let evaluator = Evaluator::start(&[]);
    let mut backend = evaluator.backend(&party(1), &[]);
    backend
        .call(&Request::Session(SessionRequest::Status))
        .unwrap();
    let pid = evaluator.pid();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} in {status}"))
            .trim()
            .to_owned()
    };
    assert_eq!(
        (field("Seccomp:"), field("NoNewPrivs:")),
        ("2".into(), "1".into())
    );
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    assert!(limits.lines().any(|line| {
        line.starts_with("Max core file size") && line.split_whitespace().nth(4) == Some("0")
    }));
    for file in ["mem", "maps", "environ", "fd"] {
        let path = format!("/proc/{pid}/{file}");
        let looked = as_nobody("ls", &["-l", &path]);
        // `ls` reads a directory; of a file it shows the owner, which is root for such a process.
        let read = as_nobody("head", &["-c1", &path]);
        assert!(
            !read.0 && (file != "fd" || !looked.0),
            "{path}: {read:?} {looked:?}"
        );
    }
    if is_root() {
        assert_eq!(field("Uid:").split_whitespace().next(), Some("65534"));
        // Nothing, or the one that lets it lock memory.
        assert!(matches!(
            &*field("CapEff:"),
            "0000000000000000" | "0000000000004000"
        ));
        assert_ne!(field("VmLck:"), "0 kB");
    }
    let ended = evaluator.signal_and_wait("ABRT");
    assert_eq!((ended.signal(), ended.core_dumped()), (Some(6), false));
}

#[test]
fn who_may_not_connect_and_who_is_too_many_is_turned_away() {
    let evaluator = Evaluator::start(&["--max-connections", "2"]);
    let first = Ring::connect(&evaluator.socket()).unwrap();
    let second = Ring::connect(&evaluator.socket()).unwrap();
    let third = Ring::connect(&evaluator.socket());
    assert!(matches!(third, Err(ConnectError::Full)));
    drop(first);
    assert!(soon(|| Ring::connect(&evaluator.socket()).is_ok()));
    drop(second);
    evaluator.stop();

    let directory = log_directory();
    let strict = Evaluator::start_for(&directory, "4242", &[]);
    assert!(matches!(
        Ring::connect(&strict.socket()),
        Err(ConnectError::Refused)
    ));
    strict.stop();
}

/// As many as there may be, all of one role: half of them find a place, and another role's backend
/// works as if they were not there.
#[test]
fn one_roles_connections_leave_room_for_anothers() {
    let evaluator = Evaluator::start(&["--max-connections", "400"]);
    let attach = |role| Backend::attach_for(&evaluator.socket(), AttachAs::Client, role);
    let tried: Vec<_> = (0..399).map(|_| attach(7)).collect();
    let (taken, refused): (Vec<_>, Vec<_>) = tried.into_iter().partition(Result::is_ok);
    assert_eq!((taken.len(), refused.len()), (200, 199));
    assert!(refused.iter().all(|code| code.as_ref().err() == Some(&28)));
    let (alice, mut other) = (party(1), attach(8).unwrap());
    other.open(&alice, &[]);
    let mut key = alice.key(11, false);
    let (a, b) = (key.int4(1), key.int4(2));
    assert_eq!(other.compare(&a, &b), Ok(255));
    drop(taken);
    assert!(soon(|| attach(7).is_ok()));
    evaluator.stop();
}

/// A role's states fill what it has of the memory, and its large requests find no room there. Those
/// of another do.
#[test]
fn one_roles_memory_leaves_room_for_anothers() {
    let evaluator = Evaluator::start(&["--memory", "256"]);
    let session = |role, owner: &Party| {
        let mut backend = Backend::attach_for(&evaluator.socket(), AttachAs::Client, role).unwrap();
        backend.open(owner, &[]);
        backend
    };
    let (alice, bob) = (party(1), party(2));
    let mut ones = [(); 3].map(|()| session(7, &alice));
    let cell = alice.key(11, false).text(&"x".repeat(1 << 20));
    let cells: [&[u8]; 1] = [&cell];
    let batch = Batch::of_cells(AggregateKind::Max, Collation::C, items(&cells));
    let step = Request::Aggregate(AggregateRequest::Step { state: 0, batch });
    // One connection has no more than 64 MB of states, and one role no more than half of all.
    let codes = ones.each_mut().map(|one| loop {
        if let Err(code) = one.call(&step) {
            break code;
        }
    });
    let share = Refusal::RoleShare.code();
    assert_eq!(codes[0], Refusal::TooMany.code());
    assert_eq!(codes[2], share);
    let text = |owner: &Party| owner.key(11, false).text(&"x".repeat(3 << 20));
    let compare = |backend: &mut Backend, cell: &[u8]| backend.compare(cell, cell);
    let start = Instant::now();
    assert_eq!(compare(&mut ones[2], &text(&alice)), Err(share));
    assert!(
        start.elapsed() > Duration::from_secs(3),
        "it waits for others"
    );
    let mut other = session(8, &bob);
    assert_eq!(compare(&mut other, &text(&bob)), Ok(0));
    // The key's bytes are the same.
    assert!((0..20).all(|_| other.call(&step).is_ok()));
    // What a session had is there when it has ended.
    let [first, _, mut third] = ones;
    drop(first);
    assert!(soon(|| compare(&mut third, &text(&alice)) == Ok(0)));
    evaluator.stop();
}

#[test]
fn each_connection_may_have_its_descriptor() {
    let connections = ["--max-connections", "60"];
    let evaluator = Evaluator::try_start_within("-S -n 40", &connections).unwrap();
    let rings: Vec<_> = (0..60)
        .map(|_| Ring::connect(&evaluator.socket()).map_err(|error| error.to_string()))
        .collect();
    assert!(rings.iter().all(Result::is_ok));
    drop(rings);
    evaluator.stop();
    let limited = Evaluator::try_start_within("-n 40", &connections);
    let mut raise = Command::new("sh");
    raise.args(["-c", "ulimit -n 40; ulimit -n 84 2>/dev/null"]);
    match raise.status().unwrap().success() {
        true => assert_eq!(limited.unwrap().stop().lines().count(), 2),
        false => assert!(limited.unwrap_err().contains("only 40 files may be open")),
    }
}

#[test]
fn what_cannot_be_started_says_why() {
    let directory = log_directory();
    for (arguments, sentence) in [
        (&["--user", "nosuchuser"][..], "there is no user nosuchuser"),
        (&["--allow-uid", "nosuchuser"], "correct --allow-uid"),
        (
            &["--log", "/nonexistent"],
            "cannot write the audit log in /nonexistent",
        ),
        (
            &["--socket", "/nonexistent/s"],
            "cannot listen at /nonexistent/s",
        ),
    ] {
        let why = Evaluator::try_start(&directory, arguments).unwrap_err();
        assert!(why.contains(sentence), "{why}");
    }
    let usage = Command::new(PROGRAM).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
    if is_root() {
        let of_root = tempfile::tempdir().unwrap();
        let socket = of_root.path().join("root");
        let as_root = Command::new(PROGRAM)
            .args(["--allow-uid", "0", "--socket"])
            .arg(socket)
            .output()
            .unwrap();
        let why = String::from_utf8_lossy(&as_root.stderr).into_owned();
        assert!(why.contains("must not run as root"), "{why}");
    }
}

/// Clients take turns with their threads: on one core each where there are not two for each.
#[test]
fn threads_go_to_their_clients_cores_while_all_cores_are_in_use() {
    let evaluator = Evaluator::start(&[]);
    let (alice, cores) = (party(1), std::thread::available_parallelism().unwrap());
    let mut key = alice.key(11, false);
    let (a, b) = (key.int4(1), key.int4(2));
    let enough = cores.get() / 2 + 1;
    let mut backends: Vec<_> = (0..enough)
        .map(|_| evaluator.backend(&alice, &[]))
        .collect();
    let ask = |backends: &mut [Backend]| {
        for _ in 0..50 {
            for backend in &mut *backends {
                assert_eq!(backend.compare(&a, &b), Ok(255));
            }
        }
    };
    // A backend that the kernel does not move, for as long as the test looks.
    let (this, anywhere) = (
        Pid::from_raw(0),
        sched_getaffinity(Pid::from_raw(0)).unwrap(),
    );
    let last = (0..CpuSet::count()).rfind(|core| anywhere.is_set(*core).unwrap());
    let mut alone = CpuSet::new();
    alone.set(last.unwrap()).unwrap();
    sched_setaffinity(this, &alone).unwrap();
    let there = vec![last.unwrap().to_string(); enough];
    assert!(soon(|| {
        ask(&mut backends);
        evaluator.cores().1 == there
    }));
    // Only one is in use: it has a core for its thread, which may be any again.
    assert!(
        cores.get() < 2
            || soon(|| {
                std::thread::sleep(Duration::from_millis(50));
                ask(&mut backends[..1]);
                let (main, others) = evaluator.cores();
                others.iter().filter(|cores| **cores == main).count() == 1
            })
    );
    sched_setaffinity(this, &anywhere).unwrap();
    evaluator.stop();
}

/// The child of the next test: it works until it is killed.
#[test]
#[ignore = "the next test starts it, with the socket of its evaluator"]
fn a_client_until_it_is_killed() {
    let socket = std::env::var_os(CHILD).unwrap();
    let alice = party(1);
    let mut backend = Backend::attach(socket.as_ref(), AttachAs::Client);
    backend.open(&alice, &[]);
    let mut key = alice.key(11, false);
    let (a, b) = (key.int4(1), key.int4(2));
    println!("works");
    while backend.compare(&a, &b) == Ok(255) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_thousand_connects_with_clients_killed_at_random_leave_nothing_behind() {
    let evaluator = Evaluator::start(&[]);
    let (alice, mut random) = (party(1), Random(99));
    let mut key = alice.key(11, false);
    let (a, b) = (key.int4(1), key.int4(2));
    let mut round = |killed: usize| {
        let mut children: Vec<_> = (0..killed).map(|_| child(&evaluator.socket())).collect();
        for _ in 0..90 {
            let mut backend = evaluator.backend(&alice, &[]);
            assert_eq!(backend.compare(&a, &b), Ok(255));
        }
        for child in &mut children {
            std::thread::sleep(Duration::from_millis(random.below(20) as u64));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(soon(|| evaluator.threads() == 1), "{}", evaluator.threads());
        (evaluator.descriptors(), evaluator.resident_kb())
    };
    let (descriptors, _) = round(10);
    let (_, resident) = round(10);
    for _ in 0..8 {
        let now = round(10);
        assert_eq!(now.0, descriptors);
        assert!(now.1 < resident + 2048, "{} kB after {resident} kB", now.1);
    }
    evaluator.stop();
}

/// One connect, a session and a comparison: done, or told that the evaluator is gone.
fn one_visit(socket: &std::path::Path, alice: &Party, a: &[u8], b: &[u8]) -> bool {
    let Ok(ring) = Ring::connect(socket) else {
        return false;
    };
    let mut backend = Backend::over(ring);
    match backend.try_open(alice).and_then(|()| backend.compare(a, b)) {
        Ok(order) => order == 255,
        Err(code) => {
            assert_eq!(code, Refusal::EvaluatorAbsent.code());
            false
        }
    }
}

#[test]
fn a_thousand_connects_while_the_evaluator_is_killed_at_random_end_well_or_with_one_error() {
    let directory = log_directory();
    let socket = directory.path().join("socket");
    let (alice, mut random) = (party(1), Random(5));
    let mut key = alice.key(11, false);
    let (a, b) = (key.int4(1), key.int4(2));
    let (mut visits, mut served, mut deaths) = (0, 0, 0);
    while visits < 1000 {
        let evaluator = Evaluator::start_at(&directory, &socket, &[]);
        let killer = Killer::after(
            evaluator.pid(),
            Duration::from_millis(random.below(400) as u64),
        );
        while visits < 1000 && !killer.is_done() {
            let ended_well = one_visit(&socket, &alice, &a, &b);
            visits += 1;
            served += u32::from(ended_well);
            if !ended_well {
                break;
            }
        }
        killer.finish();
        evaluator.kill();
        deaths += 1;
    }
    assert!(
        served > 300 && deaths > 2,
        "{served} of {visits}, {deaths} deaths"
    );
    let (code, out, why) = verify(&logs(&directory));
    assert_eq!(code, 0, "{out}{why}");
}
