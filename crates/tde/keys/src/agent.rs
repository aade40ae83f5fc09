//! The agent: a process that holds keys which were opened once, for the programs of one user.
//!
//! Argon2 takes a second and hundreds of megabytes, and a key service a round trip. Commands that
//! run often, such as `restore_command`, pay that each time, unless an agent has the key.
//!
//! A client connects to the socket that `PGSEAL_AGENT` names and sends one request: the magic, the
//! cluster's id (16 bytes) and the key's id (16 bytes). The answer is the record of keys that
//! programs are given ([`KeySet::encode`]) for that cluster, or nothing if the agent lacks the key.
//! Each side looks at the user of the other: the agent serves its own user and root, and a client
//! takes keys from an agent of its own user or of root.
//!
//! An agent is a convenience: whatever it fails at, the slots are tried.

#[cfg(feature = "holder")]
mod holder;
#[cfg(feature = "holder")]
mod locked;

use std::env;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;
use pgseal_contract::variable;
use pgseal_crypto::{KeyId, MasterKey};
use pgseal_format::{ClusterId, Header};
use zeroize::Zeroizing;

use crate::key_set::KeySet;
#[cfg(feature = "holder")]
pub use holder::{AgentError, Holder};

/// The variable that names the agent's socket.
pub const SOCKET: &str = variable::AGENT.as_str();
/// The first bytes of a request, with the version of the protocol.
const MAGIC: &[u8; 8] = b"pgseala1";
const REQUEST: usize = MAGIC.len() + 16 + 16;
/// The longest answer: a record of one cluster with its paths.
const MAX_ANSWER: u64 = 64 * 1024;
/// The time that each side waits for the other. Both are on this machine.
const TIME: Duration = Duration::from_secs(2);

/// A key that the agent had.
pub struct Found {
    /// The slot that opened it for the agent, or 0 for a raw key file.
    pub slot: u8,
    pub master: MasterKey,
}

/// Returns the socket of the agent that the environment names.
pub fn socket() -> Option<PathBuf> {
    let named = env::var_os(SOCKET).filter(|path| !path.is_empty());
    named.map(PathBuf::from)
}

/// Asks the agent at `socket` for the key of a key file's header.
pub fn ask(socket: &Path, header: &Header) -> Option<Found> {
    let record = answer(socket, &request(header.cluster, header.key_id)).ok()?;
    let key = KeySet::decode(&record).ok()?.into_first()?;
    let is_it = key.cluster == header.cluster && key.master.key_id() == header.key_id;
    let slot = key.slot().unwrap_or(0);
    let master = Arc::into_inner(key.master).filter(|_| is_it)?;
    Some(Found { slot, master })
}

fn answer(socket: &Path, request: &[u8]) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut stream = UnixStream::connect(socket)?;
    trusted(&stream)?;
    stream.write_all(request)?;
    // The buffer never grows: copies of a key would stay behind.
    let mut record = Zeroizing::new(Vec::with_capacity(64 * 1024));
    stream.take(MAX_ANSWER).read_to_end(&mut record)?;
    Ok(record)
}

/// Bounds the time of a connection, and fails if the process at its other end is of another user
/// and not root's.
fn trusted(stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(TIME))?;
    stream.set_write_timeout(Some(TIME))?;
    let peer = getsockopt(stream, PeerCredentials)?.uid();
    match is_trusted(peer, geteuid().as_raw()) {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

fn is_trusted(peer: u32, own: u32) -> bool {
    peer == 0 || peer == own
}

fn request(cluster: ClusterId, key: KeyId) -> [u8; REQUEST] {
    let mut request = [0; REQUEST];
    request[..8].copy_from_slice(MAGIC);
    request[8..24].copy_from_slice(&cluster.0);
    request[24..].copy_from_slice(&key.0);
    request
}

/// Reads a request.
#[cfg(any(feature = "holder", test))]
fn asked(request: &[u8; REQUEST]) -> Option<(ClusterId, KeyId)> {
    let rest = request.strip_prefix(MAGIC)?;
    let (cluster, key) = rest.split_first_chunk::<16>()?;
    Some((ClusterId(*cluster), KeyId(key.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_set::tests::record;
    use pgseal_crypto::{KeyLength, Suite};
    use std::os::unix::net::UnixListener;

    /// Asks an agent that answers `record` to whatever it is asked.
    fn asked_for(cluster: u8, key: u8, record: &[u8]) -> Option<Found> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("agent");
        let listener = UnixListener::bind(&path).expect("a socket");
        let header = Header {
            suite: Suite::AesXts,
            length: KeyLength::Bits192,
            cluster: ClusterId([cluster; 16]),
            key_id: MasterKey::from_bytes(&mut [key; 32]).key_id(),
            created: 1,
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("a client");
                stream.read_exact(&mut [0; REQUEST]).expect("a request");
                stream.write_all(record).expect("a client that reads");
            });
            ask(&path, &header)
        })
    }

    /// An agent that is mistaken, or a record of another cluster, must not decrypt this one.
    #[test]
    fn only_the_key_that_was_asked_for_is_taken() {
        let found = asked_for(2, 2, &record(2)).expect("the key");
        assert_eq!((found.slot, found.master.expose()), (2, &[2; 32]));
        let raw = asked_for(1, 1, &record(1)).expect("the key of no slot");
        assert_eq!((raw.slot, raw.master.expose()), (0, &[1; 32]));
        assert!(asked_for(2, 3, &record(2)).is_none(), "another key");
        assert!(asked_for(3, 2, &record(2)).is_none(), "another cluster");
        assert!(asked_for(2, 2, b"").is_none(), "the agent lacks the key");
        assert!(asked_for(2, 2, b"no record").is_none());
    }

    #[test]
    fn requests() {
        let (cluster, key) = (ClusterId([1; 16]), KeyId([2; 16]));
        let mut sent = request(cluster, key);
        assert_eq!(asked(&sent), Some((cluster, key)));
        sent[7] ^= 1;
        assert_eq!(asked(&sent), None);
    }

    #[test]
    fn an_agent_of_this_user_is_asked() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("agent");
        let listener = UnixListener::bind(&path).expect("a socket");
        let sent = request(ClusterId([1; 16]), KeyId([2; 16]));
        let agent = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = [0; REQUEST];
            stream.read_exact(&mut request).expect("a request");
            stream.write_all(b"record").expect("a client that reads");
            request
        });
        let record = answer(&path, &sent).expect("an answer");
        assert_eq!(record.as_slice(), b"record");
        assert_eq!(agent.join().expect("no panic"), sent);
        assert!(answer(&path, &sent).is_err(), "nobody listens any more");
    }

    #[test]
    fn root_and_the_same_user_are_trusted() {
        for (peer, own, expected) in [
            (0, 26, true),
            (26, 26, true),
            (0, 0, true),
            (26, 0, false),
            (27, 26, false),
        ] {
            assert_eq!(is_trusted(peer, own), expected, "{peer} {own}");
        }
    }

    /// A process that stops half-way must not hold up a restore.
    #[test]
    fn neither_side_waits_for_ever() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        trusted(&ours).expect("both ends are this process");
        assert_eq!(ours.read_timeout().expect("a socket"), Some(TIME));
        assert_eq!(ours.write_timeout().expect("a socket"), Some(TIME));
    }
}
