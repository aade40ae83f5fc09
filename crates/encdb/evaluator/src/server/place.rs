//! Where a connection's thread runs: wherever the kernel likes, or on the core of its client.
//!
//! Client and thread take turns. On two cores each turn wakes another core, which is asleep by then
//! or has to be interrupted; that costs more than most requests. On one core it is a switch. So a
//! thread goes where its client is on a machine whose cores are all in use.

use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;

/// The requests in a row from elsewhere after which a thread follows: to move is dear, too.
const SETTLED: u32 = 4;

/// The place of this thread.
pub struct Place {
    /// Where the kernel let it run at first.
    anywhere: Option<CpuSet>,
    at: Option<usize>,
    /// Requests in a row that would have it elsewhere.
    elsewhere: u32,
}

impl Place {
    /// Anywhere.
    pub fn new() -> Self {
        Self {
            anywhere: sched_getaffinity(OURSELVES).ok(),
            at: None,
            elsewhere: 0,
        }
    }

    /// A request came for which this is the place: a core, or anywhere.
    #[inline]
    pub fn be_at(&mut self, core: Option<usize>) {
        if core == self.at {
            self.elsewhere = 0;
            return;
        }
        self.elsewhere += 1;
        if self.elsewhere >= SETTLED {
            self.elsewhere = 0;
            self.go(core);
        }
    }

    /// A core that this process may not use, or that does not exist, is none.
    #[cold]
    fn go(&mut self, core: Option<usize>) {
        let Some(anywhere) = self.anywhere else {
            return;
        };
        let mut alone = CpuSet::new();
        let only =
            core.filter(|core| anywhere.is_set(*core).unwrap_or(false) && alone.set(*core).is_ok());
        let set = only.map_or(anywhere, |_| alone);
        if sched_setaffinity(OURSELVES, &set).is_ok() {
            self.at = core;
        }
    }
}

/// The thread that calls.
const OURSELVES: Pid = Pid::from_raw(0);
