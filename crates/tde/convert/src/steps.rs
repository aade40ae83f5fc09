//! The order of writes. What each crash leaves is in docs/format/conversion.md, and the names of
//! the steps (S1 …, P1 …) are those of that page.

use crate::copy::{copy, Work, Zeros};
use crate::files::{directory_of, Files, KeyDirectory};
use crate::plan::{batches, control_task, part, stored, Plan, Task, CONTROL};
use crate::{Journal, Phase};
use pgseal_crypto::{FileCipher, KeyLength, MasterKey, UNIT};
use pgseal_storage::control::{Control, ControlError};
use pgseal_storage::layout::Spec;
use pgseal_storage::restore::Stored;
use pgseal_storage::scratch::Scratch;
use pgseal_storage::{Errno, SealedFile, Transfer};

/// A step that failed. Nothing is lost: the conversion can go on when the reason is gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// The step, as a verb: "read", "write" …
    pub doing: &'static str,
    /// The file.
    pub name: Vec<u8>,
    /// The system's error.
    pub errno: Errno,
}

/// A key at one end of a conversion.
#[derive(Clone, Copy)]
pub struct Key<'k> {
    /// The cluster's master key.
    pub master: &'k MasterKey,
    /// The length of its AES keys.
    pub length: KeyLength,
}

/// The keys of files before and after a conversion; `None` means in clear.
#[derive(Clone, Copy)]
pub struct Ends<'k> {
    /// The key before.
    pub from: Option<Key<'k>>,
    /// The key after.
    pub to: Option<Key<'k>>,
}

fn sealed<'k>(key: Option<Key<'k>>, spec: &Spec) -> Option<SealedFile<'k>> {
    let cipher = |key: Key<'k>| FileCipher::new(key.master, key.length, &spec.id);
    key.map(|key| SealedFile::new(cipher(key), spec.layout))
}

fn end<'a, 'k>(file: &'a Option<SealedFile<'k>>) -> Stored<'a, 'k> {
    file.as_ref().map_or(Stored::Clear, Stored::Sealed)
}

/// Why `pg_control` cannot be used.
#[derive(Debug)]
pub enum ControlFailed {
    /// It cannot be read.
    Read(Failed),
    /// It says nothing that is right.
    Content(ControlError),
}

/// Reads `pg_control` as it is stored under `key`.
pub fn read_control(
    files: &impl Files,
    key: Option<Key<'_>>,
    scratch: &mut Scratch,
) -> Result<Control, ControlFailed> {
    let mut page = [0; UNIT];
    let sealed = sealed(key, &control_task().spec);
    let read = files
        .open(CONTROL)
        .and_then(|file| end(&sealed).read(&mut Transfer::new(&file, scratch), &mut page, 0));
    let have = read.map_err(|errno| ControlFailed::Read(failed("read", CONTROL)(errno)))?;
    Control::parse(&page[..have]).map_err(ControlFailed::Content)
}

/// Runs phase 1 from wherever it is to its end. `plan` is that of the present files; `store_all`
/// calls [`store`] with every batch, in any order, on any threads.
pub fn storing<E: From<Failed>>(
    files: &impl Files,
    keys: &impl KeyDirectory,
    (plan, journal): (&Plan, &mut Journal),
    ends: &Ends<'_>,
    store_all: impl FnOnce(Vec<Vec<Task>>) -> Result<(), E>,
) -> Result<(), E> {
    settle(files, keys, plan, journal)?;
    if files.exists(CONTROL).map_err(failed("find", CONTROL))? {
        shut_gate(files, ends)?;
    }
    store_all(batches(plan.store.clone()))?;
    Ok(finish_storing(files, keys, plan, journal)?)
}

/// The first batch: `pg_control` goes, and no server starts any more. A copy that an earlier run
/// left beside it may be out of date.
fn shut_gate(files: &impl Files, ends: &Ends<'_>) -> Result<(), Failed> {
    for copy in [part(CONTROL), stored(CONTROL)] {
        remove_if_there(files, &copy)?;
    }
    store(files, ends, &[control_task()], &mut Box::default(), &|_| ())?;
    sync_directory(files, directory_of(CONTROL))
}

/// Runs S1 to S3 for files of one directory; on an error it removes their unfinished copies.
pub fn store(
    files: &impl Files,
    ends: &Ends<'_>,
    batch: &[Task],
    work: &mut Work,
    progress: &impl Fn(u64),
) -> Result<(), Failed> {
    let result = try_store(files, ends, batch, work, progress);
    if result.is_err() {
        for task in batch {
            // What cannot be removed now is removed by the next run.
            let _ = files.remove(&part(&task.name));
        }
    }
    result
}

fn try_store(
    files: &impl Files,
    ends: &Ends<'_>,
    batch: &[Task],
    work: &mut Work,
    progress: &impl Fn(u64),
) -> Result<(), Failed> {
    let mut parts = Vec::with_capacity(batch.len());
    for task in batch {
        parts.push(write_part(files, ends, task, work, progress)?);
    }
    for (task, part) in batch.iter().zip(parts) {
        files.sync(&part).map_err(failed("sync", &task.name))?;
    }
    for Task { name, .. } in batch {
        let renamed = files.rename(&part(name), &stored(name));
        renamed.map_err(failed("rename", name))?;
    }
    if let Some(Task { name, .. }) = batch.first() {
        sync_directory(files, directory_of(name))?;
    }
    for Task { name, .. } in batch {
        files.remove(name).map_err(failed("remove", name))?;
    }
    Ok(())
}

fn write_part<F: Files>(
    files: &F,
    ends: &Ends<'_>,
    task: &Task,
    work: &mut Work,
    progress: &impl Fn(u64),
) -> Result<F::File, Failed> {
    let source = files.open(&task.name).map_err(failed("open", &task.name))?;
    let sparse = files
        .is_sparse(&source)
        .map_err(failed("read", &task.name))?;
    let zeros = match (task.keeps_zeros, sparse) {
        (false, _) => Zeros::Write,
        (true, false) => Zeros::Keep,
        (true, true) => Zeros::Hole,
    };
    let (from, to) = (sealed(ends.from, &task.spec), sealed(ends.to, &task.spec));
    let target = files.create(&part(&task.name), &source);
    let target = target.map_err(failed("make a copy of", &task.name))?;
    let ends = ((&source, &end(&from)), (&target, &end(&to)));
    let copied = copy(ends.0, ends.1, zeros, work, progress);
    copied.map_err(failed("make a copy of", &task.name))?;
    files.begin_sync(&target);
    Ok(target)
}

/// Syncs what an earlier run did and removes what it left half done, before a conversion goes on.
/// Without the syncs a power loss could still undo what the next steps rely on.
fn settle(
    files: &impl Files,
    keys: &impl KeyDirectory,
    plan: &Plan,
    journal: &Journal,
) -> Result<(), Failed> {
    write_journal(keys, journal)?;
    sync_directories(files, plan)?;
    for name in &plan.obsolete {
        files.remove(name).map_err(failed("remove", name))?;
    }
    Ok(())
}

/// Ends phase 1 (S4). `plan` is that of the files before they were stored.
fn finish_storing(
    files: &impl Files,
    keys: &impl KeyDirectory,
    plan: &Plan,
    journal: &mut Journal,
) -> Result<(), Failed> {
    for name in &plan.delete {
        files.remove(name).map_err(failed("remove", name))?;
    }
    sync_directories(files, plan)?;
    journal.phase = Phase::Placing;
    write_journal(keys, journal)
}

/// Runs phase 2 (P0 to P4): every file that has a whole copy by `plan` is replaced by it. The
/// journal is written again first: if a killed run's phase 2 were taken back by a power loss, with
/// files in their places already, they would be stored twice.
pub fn placing(
    files: &impl Files,
    keys: &impl KeyDirectory,
    plan: &Plan,
    journal: &Journal,
) -> Result<(), Failed> {
    write_journal(keys, journal)?;
    for name in &plan.stored {
        let placed = files.rename(&stored(name), name);
        placed.map_err(failed("rename the copy of", name))?;
    }
    sync_directories(files, plan)?;
    let published = keys.publish_key(journal);
    published.map_err(failed("write", b"pg_encryption/key.bin"))?;
    let copy = stored(CONTROL);
    if files.exists(&copy).map_err(failed("find", &copy))? {
        let placed = files.rename(&copy, CONTROL);
        placed.map_err(failed("rename the copy of", CONTROL))?;
    }
    sync_directory(files, directory_of(CONTROL))?;
    let ended = keys.end(journal);
    ended.map_err(failed("remove", b"pg_encryption/conversion"))
}

fn write_journal(keys: &impl KeyDirectory, journal: &Journal) -> Result<(), Failed> {
    let written = keys.write_journal(journal);
    written.map_err(failed("write", b"pg_encryption/conversion"))
}

fn remove_if_there(files: &impl Files, name: &[u8]) -> Result<(), Failed> {
    if files.exists(name).map_err(failed("find", name))? {
        files.remove(name).map_err(failed("remove", name))?;
    }
    Ok(())
}

fn sync_directories(files: &impl Files, plan: &Plan) -> Result<(), Failed> {
    let mut directories = plan.directories.iter();
    directories.try_for_each(|name| sync_directory(files, name))
}

fn sync_directory(files: &impl Files, name: &[u8]) -> Result<(), Failed> {
    files.sync_directory(name).map_err(failed("sync", name))
}

fn failed<'a>(doing: &'static str, name: &'a [u8]) -> impl Fn(Errno) -> Failed + 'a {
    move |errno| Failed {
        doing,
        name: name.to_vec(),
        errno,
    }
}
