//! Rights that the process gives up before it takes the first connection.
//!
//! They go in this order: limits and locked memory while it may still be root, then root itself,
//! then the right to be looked into ([`no_inspection`]), last the system calls ([`fence`]).

use std::collections::BTreeMap;

use nix::errno::Errno;
use nix::sys::mman::{mlockall, MlockAllFlags};
use nix::sys::prctl;
use nix::sys::resource::{getrlimit, setrlimit, Resource, RLIM_INFINITY};
use nix::unistd::{self, User};
use pgseal_evaluator::os;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch};

/// Locked memory that a process needs at least, and for each connection: its ring, what it keeps
/// open, and its buffers, as large as they become.
const MIN_LOCKED: u64 = 64 << 20;
const LOCKED_EACH: u64 = 32 << 20;
/// The bytes of locked memory for each page of an index that is kept.
const LOCKED_PAGE: u64 = 32 << 10;

/// Descriptors beside one for each connection: standard ones, socket, signals, epoll, the log, and
/// what is open for a moment.
const MIN_DESCRIPTORS: u64 = 24;

/// Why the process does not start. Each names what to change.
#[derive(Debug, thiserror::Error)]
pub enum HardenError {
    /// The limit on locked memory is too low.
    #[error(
        "only {0} kB may be locked into memory, and {1} kB are needed: raise the limit \
        (LimitMEMLOCK=infinity), give it CAP_IPC_LOCK, or allow fewer connections, less memory or \
        fewer pages"
    )]
    LockLimit(u64, u64),
    /// Locking failed within the limit.
    #[error("memory cannot be locked: {0}: give the process CAP_IPC_LOCK or more memory")]
    Lock(Errno),
    /// The limit on open files is too low.
    #[error(
        "only {0} files may be open, and {1} are needed: raise the limit (LimitNOFILE=), or allow \
        fewer connections"
    )]
    FileLimit(u64, u64),
    /// No such user.
    #[error("there is no user {0}: make one, or name another with --user")]
    NoUser(String),
    /// Root's rights cannot be given up.
    #[error("cannot become the user {0}: {1}: start as root, or as that user without --user")]
    Become(String, Errno),
    /// The kernel does not let go of them one by one.
    #[error("cannot give up root's capabilities: {0}")]
    Capability(std::io::Error),
    /// It would keep root's rights.
    #[error("this must not run as root: name a user with --user")]
    Root,
    /// The kernel refuses a limit or a setting.
    #[error("the kernel refuses {0}: {1}")]
    Kernel(&'static str, Errno),
    /// The kernel has no seccomp.
    #[error("system calls cannot be fenced in: {0}: the kernel needs CONFIG_SECCOMP_FILTER")]
    Fence(String),
}

/// Whether memory is locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// All of it, or the process does not start.
    All,
    /// As far as the limit goes: keys may reach the swap.
    AsFar,
}

/// The bound within which memory is locked, once root's rights are gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// The limit suffices, or need not.
    Limit,
    /// CAP_IPC_LOCK, which goes beyond every limit.
    Capability,
}

/// Locks all memory of now and later, and gives core dumps no byte. `shared` is what connections
/// take beside what each of them needs.
pub fn memory(
    connections: u32,
    pages: u32,
    shared: u64,
    lock: Lock,
) -> Result<Within, HardenError> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)
        .map_err(|errno| HardenError::Kernel("a core limit of 0", errno))?;
    if lock == Lock::AsFar {
        return Ok(Within::Limit);
    }
    // Without CAP_SYS_RESOURCE it stays as it is, and is judged below.
    let _ = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
    let (limit, _) = getrlimit(Resource::RLIMIT_MEMLOCK)
        .map_err(|errno| HardenError::Kernel("to tell a limit", errno))?;
    let each = LOCKED_EACH * u64::from(connections) + LOCKED_PAGE * u64::from(pages);
    let needed = MIN_LOCKED + each + shared;
    let within = match limit < needed {
        false => Within::Limit,
        true if os::may_lock() => Within::Capability,
        true => return Err(HardenError::LockLimit(limit >> 10, needed >> 10)),
    };
    // Pages are locked when they are first used, or the stacks of threads would cost their size.
    let onfault = MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);
    let all = MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE | onfault;
    mlockall(all).map_err(HardenError::Lock)?;
    Ok(within)
}

/// Each connection may have its descriptor. What is missing is taken within the hard limit, and
/// beyond it as root.
pub fn descriptors(connections: u32) -> Result<(), HardenError> {
    let needed = MIN_DESCRIPTORS + u64::from(connections);
    let limits = || {
        getrlimit(Resource::RLIMIT_NOFILE)
            .map_err(|errno| HardenError::Kernel("to tell a limit", errno))
    };
    let (soft, hard) = limits()?;
    if soft < needed {
        // Refused without the right to go beyond the hard limit, and judged below.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed));
    }
    match limits()? {
        (soft, _) if soft < needed => Err(HardenError::FileLimit(hard, needed)),
        _ => Ok(()),
    }
}

/// The user of this name.
pub fn user(name: &str) -> Result<User, HardenError> {
    let found = User::from_name(name);
    found
        .map_err(|errno| HardenError::Become(name.to_owned(), errno))?
        .ok_or_else(|| HardenError::NoUser(name.to_owned()))
}

/// Becomes `user` for good, with that user's group alone, and with the capability to lock memory
/// only if that is what it is locked by.
pub fn become_user(user: &User, within: Within) -> Result<(), HardenError> {
    let failed = |errno| HardenError::Become(user.name.clone(), errno);
    if user.uid == unistd::geteuid() && user.uid == unistd::getuid() {
        return Ok(());
    }
    let keep = within == Within::Capability;
    prctl::set_keepcaps(keep).map_err(failed)?;
    unistd::setgroups(&[user.gid]).map_err(failed)?;
    unistd::setresgid(user.gid, user.gid, user.gid).map_err(failed)?;
    unistd::setresuid(user.uid, user.uid, user.uid).map_err(failed)?;
    if keep {
        os::keep_lock_alone().map_err(HardenError::Capability)?;
        prctl::set_keepcaps(false).map_err(failed)?;
    }
    Ok(())
}

/// Lets only root look into the process from now on, and lets it get no more rights than it has.
pub fn no_inspection() -> Result<(), HardenError> {
    if unistd::geteuid().is_root() {
        return Err(HardenError::Root);
    }
    prctl::set_dumpable(false).map_err(|e| HardenError::Kernel("not to be dumpable", e))?;
    prctl::set_no_new_privs().map_err(|e| HardenError::Kernel("no new privileges", e))
}

/// Lets only the calls of [`ALLOWED`] succeed from now on, in every thread; those of [`FATAL`] end
/// the process.
pub fn fence() -> Result<(), HardenError> {
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    // In this order: the second leaves no way to add a third.
    apply(FATAL, SeccompAction::Allow, SeccompAction::KillProcess)?;
    apply(ALLOWED, denied, SeccompAction::Allow)
}

fn apply(calls: &[i64], others: SeccompAction, these: SeccompAction) -> Result<(), HardenError> {
    let fence = |error: &dyn std::fmt::Display| HardenError::Fence(error.to_string());
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| fence(&error))?;
    let rules: BTreeMap<i64, Vec<SeccompRule>> =
        calls.iter().map(|call| (*call, Vec::new())).collect();
    let filter = SeccompFilter::new(rules, others, these, arch).map_err(|error| fence(&error))?;
    let program = BpfProgram::try_from(filter).map_err(|error| fence(&error))?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| fence(&error))
}

/// The system calls that serving takes: memory, threads, waiting, the sockets that are there, the
/// log.
const ALLOWED: &[i64] = &[
    // memory: the heap, stacks, rings
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_fcntl,
    libc::SYS_mlock,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munlock,
    libc::SYS_munmap,
    // threads
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getrusage,
    libc::SYS_prctl,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    // signals, and the end by one
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_tgkill,
    // time and chance, where the kernel's page for them does not serve
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
    // connections and the log, both opened before
    libc::SYS_accept4,
    libc::SYS_close,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_fdatasync,
    libc::SYS_fstatfs,
    libc::SYS_getsockopt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    libc::SYS_write,
];

/// The system calls that only an intruder makes here.
const FATAL: &[i64] = &[
    libc::SYS_bpf,
    libc::SYS_connect,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_init_module,
    libc::SYS_io_uring_setup,
    libc::SYS_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_setuid,
    libc::SYS_socket,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

#[cfg(test)]
mod tests {
    //! The fence, in a child, for it cannot be taken down.

    #![allow(clippy::unwrap_used)]

    use std::fs::File;
    use std::io::ErrorKind;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    use super::*;

    /// Set in the child alone.
    const FENCED: &str = "PGSEAL_TEST_FENCED";

    #[test]
    fn fenced_alone() {
        if std::env::var_os(FENCED).is_none() {
            return;
        }
        prctl::set_no_new_privs().unwrap();
        fence().unwrap();
        let opened = File::open("/etc/hostname").map_err(|error| error.kind());
        assert_eq!(opened.err(), Some(ErrorKind::PermissionDenied));
        let thread = std::thread::spawn(|| vec![1u8; 4 << 20].len());
        println!("no file opens, {} bytes do", thread.join().unwrap());
        assert!(Command::new("true").status().is_err());
        let error = Command::new("true").exec();
        println!("it goes on: {error}");
    }

    #[test]
    fn no_file_opens_and_another_program_is_the_end() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "server::harden::tests::fenced_alone",
                "--exact",
                "--nocapture",
            ])
            .env(FENCED, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("no file opens, 4194304 bytes do"), "{text}");
        assert!(!text.contains("it goes on"), "{text}");
        assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{output:?}");
    }

    #[test]
    fn nobody_is_a_user_and_a_limit_is_named() {
        let unknown = user("nosuchuser").unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "there is no user nosuchuser: make one, or name another with --user"
        );
        let limit = HardenError::LockLimit(8192, 100);
        assert!(limit.to_string().contains("LimitMEMLOCK=infinity"));
    }
}
