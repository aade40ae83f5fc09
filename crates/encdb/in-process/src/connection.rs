//! One connection: a program's calls in, bytes to and from a server out. The socket is a trait, so
//! that a test can stand for the kernel.

use std::io;

use pgseal_engine::{Engine, Outgoing};

use crate::channel::Channel;

/// The bytes that are read at once.
const BLOCK: usize = 64 << 10;
/// The bytes that say what a connection is for: a length and a code.
const HEAD: usize = 8;
/// The code of `CancelRequest`.
const CANCEL: [u8; 4] = 80_877_102_u32.to_be_bytes();

/// The operations on a socket. Where nothing can be done now, the error is
/// [`io::ErrorKind::WouldBlock`].
pub trait Socket {
    /// Copies the first bytes that have arrived, and leaves them. `wait`: as the socket's own mode
    /// says; otherwise it returns at once. No bytes: the peer has ended.
    fn peek(&self, bytes: &mut [u8], wait: bool) -> io::Result<usize>;
    /// Removes so many of the bytes that were seen. They are written over `scratch`, which is as
    /// long as what was looked at.
    fn consume(&self, scratch: &mut [u8], count: usize) -> io::Result<()>;
    /// Sends what there is room for.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Waits until bytes arrive or, with `to_send`, there is room for some. With `unread`, the
    /// socket has bytes in any case, and the wait is short. It fails if the peer has ended.
    fn wait(&self, to_send: bool, unread: bool) -> io::Result<()>;
    /// Ends both directions, so that a program that waits for the socket goes on.
    fn end(&self);
}

/// The purpose of a connection, by its first bytes.
enum Purpose {
    /// They have not come.
    Unknown(Vec<u8>),
    /// Statements.
    Statements,
    /// Cancelling the statement of another connection, to which no engine is needed.
    Cancel,
}

/// A connection of a program.
pub struct Connection {
    engine: Engine,
    purpose: Purpose,
    channel: Channel,
    /// Bytes for the program, from `read` on
    to_program: Vec<u8>,
    read: usize,
    to_server: Outgoing,
    /// The kernel still has the last byte that the engine has got
    holds_byte: bool,
    /// Nothing more comes from the server
    ended: bool,
    block: Vec<u8>,
    /// The last look at the socket filled the block, so that more may have come
    filled: bool,
}

impl Connection {
    /// Begins on a socket that nothing was sent on but what TLS needs.
    pub fn new(engine: Engine, channel: Channel) -> Self {
        Self {
            engine,
            purpose: Purpose::Unknown(Vec::new()),
            channel,
            to_program: Vec::new(),
            read: 0,
            to_server: Outgoing::default(),
            holds_byte: false,
            ended: false,
            block: vec![0; BLOCK],
            filled: false,
        }
    }

    /// Makes a connection on which the program reads `bytes` and the end. Its socket has ended.
    pub fn refused(engine: Engine, bytes: Vec<u8>) -> Self {
        Self {
            to_program: bytes,
            ended: true,
            ..Self::new(engine, Channel::Clear)
        }
    }

    /// Takes bytes of the program, all or none. It waits while the engine opens a session again,
    /// and while the kernel has no room for the rest of what was begun; what arrives meanwhile is
    /// kept.
    pub fn send(&mut self, socket: &impl Socket, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        while !self.ended && !self.engine.takes_driver() {
            self.go_on(socket)?;
        }
        if self.ended {
            // The program reads why.
            return Ok(bytes.len());
        }
        self.take_from_program(bytes)?;
        self.collect()?;
        while let Err(error) = self.flush(socket) {
            match error.kind() {
                io::ErrorKind::WouldBlock => self.go_on(socket)?,
                _ => return Err(error),
            }
        }
        if self.ended {
            socket.end();
        }
        Ok(bytes.len())
    }

    /// Gives the program bytes; `peeks`: they stay. None come after the end. Fewer than there is
    /// room for are all that has come: programs that are told of changes only, as by `EPOLLET`,
    /// wait for the next one then.
    pub fn receive(
        &mut self,
        socket: &impl Socket,
        bytes: &mut [u8],
        peeks: bool,
        wait: bool,
    ) -> io::Result<usize> {
        while self.waiting().is_empty() {
            self.release(socket)?;
            if self.ended || !self.pull(socket, bytes.len(), wait)? {
                return Ok(0);
            }
        }
        while self.filled && !self.ended && self.waiting().len() < bytes.len() {
            match self.pull(socket, bytes.len(), false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                other => other?,
            };
        }
        let count = bytes.len().min(self.waiting().len());
        bytes[..count].copy_from_slice(&self.waiting()[..count]);
        if !peeks {
            self.read += count;
            if self.waiting().is_empty() {
                self.to_program.clear();
                self.read = 0;
                self.release(socket)?;
            }
        }
        Ok(count)
    }

    fn waiting(&self) -> &[u8] {
        &self.to_program[self.read..]
    }

    /// Lets the kernel forget the byte that kept the descriptor readable.
    fn release(&mut self, socket: &impl Socket) -> io::Result<()> {
        if std::mem::take(&mut self.holds_byte) {
            socket.consume(&mut self.block, 1)?;
        }
        Ok(())
    }

    /// Waits, and takes what has come, as a send that cannot go on must.
    fn go_on(&mut self, socket: &impl Socket) -> io::Result<()> {
        socket.wait(!self.to_server.waiting().is_empty(), self.holds_byte)?;
        match self.pull(socket, 0, false) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Gives the engine what the server said; false if it has ended. If more comes of it than the
    /// program has `room` for, the last byte stays in the kernel.
    fn pull(&mut self, socket: &impl Socket, room: usize, wait: bool) -> io::Result<bool> {
        let count = socket.peek(&mut self.block, wait)?;
        if count == 0 {
            self.ended = true;
            return Ok(false);
        }
        self.filled = count == self.block.len();
        let new = &self.block[usize::from(self.holds_byte)..count];
        if new.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let clear = self.channel.receive(new, self.to_server.buffer())?;
        match self.purpose {
            Purpose::Statements => self.ended |= self.engine.from_server(&clear).is_err(),
            _ => self.to_program.extend_from_slice(&clear),
        }
        self.collect()?;
        self.holds_byte = self.waiting().len() > room;
        let seen = count - usize::from(self.holds_byte);
        socket.consume(&mut self.block, seen)?;
        if self.ended {
            socket.end();
        }
        match self.flush(socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(true),
        }
    }

    fn take_from_program(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.purpose {
            Purpose::Unknown(first) => {
                first.extend_from_slice(bytes);
                if first.len() < HEAD {
                    return Ok(());
                }
                let first = std::mem::take(first);
                self.purpose = match first[4..HEAD] == CANCEL {
                    true => Purpose::Cancel,
                    false => Purpose::Statements,
                };
                self.take_from_program(&first)
            }
            Purpose::Cancel => self.channel.send(bytes, self.to_server.buffer()),
            // The engine has told the program why.
            Purpose::Statements => {
                self.ended |= self.engine.from_driver(bytes).is_err();
                Ok(())
            }
        }
    }

    /// Takes what the engine has for either side.
    fn collect(&mut self) -> io::Result<()> {
        self.engine.move_for_driver(&mut self.to_program);
        if let Channel::Clear = self.channel {
            self.engine.move_for_server(self.to_server.buffer());
            return Ok(());
        }
        let mut bytes = Vec::new();
        self.engine.move_for_server(&mut bytes);
        self.channel.send(&bytes, self.to_server.buffer())
    }

    fn flush(&mut self, socket: &impl Socket) -> io::Result<()> {
        while !self.to_server.waiting().is_empty() {
            let count = socket.send(self.to_server.waiting())?;
            self.to_server.sent(count);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
