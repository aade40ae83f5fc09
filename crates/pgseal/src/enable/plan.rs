//! The steps of `pgseal enable` and `pgseal disable`, as a list. Pure: facts in, steps out.
//!
//! Invariants: the steps depend on nothing but what a cluster and its settings are now, so a run
//! that was killed anywhere goes on by a new list; everything that can be done while the server
//! runs is done before it is stopped; every list ends with a server that runs.

use pgseal_convert::Kind;

/// The state of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Plain,
    Sealed,
    /// A conversion was begun, and has not ended.
    Converting(Kind),
}

/// All that the steps depend on.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub state: State,
    /// A server runs, whether sealed or plain.
    pub runs: bool,
    /// A run before has stopped it, and did not come to its start.
    pub owes_start: bool,
    /// The plain cluster has checksums or `wal_log_hints`.
    pub has_hints: bool,
    /// The key gets a passphrase of its own, and that has to be made.
    pub lacks_passphrase: bool,
    /// The server is started by wrappers, which are complete, or with the library.
    pub has_wrappers: bool,
    /// There are wrappers, perhaps not all: a run was killed in the middle.
    pub has_some_wrappers: bool,
    /// Another cluster needs the same wrappers, or new ones shall be sealed.
    pub shares_wrappers: bool,
    /// The server is started with the settings of a sealed cluster: what opens the key, the pin.
    pub has_settings: bool,
    /// It is started with some setting of a sealed cluster.
    pub has_leftovers: bool,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Passphrase,
    Wrappers,
    Stop,
    Checksums,
    Seal,
    Settings,
    Start,
    Check,
    Unseal,
    RemoveSettings,
    RemoveWrappers,
}

/// Returns the steps to a sealed cluster. None: another conversion must end first.
pub fn enable(facts: &Facts) -> Result<Vec<Step>, Kind> {
    let steps = match facts.state {
        State::Converting(Kind::Seal) => vec![
            (Step::Wrappers, !facts.has_wrappers),
            (Step::Seal, true),
            (Step::Settings, true),
            (Step::Start, true),
        ],
        State::Converting(other) => return Err(other),
        State::Plain => vec![
            (Step::Passphrase, facts.lacks_passphrase),
            (Step::Wrappers, !facts.has_wrappers),
            (Step::Stop, facts.runs),
            (Step::Checksums, !facts.has_hints),
            (Step::Seal, true),
            (Step::Settings, true),
            (Step::Start, true),
        ],
        State::Sealed => vec![
            (Step::Wrappers, !facts.has_wrappers),
            (Step::Settings, !facts.has_settings),
            (Step::Start, !facts.runs),
        ],
    };
    let mut steps = due(steps);
    if !steps.is_empty() {
        steps.push(Step::Check);
    }
    Ok(steps)
}

/// Returns the steps back to a plain cluster.
pub fn disable(facts: &Facts) -> Result<Vec<Step>, Kind> {
    let (seals, unseals) = match facts.state {
        State::Plain => (false, false),
        State::Sealed | State::Converting(Kind::Unseal) => (false, true),
        // Half of the files are encrypted: the one way back leads over the end.
        State::Converting(Kind::Seal) => (true, true),
        State::Converting(other) => return Err(other),
    };
    let mut steps = due(vec![
        (Step::Stop, unseals && facts.runs),
        (Step::Seal, seals),
        (Step::Unseal, unseals),
        (Step::RemoveSettings, unseals || facts.has_leftovers),
        (
            Step::RemoveWrappers,
            facts.has_some_wrappers && !facts.shares_wrappers,
        ),
    ]);
    let starts = !facts.runs && (facts.owes_start || !steps.is_empty());
    if unseals || starts {
        steps.push(Step::Start);
    }
    Ok(steps)
}

fn due(steps: Vec<(Step, bool)>) -> Vec<Step> {
    let due = steps.into_iter().filter(|(_, is_due)| *is_due);
    due.map(|(step, _)| step).collect()
}

/// Returns the first and the last step between which no server runs, counted from 1.
pub fn downtime(steps: &[Step], runs: bool) -> Option<(usize, usize)> {
    let number = |wanted| steps.iter().position(|step| *step == wanted);
    let last = number(Step::Start)?;
    let first = match runs {
        true => number(Step::Stop)?,
        false => 0,
    };
    Some((first + 1, last + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Step::*;

    const PLAIN: Facts = Facts {
        state: State::Plain,
        runs: true,
        owes_start: false,
        has_hints: false,
        lacks_passphrase: true,
        has_wrappers: false,
        has_some_wrappers: false,
        shares_wrappers: false,
        has_settings: false,
        has_leftovers: false,
    };
    const SEALED: Facts = Facts {
        state: State::Sealed,
        lacks_passphrase: false,
        has_wrappers: true,
        has_some_wrappers: true,
        has_settings: true,
        has_leftovers: true,
        ..PLAIN
    };

    #[test]
    fn a_fresh_cluster_takes_every_step() {
        let all = [
            Passphrase, Wrappers, Stop, Checksums, Seal, Settings, Start, Check,
        ];
        assert_eq!(enable(&PLAIN), Ok(all.to_vec()));
        assert_eq!(downtime(&all, true), Some((3, 7)));
        assert_eq!(downtime(&all[3..], false), Some((1, 4)));
    }

    #[test]
    fn a_run_goes_on_where_another_was_killed() {
        let after = |change: fn(&mut Facts)| {
            let mut facts = PLAIN;
            facts.lacks_passphrase = false;
            facts.has_wrappers = true;
            facts.runs = false;
            facts.has_hints = true;
            change(&mut facts);
            enable(&facts)
        };
        assert_eq!(after(|_| ()), Ok(vec![Seal, Settings, Start, Check]));
        let half = after(|facts| facts.state = State::Converting(Kind::Seal));
        assert_eq!(half, Ok(vec![Seal, Settings, Start, Check]));
        let sealed = after(|facts| facts.state = State::Sealed);
        assert_eq!(sealed, Ok(vec![Settings, Start, Check]));
        let set = after(|facts| (facts.state, facts.has_settings) = (State::Sealed, true));
        assert_eq!(set, Ok(vec![Start, Check]));
    }

    #[test]
    fn what_is_done_is_not_done_again() {
        assert_eq!(enable(&SEALED), Ok(vec![]));
        assert_eq!(disable(&PLAIN), Ok(vec![]));
        assert_eq!(downtime(&[], true), None);
    }

    #[test]
    fn the_way_back() {
        let back = [Stop, Unseal, RemoveSettings, RemoveWrappers, Start];
        assert_eq!(disable(&SEALED), Ok(back.to_vec()));
        let shared = Facts {
            shares_wrappers: true,
            ..SEALED
        };
        assert_eq!(
            disable(&shared),
            Ok(vec![Stop, Unseal, RemoveSettings, Start])
        );
        let half = Facts {
            state: State::Converting(Kind::Seal),
            runs: false,
            ..SEALED
        };
        assert_eq!(
            disable(&half),
            Ok(vec![Seal, Unseal, RemoveSettings, RemoveWrappers, Start])
        );
        let back_half = Facts {
            state: State::Converting(Kind::Unseal),
            ..half
        };
        assert_eq!(
            disable(&back_half),
            Ok(vec![Unseal, RemoveSettings, RemoveWrappers, Start])
        );
    }

    #[test]
    fn a_plain_cluster_is_cleared_of_what_an_enable_left() {
        let stopped = Facts {
            runs: false,
            has_some_wrappers: true,
            ..PLAIN
        };
        assert_eq!(disable(&stopped), Ok(vec![RemoveWrappers, Start]));
        let running = Facts {
            has_leftovers: true,
            ..PLAIN
        };
        assert_eq!(disable(&running), Ok(vec![RemoveSettings]));
        let owed = Facts {
            runs: false,
            owes_start: true,
            ..PLAIN
        };
        assert_eq!(disable(&owed), Ok(vec![Start]));
    }

    #[test]
    fn other_conversions_end_first() {
        let rekeyed = Facts {
            state: State::Converting(Kind::Rekey),
            ..SEALED
        };
        let unsealed = Facts {
            state: State::Converting(Kind::Unseal),
            ..SEALED
        };
        assert_eq!(enable(&rekeyed), Err(Kind::Rekey));
        assert_eq!(enable(&unsealed), Err(Kind::Unseal));
        assert_eq!(disable(&rekeyed), Err(Kind::Rekey));
    }
}
