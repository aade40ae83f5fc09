//! What each database role has of the process: connections, memory, and room in the audit log.
//!
//! The backend says which role it serves. Of connections and of memory a role gets more while it
//! then has no more than is free: alone it gets half of all, and a role that has none finds some as
//! long as any is free. Of the log each has a burst and a rate: what a role does is written as long
//! as it has some of that left; then it opens no sessions, and what is counted waits. Nothing is
//! left out.
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
/// Roles that are remembered beside those that have something.
const MOST_IDLE: usize = 4096;
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
}

impl Roles {
    /// Nobody yet, and so many connections and bytes of memory for all.
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

    /// One connection more of this role.
    pub fn enter(&self, role: Role, now: u64) -> Result<(), Refusal> {
        let mut shares = self.shares();
        let free = self.connections.saturating_sub(shares.connections);
        if shares.of.len() > MOST_IDLE {
            shares.of.retain(|_, share| !share.is_idle(now));
        }
        let share = shares.of.entry(role).or_insert_with(|| Share::new(now));
        if !may_have(share.connections, 1, free) || self.logs && share.left(now) <= 0 {
            return Err(Refusal::RoleShare);
        }
        share.connections += 1;
        shares.connections += 1;
        Ok(())
    }

    /// One less.
    pub fn leave(&self, role: Role) {
        let mut shares = self.shares();
        if let Some(share) = shares.of.get_mut(&role) {
            share.connections -= 1;
            shares.connections -= 1;
        }
    }

    /// So many bytes more of this role, which has a connection.
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

    /// Whether this role may do what has a record of its own.
    pub fn may_do(&self, role: Role, now: u64) -> bool {
        !self.logs || self.left(role, now) > 0
    }

    /// Whether what is counted is written: it leaves half for what has a record of its own.
    pub fn may_count(&self, role: Role, now: u64) -> bool {
        !self.logs || self.left(role, now) > BURST / 2
    }

    fn left(&self, role: Role, now: u64) -> i64 {
        let mut shares = self.shares();
        let share = shares.of.get_mut(&role);
        share.map_or(0, |share| share.left(now))
    }

    /// So many records were written for this role.
    pub fn logged(&self, role: Role, records: usize) {
        let bytes = i64::try_from(records)
            .unwrap_or(i64::MAX)
            .saturating_mul(RECORD);
        if let Some(share) = self.shares().of.get_mut(&role) {
            share.left = share.left.saturating_sub(bytes);
        }
    }
}

/// Memory that something takes of a role's share, as long as it lives.
#[derive(Default)]
pub struct Room {
    /// Whose; nobody's, who has no role.
    of: Option<(Arc<Roles>, Role)>,
    taken: usize,
}

impl Room {
    /// None yet of this role's.
    pub fn new(roles: &Arc<Roles>, role: Option<Role>) -> Self {
        Self {
            of: role.map(|role| (Arc::clone(roles), role)),
            taken: 0,
        }
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
        (0..).take_while(|_| roles.enter(role, 0).is_ok()).count()
    }

    #[test]
    fn a_role_gets_half_of_what_others_leave_and_another_finds_a_place() {
        let roles = Roles::new(1000, 0, false);
        assert_eq!(entered(&roles, 1), 500);
        assert_eq!([2, 3, 4].map(|role| entered(&roles, role)), [250, 125, 63]);
        assert!(roles.enter(5, 0).is_ok());
        assert_eq!(roles.enter(1, 0), Err(Refusal::RoleShare));
        (0..400).for_each(|_| roles.leave(1));
        assert!(entered(&roles, 2) > 0 && roles.enter(1, 0).is_ok());
        let one = Roles::new(1, 0, false);
        assert_eq!((entered(&one, 1), entered(&one, 2)), (1, 0));
    }

    /// Takes memory by the megabyte until that is refused.
    fn filled(roles: &Arc<Roles>, role: Role) -> Vec<Room> {
        assert!(roles.enter(role, 0).is_ok());
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
        assert!(roles.enter(4, 0).is_ok());
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
        assert!(roles.enter(1, 0).is_ok());
        let mut room = Room::new(roles, Some(1));
        assert!(room.fit(bytes).is_ok());
        room
    }

    #[test]
    fn a_role_that_fills_the_log_waits_and_the_others_do_not() {
        let roles = Roles::new(1000, 0, true);
        assert!([1, 2].iter().all(|role| roles.enter(*role, 100).is_ok()));
        let burst = usize::try_from(BURST / RECORD).expect("a number");
        roles.logged(1, burst / 2 + 1);
        assert!(roles.may_do(1, 100) && !roles.may_count(1, 100));
        roles.logged(1, burst);
        assert!(!roles.may_do(1, 100) && roles.enter(1, 100).is_err());
        assert!(roles.may_do(2, 100) && roles.may_count(2, 100));
        // What it wrote too much takes as long as it takes.
        let later = 100 + u64::try_from(BURST / 2 / RATE).expect("a number") + 2;
        assert!(!roles.may_do(1, 101) && roles.may_do(1, later) && roles.enter(1, later).is_ok());
        assert!(!roles.may_count(1, later) && roles.may_count(1, later + 1000));
        // A clock that goes back gives nothing.
        assert!(roles.may_do(1, 0));
        let none = Roles::new(1000, 0, false);
        assert!(none.may_do(7, 0) && none.may_count(7, 0));
    }

    #[test]
    fn roles_that_are_gone_are_forgotten() {
        let roles = Roles::new(10, 0, true);
        for role in 0..10_000 {
            assert!(roles.enter(role, 0).is_ok());
            roles.leave(role);
        }
        assert!(roles.shares().of.len() <= MOST_IDLE + 1);
    }
}
