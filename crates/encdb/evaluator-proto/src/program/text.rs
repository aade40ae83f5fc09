//! Functions of text as steps of programs: `(`, a letter, the other arguments, `)`.
//!
//! Between commas, an argument is a number, `$` for a value of the stack, or a text in quotes. The
//! name of a locale is alone. In a text, bytes that are no printable ASCII, and `%`, `"`, `,` and
//! `)`, are `%` and two hexadecimal digits.

use pgseal_value::Ends;

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
    /// `(i)`: `initcap(x)`
    Initcap(Collation<'a>),
    /// `(h2)`: `left(x, 2)`
    Left(i32),
    /// `(t-2)`: `right(x, -2)`
    Right(i32),
    /// `(v)`: `reverse(x)`
    Reverse,
    /// `(n3)`: `repeat(x, 3)`
    Repeat(i32),
    /// `(j5)`: `lpad(x, 5)`; `(k5,"0")`: `rpad(x, 5, '0')`
    Pad {
        /// The end that is padded, left or right.
        end: Ends,
        /// The length.
        len: i32,
        /// The fill; none is the space.
        fill: Option<PlainText<'a>>,
    },
    /// `(b)`: `btrim(x)`; `(f$)`: `ltrim(x, y)`; `(e"-+")`: `rtrim(x, '-+')`
    Trim {
        /// The ends that are trimmed.
        ends: Ends,
        /// The characters; none is the space.
        characters: Option<TextArgument<'a>>,
    },
    /// `(g)`: `similar_to_escape(x)`; `(g"#")`: `similar_to_escape(x, '#')`
    Similar(PlainText<'a>),
    /// `(p$)`: `position(y IN x)`
    Position,
    /// `(r$,$)`: `replace(x, y, z)`; `(r"a","")`: `replace(x, 'a', '')`
    Replace {
        /// The text that is replaced.
        from: TextArgument<'a>,
        /// The text in its place.
        to: TextArgument<'a>,
    },
    /// `(d"@",-1)`: `split_part(x, '@', -1)`
    SplitPart {
        /// The text between the fields.
        separator: TextArgument<'a>,
        /// The number of the field.
        field: i32,
    },
}

/// A text beside the one that a function is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextArgument<'a> {
    /// A value of the stack.
    Operand,
    /// A plain text.
    Plain(PlainText<'a>),
}

/// A text as it is written in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainText<'a>(&'a str);

impl<'a> TextStep<'a> {
    /// Reads a letter and its arguments.
    pub(super) fn parse(call: &'a [u8]) -> Option<Self> {
        let (letter, arguments) = call.split_first()?;
        let arguments = std::str::from_utf8(arguments).ok()?;
        let number = || arguments.parse().ok();
        Some(match letter {
            b's' => substring(arguments)?,
            b'l' => Self::Lower(collation(arguments)?),
            b'u' => Self::Upper(collation(arguments)?),
            b'i' => Self::Initcap(collation(arguments)?),
            b'h' => Self::Left(number()?),
            b't' => Self::Right(number()?),
            b'v' if arguments.is_empty() => Self::Reverse,
            b'n' => Self::Repeat(number()?),
            b'j' => pad(Ends::Left, arguments)?,
            b'k' => pad(Ends::Right, arguments)?,
            b'b' => trim(Ends::Both, arguments)?,
            b'f' => trim(Ends::Left, arguments)?,
            b'e' => trim(Ends::Right, arguments)?,
            b'g' if arguments.is_empty() => Self::Similar(PlainText("\\")),
            b'g' => Self::Similar(PlainText::parse(arguments)?),
            b'p' if arguments == "$" => Self::Position,
            b'r' => {
                let (from, to) = arguments.split_once(',')?;
                let (from, to) = (TextArgument::parse(from)?, TextArgument::parse(to)?);
                Self::Replace { from, to }
            }
            b'd' => {
                let (separator, field) = arguments.split_once(',')?;
                let (separator, field) = (TextArgument::parse(separator)?, field.parse().ok()?);
                Self::SplitPart { separator, field }
            }
            _ => return None,
        })
    }

    /// How many values it takes from the stack; it leaves one.
    pub(super) fn takes(self) -> usize {
        let is_operand = |argument| usize::from(argument == TextArgument::Operand);
        1 + match self {
            Self::Trim { characters, .. } => characters.map_or(0, is_operand),
            Self::Position => 1,
            Self::Replace { from, to } => is_operand(from) + is_operand(to),
            Self::SplitPart { separator, .. } => is_operand(separator),
            Self::Substring { .. }
            | Self::Lower(_)
            | Self::Upper(_)
            | Self::Initcap(_)
            | Self::Left(_)
            | Self::Right(_)
            | Self::Reverse
            | Self::Repeat(_)
            | Self::Similar(_)
            | Self::Pad { .. } => 0,
        }
    }
}

fn substring(arguments: &str) -> Option<TextStep<'_>> {
    let (from, len) = match arguments.split_once(',') {
        Some((from, len)) => (from, Some(len.parse().ok()?)),
        None => (arguments, None),
    };
    let from = from.parse().ok()?;
    Some(TextStep::Substring { from, len })
}

fn pad(end: Ends, arguments: &str) -> Option<TextStep<'_>> {
    let (len, fill) = match arguments.split_once(',') {
        Some((len, fill)) => (len, Some(PlainText::parse(fill)?)),
        None => (arguments, None),
    };
    let len = len.parse().ok()?;
    Some(TextStep::Pad { end, len, fill })
}

fn trim(ends: Ends, arguments: &str) -> Option<TextStep<'_>> {
    let characters = match arguments {
        "" => None,
        _ => Some(TextArgument::parse(arguments)?),
    };
    Some(TextStep::Trim { ends, characters })
}

impl<'a> TextArgument<'a> {
    fn parse(written: &'a str) -> Option<Self> {
        match written {
            "$" => Some(Self::Operand),
            _ => PlainText::parse(written).map(Self::Plain),
        }
    }
}

impl<'a> PlainText<'a> {
    /// Reads a text in quotes.
    pub(super) fn parse(written: &'a str) -> Option<Self> {
        let text = written.strip_prefix('"')?.strip_suffix('"')?;
        decoded(text).map(|_| Self(text))
    }

    /// Returns the text.
    pub fn text(self) -> String {
        decoded(self.0).unwrap_or_default()
    }
}

/// Returns the text that is written so, if one is.
fn decoded(written: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(written.len()), written.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'%' => {
                let (digits, after) = rest.split_first_chunk()?;
                rest = after;
                hexadecimal(*digits)?
            }
            b'"' | b',' | b')' => return None,
            b' '..=b'~' => *first,
            _ => return None,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}

fn hexadecimal(digits: [u8; 2]) -> Option<u8> {
    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(16 * high? + low?).ok()
}

/// Reads a locale's name, which `EXPLAIN` can show; the empty one is C.
fn collation(name: &str) -> Option<Collation<'_>> {
    match name {
        "" => Some(Collation::C),
        _ if name.bytes().all(|byte| byte.is_ascii_graphic()) => Some(Collation::Libc(name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(written: &str) -> Option<String> {
        match TextArgument::parse(written)? {
            TextArgument::Plain(text) => Some(text.text()),
            TextArgument::Operand => None,
        }
    }

    #[test]
    fn plain_texts_are_written_in_ascii() {
        for (written, text) in [
            (r#""""#, ""),
            (r#""$ (a''""#, "$ (a''"),
            (r#""%22%2c%29%25%0A%7f""#, "\",)%\n\u{7f}"),
            (r#""%c3%A4%F0%9F%98%80""#, "\u{e4}\u{1f600}"),
        ] {
            assert_eq!(plain(written).as_deref(), Some(text), "{written}");
        }
        for written in [
            "",
            "\"",
            "a",
            "\"a",
            "\"%\"",
            "\"%a\"",
            "\"%+1\"",
            "\"%g0\"",
            "\"%00\"",
            "\"%c3\"",
            "\"a\"b\"",
            "\"a,b\"",
            "\"a)b\"",
            "\"\u{e4}\"",
            "\"\t\"",
            "$$",
        ] {
            assert_eq!(plain(written), None, "{written}");
        }
    }

    #[test]
    fn what_is_taken_from_the_stack_is_written_as_a_dollar() {
        for (call, takes) in [
            ("b", 1),
            ("f\"$\"", 1),
            ("e$", 2),
            ("p$", 2),
            ("r\"a\",\"\"", 1),
            ("r\"a\",$", 2),
            ("r$,$", 3),
            ("d\",\",1", 0),
            ("d\"%2c\",1", 1),
            ("d$,-2147483648", 2),
            ("ixx_XX", 1),
            ("h-1", 1),
            ("t0", 1),
            ("v", 1),
            ("n2147483647", 1),
            ("j5", 1),
            ("k-5,\"%2c\"", 1),
            ("g", 1),
            ("g\"#\"", 1),
        ] {
            let step = TextStep::parse(call.as_bytes());
            assert_eq!(step.map_or(0, TextStep::takes), takes, "{call}");
        }
        for call in [
            "p", "p\"a\"", "v1", "h", "t$", "n", "j", "k5,$", "k5,", "r$", "r$,$,$", "d$", "d$,$",
            "d1,1", "g$", "g#",
        ] {
            assert_eq!(TextStep::parse(call.as_bytes()), None, "{call}");
        }
    }
}
