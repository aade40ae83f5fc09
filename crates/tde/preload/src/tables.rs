//! The tables that the extension `pgseal` shows in SQL (extension/pgseal). It finds
//! [`pgseal_rows`] by its name in the server that it is loaded into; without the library there is
//! none.
//!
//! Invariant: nothing here is secret. Keys, wrapped keys and commands stay away from SQL.

mod clear_files;
mod key_file;
mod rows;

use crate::clusters::Cluster;
use crate::counters::{self, Area};
use crate::receivers::postgres::GATE;
use crate::receivers::{own_cluster, shown};
use crate::version;
use libc::{c_char, ssize_t};
use rows::Rows;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Gives the rows of a table, and returns the number of their bytes; -1 for a table that this
/// version does not have. They stay until the next call. The layout is in [`rows`], the order of
/// the columns in the extension's script.
///
/// # Safety
/// `table` is a C string, and `bytes` may be written.
#[no_mangle]
pub unsafe extern "C" fn pgseal_rows(table: *const c_char, bytes: *mut *const u8) -> ssize_t {
    // SAFETY: `table` is a C string, by this function's contract.
    let table = unsafe { CStr::from_ptr(table) };
    let (Some(rows), Ok(mut last)) = (of(table), GATE.rows.lock()) else {
        return -1;
    };
    *last = rows.into_bytes();
    // SAFETY: `bytes` may be written, by this function's contract.
    unsafe { bytes.write(last.as_ptr()) };
    ssize_t::try_from(last.len()).unwrap_or(-1)
}

/// Returns the rows of a table. All but `status` are empty on a plain cluster.
fn of(table: &CStr) -> Option<Rows> {
    let (mut rows, cluster) = (Rows::default(), own_cluster());
    match (table.to_bytes(), cluster) {
        (b"status", None) => plain_status(&mut rows),
        (b"status", Some(cluster)) => status(cluster, &mut rows),
        (b"slots", Some(cluster)) => key_file::slots(cluster, &mut rows),
        (b"io", Some(_)) => io(&mut rows),
        (b"receivers", Some(_)) => shown::list(|receiver| receiver_row(receiver, &mut rows)),
        (b"clear_files", Some(cluster)) => {
            clear_files::list(Path::new(OsStr::from_bytes(&cluster.root)), &mut rows);
        }
        (b"slots" | b"io" | b"receivers" | b"clear_files", None) => {}
        _ => return None,
    }
    Some(rows)
}

/// Adds the row of a plain cluster whose server has the library.
fn plain_status(rows: &mut Rows) {
    rows.flag(false);
    (0..8).for_each(|_| {
        rows.null();
    });
    library(rows);
}

/// Adds the row: sealed, key id, cluster id, suite, bits, when the cluster was made, the slot that
/// opened it and that slot's kind, the key file's state, then the library.
fn status(cluster: &Cluster, rows: &mut Rows) {
    let found = key_file::find(cluster);
    let created = match &found {
        key_file::Found::Own(file) => Some(file.header().created),
        _ => None,
    };
    let (slot, kind) = cluster.facts.opened_by.clone().unzip();
    rows.flag(true)
        .text(cluster.key_id.to_string())
        .text(cluster.facts.cluster.to_string())
        .text("AES-XTS")
        .number(cluster.facts.length.bits().into())
        .option(created)
        .option(slot)
        .text(kind.unwrap_or_else(|| "command".to_owned()))
        .text(found.word());
    library(rows);
}

/// Adds the library's version, whether its file was replaced since the server started, and how
/// many messages it has written into the log.
fn library(rows: &mut Rows) {
    rows.text(version::VERSION);
    rows.flag(version::is_replaced());
    rows.option(counters::lines());
}

/// Adds a row for each area, with its counters in the order of a slot's row.
fn io(rows: &mut Rows) {
    for area in Area::ALL {
        if let Some(counters::Sums(sums)) = counters::sums(area) {
            rows.text(area.name());
            sums.into_iter().for_each(|sum| {
                rows.number(sum);
            });
        }
    }
}

/// Adds a row: process id, what it shows, the token's id and its expiry.
fn receiver_row(receiver: shown::Receiver, rows: &mut Rows) {
    rows.text(receiver.pid.to_string());
    match receiver.token {
        Some((id, expiry)) => rows.text("token").text(id.to_string()).number(expiry),
        None => rows.text("raw").null().null(),
    };
}
