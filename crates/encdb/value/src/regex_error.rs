//! The errors of regular expressions: PostgreSQL's sentences, and patterns without a translation.

/// Why a pattern is no regular expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegexError {
    /// `***?`
    #[error("invalid regexp (reg version 0.8)")]
    Pattern,
    /// `[[..]]`
    #[error("invalid collating element")]
    CollatingElement,
    /// `[[:none:]]`
    #[error("invalid character class")]
    Class,
    /// `\q`, or a backslash at the end.
    #[error("invalid escape \\ sequence")]
    Escape,
    /// `\2` behind one group.
    #[error("invalid backreference number")]
    BackReference,
    /// `[a`
    #[error("brackets [] not balanced")]
    Brackets,
    /// `(a`
    #[error("parentheses () not balanced")]
    Parentheses,
    /// `a{1`
    #[error("braces {{}} not balanced")]
    Braces,
    /// `a{2,1}`
    #[error("invalid repetition count(s)")]
    Repetition,
    /// `[b-a]`
    #[error("invalid character range")]
    Range,
    /// `*a`
    #[error("quantifier operand invalid")]
    Quantifier,
    /// `(?z)`
    #[error("invalid embedded option")]
    Option,
    /// It takes too much memory here.
    #[error("regular expression is too complex")]
    TooComplex,
}

/// A part of PostgreSQL's regular expressions that those of encrypted text do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untranslated {
    /// `\1`
    BackReference,
    /// `(?=a)` and its like
    LookAround,
    /// `(?b)`, `(?e)`, `(?x)`
    Option,
    /// `[[.hyphen.]]`
    CollatingElement,
    /// `\y` and its like, in a text with characters about which the locale and Unicode disagree.
    WordBoundary,
}

impl Untranslated {
    /// Returns its name in a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BackReference => "back references",
            Self::LookAround => "look-around",
            Self::Option => "the embedded options b, e and x",
            Self::CollatingElement => "collating elements by name",
            Self::WordBoundary => {
                "word boundaries in a text with letters of the locale or of Unicode alone"
            }
        }
    }
}
