//! When key slots were made and last seen to open, as the notes beside the key file claim.

use std::path::Path;

use pgseal_format::{KeyImage, Slot, SlotNotes, Stamp, UnverifiedKeyFile};
use pgseal_keys::notes::{self, ReadError};

/// The times of all slots. A raw `key.bin` has none.
#[derive(Default)]
pub struct Times {
    pub slots: Vec<SlotTimes>,
    /// Whether the notes could be read; missing ones say that nothing was noted.
    pub are_readable: bool,
}

/// The times of one slot, in seconds since 1970; none if they are not known.
pub struct SlotTimes {
    pub slot: u8,
    pub kind: &'static str,
    pub created: Option<u64>,
    pub proved: Option<u64>,
}

impl Times {
    /// Reads the times of the slots in `image`.
    pub fn of(data: &Path, image: &KeyImage) -> Self {
        let read = notes::read(data);
        let are_readable = matches!(read, Ok(_) | Err(ReadError::Missing));
        let notes = read.ok().map(|notes| notes.claimed().clone());
        let slots = match image {
            KeyImage::File(file) => of_file(file, notes.as_ref()),
            KeyImage::Raw(_) => Vec::new(),
        };
        Self {
            slots,
            are_readable,
        }
    }
}

fn of_file(file: &UnverifiedKeyFile, notes: Option<&SlotNotes>) -> Vec<SlotTimes> {
    // A key file that was never changed has the slots that were made with the cluster.
    let created = (file.generation() == 1).then_some(file.header().created);
    let created = created.filter(|time| *time != 0);
    let slots = file.slots().iter();
    slots.map(|slot| of_slot(slot, notes, created)).collect()
}

fn of_slot(slot: &Slot, notes: Option<&SlotNotes>, with_cluster: Option<u64>) -> SlotTimes {
    let note = notes.and_then(|notes| notes.about(slot));
    let time = |stamp: &Stamp| stamp.time;
    SlotTimes {
        slot: slot.id,
        kind: slot.kind.name(),
        created: note
            .and_then(|note| note.made.as_ref())
            .map(time)
            .or(with_cluster),
        proved: note.and_then(|note| note.proved.as_ref()).map(time),
    }
}
