//! A cluster on a file system that forgets: names and bytes that were not synced may or may not
//! survive a power loss, independently; a process that is killed loses nothing.
#![allow(dead_code)] // each test program uses its part
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // a test may panic

#[path = "../../../storage/tests/support/mod.rs"]
pub mod storage;

use pgseal_convert::files::directory_of;
use pgseal_convert::{Files, Journal, KeyDirectory};
use pgseal_storage::{Disk, Errno, Lock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use storage::{MemDisk, Rng};

/// The error of a call when the run has ended; no disk returns it.
pub const CUT: Errno = Errno(9999);

type Name = Vec<u8>;
type Names = BTreeMap<Name, Arc<MemDisk>>;

/// A change of the names of one directory; a rename is one change.
#[derive(Clone)]
struct Change {
    gone: Option<Name>,
    come: Option<(Name, Arc<MemDisk>)>,
}

impl Change {
    fn apply(&self, names: &mut Names) {
        if let Some(name) = &self.gone {
            names.remove(name);
        }
        if let Some((name, file)) = &self.come {
            names.insert(name.clone(), file.clone());
        }
    }
}

/// The contents of `pg_encryption/`, which are replaced whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keys {
    pub journal: Option<Journal>,
    pub published: bool,
}

#[derive(Clone, Default)]
struct State {
    names: Names,
    synced: Names,
    /// Changes since the last sync, by directory.
    pending: BTreeMap<Name, Vec<Change>>,
    directories: BTreeSet<Name>,
    keys: Keys,
    synced_keys: Keys,
    /// Calls until the run ends, if it does; then what that call answers.
    left: Option<usize>,
    fails_with: Option<Errno>,
    calls: usize,
}

/// The file system.
#[derive(Default)]
pub struct Site(Mutex<State>);

impl Site {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// A file that is on the medium.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let file = Arc::new(MemDisk::of(bytes));
        let mut state = self.state();
        state
            .directories
            .insert(directory_of(name.as_bytes()).to_vec());
        state.names.insert(name.into(), file.clone());
        state.synced.insert(name.into(), file);
    }

    /// The stored bytes of every file.
    pub fn stored(&self) -> BTreeMap<String, Vec<u8>> {
        let stored = |(name, file): (&Name, &Arc<MemDisk>)| {
            (String::from_utf8(name.clone()).unwrap(), file.stored())
        };
        self.state().names.iter().map(stored).collect()
    }

    pub fn list(&self) -> Vec<(Name, u64)> {
        let size = |(name, file): (&Name, &Arc<MemDisk>)| (name.clone(), file.size().unwrap());
        self.state().names.iter().map(size).collect()
    }

    /// Directories stay when their files go.
    pub fn directories(&self) -> Vec<Name> {
        self.state().directories.iter().cloned().collect()
    }

    pub fn keys(&self) -> Keys {
        self.state().keys.clone()
    }

    /// Calls so far.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    /// The run ends before the call that follows `calls` others.
    pub fn cut_after(&self, calls: usize) {
        self.state().left = Some(calls);
    }

    /// That call fails, and all that follow work.
    pub fn fail_once_after(&self, calls: usize, errno: Errno) {
        let mut state = self.state();
        (state.left, state.fails_with) = (Some(calls), Some(errno));
    }

    /// The process is gone; the machine is not.
    pub fn kill(&self) {
        self.state().left = None;
    }

    /// Power fails: what was synced is there, and any part of what came after.
    pub fn power_loss(&self, seed: u64) {
        let mut state = self.state();
        let rng = &mut Rng(seed);
        let mut names = std::mem::take(&mut state.synced);
        for change in std::mem::take(&mut state.pending).values().flatten() {
            if rng.below(2) == 0 {
                change.apply(&mut names);
            }
        }
        for file in names.values_mut() {
            let sector = [512, 4096][rng.below(2)];
            *file = Arc::new(file.after_power_loss(sector, rng.next()));
        }
        if rng.below(2) == 0 {
            state.keys = state.synced_keys.clone();
        }
        state.synced_keys = state.keys.clone();
        state.synced = names.clone();
        state.names = names;
        state.left = None;
    }

    fn step(&self) -> Result<MutexGuard<'_, State>, Errno> {
        let mut state = self.state();
        state.calls += 1;
        match &mut state.left {
            Some(0) => match state.fails_with.take() {
                Some(errno) => {
                    state.left = None;
                    Err(errno)
                }
                None => Err(CUT),
            },
            Some(left) => {
                *left -= 1;
                Ok(state)
            }
            None => Ok(state),
        }
    }

    fn change(&self, directory: &[u8], change: Change) -> Result<(), Errno> {
        let mut state = self.step()?;
        change.apply(&mut state.names);
        let pending = state.pending.entry(directory.to_vec()).or_default();
        pending.push(change);
        Ok(())
    }

    fn find(&self, name: &[u8]) -> Result<Arc<MemDisk>, Errno> {
        const ENOENT: Errno = Errno(2);
        self.state().names.get(name).cloned().ok_or(ENOENT)
    }

    fn change_keys(&self, change: impl FnOnce(&mut Keys)) -> Result<(), Errno> {
        change(&mut self.step()?.keys);
        let mut state = self.step()?;
        state.synced_keys = state.keys.clone();
        Ok(())
    }
}

/// An open file.
pub struct Handle<'s> {
    site: &'s Site,
    file: Arc<MemDisk>,
}

impl Disk for Handle<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize, Errno> {
        drop(self.site.step()?);
        self.file.write_at(buf, offset)
    }

    fn size(&self) -> Result<u64, Errno> {
        self.file.size()
    }

    fn set_size(&self, size: u64) -> Result<(), Errno> {
        drop(self.site.step()?);
        self.file.set_size(size)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.file.allocate(offset, len)
    }

    fn lock(&self, lock: Lock) -> Result<(), Errno> {
        self.file.lock(lock)
    }
}

/// [`Site`] as a conversion sees it.
impl<'s> Files for &'s Site {
    type File = Handle<'s>;

    fn open(&self, name: &[u8]) -> Result<Handle<'s>, Errno> {
        let file = self.find(name)?;
        Ok(Handle { site: self, file })
    }

    fn create(&self, name: &[u8], _: &Handle<'s>) -> Result<Handle<'s>, Errno> {
        let file = Arc::new(MemDisk::default());
        let come = Some((name.to_vec(), file.clone()));
        self.change(directory_of(name), Change { gone: None, come })?;
        Ok(Handle { site: self, file })
    }

    fn is_sparse(&self, file: &Handle<'s>) -> Result<bool, Errno> {
        Ok(file.file.stored().iter().all(|&byte| byte == 0))
    }

    fn begin_sync(&self, _: &Handle<'s>) {}

    fn sync(&self, file: &Handle<'s>) -> Result<(), Errno> {
        drop(self.step()?);
        file.file.sync();
        Ok(())
    }

    fn exists(&self, name: &[u8]) -> Result<bool, Errno> {
        Ok(self.state().names.contains_key(name))
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        assert_eq!(directory_of(from), directory_of(to));
        let come = Some((to.to_vec(), self.find(from)?));
        let gone = Some(from.to_vec());
        self.change(directory_of(to), Change { gone, come })
    }

    fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        self.find(name)?;
        let gone = Some(name.to_vec());
        self.change(directory_of(name), Change { gone, come: None })
    }

    fn sync_directory(&self, name: &[u8]) -> Result<(), Errno> {
        let mut state = self.step()?;
        let pending = state.pending.remove(name).unwrap_or_default();
        for change in pending {
            change.apply(&mut state.synced);
        }
        Ok(())
    }
}

impl KeyDirectory for &Site {
    fn write_journal(&self, journal: &Journal) -> Result<(), Errno> {
        self.change_keys(|keys| keys.journal = Some(journal.clone()))
    }

    fn publish_key(&self, _: &Journal) -> Result<(), Errno> {
        self.change_keys(|keys| keys.published = true)
    }

    fn end(&self, _: &Journal) -> Result<(), Errno> {
        self.change_keys(|keys| keys.journal = None)
    }
}
