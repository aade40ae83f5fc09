//! What a backend asks of its evaluator. `opcode u8`, then the fields in their order.
//!
//! A connection is one session: who asks is known from where the request came.

mod codec;
mod opcode;

use pgseal_cell::{DataKeyId, Type};
use pgseal_value::{AggregateKind, Arithmetic, Field, Interval};

use crate::wire::Length;
use crate::{Items, Program, Ticket};

/// Cells of a page that is handed over, at most.
pub const MOST_CELLS: usize = 256;

/// As whom a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachAs {
    /// A backend that serves a client; its session is opened by messages.
    Client,
    /// A parallel worker of the session whose [ticket](crate::Tickets) this is.
    ParallelWorker {
        /// Of the leader, good once
        ticket: Ticket,
    },
    /// Work without a client.
    Background,
}

/// An operator or function of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Unary {
    /// `-x`
    Negate = 1,
    /// `abs(x)`
    Absolute = 2,
    /// `lower(x)`
    Lower = 3,
    /// `upper(x)`
    Upper = 4,
}

/// The order of texts: `C`, or a locale of libc by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collation<'a> {
    /// By code point: C, POSIX, C.UTF-8; also for all that is not text.
    C,
    /// By `strcoll_l` of this locale.
    Libc(&'a str),
}

/// A page of an index, as it is handed over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Page<'a> {
    /// In their order on the page
    pub cells: Items<'a>,
    /// Blocks of the pages below, as 4 bytes each: before the first cell, between the first and the
    /// second, and so on. None of a leaf page.
    pub children: &'a [u8],
    /// Block of the page to the right; 0 is none
    pub right: u32,
}

/// Cells that come into an aggregate's state together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch<'a> {
    /// Of a state that begins
    pub kind: AggregateKind,
    /// Of texts
    pub collation: Collation<'a>,
    /// Not null
    pub cells: Items<'a>,
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'a> {
    /// First of all; answered by `Done`.
    Attach {
        /// As whom
        kind: AttachAs,
        /// The database's own 16 bytes
        database: [u8; 16],
        /// The role that the backend serves, by its number in the cluster
        role: u32,
    },
    /// The tickets of this session's parallel workers from now on; answered by `Tickets`.
    Tickets,
    /// A client's message; answered by `Bytes`.
    Message(&'a [u8]),
    /// [`KeyRow`](crate::KeyRow)s, others' too; answered by `Number`, how many opened.
    LoadKeys(Items<'a>),
    /// For whoever operates it; answered by `Status`.
    Status,

    /// Answered by `Order`.
    Compare {
        /// Of texts
        collation: Collation<'a>,
        /// A cell
        left: &'a [u8],
        /// A cell
        right: &'a [u8],
    },
    /// Where the probe stands among cells that are sorted, either way; answered by `Position`.
    SearchPage {
        /// Of texts
        collation: Collation<'a>,
        /// A cell
        probe: &'a [u8],
        /// Cells in their order on the page
        cells: Items<'a>,
    },
    /// Where a probe stands in an index, from a page on, down and to the right, as far as the
    /// evaluator has the pages; answered by `Findings`.
    Descend {
        /// Of texts
        collation: Collation<'a>,
        /// A cell
        probe: &'a [u8],
        /// The index, in the connection's database
        index: [u8; 16],
        /// The page to begin with
        block: u32,
        /// That page, to be kept in place of what was there
        page: Option<Page<'a>>,
    },
    /// Answered by `Hash`.
    Hash {
        /// PostgreSQL's, 0 for the plain hash
        seed: u64,
        /// A cell
        cell: &'a [u8],
    },
    /// Where each cell would stand if all were sorted: equal values have equal ranks, from 0 on
    /// without gaps. Answered by `Ranks`.
    Rank {
        /// Of texts
        collation: Collation<'a>,
        /// Cells
        cells: Items<'a>,
    },
    /// A number that sorts as the cell does, as far as it goes; inline only. Answered by `Hash`.
    OrderPrefix(&'a [u8]),

    /// Answered by `Cell`.
    Arithmetic {
        /// The operator
        op: Arithmetic,
        /// A cell
        left: &'a [u8],
        /// A cell
        right: &'a [u8],
    },
    /// A date or instant and an interval, which is plain; answered by `Cell`.
    AddInterval {
        /// Negated, where it is subtracted
        interval: Interval,
        /// A cell
        cell: &'a [u8],
    },
    /// Answered by `Cell`.
    Unary {
        /// The function
        op: Unary,
        /// Of lower and upper
        collation: Collation<'a>,
        /// A cell
        cell: &'a [u8],
    },
    /// `||`; answered by `Cell`.
    Concat {
        /// A cell
        left: &'a [u8],
        /// A cell
        right: &'a [u8],
    },
    /// LIKE and ILIKE; answered by `Truth`.
    Like {
        /// Of ILIKE's folding; none is LIKE
        insensitive: Option<Collation<'a>>,
        /// A cell
        text: &'a [u8],
        /// A cell
        pattern: &'a [u8],
    },
    /// A pattern whose escape is the backslash, made of one with another; answered by `Cell`.
    LikeEscape {
        /// One character, or none
        escape: &'a str,
        /// A cell
        pattern: &'a [u8],
    },
    /// Answered by `Cell`.
    Substring {
        /// From 1 on
        from: i32,
        /// None is to the end
        len: Option<i32>,
        /// A cell
        cell: &'a [u8],
    },
    /// Characters; answered by `Cell`, an integer.
    Length(&'a [u8]),
    /// Answered by `Cell`, a numeric, or `Null`.
    Extract {
        /// Of the date or instant
        field: Field,
        /// A cell
        cell: &'a [u8],
    },
    /// Answered by `Cell`.
    Cast {
        /// The type
        to: Type,
        /// A cell
        cell: &'a [u8],
    },

    /// Operators and casts one on another, without a cell for what is made on the way; answered by
    /// `Cell` or `Null`.
    Compute {
        /// What is done with the operands
        program: Program<'a>,
        /// Cells; an empty one is NULL
        operands: Items<'a>,
    },

    /// Takes cells into an aggregate's state; answered by `Number`, the state's handle, which
    /// no other state of the connection ever has.
    AggregateStep {
        /// 0 begins a state
        state: u64,
        /// What comes in
        batch: Batch<'a>,
    },
    /// Takes another state into this one, and ends the other; answered by `Done`.
    AggregateCombine {
        /// The state that stays
        into: u64,
        /// The state that ends
        from: u64,
    },
    /// The state for another process of this session, sealed; answered by `Bytes`.
    AggregateExport(u64),
    /// A state that another process exported; answered by `Number`, its handle.
    AggregateImport(&'a [u8]),
    /// The result, after the last cells; answered by `Cell` or `Null`. Of a state that does not
    /// stay nothing is left, and one that never was, 0, is not made.
    AggregateFinish {
        /// 0 is all in this batch
        state: u64,
        /// What comes in before, maybe nothing
        batch: Batch<'a>,
        /// The state is asked again
        stays: bool,
    },
    /// Ends a state; answered by `Done`.
    AggregateDrop(u64),

    /// A conversion on the server; answered by `Cell`.
    Encrypt {
        /// The data key
        key: DataKeyId,
        /// Of the value
        ty: Type,
        /// In PostgreSQL's binary format
        plain: &'a [u8],
    },
    /// A conversion on the server; answered by `Bytes`, in PostgreSQL's binary format.
    Decrypt(&'a [u8]),
    /// A new data key, made here; answered by `Bytes`, the wrapped key.
    GenerateKey {
        /// The key name
        name: &'a str,
        /// What grants may name
        group: u32,
        /// Whether conversions make deterministic cells
        deterministic: bool,
    },
}

impl Request<'_> {
    /// How many bytes it has.
    pub fn encoded_len(&self) -> usize {
        let mut length = Length(0);
        self.put(&mut length);
        length.0
    }

    /// Appends the bytes of the request.
    pub fn encode(&self, into: &mut Vec<u8>) {
        self.put(into);
    }
}
