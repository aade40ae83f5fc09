//! The ring between threads, and between processes' mappings: every request gets its own answer,
//! a side that sleeps, spins or gives up.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pgseal_evaluator_proto::ring::{
    is_ring, Crowd, Futex, Mapping, RingClient, RingError, RingServer, Wait, MAX_MESSAGE,
};

const LOOK: Duration = Duration::from_millis(20);

/// A server that gives each request back with its bytes turned over, until `stop`.
fn serve(memory: impl AsRef<[AtomicU64]>, waiter: impl Wait, crowd: &Crowd, stop: &AtomicBool) {
    let mut server = RingServer::new(memory, waiter, crowd);
    let mut request = Vec::new();
    while server
        .next(&mut request, LOOK, || !stop.load(Ordering::SeqCst))
        .is_ok()
    {
        request.reverse();
        server.answer(&request).expect("it fitted before");
    }
}

/// A request that no other is like.
fn request(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(len.max(4), 7);
    bytes
}

fn calls(crowd: &Crowd, lengths: &[usize], times: u32, think: Option<Duration>) {
    let stop = AtomicBool::new(false);
    let (ours, memory) = Mapping::create().expect("a memfd");
    let theirs = Mapping::open(memory.as_fd()).expect("a ring");
    thread::scope(|scope| {
        scope.spawn(|| serve(theirs, Futex, crowd, &stop));
        let mut client = RingClient::new(ours, Futex);
        let mut response = Vec::new();
        for number in 0..times {
            for &len in lengths {
                let mut sent = request(number, len);
                let done = client.call(&sent, &mut response, || true);
                assert_eq!(done, Ok(()));
                sent.reverse();
                assert!(sent == response, "call {number} of {len} bytes");
            }
            think.into_iter().for_each(thread::sleep);
        }
        stop.store(true, Ordering::SeqCst);
    });
}

#[test]
fn short_calls_while_both_spin() {
    calls(&Crowd::new(64), &[0, 1, 7, 8, 9, 91, 200], 5_000, None);
}

#[test]
fn short_calls_while_both_sleep() {
    calls(&Crowd::new(0), &[0, 1, 7, 8, 9, 91, 200], 500, None);
}

#[test]
fn calls_after_pauses() {
    let pause = Some(Duration::from_micros(200));
    calls(&Crowd::new(64), &[91], 300, pause);
}

#[test]
fn long_calls() {
    calls(
        &Crowd::new(64),
        &[2 << 20, MAX_MESSAGE - 1, MAX_MESSAGE],
        2,
        None,
    );
}

#[test]
fn many_rings_at_once() {
    let crowd = Crowd::new(2);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| calls(&crowd, &[91], 500, None));
        }
    });
}

/// Answers until `stop`, and returns whether it was to share its client's core then.
fn share(memory: &Mapping, crowd: &Crowd, shares: &AtomicBool, stop: &AtomicBool) {
    let mut server = RingServer::new(memory, Futex, crowd);
    let (mut request, goes_on) = (Vec::new(), || !stop.load(Ordering::SeqCst));
    while server.next(&mut request, LOOK, goes_on).is_ok() {
        shares.store(server.shared_core().is_some(), Ordering::SeqCst);
        server.answer(&request).expect("it fitted before");
    }
}

/// On two cores a client by itself has another core for its server. Two have not, although their
/// servers sleep when it is not their turn; and one that has not asked for a while counts no more.
#[test]
fn cores_are_shared_while_more_connections_are_in_use_than_have_two() {
    let (crowd, stop) = (Crowd::new(2), AtomicBool::new(false));
    let rings = [(); 2].map(|()| Mapping::create().expect("a memfd"));
    let shares = [(); 2].map(|()| AtomicBool::new(true));
    let theirs = { rings.each_ref() }.map(|ring| Mapping::open(ring.1.as_fd()).expect("a ring"));
    thread::scope(|scope| {
        for (ring, shares) in theirs.iter().zip(&shares) {
            scope.spawn(|| share(ring, &crowd, shares, &stop));
        }
        let mut clients = { rings.each_ref() }.map(|ring| RingClient::new(&ring.0, Futex));
        let mut ask = |client: usize| {
            let done = clients[client].call(b"abc", &mut Vec::new(), || true);
            assert_eq!(done, Ok(()));
            shares[client].load(Ordering::SeqCst)
        };
        let alone = (0..50).all(|_| !ask(0));
        let both = |ask: &mut dyn FnMut(usize) -> bool| ask(1) & ask(0);
        let shared = (0..200).any(|_| both(&mut ask));
        thread::sleep(Duration::from_millis(100));
        let again = (0..50).all(|_| !ask(0));
        // Before anything fails, or the servers would be waited for.
        stop.store(true, Ordering::SeqCst);
        assert_eq!((alone, shared, again), (true, true, true));
    });
}

#[test]
fn what_is_too_long_is_refused() {
    let (memory, _fd) = Mapping::create().expect("a memfd");
    let mut client = RingClient::new(memory, Futex);
    let long = vec![0; MAX_MESSAGE + 1];
    let refused = client.call(&long, &mut Vec::new(), || true);
    assert_eq!(refused, Err(RingError::TooLarge));
}

#[test]
fn a_length_that_the_other_side_made_up_is_refused() {
    let (ours, memory) = Mapping::create().expect("a memfd");
    let theirs = Mapping::open(memory.as_fd()).expect("a ring");
    // The request's head: number 1, and a length of 4 GB.
    ours.as_ref()[64].store(u64::MAX << 32 | 1, Ordering::SeqCst);
    let crowd = Crowd::new(64);
    let mut server = RingServer::new(theirs, Futex, &crowd);
    let taken = server.next(&mut Vec::new(), LOOK, || true);
    assert_eq!(taken, Err(RingError::TooLarge));
}

#[test]
fn who_gives_up_gets_no_answer_of_an_earlier_call() {
    let (ours, memory) = Mapping::create().expect("a memfd");
    let theirs = Mapping::open(memory.as_fd()).expect("a ring");
    let crowd = Crowd::new(0);
    let mut server = RingServer::new(theirs, Futex, &crowd);
    let mut client = RingClient::new(ours, Futex);
    let mut response = Vec::new();
    let alone = client.call(b"first", &mut response, || false);
    assert_eq!(alone, Err(RingError::Gone));
    let mut taken = Vec::new();
    assert_eq!(server.next(&mut taken, LOOK, || true), Ok(()));
    assert_eq!(taken, b"first");
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            client
                .call(b"second", &mut response, || true)
                .map(|()| response)
        });
        server.answer(b"to the first").expect("it fits");
        assert_eq!(server.next(&mut taken, LOOK, || true), Ok(()));
        assert_eq!(taken, b"second");
        server.answer(b"to the second").expect("it fits");
        let response = second.join().expect("no panic");
        assert_eq!(response, Ok(b"to the second".to_vec()));
    });
}

#[test]
fn other_memory_is_no_ring() {
    let file = std::fs::File::open("/dev/null").expect("a null device");
    assert!(Mapping::open(file.as_fd()).is_err());
    assert!(!is_ring(&[]));
    let (ours, memory) = Mapping::create().expect("a memfd");
    ours.as_ref()[0].store(0, Ordering::SeqCst);
    assert!(Mapping::open(memory.as_fd()).is_err());
}
