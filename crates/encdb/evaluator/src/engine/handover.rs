//! A session on its way to a parallel worker of an inline engine, as secret bytes.
//!
//! The caller carries them in memory that only the two processes reach. Integers little-endian:
//! `number u64 | expires u64 | subject 32 | key of states 32 | owners u32 | own u32 | (master 32 |
//! public 32)… | grants u32 | (counted)… | rows u32 | (counted)…`.

use std::sync::Arc;

use pgseal_cell::grant::{DatabaseId, Grant};
use pgseal_cell::{MasterKey, PublicKey};
use pgseal_crypto::Secret;
use pgseal_evaluator_proto::Refusal;
use zeroize::Zeroizing;

use super::access::Access;
use super::keys::Owner;
use super::rights::Held;
use super::roles::Room;
use super::session::{Holdings, Session};
use super::Connection;

impl Connection {
    /// Appends the session, keys and all. Inline only.
    pub fn export_session(&mut self, into: &mut Vec<u8>) -> Result<(), Refusal> {
        self.access.export(into)
    }

    /// Attaches as a parallel worker of the session that a leader exported. Inline only.
    pub fn import_session(&mut self, bytes: &[u8], database: [u8; 16]) -> Result<(), Refusal> {
        self.access.import(bytes, database)
    }
}

impl Access {
    fn export(&mut self, into: &mut Vec<u8>) -> Result<(), Refusal> {
        if !self.shared.config.inline {
            return Err(Refusal::Unsupported);
        }
        self.fresh()?;
        let (session, _) = self.session()?;
        let holdings = session.read();
        let subject = holdings.subject.ok_or(Refusal::NoSession)?;
        into.extend_from_slice(&session.number.to_le_bytes());
        into.extend_from_slice(&holdings.expires.to_le_bytes());
        into.extend_from_slice(&subject.0);
        into.extend_from_slice(session.states_key.expose());
        put_number(into, holdings.owners.len());
        put_number(into, holdings.own);
        for owner in &holdings.owners {
            into.extend_from_slice(owner.master.expose());
            into.extend_from_slice(&owner.public.0);
        }
        let valid = || holdings.grants.iter().filter(|held| !held.revoked);
        put_number(into, valid().count());
        valid().for_each(|held| put_counted(into, &held.signed.encode()));
        put_number(into, holdings.rows.len());
        holdings.rows.iter().for_each(|row| put_counted(into, row));
        Ok(())
    }

    fn import(&mut self, bytes: &[u8], database: [u8; 16]) -> Result<(), Refusal> {
        if !self.shared.config.inline || self.database.is_some() {
            return Err(Refusal::MalformedRequest);
        }
        let session = read(bytes).ok_or(Refusal::UnknownTicket)?;
        self.session = Some(Arc::new(session));
        self.database = Some(DatabaseId(database));
        Ok(())
    }
}

fn read(bytes: &[u8]) -> Option<Session> {
    let mut rest = Rest(bytes);
    let number = u64::from_le_bytes(rest.array()?);
    let expires = u64::from_le_bytes(rest.array()?);
    let subject = PublicKey(rest.array()?);
    let mut states_key = Zeroizing::new(rest.array()?);
    let (count, own) = (rest.number()?, rest.number()?);
    let mut holdings = Holdings::new(Some(subject), expires, Vec::new(), Room::default());
    holdings.own = own;
    for _ in 0..count {
        let mut master = Zeroizing::new(rest.array()?);
        let master = MasterKey::from_bytes(&mut master);
        let owner = Owner::new(master, PublicKey(rest.array()?));
        holdings.owners.push(Arc::new(owner));
    }
    for _ in 0..rest.number()? {
        let grant = Grant::parse(rest.counted()?).ok()?;
        holdings.insert(Held::verify(&grant).ok()?);
    }
    for _ in 0..rest.number()? {
        holdings.take(rest.counted()?).ok()?;
    }
    let complete = rest.0.is_empty() && own <= holdings.owners.len();
    complete.then(|| Session::with_key(number, holdings, Secret::from_bytes(&mut states_key)))
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(*head)
    }

    fn number(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    fn counted(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }
}

fn put_number(into: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).expect("bounded by the session's limits");
    into.extend_from_slice(&number.to_le_bytes());
}

fn put_counted(into: &mut Vec<u8>, bytes: &[u8]) {
    put_number(into, bytes.len());
    into.extend_from_slice(bytes);
}
