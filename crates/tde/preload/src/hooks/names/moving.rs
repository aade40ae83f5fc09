//! Renaming between identities.

use crate::clusters::Cluster;
use crate::disk::{check, stat, Owned};
use crate::hooks::foreign;
use crate::memory::MEMORY;
use crate::place::{self, Place};
use crate::policy::holds_pages;
use crate::process::PROCESS;
use crate::real::{errno, libc_call, set_errno};
use crate::{receivers, report, server, wal, zero_fill};
use libc::{c_int, c_uint};
use pgseal_crypto::UNIT;
use pgseal_storage::classify::Class;
use pgseal_storage::disk::read_full;
use pgseal_storage::layout::Layout;
use pgseal_storage::restore::{self, Stored};
use pgseal_storage::wal::WalName;
use pgseal_storage::{Disk, Errno, SealedFile};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;

/// A name below a directory.
pub struct Name<'a> {
    pub directory: c_int,
    pub path: &'a CStr,
    /// The path that the program gave: settings and messages name files by it.
    pub given: &'a CStr,
}

impl<'a> Name<'a> {
    /// A path as a program gave it.
    pub fn of(path: &'a CStr) -> Self {
        Self::at(libc::AT_FDCWD, path)
    }

    /// A path below a directory's descriptor, as a program gave it.
    pub fn at(directory: c_int, path: &'a CStr) -> Self {
        Self {
            directory,
            path,
            given: path,
        }
    }
}

/// The content that is, or will be, under a name.
#[allow(clippy::large_enum_variant)] // made on the stack once a call: no heap in the preload
#[derive(Clone)]
enum Content {
    Clear,
    Sealed(&'static Cluster, Class),
}

/// The change that a rename or link makes.
#[allow(clippy::large_enum_variant)] // made on the stack once a call: no heap in the preload
pub enum Difference {
    /// Nothing: the same bytes mean the same under both names.
    None,
    /// The bytes must be stored anew.
    Some(Change),
    /// The key directory, or a cluster that cannot be opened.
    Denied(c_int),
}

/// A change of content, from one to the other.
pub struct Change {
    from: Content,
    to: Content,
}

/// Returns what a rename would change.
pub fn compare(from: &Name, to: &Name) -> Difference {
    let (from, to) = match (content(from), content(to)) {
        (Err(errno), _) | (_, Err(errno)) => return Difference::Denied(errno),
        (Ok(from), Ok(to)) => (from, to),
    };
    let same = match (&from, &to) {
        (Content::Clear, Content::Clear) => true,
        (Content::Sealed(one, class), Content::Sealed(other, other_class)) => {
            one.shares_keys(other) && class == other_class
        }
        _ => false,
    };
    if same {
        Difference::None
    } else {
        Difference::Some(Change { from, to })
    }
}

/// Do stored bytes mean the same under two names? For files in clear the clusters count: pg_upgrade
/// links and clones PG_VERSION to learn whether the old and the new one can share files, before it
/// disables the old one.
pub fn may_share(from: &Name, to: &Name) -> Result<(), c_int> {
    match compare(from, to) {
        Difference::Denied(errno) => return Err(errno),
        Difference::Some(_) => return Err(libc::EXDEV),
        Difference::None => {}
    }
    let same_keys = match (
        place::owner(from.directory, from.path)?,
        place::owner(to.directory, to.path)?,
    ) {
        (None, None) => true,
        (Some(one), Some(other)) => one.shares_keys(other),
        _ => false,
    };
    if same_keys {
        return Ok(());
    }
    report::line(
        "the two clusters do not have the same key, so they cannot share files: copy them, or make \
         the new cluster with initdb --copy-key-from",
    );
    Err(libc::EXDEV)
}

fn content(name: &Name) -> Result<Content, c_int> {
    match place::at(name.directory, name.path) {
        Place::Clear => Ok(Content::Clear),
        Place::Denied(errno) => Err(errno),
        Place::Sealed(_, Class::Refused(_)) => Err(libc::ENOTSUP),
        Place::Sealed(cluster, class) => Ok(Content::Sealed(cluster, class)),
    }
}

pub fn rename(from: &Name, to: &Name, flags: c_uint) -> Result<(), Errno> {
    let change = match compare(from, to) {
        Difference::None if foreign::refuses_name(to) => return Err(Errno(libc::EPERM)),
        Difference::None => return plain(from, to, flags),
        Difference::Denied(errno) => return Err(Errno(errno)),
        Difference::Some(change) if PROCESS.is_server() && change.shows_data() => {
            return Err(Errno(libc::EACCES))
        }
        Difference::Some(change) => change,
    };
    let source = match open_file(from, libc::O_RDWR) {
        Ok(Some(fd)) => fd,
        // A directory has no content of its own, but its files would come under another key.
        Ok(None) if !change.keeps_keys() => return Err(Errno(libc::EXDEV)),
        // A name that is not there fails as libc says.
        Ok(None) | Err(Errno(libc::ENOENT)) => return plain(from, to, flags),
        Err(errno) => return Err(errno),
    };
    // Other errors are what `rename` itself may give; the caller reports them.
    change
        .carry_out(&source, from, to, flags)
        .inspect_err(|errno| {
            if *errno == Errno::EIO {
                let (from, to) = (report::shown(from.given), report::shown(to.given));
                report::line(&format!("could not re-store {from} as {to}"));
            }
        })
}

/// Links `from` under another name. Where the two identities differ, the pairs by which the server
/// installs WAL get what `link` promises by other means ([`Change::installs_wal`]).
pub fn link(from: &Name, to: &Name, flags: c_int) -> Result<(), Errno> {
    match compare(from, to) {
        Difference::Some(change) if flags == 0 && change.installs_wal() => change.link(from, to),
        _ => match may_share(from, to) {
            Ok(()) if foreign::refuses_name(to) => Err(Errno(libc::EPERM)),
            Ok(()) => plain_link(from, to, flags),
            Err(errno) => Err(Errno(errno)),
        },
    }
}

/// Copies a regular file to a name that is not taken: the same clear bytes as `to` stores them.
pub fn copy_file(from: &Name, to: &Name) -> Result<(), Errno> {
    let change = Change {
        from: content(from).map_err(Errno)?,
        to: content(to).map_err(Errno)?,
    };
    let source = open_file(from, libc::O_RDWR)?.ok_or(Errno::EINVAL)?;
    let target = create_like(&source, to)?;
    change.copy(&source, &target)
}

/// Seals what `restore_command` brought under a segment's own name, if it is in clear and let in.
/// What is refused goes: under this name the next run would take it for a segment of the cluster's.
pub fn seal_restored(name: &Name) -> Result<(), Errno> {
    let to = content(name).map_err(Errno)?;
    let Content::Sealed(cluster, Class::WalSegment(segment)) = &to else {
        return Ok(());
    };
    let source = open_file(name, libc::O_RDONLY)?.ok_or(Errno::EINVAL)?;
    match restored(&source, cluster, *segment, name)? {
        Restored::Ours => return Ok(()),
        Restored::Clear => {}
        Restored::Refused => {
            remove(name);
            return Err(Errno::EINVAL);
        }
    }
    let change = Change {
        from: Content::Clear,
        to,
    };
    change.store_as(&source, name, name, 0)
}

fn plain(from: &Name, to: &Name, flags: c_uint) -> Result<(), Errno> {
    let (source, target) = (from.path.as_ptr(), to.path.as_ptr());
    let (from, to) = (from.directory, to.directory);
    check(libc_call!(renameat2(from, source, to, target, flags))).map(|_| ())
}

fn plain_link(from: &Name, to: &Name, flags: c_int) -> Result<(), Errno> {
    let (source, target) = (from.path.as_ptr(), to.path.as_ptr());
    let (from, to) = (from.directory, to.directory);
    check(libc_call!(linkat(from, source, to, target, flags))).map(|_| ())
}

impl Change {
    /// Is it one that PostgreSQL before 15.11 makes by `link`, to replace nothing, and `unlink`
    /// (durable_rename_excl): a new segment or history file, or a recycled segment?
    fn installs_wal(&self) -> bool {
        match (&self.from, &self.to) {
            (Content::Sealed(_, class), Content::Clear) => is_wal_scratch(class),
            (Content::Sealed(_, class), Content::Sealed(_, Class::WalSegment(_))) => {
                let is_wal = is_wal_scratch(class) || matches!(class, Class::WalSegment(_));
                is_wal && self.keeps_keys()
            }
            _ => false,
        }
    }

    /// Does what [`Self::carry_out`] does, but the old name stays, and a name that is taken stays
    /// as it is. The new name never shows a file that is not whole.
    fn link(&self, from: &Name, to: &Name) -> Result<(), Errno> {
        let source = open_file(from, libc::O_RDWR)?.ok_or(Errno(libc::EXDEV))?;
        if is_there(to)? {
            return Err(Errno(libc::EEXIST));
        }
        if self.fits(&source, to)? {
            return plain_link(from, to, 0);
        }
        let aside = aside(from)?;
        let aside = Name::at(from.directory, &aside);
        self.store_aside(&source, &aside)?;
        let linked = plain_link(&aside, to, 0);
        remove(&aside);
        linked
    }

    /// Would it bring what is sealed under a name by which SQL gives it in clear? Of a server's own
    /// renames none does: they are of new WAL, of timelines' histories, of what was restored, and
    /// of segments among themselves. The others are those of a role that may rename files, on
    /// PostgreSQL 15 and 16.
    fn shows_data(&self) -> bool {
        match (&self.from, &self.to) {
            (Content::Clear | Content::Sealed(_, Class::WalRestored), _) => false,
            (Content::Sealed(_, class), Content::Sealed(_, to)) => {
                holds_pages(class) && !holds_pages(to)
            }
            (Content::Sealed(_, class), Content::Clear) => !is_wal_scratch(class) || runs_sql(),
        }
    }

    fn keeps_keys(&self) -> bool {
        match (&self.from, &self.to) {
            (Content::Sealed(one, _), Content::Sealed(other, _)) => one.shares_keys(other),
            (Content::Clear, Content::Clear) => true,
            _ => false,
        }
    }

    fn carry_out(
        &self,
        source: &Owned,
        from: &Name,
        to: &Name,
        flags: c_uint,
    ) -> Result<(), Errno> {
        if flags & libc::RENAME_EXCHANGE != 0 {
            return Err(Errno::EINVAL);
        }
        if self.fits(source, to)? {
            return plain(from, to, flags);
        }
        self.store_anew(source, from, to, flags)
    }

    /// Do the stored bytes mean the right thing under the new name, too? Of a segment that becomes
    /// another one they do as soon as its first page is stored anew.
    fn fits(&self, source: &Owned, to: &Name) -> Result<bool, Errno> {
        Ok(match (&self.from, &self.to) {
            (
                Content::Sealed(one, Class::WalSegment(_)),
                Content::Sealed(other, Class::WalSegment(_)),
            ) if one.shares_keys(other) && source.has_one_name()? => {
                self.recycle(source)?;
                true
            }
            (
                Content::Sealed(_, Class::WalRestored),
                Content::Sealed(cluster, Class::WalSegment(name)),
            ) => match restored(source, cluster, *name, to)? {
                Restored::Ours => true,
                Restored::Clear => false,
                Restored::Refused => return Err(Errno::EINVAL),
            },
            (Content::Sealed(_, class), Content::Sealed(_, Class::WalSegment(_)))
                if is_wal_scratch(class) =>
            {
                zero_fill::is(&stat(source.0)?) || source.disk().transfer(restore::is_all_zeros)?
            }
            _ => false,
        })
    }

    /// Makes one segment another: its first page carries the new name's tweak.
    fn recycle(&self, source: &Owned) -> Result<(), Errno> {
        let (Some(from), Some(to)) = (sealed(&self.from, source)?, sealed(&self.to, source)?)
        else {
            return Err(Errno::EIO);
        };
        let mut page = [0; UNIT];
        let disk = source.disk();
        disk.transfer(|transfer| restore::first_page(transfer, &from, &to, &mut page))
    }

    /// Does what [`Self::store_as`] does, and removes the old name.
    fn store_anew(
        &self,
        source: &Owned,
        from: &Name,
        to: &Name,
        flags: c_uint,
    ) -> Result<(), Errno> {
        self.store_as(source, from, to, flags)?;
        remove(from);
        Ok(())
    }

    /// Stores the clear bytes of `source` in a new file that takes the target's name.
    fn store_as(&self, source: &Owned, from: &Name, to: &Name, flags: c_uint) -> Result<(), Errno> {
        let aside = aside(from)?;
        let aside = Name::at(from.directory, &aside);
        self.store_aside(source, &aside)?;
        let moved = plain(&aside, to, flags);
        if moved.is_err() {
            remove(&aside);
        }
        moved
    }

    /// Stores the clear bytes of `source`, as the target does, in a new file that is safe on disk.
    fn store_aside(&self, source: &Owned, aside: &Name) -> Result<(), Errno> {
        let target = match create_like(source, aside) {
            // A crash left it, or another program put a link there.
            Err(Errno(libc::EEXIST)) => {
                remove(aside);
                create_like(source, aside)?
            }
            created => created?,
        };
        let stored = self.copy(source, &target).and_then(|()| target.sync());
        if stored.is_err() {
            remove(aside);
        }
        stored
    }

    fn copy(&self, source: &Owned, target: &Owned) -> Result<(), Errno> {
        let (from, to) = (sealed(&self.from, source)?, sealed(&self.to, source)?);
        let from = from.as_ref().map_or(Stored::Clear, Stored::Sealed);
        let to = to.as_ref().map_or(Stored::Clear, Stored::Sealed);
        let mut page = [0; UNIT];
        MEMORY.with_scratch(|scratch| {
            restore::copy(
                (&source.disk(), &from),
                (&target.disk(), &to),
                scratch,
                &mut page,
            )
        })
    }
}

/// Returns the sealed file that `fd` is under this content; none where bytes are stored unchanged.
fn sealed(content: &Content, fd: &Owned) -> Result<Option<SealedFile<'static>>, Errno> {
    match content {
        Content::Clear | Content::Sealed(_, Class::WalRestored) => Ok(None),
        Content::Sealed(cluster, class) => {
            let spec = wal::spec_of(cluster, class, fd.0)?;
            Ok(Some(cluster.open(&spec)))
        }
    }
}

/// May this process be told by SQL what to rename? Timelines' histories come from two that may not.
fn runs_sql() -> bool {
    receivers::hides_from_sql() && !server::backend_is(c"walreceiver")
}

fn is_wal_scratch(class: &Class) -> bool {
    matches!(class, Class::Sealed(spec) if spec.layout == Layout::WAL_SCRATCH)
}

/// The file that `restore_command` brought, of which the log has told.
enum Restored {
    /// Sealed with the cluster's key.
    Ours,
    /// Clear, to be sealed.
    Clear,
    /// Clear, and not let in.
    Refused,
}

/// Judges a restored file. Any other one, such as a segment under another cluster's key, is neither
/// renamed nor changed: recovery would read noise, and take it for the end of WAL.
fn restored(
    source: &Owned,
    cluster: &Cluster,
    name: WalName,
    to: &Name,
) -> Result<Restored, Errno> {
    let disk = source.disk();
    let mut page = [0; UNIT];
    read_full(&disk, &mut page, 0)?;
    if let Some(header) = name.header(&page) {
        return Ok(match wal::admits_clear(to.path, &header) {
            true => Restored::Clear,
            false => Restored::Refused,
        });
    }
    if wal::opens(cluster, name, disk.size()?, &disk)? {
        return Ok(Restored::Ours);
    }
    report::line(
        "the WAL segment that restore_command brought is neither clear nor sealed with this \
         cluster's key: look at the archive",
    );
    Err(Errno::EINVAL)
}

/// Opens a regular file as it is stored, to read it or to write it too; none if the name is
/// something else.
fn open_file(name: &Name, access: c_int) -> Result<Option<Owned>, Errno> {
    let flags = access | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    let fd = match check(libc_call!(openat(
        name.directory,
        name.path.as_ptr(),
        flags,
        0
    ))) {
        Err(Errno(libc::EISDIR | libc::ELOOP)) => return Ok(None),
        opened => Owned(c_int::try_from(opened?).map_err(|_| Errno::EIO)?),
    };
    let regular = stat(fd.0)?.st_mode & libc::S_IFMT == libc::S_IFREG;
    Ok(regular.then_some(fd))
}

/// Creates a file of this name, with the mode and the owners of `source`. It opens nothing that is
/// there already: a link of that name could lead to the key file, in a directory of another user.
fn create_like(source: &Owned, name: &Name) -> Result<Owned, Errno> {
    let like = stat(source.0)?;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let mode = like.st_mode & 0o7777;
    let fd = check(libc_call!(openat(
        name.directory,
        name.path.as_ptr(),
        flags,
        mode
    )))?;
    let created = Owned(c_int::try_from(fd).map_err(|_| Errno::EIO)?);
    // A restore that runs as root leaves files that are the server's.
    // SAFETY: fchown(2) takes no pointer.
    match check(unsafe { libc::fchown(created.0, like.st_uid, like.st_gid) }) {
        Ok(_) => Ok(created),
        Err(errno) => {
            remove(name);
            Err(errno)
        }
    }
}

/// Removes the file that a crash left of a restored segment which was being encrypted, when
/// PostgreSQL removes the segment itself: at the end of archive recovery, if not before.
pub fn forget_unfinished(path: &CStr) {
    if !PROCESS.is_server() || !path.to_bytes().ends_with(b"pg_wal/RECOVERYXLOG") {
        return;
    }
    let kept = errno();
    if let Ok(unfinished) = aside(&Name::of(path)) {
        remove(&Name::of(&unfinished));
    }
    set_errno(kept);
}

/// Returns the name of a file that takes another one's place when it is whole.
fn aside(name: &Name) -> Result<CString, Errno> {
    CString::new([name.path.to_bytes(), b".pgseal"].concat()).map_err(|_| Errno::EINVAL)
}

fn is_there(name: &Name) -> Result<bool, Errno> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the name is terminated; the pointer is the buffer's own.
    match check(unsafe {
        libc::fstatat(name.directory, name.path.as_ptr(), stat.as_mut_ptr(), flags)
    }) {
        Ok(_) => Ok(true),
        Err(Errno(libc::ENOENT)) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn remove(name: &Name) {
    // SAFETY: the name is terminated.
    unsafe { libc::unlinkat(name.directory, name.path.as_ptr(), 0) };
}
