//! Signals as a stream of numbers.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::Signal as Number;
use tokio::signal::unix::{signal, Signal, SignalKind};

/// Signals that are noted from now on, and no longer do what they do by default.
pub struct Signals(Vec<(Number, Signal)>);

impl Signals {
    /// Begins to note these signals.
    pub fn of(numbers: &[Number]) -> io::Result<Self> {
        let noted = numbers.iter().map(|number| {
            let stream = signal(SignalKind::from_raw(*number as i32))?;
            Ok((*number, stream))
        });
        Ok(Self(noted.collect::<io::Result<_>>()?))
    }

    /// Waits for the next of them.
    pub async fn next(&mut self) -> Number {
        poll_fn(|context| {
            for (number, stream) in &mut self.0 {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}
