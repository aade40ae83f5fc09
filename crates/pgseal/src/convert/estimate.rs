//! How fast a conversion can be here, at best: some files are read and encrypted, and not written.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgseal_convert::copy::{copy, Work, Zeros};
use pgseal_convert::plan::{Plan, Task};
use pgseal_convert::Files;
use pgseal_crypto::{FileCipher, KeyLength, MasterKey};
use pgseal_storage::restore::Stored;
use pgseal_storage::{Disk, Errno, Lock, SealedFile};

use super::tree::{Open, Tree};

/// No more is read than this takes.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of all threads a second; none if nothing can be read.
pub fn bytes_per_second(tree: &Tree, plan: &Plan, jobs: NonZeroUsize) -> Option<f64> {
    let key = MasterKey::generate().ok()?;
    let (start, done) = (Instant::now(), AtomicU64::new(0));
    let mut work = Box::<Work>::default();
    for task in &plan.store {
        // Largest first: what is left is too small to change the figure.
        if start.elapsed() > PATIENCE {
            break;
        }
        try_one(tree, task, &key, &mut work, &done, start).ok()?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let bytes = u32::try_from(done.into_inner() / 1024).map_or(f64::MAX, f64::from) * 1024.0;
    let threads = u32::try_from(jobs.get()).map_or(1.0, f64::from);
    (bytes > 0.0).then_some(bytes / seconds * threads)
}

fn try_one(
    tree: &Tree,
    task: &Task,
    key: &MasterKey,
    work: &mut Work,
    done: &AtomicU64,
    start: Instant,
) -> Result<(), Errno> {
    let source = End::Source(tree.open(&task.name)?, start);
    let target = End::Nowhere(AtomicU64::new(0));
    let cipher = FileCipher::new(key, KeyLength::Bits256, &task.spec.id);
    let sealed = SealedFile::new(cipher, task.spec.layout);
    let ends = (
        (&source, &Stored::Clear),
        (&target, &Stored::Sealed(&sealed)),
    );
    let count = |bytes| {
        done.fetch_add(bytes, Ordering::Relaxed);
    };
    match copy(ends.0, ends.1, Zeros::Write, work, &count) {
        // The time is up.
        Err(Errno::EIO) if start.elapsed() > PATIENCE => Ok(()),
        result => result,
    }
}

/// An end of a copy: the source is read until the time is up; the sink takes everything and keeps
/// nothing.
enum End {
    Source(Open, Instant),
    Nowhere(AtomicU64),
}

impl Disk for End {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        match self {
            Self::Source(_, start) if start.elapsed() > PATIENCE => Ok(0),
            Self::Source(file, _) => file.read_at(buf, offset),
            Self::Nowhere(_) => Ok(0),
        }
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize, Errno> {
        self.set_size(offset + buf.len() as u64)?;
        Ok(buf.len())
    }

    fn size(&self) -> Result<u64, Errno> {
        match self {
            Self::Source(file, _) => file.size(),
            Self::Nowhere(size) => Ok(size.load(Ordering::Relaxed)),
        }
    }

    fn set_size(&self, size: u64) -> Result<(), Errno> {
        match self {
            Self::Source(..) => Err(Errno::EINVAL),
            Self::Nowhere(len) => {
                len.fetch_max(size, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    fn allocate(&self, _: u64, _: u64) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn lock(&self, _: Lock) -> Result<(), Errno> {
        Ok(())
    }
}
