//! The regular expression that a connection matched last, as it was compiled: the texts of many
//! rows are matched with one, and to compile it takes longer than to match.
//!
//! The pattern is wiped when another takes its place, or the session ends; the compiled
//! form is only freed.

use pgseal_evaluator_proto::Refusal;
use pgseal_value::{Collate, Reading, Regex, Value, ValueError};
use zeroize::Zeroizing;

use super::roles::Room;
use super::CollationId;

/// The pattern of a connection.
#[derive(Default)]
pub(super) struct Patterns(Option<Compiled>);

struct Compiled {
    pattern: Zeroizing<String>,
    wanted: (Reading, CollationId),
    /// A pattern that is none is not looked at again for the next row, either.
    regex: Result<Regex, ValueError>,
    /// The memory of a large one.
    _room: Room,
}

impl Patterns {
    /// Forgets the pattern.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// Returns a pattern to match with, by the letters of `rules`. A large one takes of `room`.
    pub(super) fn get(
        &mut self,
        pattern: &Value,
        wanted: (Reading, CollationId),
        rules: &dyn Collate,
        room: Room,
    ) -> Result<&Regex, Refusal> {
        let text = pgseal_value::text_of(pattern)?;
        let is_kept = |kept: &Compiled| kept.wanted == wanted && *kept.pattern == text;
        if !self.0.as_ref().is_some_and(is_kept) {
            // What is large goes before another one comes.
            self.0 = None;
            self.0 = Some(Compiled::new(text, pattern, wanted, rules, room)?);
        }
        let kept = self.0.as_ref().expect("it was put there");
        kept.regex.as_ref().map_err(|error| (*error).into())
    }
}

impl Compiled {
    fn new(
        text: &str,
        pattern: &Value,
        wanted: (Reading, CollationId),
        rules: &dyn Collate,
        mut room: Room,
    ) -> Result<Self, Refusal> {
        let large = || room.fit(Regex::MAX_BYTES);
        let regex = match Regex::new(pattern, wanted.0, rules, large) {
            Ok(regex) => Ok(regex),
            Err(Refusal::Value(error)) => Err(error),
            // There may be room the next time.
            Err(refusal) => return Err(refusal),
        };
        Ok(Self {
            pattern: Zeroizing::new(text.to_owned()),
            wanted,
            regex,
            _room: room,
        })
    }
}
