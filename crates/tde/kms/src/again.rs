//! Requests that are sent again: with pauses that grow and are never in step with those of other
//! machines, and bounded in time.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::KmsError;

/// The time within which a request and all that it is tried again must end. It is below the limit
/// of the program that runs this one, so that the service's own error is seen.
pub const WITHIN: Duration = Duration::from_secs(25);
/// The time within which one try must end.
pub const ONE_TRY: Duration = Duration::from_secs(10);
/// The pause before the second try; it doubles, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Asks until the answer is none of those that a moment may change, or until another try would not
/// end within this time.
pub fn ask<T>(
    within: Duration,
    once: impl Fn() -> Result<T, KmsError>,
    is_temporary: impl Fn(&T) -> bool,
) -> Result<T, KmsError> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let found = once();
        let again = match &found {
            Ok(answer) => is_temporary(answer),
            Err(error) => matches!(error, KmsError::Unreachable { .. }),
        };
        if !again || start.elapsed() + pause + ONE_TRY > within {
            return found;
        }
        thread::sleep(jittered(pause)?);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// Returns half to all of a pause, so that the servers of a rack do not ask in step.
fn jittered(pause: Duration) -> Result<Duration, KmsError> {
    let random = getrandom::u32().map_err(KmsError::Random)?;
    Ok(pause / 2 + (pause / 2).mul_f64(f64::from(random) / f64::from(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn unreachable() -> KmsError {
        let (service, why) = (String::new(), String::new());
        KmsError::Unreachable { service, why }
    }

    /// Asks a service that is away for so many tries; returns how often it was asked, and whether
    /// it answered.
    fn asked(within: Duration, away: u32) -> (u32, bool) {
        let tries = Cell::new(0);
        let once = || {
            tries.set(tries.get() + 1);
            match tries.get() > away {
                true => Ok(()),
                false => Err(unreachable()),
            }
        };
        let answered = ask(within, once, |()| false).is_ok();
        (tries.get(), answered)
    }

    #[test]
    fn it_is_asked_again_while_there_is_time_for_a_try() {
        assert_eq!(asked(WITHIN, 0), (1, true));
        assert_eq!(asked(WITHIN, 2), (3, true));
        assert_eq!(asked(Duration::ZERO, 1), (1, false));
        let one_pause = ONE_TRY + FIRST_PAUSE * 2;
        assert_eq!(asked(one_pause, 9), (2, false));
    }

    #[test]
    fn a_refusal_is_final() {
        let refused = ask(
            WITHIN,
            || Err::<(), _>(KmsError::Redirect(String::new())),
            |()| true,
        );
        assert!(matches!(refused, Err(KmsError::Redirect(_))));
    }

    #[test]
    fn pauses_differ() {
        let pauses: Vec<_> = (0..20)
            .map(|_| jittered(FIRST_PAUSE).expect("numbers"))
            .collect();
        assert!(pauses
            .iter()
            .all(|pause| (FIRST_PAUSE / 2..=FIRST_PAUSE).contains(pause)));
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }
}
