//! When a round begins and in which order it runs; pure. The driver asks, and does what it hears.

use std::time::Duration;

use fastrand::Rng;

/// The defaults of a recipe, for what the command line does not say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Defaults {
    /// Rounds.
    pub rounds: u32,
    /// Rounds that one set of clusters serves: 1, unless making a set takes long.
    pub rounds_per_set: u32,
    /// The key lengths of the sealed variants, in bits.
    pub key_lengths: &'static [u16],
}

/// How long to go on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// So many rounds; with `until_ci` at least.
    pub rounds: u32,
    /// Rounds that one set of clusters serves, before another is made.
    pub rounds_per_set: u32,
    /// Go on until every interval reaches no further than that to either side.
    pub until_ci: Option<f64>,
    /// Begin no round that would probably end after it.
    pub time_limit: Option<Duration>,
}

/// The next step of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// One more round, on this set of clusters.
    Round {
        /// The number of the set, counted from 0.
        set: u32,
    },
    /// All is done.
    Enough,
    /// The time limit comes first.
    OutOfTime,
}

impl Plan {
    /// The defaults, unless it is said how many rounds there shall be and how many sets share them.
    pub fn new(defaults: Defaults, rounds: Option<u32>, sets: Option<u32>) -> Self {
        let rounds = rounds.unwrap_or(defaults.rounds);
        let shared = sets.map(|sets| rounds.div_ceil(sets.max(1)));
        Self {
            rounds,
            rounds_per_set: shared.unwrap_or(defaults.rounds_per_set).max(1),
            until_ci: None,
            time_limit: None,
        }
    }

    /// Returns the step after `done` rounds in `elapsed`, when the widest interval reaches that
    /// far.
    pub fn next(&self, done: u32, widest: Option<f64>, elapsed: Duration) -> Next {
        if done >= self.rounds && self.is_narrow(widest) {
            return Next::Enough;
        }
        let a_round = elapsed.checked_div(done).unwrap_or_default();
        match self.time_limit {
            Some(limit) if elapsed + a_round > limit => Next::OutOfTime,
            _ => Next::Round {
                set: done / self.rounds_per_set,
            },
        }
    }

    /// How many rounds it will probably be: an interval narrows with the root of their number.
    pub fn expected(&self, done: u32, widest: Option<f64>) -> u32 {
        let needed = match (self.until_ci, widest) {
            (Some(goal), Some(width)) if width > goal => {
                let times = (width / goal).powi(2).min(1000.0);
                (f64::from(done) * times).ceil()
            }
            _ => 0.0,
        };
        // A number of rounds, at most 1000 times one.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let needed = needed as u32;
        self.rounds.max(needed).max(done)
    }

    fn is_narrow(&self, widest: Option<f64>) -> bool {
        match self.until_ci {
            Some(goal) => widest.is_some_and(|width| width <= goal),
            None => true,
        }
    }
}

/// The order of one round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Which case, by its place in the report.
    pub case: usize,
    /// Its contenders, by their places.
    pub contenders: Vec<usize>,
    /// The seed of the loads' own randomness, which is the same for all of them.
    pub seed: u64,
}

/// A random order of `cases`, and for each of them one of `contenders`.
pub fn round(random: &mut Rng, cases: usize, contenders: usize) -> Vec<Turn> {
    let order_of_cases = order(random, cases);
    let turn = |case| Turn {
        case,
        contenders: order(random, contenders),
        seed: random.u64(..1 << 31),
    };
    order_of_cases.into_iter().map(turn).collect()
}

/// A random order of so many, which a seed repeats.
pub fn order(random: &mut Rng, number: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..number).collect();
    random.shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        rounds: 6,
        rounds_per_set: 3,
        until_ci: None,
        time_limit: None,
    };
    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn sets_share_the_rounds() {
        let defaults = Defaults {
            rounds: 6,
            rounds_per_set: 1,
            key_lengths: &[],
        };
        let of = |rounds, sets| {
            let plan = Plan::new(defaults, rounds, sets);
            (plan.rounds, plan.rounds_per_set)
        };
        assert_eq!(of(None, None), (6, 1));
        assert_eq!(of(Some(7), None), (7, 1));
        assert_eq!(of(Some(7), Some(2)), (7, 4));
        assert_eq!(of(None, Some(7)), (6, 1));
        let sets: Vec<_> = (0..7).map(|done| PLAN.next(done, None, S(0))).collect();
        let round = |set| Next::Round { set };
        let expected = [0, 0, 0, 1, 1, 1].map(round);
        assert_eq!(sets[..6], expected);
        assert_eq!(sets[6], Next::Enough);
    }

    #[test]
    fn it_goes_on_until_the_interval_is_narrow() {
        let plan = Plan {
            until_ci: Some(0.005),
            ..PLAN
        };
        assert_eq!(plan.next(5, Some(0.001), S(9)), Next::Round { set: 1 });
        assert_eq!(plan.next(6, Some(0.005), S(9)), Next::Enough);
        assert_eq!(plan.next(6, Some(0.006), S(9)), Next::Round { set: 2 });
        assert_eq!(plan.next(6, None, S(9)), Next::Round { set: 2 });
        assert_eq!(plan.expected(6, Some(0.01)), 24);
        assert_eq!(plan.expected(6, Some(0.001)), 6);
        assert_eq!(plan.expected(0, None), 6);
    }

    #[test]
    fn no_round_begins_that_would_end_too_late() {
        let plan = Plan {
            time_limit: Some(S(100)),
            ..PLAN
        };
        assert_eq!(plan.next(4, None, S(80)), Next::Round { set: 1 });
        assert_eq!(plan.next(4, None, S(81)), Next::OutOfTime);
        assert_eq!(plan.next(6, None, S(200)), Next::Enough);
        assert_eq!(plan.next(0, None, S(10)), Next::Round { set: 0 });
    }

    #[test]
    fn a_round_runs_everything_once_in_an_order_that_a_seed_repeats() {
        let of = |seed| round(&mut Rng::with_seed(seed), 3, 4);
        let turns = of(1);
        let mut cases: Vec<_> = turns.iter().map(|turn| turn.case).collect();
        cases.sort_unstable();
        assert_eq!(cases, [0, 1, 2]);
        for turn in &turns {
            let mut contenders = turn.contenders.clone();
            contenders.sort_unstable();
            assert_eq!(contenders, [0, 1, 2, 3]);
        }
        assert_eq!(turns, of(1));
        assert!((2..20).any(|seed| of(seed) != turns));
    }
}
