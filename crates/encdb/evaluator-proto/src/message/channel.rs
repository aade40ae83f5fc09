//! The two sealed, counted directions of an open session.
//!
//! `kind u8 | version u8 | session id 16 | counter u64 | tag 16 | ciphertext`. Each direction has a
//! key of its own from the exchange's exporter; the nonce is the counter; all before the tag is
//! authenticated. A reply has its command's number; `Opened` has 0.

use pgseal_crypto::aead::Aead;
use pgseal_crypto::Secret;
use zeroize::Zeroizing;

use super::offer::expect;
use super::{MessageError, VERSION};
use crate::wire::Reader;

const HEADER: usize = 26;

/// An end of an exchange, from which secrets are exported that both ends share.
pub(super) trait Export {
    fn export(&self, context: &[u8]) -> Secret;
}

impl Export for pgseal_crypto::exchange::Sender {
    fn export(&self, context: &[u8]) -> Secret {
        self.export(context)
    }
}

impl Export for pgseal_crypto::exchange::Receiver {
    fn export(&self, context: &[u8]) -> Secret {
        self.export(context)
    }
}

/// The keys of a session and its name.
pub(super) struct Channel {
    id: [u8; 16],
    from_client: Aead,
    from_evaluator: Aead,
}

/// The side that seals a message.
#[derive(Clone, Copy)]
pub(super) enum Sealer {
    Client,
    Evaluator,
}

impl Channel {
    pub(super) fn new(exchange: &impl Export) -> Self {
        let mut id = [0; 16];
        let name = exchange.export(b"pgseal/session/1 id\0");
        id.copy_from_slice(&name.expose()[..16]);
        Self {
            id,
            from_client: Aead::new(&exchange.export(b"pgseal/session/1 client\0")),
            from_evaluator: Aead::new(&exchange.export(b"pgseal/session/1 evaluator\0")),
        }
    }

    pub(super) fn id(&self) -> [u8; 16] {
        self.id
    }

    pub(super) fn seal(&self, from: Sealer, kind: u8, counter: u64, plain: &[u8]) -> Vec<u8> {
        let mut message = Vec::with_capacity(HEADER + 16 + plain.len());
        message.extend_from_slice(&[kind, VERSION]);
        message.extend_from_slice(&self.id);
        message.extend_from_slice(&counter.to_le_bytes());
        let mut sealed = Zeroizing::new(plain.to_vec());
        let tag = self.key(from).seal(&nonce(counter), &message, &mut sealed);
        message.extend_from_slice(&tag);
        message.extend_from_slice(&sealed);
        message
    }

    /// The counter and the content of a message of this session.
    pub(super) fn open(
        &self,
        from: Sealer,
        kind: u8,
        message: &[u8],
    ) -> Result<(u64, Zeroizing<Vec<u8>>), MessageError> {
        let mut reader = Reader::new(message);
        expect(&mut reader, kind)?;
        // The session's name is authenticated with the rest of the header.
        reader.take(self.id.len())?;
        let (counter, tag) = (reader.u64()?, reader.array()?);
        let sealed = reader.rest();
        let mut plain = Zeroizing::new(vec![0; sealed.len()]);
        let ad = &message[..HEADER];
        self.key(from)
            .open(&nonce(counter), ad, sealed, &tag, &mut plain)?;
        Ok((counter, plain))
    }

    fn key(&self, from: Sealer) -> &Aead {
        match from {
            Sealer::Client => &self.from_client,
            Sealer::Evaluator => &self.from_evaluator,
        }
    }
}

fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&counter.to_le_bytes());
    nonce
}
