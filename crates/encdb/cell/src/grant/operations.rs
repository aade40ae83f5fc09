//! Sets of operations that an owner can grant. Owners sign the numbers of the bits, so no number
//! ever changes.

use std::fmt;

/// One thing that a session may do with cells of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Compare and hash cells that clients or conversions made
    CompareStored = 0,
    /// Compare and hash cells that an evaluator made from others
    CompareDerived = 1,
    /// `+ - * / % ^`, negation, absolute value
    Arithmetic = 2,
    /// `||`, LIKE, regular expressions, length, substring and the other functions of text
    Text = 3,
    /// sum, avg, variances; min, max
    Aggregate = 4,
    /// Casts between encrypted types
    Cast = 5,
    /// extract
    Extract = 6,
    /// Convert plaintext to cells, on the server
    ConvertIn = 7,
    /// Convert cells to plaintext, on the server
    ConvertOut = 8,
    /// Make new data keys, on the server
    KeyGenerate = 9,
    /// Use keys that a session of the owner opened, from a session of somebody else
    Share = 10,
    /// Compare cells with plain values that the server has
    ComparePlain = 11,
    /// Hold values within the limits of columns
    Limit = 12,
    /// Tokens of the words of texts, and searches for words
    Words = 13,
    /// Tokens of the trigrams of texts
    Trigrams = 14,
}

impl Operation {
    /// Every operation, in the order of the bits.
    pub const ALL: [Self; 15] = [
        Self::CompareStored,
        Self::CompareDerived,
        Self::Arithmetic,
        Self::Text,
        Self::Aggregate,
        Self::Cast,
        Self::Extract,
        Self::ConvertIn,
        Self::ConvertOut,
        Self::KeyGenerate,
        Self::Share,
        Self::ComparePlain,
        Self::Limit,
        Self::Words,
        Self::Trigrams,
    ];

    /// Returns the name by which an owner writes the operation in a command.
    pub fn name(self) -> &'static str {
        match self {
            Self::CompareStored => "compare-stored",
            Self::CompareDerived => "compare-derived",
            Self::Arithmetic => "arithmetic",
            Self::Text => "text",
            Self::Aggregate => "aggregate",
            Self::Cast => "cast",
            Self::Extract => "extract",
            Self::ConvertIn => "convert-in",
            Self::ConvertOut => "convert-out",
            Self::KeyGenerate => "key-generate",
            Self::Share => "share",
            Self::ComparePlain => "compare-plain",
            Self::Limit => "limit",
            Self::Words => "words",
            Self::Trigrams => "trigrams",
        }
    }

    /// Returns the operation of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    const fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// A set of operations.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Operations(u32);

impl Operations {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// The operations that background work can be granted at most.
    pub const BACKGROUND: Self = Self::NONE
        .with(Operation::CompareStored)
        .with(Operation::CompareDerived);

    /// All operations.
    pub const ALL: Self = Self((1 << Operation::ALL.len()) - 1);

    /// Makes the set of these bits, if all of them are known.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits & !Self::ALL.0 == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// Returns the bits as they are signed.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Adds one operation.
    #[must_use]
    pub const fn with(self, operation: Operation) -> Self {
        Self(self.0 | operation.bit())
    }

    /// Returns the operations that are in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the operations that are in either set.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set holds the operation.
    #[inline]
    pub const fn has(self, operation: Operation) -> bool {
        self.0 & operation.bit() != 0
    }

    /// Whether `other` holds all of these.
    pub const fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
}

impl fmt::Debug for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = Operation::ALL.into_iter().filter(|op| self.has(*op));
        f.debug_set().entries(held).finish()
    }
}
