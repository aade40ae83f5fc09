//! Functions of text as steps of programs.
//!
//! A result may be longer than what it is made of, by bytes that all results of a request have
//! together: memory is asked for before a request is answered, by the length of the request.

use pgseal_cell::grant::Operation;
use pgseal_evaluator_proto::{Collation, PlainText, Refusal, TextArgument, TextStep};
use pgseal_value::{Collate, Value, ValueError};

use super::cells::Side;
use super::expressions::{Made, Operand, Stack};
use super::permit::{Guarded, Origin, Permit};
use super::Connection;

/// The bytes by which results may be longer than what they are made of.
pub(super) struct Growth(usize);

impl Growth {
    /// Returns the bytes of one request.
    pub(super) fn of_request() -> Self {
        Self(64 << 10)
    }

    /// Takes the bytes of a result that is made of so many.
    fn take(&mut self, result: usize, made_of: usize) -> Result<(), Refusal> {
        let more = result.saturating_sub(made_of);
        self.0 = self.0.checked_sub(more).ok_or(Refusal::TooLarge)?;
        Ok(())
    }
}

/// A text beside the one that a function is of.
enum Other {
    /// The caller's.
    Plain(String),
    /// One that was opened or made here.
    Value(Guarded, Origin),
}

impl Other {
    fn origin(&self) -> Option<Origin> {
        match self {
            Self::Plain(_) => None,
            Self::Value(_, origin) => Some(*origin),
        }
    }

    fn read(&self, permit: &Permit) -> Result<&str, ValueError> {
        match self {
            Self::Plain(text) => Ok(text),
            Self::Value(value, _) => pgseal_value::text_of(value.read(permit)),
        }
    }
}

impl Connection {
    /// A function of text; None is NULL.
    pub(super) fn text_step(
        &mut self,
        step: TextStep<'_>,
        stack: &mut Stack<'_>,
    ) -> Result<Option<Made>, Refusal> {
        match step {
            TextStep::Lower(collation) => self.cased(collation, stack, pgseal_value::lower),
            TextStep::Upper(collation) => self.cased(collation, stack, pgseal_value::upper),
            TextStep::Initcap(collation) => self.cased(collation, stack, pgseal_value::initcap),
            TextStep::Repeat(count) => self.grown(
                stack,
                |text| pgseal_value::repeated_len(text, count),
                |text| pgseal_value::repeat(text, count),
            ),
            TextStep::Pad { end, len, fill } => {
                let fill = fill.map_or_else(|| " ".to_owned(), PlainText::text);
                self.grown(
                    stack,
                    |text| pgseal_value::padded_len(text, len, &fill),
                    |text| pgseal_value::pad(text, end, len, &fill),
                )
            }
            TextStep::Trim {
                ends,
                characters: Some(characters),
            } => self.of_texts([characters], stack, |text, others, _| {
                Ok(pgseal_value::trim(text, ends, others[0])?)
            }),
            TextStep::Similar(escape) => {
                let escape = TextArgument::Plain(escape);
                self.of_texts([escape], stack, |pattern, others, growth| {
                    let made = pgseal_value::similar_to_escape(pattern, others[0])?;
                    let (result, made_of) = (&made, pattern);
                    let [result, made_of] = [result, made_of].map(pgseal_value::text_of);
                    growth.take(result?.len(), made_of?.len())?;
                    Ok(made)
                })
            }
            TextStep::Position => {
                self.of_texts([TextArgument::Operand], stack, |text, others, _| {
                    Ok(Value::Int4(pgseal_value::position(text, others[0])?))
                })
            }
            TextStep::Replace { from, to } => self.of_texts([from, to], stack, replaced),
            TextStep::SplitPart { separator, field } => {
                self.of_texts([separator], stack, |text, others, _| {
                    Ok(pgseal_value::split_part(text, others[0], field)?)
                })
            }
            _ => self.take_one(Operation::Text, stack, |text| of_one(step, text).map(Some)),
        }
    }

    fn cased(
        &mut self,
        collation: Collation<'_>,
        stack: &mut Stack<'_>,
        change: impl FnOnce(&Value, &dyn Collate) -> Result<Value, ValueError>,
    ) -> Result<Option<Made>, Refusal> {
        let rules = self.rules(collation)?;
        self.take_one(Operation::Text, stack, |text| {
            change(text, &*rules).map(Some)
        })
    }

    /// A function that makes a longer text of one, of as many bytes as `len` says.
    fn grown(
        &mut self,
        stack: &mut Stack<'_>,
        len: impl FnOnce(&Value) -> Result<usize, ValueError>,
        make: impl FnOnce(&Value) -> Result<Value, ValueError>,
    ) -> Result<Option<Made>, Refusal> {
        let mut growth = std::mem::replace(&mut self.growth, Growth(0));
        let made = self.take_one(Operation::Text, stack, |text| {
            growth.take(len(text)?, pgseal_value::text_of(text)?.len())?;
            Ok::<_, Refusal>(Some(make(text)?))
        });
        self.growth = growth;
        made
    }

    /// A function of a text and others, which are asked for as if they were patterns of LIKE.
    fn of_texts<const COUNT: usize>(
        &mut self,
        arguments: [TextArgument<'_>; COUNT],
        stack: &mut Stack<'_>,
        compute: impl FnOnce(&Value, &[&str], &mut Growth) -> Result<Value, Refusal>,
    ) -> Result<Option<Made>, Refusal> {
        let is_operand = |argument: &&TextArgument<'_>| **argument == TextArgument::Operand;
        let count = 1 + arguments.iter().filter(is_operand).count();
        let taken = stack.split_off(stack.len().saturating_sub(count));
        let taken: Option<Vec<Operand<'_>>> = taken.into_iter().collect();
        let mut taken = taken.unwrap_or_default().into_iter();
        let Some(first) = taken.next() else {
            return Ok(None);
        };
        let mut others = Vec::with_capacity(COUNT);
        for argument in arguments {
            others.push(match argument {
                TextArgument::Plain(text) => Other::Plain(text.text()),
                TextArgument::Operand => match taken.next() {
                    Some(operand) => self.other(&operand)?,
                    None => return Ok(None),
                },
            });
        }
        self.searched(&first, &others, compute).map(Some)
    }

    /// Opens a text beside another one.
    fn other(&mut self, operand: &Operand<'_>) -> Result<Other, Refusal> {
        let cells = &mut self.cells;
        let at = operand.look_up(cells, &self.access.view, Side::Right, None)?;
        let value = operand.value(cells, at).duplicate();
        Ok(Other::Value(value, operand.origin(cells, at)))
    }

    fn searched(
        &mut self,
        first: &Operand<'_>,
        others: &[Other],
        compute: impl FnOnce(&Value, &[&str], &mut Growth) -> Result<Value, Refusal>,
    ) -> Result<Made, Refusal> {
        let cells = &mut self.cells;
        let at = first.look_up(cells, &self.access.view, Side::Left, None)?;
        let mut result = first.origin(cells, at);
        let mut origins = vec![result];
        origins.extend(others.iter().filter_map(Other::origin));
        let has_plain = origins.len() <= others.len();
        let permit = self.access.may_search(&origins, has_plain)?;
        for origin in &origins[1..] {
            result.key = self.access.result_key(result, Some(*origin))?;
        }
        let texts: Result<Vec<&str>, ValueError> =
            others.iter().map(|other| other.read(&permit)).collect();
        let text = first.value(cells, at).read(&permit);
        let value = compute(text, &texts?, &mut self.growth)?;
        Ok(Made::new(value, result.key))
    }
}

/// The functions of one text alone.
fn of_one(step: TextStep<'_>, text: &Value) -> Result<Value, ValueError> {
    match step {
        TextStep::Substring { from, len } => pgseal_value::substring(text, from, len),
        TextStep::Left(count) => pgseal_value::left(text, count),
        TextStep::Right(count) => pgseal_value::right(text, count),
        TextStep::Reverse => pgseal_value::reverse(text),
        TextStep::Trim { ends, .. } => pgseal_value::trim(text, ends, " "),
        _ => Err(ValueError::NoFunction(text.ty())),
    }
}

fn replaced(text: &Value, others: &[&str], growth: &mut Growth) -> Result<Value, Refusal> {
    let (from, to) = (others[0], others[1]);
    let made_of = pgseal_value::text_of(text)?.len() + from.len() + to.len();
    growth.take(pgseal_value::replaced_len(text, from, to)?, made_of)?;
    Ok(pgseal_value::replace(text, from, to)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_bytes_together() {
        let mut growth = Growth::of_request();
        let all = growth.0;
        assert_eq!(growth.take(5, 7), Ok(()));
        assert_eq!(growth.take(all, 1), Ok(()));
        assert_eq!(growth.take(3, 1), Err(Refusal::TooLarge));
        assert_eq!(growth.take(2, 1), Ok(()));
        assert_eq!(growth.take(2, 1), Err(Refusal::TooLarge));
    }
}
