//! The backend's side of a ring.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::adaptive::Adaptive;
use super::side::Head;
use super::{
    AtomicU64, Ring, RingError, Wait, CLIENT_CPU, CLIENT_SLEEPS, LOOK, SERVER_SLEEPS, SPARE_CORE,
};

/// Calls an evaluator, one request after the other.
pub struct RingClient<M, W> {
    memory: M,
    waiter: W,
    number: u32,
    pace: Adaptive,
}

impl<M: AsRef<[AtomicU64]>, W: Wait> RingClient<M, W> {
    /// The client of a ring, which has no other.
    ///
    /// # Panics
    /// If the memory is not [a ring](super::is_ring).
    pub fn new(memory: M, waiter: W) -> Self {
        assert!(super::is_ring(memory.as_ref()), "a ring of this version");
        let number = Ring::new(memory.as_ref()).request.published().number;
        Self {
            memory,
            waiter,
            number,
            pace: Adaptive::new(),
        }
    }

    /// Posts a request and waits for its answer, which takes the place of what `response` held.
    /// `goes_on` is asked from time to time, while the client sleeps, whether it should.
    #[inline]
    pub fn call(
        &mut self,
        request: &[u8],
        response: &mut Vec<u8>,
        goes_on: impl FnMut() -> bool,
    ) -> Result<(), RingError> {
        let ring = Ring::new(self.memory.as_ref());
        let number = self.number.wrapping_add(1);
        let core = self.waiter.core().map_or(0, |core| u64::from(core) + 1);
        ring.front[CLIENT_CPU].store(core, Relaxed);
        ring.request.publish(number, request)?;
        self.number = number;
        if ring.front[SERVER_SLEEPS].load(SeqCst) != 0 {
            self.waiter.wake(ring.request.head);
        }
        let answered = || Some(ring.response.published()).filter(|head| head.number == number);
        let spun = match ring.front[SPARE_CORE].load(Relaxed) {
            0 => answered(),
            _ => self.pace.spin(answered),
        };
        let head = match spun {
            Some(head) => head,
            None => {
                let head = sleep(&self.waiter, ring, number, goes_on)?;
                self.pace.woke();
                head
            }
        };
        ring.response.copy(head, response)
    }
}

fn sleep(
    waiter: &impl Wait,
    ring: Ring<'_>,
    number: u32,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Head, RingError> {
    let flag = &ring.front[CLIENT_SLEEPS];
    loop {
        flag.store(1, SeqCst);
        let head = ring.response.published_in_order();
        if head.number == number {
            flag.store(0, Relaxed);
            return Ok(head);
        }
        waiter.wait(ring.response.head, head.number, LOOK);
        if ring.response.published().number != number && !goes_on() {
            flag.store(0, Relaxed);
            return Err(RingError::Gone);
        }
    }
}
