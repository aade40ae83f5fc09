//! The share of each database role in the process: connections, memory, and room in the audit log.
//!
//! The backend says which role it serves. Of connections and of memory a role gets more while it
//! then has no more than is free: alone it gets half of all, and a role that has none finds some as
//! long as any is free. Of the log each has a burst and a rate, in three parts: what is counted is
//! written in the first, and waits then; what has a record of its own comes in the first two. The
//! last part is for revocations, for what ends, and for a session a second, so that an owner takes
//! grants back whatever else the role does. Nothing is left out.
//!
//! Memory is what lives across requests, and what large requests take while they are answered. All
//! else a connection has a bound for, and is counted with the connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pgseal_evaluator_proto::Refusal;

/// A role by its number in the database cluster.
pub type Role = u32;

/// About what a record takes in the log.
const RECORD: i64 = 320;
/// Bytes of the log that a role may fill at once, and in a second.
const BURST: i64 = 16 << 20;
const RATE: i64 = 16 << 10;
/// The bytes of the burst that counts leave free, and those that all records leave free that may
/// wait.
const COUNTS_LEAVE: i64 = BURST / 2;
const LAST: i64 = BURST / 8;
/// Roles that are remembered beside those that have something.
const MAX_IDLE: usize = 4096;
/// Memory is taken in such pieces, and so much is held on to: it is not asked for at each row.
const PIECE: usize = 16 << 10;
const HELD: usize = 16 * PIECE;

/// All roles.
pub struct Roles {
    shares: Mutex<Shares>,
    connections: usize,
    memory: usize,
    /// There is a log.
    logs: bool,
}

#[derive(Default)]
struct Shares {
    of: HashMap<Role, Share>,
    connections: usize,
    memory: usize,
}

struct Share {
    connections: usize,
    memory: usize,
    /// Bytes of the log that are left, as of this second.
    left: i64,
    at: u64,
    /// When a session was opened of the last part.
    opened: u64,
}

/// A deed that has a record of its own in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A session is opened.
    Open,
    /// A grant or a key comes, or a parallel worker without a session.
    Add,
    /// Grants are taken back.
    Revoke,
}

/// Whether a role that has so much gets more, where this is free: it then has no more than is free.
fn may_have(has: usize, more: usize, free: usize) -> bool {
    // What is indivisible may be one more.
    let left = free.saturating_sub(more.saturating_sub(1));
    has.saturating_add(more) <= left
}

impl Share {
    fn new(now: u64) -> Self {
        Self {
            connections: 0,
            memory: 0,
            left: BURST,
            at: now,
            opened: 0,
        }
    }

    fn is_idle(&mut self, now: u64) -> bool {
        self.connections == 0 && self.memory == 0 && self.left(now) == BURST
    }

    fn left(&mut self, now: u64) -> i64 {
        let seconds = i64::try_from(now.saturating_sub(self.at)).unwrap_or(i64::MAX);
        let gained = seconds.saturating_mul(RATE);
        self.left = self.left.saturating_add(gained).min(BURST);
        self.at = self.at.max(now);
        self.left
    }

    fn may(&mut self, deed: Deed, now: u64) -> bool {
        let left = self.left(now);
        match deed {
            _ if left > LAST => true,
            Deed::Add => false,
            Deed::Revoke => left > 0,
            Deed::Open => left > 0 && std::mem::replace(&mut self.opened, now) < now,
        }
    }
}

impl Roles {
    /// Returns no roles yet, and so many connections and bytes of memory for all.
    pub fn new(connections: usize, memory: usize, logs: bool) -> Self {
        Self {
            shares: Mutex::default(),
            connections,
            memory,
            logs,
        }
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection of this role, for what is then done at least.
    pub fn enter(&self, role: Role, deed: Deed, now: u64) -> Result<(), Refusal> {
        let mut shares = self.shares();
        let free = self.connections.saturating_sub(shares.connections);
        if shares.of.len() > MAX_IDLE {
            shares.of.retain(|_, share| !share.is_idle(now));
        }
        let share = shares.of.entry(role).or_insert_with(|| Share::new(now));
        if !may_have(share.connections, 1, free) || self.logs && !share.may(deed, now) {
            return Err(Refusal::RoleShare);
        }
        share.connections += 1;
        shares.connections += 1;
        Ok(())
    }

    /// Removes a connection of this role.
    pub fn leave(&self, role: Role) {
        let mut shares = self.shares();
        if let Some(share) = shares.of.get_mut(&role) {
            share.connections -= 1;
            shares.connections -= 1;
        }
    }

    /// Takes so many bytes more for this role, which has a connection.
    fn take(&self, role: Role, bytes: usize) -> Result<(), Refusal> {
        let mut shares = self.shares();
        let free = self.memory.saturating_sub(shares.memory);
        let share = shares.of.get_mut(&role).ok_or(Refusal::RoleShare)?;
        if !may_have(share.memory, bytes, free) {
            return Err(Refusal::RoleShare);
        }
        share.memory += bytes;
        shares.memory += bytes;
        Ok(())
    }

    fn give_back(&self, role: Role, bytes: usize) {
        let mut shares = self.shares();
        if let Some(share) = shares.of.get_mut(&role) {
            share.memory -= bytes;
            shares.memory -= bytes;
        }
    }

    /// Whether this role may do this now. Who asks to open a session, opens it.
    pub fn may(&self, role: Role, deed: Deed, now: u64) -> bool {
        !self.logs || self.share(role, |share| share.may(deed, now))
    }

    /// Whether what is counted is written: it leaves half for what has a record of its own.
    pub fn may_count(&self, role: Role, now: u64) -> bool {
        let mut shares = self.shares();
        // A role that is forgotten has written nothing lately.
        let share = shares.of.get_mut(&role);
        !self.logs || share.is_none_or(|share| share.left(now) > COUNTS_LEAVE)
    }

    fn share(&self, role: Role, ask: impl FnOnce(&mut Share) -> bool) -> bool {
        self.shares().of.get_mut(&role).is_some_and(ask)
    }

    /// Counts so many records that were written for this role.
    pub fn logged(&self, role: Role, records: usize) {
        let bytes = i64::try_from(records)
            .unwrap_or(i64::MAX)
            .saturating_mul(RECORD);
        if let Some(share) = self.shares().of.get_mut(&role) {
            share.left = share.left.saturating_sub(bytes);
        }
    }
}

/// The part that one connection has of its role's share, from [`Membership::enter`] until it ends.
pub(super) struct Membership {
    roles: Arc<Roles>,
    role: Option<Role>,
}

impl Membership {
    /// Returns that of a connection that has no role yet.
    pub(super) fn new(roles: &Arc<Roles>) -> Self {
        Self {
            roles: Arc::clone(roles),
            role: None,
        }
    }

    /// Takes a place of this role's share, for what is then done at least.
    ///
    /// # Errors
    ///
    /// [`Refusal::MalformedRequest`] if the connection has a role, [`Refusal::RoleShare`] if this
    /// one has no room.
    pub(super) fn enter(&mut self, role: Role, deed: Deed, now: u64) -> Result<(), Refusal> {
        if self.role.is_some() {
            return Err(Refusal::MalformedRequest);
        }
        self.roles.enter(role, deed, now)?;
        self.role = Some(role);
        Ok(())
    }

    /// The role; None before it is known.
    pub(super) fn role(&self) -> Option<Role> {
        self.role
    }

    /// Returns room of the role's share of the memory, none taken yet.
    pub(super) fn room(&self) -> Room {
        Room::new(&self.roles, self.role)
    }

    /// Whether what the role does is counted in the log now, and not later.
    pub(super) fn may_count(&self, now: u64) -> bool {
        self.role.is_none_or(|role| self.roles.may_count(role, now))
    }

    /// Refused if the role has no room for this in the log.
    pub(super) fn check(&self, deed: Deed, now: u64) -> Result<(), Refusal> {
        let may = self.role.is_none_or(|role| self.roles.may(role, deed, now));
        may.then_some(()).ok_or(Refusal::RoleShare)
    }

    /// Counts so many records that were written for the role.
    pub(super) fn logged(&self, records: usize) {
        if let Some(role) = self.role {
            self.roles.logged(role, records);
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if let Some(role) = self.role {
            self.roles.leave(role);
        }
    }
}

/// Memory that something takes of a role's share, as long as it lives.
#[derive(Default)]
pub struct Room {
    /// The role whose share it is; None without a role.
    of: Option<(Arc<Roles>, Role)>,
    taken: usize,
}

impl Room {
    /// Returns room that has taken nothing yet of this role's share.
    pub fn new(roles: &Arc<Roles>, role: Option<Role>) -> Self {
        Self {
            of: role.map(|role| (Arc::clone(roles), role)),
            taken: 0,
        }
    }

    /// The role whose share it is of.
    pub fn role(&self) -> Option<Role> {
        self.of.as_ref().map(|(_, role)| *role)
    }

    /// Takes what is missing for so many bytes in all, or gives back what is too much for them.
    #[inline]
    pub fn fit(&mut self, bytes: usize) -> Result<(), Refusal> {
        let is_right = match self.taken.checked_sub(bytes) {
            Some(too_much) => too_much == 0 || too_much <= HELD && bytes > 0,
            None => false,
        };
        match &self.of {
            Some((roles, role)) if !is_right => {
                let wanted = bytes.div_ceil(PIECE).saturating_mul(PIECE);
                match wanted.checked_sub(self.taken) {
                    Some(more) => roles.take(*role, more)?,
                    None => roles.give_back(*role, self.taken - wanted),
                }
                self.taken = wanted;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some((roles, role)) = &self.of {
            roles.give_back(*role, self.taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(roles: &Roles, role: Role) -> usize {
        (0..)
            .take_while(|_| roles.enter(role, Deed::Revoke, 0).is_ok())
            .count()
    }

    #[test]
    fn a_role_gets_half_of_what_others_leave_and_another_finds_a_place() {
        let roles = Roles::new(1000, 0, false);
        assert_eq!(entered(&roles, 1), 500);
        assert_eq!([2, 3, 4].map(|role| entered(&roles, role)), [250, 125, 63]);
        assert!(roles.enter(5, Deed::Revoke, 0).is_ok());
        assert_eq!(roles.enter(1, Deed::Revoke, 0), Err(Refusal::RoleShare));
        (0..400).for_each(|_| roles.leave(1));
        assert!(entered(&roles, 2) > 0 && roles.enter(1, Deed::Revoke, 0).is_ok());
        let one = Roles::new(1, 0, false);
        assert_eq!((entered(&one, 1), entered(&one, 2)), (1, 0));
    }

    #[test]
    fn a_connection_enters_once_and_leaves_when_it_ends() {
        let roles = Arc::new(Roles::new(2, 0, false));
        let mut member = Membership::new(&roles);
        assert!(member.role().is_none() && member.may_count(0));
        assert!(member.enter(1, Deed::Revoke, 0).is_ok() && member.role() == Some(1));
        assert_eq!(
            member.enter(2, Deed::Revoke, 0),
            Err(Refusal::MalformedRequest)
        );
        let mut other = Membership::new(&roles);
        assert_eq!(other.enter(1, Deed::Revoke, 0), Err(Refusal::RoleShare));
        drop(member);
        assert!(other.enter(1, Deed::Revoke, 0).is_ok());
        drop(other);
        assert_eq!(roles.shares().connections, 0);
    }

    /// Takes memory by the megabyte until that is refused.
    fn filled(roles: &Arc<Roles>, role: Role) -> Vec<Room> {
        assert!(roles.enter(role, Deed::Revoke, 0).is_ok());
        let more = || {
            let mut room = Room::new(roles, Some(role));
            room.fit(1 << 20).is_ok().then_some(room)
        };
        std::iter::from_fn(more).collect()
    }

    #[test]
    fn a_role_gets_half_of_the_memory_that_others_leave_and_gives_it_back() {
        let roles = Arc::new(Roles::new(1000, 1000 << 20, false));
        let one = filled(&roles, 1);
        let (two, three) = (filled(&roles, 2), filled(&roles, 3));
        assert_eq!([one.len(), two.len(), three.len()], [500, 250, 125]);
        let mut four = Room::new(&roles, Some(4));
        assert_eq!(
            four.fit(1),
            Err(Refusal::RoleShare),
            "who has no connection"
        );
        assert!(roles.enter(4, Deed::Revoke, 0).is_ok());
        assert_eq!(four.fit(63 << 20), Err(Refusal::RoleShare));
        assert!(four.fit(62 << 20).is_ok());
        assert_eq!((roles.shares().memory >> 20, four.taken >> 20), (937, 62));
        // What is a little too much is held on to, and what is nothing is given back.
        assert!(four.fit((62 << 20) - HELD).is_ok() && four.taken == 62 << 20);
        assert!(four.fit(1 << 20).is_ok() && four.taken == 1 << 20);
        assert!(four.fit(0).is_ok() && four.taken == 0);
        drop((one, two, three));
        assert_eq!(roles.shares().memory, 0);
        let mut nobodys = Room::new(&roles, None);
        assert!(nobodys.fit(usize::MAX).is_ok() && roles.shares().memory == 0);
    }

    #[test]
    fn memory_without_an_end_is_there_for_all() {
        let roles = Arc::new(Roles::new(usize::MAX, usize::MAX, false));
        let rooms: Vec<_> = (1..5).map(|_| filled_with(&roles, 1 << 40)).collect();
        assert_eq!(roles.shares().memory, 4 << 40);
        drop(rooms);
    }

    fn filled_with(roles: &Arc<Roles>, bytes: usize) -> Room {
        assert!(roles.enter(1, Deed::Revoke, 0).is_ok());
        let mut room = Room::new(roles, Some(1));
        assert!(room.fit(bytes).is_ok());
        room
    }

    #[test]
    fn a_role_that_fills_the_log_waits_and_the_others_do_not() {
        let roles = Roles::new(1000, 0, true);
        assert!([1, 2]
            .iter()
            .all(|role| roles.enter(*role, Deed::Revoke, 100).is_ok()));
        let may = |role, now| [Deed::Open, Deed::Add].map(|deed| roles.may(role, deed, now));
        let burst = usize::try_from(BURST / RECORD).expect("a number");
        roles.logged(1, burst / 2 + 1);
        assert!(may(1, 100) == [true; 2] && !roles.may_count(1, 100));
        roles.logged(1, burst);
        assert!(may(1, 100) == [false; 2] && roles.enter(1, Deed::Revoke, 100).is_err());
        assert!(may(2, 100) == [true; 2] && roles.may_count(2, 100));
        // What it wrote too much takes as long as it takes.
        let gained = |bytes: i64| 100 + u64::try_from(bytes / RATE).expect("a number") + 2;
        let later = gained(BURST / 2 + LAST);
        assert!(may(1, 101) == [false; 2] && may(1, later) == [true; 2]);
        assert!(roles.enter(1, Deed::Revoke, later).is_ok() && !roles.may_count(1, later));
        assert!(roles.may_count(1, later + 1000));
        // A clock that goes back gives nothing.
        assert!(roles.may(1, Deed::Add, 0));
        let none = Roles::new(1000, 0, false);
        assert!(none.may(7, Deed::Add, 0) && none.may_count(7, 0));
    }

    #[test]
    fn the_last_part_is_for_revocations_and_for_a_session_a_second() {
        let roles = Roles::new(1000, 0, true);
        assert!(roles.enter(1, Deed::Revoke, 100).is_ok());
        roles.logged(
            1,
            usize::try_from((BURST - LAST) / RECORD).expect("a number") + 1,
        );
        assert!(!roles.may(1, Deed::Add, 100) && roles.may(1, Deed::Revoke, 100));
        assert_eq!(
            [100, 100, 101].map(|now| {
                roles.logged(1, 100);
                roles.may(1, Deed::Open, now)
            }),
            [true, false, true]
        );
        roles.logged(1, usize::try_from(LAST / RECORD).expect("a number"));
        assert!(!roles.may(1, Deed::Open, 103) && !roles.may(1, Deed::Revoke, 103));
    }

    #[test]
    fn roles_that_are_gone_are_forgotten() {
        let roles = Roles::new(10, 0, true);
        for role in 0..10_000 {
            assert!(roles.enter(role, Deed::Revoke, 0).is_ok());
            roles.leave(role);
        }
        assert!(roles.shares().of.len() <= MAX_IDLE + 1);
    }
}
