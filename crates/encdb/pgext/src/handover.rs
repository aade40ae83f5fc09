//! The transfer of a session to the parallel workers of its backend.
//!
//! A leader is at work while its workers begin, so a thread of its own waits for them ([`peers`]),
//! and gives each what it needs: the session itself where the engine is in the backend, and
//! otherwise a connection to the evaluator, which the leader has brought into the session. Tickets
//! stay with the leader. Nothing is in a file, in shared memory or under a name; what goes over
//! is in the kernel's memory, which is never swapped, until the worker reads it.
//!
//! The thread calls nothing of PostgreSQL's except [`IsWorker`], and takes no signals: PostgreSQL's
//! handlers are for its own threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow};
use pgseal_evaluator::client::{Ends, Life, Ring, PATIENCE};
use pgseal_evaluator_proto::{
    AttachAs, Refusal, Report, Request, Response, SessionRequest, Tickets,
};

use crate::peers::{self, IsWorker, Meeting};

const STACK: usize = 256 << 10;
/// The pause, after the kernel refused, before a worker is accepted again.
const PAUSE: Duration = Duration::from_millis(10);

/// Kinds of messages.
const NOTHING: u8 = b'N';
const SESSION: u8 = b'S';
const EVALUATOR: u8 = b'E';

/// The things that a leader has for its workers.
pub(crate) enum Left {
    /// It has no session.
    Nothing,
    /// Its session, of an engine in this process. The heap wipes it when its last owner drops it.
    Session(Arc<Vec<u8>>),
    /// Its session in an evaluator's process.
    Evaluator(Door),
}

/// The door to a session in an evaluator's process.
pub(crate) struct Door {
    pub(crate) socket: PathBuf,
    pub(crate) database: [u8; 16],
    /// The role of whose share the workers' connections are.
    pub(crate) role: u32,
    pub(crate) tickets: Tickets,
    /// The life of the connection that leads the session.
    pub(crate) life: Life,
}

/// The things that a worker was given.
pub(crate) enum Taken {
    /// Its leader has no session.
    Nothing,
    /// Its leader's session.
    Session(Vec<u8>),
    /// The evaluator's answer to the leader, and the connection in the session if it says so.
    Evaluator(Vec<u8>, Option<Ends>),
}

/// A leader's side, from its first session to the end of the process.
pub(crate) struct Handover(Arc<Mutex<Slot>>);

/// The place where a leader leaves things for its workers.
struct Slot {
    left: Left,
    /// How often something was left here.
    times: u64,
}

impl Handover {
    /// Begins to wait for workers, with nothing for them.
    pub(crate) fn begin(meeting: &Meeting, is_worker: IsWorker) -> io::Result<Self> {
        let listener = meeting.listen()?;
        let slot = Arc::new(Mutex::new(Slot {
            left: Left::Nothing,
            times: 0,
        }));
        let shared = Arc::clone(&slot);
        let thread = thread::Builder::new().stack_size(STACK);
        without_signals(|| thread.spawn(move || wait(&listener, &shared, is_worker)))?;
        Ok(Self(slot))
    }

    /// Leaves this for workers, in place of what was there. It does not wait for an evaluator that
    /// is asked to admit a worker just then, and may have been stopped.
    pub(crate) fn leave(&self, left: Left) {
        let mut slot = lock(&self.0);
        slot.times += 1;
        slot.left = left;
    }
}

impl Slot {
    /// Takes a door out, or a copy of anything else; also the number by which
    /// [`Slot::put_back`] knows that nothing else was left here since.
    fn take(&mut self) -> (Left, u64) {
        let taken = match &mut self.left {
            Left::Session(session) => Left::Session(Arc::clone(session)),
            other => std::mem::replace(other, Left::Nothing),
        };
        (taken, self.times)
    }

    /// Puts a door back, or drops it if the leader has left something else since.
    fn put_back(&mut self, door: Door, times: u64) {
        if self.times == times {
            self.left = Left::Evaluator(door);
        }
    }
}

/// Takes what its leader gives to this parallel worker.
pub(crate) fn take(meeting: &Meeting, mut goes_on: impl FnMut() -> bool) -> io::Result<Taken> {
    let until = Instant::now() + PATIENCE;
    let mut goes_on = || goes_on() && Instant::now() < until;
    let Some(leader) = meeting.go(&mut goes_on)? else {
        return Ok(Taken::Nothing);
    };
    let (kind, bytes, descriptors) = peers::receive(&leader, &mut goes_on)?;
    let mut descriptors = descriptors.into_iter();
    match (kind, descriptors.next(), descriptors.next()) {
        (NOTHING, None, None) => Ok(Taken::Nothing),
        (SESSION, None, None) => Ok(Taken::Session(bytes)),
        (EVALUATOR, None, None) => Ok(Taken::Evaluator(bytes, None)),
        (EVALUATOR, Some(socket), Some(memory)) => {
            let socket = UnixStream::from(socket);
            Ok(Taken::Evaluator(bytes, Some(Ends { socket, memory })))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `begin` with all signals blocked, so that a thread that it begins takes none.
fn without_signals<T>(begin: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let begun = begin();
    before.thread_set_mask()?;
    begun
}

fn wait(listener: &UnixListener, slot: &Mutex<Slot>, is_worker: IsWorker) {
    loop {
        match listener.accept() {
            // A process that is no worker is told nothing, and one that is gone needs nothing.
            Ok((peer, _)) => drop(give(&peer, slot, is_worker)),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

fn give(peer: &UnixStream, slot: &Mutex<Slot>, is_worker: IsWorker) -> io::Result<()> {
    peers::know_worker(peer, is_worker)?;
    // The lock is not held here: the leader does not wait for a worker that does not read.
    match Gift::of(slot) {
        Gift::Nothing => peers::send(peer, NOTHING, &[], &[]),
        Gift::Session(session) => peers::send(peer, SESSION, &session, &[]),
        Gift::Evaluator(admitted) => match admitted {
            Ok(ends) => pass(
                peer,
                &Response::Done,
                &[ends.socket.as_fd(), ends.memory.as_fd()],
            ),
            Err(report) => pass(peer, &Response::Refused(report), &[]),
        },
    }
}

/// The things that go to one worker.
enum Gift {
    Nothing,
    Session(Arc<Vec<u8>>),
    Evaluator(Result<Ends, Report<'static>>),
}

impl Gift {
    /// Takes it from what is left now. A door is taken out while the evaluator admits the worker,
    /// because its tickets advance, and because the leader must not wait for the evaluator. One
    /// thread does this, so that no other worker misses the door.
    fn of(slot: &Mutex<Slot>) -> Self {
        let (left, times) = lock(slot).take();
        match left {
            Left::Nothing => Self::Nothing,
            Left::Session(session) => Self::Session(session),
            Left::Evaluator(mut door) => {
                let admitted = door.admit_one();
                lock(slot).put_back(door, times);
                Self::Evaluator(admitted)
            }
        }
    }
}

fn pass(peer: &UnixStream, answer: &Response<'_>, ends: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut bytes = Vec::new();
    answer.encode(&mut bytes);
    peers::send(peer, EVALUATOR, &bytes, ends)
}

impl Door {
    /// Returns a connection in the session, for one worker, or why there is none, in the worker's
    /// words. An attempt that was given up may have taken its ticket: then the next is good.
    /// Another evaluator knows none: then the session ended with the one that had it.
    fn admit_one(&mut self) -> Result<Ends, Report<'static>> {
        let admitted = match self.attach() {
            Err(report) if is_unknown(&report) => self.attach(),
            attached => attached,
        };
        match admitted {
            Err(report) if is_unknown(&report) && !self.life.lasts() => {
                Err(Refusal::EvaluatorAbsent.into())
            }
            admitted => admitted,
        }
    }

    fn attach(&mut self) -> Result<Ends, Report<'static>> {
        let until = Instant::now() + PATIENCE;
        let goes_on = || Instant::now() < until;
        let ends = Ends::reach(&self.socket, goes_on).map_err(Refusal::from)?;
        let again = ends.try_clone().map_err(|_| Refusal::EvaluatorAbsent)?;
        let (mut request, mut answer) = (Vec::new(), Vec::new());
        let attach = Request::Session(SessionRequest::Attach {
            kind: AttachAs::ParallelWorker {
                ticket: self.tickets.ticket(),
            },
            database: self.database,
            role: self.role,
        });
        attach.encode(&mut request);
        let mut ring = Ring::over(again).map_err(Refusal::from)?;
        ring.call(&request, &mut answer, goes_on)?;
        let attached = match Response::parse(&answer) {
            Ok(Response::Done) => Ok(ends),
            Ok(Response::Refused(report)) => Err(report.into_owned()),
            _ => Err(Refusal::MalformedRequest.into()),
        };
        // Refused for another reason, the ticket may still be good: the leader is never ahead.
        if attached.as_ref().err().is_none_or(is_unknown) {
            self.tickets.advance();
        }
        attached
    }
}

fn is_unknown(report: &Report<'_>) -> bool {
    report.code == Refusal::UnknownTicket.code()
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream as Stream;

    use pgseal_crypto::Secret;

    use super::*;

    extern "C" fn anybody(_: c_int) -> c_int {
        1
    }

    extern "C" fn nobody(_: c_int) -> c_int {
        0
    }

    fn this() -> i32 {
        i32::try_from(std::process::id()).expect("a process id")
    }

    #[test]
    fn a_worker_is_given_what_is_left_now() {
        let meeting = |leader| Meeting::new(&[1; 32], 1, leader);
        let given = || take(&meeting(this()), || true).expect("a leader's answer");
        assert!(matches!(given(), Taken::Nothing), "nobody listens");
        let handover = Handover::begin(&meeting(this()), anybody).expect("a socket");
        assert!(matches!(given(), Taken::Nothing));
        for len in [0, 7, 3 << 20] {
            handover.leave(Left::Session(vec![7; len].into()));
            assert!(matches!(given(), Taken::Session(bytes) if bytes == vec![7; len]));
        }
        handover.leave(Left::Nothing);
        assert!(matches!(given(), Taken::Nothing));
        assert!(Handover::begin(&meeting(this()), anybody).is_err());
    }

    #[test]
    fn a_worker_that_does_not_read_its_session_does_not_hold_up_its_leader() {
        let meeting = Meeting::new(&[5; 32], 1, this());
        let handover = Handover::begin(&meeting, anybody).expect("a socket");
        // More than the kernel keeps for the worker.
        handover.leave(Left::Session(vec![7; 3 << 20].into()));
        let mut worker = meeting
            .go(&mut || true)
            .expect("an answer")
            .expect("a leader");
        let mut first = [0];
        worker.read_exact(&mut first).expect("the session's head");
        assert_eq!(first, [SESSION]);
        let begun = Instant::now();
        handover.leave(Left::Nothing);
        assert!(begun.elapsed() < PATIENCE / 5);
    }

    #[test]
    fn a_leader_does_not_wait_for_an_evaluator_that_does_not_answer() {
        let socket = std::env::temp_dir().join(format!("pgseal-handover-{}", this()));
        let stopped = UnixListener::bind(&socket).expect("a socket");
        let (leads, _evaluator) = Stream::pair().expect("two sockets");
        let door = || Door {
            socket: socket.clone(),
            database: [0; 16],
            role: 10,
            tickets: Tickets::new(Secret::generate().expect("random bytes")),
            life: Life::of(&leads).expect("a descriptor"),
        };
        let meeting = || Meeting::new(&[7; 32], 1, this());
        let handover = Handover::begin(&meeting(), anybody).expect("a socket");
        let asks = || thread::spawn(move || take(&meeting(), || true));
        let refused = |worker: thread::JoinHandle<io::Result<Taken>>| {
            let taken = worker.join().expect("no panic").expect("an answer");
            matches!(taken, Taken::Evaluator(_, None))
        };
        for leaves in [Left::Nothing, Left::Session(b"session".to_vec().into())] {
            handover.leave(Left::Evaluator(door()));
            let worker = asks();
            let (asked, _) = stopped.accept().expect("the leader's thread");
            let begun = Instant::now();
            handover.leave(leaves);
            assert!(begun.elapsed() < PATIENCE / 5);
            drop(asked);
            assert!(refused(worker));
            // The next worker gets what was left then, and not the door.
            let next = asks().join().expect("no panic").expect("an answer");
            assert!(matches!(next, Taken::Nothing | Taken::Session(_)));
        }
        // A door that nothing took the place of is there for the next worker.
        handover.leave(Left::Evaluator(door()));
        for _ in 0..2 {
            let worker = asks();
            drop(stopped.accept().expect("the leader's thread"));
            assert!(refused(worker));
        }
        std::fs::remove_file(&socket).expect("the socket");
    }

    #[test]
    fn who_is_no_worker_is_told_nothing() {
        let meeting = Meeting::new(&[2; 32], 1, this());
        let handover = Handover::begin(&meeting, nobody).expect("a socket");
        handover.leave(Left::Session(b"session".to_vec().into()));
        assert!(take(&meeting, || true).is_err());
        let mut stranger = meeting.connect();
        let mut told = Vec::new();
        stranger.read_to_end(&mut told).expect("an end");
        assert!(told.is_empty());
    }

    /// The challenge goes to a worker, and another process answers.
    #[test]
    fn an_answer_of_another_process_is_none() {
        let meeting = Meeting::new(&[3; 32], 1, this());
        let handover = Handover::begin(&meeting, anybody).expect("a socket");
        handover.leave(Left::Session(b"session".to_vec().into()));
        let worker = meeting.connect();
        let child = std::process::Command::new("cat")
            .stdin(OwnedFd::from(worker.try_clone().expect("a descriptor")))
            .stdout(OwnedFd::from(worker.try_clone().expect("a descriptor")))
            .spawn();
        let mut child = child.expect("cat");
        assert!(child.wait().expect("its end").success());
        let mut told = Vec::new();
        let mut worker = worker;
        assert_eq!(worker.read_to_end(&mut told).expect("an end"), 0);
    }

    #[test]
    fn another_than_the_leader_gets_no_worker() {
        let name_of_another = Meeting::new(&[4; 32], 1, this() + 1);
        let _impostor = name_of_another.listen().expect("a socket");
        assert!(take(&name_of_another, || true).is_err());
    }

    impl Meeting {
        fn connect(&self) -> Stream {
            Stream::connect_addr(&self.address().expect("an address")).expect("who listens")
        }
    }
}
