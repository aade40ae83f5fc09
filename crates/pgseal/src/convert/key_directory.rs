//! `pg_encryption/` while a cluster is converted: the journal, and the new key file beside the old
//! one (docs/format/conversion.md).
//!
//! Invariant: a key file that opened something once is never removed. Archives and backups of
//! before have no other; what it is kept as has the key's id in its name. A key comes again where
//! its files are restored over those of the next one, and may be wrapped otherwise by then: the
//! last key file has the name, those before it numbers.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use pgseal_convert::{Journal, KeyDirectory, Kind, Phase};
use pgseal_crypto::KeyId;
use pgseal_format::Header;
use pgseal_keys::conversion::JOURNAL;
use pgseal_keys::keybin::{
    kept_name, set_mode, settings, write_durably, KeyDir, DIR, NAME, SETTINGS,
};
use pgseal_keys::notice;
use pgseal_storage::Errno;
use zeroize::Zeroizing;

use super::tree::{errno, sync_directory};

const JOURNAL_ASIDE: &str = "conversion.new";
const NEXT_KEY: &str = "key.bin.next";
const NEXT_SETTINGS: &str = "pgseal.toml.next";
const DIR_BEFORE: &str = "pg_encryption.new";
const DIR_AFTER: &str = "pg_encryption.old";

/// The key directory of the cluster at `data`.
pub struct Keys {
    data: PathBuf,
    dir: PathBuf,
}

impl Keys {
    pub fn of(data: &Path) -> Self {
        Self {
            data: data.to_owned(),
            dir: data.join(DIR),
        }
    }

    /// The new key file, where it waits.
    pub fn next(&self) -> KeyDir {
        KeyDir::around(&self.dir.join(NEXT_KEY))
    }

    /// Was the cluster unsealed, and only the old key directory not removed?
    pub fn has_ended(&self) -> bool {
        let after = self.data.join(DIR_AFTER);
        !self.dir.exists() && after.exists() && was_unsealed(&after)
    }

    /// Is this a file of a key directory that a conversion makes, or removes?
    pub fn has_place(name: &[u8]) -> bool {
        let top = name.split(|&byte| byte == b'/').next();
        top.is_some_and(|top| [DIR_BEFORE, DIR_AFTER].map(str::as_bytes).contains(&top))
    }

    /// Directories that have such a name, and that no conversion left.
    pub fn strange(&self) -> Vec<PathBuf> {
        let (before, after) = (self.data.join(DIR_BEFORE), self.data.join(DIR_AFTER));
        let strange = [
            Some(&before).filter(|path| path.exists() && !was_begun(path)),
            Some(&after).filter(|path| path.exists() && !was_unsealed(path)),
        ];
        strange.into_iter().flatten().cloned().collect()
    }

    /// Makes the key directory of a cluster that had none, with the journal in it: a single rename
    /// brings it.
    pub fn begin_sealing(
        &self,
        image: &[u8],
        header: &Header,
        journal: &Journal,
    ) -> io::Result<()> {
        self.remove_leftovers()?;
        let before = self.data.join(DIR_BEFORE);
        let mode = fs::metadata(&self.data)?.permissions().mode();
        DirBuilder::new().mode(mode & 0o750).create(&before)?;
        set_mode(&before, mode & 0o750)?;
        write_next(&before, image, header)?;
        write_durably(&before.join(JOURNAL), &journal.encode())?;
        sync_directory(&before)?;
        fs::rename(&before, &self.dir)?;
        sync_directory(&self.data)
    }

    /// Puts the new key file beside the old one; it means nothing before the journal says so.
    pub fn prepare_next(&self, image: &[u8], header: &Header) -> io::Result<()> {
        write_next(&self.dir, image, header)?;
        sync_directory(&self.dir)
    }

    /// Removes the leftovers of a crash before the begin or after the end of a conversion. Those
    /// of an unseal show by its journal, which goes last.
    pub fn remove_leftovers(&self) -> io::Result<()> {
        for path in [self.data.join(DIR_BEFORE), self.data.join(DIR_AFTER)] {
            if path.is_symlink() {
                // The directory that it leads to is the operator's, the journal in it is not: with
                // another copy of the cluster it would say that there is nothing left to do.
                remove(&path.join(JOURNAL))?;
                if path.exists() {
                    sync_directory(&path)?;
                }
                fs::remove_file(path)?;
                continue;
            }
            for name in names_in(&path)? {
                if name != JOURNAL {
                    remove(&path.join(name))?;
                }
            }
            remove(&path)?;
        }
        Ok(())
    }

    fn write(&self, journal: &Journal) -> io::Result<()> {
        let aside = self.dir.join(JOURNAL_ASIDE);
        write_durably(&aside, &journal.encode())?;
        fs::rename(&aside, self.dir.join(JOURNAL))?;
        sync_directory(&self.dir)?;
        sync_directory(&self.data)
    }

    /// The old key file, once a rekey or an unseal is through.
    pub fn kept(&self, journal: &Journal) -> Option<PathBuf> {
        let name = kept(NAME, journal.from?);
        match journal.kind {
            Kind::Seal => None,
            Kind::Unseal => Some(self.data.join(name)),
            Kind::Rekey => Some(self.dir.join(name)),
        }
    }

    fn publish(&self, journal: &Journal) -> io::Result<()> {
        for (next, name) in [(NEXT_SETTINGS, SETTINGS), (NEXT_KEY, NAME)] {
            let (next, current) = (self.dir.join(next), self.dir.join(name));
            if !next.exists() {
                continue;
            }
            if let Some(old) = journal.from {
                keep_last(&current, &self.dir.join(kept(name, old)))?;
                sync_directory(&self.dir)?;
            }
            fs::rename(next, current)?;
        }
        sync_directory(&self.dir)
    }

    /// Before the key directory goes: its key files, and those of earlier keys, move out of it.
    fn keep_all(&self, old: KeyId) -> io::Result<()> {
        let names = names_in(&self.dir)?.into_iter();
        let names = names.map(|name| name.to_string_lossy().into_owned());
        let names: BTreeSet<String> = names.collect();
        for name in &names {
            if let Some(plain) = kept_name(name) {
                keep_earlier(&self.dir.join(name), &self.data.join(plain))?;
            }
        }
        for name in [SETTINGS, NAME]
            .into_iter()
            .filter(|name| names.contains(*name))
        {
            keep_last(&self.dir.join(name), &self.data.join(kept(name, old)))?;
        }
        sync_directory(&self.data)
    }

    fn finish(&self, journal: &Journal) -> io::Result<()> {
        if journal.kind == Kind::Unseal {
            self.remove_leftovers()?;
            self.keep_all(journal.from.expect("what is unsealed has a key"))?;
            notice::remove(&self.data)?;
            fs::rename(&self.dir, self.data.join(DIR_AFTER))?;
            sync_directory(&self.data)?;
            return self.remove_leftovers();
        }
        notice::write(&self.data)?;
        sync_directory(&self.data)?;
        fs::remove_file(self.dir.join(JOURNAL))?;
        sync_directory(&self.dir)
    }
}

impl KeyDirectory for Keys {
    fn write_journal(&self, journal: &Journal) -> Result<(), Errno> {
        self.write(journal).map_err(|error| errno(&error))
    }

    fn publish_key(&self, journal: &Journal) -> Result<(), Errno> {
        self.publish(journal).map_err(|error| errno(&error))
    }

    fn end(&self, journal: &Journal) -> Result<(), Errno> {
        self.finish(journal).map_err(|error| errno(&error))
    }
}

/// Did a `seal` make it, that was killed before it began?
fn was_begun(path: &Path) -> bool {
    let own = [NEXT_KEY, NEXT_SETTINGS, JOURNAL];
    names_in(path).is_ok_and(|names| names.iter().all(|name| own.iter().any(|own| name == own)))
}

/// Is it what an `unseal` leaves at its end, or what is left of that? A link is its doing alone.
fn was_unsealed(path: &Path) -> bool {
    if path.is_symlink() {
        return true;
    }
    let journal = fs::read(path.join(JOURNAL)).ok();
    let journal = journal.and_then(|bytes| Journal::decode(&bytes).ok());
    let ended = |journal: Journal| journal.kind == Kind::Unseal && journal.phase == Phase::Placing;
    journal.is_some_and(ended) || names_in(path).is_ok_and(|names| names.is_empty())
}

fn names_in(directory: &Path) -> io::Result<Vec<OsString>> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.file_name())).collect(),
    }
}

/// A file, or a directory with all that is in it.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.is_dir() && !path.is_symlink() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the name that a file of the key directory has once another key has come.
fn kept(name: &str, key: KeyId) -> String {
    format!("{name}.{key}")
}

/// Under this name; another file of the same key that has it is given a number.
fn keep_last(file: &Path, name: &Path) -> io::Result<()> {
    if name.exists() && !is_same(file, name)? {
        let mut free = numbered(name).filter(|name| !name.exists());
        fs::rename(name, free.next().expect("numbers do not end"))?;
    }
    keep(file, name)
}

/// Under this name or the first number that no other file of the same key has.
fn keep_earlier(file: &Path, name: &Path) -> io::Result<()> {
    for name in std::iter::once(name.to_owned()).chain(numbered(name)) {
        if !name.exists() || is_same(file, &name)? {
            return keep(file, &name);
        }
    }
    unreachable!("numbers do not end")
}

fn numbered(name: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    (2..).map(move |number: u32| {
        let mut name = name.as_os_str().to_owned();
        name.push(format!(".{number}"));
        name.into()
    })
}

fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let read = |path| fs::read(path).map(Zeroizing::new);
    Ok(*read(one)? == *read(other)?)
}

/// A second name, unless an earlier run made it; a copy where it cannot have one: the key directory
/// may be a link to another file system, which may have no second names at all.
fn keep(file: &Path, name: &Path) -> io::Result<()> {
    match fs::hard_link(file, name) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(_) => copy(file, name),
        Ok(()) => Ok(()),
    }
}

/// Copies a file with its mode; the copy is whole under its name or not there.
fn copy(file: &Path, name: &Path) -> io::Result<()> {
    if name.exists() {
        return Ok(());
    }
    let mut aside = name.as_os_str().to_owned();
    aside.push(".new");
    fs::copy(file, &aside)?;
    File::open(&aside)?.sync_all()?;
    fs::rename(aside, name)
}

fn write_next(dir: &Path, image: &[u8], header: &Header) -> io::Result<()> {
    write_durably(&dir.join(NEXT_SETTINGS), settings(header).as_bytes())?;
    write_durably(&dir.join(NEXT_KEY), image)
}
