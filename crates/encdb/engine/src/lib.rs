//! The engine between a driver and its server, by which an application that knows nothing of encdb
//! works with encrypted columns. The crate does no input or output.
//!
//! [`analyze`] reads a statement: it seals literals, and says what each parameter is for, by the
//! [`Catalog`] that the owner's list gives.
//!
//! Invariants:
//! 1. A literal or parameter leaves in clear only if what it meets is certainly plain. What cannot
//!    be decided is a [`Refusal`], and nothing is sent.
//! 2. The server's word adds to the catalog and takes nothing away.
//! 3. No refusal holds a value.

#![forbid(unsafe_code)]

mod catalog;
mod copy;
mod engine;
mod literals;
mod observer;
mod opening;
mod outgoing;
mod refusal;
mod relay;
mod scram;
mod shown;
mod sql;
mod times;
mod values;
mod wire;
mod zone;

pub use catalog::{Catalog, Cells};
pub use copy::{CopyColumn, CopyFormat, CopyPlan, CopyRows, Direction, Header, Marks, Quotes};
pub use engine::{Engine, EngineError, Owners};
pub use literals::Literals;
pub use observer::{Event, Observer};
pub use opening::{Backend, Opened, Opening, Owner, ServerTrust, Turn};
pub use outgoing::Outgoing;
pub use refusal::Refusal;
pub use relay::{Relay, RelayError};
pub use sql::{
    analyze, converted, hexadecimal, value_of_text, Analysis, Cast, Conversion, Parameter,
    Prepared, PreparedByName, Seal,
};
pub use times::{SessionTimes, Times};
pub use values::Keys;
pub use wire::{error as error_response, FrameError, MessageError};
pub use zone::Zone;
