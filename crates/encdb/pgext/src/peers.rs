//! The meeting of a leader and its parallel workers, and how each proves the other's identity.
//!
//! The leader listens at a socket whose name is in no file system. Others see the name while the
//! socket is there, and may connect; they do not know it before, so that no process takes it first.
//!
//! - The worker asks the kernel which process listens: it is the leader of its lock group.
//! - The leader asks the kernel which process has connected, and PostgreSQL whether that one is a
//!   parallel worker of its own. A process may leave its connection to a child and end, and a
//!   worker may get its number. So the leader holds on to the process first, then asks PostgreSQL,
//!   then sends a challenge: the answer is the worker's if the kernel says so of its sender, and if
//!   the process that the leader held on to still lives when the answer has come. Its number is
//!   no other process's that long.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fmt::Write as _;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::socket::sockopt::{PassCred, PeerCredentials};
use nix::sys::socket::{
    getsockopt, recvmsg, sendmsg, setsockopt, ControlMessage, ControlMessageOwned, MsgFlags,
    UnixAddr, UnixCredentials,
};
use nix::unistd::Uid;
use pgseal_evaluator::client::{reach, PATIENCE};

/// Returns whether PostgreSQL has a process as a parallel worker of this backend. Called in a
/// thread.
pub(crate) type IsWorker = extern "C" fn(c_int) -> c_int;

const CHALLENGE: usize = 16;
type Challenge = [u8; CHALLENGE];

/// The length of a message's head in bytes: its kind, and how many bytes follow.
const HEAD: usize = 5;
/// The limit of a message in bytes, which is more than the keys and the grants of any session.
const MAX_MESSAGE: usize = 1 << 30;
/// The number of descriptors that one message brings at most.
pub(crate) const MAX_DESCRIPTORS: usize = 2;

/// The name under which a leader and its workers meet.
pub(crate) struct Meeting {
    name: String,
    leader: i32,
}

impl Meeting {
    /// Names the meeting of the leader with this process id, which started at this time, in a
    /// cluster with this nonce. A role that reads the server's files can find the name, and take it
    /// first: then the leader's workers have no session. The name proves nothing; both sides check
    /// each other's process.
    pub(crate) fn new(nonce: &[u8; 32], started: i64, leader: i32) -> Self {
        let label = b"pgseal encdb meeting\0";
        let parts = [
            &label[..],
            nonce,
            &started.to_le_bytes(),
            &leader.to_le_bytes(),
        ];
        let mut name = String::from("pgseal-encdb-");
        for byte in &pgseal_crypto::sha256(&parts)[..16] {
            write!(name, "{byte:02x}").expect("a string takes text");
        }
        Self { name, leader }
    }

    /// Opens the leader's end.
    pub(crate) fn listen(&self) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&self.address()?)
    }

    /// Returns the abstract address, which is no path: it ends with the last listener.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(&self.name)
    }

    /// Connects a worker to its leader, and checks it; none if the leader does not listen.
    pub(crate) fn go(&self, goes_on: &mut dyn FnMut() -> bool) -> io::Result<Option<UnixStream>> {
        let address = UnixAddr::new_abstract(self.name.as_bytes())?;
        let socket = match reach(&address, goes_on) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
            reached => reached?,
        };
        if server_process(&socket)? != self.leader {
            return Err(refused());
        }
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut challenge: Challenge = [0; CHALLENGE];
        read(&socket, &mut challenge, goes_on)?;
        write(&socket, &challenge, &[])?;
        Ok(Some(socket))
    }
}

/// Makes sure that the other end is a parallel worker of this backend, or fails.
pub(crate) fn know_worker(peer: &UnixStream, is_worker: IsWorker) -> io::Result<()> {
    let pid = server_process(peer)?;
    let process = Process::hold(pid)?;
    if is_worker(pid) == 0 {
        return Err(refused());
    }
    peer.set_read_timeout(Some(PATIENCE))?;
    peer.set_write_timeout(Some(PATIENCE))?;
    setsockopt(peer, PassCred, &true)?;
    let challenge: Challenge = pgseal_crypto::random_bytes().map_err(io::Error::other)?;
    write(peer, &challenge, &[])?;
    let (answer, sender) = read_signed(peer)?;
    // The order counts: the process lives after its answer has come.
    match answer == challenge && sender == Some(pid) && process.lives() {
        true => Ok(()),
        false => Err(refused()),
    }
}

/// Returns the process at the other end. Fails unless it is of the server's own user.
fn server_process(socket: &UnixStream) -> io::Result<i32> {
    let other = getsockopt(socket, PeerCredentials)?;
    match Uid::from_raw(other.uid()) == Uid::effective() {
        true => Ok(other.pid()),
        false => Err(refused()),
    }
}

fn refused() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

/// A process that is held by descriptor, so that no other one is taken for it.
struct Process(OwnedFd);

impl Process {
    fn hold(pid: i32) -> io::Result<Self> {
        // SAFETY: pidfd_open(2) takes no pointer.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let raw = RawFd::try_from(raw).map_err(io::Error::other)?;
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(own(raw)))
    }

    fn lives(&self) -> bool {
        let mut polled = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut polled, PollTimeout::ZERO), Ok(0))
    }
}

fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the kernel just made `descriptor` for the caller, which passes it on once.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Sends a message, with descriptors.
pub(crate) fn send(
    socket: &UnixStream,
    kind: u8,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut head = [kind; HEAD];
    head[1..].copy_from_slice(&len.to_le_bytes());
    write(socket, &head, descriptors)?;
    write(socket, bytes, &[])
}

/// Receives a message: its kind, its bytes and its descriptors.
pub(crate) fn receive(
    socket: &UnixStream,
    goes_on: &mut dyn FnMut() -> bool,
) -> io::Result<(u8, Vec<u8>, Vec<OwnedFd>)> {
    let mut head = [0; HEAD];
    let descriptors = read(socket, &mut head, goes_on)?;
    let [kind, len @ ..] = head;
    let len = usize::try_from(u32::from_le_bytes(len)).map_err(io::Error::other)?;
    if len > MAX_MESSAGE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // Reserved at once: growing would leave copies behind.
    let mut bytes = vec![0; len];
    read(socket, &mut bytes, goes_on)?;
    Ok((kind, bytes, descriptors))
}

/// Writes all; the descriptors go with the first bytes.
fn write(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let mut rest = bytes;
    while !rest.is_empty() {
        let rights = [ControlMessage::ScmRights(&raw)];
        let control = if raw.is_empty() { &[] } else { &rights[..] };
        let parts = [IoSlice::new(rest)];
        match sendmsg::<()>(
            socket.as_raw_fd(),
            &parts,
            control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        ) {
            Ok(sent) => {
                rest = rest.get(sent..).unwrap_or_default();
                raw.clear();
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Reads until `into` is full, and returns the descriptors that came with it.
fn read(
    socket: &UnixStream,
    into: &mut [u8],
    goes_on: &mut dyn FnMut() -> bool,
) -> io::Result<Vec<OwnedFd>> {
    let mut space = cmsg_space!([RawFd; MAX_DESCRIPTORS]);
    let (mut descriptors, mut got) = (Vec::new(), 0);
    while got < into.len() {
        let mut parts = [IoSliceMut::new(&mut into[got..])];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Err(Errno::EINTR) if goes_on() => {}
            Err(errno) => return Err(errno.into()),
            Ok(message) if message.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(message) => {
                got += message.bytes;
                let brought = message.cmsgs()?.filter_map(|control| match control {
                    ControlMessageOwned::ScmRights(raw) => Some(raw),
                    _ => None,
                });
                descriptors.extend(brought.flatten().map(own));
            }
        }
    }
    Ok(descriptors)
}

/// Reads an answer to a challenge, and returns it with the process that has sent it.
fn read_signed(socket: &UnixStream) -> io::Result<(Challenge, Option<i32>)> {
    let mut answer: Challenge = [0; CHALLENGE];
    // There is room for nothing else: descriptors do not come in.
    let mut space = cmsg_space!(UnixCredentials);
    let mut parts = [IoSliceMut::new(&mut answer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    // Bytes of one process are never read together with those of another.
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    let whole = message.bytes == CHALLENGE;
    let sender = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmCredentials(sender) => Some(sender.pid()),
        _ => None,
    });
    Ok((answer, sender.filter(|_| whole)))
}
