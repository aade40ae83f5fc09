//! What each database role has of the process: connections, and room in the audit log.
//!
//! The backend says which role it serves. A role gets one connection more while it then has no more
//! than are free: alone it gets half of all, and a role that has none finds one as long as any is
//! free. Of the log each has a burst and a rate: what a role does is written as long as it has some
//! of that left; then it opens no sessions, and what is counted waits. Nothing is left out.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pgseal_evaluator_proto::Refusal;

/// A role by its number in the database cluster.
pub type Role = u32;

/// About what a record takes in the log.
const RECORD: i64 = 320;
/// Bytes of the log that a role may fill at once, and in a second.
const BURST: i64 = 16 << 20;
const RATE: i64 = 16 << 10;
/// Roles that are remembered beside those that have connections.
const MOST_IDLE: usize = 4096;

/// All roles.
pub struct Roles {
    shares: Mutex<Shares>,
    most: usize,
    /// There is a log.
    logs: bool,
}

#[derive(Default)]
struct Shares {
    of: HashMap<Role, Share>,
    connections: usize,
}

struct Share {
    connections: usize,
    /// Bytes of the log that are left, as of this second.
    left: i64,
    at: u64,
}

impl Share {
    fn new(now: u64) -> Self {
        Self {
            connections: 0,
            left: BURST,
            at: now,
        }
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
    /// Nobody yet, and room for so many connections.
    pub fn new(most: usize, logs: bool) -> Self {
        Self {
            shares: Mutex::default(),
            most,
            logs,
        }
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One connection more of this role.
    pub fn enter(&self, role: Role, now: u64) -> Result<(), Refusal> {
        let mut shares = self.shares();
        let free = self.most.saturating_sub(shares.connections);
        if shares.of.len() > MOST_IDLE {
            shares
                .of
                .retain(|_, share| share.connections > 0 || share.left(now) < BURST);
        }
        let share = shares.of.entry(role).or_insert_with(|| Share::new(now));
        if share.connections >= free || self.logs && share.left(now) <= 0 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(roles: &Roles, role: Role) -> usize {
        (0..).take_while(|_| roles.enter(role, 0).is_ok()).count()
    }

    #[test]
    fn a_role_gets_half_of_what_others_leave_and_another_finds_a_place() {
        let roles = Roles::new(1000, false);
        assert_eq!(entered(&roles, 1), 500);
        assert_eq!([2, 3, 4].map(|role| entered(&roles, role)), [250, 125, 63]);
        assert!(roles.enter(5, 0).is_ok());
        assert_eq!(roles.enter(1, 0), Err(Refusal::RoleShare));
        (0..400).for_each(|_| roles.leave(1));
        assert!(entered(&roles, 2) > 0 && roles.enter(1, 0).is_ok());
        let one = Roles::new(1, false);
        assert_eq!((entered(&one, 1), entered(&one, 2)), (1, 0));
    }

    #[test]
    fn a_role_that_fills_the_log_waits_and_the_others_do_not() {
        let roles = Roles::new(1000, true);
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
        let none = Roles::new(1000, false);
        assert!(none.may_do(7, 0) && none.may_count(7, 0));
    }

    #[test]
    fn roles_that_are_gone_are_forgotten() {
        let roles = Roles::new(10, true);
        for role in 0..10_000 {
            assert!(roles.enter(role, 0).is_ok());
            roles.leave(role);
        }
        assert!(roles.shares().of.len() <= MOST_IDLE + 1);
    }
}
