//! A tar that `pg_waldump` reads, in order: what `pg_basebackup` stored, or somebody packed. WAL
//! segments that are sealed are opened where they are; whatever else the tar holds stays.
//!
//! Invariant: it takes whole blocks of the tar, so that a header, or the beginning of a segment,
//! never comes in two pieces.

use crate::layout::Spec;
use crate::scratch::Scratch;
use crate::tar::{sums_up, HEADER};
use crate::wal::{is_segment_size, LongHeader, WalName};
use crate::{Disk, Errno, Lock, SealedFile, Transfer};
use pgseal_crypto::UNIT;

/// Where the key of segments comes from.
pub trait Keys<'k> {
    /// The cluster's size of segments in bytes, if it is known.
    fn segment_size(&self) -> Option<u64>;
    /// The sealed file of a specification.
    fn open(&self, spec: &Spec) -> SealedFile<'k>;
}

/// A tar, as far as it was read.
#[derive(Default)]
pub struct Untar<'k> {
    /// Bytes of the member that are still to come, those that fill its last block among them. A
    /// header is next when there are none.
    left: u64,
    segment: Segment<'k>,
    segment_size: Option<u64>,
}

/// The member that is being read, if it is a segment.
#[allow(clippy::large_enum_variant)] // one a tar
#[derive(Default)]
enum Segment<'k> {
    /// It is none, or one in clear.
    #[default]
    None,
    /// Its first block decides.
    New { name: WalName, size: u64 },
    /// It is sealed, and this much of it has come.
    Sealed {
        file: SealedFile<'k>,
        size: u64,
        at: u64,
    },
}

impl<'k> Untar<'k> {
    /// Returns the size in bytes of the last segment that came.
    #[must_use]
    pub const fn segment_size(&self) -> Option<u64> {
        self.segment_size
    }

    /// Takes the next blocks, and opens what is sealed in them.
    ///
    /// # Errors
    /// EINVAL if `blocks` are not whole.
    pub fn pass(
        &mut self,
        keys: &impl Keys<'k>,
        scratch: &mut Scratch,
        blocks: &mut [u8],
    ) -> Result<(), Errno> {
        if blocks.len() % HEADER != 0 {
            return Err(Errno::EINVAL);
        }
        let mut rest = blocks;
        while !rest.is_empty() {
            let taken = self.next(keys, scratch, rest)?;
            rest = &mut rest[taken..];
        }
        Ok(())
    }

    /// Takes a header, or the part of a member that is there. Returns its length.
    fn next(
        &mut self,
        keys: &impl Keys<'k>,
        scratch: &mut Scratch,
        blocks: &mut [u8],
    ) -> Result<usize, Errno> {
        if self.left == 0 {
            self.begin(&blocks[..HEADER]);
            return Ok(HEADER);
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let len = left.min(blocks.len());
        let part = &mut blocks[..len];
        self.settle(keys, part);
        if let Segment::Sealed { file, size, at } = &mut self.segment {
            open(file, scratch, part, *at, *size)?;
            *at += len as u64;
        }
        self.left -= len as u64;
        Ok(len)
    }

    /// Reads a header. A block that is none, such as those of zeros at the end, is passed over.
    fn begin(&mut self, header: &[u8]) {
        self.segment = Segment::None;
        let Some(member) = Member::read(header) else {
            return;
        };
        self.left = member.size.next_multiple_of(HEADER as u64);
        if let Some(name) = member.segment {
            let size = member.size;
            self.segment = Segment::New { name, size };
        }
    }

    /// Decides how a segment is stored, by its first block.
    fn settle(&mut self, keys: &impl Keys<'k>, part: &[u8]) {
        let Segment::New { name, size } = self.segment else {
            return;
        };
        let is_clear = part
            .first_chunk()
            .is_some_and(|head| LongHeader::parse(head).is_some());
        let own = Some(size).filter(|&size| is_segment_size(size));
        self.segment_size = own.or_else(|| keys.segment_size());
        let spec = self.segment_size.and_then(|size| name.spec(size));
        self.segment = match spec.filter(|_| !is_clear) {
            Some(spec) => Segment::Sealed {
                file: keys.open(&spec),
                size,
                at: 0,
            },
            None => Segment::None,
        };
    }
}

/// Opens a part of a segment of `size` bytes that begins at `at`.
fn open(
    file: &SealedFile<'_>,
    scratch: &mut Scratch,
    part: &mut [u8],
    mut at: u64,
    size: u64,
) -> Result<(), Errno> {
    let within = usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX);
    let len = within.min(part.len());
    let mut rest = &mut part[..len];
    while !rest.is_empty() {
        let in_page = usize::try_from(at % UNIT as u64).unwrap_or(0);
        let (piece, others) = rest.split_at_mut(rest.len().min(UNIT - in_page));
        let mut stored = [0; UNIT];
        stored[..piece.len()].copy_from_slice(piece);
        let disk = Piece {
            bytes: &stored[..piece.len()],
            start: at,
            size,
        };
        let read = file.read_at(&mut Transfer::new(&disk, scratch), piece, at)?;
        if read != piece.len() {
            return Err(Errno::EIO);
        }
        at += read as u64;
        rest = others;
    }
    Ok(())
}

/// A member of a tar, by its header.
struct Member {
    size: u64,
    segment: Option<WalName>,
}

impl Member {
    fn read(header: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER] = header.try_into().ok()?;
        if !sums_up(header) {
            return None;
        }
        let path = header[..100].split(|&byte| byte == 0).next()?;
        let name = path.rsplit(|&byte| byte == b'/').next()?;
        let is_file = matches!(header[156], b'0' | 0);
        Some(Self {
            size: size(&header[124..136])?,
            segment: WalName::parse(name).filter(|_| is_file),
        })
    }
}

/// Octal digits, or, where the highest bit is set, a number of the bytes after it.
fn size(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 == 0 {
        return crate::tar::octal(field);
    }
    let bytes = field[1..].iter();
    bytes.copied().try_fold(0u64, |value, byte| {
        value.checked_mul(256)?.checked_add(u64::from(byte))
    })
}

/// The stored bytes of a part of a file. Those before it are zeros: a page is read from its start,
/// and none of its blocks depends on another.
struct Piece<'b> {
    bytes: &'b [u8],
    start: u64,
    size: u64,
}

impl Disk for Piece<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let gone = usize::try_from(self.start.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (zeros, buf) = buf.split_at_mut(gone.min(buf.len()));
        zeros.fill(0);
        let at = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let rest = self.bytes.get(at..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(zeros.len() + len)
    }

    fn write_at(&self, _: &[u8], _: u64) -> Result<usize, Errno> {
        Err(Errno::EIO)
    }

    fn size(&self) -> Result<u64, Errno> {
        Ok(self.size)
    }

    fn set_size(&self, _: u64) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn allocate(&self, _: u64, _: u64) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    fn lock(&self, _: Lock) -> Result<(), Errno> {
        Ok(())
    }
}
