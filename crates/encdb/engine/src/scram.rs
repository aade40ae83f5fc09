//! SCRAM's channel binding, which ends at whatever ends TLS.
//!
//! A server under TLS offers `SCRAM-SHA-256-PLUS`, whose proof names the server's certificate. A
//! driver sees another certificate, or none, so the offer is taken out. A driver that could bind
//! and is offered nothing says so, and the server refuses it, for that is what an attacker in
//! between would bring about: such a driver is told which setting it needs.

use crate::wire::{MessageError, Reader, Writer};

/// The number of `AuthenticationSASL` among the requests of type `R`.
const SASL: u32 = 10;
/// The end of the names of mechanisms that bind.
const BINDS: &[u8] = b"-PLUS";

/// Returns `AuthenticationSASL` without the mechanisms that bind; none if the message is another
/// one, or has none of them.
pub(crate) fn without_binding(message: &[u8]) -> Result<Option<Vec<u8>>, MessageError> {
    let mut reader = Reader::new(message);
    if reader.int32()? != SASL {
        return Ok(None);
    }
    let mut writer = Writer::new(b'R');
    writer.int32(SASL);
    let mut is_changed = false;
    loop {
        let name = reader.string()?;
        match name.ends_with(BINDS) {
            true => is_changed = true,
            false => _ = writer.string(name),
        }
        if name.is_empty() {
            break;
        }
    }
    is_changed.then(|| writer.end()).transpose()
}

/// Whether a driver's `SASLInitialResponse` says that it could bind, and thinks that the server
/// could not.
pub(crate) fn could_bind(message: &[u8]) -> bool {
    let mut reader = Reader::new(message);
    let response = reader.string().and_then(|_| reader.value());
    matches!(response, Ok(Some([b'y', ..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(names: &[u8]) -> Vec<u8> {
        let mut writer = Writer::new(b'R');
        writer.int32(SASL).bytes(names);
        writer.end().expect("it is short")
    }

    #[test]
    fn mechanisms_that_bind_are_taken_out() {
        let both = offer(b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
        let one = offer(b"SCRAM-SHA-256\0\0");
        assert_eq!(without_binding(&both), Ok(Some(one.clone())));
        assert_eq!(without_binding(&one), Ok(None));
        let mut done = Writer::new(b'R');
        done.int32(0);
        assert_eq!(without_binding(&done.end().expect("it is short")), Ok(None));
        assert!(without_binding(&offer(b"SCRAM-SHA-256")).is_err());
    }

    #[test]
    fn what_a_driver_says_of_binding() {
        let says = |response: &[u8]| {
            let mut writer = Writer::new(b'p');
            writer.string(b"SCRAM-SHA-256");
            writer.value(Some(response)).expect("it is short");
            could_bind(&writer.end().expect("it is short"))
        };
        assert!(says(b"y,,n=,r=nonce"));
        assert!(!says(b"n,,n=,r=nonce"));
        assert!(!says(b""));
        assert!(!could_bind(b"p\0\0\0\x08pass"));
    }
}
