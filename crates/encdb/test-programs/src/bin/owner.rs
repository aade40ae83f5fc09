//! An owner for tests in psql: makes the messages that open a session, seals values, opens cells.
//! The master key comes from a number in the arguments, so that nothing has to be kept; not for
//! use.
//!
//!     owner hello FILE                        writes a nonce to FILE, prints the first message
//!     owner open SEED FILE EVIDENCE OPERATIONS  prints the second; OPERATIONS: all, none, names,
//!                                             or background: all, and what background work may
//!     owner grant SEED OPERATIONS             prints a grant to the owner itself
//!     owner revoke SEED SEQUENCE              prints a list of revocations, an empty one
//!     owner key SEED KEYNAME [det]            prints a new data key, wrapped
//!     owner seal SEED KEYNAME WRAPPED TYPE VALUE   prints a cell; VALUE as PostgreSQL writes it
//!     owner show SEED KEYNAME WRAPPED CELL    prints the value of a cell
//!
//! All bytes are in bytea's hexadecimal form.

use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use pgseal_cell::grant::{
    Grant, GrantTerms, KeyScope, Operation, Operations, Revocations, Serial, Subject,
};
use pgseal_cell::{
    CellCipher, CellRef, DataKey, MasterKey, Mode, Nonces, Type, Unwrapped, WrappedKey,
};
use pgseal_crypto::random_bytes;
use pgseal_crypto::sign::SigningKey;
use pgseal_crypto::Secret;
use pgseal_evaluator_proto::message::{Claims, Hello, OpenTerms, VerifyEvidence};
use pgseal_value::Value;

type Outcome<T> = Result<T, Box<dyn Error>>;

const HOUR: u64 = 3600;
const TYPES: [Type; 13] = [
    Type::Int4,
    Type::Int8,
    Type::Float4,
    Type::Float8,
    Type::Decimal,
    Type::Bool,
    Type::Date,
    Type::Timestamp,
    Type::TimestampTz,
    Type::Uuid,
    Type::Bytea,
    Type::Interval,
    Type::Text,
];

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let answer = match arguments[..] {
        ["hello", file] => hello(file)?,
        ["open", seed, file, evidence, operations] => {
            open(&Owner::new(seed)?, file, evidence, operations)?
        }
        ["grant", seed, names] => {
            let owner = Owner::new(seed)?;
            hex(&grant(&owner, Subject::Owner, named(names)?, now()? + HOUR)?.encode())
        }
        ["revoke", seed, sequence] => {
            let list = Revocations::sign(sequence.parse()?, Vec::new(), &Owner::new(seed)?.key);
            hex(&list.encode())
        }
        ["key", seed, keyname] => key(&Owner::new(seed)?, keyname, false)?,
        ["key", seed, keyname, "det"] => key(&Owner::new(seed)?, keyname, true)?,
        ["seal", seed, keyname, wrapped, ty, value] => {
            seal(&Owner::new(seed)?, keyname, wrapped, ty, value)?
        }
        ["show", seed, keyname, wrapped, cell] => show(&Owner::new(seed)?, keyname, wrapped, cell)?,
        _ => return Err("see the head of crates/encdb/pgext/examples/owner.rs".into()),
    };
    println!("{answer}");
    Ok(())
}

struct Owner {
    master: MasterKey,
    key: SigningKey,
}

impl Owner {
    fn new(seed: &str) -> Outcome<Self> {
        let seed: u8 = seed.parse()?;
        Ok(Self {
            master: MasterKey::from_bytes(&mut [seed; 32]),
            key: SigningKey::from_seed(&Secret::from_bytes(&mut [!seed; 32])),
        })
    }

    fn data_key(&self, keyname: &str, wrapped: &str) -> Outcome<(DataKey, bool)> {
        let wrapped = from_hex(wrapped)?;
        let wrapped = WrappedKey::parse(&wrapped)?;
        match wrapped.unwrap(&self.master, &self.key.public(), keyname)? {
            Unwrapped::Sealed(key) => Ok((key, wrapped.deterministic())),
            Unwrapped::Legacy(_) => Err("a key of version 0".into()),
        }
    }
}

/// Tests trust anyone who answers.
struct Anybody;

impl VerifyEvidence for Anybody {
    type Error = std::convert::Infallible;

    fn verify(&self, _: &Claims<'_>) -> Result<(), Self::Error> {
        Ok(())
    }
}

fn hello(file: &str) -> Outcome<String> {
    let nonce: [u8; 32] = random_bytes()?;
    fs::write(file, nonce)?;
    Ok(hex(&Hello::with_nonce(nonce).message()))
}

fn open(owner: &Owner, file: &str, evidence: &str, operations: &str) -> Outcome<String> {
    let nonce = fs::read(file)?.try_into().map_err(|_| "not a nonce")?;
    let offer = Hello::with_nonce(nonce).offer(&from_hex(evidence)?)?;
    let expires = now()? + HOUR;
    let grants = grants(owner, operations, expires)?;
    let terms = OpenTerms {
        master: &owner.master,
        owner: owner.key.public(),
        client: &owner.key,
        expires,
        grants: &grants,
        revocations: &[],
    };
    let (_, message) = offer.verify(&Anybody)?.open(&terms)?;
    Ok(hex(&message))
}

fn grants(owner: &Owner, operations: &str, not_after: u64) -> Outcome<Vec<Grant>> {
    let to_owner = |operations| grant(owner, Subject::Owner, operations, not_after);
    let to_background = grant(
        owner,
        Subject::Background,
        Operations::BACKGROUND,
        not_after,
    );
    Ok(match operations {
        "none" => Vec::new(),
        "all" => vec![to_owner(Operations::ALL)?],
        "background" => vec![to_owner(Operations::ALL)?, to_background?],
        names => vec![to_owner(named(names)?)?],
    })
}

fn named(names: &str) -> Outcome<Operations> {
    names.split(',').try_fold(Operations::NONE, |set, name| {
        let operation = Operation::from_name(name).ok_or("no such operation")?;
        Ok(set.with(operation))
    })
}

fn grant(
    owner: &Owner,
    subject: Subject,
    operations: Operations,
    not_after: u64,
) -> Outcome<Grant> {
    let terms = GrantTerms {
        serial: Serial(random_bytes()?),
        owner: owner.key.public(),
        subject,
        database: None,
        operations,
        not_before: 0,
        not_after,
        keys: KeyScope::All,
    };
    Ok(Grant::sign(terms, &owner.key))
}

fn now() -> Outcome<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

fn key(owner: &Owner, keyname: &str, deterministic: bool) -> Outcome<String> {
    let key = Unwrapped::Sealed(DataKey::generate()?);
    let public = owner.key.public();
    let mut nonces = Nonces::new();
    let wrapped = key.wrap(
        &owner.master,
        &public,
        keyname,
        0,
        deterministic,
        &mut nonces,
    )?;
    Ok(hex(&wrapped))
}

fn seal(owner: &Owner, keyname: &str, wrapped: &str, ty: &str, value: &str) -> Outcome<String> {
    let (key, deterministic) = owner.data_key(keyname, wrapped)?;
    let ty = { TYPES.into_iter() }.find(|known| known.name() == ty);
    let ty = ty.ok_or("no such type")?;
    let mode = if deterministic {
        Mode::Deterministic
    } else {
        Mode::Randomised
    };
    let (mut plain, mut cell) = (Vec::new(), Vec::new());
    Value::parse(ty, value)?.encode(&mut plain);
    CellCipher::new(&key).seal(ty, mode, &plain, &mut Nonces::new(), &mut cell)?;
    Ok(hex(&cell))
}

fn show(owner: &Owner, keyname: &str, wrapped: &str, cell: &str) -> Outcome<String> {
    let (key, _) = owner.data_key(keyname, wrapped)?;
    let cell = from_hex(cell)?;
    let cell = CellRef::parse(&cell)?;
    let mut plain = Vec::new();
    CellCipher::new(&key).open(&cell, &mut plain)?;
    Ok(Value::decode(cell.ty(), &plain)?.to_text())
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    format!("\\x{}", digits.collect::<String>())
}

fn from_hex(text: &str) -> Outcome<Vec<u8>> {
    let digits = text.strip_prefix("\\x").ok_or("no bytea in hexadecimal")?;
    let byte = |at| {
        Ok(u8::from_str_radix(
            digits.get(at..at + 2).ok_or("half a byte")?,
            16,
        )?)
    };
    (0..digits.len()).step_by(2).map(byte).collect()
}
