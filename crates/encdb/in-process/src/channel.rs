//! The bytes on the way to a server, in clear or in TLS, without a socket.

use std::borrow::Cow;
use std::io::{self, Read, Write};

use rustls::ClientConnection;

/// The way to a server.
pub enum Channel {
    /// A socket of this machine, or a network that the user calls safe by `sslmode=disable`.
    Clear,
    /// TLS, after its handshake.
    Tls(Box<ClientConnection>),
}

impl Channel {
    /// Appends to `out` what carries `bytes` to the server.
    pub fn send(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Clear => out.extend_from_slice(bytes),
            Self::Tls(tls) => {
                let mut rest = bytes;
                while !rest.is_empty() {
                    let taken = tls.writer().write(rest)?;
                    rest = &rest[taken..];
                    while tls.wants_write() {
                        tls.write_tls(out)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns what the server said in `bytes`. TLS may have to answer; that is appended to `out`.
    pub fn receive<'b>(
        &mut self,
        mut bytes: &'b [u8],
        out: &mut Vec<u8>,
    ) -> io::Result<Cow<'b, [u8]>> {
        let Self::Tls(tls) = self else {
            return Ok(Cow::Borrowed(bytes));
        };
        let mut clear = Vec::new();
        while !bytes.is_empty() {
            tls.read_tls(&mut bytes)?;
            let state = tls.process_new_packets().map_err(io::Error::other)?;
            let had = clear.len();
            clear.resize(had + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut clear[had..])?;
        }
        while tls.wants_write() {
            tls.write_tls(out)?;
        }
        Ok(Cow::Owned(clear))
    }
}
