//! Calls that attach a session to the evaluator, and those that bring keys.

use std::ffi::{c_char, c_int, CStr};
use std::ptr;

use pgseal_cell::{DataKeyId, Type};
use pgseal_crypto::sha256;
use pgseal_evaluator_proto::{ConversionRequest, KeyRow, Refusal, Request};

use super::{answer_cell, put, report, shell, text, PgsealBytes};
use crate::forms;
use crate::peers::{IsWorker, Meeting};
use crate::shell::{Failure, Leader, Peer, Place, Shell};
use crate::transport::Interrupts;

/// `PgsealRefusal`.
#[repr(C)]
pub struct PgsealRefusal {
    sqlstate: [u8; 6],
    remedy: c_int,
    message: *const c_char,
}

const REMEDY_NONE: c_int = 0;
const REMEDY_LOAD_KEYS: c_int = 1;
const REMEDY_REATTACH: c_int = 2;

/// `PgsealAttach`.
#[repr(C)]
pub struct PgsealAttach {
    peer: c_int,
    socket: *const c_char,
    database: [u8; 16],
    role: u32,
    nonce: [u8; 32],
    leader: c_int,
    leader_started: i64,
    is_worker: IsWorker,
    cancel: *const c_int,
    die: *const c_int,
}

const CLIENT: c_int = 1;
const PARALLEL_WORKER: c_int = 2;

/// `PgsealKeyRow`.
#[repr(C)]
pub struct PgsealKeyRow {
    keyname: PgsealBytes,
    wrapped: PgsealBytes,
}

/// `PgsealNewKey`.
#[repr(C)]
pub struct PgsealNewKey {
    keyname: PgsealBytes,
    group: u32,
    deterministic: c_int,
}

interface! {
    /// Finds the evaluator and says who this backend is.
    fn pgseal_attach(attach: *const PgsealAttach) -> c_int {
        let attach = &*attach;
        let interrupts = Interrupts {
            cancel: &*attach.cancel.cast(),
            die: &*attach.die.cast(),
        };
        let shell = shell();
        shell.role = attach.role;
        let place = match attach.socket.is_null() {
            true => Ok(Place::Inline),
            false => text(attach.socket).map(|socket| Place::Isolated { socket }),
        };
        let outcome = place.and_then(|place| {
            shell.attach(&place, peer(attach), interrupts, attach.database)
        });
        if outcome.is_err() {
            // A backend that is turned away gives up its connection, which another may need.
            shell.detach();
        }
        report(shell, outcome)
    }

    /// Ends the session, if there is one.
    fn pgseal_detach() {
        shell().detach();
    }

    /// Sets the time, in seconds since 1970.
    fn pgseal_set_time(now: i64) {
        shell().set_time(u64::try_from(now).unwrap_or(0));
    }

    /// Returns the header that this library was built with: the first eight bytes of its SHA-256.
    fn pgseal_interface() -> u64 {
        let header = include_bytes!("../../../../../extension/encdb/src/pgext.h");
        let [a, b, c, d, e, f, g, h, ..] = sha256(&[header]);
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    /// Returns how many requests an evaluator outside has been asked.
    fn pgseal_requests() -> u64 {
        shell().requests
    }

    /// Describes the last refusal.
    fn pgseal_refusal(refusal: *mut PgsealRefusal) {
        refusal.write(describe(shell()));
    }

    /// Relays a message of the client.
    fn pgseal_message(message: PgsealBytes, answer: *mut PgsealBytes, opened: *mut c_int) -> c_int {
        let shell = shell();
        let outcome = shell.message(message.get()).map(|(bytes, open)| {
            opened.write(c_int::from(open));
            PgsealBytes::from(bytes)
        });
        put(shell, outcome, answer)
    }

    /// Returns, once, why this session's parallel workers get no session, or NULL.
    fn pgseal_warning() -> *const c_char {
        shell().warning().map_or(ptr::null(), CStr::as_ptr)
    }

    /// Passes wrapped keys to the evaluator.
    fn pgseal_load_keys(rows: *const PgsealKeyRow, nrows: usize) -> c_int {
        let shell = shell();
        let outcome = key_rows(rows, nrows).and_then(|rows| shell.load_keys(&rows));
        report(shell, outcome)
    }

    /// Passes one more wrapped key to the evaluator.
    fn pgseal_add_key(row: *const PgsealKeyRow) -> c_int {
        let shell = shell();
        let outcome = key_rows(row, 1).and_then(|rows| match rows.first() {
            Some(row) => shell.add_key(*row),
            None => Ok(()),
        });
        report(shell, outcome)
    }

    /// Reads the number of a wrapped key, and whether it is deterministic.
    fn pgseal_wrapped_key(wrapped: PgsealBytes, id: *mut u32, deterministic: *mut c_int) -> c_int {
        let shell = shell();
        let outcome = forms::wrapped_key(wrapped.get()).map(|(number, is_deterministic)| {
            deterministic.write(c_int::from(is_deterministic));
            number
        });
        put(shell, outcome, id)
    }

    /// Makes a data key.
    fn pgseal_generate_key(wanted: *const PgsealNewKey, wrapped: *mut PgsealBytes) -> c_int {
        let wanted = &*wanted;
        let shell = shell();
        let name = std::str::from_utf8(wanted.keyname.get());
        let name = name.map_err(|_| Refusal::MalformedRequest.into());
        let outcome = name.and_then(|name| {
            let request = Request::Conversion(ConversionRequest::GenerateKey {
                name,
                group: wanted.group,
                deterministic: wanted.deterministic != 0,
            });
            shell.bytes(&request).map(PgsealBytes::from)
        });
        put(shell, outcome, wrapped)
    }

    /// Makes a cell of plain bytes.
    fn pgseal_encrypt(key: u32, ty: u8, plain: PgsealBytes, cell: *mut PgsealBytes) -> c_int {
        let Some(ty) = Type::from_byte(ty) else {
            return report(shell(), Err(Refusal::WrongType.into()));
        };
        let request = Request::Conversion(ConversionRequest::Encrypt {
            key: DataKeyId(key),
            ty,
            plain: plain.get(),
        });
        answer_cell(&request, cell)
    }

    /// Returns the plain bytes of a cell.
    fn pgseal_decrypt(cell: PgsealBytes, ty: u8, plain: *mut PgsealBytes) -> c_int {
        let shell = shell();
        let request = Request::Conversion(ConversionRequest::Decrypt(cell.get()));
        let outcome = forms::check(cell.get(), ty)
            .and_then(|()| shell.bytes(&request).map(PgsealBytes::from));
        put(shell, outcome, plain)
    }
}

fn peer(attach: &PgsealAttach) -> Peer {
    let meeting = Meeting::new(&attach.nonce, attach.leader_started, attach.leader);
    match attach.peer {
        CLIENT => Peer::Client(Leader {
            meeting,
            is_worker: attach.is_worker,
        }),
        PARALLEL_WORKER => Peer::ParallelWorker(meeting),
        _ => Peer::Background,
    }
}

fn describe(shell: &Shell) -> PgsealRefusal {
    let failure = &shell.failure;
    let mut sqlstate = [0; 6];
    sqlstate[..5].copy_from_slice(&failure.sqlstate);
    let is = |refusal: Refusal| failure.code == refusal.code();
    let remedy = if is(Refusal::KeyNotLoaded) || is(Refusal::UnknownKey) {
        REMEDY_LOAD_KEYS
    } else if is(Refusal::EvaluatorAbsent) && shell.is_lost() {
        REMEDY_REATTACH
    } else {
        REMEDY_NONE
    };
    PgsealRefusal {
        sqlstate,
        remedy,
        message: failure.text.as_ptr(),
    }
}

/// Returns the rows that may be keys, which excludes names that are not UTF-8.
///
/// # Safety
/// `rows` points to `n` rows; they and their bytes are readable during the call.
unsafe fn key_rows<'a>(rows: *const PgsealKeyRow, n: usize) -> Result<Vec<KeyRow<'a>>, Failure> {
    let mut list = Vec::new();
    if n == 0 {
        return Ok(list);
    }
    list.try_reserve_exact(n)
        .map_err(|_| Refusal::OutOfMemory)?;
    // SAFETY: `rows` points to `n` rows, by this contract, and `n` is not 0.
    let rows = unsafe { std::slice::from_raw_parts(rows, n) };
    list.extend(rows.iter().filter_map(|row| {
        // SAFETY: the bytes of each row are readable during the call, by this contract.
        let (name, wrapped) = unsafe { (row.keyname.get(), row.wrapped.get()) };
        let name = std::str::from_utf8(name).ok()?;
        Some(KeyRow { name, wrapped })
    }));
    Ok(list)
}
