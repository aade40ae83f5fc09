//! A connection's thread: takes requests from its ring and answers them, until the client is gone.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::time::{clock_gettime, ClockId};
use pgseal_evaluator::engine::{most_memory, Connection, Room};
use pgseal_evaluator::os::promise;
use pgseal_evaluator_proto::ring::{shrink, Futex, Mapping, RingError, RingServer};
use pgseal_evaluator_proto::{Refusal, Response};

use super::links::Link;
use super::place::Place;
use super::Server;

/// Requests nest nowhere: a thread needs little stack, and locked memory is dear.
const STACK: usize = 256 << 10;
/// How long to sleep at most, when nothing is to be logged, and when something is.
const IDLE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(1);
/// The longest request that the connection's own room is enough for.
const SMALL: usize = 64 << 10;
/// How often, and after what, a large request looks whether there is room of its role's share.
const LOOKS: u32 = 250;
const LOOK: Duration = Duration::from_millis(20);
/// Requests without a sleep between them that share a look at the clock.
const SAME_MOMENT: u32 = 16;

/// Starts the thread of a connection.
pub fn start(server: &'static Server, link: &Arc<Link>) -> io::Result<()> {
    let link = Arc::clone(link);
    let thread = thread::Builder::new().stack_size(STACK);
    thread.spawn(move || work(server, &link)).map(drop)
}

/// The memory of a link, for the ring.
struct Memory<'a>(&'a Mapping);

impl AsRef<[std::sync::atomic::AtomicU64]> for Memory<'_> {
    #[inline]
    fn as_ref(&self) -> &[std::sync::atomic::AtomicU64] {
        self.0.as_ref()
    }
}

fn work(server: &'static Server, link: &Link) {
    let mut ring = RingServer::new(Memory(link.ring()), Futex, &server.crowd);
    let mut connection = server.engine.connect();
    let (mut request, mut response) = (Vec::new(), Vec::new());
    let (mut logged, mut hurried) = (0, 0u32);
    let (mut seconds, mut coarse) = now();
    let mut place = Place::new();
    while !link.is_ending() {
        let look = if connection.has_events() { SOON } else { IDLE };
        // What waits for the log is a reason to look after it, once a look of sleep has passed.
        let mut slept = false;
        let taken = ring.next(&mut request, look, || {
            let due = std::mem::replace(&mut slept, true) && look == SOON;
            !due && !link.is_ending()
        });
        // Requests that come one upon the other are of one moment.
        hurried = if slept {
            0
        } else {
            (hurried + 1) % SAME_MOMENT
        };
        if hurried == 0 {
            (seconds, coarse) = now();
        }
        connection.set_time(seconds);
        let is_due = taken == Err(RingError::Gone) || seconds != logged;
        if is_due && connection.has_events() && connection.may_count() {
            server.log.write_at(coarse, &connection.take_due());
            logged = seconds;
        }
        match taken {
            Ok(()) => {
                place.be_at(ring.shared_core());
                answer(link, &mut connection, &request, &mut response);
            }
            Err(RingError::TooLarge) => refuse(Refusal::TooLarge, &mut response),
            Err(RingError::Gone) => continue,
        }
        // What is new is told before its answer is.
        if connection.has_news() {
            server.log.write_at(coarse, &connection.take_news());
        }
        if ring.answer(&response).is_err() {
            refuse(Refusal::TooLarge, &mut response);
            // This one fits.
            let _ = ring.answer(&response);
        }
        shrink(&mut request);
        shrink(&mut response);
    }
    server.log.write(&connection.close());
    server.links.remove(link);
}

/// Answers a request, once there is room for it.
fn answer(link: &Link, connection: &mut Connection, request: &[u8], response: &mut Vec<u8>) {
    let most = most_memory(request.len());
    let room = match request.len() {
        len if len > SMALL => take(connection.room(), most, link),
        _ => Some(Room::default()),
    };
    if room.is_none() {
        return refuse(Refusal::RoleShare, response);
    }
    match promise(most) {
        Some(_promise) => connection.call(request, response),
        None => refuse(Refusal::OutOfMemory, response),
    }
}

/// Takes the bytes that a large request needs of the role's share. Others of the role are answered
/// meanwhile, and give theirs back. None if they do not suffice in time, or the connection ends.
fn take(mut room: Room, bytes: usize, link: &Link) -> Option<Room> {
    for _ in 0..LOOKS {
        if room.fit(bytes).is_ok() {
            return Some(room);
        }
        if link.is_ending() {
            break;
        }
        thread::sleep(LOOK);
    }
    None
}

fn refuse(refusal: Refusal, response: &mut Vec<u8>) {
    response.clear();
    Response::from(refusal).encode(response);
}

/// Seconds and microseconds since 1970, as of the kernel's last tick: no system call.
pub fn now() -> (u64, u64) {
    let Ok(time) = clock_gettime(ClockId::CLOCK_REALTIME_COARSE) else {
        return (0, 0);
    };
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let micros = u64::try_from(time.tv_nsec() / 1000).unwrap_or(0);
    (seconds, seconds * 1_000_000 + micros)
}
