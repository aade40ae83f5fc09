//! The server's hardening: its memory and its environment give no key away, and settings under
//! which a cluster cannot stay sealed are refused. Tools that start no program of PostgreSQL's are
//! hardened like it, because a server of the same user could read their environment.

use crate::disk::stat;
use crate::process::PROCESS;
use crate::real::{errno, libc_call, set_errno};
use crate::{key_material, programs, unlock};
use libc::c_int;
use pgseal_contract::{file, variable};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::PoisonError;
use zeroize::Zeroize;

/// Variables that hold commands with passphrases in them, or lead to keys.
const SECRETS: [&CStr; 3] = [
    unlock::KEYS_FD,
    variable::WRAP_COMMAND.as_c_str(),
    variable::UNWRAP_COMMAND.as_c_str(),
];

/// The key that the operator expects; `pgseal` compares it.
const EXPECT_KEY: &str = variable::EXPECT_KEY.as_str();
const KEY_DIRECTORY: &str = file::KEY_DIRECTORY.as_str();

/// Called once, before `main`, when the keys have been taken. PostgreSQL copies the environment
/// when it starts, and the original stays readable in `/proc/PID/environ`: secrets must be out of
/// it by then. The children of `archive_command` must not see them either.
pub fn harden() {
    if programs::starts_none() {
        let commands = SECRETS.iter().filter_map(|name| take_out(name));
        return with_set_aside(|aside| aside.extend(commands));
    }
    if !PROCESS.is_server() {
        return;
    }
    leave_shared_buffers_out_of_cores();
    let pinned = std::env::var_os(EXPECT_KEY).is_some_and(|key| !key.is_empty());
    PROCESS.server.pinned.store(pinned, Ordering::Relaxed);
    let settings: Vec<CString> = SECRETS.iter().filter_map(|name| take_out(name)).collect();
    if crate::clusters::all().next().is_none() {
        with_set_aside(|aside| *aside = settings);
    } else {
        settings.into_iter().for_each(wipe);
    }
}

/// Is this a server that must not run on a plain cluster?
#[inline]
pub fn is_pinned() -> bool {
    PROCESS.server.pinned.load(Ordering::Relaxed)
}

/// Runs `work` with the settings that were taken out, as `NAME=value`.
pub fn with_set_aside<T>(work: impl FnOnce(&mut Vec<CString>) -> T) -> T {
    work(
        &mut PROCESS
            .taken_out
            .secrets
            .lock()
            .unwrap_or_else(PoisonError::into_inner),
    )
}

/// The keys are here: the settings are not needed any more. A tool may meet more clusters.
pub fn forget_secrets() {
    if !PROCESS.is_server() {
        return;
    }
    with_set_aside(|aside| aside.drain(..).for_each(wipe));
}

fn wipe(setting: CString) {
    setting.into_bytes().zeroize();
}

/// A core dump holds anonymous shared memory by default, and so every page in shared buffers, in
/// clear. 0x31 is the default without it.
fn leave_shared_buffers_out_of_cores() {
    const FILTER: &[u8] = b"0x31";
    let path = c"/proc/self/coredump_filter";
    let fd = libc_call!(open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC, 0));
    if fd >= 0 {
        libc_call!(write(fd, FILTER.as_ptr().cast(), FILTER.len()));
        libc_call!(close(fd));
    }
}

/// Is this the server's own data directory, wherever it found that named?
pub fn is_own(root: &[u8]) -> bool {
    let Some(variable) = symbol(c"DataDir") else {
        return false;
    };
    // SAFETY: exported by every supported server with this type (miscadmin.h): null until the
    // configuration was read, then a C string that stays.
    let own = unsafe { *variable.cast::<*const libc::c_char>() };
    if own.is_null() {
        return false;
    }
    // SAFETY: `own` is not null, so it is the server's C string, which stays.
    let own = OsStr::from_bytes(unsafe { CStr::from_ptr(own) }.to_bytes());
    let [own, root] = [own, OsStr::from_bytes(root)].map(std::fs::metadata);
    matches!((own, root), (Ok(own), Ok(root)) if (own.dev(), own.ino()) == (root.dev(), root.ino()))
}

/// Takes a variable out of the environment and out of `/proc/PID/environ`.
pub fn take_out(name: &CStr) -> Option<CString> {
    // SAFETY: before `main` there is one thread; the string is the environment's own.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        if value.is_null() {
            return None;
        }
        let setting = [name.to_bytes(), b"=", CStr::from_ptr(value).to_bytes()].concat();
        libc::explicit_bzero(value.cast(), libc::strlen(value));
        libc::unsetenv(name.as_ptr());
        CString::new(setting).ok()
    }
}

/// Does this descriptor, just opened with `flags`, lead to what a server hands to nobody? Any role
/// that may read files would have keys by it, or clear pages.
pub fn withholds(fd: c_int, flags: c_int) -> bool {
    PROCESS.is_server() && (holds_memory(fd, flags) || key_material::has(fd))
}

/// Does this descriptor, which a path of SQL's led to, lead to such a file, or into a key
/// directory? SQL has no business there, and a raw base backup takes what is in it.
pub fn withholds_from_sql(fd: c_int, flags: c_int) -> bool {
    withholds(fd, flags) || (PROCESS.is_server() && is_of_key_directory(fd))
}

/// Does it lead into a key directory? A path that did not, when it was looked at, may do so when it
/// is opened. Where `pg_encryption` is a link the directory has another name, and its files have
/// theirs.
fn is_of_key_directory(fd: c_int) -> bool {
    let Some(path) = target(fd) else { return true };
    let path = Path::new(OsStr::from_bytes(&path));
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return false;
    };
    let name = name.as_bytes();
    directory.ends_with(KEY_DIRECTORY)
        || [file::KEY_FILE, file::KEY_SETTINGS]
            .iter()
            .any(|file| name.starts_with(file.as_str().as_bytes()))
            && is_key_directory(directory)
}

/// Does this name lie in a key directory, by whatever path? A server removes, renames and links
/// nothing there.
pub fn lies_in_key_directory(directory: c_int, path: &CStr) -> bool {
    if !PROCESS.is_server() {
        return false;
    }
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return false,
    };
    match directory {
        libc::AT_FDCWD => is_key_directory(parent),
        _ => is_key_directory(&Path::new(&format!("/proc/self/fd/{directory}")).join(parent)),
    }
}

fn is_key_directory(directory: &Path) -> bool {
    let kept = errno();
    let identity =
        |path: &Path| Some(path.metadata().ok()?).map(|found| (found.dev(), found.ino()));
    let own = identity(directory);
    let is_one = crate::clusters::all()
        .map(|cluster| Path::new(OsStr::from_bytes(&cluster.root)).join(KEY_DIRECTORY))
        .any(|keys| identity(&keys) == own);
    set_errno(kept);
    own.is_some() && is_one
}

/// Does it lead to what a process keeps in memory? The file system distinguishes most files from
/// these by one call, whatever path led to them. A file whose file system does not answer counts as
/// one.
fn holds_memory(fd: c_int, flags: c_int) -> bool {
    let mut filesystem = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: fstatfs fills the structure when it returns 0.
    let kind = unsafe {
        if libc::fstatfs(fd, filesystem.as_mut_ptr()) != 0 {
            return true;
        }
        filesystem.assume_init().f_type
    };
    let reads = flags & libc::O_ACCMODE == libc::O_RDONLY;
    // Its type differs between C libraries.
    match u64::try_from(kind).unwrap_or(0) {
        PROC_MAGIC => target(fd).is_none_or(|path| is_private(fd, &path)),
        TMPFS_MAGIC => target(fd).is_none_or(|path| is_shared_memory(&path, reads)),
        PIPEFS_MAGIC => reads,
        _ => false,
    }
}

/// The magic number of procfs (linux/magic.h).
const PROC_MAGIC: u64 = 0x9fa0;
/// The magic number of tmpfs (linux/magic.h).
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// The magic number of pipes (linux/magic.h). A pipe without a name is opened through another
/// process's descriptors: a command may be passing a passphrase through it.
const PIPEFS_MAGIC: u64 = 0x5049_5045;

/// A file of procfs: memory, and what the kernel lets only a process's own user read, where that is
/// another process: its environment may hold a command with a passphrase.
fn is_private(fd: c_int, path: &[u8]) -> bool {
    if path.ends_with(b"/mem") {
        return true;
    }
    let is_number = |part: &&[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let process = path.split(|&byte| byte == b'/').find(is_number);
    let own = std::process::id().to_string();
    let for_all = stat(fd).is_ok_and(|stat| stat.st_mode & libc::S_IROTH != 0);
    process.is_some_and(|process| process != own.as_bytes())
        && (!for_all || path.ends_with(b"maps"))
}

/// A file of tmpfs: a memory file, as keys are handed over in, or what parallel workers share, in
/// which there are rows. The server itself opens these past us, for writing too.
fn is_shared_memory(path: &[u8], reads: bool) -> bool {
    path.starts_with(b"/memfd:") || (reads && path.starts_with(b"/dev/shm/PostgreSQL."))
}

#[inline(never)] // a page of the stack, for files in memory alone
fn target(fd: c_int) -> Option<Vec<u8>> {
    let link = CString::new(format!("/proc/self/fd/{fd}")).ok()?;
    let mut path = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer's own pointer and length.
    let len = unsafe { libc::readlink(link.as_ptr(), path.as_mut_ptr().cast(), path.len()) };
    Some(path.get(..usize::try_from(len).ok()?)?.to_vec())
}

/// Is this the archiver? What it gives to an archive library must be what is stored, and so must be
/// what the library makes of it, wherever that is: of all that no row of the table names, the
/// archiver sees the stored bytes.
pub fn is_archiver() -> bool {
    backend_is(c"archiver")
}

/// Is this a process of the server, of the kind that its process title names so?
pub fn backend_is(title: &CStr) -> bool {
    if !PROCESS.is_server() {
        return false;
    }
    let (Some(kind), Some(describe)) = (symbol(c"MyBackendType"), symbol(c"GetBackendTypeDesc"))
    else {
        return false;
    };
    // SAFETY: exported by every supported server with these types (miscadmin.h): an enum and a
    // function from it to a constant string.
    let name = unsafe {
        let describe: unsafe extern "C" fn(c_int) -> *const libc::c_char =
            std::mem::transmute(describe);
        let name = describe(*kind.cast::<c_int>());
        if name.is_null() {
            return false;
        }
        CStr::from_ptr(name)
    };
    name == title
}

/// Is this the postmaster itself: not a bootstrap or single-user process, not a child?
pub fn is_postmaster() -> bool {
    is_first() && is_set(c"IsPostmasterEnvironment")
}

/// Is this the postmaster, or a server that has none: initdb's, or a single user's?
pub fn is_first() -> bool {
    PROCESS.is_server() && !is_set(c"IsUnderPostmaster")
}

fn is_set(flag: &CStr) -> bool {
    // SAFETY: exported by every supported server as a bool (miscadmin.h).
    symbol(flag).is_some_and(|flag| unsafe { *flag.cast::<u8>() != 0 })
}

/// A configuration parameter of this server, as it shows it.
pub fn setting(name: &CStr) -> Option<&'static CStr> {
    type GetConfigOption =
        unsafe extern "C" fn(*const libc::c_char, bool, bool) -> *const libc::c_char;
    let get = symbol(c"GetConfigOption")?;
    // SAFETY: exported by every supported server with this type (guc.h); with missing_ok it
    // returns null for a name that it does not know, else a string of its own.
    unsafe {
        let get: GetConfigOption = std::mem::transmute(get);
        let value = get(name.as_ptr(), true, false);
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }
}

/// Returns the address that the server exports by this name.
pub fn symbol(name: &CStr) -> Option<*mut libc::c_void> {
    // SAFETY: a terminated name.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_cannot_be_asked_for_its_file_system_counts_as_memory() {
        let program = std::fs::File::open("/proc/self/exe").expect("this program");
        assert!(!holds_memory(program.as_raw_fd(), libc::O_RDONLY));
        assert!(holds_memory(-1, libc::O_RDONLY));
    }
}
