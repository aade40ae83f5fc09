//! The keys of clusters on their way to a program: one typed set. It is decoded once, from what a
//! wrapper further up left, and encoded once, when a program is given it.
//!
//! The record is in a memfd that can never change; `PGSEAL_KEYS_FD` names its descriptor.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;

use nix::unistd::close;
use pgseal_contract::variable;
use pgseal_crypto::{KeyId, KeyLength, MasterKey, Suite};
use pgseal_format::handover::{self, Entry, Functions, HandoverError, Opener};
use pgseal_format::ClusterId;
use zeroize::Zeroizing;

use crate::approved::Demand;
use crate::cluster::Root;
use crate::exit::{Code, Exit};
use crate::machine::MachineError;
use crate::memfd;
use crate::unlock::Unlocked;

/// The variable that names the descriptor of a program's keys. A server closes the descriptor; a
/// tool leaves it open for the wrappers that it starts.
pub const KEYS_FD: &str = variable::KEYS_FD.as_str();

/// Why keys cannot be passed on.
#[derive(Debug, thiserror::Error)]
pub enum KeySetError {
    #[error("keys cannot be passed to the program ({0}): check the limit of open files")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Record(#[from] HandoverError),
    #[error(transparent)]
    Machine(#[from] MachineError),
}

impl Exit for KeySetError {
    fn code(&self) -> Code {
        match self {
            Self::Io(_) | Self::Record(_) => Code::Io,
            Self::Machine(error) => error.code(),
        }
    }
}

/// The key of the cluster at one path.
pub struct ClusterKey {
    pub root: PathBuf,
    pub suite: Suite,
    pub length: KeyLength,
    pub cluster: ClusterId,
    pub key_id: KeyId,
    pub master: Arc<MasterKey>,
    /// The number of the slot that opened it, and its kind.
    opened_by: Option<(u8, String)>,
}

/// Keys of clusters, each under every spelling of its path, and the key material files.
pub struct KeySet {
    keys: Vec<ClusterKey>,
    /// The key material files, as the kernel is to find them: a server shows them to no client.
    files: BTreeSet<PathBuf>,
}

impl KeySet {
    /// Returns the keys of these clusters.
    #[must_use]
    pub fn of(clusters: &[Unlocked]) -> Self {
        let spelled = clusters.iter().flat_map(|cluster| {
            let roots = std::iter::once(&cluster.root.path).chain(&cluster.root.aliases);
            roots.map(|root| ClusterKey::of(cluster, root))
        });
        Self {
            keys: spelled.collect(),
            files: key_material(clusters),
        }
    }

    /// Takes the keys that a wrapper further up left open for this process, and closes their
    /// descriptor. None if the number is no longer that of pgseal's memfd, or the record cannot be
    /// read.
    pub fn inherited() -> Result<Option<Self>, KeySetError> {
        let Some(fd) = env::var(KEYS_FD).ok().and_then(|text| text.parse().ok()) else {
            return Ok(None);
        };
        if !memfd::is_ours(fd) {
            return Ok(None);
        }
        let record = Zeroizing::new(fs::read(format!("/proc/self/fd/{fd}"))?);
        close(fd).map_err(io::Error::from)?;
        Ok(Self::decode(&record).ok())
    }

    /// Reads a record.
    pub fn decode(record: &[u8]) -> Result<Self, HandoverError> {
        let path = |bytes| PathBuf::from(OsStr::from_bytes(bytes));
        Ok(Self {
            keys: handover::decode(record)?.map(ClusterKey::decoded).collect(),
            files: handover::files(record)?.map(path).collect(),
        })
    }

    /// Returns the record that a program is given, with the machine's demand for its library.
    pub fn encode(&self) -> Result<Zeroizing<Vec<u8>>, KeySetError> {
        let entries: Vec<_> = self.keys.iter().map(ClusterKey::entry).collect();
        let files = self.files.iter().map(|file| file.as_os_str().as_bytes());
        let functions = match Demand::of_machine()?.is_made() {
            true => Functions::Approved,
            false => Functions::Any,
        };
        let files = files.collect::<Vec<_>>();
        Ok(handover::encode(functions, &entries, &files)?)
    }

    /// Makes a memfd that holds the record, can never change again, and stays open across exec.
    pub fn memfd(&self) -> Result<OwnedFd, KeySetError> {
        Ok(memfd::sealed(&self.encode()?)?)
    }

    /// Divides the set into one for each cluster.
    #[must_use]
    pub fn by_cluster(self) -> Vec<Self> {
        let mut sets = Vec::<Self>::new();
        for key in self.keys {
            let is_same = |set: &&mut Self| set.keys[0].key_id == key.key_id;
            match sets.iter_mut().find(is_same) {
                Some(set) => set.keys.push(key),
                None => sets.push(Self {
                    keys: vec![key],
                    files: self.files.clone(),
                }),
            }
        }
        sets
    }

    /// Takes the first key.
    #[must_use]
    pub fn into_first(self) -> Option<ClusterKey> {
        self.keys.into_iter().next()
    }

    /// Returns the keys, one for each path.
    #[must_use]
    pub fn keys(&self) -> &[ClusterKey] {
        &self.keys
    }

    /// Whether there is a key for each of these clusters.
    #[must_use]
    pub fn covers(&self, roots: &[Root]) -> bool {
        let has = |root: &Root| self.keys.iter().any(|key| key.root == root.path);
        roots.iter().all(has)
    }
}

impl ClusterKey {
    /// Returns the number of the slot that opened it.
    #[must_use]
    pub fn slot(&self) -> Option<u8> {
        self.opened_by.as_ref().map(|(slot, _)| *slot)
    }

    fn of(cluster: &Unlocked, root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            suite: cluster.header.suite,
            length: cluster.header.length,
            cluster: cluster.header.cluster,
            key_id: cluster.header.key_id,
            master: Arc::clone(&cluster.master),
            opened_by: cluster
                .opened_by()
                .map(|slot| (slot.id, slot.kind.name().to_owned())),
        }
    }

    fn decoded(entry: Entry<'_>) -> Self {
        let mut bytes = Zeroizing::new(*entry.master);
        Self {
            root: PathBuf::from(OsStr::from_bytes(entry.root)),
            suite: entry.suite,
            length: entry.length,
            cluster: entry.cluster,
            key_id: entry.key_id,
            master: Arc::new(MasterKey::from_bytes(&mut bytes)),
            opened_by: entry
                .opened_by
                .map(|opener| (opener.slot, opener.kind.to_owned())),
        }
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            root: self.root.as_os_str().as_bytes(),
            suite: self.suite,
            length: self.length,
            cluster: self.cluster,
            key_id: self.key_id,
            master: self.master.expose(),
            opened_by: self
                .opened_by
                .as_ref()
                .map(|(slot, kind)| Opener { slot: *slot, kind }),
        }
    }
}

/// Returns the key material files, each once. A text that cannot be a path to a file names none.
fn key_material(clusters: &[Unlocked]) -> BTreeSet<PathBuf> {
    const MAX_PATH: usize = 4096;
    let files = clusters.iter().flat_map(|cluster| &cluster.key_material);
    let absolute = files.filter_map(|file| path::absolute(file).ok());
    let plain = absolute.map(|file| file.components().collect::<PathBuf>());
    let fits = |file: &PathBuf| {
        let bytes = file.as_os_str().as_bytes();
        bytes.len() <= MAX_PATH && !bytes.contains(&0)
    };
    plain.filter(fits).collect()
}

/// Opens the memfd or pipe that the caller left open as `fd`, and closes `fd`: a command that runs
/// meanwhile must not get hold of it.
pub fn receiver(fd: i32) -> Result<File, KeySetError> {
    let path = format!("/proc/self/fd/{fd}");
    let file = OpenOptions::new().write(true).open(path)?;
    close(fd).map_err(io::Error::from)?;
    Ok(file)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use pgseal_format::{Header, KeyFile, SlotKind};

    /// The record of one key, whose bytes and whose cluster's are all `byte`.
    pub fn record(byte: u8) -> Zeroizing<Vec<u8>> {
        let set = KeySet {
            keys: vec![key("/one", byte)],
            files: BTreeSet::new(),
        };
        set.encode().expect("it fits")
    }

    fn key(root: &str, byte: u8) -> ClusterKey {
        let master = MasterKey::from_bytes(&mut [byte; 32]);
        ClusterKey {
            root: root.into(),
            suite: Suite::AesXts,
            length: KeyLength::Bits192,
            cluster: ClusterId([byte; 16]),
            key_id: master.key_id(),
            master: Arc::new(master),
            opened_by: (byte > 1).then(|| (byte, "passphrase".to_owned())),
        }
    }

    #[test]
    fn what_is_encoded_reads_back() {
        let set = KeySet {
            keys: vec![key("/one", 1), key("/alias", 1), key("/two", 2)],
            files: ["/etc/passphrase", "/a b"].map(PathBuf::from).into(),
        };
        let record = set.encode().expect("it fits");
        let again = KeySet::decode(&record).expect("a record");
        assert_eq!(again.encode().expect("it fits"), record);
        let roots = |names: &[&str]| {
            let root = |name: &&str| Root {
                path: name.into(),
                aliases: Vec::new(),
            };
            names.iter().map(root).collect::<Vec<_>>()
        };
        assert!(again.covers(&roots(&["/two", "/alias"])));
        assert!(!again.covers(&roots(&["/two", "/three"])));
        assert!(KeySet::decode(&record[..record.len() - 1]).is_err());
    }

    /// Each spelling of the path has the key, the slot that opened it, and each key material file
    /// that can be one.
    #[test]
    fn the_keys_of_an_unlocked_cluster() {
        let master = MasterKey::from_bytes(&mut [1; 32]);
        let header = Header {
            suite: Suite::AesXts,
            length: KeyLength::Bits256,
            cluster: ClusterId([1; 16]),
            key_id: master.key_id(),
            created: 1,
        };
        let mut file = KeyFile::new(header.clone());
        for path in ["/one", "/two"] {
            let path = path.as_bytes().to_vec();
            file.add(SlotKind::File { path }).expect("room");
        }
        let long = PathBuf::from(format!("/{}", "x".repeat(5000)));
        let cluster = Unlocked {
            root: Root {
                path: "/data".into(),
                aliases: vec!["/alias".into()],
            },
            header,
            master: Arc::new(master),
            file: Some((2, file)),
            by_agent: false,
            source: None,
            key_material: vec!["/two".into(), "/a/../two".into(), "/a\0b".into(), long],
        };
        let set = KeySet::of(&[cluster]);
        let roots: Vec<_> = set.keys().iter().map(|key| key.root.clone()).collect();
        assert_eq!(roots, [Path::new("/data"), Path::new("/alias")]);
        assert!(set.keys().iter().all(|key| key.slot() == Some(2)));
        let files = ["/two", "/a/../two"].map(PathBuf::from);
        assert_eq!(set.files, files.into());
    }

    #[test]
    fn a_set_is_divided_by_clusters() {
        let set = KeySet {
            keys: vec![key("/one", 1), key("/two", 2), key("/alias", 1)],
            files: [PathBuf::from("/etc/passphrase")].into(),
        };
        let sets = set.by_cluster();
        let roots = sets
            .iter()
            .map(|set| set.keys().iter().map(|key| key.root.as_path()).collect());
        let expected = [vec!["/one", "/alias"], vec!["/two"]];
        assert_eq!(
            roots.collect::<Vec<Vec<_>>>(),
            expected.map(|roots| roots.into_iter().map(Path::new).collect::<Vec<_>>())
        );
        assert!(sets.iter().all(|set| set.files.len() == 1));
    }
}
