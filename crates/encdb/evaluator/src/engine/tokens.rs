//! Tokens of texts, which an index of words or of trigrams holds in clear, and searches for words.
//!
//! A token is a keyed hash of a part of a text. Anyone who has tokens sees which texts share a
//! part, and how often, so they have grants of their own.

use std::collections::HashSet;

use pgseal_cell::grant::Operation;
use pgseal_cell::TokenKind;
use pgseal_evaluator_proto::{Collation, Parts, Refusal};

use super::access::Access;
use super::counts::Asked;
use super::permit::{Origin, Permit};
use super::Connection;

/// The most tokens of a text, which bounds the memory of an answer.
const MAX_TOKENS: usize = 1 << 16;
/// The tokens of a pattern that are told: more find nothing more, and each is a look-up.
const MAX_OF_PATTERN: usize = 64;

impl Access {
    /// Asks whether the parts of these texts may be told, or looked for in each other.
    pub(super) fn may_take_apart(
        &mut self,
        operation: Operation,
        operands: &[Origin],
    ) -> Result<Permit, Refusal> {
        if self.of_two(operands) {
            return Err(Refusal::TwoOwners);
        }
        let permit = self.may(operation, operands)?;
        match operands.iter().any(|operand| operand.derived) {
            true => self.may(Operation::CompareDerived, operands),
            false => Ok(permit),
        }
    }

    /// Whether an index finds all texts that a pattern matches, and the session may use it. A
    /// session without the grant, or with texts of other owners, matches text by text.
    fn finds_by_index(&self, pattern: Origin) -> bool {
        let rights = self.view.rights(pattern.key);
        self.view.is_of_one_owner(pattern.key)
            && rights.allows(Operation::Trigrams)
            && (!pattern.derived || rights.allows(Operation::CompareDerived))
    }
}

impl Connection {
    /// The tokens of the parts of a text, each once and in ascending order. None if a pattern's are
    /// not told, so that all texts are to be looked at.
    pub fn tokens(&mut self, parts: Parts<'_>, cell: &[u8]) -> Result<Option<Vec<u64>>, Refusal> {
        let (kind, collation) = match parts {
            Parts::Words(collation) => (TokenKind::Word, collation),
            Parts::Trigrams(collation) | Parts::PatternTrigrams(collation) => {
                (TokenKind::Trigram, collation)
            }
        };
        let rules = self.rules(collation)?;
        self.begin_operation()?;
        let at = self.cells.open_one(&self.access.view, cell)?;
        let origin = self.cells.origin(at);
        let is_pattern = matches!(parts, Parts::PatternTrigrams(_));
        if is_pattern && !self.access.finds_by_index(origin) {
            return Ok(None);
        }
        let operation = match kind {
            TokenKind::Word => Operation::Words,
            TokenKind::Trigram => Operation::Trigrams,
        };
        let permit = self.access.may_take_apart(operation, &[origin])?;
        // A token is a hash of a part.
        self.access.counts.cell(Asked::Hashed, origin.key);
        let key = &self.access.view.owner(origin.key).tokens;
        let mut tokens = HashSet::new();
        let visit = |part: &str| {
            if !is_pattern || tokens.len() < MAX_OF_PATTERN {
                tokens.insert(key.token(kind, part));
            }
            match tokens.len() <= MAX_TOKENS {
                true => Ok(()),
                false => Err(Refusal::TooLarge),
            }
        };
        let text = self.cells.read(at, &permit);
        match parts {
            Parts::Words(_) => pgseal_value::each_word(text, &*rules, visit),
            Parts::Trigrams(_) => pgseal_value::each_trigram(text, &*rules, visit),
            Parts::PatternTrigrams(_) => {
                pgseal_value::each_trigram_of_pattern(text, &*rules, visit)
            }
        }?;
        let mut tokens: Vec<u64> = tokens.into_iter().collect();
        tokens.sort_unstable();
        Ok(Some(tokens))
    }

    /// Whether a text has all words of another.
    pub(super) fn has_words(
        &mut self,
        text: &[u8],
        query: &[u8],
        collation: Collation<'_>,
    ) -> Result<bool, Refusal> {
        let rules = self.rules(collation)?;
        self.begin_operation()?;
        let (a, b) = self.cells.open_both(&self.access.view, text, query)?;
        let operands = [self.cells.origin(a), self.cells.origin(b)];
        let permit = self.access.may_take_apart(Operation::Words, &operands)?;
        let (text, query) = (self.cells.read(a, &permit), self.cells.read(b, &permit));
        Ok(pgseal_value::has_words(text, query, &*rules)?)
    }
}
