//! io_uring, by liburing's calls. A request is decided on when it is submitted, and pages are
//! decrypted when their answer is taken, before the caller sees it.
//!
//! Reads of whole pages into memory that all processes share are left to the kernel. All others on
//! protected files are done by the hook of `preadv` when they are submitted, and the ring carries
//! their results: reads into a process's own memory, as of temporary tables, whose answers another
//! process may take, and those that the hook reads in parts.

use super::page_runs;
use super::racing::reads_alone;
use super::transfers;
use crate::clusters;
use crate::counters::Area;
use crate::files::{self, Protected, Stored};
use crate::liburing::{operation, Completion, Parameters, Request, Ring};
use crate::process::PROCESS;
use crate::real::errno;
use crate::report;
use crate::rings::plan::{self, Into, Plan, Refusal};
use crate::rings::table::{self, Buffers, Left, Pages};
use crate::rings::{self, Known};
use libc::{c_int, c_uint, c_void, iovec, off_t, size_t};
use pgseal_crypto::UNIT;
use pgseal_storage::layout::{Root, Spec};
use std::sync::atomic::Ordering;

pub unsafe fn queue_init(entries: c_uint, ring: *mut Ring, flags: c_uint) -> c_int {
    let Some(init) = rings::liburing().io_uring_queue_init() else {
        return -libc::ENOSYS;
    };
    if let Err(refusal) = check_options(flags) {
        return refuse(refusal);
    }
    // SAFETY: the arguments are those of liburing's caller.
    let made = unsafe { init(entries, ring, flags) };
    // SAFETY: `ring` is the caller's structure, which liburing has filled in if it says so.
    unsafe { know(ring, made) }
}

pub unsafe fn queue_init_mem(
    entries: c_uint,
    ring: *mut Ring,
    parameters: *mut Parameters,
    buf: *mut c_void,
    len: size_t,
) -> c_int {
    let Some(init) = rings::liburing().io_uring_queue_init_mem() else {
        return -libc::ENOSYS;
    };
    // SAFETY: the parameters are the caller's structure.
    if let Err(refusal) = check_options(unsafe { (*parameters).flags }) {
        return refuse(refusal);
    }
    // SAFETY: the arguments are those of liburing's caller.
    let made = unsafe { init(entries, ring, parameters, buf, len) };
    // SAFETY: `ring` is the caller's structure, which liburing has filled in if it says so.
    unsafe { know(ring, made) }
}

fn check_options(flags: c_uint) -> Result<(), Refusal> {
    match PROCESS.acts() {
        true => plan::check_options(flags),
        false => Ok(()),
    }
}

/// Returns what liburing returned for a new ring, which is known from now on.
///
/// # Safety
/// `ring` is a ring that was made, unless `made` is an error.
unsafe fn know(ring: *mut Ring, made: c_int) -> c_int {
    if made < 0 || !PROCESS.acts() {
        return made;
    }
    // SAFETY: the ring was made, by this function's contract.
    let entries = usize::try_from(unsafe { *(*ring).requests.entries });
    if entries.is_ok_and(|entries| rings::add(ring, entries)) {
        return made;
    }
    if let Some(exit) = rings::liburing().io_uring_queue_exit() {
        // SAFETY: the ring was made, and its maker is told that it was not.
        unsafe { exit(ring) };
    }
    -libc::ENOMEM
}

pub unsafe fn queue_exit(ring: *mut Ring) {
    rings::remove(ring);
    if let Some(exit) = rings::liburing().io_uring_queue_exit() {
        // SAFETY: the argument is that of liburing's caller.
        unsafe { exit(ring) };
    }
}

pub unsafe fn submit(ring: *mut Ring) -> c_int {
    let Some(submit) = rings::liburing().io_uring_submit() else {
        return -libc::ENOSYS;
    };
    if PROCESS.acts() {
        // SAFETY: `ring` is the caller's, who alone submits to it now.
        if let Err(refusal) = unsafe { prepare(ring) } {
            return refuse_once(ring, refusal);
        }
    }
    // SAFETY: the argument is that of liburing's caller.
    unsafe { submit(ring) }
}

pub unsafe fn peek_batch_cqe(
    ring: *mut Ring,
    answers: *mut *mut Completion,
    count: c_uint,
) -> c_uint {
    let Some(peek) = rings::liburing().io_uring_peek_batch_cqe() else {
        return 0;
    };
    // SAFETY: the arguments are those of liburing's caller.
    let found = unsafe { peek(ring, answers, count) };
    // SAFETY: liburing has filled in so many pointers to answers, of which the caller alone takes
    // some now; they are in a row.
    unsafe { give(ring, answers, found) };
    found
}

/// A wait for a time is refused: on old kernels it submits requests, too.
pub unsafe fn wait_cqes(
    ring: *mut Ring,
    answer: *mut *mut Completion,
    count: c_uint,
    time: *mut c_void,
    signals: *mut c_void,
) -> c_int {
    let Some(wait) = rings::liburing().io_uring_wait_cqes() else {
        return -libc::ENOSYS;
    };
    if PROCESS.acts() && !time.is_null() {
        return refuse(Refusal::Call);
    }
    // SAFETY: the arguments are those of liburing's caller.
    let waited = unsafe { wait(ring, answer, count, time, signals) };
    // SAFETY: liburing has filled in a pointer to the first answer, or null.
    unsafe {
        if waited == 0 && !(*answer).is_null() {
            give(ring, answer, 1);
        }
    }
    waited
}

macro_rules! refused {
    ($($hook:ident($($arg:ident: $type:ty),*) = $function:ident;)*) => {$(
        /// Submits and waits at once, or waits for a time, which submits on old kernels.
        pub unsafe fn $hook($($arg: $type),*) -> c_int {
            match rings::liburing().$function() {
                _ if PROCESS.acts() => refuse(Refusal::Call),
                // SAFETY: the arguments are those of liburing's caller.
                Some(function) => unsafe { function($($arg),*) },
                None => -libc::ENOSYS,
            }
        }
    )*};
}

refused! {
    submit_and_wait(ring: *mut Ring, count: c_uint) = io_uring_submit_and_wait;
    submit_and_wait_timeout(
        ring: *mut Ring, answer: *mut *mut Completion, count: c_uint, time: *mut c_void,
        signals: *mut c_void
    ) = io_uring_submit_and_wait_timeout;
    submit_and_wait_min_timeout(
        ring: *mut Ring, answer: *mut *mut Completion, count: c_uint, time: *mut c_void,
        least: c_uint, signals: *mut c_void
    ) = io_uring_submit_and_wait_min_timeout;
    submit_and_wait_reg(
        ring: *mut Ring, answer: *mut *mut Completion, count: c_uint, region: c_int
    ) = io_uring_submit_and_wait_reg;
    submit_and_get_events(ring: *mut Ring) = io_uring_submit_and_get_events;
    wait_cqe_timeout(
        ring: *mut Ring, answer: *mut *mut Completion, time: *mut c_void
    ) = io_uring_wait_cqe_timeout;
}

/// Says why, and returns the error as liburing does.
fn refuse(refusal: Refusal) -> c_int {
    report::line(&refusal.to_string());
    -refusal.errno()
}

/// A submission that is refused is likely tried again.
fn refuse_once(ring: *const Ring, refusal: Refusal) -> c_int {
    match rings::find(ring) {
        Some(known) if !known.reports_first() => -refusal.errno(),
        _ => refuse(refusal),
    }
}

/// Decides on all requests that the kernel has not taken yet.
///
/// # Safety
/// `ring` is a ring to which the caller alone submits now.
unsafe fn prepare(ring: *mut Ring) -> Result<(), Refusal> {
    let known = rings::find(ring).ok_or(Refusal::UnknownRing)?;
    // SAFETY: the caller alone uses the queue's entries that the kernel was not shown.
    let requests = unsafe { &(*ring).requests };
    // SAFETY: both lie in the ring's own memory.
    let (head, entries) = unsafe { ((*requests.head).load(Ordering::Acquire), *requests.entries) };
    for place in plan::waiting(head, requests.filled, entries)? {
        // SAFETY: the queue has `mask` + 1 entries, of which this is one that was filled in.
        let request = unsafe {
            let at = (place & *requests.mask) as usize;
            &mut *requests.requests.add(at)
        };
        // SAFETY: the buffers of the request are its submitter's until it is answered.
        unsafe { prepare_one(known, place, request)? };
    }
    Ok(())
}

/// # Safety
/// The buffers that the request names are its submitter's until it is answered.
unsafe fn prepare_one(known: Known, place: u32, request: &mut Request) -> Result<(), Refusal> {
    let table = known.table();
    if table.holds(place, request) {
        return Ok(());
    }
    let Plan::Read(into) = plan::decide(request, |fd| files::get(fd).is_some())? else {
        return match table::is_token(request.user_data) {
            true => Err(Refusal::Token),
            false => Ok(()),
        };
    };
    if !table.has_room() {
        return Err(Refusal::Full);
    }
    // SAFETY: the buffers are the submitter's, by this function's contract.
    let left = unsafe {
        let buffers = buffers_of(request, into)?;
        match pages(known, request, buffers) {
            Some(pages) => Left::Decrypt(pages),
            None => Left::Nothing(read_now(request, buffers)),
        }
    };
    if matches!(left, Left::Nothing(_)) {
        *request = Request {
            operation: operation::NOP,
            fd: -1,
            user_data: request.user_data,
            ..Request::default()
        };
    }
    table.enter(place, request, left).ok_or(Refusal::Full)
}

fn buffers_of(request: &Request, into: Into) -> Result<Buffers, Refusal> {
    const IOV_MAX: usize = 1024;
    let address = usize::try_from(request.address).map_err(|_| Refusal::Read)?;
    let len = usize::try_from(request.len).map_err(|_| Refusal::Read)?;
    match into {
        Into::Buffer => Ok(Buffers::One(iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(address),
            iov_len: len,
        })),
        Into::Vectors if (1..=IOV_MAX).contains(&len) => Ok(Buffers::Array(
            std::ptr::with_exposed_provenance(address),
            len,
        )),
        Into::Vectors => Err(Refusal::Read),
    }
}

/// Returns what is to be done when the kernel has read these pages. None: the read cannot be left
/// to it.
///
/// # Safety
/// The buffers are the submitter's until the request is answered.
unsafe fn pages(known: Known, request: &Request, into: Buffers) -> Option<Pages> {
    let file = files::get(request.fd).filter(|file| file.file.readable().is_ok())?;
    // SAFETY: an array may be read, by this function's contract.
    let vectors = unsafe {
        if !reads_alone() || !into.lie_in(known.memory()) {
            return None;
        }
        into.vectors()
    };
    let sealed = page_runs::whole_pages(file, vectors, request.offset)?;
    let Stored::Sealed(_, cluster) = &file.file.stored else {
        return None;
    };
    // A file of the server's own key would be another one in a process that learned the key later.
    let root = Some(Root::Cluster).filter(|_| file.file.area != Area::Temporary)?;
    Some(Pages {
        fd: request.fd,
        key: cluster.key_id,
        length: cluster.facts.length,
        spec: Spec {
            id: sealed.id().clone(),
            root,
            layout: sealed.layout(),
        },
        offset: request.offset,
        into,
    })
}

/// Reads as `preadv` does. Returns its result, or errno as a negative number.
///
/// # Safety
/// The buffers are the submitter's.
unsafe fn read_now(request: &Request, into: Buffers) -> c_int {
    // SAFETY: the buffers are the submitter's, by this function's contract.
    let read = unsafe {
        let vectors = into.vectors();
        let count = c_int::try_from(vectors.len()).unwrap_or(c_int::MAX);
        let offset = off_t::try_from(request.offset).unwrap_or(off_t::MAX);
        transfers::preadv(request.fd, vectors.as_ptr(), count, offset)
    };
    match c_int::try_from(read) {
        Ok(-1) => -errno(),
        Ok(read) => read,
        Err(_) => -libc::EINVAL,
    }
}

/// Finishes answers before the caller sees them.
///
/// # Safety
/// `answers` points to so many pointers to answers in a row, the first of which is at the head of
/// the ring's queue; the caller alone takes answers now.
unsafe fn give(ring: *mut Ring, answers: *mut *mut Completion, count: c_uint) {
    let Some(known) = PROCESS.acts().then(|| rings::find(ring)).flatten() else {
        return;
    };
    // SAFETY: the ring is a live one, by this function's contract.
    let head = unsafe { (*(*ring).completions.head).load(Ordering::Relaxed) };
    for n in 0..count {
        if known.answers_first(head.wrapping_add(n)) {
            // SAFETY: there are `count` answers, which no other thread uses.
            unsafe { finish(known, &mut **answers.add(n as usize)) };
        }
    }
}

/// Gives an answer its own word again, and decrypts what it brought.
///
/// # Safety
/// The buffers of the request that it answers are in place.
unsafe fn finish(known: Known, answer: &mut Completion) {
    if !table::is_token(answer.user_data) {
        return;
    }
    let Some(entry) = known.table().remove(answer.user_data) else {
        answer.result = -libc::EIO;
        return;
    };
    answer.user_data = entry.user_data;
    answer.result = match (entry.left, usize::try_from(answer.result)) {
        (Left::Nothing(result), _) => result,
        // SAFETY: the kernel has put so many bytes into the request's buffers.
        (Left::Decrypt(pages), Ok(got)) => unsafe { decrypt(&pages, got) },
        (Left::Decrypt(_), Err(_)) => answer.result,
    };
}

/// Decrypts the whole pages of what was read. Returns their bytes, or errno as a negative number.
/// The rest of a page that the file ends in is not reported: PostgreSQL counts whole pages.
///
/// # Safety
/// The first `got` bytes of the buffers are filled, and nobody else uses them.
unsafe fn decrypt(pages: &Pages, got: usize) -> c_int {
    let whole = got - got % UNIT;
    let open = |sealed: &_| {
        let area = Area::of(&pages.spec);
        // SAFETY: the buffers are filled, by this function's contract.
        unsafe { page_runs::open_pages(sealed, area, pages.into.vectors(), whole, pages.offset) }
    };
    let read = match files::get(pages.fd).filter(|file| is_of(*file, pages)) {
        Some(file) => file.file.sealed().and_then(open),
        None => clusters::of_key(&pages.key, pages.length)
            .ok_or(pgseal_storage::Errno(libc::EIO))
            .and_then(|cluster| open(&cluster.open(&pages.spec))),
    };
    match read {
        Ok(read) => c_int::try_from(read).unwrap_or(c_int::MAX),
        Err(errno) => -errno.0,
    }
}

/// Is this the file that the pages are of?
fn is_of(file: Protected, pages: &Pages) -> bool {
    let Stored::Sealed(sealed, cluster) = &file.file.stored else {
        return false;
    };
    cluster.key_id == pages.key
        && cluster.facts.length == pages.length
        && file.file.area == Area::of(&pages.spec)
        && *sealed.id() == pages.spec.id
        && sealed.layout() == pages.spec.layout
}
