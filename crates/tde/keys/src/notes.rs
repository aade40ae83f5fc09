//! Notes about slots on disk, `pg_encryption/slots.bin` (docs/format/slot-notes.md).
//!
//! Anyone who changes slots holds the lock on the key file, changes `key.bin` first, and writes the
//! notes after it: a note is worth less than the slot it is about. So a note that cannot be written
//! is a warning, and never a reason to undo a change.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pgseal_contract::file;
use pgseal_crypto::MasterKey;
use pgseal_format::{
    plain_text, BesideError, KeyFile, SlotNote, SlotNotes, Stamp, UnverifiedNotes, MAX_NOTES,
};

use crate::exit::{Code, Exit};
use crate::keybin::{write_durably, KeyBinError, KeyDir, Locked, DIR};
use crate::who::Who;

/// The name of the notes beside the key file.
pub const NAME: &str = file::SLOT_NOTES.as_str();

const ASIDE: &str = file::NEW_SLOT_NOTES.as_str();

/// The file of PostgreSQL that makes a data directory a backup.
const BACKUP_LABEL: &str = "backup_label";

/// Why there are no notes. The key opens all the same.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{DIR}/{NAME} is missing")]
    Missing,
    #[error("{0} cannot be read ({1}): check its owner and mode")]
    Io(PathBuf, io::Error),
    #[error("{DIR}/{NAME} {0}")]
    Notes(BesideError),
}

/// Why something could not be noted.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    #[error(transparent)]
    Lock(#[from] KeyBinError),
    #[error("{0} cannot be written ({1}): check the owner, mode and free space of its directory")]
    Write(PathBuf, io::Error),
}

impl Exit for NoteError {
    fn code(&self) -> Code {
        match self {
            Self::Lock(error) => error.code(),
            Self::Write(..) => Code::Io,
        }
    }
}

/// Reads the notes as anybody may have written them.
pub fn read(data: &Path) -> Result<UnverifiedNotes, ReadError> {
    let path = data.join(DIR).join(NAME);
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_NOTES).map_or(u64::MAX, |limit| limit + 1);
    let read = File::open(&path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    match read {
        Ok(_) => UnverifiedNotes::decode(&bytes).map_err(ReadError::Notes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ReadError::Missing),
        Err(error) => Err(ReadError::Io(path, error)),
    }
}

/// Reads the notes and authenticates them.
pub fn verified(data: &Path, master: &MasterKey) -> Result<SlotNotes, ReadError> {
    read(data)?.authenticate(master).map_err(ReadError::Notes)
}

/// The notes about a key file that is about to change.
pub struct Notebook {
    notes: SlotNotes,
    slots: Vec<SlotNote>,
    /// why earlier notes were dropped
    lost: Option<ReadError>,
}

impl Notebook {
    /// Opens the notes about `file`, as it is before the change. Slots without a note get an empty
    /// one; in a file that was never changed they were made with the cluster.
    pub fn open(data: &Path, file: &KeyFile, master: &MasterKey) -> Self {
        let (notes, lost) = match verified(data, master) {
            Ok(notes) => (notes, None),
            Err(ReadError::Missing | ReadError::Notes(BesideError::OtherKey)) => {
                (SlotNotes::default(), None)
            }
            Err(error) => (SlotNotes::default(), Some(error)),
        };
        let made = match (file.generation(), file.header().created) {
            (1, time) if time != 0 => Some(Stamp {
                time,
                uid: 0,
                user: String::new(),
            }),
            _ => None,
        };
        let slots = file.slots().iter().map(|slot| match notes.about(slot) {
            Some(note) => note.clone(),
            None => SlotNote {
                made: made.clone(),
                ..SlotNote::of(slot)
            },
        });
        let slots = slots.collect();
        Self { notes, slots, lost }
    }

    /// Returns why the notes that were there count no more.
    pub fn lost(&self) -> Option<&ReadError> {
        self.lost.as_ref()
    }

    /// Returns the notes, one for each slot.
    pub fn slots(&self) -> &[SlotNote] {
        &self.slots
    }

    /// Returns the label of a slot.
    pub fn label(&self, slot: u8) -> Option<&str> {
        let note = self.slots.iter().find(|note| note.slot == slot)?;
        Some(note.label.as_str()).filter(|label| !label.is_empty())
    }

    /// Notes that a slot opened just now.
    pub fn proved(&mut self, slot: u8) {
        let now = now();
        if let Some(note) = self.note(slot) {
            note.proved = Some(now);
        }
    }

    /// Gives a slot a label; an empty one takes it away.
    pub fn labelled(&mut self, slot: u8, label: &str) {
        if let Some(note) = self.note(slot) {
            note.label = plain_text(label);
        }
    }

    /// Notes the slot of `file` that was made just now, and seen to open.
    pub fn made(&mut self, file: &KeyFile, id: u8, label: Option<&str>) {
        self.slots.retain(|note| note.slot != id);
        if let Some(slot) = file.slots().iter().find(|slot| slot.id == id) {
            self.slots.push(SlotNote {
                made: Some(now()),
                proved: Some(now()),
                label: plain_text(label.unwrap_or_default()),
                ..SlotNote::of(slot)
            });
        }
    }

    fn note(&mut self, slot: u8) -> Option<&mut SlotNote> {
        self.slots.iter_mut().find(|note| note.slot == slot)
    }

    /// Writes the notes about the slots that `file` has now. The caller holds the lock.
    pub fn write(
        mut self,
        _locked: &Locked<'_>,
        data: &Path,
        file: &KeyFile,
        master: &MasterKey,
    ) -> Result<(), NoteError> {
        let dir = data.join(DIR);
        let has = |note: &SlotNote| {
            let mut slots = file.slots().iter();
            slots.any(|slot| slot.fingerprint() == note.fingerprint)
        };
        self.slots.retain(has);
        self.slots.sort_by_key(|note| note.slot);
        self.notes.set(self.slots);
        let bytes = self.notes.write(master);
        let aside = dir.join(ASIDE);
        write_durably(&aside, &bytes)
            .and_then(|()| fs::rename(&aside, dir.join(NAME)))
            .and_then(|()| File::open(&dir)?.sync_all())
            .map_err(|error| NoteError::Write(dir.join(NAME), error))
    }
}

/// Notes that these slots of `file` opened just now, unless the directory is a backup, whose files
/// must stay as its manifest lists them.
pub fn note_proofs(
    data: &Path,
    file: &KeyFile,
    master: &MasterKey,
    slots: &[u8],
) -> Result<(), NoteError> {
    if slots.is_empty() || data.join(BACKUP_LABEL).exists() {
        return Ok(());
    }
    let dir = KeyDir::of(data);
    let locked = dir.lock_as_it_is()?;
    let mut notebook = Notebook::open(data, file, master);
    slots.iter().for_each(|slot| notebook.proved(*slot));
    notebook.write(&locked, data, file, master)
}

fn now() -> Stamp {
    let who = Who::now();
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Stamp {
        time: since.map_or(1, |since| since.as_secs()),
        uid: who.uid,
        user: who.login,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgseal_crypto::{KeyLength, Suite};
    use pgseal_format::{ClusterId, Header, Payload, SlotKind};

    fn master() -> MasterKey {
        MasterKey::from_bytes(&mut [1; 32])
    }

    /// A cluster's directory, and its key file with so many plain slots.
    fn cluster(slots: u8) -> (tempfile::TempDir, KeyFile) {
        let header = Header {
            suite: Suite::AesXts,
            length: KeyLength::Bits256,
            cluster: ClusterId([2; 16]),
            key_id: master().key_id(),
            created: 77,
        };
        let data = tempfile::tempdir().expect("a directory");
        fs::create_dir(data.path().join(DIR)).expect("a directory");
        let mut file = KeyFile::new(header.clone());
        for _ in 0..slots {
            let payload = Payload::encode(&master(), &header);
            file.add(SlotKind::Plain { payload }).expect("room");
        }
        file.write(&master());
        (data, file)
    }

    fn about(data: &Path, file: &KeyFile, slot: usize) -> Option<SlotNote> {
        let notes = verified(data, &master()).ok()?;
        notes.about(&file.slots()[slot]).cloned()
    }

    #[test]
    fn a_proof_is_noted_with_the_time_of_creation() {
        let (data, file) = cluster(2);
        note_proofs(data.path(), &file, &master(), &[2]).expect("it is ours");
        let note = about(data.path(), &file, 1).expect("a note");
        assert!(note.proved.is_some());
        assert_eq!(note.made.map(|made| made.time), Some(77));
        let other = about(data.path(), &file, 0).expect("a note");
        assert_eq!(other.proved, None);
    }

    #[test]
    fn a_backup_stays_as_its_manifest_lists_it() {
        let (data, file) = cluster(1);
        fs::write(data.path().join(BACKUP_LABEL), "").expect("a file");
        note_proofs(data.path(), &file, &master(), &[1]).expect("nothing to do");
        assert!(matches!(read(data.path()), Err(ReadError::Missing)));
    }

    #[test]
    fn a_slot_that_another_tool_put_there_has_no_note() {
        let (data, mut file) = cluster(1);
        note_proofs(data.path(), &file, &master(), &[1]).expect("it is ours");
        assert!(about(data.path(), &file, 0).is_some());
        file.remove(1);
        let kind = SlotKind::Command {
            unwrap: "cat %p".to_owned(),
            wrapped: vec![1],
        };
        assert_eq!(file.add(kind), Ok(1));
        assert_eq!(about(data.path(), &file, 0), None);
    }

    /// A slot that was made now, opened as it was made; its label has no control characters.
    #[test]
    fn a_new_slot_is_noted_with_its_label() {
        let (data, file) = cluster(2);
        let mut notebook = Notebook::open(data.path(), &file, &master());
        notebook.made(&file, 2, Some("of the\tvault"));
        assert_eq!(
            notebook.label(2),
            Some(plain_text("of the\tvault").as_str())
        );
        let note = notebook
            .slots()
            .iter()
            .find(|note| note.slot == 2)
            .expect("a note");
        let now = now().time;
        for stamp in [&note.made, &note.proved] {
            let time = stamp.as_ref().expect("a time").time;
            assert!((now - 60..=now).contains(&time));
        }
        notebook.made(&file, 2, None);
        assert_eq!(notebook.label(2), None);
    }

    /// Slots have the time of their file only if it was never changed, and says when it was made.
    #[test]
    fn slots_of_a_cluster_without_a_time_have_none() {
        let times = |created: u64, writes: usize| {
            let (data, file) = cluster(1);
            let header = Header {
                created,
                ..file.header().clone()
            };
            let mut file = KeyFile::new(header.clone());
            let payload = Payload::encode(&master(), &header);
            file.add(SlotKind::Plain { payload }).expect("room");
            (0..writes).for_each(|_| drop(file.write(&master())));
            let notebook = Notebook::open(data.path(), &file, &master());
            notebook.slots()[0].made.as_ref().map(|made| made.time)
        };
        assert_eq!(times(77, 1), Some(77));
        assert_eq!(times(77, 2), None);
        assert_eq!(times(0, 1), None);
    }

    /// Notes that are no file, or are longer than any, are lost, and it is said.
    #[test]
    fn notes_that_cannot_be_read_are_not_missing() {
        let (data, file) = cluster(1);
        let path = data.path().join(DIR).join(NAME);
        fs::write(&path, vec![0; MAX_NOTES + 9]).expect("a file");
        assert!(matches!(read(data.path()), Err(ReadError::Notes(_))));
        fs::remove_file(&path).expect("a file");
        fs::create_dir(&path).expect("a directory");
        let notebook = Notebook::open(data.path(), &file, &master());
        assert!(matches!(notebook.lost(), Some(ReadError::Io(..))));
    }

    #[test]
    fn altered_notes_are_dropped_and_it_is_said() {
        let (data, file) = cluster(1);
        note_proofs(data.path(), &file, &master(), &[1]).expect("it is ours");
        let path = data.path().join(DIR).join(NAME);
        let mut bytes = fs::read(&path).expect("notes");
        *bytes.last_mut().expect("a MAC") ^= 1;
        fs::write(&path, bytes).expect("it is ours");
        let notebook = Notebook::open(data.path(), &file, &master());
        assert!(matches!(
            notebook.lost(),
            Some(ReadError::Notes(BesideError::Altered))
        ));
        note_proofs(data.path(), &file, &master(), &[1]).expect("it is ours");
        assert!(verified(data.path(), &master()).is_ok());
    }
}
