//! A tar of WAL as `pg_basebackup` writes it (walmethods.c). The segments in it get exactly the
//! bytes that their files would hold; whatever else the tar holds is clear.
//!
//! `pg_basebackup` writes a header of size 0, then the member, then the same header with its size.
//! A segment is filled with zeros to its whole size: at its beginning in a file ([`TarFile`]),
//! where it is then written over; at its end in a stream that is compressed ([`TarStream`]).
//!
//! Invariant: outside a segment only headers, timeline history, archive status and zeros pass.
//! Whatever else comes is refused: it might be WAL.

use crate::layout::Spec;
use crate::passing::Passing;
use crate::scratch::Scratch;
use crate::wal::WalName;
use crate::{Disk, Errno, Lock, SealedFile, Transfer};

/// Bytes of a header, and the unit that members are filled up to.
pub const HEADER: usize = 512;

/// The member that a header announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    /// A segment; empty where the header is the one before it.
    Segment { name: WalName, empty: bool },
    /// Timeline history or archive status.
    Clear,
}

/// Where the key and layout of segments come from.
pub trait Keys<'k> {
    /// The bytes of each segment of the tar.
    fn segment_size(&self) -> u64;
    /// The sealed file of a specification.
    fn open(&self, spec: &Spec) -> SealedFile<'k>;
}

fn segment<'k>(keys: &impl Keys<'k>, name: WalName) -> Result<SealedFile<'k>, Errno> {
    let spec = name.spec(keys.segment_size()).ok_or(Errno::EIO)?;
    Ok(keys.open(&spec))
}

/// The state that decides which bytes may stand outside a segment.
#[derive(Default)]
struct Outside {
    /// Did the last header announce a member in clear?
    in_clear_member: bool,
}

impl Outside {
    /// Returns the segment that `data` announces, if any. Fails with EIO if `data` may not pass.
    fn judge(&mut self, data: &[u8]) -> Result<Option<(WalName, bool)>, Errno> {
        match data.try_into().ok().filter(is_header) {
            Some(header) => match member(&header).ok_or(Errno::EIO)? {
                Member::Segment { name, empty } => {
                    self.in_clear_member = false;
                    Ok(Some((name, empty)))
                }
                Member::Clear => {
                    self.in_clear_member = true;
                    Ok(None)
                }
            },
            None if self.in_clear_member || data.iter().all(|&byte| byte == 0) => Ok(None),
            None => Err(Errno::EIO),
        }
    }
}

/// A tar that is in a file and is written at any offset.
#[derive(Default)]
pub struct TarFile<'k> {
    outside: Outside,
    segment: Option<(u64, SealedFile<'k>)>,
}

impl<'k> TarFile<'k> {
    /// Writes `data` at `offset` of the tar.
    pub fn write_at(
        &mut self,
        keys: &impl Keys<'k>,
        transfer: &mut Transfer<impl Disk>,
        data: &[u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        let size = keys.segment_size();
        if let Some((start, file)) = &self.segment {
            if (*start..start + size).contains(&offset) {
                let at = offset - start;
                if at + data.len() as u64 > size {
                    return Err(Errno::EIO);
                }
                let region = Region {
                    disk: transfer.disk,
                    start: *start,
                    len: size,
                };
                return file.write_at(&mut Transfer::new(&region, transfer.scratch), data, at);
            }
        }
        if let Some((name, _)) = self.outside.judge(data)? {
            let start = offset + HEADER as u64;
            if self.segment.as_ref().is_none_or(|(at, _)| *at != start) {
                self.segment = Some((start, segment(keys, name)?));
            }
        }
        transfer.disk.write_at(data, offset)
    }

    /// Cuts the tar before a member that is given up.
    pub fn cut<D: Disk>(&mut self, disk: &D, size: u64) -> Result<(), Errno> {
        self.segment = self.segment.take().filter(|(start, _)| *start <= size);
        disk.set_size(size)
    }
}

/// A tar that is compressed piece by piece as it comes.
#[derive(Default)]
pub struct TarStream<'k> {
    outside: Outside,
    segment: Option<Passing<'k>>,
}

impl<'k> TarStream<'k> {
    /// Takes the next bytes and appends to `out` what may go on.
    pub fn push(
        &mut self,
        keys: &impl Keys<'k>,
        scratch: &mut Scratch,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        let size = keys.segment_size();
        if let Some(segment) = self.segment.as_mut().filter(|one| one.taken() < size) {
            if segment.taken() + data.len() as u64 > size {
                return Err(Errno::EIO);
            }
            return segment.push(scratch, data, out);
        }
        if let Some((name, empty)) = self.outside.judge(data)? {
            self.segment = match (empty, &self.segment) {
                (true, _) => Some(Passing::new(segment(keys, name)?)),
                (false, Some(_)) => None,
                (false, None) => return Err(Errno::EIO),
            };
        }
        out.extend_from_slice(data);
        Ok(())
    }
}

/// Is this block a header of `pg_basebackup`'s?
fn is_header(block: &[u8; HEADER]) -> bool {
    &block[257..263] == b"ustar\0" && sums_up(block)
}

/// Has this block a header's checksum? It distinguishes a header from what a member may hold.
pub(crate) fn sums_up(block: &[u8; HEADER]) -> bool {
    const SUM: std::ops::Range<usize> = 148..156;
    let blanks = u64::from(b' ') * SUM.len() as u64;
    let others = (0..HEADER).filter(|at| !SUM.contains(at));
    let sum = others.map(|at| u64::from(block[at])).sum::<u64>() + blanks;
    octal(&block[SUM]) == Some(sum)
}

/// Reads a header. Returns none for a member that `pg_basebackup` does not put into a tar of WAL.
fn member(header: &[u8; HEADER]) -> Option<Member> {
    let name = header[..100].split(|&byte| byte == 0).next()?;
    if let Some(name) = WalName::parse(name) {
        let empty = octal(&header[124..136])? == 0;
        return Some(Member::Segment { name, empty });
    }
    let history = name.strip_suffix(b".tmp").unwrap_or(name);
    let clear = history.ends_with(b".history") || name.starts_with(b"archive_status/");
    clear.then_some(Member::Clear)
}

/// Reads digits, up to the blank or zero byte behind them.
pub(crate) fn octal(digits: &[u8]) -> Option<u64> {
    let digits = digits.split(|byte| b" \0".contains(byte)).next()?;
    digits.iter().try_fold(0u64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// The part of a tar that one member takes, as a file of its own.
struct Region<'d, D> {
    disk: &'d D,
    start: u64,
    len: u64,
}

impl<D: Disk> Disk for Region<'_, D> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let left = self.len.saturating_sub(offset);
        let len = usize::try_from(left).map_or(buf.len(), |left| buf.len().min(left));
        self.disk.read_at(&mut buf[..len], self.start + offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize, Errno> {
        self.disk.write_at(buf, self.start + offset)
    }

    fn size(&self) -> Result<u64, Errno> {
        Ok(self.disk.size()?.saturating_sub(self.start).min(self.len))
    }

    fn set_size(&self, size: u64) -> Result<(), Errno> {
        self.disk.set_size(self.start + size)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.disk.allocate(self.start + offset, len)
    }

    fn lock(&self, lock: Lock) -> Result<(), Errno> {
        self.disk.lock(lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A tar of 100 bytes that notes where it is touched.
    #[derive(Default)]
    struct Noted(RefCell<Vec<(&'static str, u64, u64)>>);

    impl Noted {
        fn note(&self, call: &'static str, at: u64, len: u64) {
            self.0.borrow_mut().push((call, at, len));
        }
    }

    impl Disk for Noted {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
            self.note("read", offset, buf.len() as u64);
            Ok(buf.len())
        }

        fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize, Errno> {
            self.note("write", offset, buf.len() as u64);
            Ok(buf.len())
        }

        fn size(&self) -> Result<u64, Errno> {
            Ok(100)
        }

        fn set_size(&self, size: u64) -> Result<(), Errno> {
            self.note("cut", size, 0);
            Ok(())
        }

        fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
            self.note("reserve", offset, len);
            Ok(())
        }

        fn lock(&self, lock: Lock) -> Result<(), Errno> {
            self.note("lock", lock as u64, 0);
            Ok(())
        }
    }

    #[test]
    fn a_member_is_a_file_of_its_own() {
        let tar = Noted::default();
        let part = |start, len| Region {
            disk: &tar,
            start,
            len,
        };
        let member = part(40, 30);
        assert_eq!(member.read_at(&mut [0; 8], 10), Ok(8));
        assert_eq!(member.read_at(&mut [0; 8], 25), Ok(5), "up to its end");
        assert_eq!(member.read_at(&mut [0; 8], 31), Ok(0), "beyond its end");
        assert_eq!(member.write_at(&[0; 8], 10), Ok(8));
        assert_eq!(member.set_size(3), Ok(()));
        assert_eq!(member.allocate(2, 5), Ok(()));
        assert_eq!(member.lock(Lock::Exclusive), Ok(()));
        let sizes = [part(40, 30), part(90, 30), part(120, 30)].map(|part| part.size());
        assert_eq!(sizes, [Ok(30), Ok(10), Ok(0)]);
        let expected = [
            ("read", 50, 8),
            ("read", 65, 5),
            ("read", 71, 0),
            ("write", 50, 8),
            ("cut", 43, 0),
            ("reserve", 42, 5),
            ("lock", Lock::Exclusive as u64, 0),
        ];
        assert_eq!(tar.0.into_inner(), expected);
    }
}
