//! The sources of keys: a sealed memfd that the wrapper passes on, or, for a cluster that is met
//! later, `pgseal unlock` run as a child. The library itself knows no provider and runs no command
//! of a data directory.
//!
//! Keys are taken once, before `main`, and their descriptor is closed. Tools that start
//! PostgreSQL's programs leave it open for them, so that no user is asked for a passphrase twice.

use crate::clusters::{self, Cluster, Facts};
use crate::disk::{check, stat};
use crate::process::PROCESS;
use crate::{key_material, programs, real, report, server};
use libc::{c_char, c_int};
use pgseal_contract::{file, variable};
use pgseal_crypto::{fips_module, without_trace, KeyLength, MasterKey};
use pgseal_format::handover::{self, Functions};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use zeroize::Zeroizing;

/// The descriptor that holds the keys.
pub const KEYS_FD: &CStr = variable::KEYS_FD.as_c_str();
/// Where the command is, if it does not lie beside the library.
const COMMAND: &str = variable::COMMAND.as_str();
/// Longest record that is read.
const MAX_RECORD: usize = 1 << 20;

/// The cluster cannot be opened; a line on stderr has said why.
#[derive(Clone, Copy, Debug)]
pub struct Failed;

/// Takes the keys that the environment names, if it names any.
pub fn take_handover() {
    let Some(value) = std::env::var_os(KEYS_FD.to_str().unwrap_or_default()) else {
        return;
    };
    let fd = value
        .to_str()
        .and_then(|digits| digits.parse::<c_int>().ok());
    let taken = fd.ok_or("it is not a number").and_then(|fd| {
        let result = take(fd);
        if PROCESS.is_server() || programs::starts_none() {
            // SAFETY: the descriptor is ours by agreement.
            unsafe { libc::close(fd) };
        }
        result
    });
    if let Err(reason) = taken {
        report::line(&format!(
            "PGSEAL_KEYS_FD is of no use ({reason}): start through a wrapper"
        ));
    }
}

fn take(fd: c_int) -> Result<(), &'static str> {
    let record = read_sealed(fd).ok_or("no sealed memory file is open there")?;
    let entries = handover::decode(&record).map_err(|_| "it holds no keys of this version")?;
    check_functions(&record)?;
    for entry in entries {
        remember(&entry).ok_or("there is no memory for keys")?;
    }
    withhold_key_material(&record);
    Ok(())
}

/// Refuses keys that only approved functions may use, where this build does not have them.
fn check_functions(record: &[u8]) -> Result<(), &'static str> {
    if handover::functions(record) != Ok(Functions::Approved) {
        return Ok(());
    }
    if fips_module().is_none() {
        return Err("require_fips refuses this library, which is built without a FIPS module");
    }
    let mut entries = handover::decode(record).map_err(|_| "it holds no keys of this version")?;
    match entries.all(|entry| entry.length == KeyLength::Bits256) {
        true => Ok(()),
        false => Err("require_fips refuses keys of less than 256 bits"),
    }
}

/// Withholds the key material files that a decoded record names.
fn withhold_key_material(record: &[u8]) {
    if let Ok(files) = handover::files(record) {
        files.for_each(key_material::withhold);
    }
}

/// Remembers a cluster and its key, without a trace of the key on the stack: moving it copies it,
/// and PostgreSQL copies old stack into its heap, as the padding of structures.
fn remember(entry: &handover::Entry) -> Option<&'static Cluster> {
    let pending = !has_key_directory(entry.root);
    without_trace(|| {
        let mut master = Zeroizing::new(*entry.master);
        let master = MasterKey::from_bytes(&mut master);
        clusters::add(entry.root, pending, facts(entry), master)
    })
}

fn facts(entry: &handover::Entry) -> Facts {
    let opener = entry.opened_by;
    Facts {
        cluster: entry.cluster,
        length: entry.length,
        opened_by: opener.map(|opener| (opener.slot, opener.kind.to_owned())),
    }
}

fn has_key_directory(root: &[u8]) -> bool {
    CString::new([root, b"/", file::KEY_DIRECTORY.as_str().as_bytes()].concat())
        // SAFETY: the path is terminated.
        .is_ok_and(|path| unsafe { libc::access(path.as_ptr(), libc::F_OK) == 0 })
}

/// Returns the bytes of a memfd that no process can change any more.
fn read_sealed(fd: c_int) -> Option<Zeroizing<Vec<u8>>> {
    // SAFETY: the call asks for the seals of a descriptor; it fails on anything but a memfd.
    let seals = unsafe { libc::fcntl(fd, libc::F_GET_SEALS) };
    let needed = libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    if seals < 0 || seals & needed != needed {
        return None;
    }
    read_all(fd)
}

fn read_all(fd: c_int) -> Option<Zeroizing<Vec<u8>>> {
    let size = usize::try_from(stat(fd).ok()?.st_size)
        .ok()
        .filter(|&size| size <= MAX_RECORD)?;
    let mut record = Zeroizing::new(vec![0; size]);
    // SAFETY: the pointer and the length are the buffer's own; the call bypasses the hooks.
    let got = unsafe { libc::syscall(libc::SYS_pread64, fd, record.as_mut_ptr(), size, 0) };
    (check(got) == Ok(size)).then_some(record)
}

/// Asks the command to unlock the cluster at `root`. A server asks for its own alone, before it has
/// children: which paths these open is said by the client that is connected, and what unlocks a
/// cluster may be a command in it.
pub fn ask(root: &[u8]) -> Result<&'static Cluster, Failed> {
    if PROCESS.is_server() && !(server::is_first() && server::is_own(root)) {
        return refuse(
            "a server opens no other cluster than its own, and not the one at",
            root,
        );
    }
    // Nothing may recurse; and one failed attempt is enough to say why: an operator is not asked
    // for a passphrase, or kept waiting for a command, at every file.
    let barred = &PROCESS.server.barred;
    if barred.swap(true, Ordering::AcqRel) {
        return Err(Failed);
    }
    let errno = real::errno();
    let answer = run_command(root).and_then(|record| {
        let entry = handover::decode(&record).ok()?.next()?;
        check_functions(&record).map_err(report::line).ok()?;
        withhold_key_material(&record);
        remember(&entry)
    });
    real::set_errno(errno);
    if answer.is_some() {
        server::forget_secrets();
        barred.store(false, Ordering::Release);
    }
    answer.map_or_else(|| refuse("could not unlock the cluster at", root), Ok)
}

fn refuse(reason: &str, root: &[u8]) -> Result<&'static Cluster, Failed> {
    let root = String::from_utf8_lossy(root);
    report::line(&format!("{reason} {root}: nothing in it is opened"));
    Err(Failed)
}

/// Runs `pgseal unlock` with a memfd to write to. The child's stderr is ours: it says what failed.
fn run_command(root: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let command = command()?;
    // SAFETY: the name is terminated; the descriptor is new, and closed below.
    let fd = unsafe { libc::memfd_create(c"pgseal".as_ptr(), 0) };
    if fd < 0 {
        return None;
    }
    let descriptor = CString::new(fd.to_string()).ok()?;
    let root = CString::new(root).ok()?;
    let arguments = [&command, c"unlock", c"--fd", &descriptor, c"--root", &root];
    let record = spawn(&arguments).then(|| read_all(fd)).flatten();
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(fd) };
    record
}

/// Runs a child to its end; true if it exits with 0.
fn spawn(arguments: &[&CStr]) -> bool {
    extern "C" {
        static environ: *const *mut c_char;
    }
    let mut pointers: Vec<_> = arguments
        .iter()
        .map(|one| one.as_ptr().cast_mut())
        .collect();
    pointers.push(std::ptr::null_mut());
    server::with_set_aside(|aside| {
        // SAFETY: `environ` ends with a null; no thread changes it while a server unlocks, and its
        // strings outlive this.
        let environment = unsafe { environment(environ, aside) };
        run(&pointers, &environment)
    })
}

/// Returns the environment, with what was taken out of it.
///
/// # Safety
/// `own` is an array that ends with a null.
unsafe fn environment(own: *const *mut c_char, aside: &[CString]) -> Vec<*mut c_char> {
    // SAFETY: `own` is an array that ends with a null, where the reading stops.
    let own = (0..)
        .map(|i| unsafe { *own.add(i) })
        .take_while(|entry| !entry.is_null());
    let aside = aside.iter().map(|setting| setting.as_ptr().cast_mut());
    own.chain(aside).chain([std::ptr::null_mut()]).collect()
}

fn run(arguments: &[*mut c_char], environment: &[*mut c_char]) -> bool {
    let children = OwnChildren::new();
    let (mut child, mut status, none) = (0, -1, std::ptr::null());
    // SAFETY: all strings and arrays are terminated, and the attributes were made.
    unsafe {
        let started = libc::posix_spawn(
            &raw mut child,
            arguments[0],
            none,
            &raw const children.of_child,
            arguments.as_ptr(),
            environment.as_ptr(),
        );
        if started == 0 {
            while libc::waitpid(child, &raw mut status, 0) < 0 && real::errno() == libc::EINTR {}
        }
    }
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// A guard that keeps all other code from reaping a child while it lives. It blocks SIGCHLD, for
/// which the postmaster's handler would reap. Where the signal is ignored, as the program was
/// started, it takes the default for it, because the kernel would reap.
struct OwnChildren {
    mask: libc::sigset_t,
    action: libc::sigaction,
    /// The child has what this process had, and SIGCHLD's default.
    of_child: libc::posix_spawnattr_t,
}

impl OwnChildren {
    fn new() -> Self {
        #[allow(clippy::cast_possible_truncation)] // the bits of a C short
        const FLAGS: i16 = (libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF) as i16;
        // SAFETY: plain data, for which zeros are a value; sets and attributes that live through
        // the calls that make and use them.
        unsafe {
            let mut own: Self = std::mem::zeroed();
            let mut chld = std::mem::zeroed();
            libc::sigemptyset(&raw mut chld);
            libc::sigaddset(&raw mut chld, libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const chld, &raw mut own.mask);
            libc::sigaction(libc::SIGCHLD, std::ptr::null(), &raw mut own.action);
            if own.action.sa_sigaction == libc::SIG_IGN {
                libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            }
            libc::posix_spawnattr_init(&raw mut own.of_child);
            libc::posix_spawnattr_setsigmask(&raw mut own.of_child, &raw const own.mask);
            libc::posix_spawnattr_setsigdefault(&raw mut own.of_child, &raw const chld);
            libc::posix_spawnattr_setflags(&raw mut own.of_child, FLAGS);
            own
        }
    }
}

impl Drop for OwnChildren {
    fn drop(&mut self) {
        // SAFETY: the attributes, the set and the action are those that `new` made and found.
        unsafe {
            libc::posix_spawnattr_destroy(&raw mut self.of_child);
            libc::sigaction(libc::SIGCHLD, &raw const self.action, std::ptr::null_mut());
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.mask,
                std::ptr::null_mut(),
            );
        }
    }
}

/// The command: `../bin/pgseal` from the library, or beside it.
fn command() -> Option<CString> {
    if let Some(given) = std::env::var_os(COMMAND) {
        return CString::new(given.as_bytes()).ok();
    }
    // SAFETY: asks the loader for the file that holds this very function.
    let library = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(command as *const libc::c_void, &raw mut info) == 0 {
            return None;
        }
        CStr::from_ptr(info.dli_fname).to_owned()
    };
    let directory = std::path::Path::new(OsStr::from_bytes(library.as_bytes())).parent()?;
    ["../bin/pgseal", "pgseal"].iter().find_map(|place| {
        let path = CString::new(directory.join(place).as_os_str().as_bytes()).ok()?;
        // SAFETY: the path is terminated.
        let runs = unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 };
        runs.then_some(path)
    })
}
