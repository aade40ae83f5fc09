//! Records to journald, in its own protocol: lines of NAME=VALUE in one datagram.

use std::fmt::Write as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use pgseal_chain::{Chain, Fields};

/// Sends a record if journald listens at `socket`. Whether it takes it is its own affair: nobody
/// waits for it.
pub fn send(socket: &Path, event: &str, fields: impl FnOnce(&mut Fields<'_>)) {
    let Ok(own) = UnixDatagram::unbound() else {
        return;
    };
    if own.set_nonblocking(true).is_err() || own.connect(socket).is_err() {
        return;
    }
    // A record of its own chain, of which the fields alone are sent.
    let line = Chain::new().append(0, event, fields);
    let _ = own.send(datagram(event, &line).as_bytes());
}

/// Returns the datagram of a record: its fields for machines, and for people in one line.
fn datagram(event: &str, line: &str) -> String {
    let start = line.find("\"event\"").unwrap_or(0);
    let end = line.rfind(",\"chain\":").unwrap_or(line.len());
    let record = line.get(start..end).unwrap_or_default();
    let mut out = String::new();
    writeln!(out, "MESSAGE=pgseal: {record}").expect("a string takes text");
    writeln!(out, "PRIORITY={}", if event == "failed" { 4 } else { 5 })
        .expect("a string takes text");
    out.push_str("SYSLOG_IDENTIFIER=pgseal\n");
    writeln!(out, "PGSEAL_EVENT={event}").expect("a string takes text");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_datagram() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let journald = UnixDatagram::bind(&path).expect("a socket");
        send(&path, "unlocked", |fields| fields.number("slot", 2));
        let mut bytes = [0; 1000];
        let len = journald.recv(&mut bytes).expect("a datagram");
        let expected = "MESSAGE=pgseal: \"event\":\"unlocked\",\"slot\":2\nPRIORITY=5\nSYSLOG_IDENTIFIER=pgseal\nPGSEAL_EVENT=unlocked\n";
        assert_eq!(std::str::from_utf8(&bytes[..len]), Ok(expected));
    }

    #[test]
    fn without_journald_nothing_is_sent() {
        send(Path::new("/nonexistent/socket"), "unlocked", |_| {
            panic!("no line is made")
        });
    }
}
