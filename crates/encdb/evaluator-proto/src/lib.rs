//! The protocol between the extension, a client and an evaluator. All but `ring/host.rs` is pure:
//! bytes in, types out.
//!
//! - [`Request`] and [`Response`]: one call of the extension, which the evaluator answers;
//! - [`Refusal`]: why it does not, with an SQLSTATE and one sentence;
//! - [`Program`]: operators one on another, as a request takes them;
//! - [`Plain`]: a plain value that the server has, in the place of a cell in a comparison;
//! - [`Filter`]: the conditions of a query on its rows, as a request takes them;
//! - [`Tickets`]: how an evaluator knows the parallel workers of a session;
//! - [`message`]: how an owner's client hands keys to an evaluator, past a server that only relays;
//! - [`ring`]: the memory through which a backend and an isolated evaluator call each other.
//!
//! Invariants:
//! 1. All integers are little-endian, all byte strings have their length before them.
//! 2. Parsing takes any bytes: it never panics, never allocates by a length that it was only told,
//!    and what was parsed is encoded as the same bytes.
//! 3. No refusal's text holds a value.

mod filter;
mod items;
pub mod message;
mod plain;
mod program;
mod refusal;
mod request;
mod response;
pub mod ring;
mod tickets;
mod wire;

pub use filter::{Comparison, Condition, Filter, FilterOperand, FilterProgram, FilterScope};
pub use items::{Items, KeyRow};
pub use plain::{Plain, Prefix};
pub use program::{PlainText, Program, Step, StepFraction, StepZone, TextArgument, TextStep};
pub use refusal::{Refusal, Report};
pub use request::{
    counts_of, AggregateRequest, AttachAs, Batch, Collation, ComparisonRequest, ConversionRequest,
    EachRequest, Input, Inputs, Matching, OperationRequest, Page, Parts, Request, SessionRequest,
    Unary, MAX_CELLS,
};
pub use response::{Filtered, Finding, Position, Response, Status, MAX_EQUAL, MAX_FINDINGS};
pub use tickets::{Ticket, Tickets};
pub use wire::Malformed;
