//! The key file of a running server, as SQL shows it: whether it is still there and is its own, and
//! its slots with the notes about them. It is read anew each time, as a rotation replaces it.

use super::rows::Rows;
use crate::clusters::Cluster;
use crate::disk::stored;
use pgseal_contract::file;
use pgseal_format::{
    BesideError, KeyFile, KeyImage, Slot, SlotKind, SlotNotes, Stamp, UnverifiedNotes, MAX_FILE,
    MAX_NOTES,
};
use std::ffi::CString;
use std::io;

/// The state of the key file.
pub enum Found {
    /// The key file of this server's key.
    Own(KeyFile),
    /// One wrapping without slots, for an unwrap command.
    Raw,
    /// Nothing that opens this cluster: the word that SQL shows.
    Unusable(&'static str),
}

impl Found {
    /// Returns the word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Own(_) | Self::Raw => "ok",
            Self::Unusable(word) => word,
        }
    }
}

/// Reads the key file of this cluster.
pub fn find(cluster: &Cluster) -> Found {
    let bytes = match read(cluster, file::KEY_PATH.as_str(), MAX_FILE) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Found::Unusable("missing");
        }
        Err(_) => return Found::Unusable("unreadable"),
    };
    match KeyImage::decode(&bytes) {
        Ok(KeyImage::Raw(_)) => Found::Raw,
        Ok(KeyImage::File(image)) if image.header().key_id != cluster.key_id => {
            Found::Unusable("of another key")
        }
        Ok(KeyImage::File(image)) => match cluster.authenticate(image) {
            Ok(file) => Found::Own(file),
            Err(_) => Found::Unusable("altered"),
        },
        Err(_) => Found::Unusable("damaged"),
    }
}

/// Adds a row for each slot: number, kind, label, whether it opened this server, the provider's
/// key, when and by whom it was made and last proved.
pub fn slots(cluster: &Cluster, rows: &mut Rows) {
    let Found::Own(file) = find(cluster) else {
        return;
    };
    let notes = notes(cluster);
    let opened_by = cluster.facts.opened_by.as_ref().map(|(id, _)| *id);
    for slot in file.slots() {
        rows.number(slot.id.into()).text(slot.kind.name());
        let note = notes.as_ref().and_then(|notes| notes.about(slot));
        let label = note.map(|note| &note.label);
        rows.option(label.filter(|label| !label.is_empty()));
        rows.flag(opened_by == Some(slot.id)).option(provider(slot));
        stamp(rows, note.and_then(|note| note.made.as_ref()));
        stamp(rows, note.and_then(|note| note.proved.as_ref()));
    }
}

/// A URI names a key and holds no secret. Commands may hold one, so SQL shows none.
fn provider(slot: &Slot) -> Option<&str> {
    match &slot.kind {
        SlotKind::Provider { uri, .. } => Some(uri),
        _ => None,
    }
}

fn stamp(rows: &mut Rows, stamp: Option<&Stamp>) {
    rows.option(stamp.map(|stamp| stamp.time));
    rows.option(stamp.map(|stamp| &stamp.user));
}

/// Returns the notes about the slots; none if there are none, or if they cannot be trusted.
fn notes(cluster: &Cluster) -> Option<SlotNotes> {
    let bytes = read(cluster, file::SLOT_NOTES_PATH.as_str(), MAX_NOTES).ok()?;
    let notes: Result<SlotNotes, BesideError> =
        UnverifiedNotes::decode(&bytes).and_then(|notes| cluster.authenticate_notes(notes));
    notes.ok()
}

fn read(cluster: &Cluster, name: &str, most: usize) -> io::Result<Vec<u8>> {
    let path = [&cluster.root[..], b"/", name.as_bytes()].concat();
    stored(&CString::new(path)?, most)
}
