//! A connection over a kernel that a test plays: what it holds, and when a program can read.

use std::cell::RefCell;
use std::sync::Arc;

use pgseal_engine::{Owner, Owners};

use super::*;

/// Nobody's connection is followed.
struct Nobody;

impl Owners for Nobody {
    fn owner(&self, _user: &str, _database: &str) -> Option<Owner> {
        None
    }
}

/// The kernel's side of a socket.
#[derive(Default)]
struct Kernel {
    arrived: RefCell<Vec<u8>>,
    sent: RefCell<Vec<u8>>,
    /// Bytes that can be sent before the kernel is full; waiting makes room for as many again
    room: RefCell<usize>,
    peer_ended: bool,
    ended: RefCell<bool>,
}

impl Kernel {
    fn readable(&self) -> bool {
        !self.arrived.borrow().is_empty() || self.peer_ended || *self.ended.borrow()
    }
}

impl Socket for Kernel {
    fn peek(&self, bytes: &mut [u8], _wait: bool) -> io::Result<usize> {
        let arrived = self.arrived.borrow();
        if arrived.is_empty() && !self.peer_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = arrived.len().min(bytes.len());
        bytes[..count].copy_from_slice(&arrived[..count]);
        Ok(count)
    }

    fn consume(&self, scratch: &mut [u8], count: usize) -> io::Result<()> {
        scratch[..count].fill(b'?');
        self.arrived.borrow_mut().drain(..count);
        Ok(())
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(*self.room.borrow());
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        *self.room.borrow_mut() -= count;
        self.sent.borrow_mut().extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn wait(&self, to_send: bool, _unread: bool) -> io::Result<()> {
        assert!(to_send || self.readable(), "nobody would ever wake this");
        *self.room.borrow_mut() += 3;
        Ok(())
    }

    fn end(&self) {
        *self.ended.borrow_mut() = true;
    }
}

fn connection() -> Connection {
    Connection::new(Engine::new(Arc::new(Nobody)), Channel::Clear)
}

/// A `CancelRequest`: what follows it passes as it is, in both directions.
const CANCEL_REQUEST: [u8; 16] = [0, 0, 0, 16, 4, 210, 22, 46, 1, 2, 3, 4, 5, 6, 7, 8];

#[test]
fn a_descriptor_can_be_read_while_bytes_wait() {
    let kernel = Kernel {
        arrived: RefCell::new(b"twelve bytes".to_vec()),
        room: RefCell::new(100),
        ..Kernel::default()
    };
    let mut connection = connection();
    assert_eq!(connection.send(&kernel, &CANCEL_REQUEST).expect("room"), 16);
    assert_eq!(*kernel.sent.borrow(), CANCEL_REQUEST);
    let (mut all, mut bytes) = (Vec::new(), [0; 5]);
    while kernel.readable() {
        let peeked = connection.receive(&kernel, &mut bytes, true, false);
        let seen = bytes[..peeked.expect("bytes wait")].to_vec();
        let read = connection.receive(&kernel, &mut bytes, false, false);
        all.extend_from_slice(&bytes[..read.expect("bytes wait")]);
        assert!(all.ends_with(&seen));
    }
    assert_eq!(all, b"twelve bytes");
    let none = connection.receive(&kernel, &mut bytes, false, false);
    assert_eq!(
        none.expect_err("nothing came").kind(),
        io::ErrorKind::WouldBlock
    );
}

/// A program that is told of changes only takes a short read for all that has come.
#[test]
fn a_short_read_is_all_that_has_come() {
    let much: Vec<u8> = (0..150_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let kernel = Kernel {
        arrived: RefCell::new(much.clone()),
        room: RefCell::new(100),
        ..Kernel::default()
    };
    let mut connection = connection();
    connection.send(&kernel, &CANCEL_REQUEST).expect("room");
    let (mut all, mut bytes) = (Vec::new(), vec![0; 70_000]);
    loop {
        let read = connection.receive(&kernel, &mut bytes, false, false);
        let read = read.expect("bytes wait");
        all.extend_from_slice(&bytes[..read]);
        if read < bytes.len() {
            break;
        }
    }
    assert!(!kernel.readable());
    assert_eq!(all, much);
}

/// A full kernel takes the rest piece by piece; what the server says meanwhile is kept, and the
/// program's descriptor can be read.
#[test]
fn a_send_takes_all_and_keeps_what_comes() {
    let kernel = Kernel {
        arrived: RefCell::new(b"meanwhile".to_vec()),
        room: RefCell::new(5),
        ..Kernel::default()
    };
    let mut connection = connection();
    assert_eq!(
        connection.send(&kernel, &CANCEL_REQUEST).expect("it waits"),
        16
    );
    assert_eq!(*kernel.sent.borrow(), CANCEL_REQUEST);
    assert!(kernel.readable());
    let mut bytes = [0; 64];
    let read = connection.receive(&kernel, &mut bytes, false, false);
    assert_eq!(&bytes[..read.expect("it was kept")], b"meanwhile");
    assert!(!kernel.readable());
}

#[test]
fn a_refused_program_reads_why_and_then_the_end() {
    let kernel = Kernel {
        room: RefCell::new(1000),
        ..Kernel::default()
    };
    let mut connection = connection();
    let start = b"\0\0\0\x13\0\x03\0\0user\0ada\0\0\0\0";
    let mut packet = start[..start.len() - 2].to_vec();
    packet[3] = u8::try_from(packet.len()).expect("it is short");
    // A part of the start says nothing yet.
    for part in packet.chunks(3) {
        connection.send(&kernel, part).expect("there is room");
    }
    assert_eq!(*kernel.sent.borrow(), b"", "nothing goes to the server");
    assert!(kernel.readable(), "the program is woken");
    let mut bytes = [0; 512];
    let read = connection.receive(&kernel, &mut bytes, false, false);
    let text = String::from_utf8_lossy(&bytes[..read.expect("a refusal")]).into_owned();
    assert!(text.contains("no identity for this database"), "{text}");
    let end = connection.receive(&kernel, &mut bytes, false, false);
    assert_eq!(end.expect("the end"), 0);
    assert_eq!(
        connection.send(&kernel, b"more").expect("it is not sent"),
        4
    );
    assert_eq!(*kernel.sent.borrow(), b"");
}

#[test]
fn the_end_of_the_server_is_the_programs() {
    let kernel = Kernel {
        peer_ended: true,
        ..Kernel::default()
    };
    let mut bytes = [0; 8];
    let end = connection().receive(&kernel, &mut bytes, false, true);
    assert_eq!(end.expect("the end"), 0);
}
