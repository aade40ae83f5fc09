//! `pgseal key list`: the slots as an auditor asks for them. Without a secret the notes are shown
//! as anybody may have written them, and that is said.

use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use pgseal_format::{KeyImage, Slot, SlotNotes, Stamp};
use pgseal_keys::cluster::Root;
use pgseal_keys::exit::{sentence, Code, Exit, Failure};
use pgseal_keys::keybin::{KeyDir, DIR};
use pgseal_keys::notes::{self, ReadError, NAME};
use pgseal_keys::unlock::unlock;
use serde::Serialize;

use crate::cli::key::ListArgs;
use crate::output;

/// The notes are not those that pgseal wrote.
#[derive(Debug, thiserror::Error)]
#[error("the key opens, but {0}, so labels, dates and users are unknown: the next `pgseal key check` begins new notes")]
pub struct NotesBroken(ReadError);

impl Exit for NotesBroken {
    fn code(&self) -> Code {
        Code::Found
    }
}

/// All slots.
#[derive(Serialize)]
struct List {
    key_id: String,
    /// were the notes checked under the master key?
    notes_verified: bool,
    /// why there are no notes
    #[serde(skip_serializing_if = "Option::is_none")]
    notes_missing: Option<String>,
    slots: Vec<View>,
}

#[derive(Serialize)]
struct View {
    /// none for a raw key.bin
    slot: Option<u8>,
    kind: &'static str,
    label: Option<String>,
    created: Option<Moment>,
    proved: Option<Moment>,
}

#[derive(Serialize)]
struct Moment {
    time: String,
    /// none for slots that were made with the cluster
    user: Option<String>,
    uid: Option<u32>,
}

pub fn run(args: &ListArgs) -> Result<ExitCode, Failure> {
    let root = Root::required(&args.cluster.pgdata)?;
    let data = root.path.clone();
    let dir = KeyDir::of(&data);
    if args.verify {
        let opened = unlock(root, &args.cluster.unlock.ways())?;
        let notes = notes::verified(&data, &opened.master);
        let broken = matches!(notes, Err(ReadError::Io(..) | ReadError::Notes(_)));
        let file = opened.file.as_ref().map(|(_, file)| file);
        let first = file.filter(|file| file.generation() == 1);
        let made = first.map(|file| file.header().created);
        let slots = file.map(|file| file.slots());
        let key_id = opened.header.key_id.to_string();
        output::report(&list(key_id, slots, made, &notes, true), args.json)?;
        return match notes {
            Err(error) if broken => Err(NotesBroken(error).into()),
            _ => Ok(ExitCode::SUCCESS),
        };
    }
    let image = dir.read()?;
    let claimed = notes::read(&data).map(|notes| notes.claimed().clone());
    let list = match &image {
        KeyImage::File(file) => {
            let made = (file.generation() == 1).then_some(file.header().created);
            let key_id = file.header().key_id.to_string();
            list(key_id, Some(file.slots()), made, &claimed, false)
        }
        KeyImage::Raw(_) => list(
            dir.header()?.key_id.to_string(),
            None,
            None,
            &claimed,
            false,
        ),
    };
    output::report(&list, args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn list(
    key_id: String,
    slots: Option<&[Slot]>,
    made: Option<u64>,
    notes: &Result<SlotNotes, ReadError>,
    verified: bool,
) -> List {
    let slots = match slots {
        Some(slots) => slots.iter().map(|slot| view(slot, made, notes)).collect(),
        None => vec![View {
            slot: None,
            kind: "raw key.bin",
            label: None,
            created: None,
            proved: None,
        }],
    };
    List {
        key_id,
        notes_verified: verified && notes.is_ok(),
        notes_missing: notes.as_ref().err().map(sentence_of),
        slots,
    }
}

fn sentence_of(error: &ReadError) -> String {
    match error {
        ReadError::Missing => format!(
            "{DIR}/{NAME} is missing: no slot was added, labelled or checked since it was made"
        ),
        other => sentence(other),
    }
}

/// `made`: the time of the cluster's creation, while its key file was never changed.
fn view(slot: &Slot, made: Option<u64>, notes: &Result<SlotNotes, ReadError>) -> View {
    let note = notes.as_ref().ok().and_then(|notes| notes.about(slot));
    let with_cluster = made.filter(|time| *time != 0).map(|time| Stamp {
        time,
        uid: 0,
        user: String::new(),
    });
    let created = note.and_then(|note| note.made.clone()).or(with_cluster);
    View {
        slot: Some(slot.id),
        kind: slot.kind.name(),
        label: note
            .map(|note| note.label.clone())
            .filter(|label| !label.is_empty()),
        created: created.map(moment),
        proved: note.and_then(|note| note.proved.clone()).map(moment),
    }
}

fn moment(stamp: Stamp) -> Moment {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(stamp.time));
    // Later years have no RFC 3339, and nobody wrote them.
    let shown = time.filter(|_| stamp.time < 253_402_300_800);
    let by = !stamp.user.is_empty();
    Moment {
        time: shown.map_or_else(
            || stamp.time.to_string(),
            |time| humantime::format_rfc3339_seconds(time).to_string(),
        ),
        uid: by.then_some(stamp.uid),
        user: by.then_some(stamp.user),
    }
}

impl Display for Moment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let time = self.time.replace('T', " ").replace('Z', " UTC");
        match (&self.user, self.uid) {
            (Some(user), Some(uid)) => write!(f, "{time} by {user} (uid {uid})"),
            _ => write!(f, "{time} with the cluster"),
        }
    }
}

impl Display for List {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "key {}", self.key_id)?;
        for view in &self.slots {
            let label = view.label.as_ref();
            let label = label.map_or(String::new(), |label| format!(", {label:?}"));
            match view.slot {
                Some(slot) => writeln!(f, "slot {slot}: {}{label}", view.kind)?,
                None => writeln!(f, "{}", view.kind)?,
            }
            let shown = |moment: &Option<Moment>, none: &str| {
                moment.as_ref().map_or(none.to_owned(), Moment::to_string)
            };
            writeln!(f, "  created      {}", shown(&view.created, "not known"))?;
            writeln!(f, "  last proved  {}", shown(&view.proved, "never"))?;
        }
        match (&self.notes_missing, self.notes_verified) {
            (Some(why), _) => writeln!(f, "{why}"),
            (None, true) => writeln!(f, "labels, dates and users are verified"),
            (None, false) => writeln!(
                f,
                "labels, dates and users are not verified: --verify opens the key for it"
            ),
        }
    }
}
