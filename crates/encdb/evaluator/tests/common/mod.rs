//! An owner with a client, a data key and an engine, for tests of what sessions may do.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, dead_code)]

use pgseal_cell::grant::{
    DatabaseId, Grant, GrantTerms, KeyScope, Operation, Operations, Revocations, Serial, Subject,
};
use pgseal_cell::{CellCipher, DataKey, MasterKey, Mode, Nonces, PublicKey, Type, Unwrapped};
use pgseal_crypto::Secret;
use pgseal_evaluator::engine::{CollationId, Config, Connection, Engine, Start};
use pgseal_evaluator::evidence::Software;
use pgseal_evaluator_proto::message::{
    Claims, ClientSession, Command, Hello, OpenTerms, Reply, SigningKey, VerifyEvidence,
};
use pgseal_evaluator_proto::{
    AttachAs, Items, KeyRow, Page, Refusal, Request, Response, SessionRequest, Tickets,
};
use pgseal_value::{AggregateKind, Value};

pub const NOW: u64 = 1_800_000_000;
pub const DATABASE: [u8; 16] = [0xdb; 16];
pub const KEYNAME: &str = "|alice|shop|public|t|k|";
pub const GROUP: u32 = 7;

pub fn engine(inline: bool) -> Engine {
    Engine::new(Config {
        evidence: Box::new(Software),
        collation: pgseal_evaluator::os::collation,
        inline,
        cache: 4096,
        states: 1000,
        pages: 1000,
        connections: 1000,
        memory: 64 << 20,
        logs: true,
    })
}

pub fn connect(engine: &Engine, kind: AttachAs) -> Connection {
    let mut connection = engine.connect();
    connection.set_time(NOW);
    connection.attach(kind, DATABASE).unwrap();
    connection
}

/// The tickets of a session, as its leader has them.
pub fn tickets(leader: &mut Connection) -> Tickets {
    Tickets::new(Secret::from_bytes(&mut leader.tickets().unwrap()))
}

/// Takes the software evidence for what it is.
struct Trusting;

impl VerifyEvidence for Trusting {
    type Error = ();
    fn verify(&self, claims: &Claims<'_>) -> Result<(), ()> {
        let bound = claims.evidence.ends_with(&claims.report_data);
        (claims.terms.backend == 0 && bound).then_some(()).ok_or(())
    }
}

/// An owner of keys, or a client of one.
pub struct Party {
    /// The time around which its sessions and grants hold.
    pub now: u64,
    pub master: MasterKey,
    pub signing: SigningKey,
    /// How many grants it has signed.
    serials: std::cell::Cell<u8>,
    seed: u8,
}

impl Party {
    pub fn new(seed: u8) -> Self {
        Self::of([seed; 32])
    }

    pub fn of(mut seed: [u8; 32]) -> Self {
        let mut signing = seed.map(|byte| byte ^ 0x55);
        let number = seed[0];
        Self {
            now: NOW,
            master: MasterKey::from_bytes(&mut seed),
            signing: SigningKey::from_seed(&Secret::from_bytes(&mut signing)),
            serials: std::cell::Cell::new(0),
            seed: number,
        }
    }

    pub fn public(&self) -> PublicKey {
        self.signing.public()
    }

    pub fn grant(&self, subject: Subject, operations: &[Operation]) -> Grant {
        self.grant_with(subject, operations, |_| {})
    }

    pub fn grant_with(
        &self,
        subject: Subject,
        operations: &[Operation],
        change: impl FnOnce(&mut GrantTerms),
    ) -> Grant {
        self.serials.set(self.serials.get() + 1);
        let operations = operations
            .iter()
            .fold(Operations::NONE, |set, op| set.with(*op));
        let mut serial = [self.seed; 16];
        serial[0] = self.serials.get();
        let mut terms = GrantTerms {
            serial: Serial(serial),
            owner: self.public(),
            subject,
            database: Some(DatabaseId(DATABASE)),
            operations,
            not_before: self.now - 10,
            not_after: self.now + 1000,
            keys: KeyScope::All,
        };
        change(&mut terms);
        Grant::sign(terms, &self.signing)
    }

    pub fn revoke(&self, sequence: u64, grants: &[&Grant]) -> Revocations {
        let serials = grants.iter().map(|grant| grant.terms().serial).collect();
        Revocations::sign(sequence, serials, &self.signing)
    }

    pub fn key(&self, seed: u8, deterministic: bool) -> Sealer {
        self.key_of([seed; 32], deterministic)
    }

    pub fn key_of(&self, bytes: [u8; 32], deterministic: bool) -> Sealer {
        let (mut one, mut other) = (bytes, bytes);
        let key = DataKey::from_bytes(&mut one);
        let again = DataKey::from_bytes(&mut other);
        let mut nonces = Nonces::new();
        let wrapped = Unwrapped::Sealed(again)
            .wrap(
                &self.master,
                &self.public(),
                KEYNAME,
                GROUP,
                deterministic,
                &mut nonces,
            )
            .unwrap();
        let row = KeyRow {
            name: KEYNAME,
            wrapped: &wrapped,
        };
        Sealer {
            cipher: CellCipher::new(&key),
            nonces,
            row: row.encode(),
        }
    }
}

/// A data key at the client.
pub struct Sealer {
    pub cipher: CellCipher,
    nonces: Nonces,
    pub row: Vec<u8>,
}

impl Sealer {
    pub fn seal(&mut self, value: &Value) -> Vec<u8> {
        self.seal_as(value, Mode::Randomised)
    }

    pub fn seal_as(&mut self, value: &Value, mode: Mode) -> Vec<u8> {
        let (mut plain, mut cell) = (Vec::new(), Vec::new());
        value.encode(&mut plain);
        self.cipher
            .seal(value.ty(), mode, &plain, &mut self.nonces, &mut cell)
            .unwrap();
        cell
    }

    pub fn int4(&mut self, value: i32) -> Vec<u8> {
        self.seal(&Value::Int4(value))
    }

    pub fn text(&mut self, value: &str) -> Vec<u8> {
        self.seal(&Value::Text(value.to_owned()))
    }

    pub fn open(&self, cell: &[u8]) -> Value {
        let cell = pgseal_cell::CellRef::parse(cell).unwrap();
        let mut plain = Vec::new();
        self.cipher.open(&cell, &mut plain).unwrap();
        Value::decode(cell.ty(), &plain).unwrap()
    }

    pub fn open_int4(&self, cell: &[u8]) -> i32 {
        match self.open(cell) {
            Value::Int4(value) => value,
            _ => panic!("not an int4"),
        }
    }

    pub fn open_text(&self, cell: &[u8]) -> String {
        self.open(cell).to_text()
    }
}

/// Sends a client's message through `call`, as the server relays it.
pub fn relay(connection: &mut Connection, message: &[u8]) -> Result<Vec<u8>, u16> {
    let (mut request, mut response) = (Vec::new(), Vec::new());
    Request::Session(SessionRequest::Message(message)).encode(&mut request);
    connection.call(&request, &mut response);
    match Response::parse(&response).unwrap() {
        Response::Bytes(bytes) => Ok(bytes.to_vec()),
        Response::Refused(report) => Err(report.code),
        other => panic!("{other:?}"),
    }
}

/// Opens `owner`'s keys for the client `client`.
pub fn open(
    connection: &mut Connection,
    owner: &Party,
    client: &Party,
    grants: &[Grant],
    revocations: &[Revocations],
) -> Result<ClientSession, u16> {
    open_by(
        |message| relay(connection, message),
        owner,
        client,
        grants,
        revocations,
    )
}

/// Opens `owner`'s keys for the client `client` by any `relay` of messages.
pub fn open_by(
    mut relay: impl FnMut(&[u8]) -> Result<Vec<u8>, u16>,
    owner: &Party,
    client: &Party,
    grants: &[Grant],
    revocations: &[Revocations],
) -> Result<ClientSession, u16> {
    let hello = Hello::new().unwrap();
    let answer = relay(&hello.message())?;
    let offer = hello.offer(&answer).unwrap().verify(&Trusting).unwrap();
    let terms = OpenTerms {
        master: &owner.master,
        owner: owner.public(),
        client: &client.signing,
        expires: client.now + 500,
        grants,
        revocations,
    };
    let (opening, message) = offer.open(&terms).unwrap();
    let answer = relay(&message)?;
    Ok(opening.opened(&answer).unwrap())
}

/// Sends a command, and gives the code of its refusal, if it is refused.
pub fn command(
    connection: &mut Connection,
    session: &mut ClientSession,
    command: &Command<'_>,
) -> Result<Option<Vec<u8>>, u16> {
    let message = session.command(command);
    let answer = relay(connection, &message)?;
    let reply = session.reply(&answer).unwrap();
    match reply.reply().unwrap() {
        Reply::Done => Ok(None),
        Reply::WrappedKey(key) => Ok(Some(key.to_vec())),
        Reply::Refused(report) => Err(report.code),
    }
}

/// A connection in which alice's session is open with these operations granted to her, and her key.
pub fn alice_with(engine: &Engine, operations: &[Operation]) -> (Connection, Party, Sealer) {
    let alice = Party::new(1);
    let grants = match operations {
        [] => Vec::new(),
        some => vec![alice.grant(Subject::Owner, some)],
    };
    let mut connection = connect(engine, AttachAs::Client);
    open(&mut connection, &alice, &alice, &grants, &[]).unwrap();
    let key = alice.key(11, false);
    assert_eq!(load(&mut connection, &key), 1);
    (connection, alice, key)
}

pub fn load(connection: &mut Connection, key: &Sealer) -> u32 {
    connection
        .load_keys([key.row.as_slice()].into_iter())
        .unwrap()
}

/// Returns the answer to a request, or the code of the refusal.
pub fn call(connection: &mut Connection, request: &Request<'_>) -> Result<Vec<u8>, u16> {
    let (mut bytes, mut response) = (Vec::new(), Vec::new());
    request.encode(&mut bytes);
    connection.call(&bytes, &mut response);
    match Response::parse(&response).unwrap() {
        Response::Refused(report) => Err(report.code),
        _ => Ok(response),
    }
}

pub fn items<'a>(list: &'a [&'a [u8]]) -> Items<'a> {
    Items::Listed(list)
}

pub fn no_grant(operation: Operation) -> Refusal {
    Refusal::NoGrant(operation)
}

pub const INT4: Type = Type::Int4;

/// Aggregates cells on a state, or on a new one, for state 0.
pub fn step(
    connection: &mut Connection,
    state: u64,
    kind: AggregateKind,
    cells: &[&[u8]],
) -> Result<u64, Refusal> {
    connection.aggregate_step(state, kind, CollationId::C, cells.iter().copied())
}

/// A leaf page without a right neighbour.
pub fn leaf<'a>(cells: &'a [&'a [u8]]) -> Page<'a> {
    Page {
        cells: items(cells),
        children: &[],
        right: 0,
    }
}

/// A page of an index, maybe handed over.
pub fn start(block: u32, page: Option<Page<'_>>) -> Start<'_> {
    Start {
        index: [1; 16],
        block,
        page,
    }
}
