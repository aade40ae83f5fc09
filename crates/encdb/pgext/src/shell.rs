//! One backend's side of an evaluator: the transport to it, and why its last call was refused.
//!
//! States: without a transport (before [`Shell::attach`], after [`Shell::detach`]), inline,
//! isolated. The inline transport has short cuts for what a query does most; everything else is a
//! request over either.

use std::cmp::Ordering;
use std::ffi::{CStr, CString};
use std::path::PathBuf;

use nix::sys::prctl;
use pgseal_crypto::Secret;
use pgseal_evaluator::os;
use pgseal_evaluator_proto::message::Kind;
use pgseal_evaluator_proto::ring::{shrink, MAX_MESSAGE};
use pgseal_evaluator_proto::{
    AggregateRequest, AttachAs, Collation, ComparisonRequest, Items, KeyRow, Refusal, Report,
    Request, Response, SessionRequest, Tickets, MAX_FINDINGS,
};

use crate::handover::{self, Door, Handover, Left, Taken};
use crate::peers::{IsWorker, Meeting};
use crate::states::States;
use crate::transport::{Inline, Interrupts, Isolated, Transport};
use crate::warning::Warning;

/// Bytes of wrapped keys that go into one request, a fraction of what fits: any role may have added
/// rows, of any number and length.
const PORTION: usize = 1 << 20;
/// The bytes that a row takes beside its name and key.
const ROW: usize = 128;

/// The reason why a call was refused, as C is told.
pub(crate) struct Failure {
    pub(crate) code: u16,
    pub(crate) sqlstate: [u8; 5],
    pub(crate) text: CString,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Report::from(refusal).into()
    }
}

impl From<Report<'_>> for Failure {
    fn from(report: Report<'_>) -> Self {
        Self {
            code: report.code,
            sqlstate: report.sqlstate,
            text: CString::new(report.text.into_owned()).unwrap_or_default(),
        }
    }
}

/// The part in which a backend speaks. A leader and its workers name one meeting.
pub(crate) enum Peer {
    Client(Leader),
    ParallelWorker(Meeting),
    Background,
}

/// The facts that a backend needs if it may have parallel workers.
pub(crate) struct Leader {
    pub(crate) meeting: Meeting,
    pub(crate) is_worker: IsWorker,
}

/// How an evaluator is reached.
pub(crate) enum Place<'a> {
    Inline,
    Isolated { socket: &'a str },
}

/// A backend's side.
pub(crate) struct Shell {
    transport: Transport,
    /// The role that this backend serves, of whose share its connection is.
    pub(crate) role: u32,
    /// Present if it may have sessions of its own, which its parallel workers share.
    leader: Option<Leader>,
    /// The evaluator's process, and the database that it was told.
    outside: Option<PathBuf>,
    database: [u8; 16],
    request: Vec<u8>,
    response: Vec<u8>,
    /// The answer to the last message, which holds while other requests are made.
    answer: Vec<u8>,
    handover: Option<Handover>,
    warning: Warning,
    /// The epoch of the session that was last left for workers.
    left_at: Option<u64>,
    pub(crate) states: States,
    /// The last call was given up: the evaluator may be at work on it still.
    gave_up: bool,
    /// States that are to be dropped before it is asked for anything else.
    dropped: Vec<u64>,
    /// The requests that an evaluator outside was asked, since the process began.
    pub(crate) requests: u64,
    pub(crate) failure: Failure,
}

impl Shell {
    pub(crate) fn new() -> Self {
        Self {
            transport: Transport::None,
            role: 0,
            leader: None,
            outside: None,
            database: [0; 16],
            request: Vec::new(),
            response: Vec::new(),
            answer: Vec::new(),
            handover: None,
            warning: Warning::default(),
            left_at: None,
            states: States::default(),
            gave_up: false,
            dropped: Vec::new(),
            requests: 0,
            failure: Refusal::NoSession.into(),
        }
    }

    /// Finds the evaluator and says who this is.
    pub(crate) fn attach(
        &mut self,
        place: &Place<'_>,
        peer: Peer,
        interrupts: Interrupts,
        database: [u8; 16],
    ) -> Result<(), Failure> {
        self.detach();
        // Keys and values come in: no process of the server's user looks into this one any more.
        prctl::set_dumpable(false).map_err(|_| Refusal::Unsupported)?;
        self.states.begin();
        self.database = database;
        self.outside = match place {
            Place::Inline => None,
            Place::Isolated { socket } => Some(PathBuf::from(socket)),
        };
        let kind = match peer {
            Peer::Client(leader) => {
                self.leader = Some(leader);
                AttachAs::Client
            }
            Peer::Background => AttachAs::Background,
            Peer::ParallelWorker(meeting) => {
                let taken = handover::take(&meeting, || interrupts.go_on());
                if self.follow(taken.map_err(|_| Refusal::UnknownTicket)?, interrupts)? {
                    return Ok(());
                }
                // The leader has no session, and its workers have none either: as a client's that
                // opens none, never as background work, to which owners may have left something.
                AttachAs::Client
            }
        };
        self.transport = match &self.outside {
            None => Transport::Inline(Box::new(Inline::new())),
            Some(socket) => Transport::Isolated(Box::new(Isolated::connect(socket, interrupts)?)),
        };
        self.done(&Request::Session(SessionRequest::Attach {
            kind,
            database,
            role: self.role,
        }))
    }

    /// Goes on as a worker with what its leader gave; false if that is nothing.
    fn follow(&mut self, taken: Taken, interrupts: Interrupts) -> Result<bool, Failure> {
        self.transport = match (taken, &self.outside) {
            (Taken::Nothing, _) => return Ok(false),
            (Taken::Session(session), None) => {
                let mut inline = Inline::new();
                let connection = &mut inline.connection;
                connection.import_session(&session, self.database)?;
                Transport::Inline(Box::new(inline))
            }
            (Taken::Evaluator(answer, ends), Some(_)) => match (understand(&answer)?, ends) {
                (Response::Done, Some(ends)) => {
                    Transport::Isolated(Box::new(Isolated::over(ends, interrupts)?))
                }
                _ => return Err(Refusal::UnknownTicket.into()),
            },
            _ => return Err(Refusal::UnknownTicket.into()),
        };
        Ok(true)
    }

    /// Ends the session, if there is one.
    pub(crate) fn detach(&mut self) {
        self.transport = Transport::None;
        self.leader = None;
        self.leave_nothing();
        self.gave_up = false;
        self.dropped.clear();
    }

    /// Returns whether there was a transport whose other end is gone.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(&self.transport, Transport::Isolated(isolated) if !isolated.is_open())
    }

    pub(crate) fn set_time(&mut self, now: u64) {
        if let Transport::Inline(inline) = &mut self.transport {
            inline.connection.set_time(now);
        }
    }

    /// Relays a message; true if it opened a session, whose keys are to be loaded. Other messages
    /// bring no owner, so no more rows would give a key. A key that another session has made since
    /// is loaded when its first cell is met.
    pub(crate) fn message(&mut self, message: &[u8]) -> Result<(&[u8], bool), Failure> {
        // Any client may send one, and it is copied before the ring refuses it.
        if message.len() > MAX_MESSAGE {
            return Err(Refusal::TooLarge.into());
        }
        self.answer = self
            .bytes(&Request::Session(SessionRequest::Message(message)))?
            .to_vec();
        let open = self.ask(
            &Request::Session(SessionRequest::Status),
            |response| match response {
                Response::Status(status) => Some(status.open),
                _ => None,
            },
        )?;
        let opened = open && Kind::of(message) == Ok(Kind::Open);
        // Otherwise workers have what they need, unless grants have changed.
        if opened || !open || self.epoch() != self.left_at {
            self.leave(open)?;
        }
        Ok((&self.answer, opened))
    }

    /// Passes wrapped keys, by name.
    pub(crate) fn load_keys(&mut self, rows: &[KeyRow<'_>]) -> Result<(), Failure> {
        let lengths = rows
            .iter()
            .map(|row| row.name.len() + row.wrapped.len() + ROW);
        self.transport.room(PORTION)?;
        if !os::has_room(lengths.sum()) {
            return Err(Refusal::OutOfMemory.into());
        }
        let rows: Vec<Vec<u8>> = rows.iter().map(KeyRow::encode).collect();
        for portion in portions(&rows, PORTION) {
            self.ask(
                &Request::Session(SessionRequest::LoadKeys(Items::Listed(&portion))),
                number,
            )?;
        }
        // The evaluator outside has them for workers too.
        match self.transport {
            Transport::Inline(_) => self.leave(true),
            _ => Ok(()),
        }
    }

    /// Passes one more wrapped key. Workers that meet its cells load it themselves.
    pub(crate) fn add_key(&mut self, row: KeyRow<'_>) -> Result<(), Failure> {
        let row = row.encode();
        let rows = Items::Listed(&[&row]);
        self.ask(&Request::Session(SessionRequest::LoadKeys(rows)), number)
            .map(drop)
    }

    /// Returns a number that grows when what workers need of the session changes, except keys,
    /// which they load themselves. None where the evaluator outside gives it to them.
    fn epoch(&self) -> Option<u64> {
        match &self.transport {
            Transport::Inline(inline) => Some(inline.connection.epoch()),
            _ => None,
        }
    }

    /// Leaves the session as it is now for parallel workers. Where they cannot be waited for they
    /// have none, and are refused; this session goes on, and warns of it.
    fn leave(&mut self, open: bool) -> Result<(), Failure> {
        let (true, Some(leader)) = (open, &self.leader) else {
            self.leave_nothing();
            return Ok(());
        };
        if self.handover.is_none() {
            match Handover::begin(&leader.meeting, leader.is_worker) {
                Ok(handover) => self.handover = Some(handover),
                Err(error) => self.warning.raise(&error),
            }
        }
        let left = self.left()?;
        if let Some(handover) = &self.handover {
            handover.leave(left);
        }
        self.left_at = self.epoch();
        Ok(())
    }

    /// Returns what workers get. Called once in a session of the evaluator outside: the tickets of
    /// a worker that is on its way must not change.
    fn left(&mut self) -> Result<Left, Failure> {
        let life = match &mut self.transport {
            Transport::Inline(inline) => {
                let mut session = Vec::new();
                inline.connection.export_session(&mut session)?;
                return Ok(Left::Session(session.into()));
            }
            Transport::Isolated(isolated) => isolated.life()?,
            Transport::None => return Ok(Left::Nothing),
        };
        let tickets =
            self.ask(
                &Request::Session(SessionRequest::Tickets),
                |response| match response {
                    Response::Tickets(mut secret) => {
                        Some(Tickets::new(Secret::from_bytes(&mut secret)))
                    }
                    _ => None,
                },
            )?;
        Ok(Left::Evaluator(Door {
            socket: self.outside.clone().unwrap_or_default(),
            database: self.database,
            role: self.role,
            tickets,
            life,
        }))
    }

    /// Returns, once, why parallel workers get no session.
    pub(crate) fn warning(&mut self) -> Option<&CStr> {
        self.warning.take()
    }

    fn leave_nothing(&mut self) {
        self.left_at = None;
        if let Some(handover) = &self.handover {
            handover.leave(Left::Nothing);
        }
    }

    #[inline]
    pub(crate) fn compare(
        &mut self,
        left: &[u8],
        right: &[u8],
        locale: Collation<'_>,
    ) -> Result<Ordering, Failure> {
        if let Transport::Inline(inline) = &mut self.transport {
            Inline::room(left.len().saturating_add(right.len()))?;
            let collation = inline.collation(locale)?;
            return Ok(inline.connection.compare(left, right, collation)?);
        }
        let request = Request::Comparison(ComparisonRequest::Compare {
            collation: locale,
            left,
            right,
        });
        self.ask(&request, |response| match response {
            Response::Order(order) => Some(order),
            _ => None,
        })
    }

    pub(crate) fn hash(&mut self, seed: u64, cell: &[u8]) -> Result<u64, Failure> {
        if let Transport::Inline(inline) = &mut self.transport {
            Inline::room(cell.len())?;
            return Ok(inline.connection.hash(seed, cell)?);
        }
        self.ask(
            &Request::Comparison(ComparisonRequest::Hash { seed, cell }),
            hash,
        )
    }

    pub(crate) fn order_prefix(&mut self, cell: &[u8]) -> Result<u64, Failure> {
        if let Transport::Inline(inline) = &mut self.transport {
            Inline::room(cell.len())?;
            return Ok(inline.connection.order_prefix(cell)?);
        }
        self.ask(
            &Request::Comparison(ComparisonRequest::OrderPrefix(cell)),
            hash,
        )
    }

    /// Makes a request that is answered by a cell.
    pub(crate) fn cell(&mut self, request: &Request<'_>) -> Result<&[u8], Failure> {
        match self.cell_or_null(request)? {
            Some(cell) => Ok(cell),
            None => Err(Refusal::MalformedRequest.into()),
        }
    }

    /// Makes a request that is answered by a cell or by nothing.
    pub(crate) fn cell_or_null(&mut self, request: &Request<'_>) -> Result<Option<&[u8]>, Failure> {
        self.send(request)?;
        match understand(&self.response)? {
            Response::Cell(cell) => Ok(Some(cell)),
            Response::Null => Ok(None),
            _ => Err(Refusal::MalformedRequest.into()),
        }
    }

    /// Makes a request that is answered by bytes that are no cell.
    pub(crate) fn bytes(&mut self, request: &Request<'_>) -> Result<&[u8], Failure> {
        self.send(request)?;
        match understand(&self.response)? {
            Response::Bytes(bytes) => Ok(bytes),
            _ => Err(Refusal::MalformedRequest.into()),
        }
    }

    /// Makes a request that is answered by tokens, or by none that are told.
    pub(crate) fn tokens(&mut self, request: &Request<'_>) -> Result<Option<&[u8]>, Failure> {
        self.send(request)?;
        match understand(&self.response)? {
            Response::Tokens(tokens) => Ok(Some(tokens)),
            Response::Null => Ok(None),
            _ => Err(Refusal::MalformedRequest.into()),
        }
    }

    /// Makes a request that is answered by an answer about each of many cells.
    pub(crate) fn each(&mut self, request: &Request<'_>) -> Result<Items<'_>, Failure> {
        self.send(request)?;
        match understand(&self.response)? {
            Response::Each(answers) => Ok(answers),
            _ => Err(Refusal::MalformedRequest.into()),
        }
    }

    /// Makes a request that is answered by findings, [`MAX_FINDINGS`] at most.
    pub(crate) fn findings(&mut self, request: &Request<'_>) -> Result<Items<'_>, Failure> {
        self.send(request)?;
        match understand(&self.response)? {
            Response::Findings(found) if found.len() <= MAX_FINDINGS as usize => Ok(found),
            _ => Err(Refusal::MalformedRequest.into()),
        }
    }

    /// Makes a request that is answered by the number of a state, and returns C's number of it.
    pub(crate) fn state(&mut self, request: &Request<'_>) -> Result<u64, Failure> {
        let made = self.ask(request, number)?;
        Ok(self.states.outer(made)?)
    }

    /// Ends a state, later if the last call was given up: its transaction is aborted then, and no
    /// other call can be given up.
    pub(crate) fn drop_state(&mut self, outer: u64) {
        // The session may have ended, and the state with it.
        let Ok(state) = self.states.inner(outer) else {
            return;
        };
        match self.gave_up {
            true => self.dropped.push(state),
            false => drop(self.done(&Request::Aggregate(AggregateRequest::Drop(state)))),
        }
    }

    pub(crate) fn done(&mut self, request: &Request<'_>) -> Result<(), Failure> {
        self.ask(request, |response| {
            matches!(response, Response::Done).then_some(())
        })
    }

    /// Makes a request, and returns what `read` copies out of its answer.
    pub(crate) fn ask<T>(
        &mut self,
        request: &Request<'_>,
        read: impl FnOnce(Response<'_>) -> Option<T>,
    ) -> Result<T, Failure> {
        self.send(request)?;
        let answer = understand(&self.response)?;
        read(answer).ok_or_else(|| Refusal::MalformedRequest.into())
    }

    fn send(&mut self, request: &Request<'_>) -> Result<(), Failure> {
        while let Some(state) = self.dropped.pop() {
            self.send_now(&Request::Aggregate(AggregateRequest::Drop(state)))?;
        }
        self.send_now(request)
    }

    fn send_now(&mut self, request: &Request<'_>) -> Result<(), Failure> {
        self.request.clear();
        shrink(&mut self.response);
        let len = request.encoded_len();
        self.transport.room(len)?;
        self.request.reserve_exact(len);
        request.encode(&mut self.request);
        self.requests += u64::from(matches!(self.transport, Transport::Isolated(_)));
        let called = self.transport.call(&self.request, &mut self.response);
        self.gave_up = called.is_err();
        shrink(&mut self.request);
        called
    }
}

/// Returns rows in requests of at most so many bytes, one request at least, without longer rows.
fn portions(rows: &[Vec<u8>], most: usize) -> Vec<Vec<&[u8]>> {
    let mut portions = vec![Vec::new()];
    let mut room = most;
    for row in rows.iter().filter(|row| row.len() <= most) {
        if row.len() > room {
            portions.push(Vec::new());
            room = most;
        }
        room -= row.len();
        let last = portions.last_mut();
        last.expect("there is one at first").push(row.as_slice());
    }
    portions
}

/// Returns the answer, or why there is none.
fn understand(response: &[u8]) -> Result<Response<'_>, Failure> {
    match Response::parse(response) {
        Ok(Response::Refused(report)) => Err(report.into()),
        Ok(response) => Ok(response),
        Err(_) => Err(Refusal::MalformedRequest.into()),
    }
}

fn number(response: Response<'_>) -> Option<u64> {
    match response {
        Response::Number(number) => Some(number),
        _ => None,
    }
}

fn hash(response: Response<'_>) -> Option<u64> {
    match response {
        Response::Hash(hash) => Some(hash),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_not_copied_and_what_is_large_does_not_stay() {
        let mut shell = Shell::new();
        let refused = shell.message(&vec![0; MAX_MESSAGE + 1]).err();
        assert_eq!(
            refused.map(|failure| failure.code),
            Some(Refusal::TooLarge.code())
        );
        assert_eq!(shell.request.capacity(), 0);
        let cell = vec![0; 2 << 20];
        let compare = Request::Comparison(ComparisonRequest::Compare {
            collation: Collation::C,
            left: &cell,
            right: &cell,
        });
        assert!(shell.done(&compare).is_err());
        assert_eq!(shell.request.capacity(), 0);
    }

    extern "C" fn nobody(_: std::ffi::c_int) -> std::ffi::c_int {
        0
    }

    #[test]
    fn a_session_whose_workers_cannot_be_waited_for_says_why_once() {
        let this = i32::try_from(std::process::id()).expect("a process id");
        let meeting = || Meeting::new(&[6; 32], 1, this);
        let taken = meeting().listen().expect("a socket");
        let mut shell = Shell::new();
        shell.leader = Some(Leader {
            meeting: meeting(),
            is_worker: nobody,
        });
        assert!(shell.leave(true).is_ok() && shell.handover.is_none());
        let warned = shell.warning().map(CStr::to_string_lossy);
        assert!(warned.is_some_and(|text| text.contains("in use")));
        assert!(shell.leave(true).is_ok() && shell.warning().is_none());
        drop(taken);
        assert!(shell.leave(true).is_ok() && shell.handover.is_some());
    }

    #[test]
    fn rows_go_in_portions_and_one_that_is_too_long_keeps_none_of_the_others() {
        let rows = [40, 101, 60, 1, 100, 99].map(|len| vec![0; len]);
        let lengths = |rows: &[Vec<u8>]| -> Vec<Vec<usize>> {
            let portions = portions(rows, 100);
            let each = |portion: &Vec<&[u8]>| portion.iter().map(|row| row.len()).collect();
            portions.iter().map(each).collect()
        };
        let expected = [vec![40, 60], vec![1], vec![100], vec![99]];
        assert_eq!(lengths(&rows), expected);
        assert_eq!(lengths(&[]), [vec![]]);
    }
}
