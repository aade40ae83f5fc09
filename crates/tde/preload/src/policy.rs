//! How a file is opened: the decision, without its effects.
//!
//! [`decide`] answers from who asks, from the flags of `open`, and from facts. It reads no clock,
//! file or environment and calls nothing of libc. A fact that costs a system call is asked for
//! only where the answer turns on it ([`Facts`]). `hooks::opening` finds the facts out, and does
//! what the [`Verdict`] says.
//!
//! Whether a server may have a file that is where another process keeps keys or memory is judged
//! later, on the open descriptor ([`Check`]), because a path may lead elsewhere each time that it
//! is looked at.

use crate::habits;
use crate::process::{Connection, Role};
use libc::c_int;
use pgseal_storage::classify::Class;
use pgseal_storage::layout::{Layout, PAGE};

#[cfg(test)]
mod tests;

/// The process that opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// The role of its program.
    pub role: Role,
    /// The verdict on its connection.
    pub connection: Connection,
}

/// How a base backup's own opens are answered; the same process reads catalogs meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opens {
    /// As any other file.
    Usual,
    /// As it is stored.
    Raw,
    /// Not at all: the backup was refused.
    Refused,
}

/// The kind of file that a name leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target<'a> {
    /// It is not protected.
    Clear,
    /// It must not be touched; the errno to answer with.
    Denied(c_int),
    /// It is a file of a sealed cluster.
    Sealed(&'a Class),
}

/// The facts of a name that a server writes to. Each answer may cost system calls.
pub trait Foreign {
    /// Does it lie in a directory of a sealed cluster that PostgreSQL does not have?
    fn is_foreign(&self) -> bool;
    /// Does a setting of this server name the file?
    fn is_set(&self) -> bool;
    /// Is this process the archiver?
    fn is_archiver(&self) -> bool;
}

/// The facts of a name that is opened. Each answer may cost system calls.
pub trait Facts: Foreign {
    /// Is it a raw base backup that opens it?
    fn backup(&self) -> Opens;
    /// The target by the name's spelling. None: it is clear if no part of it is a link.
    fn spelled(&self) -> Option<Target<'_>>;
    /// The target, with links followed.
    fn followed(&self) -> Target<'_>;
    /// Does it lie in a sealed cluster, whatever its class, or can that not be known?
    fn is_in_cluster(&self) -> bool;
    /// Is it a file of a sealed cluster of whose pages WAL has no images? No key is asked for.
    fn lacks_images(&self) -> bool;
    /// Is it a file for WAL that this program receives, in another form than segments?
    fn takes_received_wal(&self) -> bool;
    /// May this server run on the cluster that the target is in?
    fn allows_server(&self) -> bool;
    /// Does this process read streams for SQL, which gets files as they are stored?
    fn streams_to_sql(&self) -> bool;
}

/// The way in which a call of `open` is carried out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// libc opens it, and nothing else is done.
    Untouched,
    /// It is opened with these flags, and its bytes are clear.
    Clear(c_int),
    /// As [`Verdict::Clear`] if no part of the name is a link; else [`decide_followed`] is asked.
    ClearUnlessLinked(c_int),
    /// It is a file of a sealed cluster, and its bytes are given as they are stored.
    AsStored(Check),
    /// As [`Verdict::AsStored`], in whole pages beside the server that writes them.
    Pages,
    /// It is `pg_control`, of which a raw base backup carries its own version.
    CarriedControl,
    /// It is opened with these flags, for WAL that is sealed on its way.
    ReceivedWal(c_int),
    /// It is protected: its bytes go through the cipher.
    Protected(Protection),
    /// It is not opened.
    Refused(c_int, Reason),
}

impl Verdict {
    /// Are the bytes that the caller sees others than those that the kernel has, or read in whole
    /// pages?
    pub fn protects(self) -> bool {
        matches!(
            self,
            Self::Protected(_) | Self::Pages | Self::ReceivedWal(_)
        )
    }
}

/// The question about an open descriptor, before the caller gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Nothing: no role chose the path.
    None,
    /// Does it lead to what a server gives to nobody?
    FromAll,
    /// Does it lead to what a server gives to nobody, or into a key directory?
    FromSql,
}

/// How a protected file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// A path of SQL's may have led to it, so that [`Check::FromSql`] is asked.
    pub may_come_from_sql: bool,
    /// [`Check::FromSql`] is asked, and `lo_import` gets the bytes as they are stored.
    pub hidden_from_import: bool,
}

/// Why a file is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It may not be touched, or must not be made so; a line on stderr has said why, where it is
    /// the operator's to know.
    Denied,
    /// It would be in clear, in a directory that PostgreSQL does not have.
    Foreign,
    /// It cannot be sealed; the advice says what to change.
    CannotBeSealed(&'static str),
}

/// Decides how a file is opened.
pub fn decide(who: Who, flags: c_int, facts: &impl Facts) -> Verdict {
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        return decide_nameless(who, facts);
    }
    if flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 {
        return Verdict::Untouched;
    }
    match facts.backup() {
        Opens::Usual => {}
        Opens::Raw => return decide_raw(facts.followed()),
        Opens::Refused => return Verdict::Refused(libc::EACCES, Reason::Denied),
    }
    match facts.spelled() {
        Some(target) => judge(who, flags, target, facts),
        None if facts.takes_received_wal() => decide_followed(who, flags, facts),
        None => {
            allowed_flags(who, flags, facts).map_or(REFUSED_AS_FOREIGN, Verdict::ClearUnlessLinked)
        }
    }
}

/// Decides how a file is opened for a stream (`fopen`).
pub fn decide_stream(who: Who, flags: c_int, facts: &impl Facts) -> Verdict {
    if reads(flags) && facts.streams_to_sql() {
        return Verdict::AsStored(Check::FromSql);
    }
    decide(who, flags, facts)
}

/// Decides on a name of which a part is a link.
pub fn decide_followed(who: Who, flags: c_int, facts: &impl Facts) -> Verdict {
    judge(who, flags, facts.followed(), facts)
}

const REFUSED_AS_FOREIGN: Verdict = Verdict::Refused(libc::EPERM, Reason::Foreign);

/// A file without a name has no class, and a link may give it a name later. So it is refused in a
/// sealed cluster, and a server, which would keep in clear what an extension links into a directory
/// of its own later, makes none there at all.
fn decide_nameless(who: Who, facts: &impl Facts) -> Verdict {
    match facts.followed() {
        Target::Clear if who.role == Role::Server && facts.is_in_cluster() => {
            Verdict::Refused(libc::EOPNOTSUPP, Reason::Denied)
        }
        Target::Clear => Verdict::Untouched,
        Target::Denied(errno) => Verdict::Refused(errno, Reason::Denied),
        Target::Sealed(_) => Verdict::Refused(libc::EOPNOTSUPP, Reason::Denied),
    }
}

/// A raw base backup takes files as they are stored, the key directory's too, except `pg_control`,
/// because the server refuses its stored page.
fn decide_raw(target: Target) -> Verdict {
    match target {
        Target::Sealed(class) if is_control(class) => Verdict::CarriedControl,
        Target::Sealed(class) if lacks_images(class) => Verdict::Pages,
        _ => Verdict::AsStored(Check::FromAll),
    }
}

fn judge(who: Who, flags: c_int, target: Target, facts: &impl Facts) -> Verdict {
    match target {
        Target::Clear if who.role == Role::Viewer && reads(flags) && facts.lacks_images() => {
            Verdict::Pages
        }
        Target::Clear => match allowed_flags(who, flags, facts) {
            None => REFUSED_AS_FOREIGN,
            Some(flags) if facts.takes_received_wal() => Verdict::ReceivedWal(flags),
            Some(flags) => Verdict::Clear(flags),
        },
        Target::Denied(errno) => Verdict::Refused(errno, Reason::Denied),
        Target::Sealed(class) => judge_sealed(who, flags, class, facts),
    }
}

fn judge_sealed(who: Who, flags: c_int, class: &Class, facts: &impl Facts) -> Verdict {
    match class {
        Class::Clear => Verdict::Clear(flags),
        Class::WalRestored => Verdict::AsStored(Check::FromSql),
        Class::KeyDirectory => Verdict::Refused(libc::EACCES, Reason::Denied),
        Class::Refused(advice) => Verdict::Refused(libc::ENOTSUP, Reason::CannotBeSealed(advice)),
        Class::WalSegment(_) if reads(flags) && facts.is_archiver() => {
            Verdict::AsStored(Check::None)
        }
        class if comes_first(class) && !facts.allows_server() => {
            Verdict::Refused(libc::EPERM, Reason::Denied)
        }
        class => Verdict::Protected(Protection {
            may_come_from_sql: habits::may_come_from_sql(holds_pages(class), flags),
            hidden_from_import: reads(flags)
                && holds_pages(class)
                && hides_from_import(who.connection),
        }),
    }
}

/// Returns the flags with which a server opens a file of no class. None: it must not open it,
/// because the file would be in clear. One that recovery opens only to sync it is opened for
/// reading.
fn allowed_flags(who: Who, flags: c_int, facts: &impl Foreign) -> Option<c_int> {
    if reads(flags) && !habits::changes(flags) {
        return Some(flags);
    }
    match may_write(who.role, facts) {
        true => Some(flags),
        false => habits::opens_to_sync(flags).then_some(flags & !libc::O_ACCMODE | libc::O_RDONLY),
    }
}

/// May this process write a file that is in clear there? The archiver sees what is stored, and
/// writes that.
pub fn may_write(role: Role, facts: &impl Foreign) -> bool {
    role != Role::Server || !facts.is_foreign() || facts.is_set() || facts.is_archiver()
}

/// Does `lo_import` get a file as it is stored, on such a connection?
fn hides_from_import(connection: Connection) -> bool {
    matches!(
        connection,
        Connection::Session | Connection::Unproven | Connection::Raw
    )
}

fn reads(flags: c_int) -> bool {
    flags & libc::O_ACCMODE == libc::O_RDONLY
}

/// Relations, SLRUs, WAL, under the name that it is made by too, and pg_control.
pub fn holds_pages(class: &Class) -> bool {
    let others = [Layout::CONTROL, Layout::WAL_SCRATCH];
    match class {
        Class::Sealed(spec) => spec.layout.granule() == PAGE || others.contains(&spec.layout),
        Class::WalSegment(_) => true,
        _ => false,
    }
}

/// SLRUs and maps: WAL has no images of their pages.
pub fn lacks_images(class: &Class) -> bool {
    matches!(class, Class::Sealed(spec) if spec.layout.lacks_images())
}

fn is_control(class: &Class) -> bool {
    matches!(class, Class::Sealed(spec) if spec.layout == Layout::CONTROL)
}

/// Does a server open this first of a cluster? That is `pg_control`, or, if it makes the cluster,
/// new WAL.
fn comes_first(class: &Class) -> bool {
    let first = [Layout::CONTROL, Layout::WAL_SCRATCH];
    matches!(class, Class::Sealed(spec) if first.contains(&spec.layout))
}
