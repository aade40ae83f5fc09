//! The decision on each request of a ring: it passes as it is, is read here, or is refused. Pure.

use crate::liburing::{operation, Request, ASYNC};
use libc::{c_int, c_uint};
use std::fmt;

/// The decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The kernel does it, and no byte of it is a protected file's.
    Pass,
    /// It reads a protected file into one buffer, or into the buffers of an array.
    Read(Into),
}

/// The place that a request reads into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Into {
    /// One buffer.
    Buffer,
    /// An array of vectors.
    Vectors,
}

/// Why a call on a ring, or a request in it, is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It was made past the functions that this library knows.
    UnknownRing,
    /// It carries a word of this library's own.
    Token,
    /// More requests wait than the ring has entries.
    Places,
    /// The ring has options whose layout or whose way of submitting is not known.
    Options(c_uint),
    /// The operation may open, close or move what a descriptor leads to.
    Operation(u8),
    /// The flags name registered files or buffers, or change when the answer comes.
    Flags(u8),
    /// A protected file is written.
    Write,
    /// A protected file is read with options, or at the descriptor's own position.
    Read,
    /// More requests are under way than the ring has entries.
    Full,
    /// A call that submits and waits, or waits for a time and may submit.
    Call,
}

impl Refusal {
    /// The error that the caller gets.
    pub fn errno(self) -> c_int {
        match self {
            Self::Options(_) => libc::EINVAL,
            Self::Full => libc::EBUSY,
            Self::Call => libc::ENOSYS,
            _ => libc::EOPNOTSUPP,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PAST: &str = "would go past the encryption: set io_method to worker or sync";
        match self {
            Self::UnknownRing => write!(f, "io_uring with a ring of unknown origin {PAST}"),
            Self::Token => write!(
                f,
                "a request of io_uring that carries another one's token {PAST}"
            ),
            Self::Places => write!(f, "io_uring with a queue of unknown order {PAST}"),
            Self::Options(flags) => write!(f, "io_uring with the options {flags:#x} {PAST}"),
            Self::Operation(number) => write!(f, "io_uring's operation {number} {PAST}"),
            Self::Flags(flags) => {
                write!(f, "a request of io_uring with the flags {flags:#x} {PAST}")
            }
            Self::Write => write!(f, "a protected file that io_uring writes {PAST}"),
            Self::Read => write!(
                f,
                "a protected file that io_uring reads with options {PAST}"
            ),
            Self::Full => {
                f.write_str("more requests of io_uring are under way than its ring has entries")
            }
            Self::Call => write!(f, "this call of io_uring {PAST}"),
        }
    }
}

/// May a ring be made with these options? PostgreSQL gives none. A kernel's thread that takes
/// requests by itself, and larger entries, would need other code here.
pub fn check_options(flags: c_uint) -> Result<(), Refusal> {
    match flags {
        0 => Ok(()),
        _ => Err(Refusal::Options(flags)),
    }
}

/// Decides on a request. What may open, close, send or map is refused on any descriptor, because
/// those calls are decided on elsewhere, where this library sees them.
pub fn decide(request: &Request, is_protected: impl Fn(c_int) -> bool) -> Result<Plan, Refusal> {
    if request.flags & !ASYNC != 0 {
        return Err(Refusal::Flags(request.flags));
    }
    let into = match request.operation {
        operation::NOP | operation::FSYNC => return Ok(Plan::Pass),
        operation::READ | operation::READV | operation::WRITE | operation::WRITEV
            if !is_protected(request.fd) =>
        {
            return Ok(Plan::Pass)
        }
        operation::READ => Into::Buffer,
        operation::READV => Into::Vectors,
        operation::WRITE | operation::WRITEV => return Err(Refusal::Write),
        other => return Err(Refusal::Operation(other)),
    };
    let has_place = i64::try_from(request.offset).is_ok();
    match request.operation_flags {
        0 if has_place => Ok(Plan::Read(into)),
        _ => Err(Refusal::Read),
    }
}

/// The places of the requests that the kernel has not taken yet: what their descriptors lead to may
/// still change, however often they were decided on. `head` is the place after the last one that
/// it took, `filled` that after the last one that was filled in, in a queue of so many entries.
/// Places are counted modulo 2^32.
pub fn waiting(head: u32, filled: u32, entries: u32) -> Result<impl Iterator<Item = u32>, Refusal> {
    let count = filled.wrapping_sub(head);
    if count > entries {
        return Err(Refusal::Places);
    }
    Ok((0..count).map(move |n| head.wrapping_add(n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTECTED: c_int = 7;

    fn request(operation: u8, fd: c_int) -> Request {
        Request {
            operation,
            fd,
            ..Request::default()
        }
    }

    fn decided(request: &Request) -> Result<Plan, Refusal> {
        decide(request, |fd| fd == PROTECTED)
    }

    #[test]
    fn each_operation_on_either_kind_of_descriptor() {
        for number in 0..=u8::MAX {
            let plain = match number {
                0..=3 | 22 | 23 => Ok(Plan::Pass),
                _ => Err(Refusal::Operation(number)),
            };
            assert_eq!(decided(&request(number, 3)), plain, "{number}");
            let protected = match number {
                1 => Ok(Plan::Read(Into::Vectors)),
                22 => Ok(Plan::Read(Into::Buffer)),
                2 | 23 => Err(Refusal::Write),
                _ => plain,
            };
            assert_eq!(decided(&request(number, PROTECTED)), protected, "{number}");
        }
    }

    #[test]
    fn flags_that_hide_the_descriptor_or_the_answer_are_refused_on_all() {
        for flags in 1..=u8::MAX {
            for fd in [3, PROTECTED] {
                let request = Request {
                    flags,
                    ..request(operation::READ, fd)
                };
                assert_eq!(decided(&request).is_ok(), flags == ASYNC, "{flags}");
            }
        }
    }

    #[test]
    fn a_protected_file_is_read_at_a_place_and_without_options() {
        let read = request(operation::READ, PROTECTED);
        for offset in [u64::MAX, 1 << 63] {
            let there = Request {
                offset,
                ..read.clone()
            };
            assert_eq!(decided(&there), Err(Refusal::Read));
        }
        let with_options = Request {
            operation_flags: 8,
            ..read
        };
        assert_eq!(decided(&with_options), Err(Refusal::Read));
    }

    #[test]
    fn all_requests_are_looked_at_until_the_kernel_takes_them() {
        for start in [0, 5, u32::MAX - 1] {
            let at = |n: u32| start.wrapping_add(n);
            let places =
                |head, filled| waiting(at(head), at(filled), 4).map(Iterator::collect::<Vec<_>>);
            assert_eq!(places(0, 3), Ok(vec![at(0), at(1), at(2)]));
            assert_eq!(places(2, 3), Ok(vec![at(2)]));
            assert_eq!(places(3, 3), Ok(vec![]));
            assert_eq!(places(1, 5).map(|places| places.len()), Ok(4));
            assert_eq!(places(1, 6), Err(Refusal::Places));
            assert_eq!(places(1, 0), Err(Refusal::Places));
        }
    }

    #[test]
    fn only_rings_without_options() {
        assert_eq!(check_options(0), Ok(()));
        assert_eq!(check_options(2), Err(Refusal::Options(2)));
    }
}
