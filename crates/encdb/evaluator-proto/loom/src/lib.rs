//! The ring under loom, which tries the interleavings of a client and a server, and every value
//! that an atomic load may give: each request gets its own answer, and nobody sleeps for ever.
//!
//! CONTRIBUTING.md says how it is run.
#![cfg(all(loom, test))]

/// The sources of `pgseal-evaluator-proto`, of which these are the ring's.
#[path = "../../src"]
pub mod proto {
    pub mod ring;
}

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use proto::ring::{
    format, AtomicU64, Crowd, RingClient, RingError, RingServer, Wait, MAX_MESSAGE, WORDS,
};

/// The ring of one run of a model.
#[derive(Clone)]
struct Memory(Arc<Vec<AtomicU64>>);

impl Memory {
    fn new() -> Self {
        let words = (0..WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        format(&words);
        Self(Arc::new(words))
    }
}

impl AsRef<[AtomicU64]> for Memory {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// futex(2) without its time limit, which would hide a lost wake-up: comparing and falling asleep
/// are one step for who wakes. One kernel, for the words of both sides.
#[derive(Clone)]
struct Futex {
    kernel: Arc<(Mutex<()>, Condvar)>,
    /// How many of the next waits return at once.
    spurious: Arc<std::sync::atomic::AtomicU32>,
}

impl Futex {
    fn new(kernel: &Arc<(Mutex<()>, Condvar)>, spurious: u32) -> Self {
        Self {
            kernel: kernel.clone(),
            spurious: Arc::new(spurious.into()),
        }
    }
}

impl Wait for Futex {
    fn wait(&self, word: &AtomicU64, value: u32, _at_most: Duration) {
        let left = self.spurious.load(Relaxed);
        if left > 0 {
            self.spurious.store(left - 1, Relaxed);
            return;
        }
        let (lock, asleep) = &*self.kernel;
        let guard = lock.lock().expect("nobody panics with it");
        if word.load(Relaxed) & u64::from(u32::MAX) == u64::from(value) {
            drop(asleep.wait(guard).expect("nobody panics with it"));
        }
    }

    fn wake(&self, _word: &AtomicU64) {
        let (lock, asleep) = &*self.kernel;
        let _guard = lock.lock().expect("nobody panics with it");
        asleep.notify_all();
    }

    fn core(&self) -> Option<u32> {
        None
    }
}

/// Requests of one word, of two, and of none: what is left of one shows in the next.
fn request(call: u8) -> Vec<u8> {
    vec![call + 1; [3, MAX_MESSAGE, 0][usize::from(call) % 3]]
}

fn turned(request: &[u8]) -> Vec<u8> {
    request.iter().map(|byte| !byte).collect()
}

/// Answers until the last call was answered.
fn serve(memory: Memory, futex: Futex, cores: u32, calls: u8) {
    let crowd = Crowd::new(cores);
    let mut server = RingServer::new(memory, futex, &crowd);
    let mut taken = Vec::new();
    for call in 0..calls {
        let next = server.next(&mut taken, Duration::ZERO, || true);
        assert_eq!(next, Ok(()));
        assert_eq!(taken, request(call), "each request once, whole, in turn");
        assert_eq!(server.answer(&turned(&taken)), Ok(()));
    }
}

/// So many calls, on a server with so many cores, when the first waits of client and server
/// return for no reason.
fn model(calls: u8, cores: u32, spurious: [u32; 2]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = (calls > 1).then_some(PREEMPTIONS);
    model.check(move || {
        let memory = Memory::new();
        let kernel = Arc::new((Mutex::new(()), Condvar::new()));
        let [client, server] = spurious.map(|times| Futex::new(&kernel, times));
        let shared = memory.clone();
        let server = thread::spawn(move || serve(shared, server, cores, calls));
        let mut client = RingClient::new(memory, client);
        let mut answer = Vec::new();
        for call in 0..calls {
            let sent = request(call);
            assert_eq!(client.call(&sent, &mut answer, || true), Ok(()));
            assert_eq!(answer, turned(&sent), "its own answer, whole");
        }
        server.join().expect("a server that ends");
    });
}

/// How often two calls take a thread off its processor where it does not wait by itself. One call
/// is tried to the end.
const PREEMPTIONS: usize = 3;

#[test]
fn one_call_to_the_end() {
    model(1, 0, [0, 0]);
}

#[test]
fn both_sleep() {
    model(2, 0, [0, 0]);
}

#[test]
fn both_sleep_and_are_woken_for_no_reason() {
    model(2, 0, [1, 1]);
}

#[test]
fn both_look_first() {
    model(2, 64, [0, 0]);
}

#[test]
fn both_look_first_and_are_woken_for_no_reason() {
    model(2, 64, [1, 1]);
}

/// A client that gives up posts its next request while the server may still copy the first. That
/// copy may be torn, and its answer is for no call.
#[test]
fn given_up_and_called_again() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(|| {
        let memory = Memory::new();
        let kernel = Arc::new((Mutex::new(()), Condvar::new()));
        let [client, server] = [1, 0].map(|times| Futex::new(&kernel, times));
        let shared = memory.clone();
        let server = thread::spawn(move || serve_until(shared, server, &request(1)));
        let mut client = RingClient::new(memory, client);
        let mut answer = Vec::new();
        match client.call(&request(0), &mut answer, || false) {
            Ok(()) => assert_eq!(answer, turned(&request(0))),
            Err(refused) => assert_eq!(refused, RingError::Gone),
        }
        assert_eq!(client.call(&request(1), &mut answer, || true), Ok(()));
        assert_eq!(answer, turned(&request(1)), "its own answer, whole");
        server.join().expect("a server that ends");
    });
}

fn serve_until(memory: Memory, futex: Futex, last: &[u8]) {
    let crowd = Crowd::new(0);
    let mut server = RingServer::new(memory, futex, &crowd);
    let mut taken = Vec::new();
    while taken != last {
        let next = server.next(&mut taken, Duration::ZERO, || true);
        assert_eq!(next, Ok(()));
        assert_eq!(server.answer(&turned(&taken)), Ok(()));
    }
}
