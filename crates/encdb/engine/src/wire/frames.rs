//! A stream of bytes as messages of the protocol, version 3.
//!
//! A message whose content matters is collected whole. All others pass in the parts in which they
//! come, so that a row or a block of COPY of any size takes no memory.

/// The bytes of a message's type and length.
pub(crate) const HEADER: usize = 5;
/// The longest message that is collected, in bytes: PostgreSQL's own limit.
const MAX_MESSAGE: usize = 0x3fff_ffff;

/// A message whose length is none, or longer than PostgreSQL takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {0} bytes, which no message of PostgreSQL's protocol has")]
pub struct FrameError(u32);

/// The next piece of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'b> {
    /// A whole message, with its header
    Message(&'b [u8]),
    /// Bytes that pass: of a message of this type, whole or in parts, the first with the header.
    Part {
        tag: u8,
        bytes: &'b [u8],
        ends: bool,
    },
}

/// How a message is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// Whole
    Whole,
    /// Pass it in the parts in which it comes
    Parts,
    /// Pass it in parts, together with the messages of its type that follow
    Run,
}

/// Splits a stream.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    buffer: Vec<u8>,
    /// The bytes of the buffer that were taken.
    taken: usize,
    /// The bytes that are still to come of a message that passes, and its type.
    passing: Option<(u8, usize)>,
}

impl Frames {
    /// Adds bytes as they came.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the number of bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting().len()
    }

    /// Takes the bytes that wait.
    pub(crate) fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.waiting().to_vec();
        *self = Self::default();
        rest
    }

    /// Returns the type of the message that comes next; none within one.
    pub(crate) fn peek(&self) -> Option<u8> {
        let first = self.waiting().first().copied();
        first.filter(|_| self.passing.is_none())
    }

    fn waiting(&self) -> &[u8] {
        self.buffer.get(self.taken..).unwrap_or_default()
    }

    /// Returns the next message; none until all of it has come.
    pub(crate) fn message(&mut self) -> Result<Option<&[u8]>, FrameError> {
        match self.next(|_| Take::Whole)? {
            Some(Frame::Message(message)) => Ok(Some(message)),
            _ => Ok(None),
        }
    }

    /// Returns what comes next; none until more bytes come. `how` says of a message's type how it
    /// is taken.
    pub(crate) fn next(
        &mut self,
        how: impl FnOnce(u8) -> Take,
    ) -> Result<Option<Frame<'_>>, FrameError> {
        if let Some((tag, left)) = self.passing {
            return Ok(self.part(tag, left));
        }
        let Some((tag, length)) = self.header(self.taken)? else {
            return Ok(None);
        };
        match how(tag) {
            Take::Whole if self.waiting().len() >= length => {
                Ok(Some(Frame::Message(self.take(length))))
            }
            Take::Whole => Ok(None),
            Take::Parts => Ok(self.part(tag, length)),
            Take::Run => Ok(self.part(tag, self.run(tag, length))),
        }
    }

    /// Returns the length of the message at the front and of those of its type that follow, as far
    /// as they have begun to come.
    fn run(&self, tag: u8, first: usize) -> usize {
        let mut length = first;
        while let Ok(Some((next, more))) = self.header(self.taken.saturating_add(length)) {
            if next != tag {
                break;
            }
            length += more;
        }
        length
    }

    /// Returns the type and the whole length of the message that begins at an offset.
    fn header(&self, at: usize) -> Result<Option<(u8, usize)>, FrameError> {
        let begin = self.buffer.get(at..).unwrap_or_default();
        let Some(&[tag, a, b, c, d]) = begin.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]);
        match usize::try_from(length) {
            Ok(bytes @ 4..=MAX_MESSAGE) => Ok(Some((tag, bytes + 1))),
            _ => Err(FrameError(length)),
        }
    }

    fn part(&mut self, tag: u8, left: usize) -> Option<Frame<'_>> {
        let here = self.waiting().len().min(left);
        if here == 0 {
            return None;
        }
        let left = left - here;
        self.passing = (left > 0).then_some((tag, left));
        Some(Frame::Part {
            tag,
            bytes: self.take(here),
            ends: left == 0,
        })
    }

    fn take(&mut self, length: usize) -> &[u8] {
        let begin = self.taken;
        self.taken = begin.saturating_add(length).min(self.buffer.len());
        self.buffer.get(begin..self.taken).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("it is short");
        [&[tag][..], &length.to_be_bytes(), body].concat()
    }

    /// Returns each message in one piece, whether it was collected or passed.
    fn whole(stream: &[u8], step: usize) -> Vec<(bool, Vec<u8>)> {
        let (mut frames, mut all) = (Frames::default(), Vec::new());
        let mut part = Vec::new();
        for bytes in stream.chunks(step) {
            frames.add(bytes);
            let how = |tag| match tag {
                b'Q' => Take::Whole,
                b'D' => Take::Run,
                _ => Take::Parts,
            };
            while let Some(frame) = frames.next(how).expect("lengths are right") {
                match frame {
                    Frame::Message(bytes) => all.push((true, bytes.to_vec())),
                    Frame::Part { bytes, ends, .. } => {
                        part.extend_from_slice(bytes);
                        if ends {
                            all.push((false, std::mem::take(&mut part)));
                        }
                    }
                }
            }
        }
        assert!(frames.waiting().is_empty());
        all
    }

    #[test]
    fn any_split_gives_the_same_messages() {
        let messages = [
            message(b'Q', b"SELECT 1\0"),
            message(b'd', &[7; 100]),
            message(b'S', b""),
        ];
        let expected: Vec<_> = messages
            .iter()
            .map(|it| (it[0] == b'Q', it.clone()))
            .collect();
        for step in [1, 2, 3, 5, 7, 64, 1000] {
            assert_eq!(whole(&messages.concat(), step), expected, "{step}");
        }
    }

    #[test]
    fn messages_of_one_type_pass_together() {
        let rows = [message(b'D', b"a"), message(b'D', b"bc")].concat();
        let rest = [message(b'C', b"\0"), message(b'D', b"d")].concat();
        let mut frames = Frames::default();
        frames.add(&[&rows[..], &rest].concat());
        let run = |bytes, ends| {
            Some(Frame::Part {
                tag: b'D',
                bytes,
                ends,
            })
        };
        assert_eq!(frames.next(|_| Take::Run), Ok(run(&rows[..], true)));
        assert_eq!(frames.message(), Ok(Some(&rest[..6])));
        assert_eq!(frames.next(|_| Take::Run), Ok(run(&rest[6..], true)));
        frames.add(&rows[..12]);
        assert_eq!(frames.next(|_| Take::Run), Ok(run(&rows[..12], false)));
        frames.add(&rows[12..]);
        assert_eq!(frames.next(|_| Take::Run), Ok(run(&rows[12..], true)));
    }

    #[test]
    fn lengths_that_no_message_has_are_refused() {
        for length in [0_u32, 3, 0x4000_0000, u32::MAX] {
            let mut frames = Frames::default();
            frames.add(&[&b"Q"[..], &length.to_be_bytes()].concat());
            assert_eq!(frames.message(), Err(FrameError(length)));
        }
    }
}
