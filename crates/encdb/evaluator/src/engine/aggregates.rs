//! Aggregates: states that stay here while rows come in, so that one cell leaves at the end.
//!
//! A state has a handle of its connection and ends with it, with its session, or when it is
//! dropped. No handle is given twice: one that is gone never names another's state. min and max
//! keep the cell that leads, and give it back as it came: they need the right to compare, as
//! sorting does. sum and avg need a grant, and their result is derived. Which right it is the state
//! says, never the request: one that names another kind or collation finds no state.

mod inputs;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use pgseal_cell::grant::Operation;
use pgseal_cell::{DataKeyId, Mode};
use pgseal_evaluator_proto::{Collation, Input, Refusal};
use pgseal_value::{Aggregate, AggregateKind, Collate, Value, C};

use super::access::Access;
use super::cache::Opened;
use super::counts::Asked;
use super::permit::{Guarded, Origin, Permit};
use super::roles::Room;
use super::view::View;
use super::{CollationId, Connection};

const LABEL: &[u8] = b"pgseal/aggregate/3\0";
/// Bytes of an origin in a state that is sealed: whether it was derived, and the key.
const ORIGIN: usize = 5;

/// The states of a connection, by handles from 1 on.
pub(super) struct States {
    by_handle: BTreeMap<u64, State>,
    /// The handle that was given last, in any session.
    last: u64,
    most: usize,
    /// The sum of [`State::bytes`] of all states.
    bytes: usize,
    /// The bytes that all states take, of the role's share.
    room: Room,
}

/// The most that sums and leading cells take in a connection: PostgreSQL, where the rows come from,
/// sees no more of a state than its handle, and keeps no account of it.
const MAX_BYTES: usize = 64 << 20;

/// The bytes that a state takes beside [`State::bytes`]: itself, and its part of the map.
const EACH: usize = size_of::<State>() + 48;

/// The origins whose use was allowed last, of one cell twice, and the permit.
type Allowed = ([Origin; 2], Permit);

struct State {
    kind: AggregateKind,
    sum: Sum,
    /// The origins of the cells that were taken in, each kind once. The result is sealed under the
    /// first one's key.
    origins: Vec<Origin>,
    collation: CollationId,
}

enum Sum {
    /// sum, avg, count
    Whole(Aggregate),
    /// min or max: the leading cell and what it holds
    Extreme(Vec<u8>, Guarded),
}

impl State {
    /// The bytes that it takes beside itself: the keys that it met, and a sum's places, or a
    /// leading cell twice, as it came and opened.
    fn bytes(&self) -> usize {
        let sum = match &self.sum {
            Sum::Whole(sum) => sum.bytes(),
            Sum::Extreme(cell, _) => 2 * cell.len(),
        };
        sum + size_of_val(&self.origins[..])
    }
}

impl States {
    pub(super) fn new(most: usize) -> Self {
        Self {
            by_handle: BTreeMap::new(),
            last: 0,
            most,
            bytes: 0,
            room: Room::default(),
        }
    }

    /// States are of this role's share from now on; there is none yet.
    pub(super) fn count_with(&mut self, room: Room) {
        self.room = room;
    }

    pub(super) fn clear(&mut self) {
        self.by_handle.clear();
        self.bytes = 0;
        self.settle();
    }

    fn add(&mut self, state: State) -> Result<u64, Refusal> {
        if self.by_handle.len() >= self.most {
            return Err(Refusal::TooMany);
        }
        self.last += 1;
        self.put_back(self.last, state)?;
        Ok(self.last)
    }

    fn get(&self, handle: u64) -> Result<&State, Refusal> {
        self.by_handle.get(&handle).ok_or(Refusal::UnknownState)
    }

    fn take(&mut self, handle: u64) -> Result<State, Refusal> {
        let state = self.by_handle.remove(&handle);
        let state = state.ok_or(Refusal::UnknownState)?;
        self.bytes -= state.bytes();
        Ok(state)
    }

    /// Keeps a state under the handle that it was taken by, if there is room for it.
    fn put_back(&mut self, handle: u64, state: State) -> Result<(), Refusal> {
        if self.bytes + state.bytes() > MAX_BYTES {
            return Err(Refusal::TooMany);
        }
        let states = self.by_handle.len() + 1;
        self.room.fit(self.bytes + state.bytes() + states * EACH)?;
        self.bytes += state.bytes();
        self.by_handle.insert(handle, state);
        Ok(())
    }

    /// Gives back what states that have ended took of the role's share.
    pub(super) fn settle(&mut self) {
        // It is no more than there was.
        let _ = self.room.fit(self.bytes + self.by_handle.len() * EACH);
    }
}

impl Connection {
    /// Takes cells into a state, 0 for a new one, and gives its handle. A step that is refused ends
    /// the state, unless a key is missing: anyone who brings it may try again.
    pub fn aggregate_step<'c>(
        &mut self,
        state: u64,
        kind: AggregateKind,
        collation: CollationId,
        inputs: impl IntoIterator<Item = impl Into<Input<'c>>, IntoIter: Clone>,
    ) -> Result<u64, Refusal> {
        let inputs = inputs.into_iter().map(Into::into);
        let stepped = self.stepped(state, kind, collation, inputs)?;
        let stepped = stepped.ok_or(Refusal::MalformedRequest)?;
        if state == 0 {
            return self.states.add(stepped);
        }
        self.states.put_back(state, stepped)?;
        Ok(state)
    }

    /// The state of this handle, 0 for a new one, which is nobody's any more, with these values;
    /// none if there was no state and all values are NULL.
    fn stepped<'c>(
        &mut self,
        state: u64,
        kind: AggregateKind,
        collation: CollationId,
        inputs: impl Iterator<Item = Input<'c>> + Clone,
    ) -> Result<Option<State>, Refusal> {
        self.begin_operation()?;
        let mut state = match state {
            0 => None,
            handle => {
                self.check_keys(inputs.clone())?;
                let state = self.states.take(handle)?;
                // Where no value comes none is compared, and a collation need not be named.
                let first = inputs.clone().next();
                let collation = first.map_or(state.collation, |_| collation);
                Some(state.asked_as(kind, collation)?)
            }
        };
        self.keep_same(inputs.clone());
        // A scan would push all else out of the cache.
        self.cells.are_passing(true);
        let taken = self.take_inputs(&mut state, (kind, collation), inputs);
        self.cells.are_passing(false);
        taken.map(|()| state)
    }

    /// `asked`: whose use was allowed in this request, so that a batch is one use of a grant.
    #[inline]
    fn step(
        &mut self,
        state: &mut Option<State>,
        kind: AggregateKind,
        collation: CollationId,
        cell: &[u8],
        asked: &mut Option<Allowed>,
    ) -> Result<(), Refusal> {
        if kind.takes_pairs() {
            return Err(Refusal::MalformedRequest);
        }
        // A scan would push all else out of the cache: what is not there is not put there.
        let anew;
        let opened = match self.cells.find(cell) {
            Some(at) => self.cells.at(at),
            None => {
                anew = self.cells.decrypt(&self.access.view, cell)?;
                &anew
            }
        };
        let origin = opened.origin();
        let permit = self.access.permit_of(state, kind, [origin; 2], asked)?;
        if is_extreme(kind) {
            self.access.counts.cell(Asked::Ranked, origin.key);
        }
        let rules = self.collations.rules(collation);
        match state {
            Some(state) => state.take_in(rules, cell, opened, permit),
            None => {
                *state = Some(State::begin(kind, collation, cell, opened, permit)?);
                Ok(())
            }
        }
    }

    /// Takes one state into another and ends it.
    pub fn aggregate_combine(&mut self, into: u64, from: u64) -> Result<(), Refusal> {
        self.begin_operation()?;
        let from = self.states.take(from)?;
        let state = self.states.take(into)?;
        let mut state = state.asked_as(from.kind, from.collation)?;
        let met = [&state.origins[..], &from.origins].concat();
        let permit = self.access.may_aggregate(state.kind, &met)?;
        let rules = self.collations.rules(state.collation);
        match (&mut state.sum, from.sum) {
            (Sum::Whole(sum), Sum::Whole(other)) => sum.combine(&other, rules)?,
            (Sum::Extreme(cell, value), Sum::Extreme(new_cell, new)) => {
                if is_better(new.read(&permit), value.read(&permit), state.kind, rules)? {
                    (*cell, *value) = (new_cell, new);
                }
            }
            _ => return Err(Refusal::UnknownState),
        }
        from.origins.iter().for_each(|met| state.meet(*met));
        self.states.put_back(into, state)
    }

    /// Appends the result's cell; false if there is none. The state stays.
    pub fn aggregate_finish(&mut self, handle: u64, into: &mut Vec<u8>) -> Result<bool, Refusal> {
        self.begin_operation()?;
        let state = self.states.take(handle)?;
        let there = self.finish(&state, into);
        self.states.put_back(handle, state)?;
        there
    }

    /// Takes the last cells into a state, 0 for one that they make, and appends the result's cell.
    /// False if there is none. The state ends, also by a refusal, except that of a missing key.
    pub fn aggregate_end<'c>(
        &mut self,
        state: u64,
        kind: AggregateKind,
        collation: CollationId,
        inputs: impl IntoIterator<Item = impl Into<Input<'c>>, IntoIter: Clone>,
        into: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
        let inputs = inputs.into_iter().map(Into::into);
        self.end_of(state, (kind, collation), inputs, into)
    }

    /// Ends a state as [`Connection::aggregate_end`] does.
    pub(super) fn end_of<'c>(
        &mut self,
        state: u64,
        (kind, collation): (AggregateKind, CollationId),
        inputs: impl Iterator<Item = Input<'c>> + Clone,
        into: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
        match self.stepped(state, kind, collation, inputs)? {
            Some(state) => self.finish(&state, into),
            None => Ok(false),
        }
    }

    fn finish(&mut self, state: &State, into: &mut Vec<u8>) -> Result<bool, Refusal> {
        // Before anything is computed: errors of values tell of them.
        let _permit = self.access.may_aggregate(state.kind, &state.origins)?;
        let value = match &state.sum {
            Sum::Extreme(cell, _) => {
                into.extend_from_slice(cell);
                return Ok(true);
            }
            Sum::Whole(sum) => sum.finish()?,
        };
        let Some(value) = value else {
            return Ok(false);
        };
        let (view, key) = (&self.access.view, state.origins[0].key);
        let value = Guarded::new(value);
        self.cells.seal(view, &value, key, Mode::Derived, into)?;
        Ok(true)
    }

    /// Ends a state.
    pub fn aggregate_drop(&mut self, handle: u64) -> Result<(), Refusal> {
        self.states.take(handle).map(drop)
    }

    /// Appends a state, sealed for another process of this session. The state stays.
    pub fn aggregate_export(&mut self, handle: u64, into: &mut Vec<u8>) -> Result<(), Refusal> {
        self.begin_operation()?;
        let (session, _) = self.access.session()?;
        let state = self.states.get(handle)?;
        let (view, collation) = (&self.access.view, self.collations.name(state.collation));
        let write = |into: &mut Vec<u8>| state.write(view, collation, into);
        self.cells.seal_bytes(&session.states, LABEL, write, into)
    }

    /// A state that a process of this session exported.
    pub fn aggregate_import(&mut self, sealed: &[u8]) -> Result<u64, Refusal> {
        self.begin_operation()?;
        let (session, _) = self.access.session()?;
        let (nonce, rest) = sealed.split_first_chunk().ok_or(Refusal::UnknownState)?;
        let (tag, text) = rest.split_first_chunk().ok_or(Refusal::UnknownState)?;
        let mut plain = zeroize::Zeroizing::new(vec![0; text.len()]);
        let opened = session.states.open(nonce, LABEL, text, tag, &mut plain);
        opened.map_err(|_| Refusal::UnknownState)?;
        let state = self.read_state(&plain)?;
        self.states.add(state)
    }

    /// The state of bytes that this session sealed.
    fn read_state(&mut self, plain: &[u8]) -> Result<State, Refusal> {
        let unknown = Refusal::UnknownState;
        let (&[kind, len], rest) = plain.split_first_chunk().ok_or(unknown)?;
        let kind = AggregateKind::from_byte(kind).ok_or(unknown)?;
        let (name, rest) = rest.split_at_checked(usize::from(len)).ok_or(unknown)?;
        let name = std::str::from_utf8(name).map_err(|_| unknown)?;
        let collation = match name {
            "" => CollationId::C,
            name => self.collation(Collation::Libc(name))?,
        };
        let (count, rest) = rest.split_first_chunk().ok_or(unknown)?;
        let len = usize::from(u16::from_be_bytes(*count)) * ORIGIN;
        let (origins, sum) = rest.split_at_checked(len).ok_or(unknown)?;
        let origins = origins.chunks_exact(ORIGIN);
        let origins: Vec<_> = origins
            .map(|origin| Origin::read(&self.access.view, origin))
            .collect::<Result<_, _>>()?;
        if origins.is_empty() {
            return Err(unknown);
        }
        Ok(State {
            kind,
            sum: Sum::read(kind, sum, |cell| {
                self.cells.decrypt(&self.access.view, cell)
            })?,
            origins,
            collation,
        })
    }
}

impl Access {
    /// Asks for all that meets in a state. A sum is sealed with the first one's key, an extreme may
    /// be any of them.
    fn may_aggregate(
        &mut self,
        kind: AggregateKind,
        origins: &[Origin],
    ) -> Result<Permit, Refusal> {
        match is_extreme(kind) {
            true => self.may_compare(origins),
            false => self.may_sum(origins),
        }
    }

    /// Asks whether a value may come into a state, or a pair of two. `asked` is what was allowed
    /// before in this request, so that a batch is one use of a grant.
    fn permit_of<'p>(
        &mut self,
        state: &Option<State>,
        kind: AggregateKind,
        origins: [Origin; 2],
        asked: &'p mut Option<Allowed>,
    ) -> Result<&'p Permit, Refusal> {
        if !matches!(asked, Some((before, _)) if *before == origins) {
            let met = state.as_ref().map_or(&[][..], |state| &state.origins);
            let mut met = met.to_vec();
            for origin in origins {
                if !met.contains(&origin) {
                    met.push(origin);
                }
            }
            *asked = Some((origins, self.may_aggregate(kind, &met)?));
        }
        match asked {
            Some((_, permit)) => Ok(permit),
            None => Err(Refusal::MalformedRequest),
        }
    }

    fn may_sum(&mut self, origins: &[Origin]) -> Result<Permit, Refusal> {
        let permit = self.may(Operation::Aggregate, origins)?;
        let flows = |origin: &Origin| self.may_flow(origin.key, origins[0].key);
        origins.iter().try_for_each(flows)?;
        Ok(permit)
    }
}

impl Origin {
    /// Reads what [`State::write`] wrote.
    fn read(view: &View, bytes: &[u8]) -> Result<Self, Refusal> {
        let (&[derived, id @ ..], _) = bytes
            .split_first_chunk::<ORIGIN>()
            .ok_or(Refusal::UnknownState)?;
        let id = DataKeyId(u32::from_be_bytes(id));
        let key = view.place(|key| key.id == id);
        Ok(Self {
            key: key.ok_or(Refusal::KeyNotLoaded)?,
            derived: derived != 0,
        })
    }
}

impl State {
    /// A state that has taken one cell in.
    fn begin(
        kind: AggregateKind,
        collation: CollationId,
        cell: &[u8],
        opened: &Opened,
        permit: &Permit,
    ) -> Result<Self, Refusal> {
        let sum = if is_extreme(kind) {
            Sum::Extreme(cell.to_vec(), opened.value.duplicate())
        } else {
            let value = opened.value.read(permit);
            let mut sum = Aggregate::new(kind, value.ty())?;
            sum.step(value, &C)?;
            Sum::Whole(sum)
        };
        Ok(Self {
            kind,
            sum,
            origins: vec![opened.origin()],
            collation,
        })
    }

    /// This state, if it is what a request takes it for.
    fn asked_as(self, kind: AggregateKind, collation: CollationId) -> Result<Self, Refusal> {
        let is_asked = (self.kind, self.collation) == (kind, collation);
        is_asked.then_some(self).ok_or(Refusal::UnknownState)
    }

    /// Takes one more cell in.
    #[inline]
    fn take_in(
        &mut self,
        rules: &dyn Collate,
        cell: &[u8],
        opened: &Opened,
        permit: &Permit,
    ) -> Result<(), Refusal> {
        let value = opened.value.read(permit);
        match &mut self.sum {
            Sum::Whole(sum) => sum.step(value, rules)?,
            Sum::Extreme(leading, leader) => {
                if is_better(value, leader.read(permit), self.kind, rules)? {
                    (*leading, *leader) = (cell.to_vec(), opened.value.duplicate());
                }
            }
        }
        self.meet(opened.origin());
        Ok(())
    }

    /// Appends what [`Connection::read_state`] reads: `kind u8 | collation, its length before it in
    /// a byte | origins u16 | (derived u8 | key u32)… | sum`, integers big-endian.
    fn write(&self, view: &View, collation: &str, into: &mut Vec<u8>) -> Result<(), Refusal> {
        let len = u8::try_from(collation.len()).map_err(|_| Refusal::TooLarge)?;
        into.extend_from_slice(&[self.kind as u8, len]);
        into.extend_from_slice(collation.as_bytes());
        let count = u16::try_from(self.origins.len()).map_err(|_| Refusal::TooLarge)?;
        into.extend_from_slice(&count.to_be_bytes());
        for origin in &self.origins {
            into.push(u8::from(origin.derived));
            into.extend_from_slice(&view.key(origin.key).id.0.to_be_bytes());
        }
        self.sum.write(into);
        Ok(())
    }

    #[inline]
    fn meet(&mut self, origin: Origin) {
        if !self.origins.contains(&origin) {
            self.origins.push(origin);
        }
    }
}

impl Sum {
    fn write(&self, into: &mut Vec<u8>) {
        match self {
            Self::Whole(sum) => sum.encode(into),
            Self::Extreme(cell, _) => into.extend_from_slice(cell),
        }
    }

    /// Reads what [`Sum::write`] wrote. `open` opens a leading cell.
    fn read(
        kind: AggregateKind,
        bytes: &[u8],
        open: impl FnOnce(&[u8]) -> Result<Opened, Refusal>,
    ) -> Result<Self, Refusal> {
        if is_extreme(kind) {
            return Ok(Self::Extreme(bytes.to_vec(), open(bytes)?.value));
        }
        let sum = Aggregate::decode(bytes)?;
        let is_of_kind = sum.kind() == kind;
        is_of_kind
            .then_some(Self::Whole(sum))
            .ok_or(Refusal::UnknownState)
    }
}

fn is_extreme(kind: AggregateKind) -> bool {
    matches!(kind, AggregateKind::Min | AggregateKind::Max)
}

/// Whether a value takes the leader's place. Of equal ones PostgreSQL keeps the later where they
/// may look different: 1.0 and 1.00, -0 and 0, 1 mon and 30 days.
fn is_better(
    value: &Value,
    leader: &Value,
    kind: AggregateKind,
    rules: &dyn Collate,
) -> Result<bool, Refusal> {
    if value.ty() != leader.ty() {
        return Err(Refusal::WrongType);
    }
    let better = match kind {
        AggregateKind::Min => Ordering::Less,
        _ => Ordering::Greater,
    };
    let order = pgseal_value::compare(value, leader, rules)?;
    let differs = matches!(
        value,
        Value::Float4(_) | Value::Float8(_) | Value::Decimal(_) | Value::Interval(_)
    );
    Ok(order == better || order == Ordering::Equal && differs)
}
