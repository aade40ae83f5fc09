//! A client of encdb. Owners of encrypted columns, and the programs that they trust, use it
//! against a server that can read none of the values.
//!
//! The core is pure: the client's identity ([`Identity`]), the evaluators that it trusts
//! ([`Policy`]), its data keys ([`KeyRing`]) and what it grants ([`grants`]). It seals arguments
//! on their way to the server ([`Argument`]) and opens columns that come back ([`Row`]).
//! [`Session`] drives it over tokio-postgres, and [`ConnectOptions`] finds the server; nothing
//! else does I/O.
//!
//! Invariants:
//! 1. A master key is sent only to an evaluator whose evidence the [`Policy`] accepts.
//! 2. An argument leaves in clear only if its caller calls it plain, whatever the server says.
//! 3. Secrets and opened values are in types that are wiped; no error text holds one.
//! 4. No global state: sessions and identities stand beside each other.

#![forbid(unsafe_code)]

mod argument;
mod array;
mod attributes;
mod column;
mod connect;
mod copy;
mod error;
mod evidence;
mod field;
pub mod grants;
mod hex;
mod identity;
mod keys;
mod list;
mod network;
pub mod protect;
mod session;
mod statement;
mod stream;
mod tls;

pub use argument::{Argument, Resolver};
pub use array::Array;
pub use column::{encrypted_name, type_by_name, Encrypted};
pub use connect::{ConnectOptions, Target};
pub use error::ClientError;
pub use evidence::{back_end_name, evidence_key, EvidenceError, Policy};
pub use field::Field;
pub use hex::{from_hex, to_hex};
pub use identity::{Identity, IdentityError, IdentityFile, IdentityFileError};
pub use keys::{KeyInfo, KeyRing, NewKey};
pub use list::{
    ColumnName, Kept, ListError, ListedColumn, ListedObject, OwnersList, PlacedColumn, ShownColumn,
    TableName,
};
pub use network::conninfo;
pub use pgseal_attestation::PolicyError;
pub use pgseal_cell::grant::{
    Grant, GrantTerms, KeyScope, Operation, Operations, Revocations, Serial, Subject,
};
pub use pgseal_cell::{DataKeyId, PublicKey, Type};
pub use pgseal_value::Value;
pub use session::{
    encrypted_columns, encrypted_names, encrypted_objects, encrypted_types, grants_of,
    online_protection, order_of_row, other_connections, protection, revoke, shown_columns,
    table_orders, take_back, Evidence, Keeper, KeyStore, OnlineState, Prepared, ProtectError,
    ProtectOptions, Protected, Row, Session, SessionOptions, Step, TakenBack,
};
pub use statement::{Statement, Token};
pub use stream::{Parts, Stream};
pub use tokio_postgres;
