//! Numbers of aggregates' states, as C knows them.
//!
//! An evaluator numbers the states of each connection from 1 on. C may hold numbers of a connection
//! that is gone: a cursor's, beside an evaluator that was started again. So C's numbers go on where
//! those of the connection before ended, and none ever names another's state. 0 is no state.

use pgseal_evaluator_proto::Refusal;

/// The relation between C's numbers and those of the present connection.
#[derive(Default)]
pub(crate) struct States {
    /// C's last number of the connections before.
    before: u64,
    last: u64,
}

impl States {
    /// Begins the numbers of a new connection.
    pub(crate) fn begin(&mut self) {
        self.before = self.last;
    }

    /// Returns C's number of a state that the evaluator made.
    pub(crate) fn outer(&mut self, number: u64) -> Result<u64, Refusal> {
        let outer = self.before.checked_add(number);
        let outer = outer.ok_or(Refusal::MalformedRequest)?;
        self.last = self.last.max(outer);
        Ok(outer)
    }

    /// Returns the evaluator's number of a state that C names.
    pub(crate) fn inner(&self, outer: u64) -> Result<u64, Refusal> {
        match outer.checked_sub(self.before) {
            _ if outer == 0 => Ok(0),
            Some(number) if number > 0 => Ok(number),
            _ => Err(Refusal::UnknownState),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_nothing_once_its_connection_is_gone() {
        let mut states = States::default();
        states.begin();
        assert_eq!([states.outer(1), states.outer(2)], [Ok(1), Ok(2)]);
        assert_eq!([states.inner(0), states.inner(2)], [Ok(0), Ok(2)]);
        states.begin();
        assert_eq!(states.inner(0), Ok(0));
        for gone in [1, 2] {
            assert_eq!(states.inner(gone), Err(Refusal::UnknownState));
        }
        assert_eq!(states.outer(1), Ok(3));
        assert_eq!(states.inner(3), Ok(1));
        assert_eq!(states.outer(u64::MAX), Err(Refusal::MalformedRequest));
    }
}
