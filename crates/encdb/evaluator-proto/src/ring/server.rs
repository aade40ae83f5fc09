//! The evaluator's side of a ring.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use super::adaptive::{Adaptive, Member};
use super::side::Head;
use super::{
    AtomicU64, Crowd, Ring, RingError, Wait, CLIENT_CPU, CLIENT_SLEEPS, SERVER_SLEEPS, SPARE_CORE,
};

/// Serves one backend: takes a request, answers it, takes the next.
pub struct RingServer<'c, M, W> {
    memory: M,
    waiter: W,
    crowd: &'c Crowd,
    member: Member,
    number: u32,
    pace: Adaptive,
}

impl<'c, M: AsRef<[AtomicU64]>, W: Wait> RingServer<'c, M, W> {
    /// The server of a ring, which has no other. Its client may have had it for a while, and have
    /// written anything into it: nothing but the size is asked.
    ///
    /// # Panics
    /// If there are not [`WORDS`](super::WORDS) words.
    pub fn new(memory: M, waiter: W, crowd: &'c Crowd) -> Self {
        let number = Ring::new(memory.as_ref()).response.published().number;
        Self {
            memory,
            waiter,
            crowd,
            member: Crowd::member(),
            number,
            pace: Adaptive::new(),
        }
    }

    /// Waits for the next request, which takes the place of what `request` held. `goes_on` is
    /// asked whether it should before it sleeps, after each `look` of sleep, and when
    /// [`wake_server`](super::wake_server) wakes it.
    #[inline]
    pub fn next(
        &mut self,
        request: &mut Vec<u8>,
        look: Duration,
        goes_on: impl FnMut() -> bool,
    ) -> Result<(), RingError> {
        let ring = Ring::new(self.memory.as_ref());
        let number = self.number;
        let posted = || Some(ring.request.published()).filter(|head| head.number != number);
        let spun = if self.crowd.has_room() {
            self.pace.spin(posted)
        } else {
            posted()
        };
        let head = match spun {
            Some(head) => head,
            None => {
                let head = sleep(&self.waiter, ring, number, look, goes_on)?;
                self.pace.woke();
                head
            }
        };
        self.member.asks(self.crowd, spun.is_none());
        self.number = head.number;
        ring.request.copy(head, request)
    }

    /// The core from which the client asked last, as it says, if sharing it is better than to take
    /// another: while not all have one for both sides, and so do not run at once anyway, a switch
    /// on one core is far cheaper than to wake another.
    #[inline]
    pub fn shared_core(&self) -> Option<usize> {
        if self.crowd.has_room() {
            return None;
        }
        let ring = Ring::new(self.memory.as_ref());
        let said = ring.front[CLIENT_CPU].load(Relaxed).checked_sub(1);
        said.and_then(|core| usize::try_from(core).ok())
    }

    /// Answers the request that was taken last.
    #[inline]
    pub fn answer(&mut self, response: &[u8]) -> Result<(), RingError> {
        let ring = Ring::new(self.memory.as_ref());
        let room = u64::from(self.crowd.has_room());
        if ring.front[SPARE_CORE].load(Relaxed) != room {
            ring.front[SPARE_CORE].store(room, Relaxed);
        }
        ring.response.publish(self.number, response)?;
        if ring.front[CLIENT_SLEEPS].load(SeqCst) != 0 {
            self.waiter.wake(ring.response.head);
        }
        Ok(())
    }
}

fn sleep(
    waiter: &impl Wait,
    ring: Ring<'_>,
    number: u32,
    look: Duration,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Head, RingError> {
    let flag = &ring.front[SERVER_SLEEPS];
    loop {
        flag.store(1, SeqCst);
        let head = ring.request.published_in_order();
        if head.number != number {
            flag.store(0, Relaxed);
            return Ok(head);
        }
        // Asked before each sleep: who was told to end while it looked around does not sleep.
        if !goes_on() {
            flag.store(0, Relaxed);
            return Err(RingError::Gone);
        }
        waiter.wait(ring.request.head, number, look);
    }
}
