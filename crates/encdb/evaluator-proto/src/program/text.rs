//! Functions of text as steps of programs: `(`, a letter, the plain arguments, `)`.

use crate::Collation;

/// A function of text, with the arguments that are plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextStep<'a> {
    /// `(s1,2)`: `substring(x, 1, 2)`
    Substring {
        /// The place of the first character or byte, from 1 on.
        from: i32,
        /// The length; none is to the end.
        len: Option<i32>,
    },
    /// `(lde_DE.UTF-8)`: `lower(x)` in a locale of libc; without a name, in C.
    Lower(Collation<'a>),
    /// `(u)`: `upper(x)`
    Upper(Collation<'a>),
}

impl<'a> TextStep<'a> {
    /// Reads a letter and its arguments.
    pub(super) fn parse(call: &'a [u8]) -> Option<Self> {
        let (letter, arguments) = call.split_first()?;
        let arguments = std::str::from_utf8(arguments).ok()?;
        Some(match letter {
            b's' => {
                let (from, len) = match arguments.split_once(',') {
                    Some((from, len)) => (from, Some(len.parse().ok()?)),
                    None => (arguments, None),
                };
                let from = from.parse().ok()?;
                Self::Substring { from, len }
            }
            b'l' => Self::Lower(collation(arguments)?),
            b'u' => Self::Upper(collation(arguments)?),
            _ => return None,
        })
    }

    /// How many values it takes from the stack; it leaves one.
    pub(super) fn takes(self) -> usize {
        match self {
            Self::Substring { .. } | Self::Lower(_) | Self::Upper(_) => 1,
        }
    }
}

/// Reads a locale's name, which `EXPLAIN` can show; the empty one is C.
fn collation(name: &str) -> Option<Collation<'_>> {
    match name {
        "" => Some(Collation::C),
        _ if name.bytes().all(|byte| byte.is_ascii_graphic()) => Some(Collation::Libc(name)),
        _ => None,
    }
}
