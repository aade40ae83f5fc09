//! Reads brackets: characters, ranges, classes, and escapes of both.

use super::class::set_of;
use super::escape::Escape;
use super::translate::Translator;
use super::Error;
use crate::{RegexError, Untranslated};

/// The brackets that a translator is in.
pub(super) struct Inside<'t, 'a> {
    translator: &'t mut Translator<'a>,
    ranges: Vec<(u32, u32)>,
    /// Nothing came yet.
    is_first: bool,
}

/// The next token.
enum Part {
    End,
    Minus,
    Single(u32),
    /// `[.a.]`
    Element(u32),
    Class(Vec<(u32, u32)>),
}

impl<'t, 'a> Inside<'t, 'a> {
    pub(super) fn new(translator: &'t mut Translator<'a>) -> Self {
        Self {
            translator,
            ranges: Vec::new(),
            is_first: true,
        }
    }

    /// Reads up to the closing bracket.
    pub(super) fn read(mut self) -> Result<Vec<(u32, u32)>, Error> {
        let mut part = self.part()?;
        loop {
            let first = match part {
                Part::End => return Ok(self.ranges),
                Part::Minus => return Err(RegexError::Range.into()),
                Part::Class(ranges) => {
                    self.ranges.extend(ranges);
                    part = self.part()?;
                    continue;
                }
                Part::Single(code) | Part::Element(code) => code,
            };
            let is_single = matches!(part, Part::Single(_));
            part = match self.part()? {
                Part::Minus => self.range_from(first)?,
                next => {
                    let alone = match is_single {
                        true => self.translator.letters.single(first),
                        false => self.translator.letters.range(first, first)?,
                    };
                    self.ranges.extend(alone);
                    next
                }
            };
        }
    }

    /// Reads the end of a range, and what follows.
    fn range_from(&mut self, first: u32) -> Result<Part, Error> {
        let last = match self.part()? {
            Part::Single(code) | Part::Element(code) => code,
            Part::Minus => u32::from('-'),
            Part::End | Part::Class(_) => return Err(RegexError::Range.into()),
        };
        let ranges = self.translator.letters.range(first, last)?;
        self.ranges.extend(ranges);
        self.part()
    }

    fn part(&mut self) -> Result<Part, Error> {
        let is_first = std::mem::take(&mut self.is_first);
        let letter = self.translator.rest.next().ok_or(RegexError::Brackets)?;
        Ok(match letter {
            ']' if !is_first => Part::End,
            '-' if !is_first && !self.translator.next_is(|next| next == ']') => Part::Minus,
            '\\' => self.escaped()?,
            '[' if self.translator.eat(".") => Part::Element(self.element('.')?),
            '[' if self.translator.eat("=") => {
                let code = self.element('=')?;
                Part::Class(self.translator.letters.single(code))
            }
            '[' if self.translator.eat(":") => self.class()?,
            '[' if self.translator.rest.as_str().is_empty() => {
                return Err(RegexError::Brackets.into())
            }
            _ => Part::Single(u32::from(letter)),
        })
    }

    fn escaped(&mut self) -> Result<Part, Error> {
        match self.translator.escape()? {
            Escape::Single(code) => Ok(Part::Single(code)),
            Escape::Class(ranges) => Ok(Part::Class(ranges)),
            _ => Err(RegexError::Escape.into()),
        }
    }

    fn class(&mut self) -> Result<Part, Error> {
        let name = self.name(':')?;
        let ranges = self.translator.letters.named(name)?;
        Ok(Part::Class(set_of(ranges, false, false).ranges().to_vec()))
    }

    /// Reads a collating element: a character. PostgreSQL has names of some.
    fn element(&mut self, sign: char) -> Result<u32, Error> {
        let name = self.name(sign)?;
        let mut letters = name.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => Ok(u32::from(letter)),
            (None, _) => Err(RegexError::CollatingElement.into()),
            _ => Err(Untranslated::CollatingElement.into()),
        }
    }

    /// Reads up to the sign and a bracket.
    fn name(&mut self, sign: char) -> Result<&'a str, Error> {
        let rest = self.translator.rest.as_str();
        let end = rest
            .match_indices(sign)
            .find(|(at, _)| rest[at + 1..].starts_with(']'));
        let (end, _) = end.ok_or(RegexError::Brackets)?;
        self.translator.rest = rest[end + 2..].chars();
        Ok(&rest[..end])
    }
}
