//! Conversion of plaintext into cells and back on the server, and generation of keys there.
//! Nothing of this happens without a grant.

use pgseal_cell::grant::{Operation, Subject};
use pgseal_cell::{DataKey, DataKeyId, Mode, Type, Unwrapped};
use pgseal_evaluator_proto::{KeyRow, Refusal};
use pgseal_value::Value;

use super::access::Access;
use super::permit::{Guarded, Origin};
use super::roles::Deed;
use super::Connection;
use crate::audit::Event;

impl Connection {
    /// The cell of a plain value in PostgreSQL's binary format, as a client would make it.
    pub fn encrypt(
        &mut self,
        key: DataKeyId,
        ty: Type,
        plain: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.begin_operation()?;
        let place = self.access.view.place(|known| known.id == key);
        let place = place.ok_or(Refusal::KeyNotLoaded)?;
        let origin = Origin {
            key: place,
            derived: false,
        };
        let _permit = self.access.may(Operation::ConvertIn, &[origin])?;
        let value = Guarded::new(Value::decode(ty, plain)?);
        let view = &self.access.view;
        let mode = match view.key(place).deterministic {
            true => Mode::Deterministic,
            false => Mode::Randomised,
        };
        self.cells.seal(view, &value, place, mode, into)
    }

    /// The plain value of a cell in PostgreSQL's binary format.
    pub fn decrypt_to(&mut self, cell: &[u8], into: &mut Vec<u8>) -> Result<(), Refusal> {
        self.begin_operation()?;
        let at = self.cells.open_one(&self.access.view, cell)?;
        let operands = [self.cells.origin(at)];
        let permit = self.access.may(Operation::ConvertOut, &operands)?;
        self.cells.read(at, &permit).encode(into);
        Ok(())
    }

    /// A new data key of the session's own owner, wrapped, and loaded at once.
    pub fn generate_key(
        &mut self,
        name: &str,
        group: u32,
        deterministic: bool,
    ) -> Result<Vec<u8>, Refusal> {
        self.begin_operation()?;
        self.access.check_share(Deed::Add)?;
        let key = DataKey::generate().map_err(|_| Refusal::NoRandom)?;
        let id = key.id();
        let grant = self.access.generating_grant(group, id)?;
        self.access.counts.used(grant, Operation::KeyGenerate);
        let owner = self.access.view.owners.first();
        let owner = owner.ok_or(Refusal::NoSession)?;
        let key = Unwrapped::Sealed(key);
        let wrapped = key
            .wrap(
                &owner.master,
                &owner.public,
                name,
                group,
                deterministic,
                self.cells.nonces(),
            )
            .map_err(|_| Refusal::NoRandom)?;
        let row = KeyRow {
            name,
            wrapped: &wrapped,
        };
        self.access.made_key(&row, id)?;
        Ok(wrapped)
    }

    /// Takes rows of the table of data keys in, and returns how many opened. Others' keys are left
    /// out; a row that does not open is counted, and hinders no other.
    pub fn load_keys<'r>(&mut self, rows: impl Iterator<Item = &'r [u8]>) -> Result<u32, Refusal> {
        self.access.load_keys(rows)
    }
}

impl Access {
    /// Loads a key that was made here.
    fn made_key(&mut self, row: &KeyRow<'_>, id: DataKeyId) -> Result<(), Refusal> {
        let (session, _) = self.session()?;
        session.load(&row.encode())?;
        let session = session.number;
        self.counts.event(Event::KeyMade { session, key: id.0 });
        Ok(())
    }

    /// The place of the grant that lets this session make a key of this group.
    fn generating_grant(&self, group: u32, id: DataKeyId) -> Result<usize, Refusal> {
        let (session, database) = self.session()?;
        let holdings = session.read();
        let owner = match holdings.owners.first() {
            Some(owner) if holdings.own > 0 => owner.public,
            _ => return Err(Refusal::NoGrant(Operation::KeyGenerate)),
        };
        let subject = holdings.subject;
        let found = holdings.grants.iter().position(|held| {
            let terms = held.grant.terms();
            let meant = match terms.subject {
                Subject::Owner => subject == Some(owner),
                Subject::Client(client) => subject == Some(client),
                Subject::Background => false,
            };
            let holds = !held.revoked && held.grant.holds(self.now, None).is_ok();
            terms.owner == owner
                && meant
                && holds
                && held
                    .grant
                    .allows(Operation::KeyGenerate, database, group, id)
        });
        found.ok_or(Refusal::NoGrant(Operation::KeyGenerate))
    }

    fn load_keys<'r>(&mut self, rows: impl Iterator<Item = &'r [u8]>) -> Result<u32, Refusal> {
        self.fresh()?;
        let session = self.session.as_ref().ok_or(Refusal::NoSession)?;
        let mut loaded = 0;
        for row in rows {
            match session.load(row) {
                Ok(true) => loaded += 1,
                Ok(false) => {}
                // That is no fault of the row's.
                Err(Refusal::RoleShare) => return Err(Refusal::RoleShare),
                Err(refusal) => self.counts.refused(refusal),
            }
        }
        Ok(loaded)
    }
}
