//! The MACs of a key file, of the two files beside it, and of a receiver's token. HMAC-SHA256 under
//! keys derived from the master key, so that only a holder of the unwrapped master can make or
//! check one.

use zeroize::Zeroizing;

use crate::derive::{cluster_key, ClusterPurpose};
use crate::wipe::without_trace;
use crate::{awslc, equal, MasterKey};

/// Ties a wrapped master key to the header of its key file: 16 bytes, carried inside the wrapping.
pub struct BindMac(Zeroizing<[u8; 32]>);

impl BindMac {
    /// The key under `master`.
    pub fn new(master: &MasterKey) -> Self {
        Self(mac_key(master, ClusterPurpose::Bind))
    }

    /// The tag of a header.
    pub fn tag(&self, header: &[u8]) -> [u8; 16] {
        let mut tag = [0; 16];
        tag.copy_from_slice(&awslc::hmac(&self.0, header)[..16]);
        tag
    }

    /// Whether `tag` is the header's.
    pub fn verify(&self, header: &[u8], tag: &[u8; 16]) -> bool {
        equal(&self.tag(header), tag)
    }
}

/// Authenticates all bytes of a key file before the tag.
pub struct KeyFileMac(Zeroizing<[u8; 32]>);

impl KeyFileMac {
    /// The key under `master`.
    pub fn new(master: &MasterKey) -> Self {
        Self(mac_key(master, ClusterPurpose::KeyFile))
    }

    /// The tag of a file.
    pub fn tag(&self, file: &[u8]) -> [u8; 32] {
        awslc::hmac(&self.0, file)
    }

    /// Returns whether `tag` is the file's.
    pub fn verify(&self, file: &[u8], tag: &[u8; 32]) -> bool {
        equal(&self.tag(file), tag)
    }
}

/// Authenticates all bytes of the notes about key slots before the tag.
pub struct SlotNotesMac(Zeroizing<[u8; 32]>);

impl SlotNotesMac {
    /// The key under `master`.
    pub fn new(master: &MasterKey) -> Self {
        Self(mac_key(master, ClusterPurpose::SlotNotes))
    }

    /// The tag of a file.
    pub fn tag(&self, file: &[u8]) -> [u8; 32] {
        awslc::hmac(&self.0, file)
    }

    /// Returns whether `tag` is the file's.
    pub fn verify(&self, file: &[u8], tag: &[u8; 32]) -> bool {
        equal(&self.tag(file), tag)
    }
}

/// Proves that somebody who holds the master lets a role have clear pages: 16 bytes. Servers check
/// it, so its key is derived for each tag and leaves nothing behind.
pub struct ReceiverMac<'k>(&'k MasterKey);

impl<'k> ReceiverMac<'k> {
    /// Keeps `master`, from which each tag derives its key.
    pub fn new(master: &'k MasterKey) -> Self {
        Self(master)
    }

    /// The tag of a grant: this role, on the cluster of this system identifier, until `expiry`.
    pub fn tag(&self, system_id: u64, expiry: u64, role: &[u8]) -> [u8; 16] {
        let (id, until) = (system_id.to_be_bytes(), expiry.to_be_bytes());
        let grant = [b"clear-pages\0", &id[..], &until, role].concat();
        let full = without_trace(|| {
            let key = mac_key(self.0, ClusterPurpose::Receiver);
            awslc::hmac(&key, &grant)
        });
        let mut tag = [0; 16];
        tag.copy_from_slice(&full[..16]);
        tag
    }

    /// Whether `tag` is the grant's.
    pub fn verify(&self, system_id: u64, expiry: u64, role: &[u8], tag: &[u8; 16]) -> bool {
        equal(&self.tag(system_id, expiry, role), tag)
    }
}

/// Authenticates all bytes of the list of receiver tokens before the tag. Servers check it, so its
/// key is derived for each tag and leaves nothing behind.
pub struct ReceiverListMac<'k>(&'k MasterKey);

impl<'k> ReceiverListMac<'k> {
    /// Keeps `master`, from which each tag derives its key.
    pub fn new(master: &'k MasterKey) -> Self {
        Self(master)
    }

    /// The tag of a file.
    pub fn tag(&self, file: &[u8]) -> [u8; 32] {
        without_trace(|| {
            let key = mac_key(self.0, ClusterPurpose::ReceiverList);
            awslc::hmac(&key, file)
        })
    }

    /// Returns whether `tag` is the file's.
    pub fn verify(&self, file: &[u8], tag: &[u8; 32]) -> bool {
        equal(&self.tag(file), tag)
    }
}

fn mac_key(master: &MasterKey, purpose: ClusterPurpose) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    cluster_key(master, purpose, &mut *key);
    key
}
