//! A backend's way to an isolated evaluator: the socket, the ring that comes over it, calls.
//!
//! The evaluator greets with 10 bytes (`"PGSEALEV" | version u8 | status u8`) and, if the status is
//! 0, the descriptor of a ring. The socket then carries nothing more: that it is open says that
//! the other side lives.

use std::io::{self, IoSliceMut};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::socket::sockopt::SendTimeout;
use nix::sys::socket::{
    connect, recvmsg, setsockopt, socket, AddressFamily, ControlMessageOwned, MsgFlags, SockFlag,
    SockType, UnixAddr,
};
use nix::sys::time::TimeVal;
use pgseal_evaluator_proto::ring::{Futex, Mapping, RingClient, RingError};
use pgseal_evaluator_proto::Refusal;

/// The bytes that an evaluator sends first.
pub const GREETING: [u8; 8] = *b"PGSEALEV";
/// The version of greeting, ring and requests.
pub const VERSION: u8 = 3;

/// How long the greeting may take.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no ring.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No process listens there, or we may not go there.
    #[error("no evaluator listens at the socket: {0}")]
    Absent(io::Error),
    /// The evaluator takes no more connections.
    #[error("the evaluator takes no more connections")]
    Full,
    /// The evaluator does not want this user.
    #[error("the evaluator takes no connections from this user")]
    Refused,
    /// The evaluator says something else than we understand.
    #[error("the evaluator is of another version")]
    Version,
}

impl From<ConnectError> for Refusal {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Absent(_) | ConnectError::Refused => Self::EvaluatorAbsent,
            ConnectError::Full => Self::TooMany,
            ConnectError::Version => Self::MalformedRequest,
        }
    }
}

/// The ends of a connection: as descriptors they go from one process to another.
pub struct Ends {
    /// The socket: as long as it is open, both sides live
    pub socket: UnixStream,
    /// The memory of the ring
    pub memory: OwnedFd,
}

impl Ends {
    /// Connects to the evaluator that listens at `path`, as [`Ring::connect_while`].
    pub fn reach(path: &Path, mut goes_on: impl FnMut() -> bool) -> Result<Self, ConnectError> {
        let address = UnixAddr::new(path).map_err(|errno| ConnectError::Absent(errno.into()))?;
        let socket = reach(&address, &mut goes_on).map_err(ConnectError::Absent)?;
        let patience = socket.set_read_timeout(Some(PATIENCE));
        let memory = patience
            .map_err(ConnectError::Absent)
            .and_then(|()| receive_ring(&socket, goes_on))?;
        Ok(Self { socket, memory })
    }

    /// Returns the same connection once more.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            socket: self.socket.try_clone()?,
            memory: self.memory.try_clone()?,
        })
    }
}

/// A connection to an evaluator. Everything that it was told ends with it.
pub struct Ring {
    socket: UnixStream,
    ring: RingClient<Mapping, Futex>,
}

impl Ring {
    /// Connects to the evaluator that listens at `path`.
    pub fn connect(path: &Path) -> Result<Self, ConnectError> {
        Self::connect_while(path, || true)
    }

    /// Connects as [`Ring::connect`]; `goes_on` is asked after every signal whether to wait on for
    /// the evaluator's greeting, and for a place in its queue.
    pub fn connect_while(path: &Path, goes_on: impl FnMut() -> bool) -> Result<Self, ConnectError> {
        Self::over(Ends::reach(path, goes_on)?)
    }

    /// Goes on with a connection, which has no other user from now on.
    pub fn over(ends: Ends) -> Result<Self, ConnectError> {
        let mapping = Mapping::open(ends.memory.as_fd()).map_err(|_| ConnectError::Version)?;
        Ok(Self {
            socket: ends.socket,
            ring: RingClient::new(mapping, Futex),
        })
    }

    /// Posts a request and waits for its answer, which takes the place of what `response` held.
    /// `goes_on` is asked after every signal, and several times a second, whether to wait on. The
    /// ring stays of use when the caller gives up, and is of none after `EvaluatorAbsent` for
    /// another reason.
    #[inline]
    pub fn call(
        &mut self,
        request: &[u8],
        response: &mut Vec<u8>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(), Refusal> {
        let socket = &self.socket;
        let called = self
            .ring
            .call(request, response, || goes_on() && is_open(socket));
        called.map_err(|error| match error {
            RingError::TooLarge => Refusal::TooLarge,
            RingError::Gone => Refusal::EvaluatorAbsent,
        })
    }

    /// Whether the evaluator still lives. A system call.
    pub fn is_open(&self) -> bool {
        is_open(&self.socket)
    }

    /// Returns a handle for a caller that only asks whether the evaluator still lives.
    pub fn life(&self) -> io::Result<Life> {
        Life::of(&self.socket)
    }

    /// Ends the connection at once, whichever process or thread still has a descriptor of it.
    pub fn end(&self) {
        // It fails if the other side has ended it.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Returns whether the other end of a connection to an evaluator is still there.
pub struct Life(UnixStream);

impl Life {
    /// Returns a handle on the connection over this socket.
    pub fn of(socket: &UnixStream) -> io::Result<Self> {
        socket.try_clone().map(Self)
    }

    /// Whether the evaluator that took the connection still lives.
    pub fn lasts(&self) -> bool {
        is_open(&self.0)
    }
}

/// A socket to who listens there. Its queue may be full, of one that was stopped; without a time
/// limit the kernel would wait on after every signal.
pub fn reach(address: &UnixAddr, goes_on: &mut dyn FnMut() -> bool) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let patience = TimeVal::new(PATIENCE.as_secs().try_into().unwrap_or(1), 0);
    setsockopt(&socket, SendTimeout, &patience)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match connect(socket.as_raw_fd(), address) {
            Err(Errno::EINTR) if goes_on() && Instant::now() < until => {}
            connected => return Ok(connected.map(|()| UnixStream::from(socket))?),
        }
    }
}

/// Nothing comes over the socket, so whatever there is to read is its end.
fn is_open(socket: &UnixStream) -> bool {
    let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    !matches!(poll(&mut polled, PollTimeout::ZERO), Ok(ready) if ready > 0)
}

/// The memory of the ring that an evaluator hands over when it greets.
pub fn receive_ring(
    socket: &UnixStream,
    goes_on: impl FnMut() -> bool,
) -> Result<OwnedFd, ConnectError> {
    let mut bytes = [0; GREETING.len() + 2];
    let memory = receive(socket, &mut bytes, goes_on)?;
    match bytes
        .split_last_chunk()
        .map(|(greeting, rest)| (greeting == GREETING, rest))
    {
        Some((true, [VERSION, 0])) => memory.ok_or(ConnectError::Version),
        Some((true, [VERSION, _])) => Err(ConnectError::Full),
        Some((true, _)) => Err(ConnectError::Version),
        _ => Err(ConnectError::Refused),
    }
}

/// Waits for the greeting, and gives the first descriptor that comes with it. A signal ends the
/// kernel's wait and not ours: a socket with a time limit is read anew only by those who ask.
fn receive(
    socket: &UnixStream,
    bytes: &mut [u8],
    mut goes_on: impl FnMut() -> bool,
) -> Result<Option<OwnedFd>, ConnectError> {
    let mut space = cmsg_space!(i32);
    let mut parts = [IoSliceMut::new(bytes)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_WAITALL;
    let until = Instant::now() + PATIENCE;
    let received = loop {
        match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Err(Errno::EINTR) if goes_on() && Instant::now() < until => {}
            Err(errno) => return Err(ConnectError::Absent(errno.into())),
            Ok(received) => break received,
        }
    };
    let control = received.cmsgs().map_err(|_| ConnectError::Version)?;
    let descriptors = control.filter_map(|message| match message {
        ControlMessageOwned::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let mut owned = descriptors.flatten().map(crate::os::own);
    let memory = owned.next();
    owned.for_each(drop);
    Ok(memory)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use nix::sys::socket::{bind, listen, Backlog};

    #[test]
    fn a_full_queue_is_waited_for_and_not_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let stopped = socket(
            AddressFamily::Unix,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .unwrap();
        bind(stopped.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&stopped, Backlog::new(1).unwrap()).unwrap();
        let _queued = [(); 2].map(|()| UnixStream::connect(&path).unwrap());
        let start = Instant::now();
        let refused = Ring::connect_while(&path, || true);
        assert!(matches!(refused, Err(ConnectError::Absent(_))));
        assert!((PATIENCE..2 * PATIENCE).contains(&start.elapsed()));
    }
}
