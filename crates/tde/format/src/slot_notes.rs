//! Notes about the key slots of a cluster, `pg_encryption/slots.bin`: when each was made, when it
//! was last proved to open, by whom, and its label (docs/format/slot-notes.md).
//!
//! Notes open nothing. They are authenticated under the master key, because an auditor takes them
//! for facts; [`UnverifiedNotes`] is what anybody may have written.

use pgseal_crypto::mac::SlotNotesMac;
use pgseal_crypto::{KeyId, MasterKey};

use crate::beside::{self, BesideError};
use crate::keyfile::MAX_SLOTS;
use crate::reader::Reader;
use crate::{Slot, MAC};

const MAGIC: &[u8; 8] = b"PGSEALSN";
const FORMAT: u16 = 1;

/// The most bytes of a label or of a user's name.
pub const MAX_TEXT: usize = 200;

/// The most bytes of the file.
pub const MAX_NOTES: usize = 16 * 1024;

/// The name of a slot's exact bytes: a note counts for no other slot.
pub type Fingerprint = [u8; 16];

/// When something was done, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// seconds since 1970, never 0
    pub time: u64,
    /// the user's number
    pub uid: u32,
    /// the user's login name
    pub user: String,
}

/// The facts about one slot that are not in `key.bin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotNote {
    /// the slot's number
    pub slot: u8,
    /// the slot's bytes
    pub fingerprint: Fingerprint,
    /// when it was made
    pub made: Option<Stamp>,
    /// when it was last proved to open
    pub proved: Option<Stamp>,
    /// a name for people
    pub label: String,
}

impl SlotNote {
    /// A note that says nothing of `slot` yet.
    pub fn of(slot: &Slot) -> Self {
        Self {
            slot: slot.id,
            fingerprint: slot.fingerprint(),
            made: None,
            proved: None,
            label: String::new(),
        }
    }
}

/// Well-formed notes that are not authenticated.
pub struct UnverifiedNotes {
    body: Vec<u8>,
    tag: [u8; MAC],
    key_id: KeyId,
    notes: SlotNotes,
}

/// Notes that were authenticated, or that we made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotNotes {
    written: u64,
    notes: Vec<SlotNote>,
}

impl UnverifiedNotes {
    /// Decodes a file of notes.
    pub fn decode(bytes: &[u8]) -> Result<Self, BesideError> {
        let mut file = beside::open(bytes, MAGIC, FORMAT, MAX_NOTES)?;
        let notes = read(file.written, &mut file.fields).ok_or(BesideError::Damaged)?;
        Ok(Self {
            body: file.body.to_vec(),
            tag: *file.tag,
            key_id: file.key_id,
            notes,
        })
    }

    /// The notes as anybody may have written them: anyone who shows them must say so.
    pub fn claimed(&self) -> &SlotNotes {
        &self.notes
    }

    /// Authenticates the notes.
    pub fn authenticate(self, master: &MasterKey) -> Result<SlotNotes, BesideError> {
        if self.key_id != master.key_id() {
            return Err(BesideError::OtherKey);
        }
        match SlotNotesMac::new(master).verify(&self.body, &self.tag) {
            true => Ok(self.notes),
            false => Err(BesideError::Altered),
        }
    }
}

impl SlotNotes {
    /// All notes, in the order of the file.
    pub fn notes(&self) -> &[SlotNote] {
        &self.notes
    }

    /// The note about this very slot.
    pub fn about(&self, slot: &Slot) -> Option<&SlotNote> {
        let fingerprint = slot.fingerprint();
        let mut notes = self.notes.iter();
        notes.find(|note| note.slot == slot.id && note.fingerprint == fingerprint)
    }

    /// Keeps the notes about `slots`, and no other.
    pub fn set(&mut self, notes: Vec<SlotNote>) {
        self.notes = notes;
    }

    /// The bytes of the file's next version.
    pub fn write(&mut self, master: &MasterKey) -> Vec<u8> {
        self.written += 1;
        let mut out = beside::begin(MAGIC, FORMAT, master, self.written);
        let count = self.notes.len().min(MAX_SLOTS);
        out.push(u8::try_from(count).expect("at most 16"));
        for note in &self.notes[..count] {
            out.push(note.slot);
            out.extend_from_slice(&note.fingerprint);
            push_stamp(&mut out, note.made.as_ref());
            push_stamp(&mut out, note.proved.as_ref());
            push_text(&mut out, &note.label);
        }
        let tag = SlotNotesMac::new(master).tag(&out);
        out.extend_from_slice(&tag);
        out
    }
}

/// Returns a text as a note may hold it: one line, cut to its greatest length.
pub fn plain_text(text: &str) -> String {
    let mut out = String::new();
    for letter in text.trim().chars().filter(|letter| !letter.is_control()) {
        if out.len() + letter.len_utf8() > MAX_TEXT {
            break;
        }
        out.push(letter);
    }
    out
}

fn push_stamp(out: &mut Vec<u8>, stamp: Option<&Stamp>) {
    let (time, uid, user) = match stamp {
        Some(stamp) => (stamp.time, stamp.uid, stamp.user.as_str()),
        None => (0, 0, ""),
    };
    out.extend_from_slice(&time.to_le_bytes());
    out.extend_from_slice(&uid.to_le_bytes());
    push_text(out, user);
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    let text = plain_text(text);
    let len = u16::try_from(text.len()).expect("cut to its greatest length");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn read(written: u64, reader: &mut Reader<'_>) -> Option<SlotNotes> {
    let count = usize::from(reader.u8()?);
    let mut notes = Vec::<SlotNote>::new();
    for _ in 0..count {
        let note = note(reader)?;
        if notes.iter().any(|other| other.slot == note.slot) {
            return None;
        }
        notes.push(note);
    }
    (reader.is_empty() && count <= MAX_SLOTS).then_some(SlotNotes { written, notes })
}

fn note(reader: &mut Reader<'_>) -> Option<SlotNote> {
    Some(SlotNote {
        slot: reader.u8().filter(|id| (1..=16).contains(id))?,
        fingerprint: *reader.array()?,
        made: stamp(reader)?,
        proved: stamp(reader)?,
        label: text(reader)?,
    })
}

fn stamp(reader: &mut Reader<'_>) -> Option<Option<Stamp>> {
    let (time, uid, user) = (reader.u64()?, reader.u32()?, text(reader)?);
    match time {
        0 => (uid == 0 && user.is_empty()).then_some(None),
        time => Some(Some(Stamp { time, uid, user })),
    }
}

fn text(reader: &mut Reader<'_>) -> Option<String> {
    let text = std::str::from_utf8(reader.counted()?).ok()?;
    (plain_text(text) == text).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn master() -> MasterKey {
        MasterKey::from_bytes(&mut std::array::from_fn(|at| {
            u8::try_from(at).expect("0 to 31")
        }))
    }

    fn example() -> SlotNotes {
        SlotNotes {
            written: 0,
            notes: vec![SlotNote {
                slot: 2,
                fingerprint: [0xaa; 16],
                made: Some(Stamp {
                    time: 1_800_000_000,
                    uid: 26,
                    user: "postgres".to_owned(),
                }),
                proved: None,
                label: "safe".to_owned(),
            }],
        }
    }

    /// The example of docs/format/slot-notes.md, which was computed apart from this code.
    #[test]
    fn the_documented_example() {
        let page = include_str!("../../../../docs/format/slot-notes.md");
        let example_text = page.split("label safe:").nth(1).expect("an example");
        let expected: String = example_text.split_whitespace().collect();
        let written: String = example()
            .write(&master())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(written, expected);
    }

    #[test]
    fn what_was_written_is_read_again() {
        let mut notes = example();
        let bytes = notes.write(&master());
        let read = UnverifiedNotes::decode(&bytes).expect("well formed");
        assert_eq!(read.authenticate(&master()), Ok(notes));
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let bytes = example().write(&master());
        for at in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            let read = UnverifiedNotes::decode(&bytes);
            assert!(
                read.and_then(|read| read.authenticate(&master())).is_err(),
                "bit {at}"
            );
        }
    }

    #[test]
    fn every_cut_is_seen() {
        let bytes = example().write(&master());
        for len in 0..bytes.len() {
            let read = UnverifiedNotes::decode(&bytes[..len]);
            assert!(
                read.and_then(|read| read.authenticate(&master())).is_err(),
                "{len}"
            );
        }
    }

    #[test]
    fn another_key_is_told_from_a_change() {
        let bytes = example().write(&master());
        let read = UnverifiedNotes::decode(&bytes).expect("well formed");
        let other = MasterKey::from_bytes(&mut [9; 32]);
        assert_eq!(read.authenticate(&other), Err(BesideError::OtherKey));
        let mut bytes = bytes;
        *bytes.last_mut().expect("it has a MAC") ^= 1;
        let read = UnverifiedNotes::decode(&bytes).expect("well formed");
        assert_eq!(read.authenticate(&master()), Err(BesideError::Altered));
    }

    #[test]
    fn a_text_is_one_short_line() {
        assert_eq!(plain_text(" a\nb\u{1b}[2J "), "ab[2J");
        assert_eq!(plain_text(&"ä".repeat(150)).len(), MAX_TEXT);
    }
}
