//! Common parts of the tests: a disk in memory that fails on demand, files of every layout, and
//! the plain reference that a sealed file must equal.
#![allow(dead_code, unused_imports)] // each test program uses its part
// A test may panic; sizes are small.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod disk;

pub use disk::{Fault, MemDisk};

use pgseal_crypto::{FileCipher, FileId, Fork, KeyLength, MasterKey};
use pgseal_storage::layout::Layout;
use pgseal_storage::scratch::Scratch;
use pgseal_storage::{Disk, Errno, SealedFile, Transfer};
use proptest::prelude::*;
use std::sync::atomic::Ordering;
use std::sync::LazyLock;

pub const PAGE: usize = 8192;
pub const BLOCK: usize = 16;

/// 00 01 .. 1f, the master key of all vectors.
pub static MASTER: LazyLock<MasterKey> =
    LazyLock::new(|| MasterKey::from_bytes(&mut std::array::from_fn(|i| i as u8)));

pub const LENGTHS: [KeyLength; 3] = [KeyLength::Bits128, KeyLength::Bits192, KeyLength::Bits256];

/// Every kind of layout.
pub fn layouts() -> Vec<Layout> {
    vec![
        Layout::PAGES,
        Layout::STREAM,
        Layout::STREAM.shared(),
        Layout::CONTROL,
        Layout::WAL_SCRATCH,
        Layout::wal(2048),
        Layout::wal(1 << 27),
        Layout::Keystream,
    ]
}

/// How one file is stored; makes as many open files of it as a test wants.
#[derive(Clone, Debug)]
pub struct Kind {
    pub layout: Layout,
    pub length: KeyLength,
    pub id: FileId,
}

impl Kind {
    pub fn new(layout: Layout, length: KeyLength) -> Self {
        let id = FileId::relation(5, 16384, Fork::Main, 0);
        Self { layout, length, id }
    }

    pub fn named(layout: Layout, path: &str) -> Self {
        let id = FileId::named(path.as_bytes()).unwrap();
        Self {
            id,
            ..Self::new(layout, KeyLength::Bits256)
        }
    }

    pub fn open(&self) -> SealedFile<'static> {
        let cipher = FileCipher::new(&MASTER, self.length, &self.id);
        SealedFile::new(cipher, self.layout)
    }

    /// All clear bytes of the file, through a fresh open file.
    pub fn content(&self, disk: &impl Disk) -> Vec<u8> {
        let mut bytes = vec![0; disk.size().unwrap() as usize + 1];
        let got = self
            .open()
            .read_at(&mut Transfer::new(disk, &mut scratch()), &mut bytes, 0)
            .unwrap();
        bytes.truncate(got);
        bytes
    }

    /// Bytes that are rewritten together.
    pub fn granule(&self) -> usize {
        match self.layout {
            Layout::Keystream => 1,
            layout => layout.granule() as usize,
        }
    }

    /// May a stored block be zero although zeros were written to it?
    pub fn keeps_zeros(&self) -> bool {
        self.layout == Layout::WAL_SCRATCH
    }
}

pub fn kinds() -> impl Strategy<Value = Kind> {
    let layout = prop::sample::select(layouts());
    let length = prop::sample::select(&LENGTHS[..]);
    (layout, length).prop_map(|(layout, length)| Kind::new(layout, length))
}

/// Returns a scratch with remains of an earlier transfer, which must not matter.
pub fn scratch() -> Box<Scratch> {
    let mut scratch = Box::new(Scratch::new());
    scratch.unit.fill(0xEE);
    scratch
}

/// A fixed number of cases, so that a run takes the same time everywhere; `PROPTEST_CASES` for
/// more.
pub fn cases(default: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(default),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// splitmix64: what a seed represents.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 {
            return 0;
        }
        (self.next() % limit as u64) as usize
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// One call on a file.
#[derive(Clone, Debug)]
pub enum Op {
    Read {
        offset: usize,
        len: usize,
        shift: usize,
    },
    Write {
        offset: usize,
        len: usize,
        shift: usize,
        data: Data,
    },
    SetSize(usize),
    Allocate {
        offset: usize,
        len: usize,
    },
    Reopen,
}

/// The bytes that a write brings.
#[derive(Clone, Copy, Debug)]
pub enum Data {
    Zeros,
    Seed(u64),
}

impl Data {
    pub fn bytes(self, len: usize) -> Vec<u8> {
        match self {
            Self::Zeros => vec![0; len],
            Self::Seed(seed) => Rng(seed).bytes(len),
        }
    }
}

/// Offsets and lengths, many of them at the edges of blocks and pages.
pub fn place() -> impl Strategy<Value = usize> {
    let near = prop::sample::select(vec![0usize, 16, 32, 4096, 8192, 16384, 24576]);
    let off = prop::sample::select(vec![0isize, -1, 1, 0, 0]);
    prop_oneof![
        4 => (near, off).prop_map(|(at, by)| at.saturating_add_signed(by)),
        2 => 0usize..100,
        2 => 0usize..40_000,
        1 => (0usize..5).prop_map(|page| page * PAGE),
    ]
}

pub fn writes() -> impl Strategy<Value = Op> {
    let data = prop_oneof![1 => Just(Data::Zeros), 3 => any::<u64>().prop_map(Data::Seed)];
    (place(), place(), 0usize..17, data).prop_map(|(offset, len, shift, data)| Op::Write {
        offset,
        len,
        shift,
        data,
    })
}

pub fn resizes() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => place().prop_map(Op::SetSize),
        1 => (place(), place()).prop_map(|(offset, len)| Op::Allocate { offset, len: len + 1 }),
    ]
}

pub fn ops(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    let read = (place(), place(), 0usize..17).prop_map(|(offset, len, shift)| Op::Read {
        offset,
        len,
        shift,
    });
    let op = prop_oneof![4 => writes(), 2 => resizes(), 2 => read, 1 => Just(Op::Reopen)];
    prop::collection::vec(op, 1..longest)
}

/// A sealed file on its disk beside its plain reference.
pub struct Twin {
    pub kind: Kind,
    pub disk: MemDisk,
    pub plain: Vec<u8>,
    file: SealedFile<'static>,
    scratch: Box<Scratch>,
}

impl Twin {
    pub fn new(kind: Kind) -> Self {
        let (file, disk) = (kind.open(), MemDisk::default());
        Self {
            kind,
            disk,
            plain: Vec::new(),
            file,
            scratch: scratch(),
        }
    }

    pub fn built(kind: Kind, ops: &[Op]) -> Self {
        let mut twin = Self::new(kind);
        for op in ops {
            twin.apply(op);
        }
        twin
    }

    /// Does `op` to both and compares what it returns.
    pub fn apply(&mut self, op: &Op) {
        match *op {
            Op::Reopen => self.file = self.kind.open(),
            Op::Read { offset, len, shift } => {
                let got = self.read(offset, len, shift).unwrap();
                let from = offset.min(self.plain.len());
                let to = (offset + len).min(self.plain.len()).max(from);
                assert!(got == self.plain[from..to], "read {len} at {offset}");
            }
            Op::Write {
                offset,
                len,
                shift,
                data,
            } => {
                let data = data.bytes(len);
                assert_eq!(self.write(&data, offset, shift), Ok(len));
                put(&mut self.plain, offset, &data);
            }
            Op::SetSize(size) => {
                assert_eq!(self.set_size(size), Ok(()));
                self.plain.resize(size, 0);
            }
            Op::Allocate { offset, len } => {
                assert_eq!(self.allocate(offset, len), Ok(()));
                let size = self.plain.len().max(offset + len);
                self.plain.resize(size, 0);
            }
        }
    }

    /// Holds the scratch any of these clear bytes?
    pub fn scratch_holds(&self, clear: &[u8]) -> bool {
        let clear: std::collections::HashSet<&[u8]> = clear.windows(16).collect();
        let (unit, run) = (&self.scratch.unit, &self.scratch.run);
        unit.windows(16)
            .chain(run.windows(16))
            .any(|held| clear.contains(held))
    }

    pub fn read(&mut self, offset: usize, len: usize, shift: usize) -> Result<Vec<u8>, Errno> {
        // From the start of a line, so that whole pages are read in place.
        let mut memory = vec![0xEE; len + shift + 63];
        let line = memory.as_ptr().align_offset(64);
        let buf = &mut memory[line + shift..][..len];
        let transfer = &mut Transfer::new(&self.disk, &mut self.scratch);
        let got = self.file.read_at(transfer, buf, offset as u64)?;
        Ok(buf[..got].to_vec())
    }

    pub fn write(&mut self, data: &[u8], offset: usize, shift: usize) -> Result<usize, Errno> {
        let mut buf = vec![0xEE; shift];
        buf.extend_from_slice(data);
        let transfer = &mut Transfer::new(&self.disk, &mut self.scratch);
        self.file.write_at(transfer, &buf[shift..], offset as u64)
    }

    /// Writes pages that lie apart in memory, if the file takes them so.
    pub fn write_gathered(&mut self, data: &[u8], offset: usize) -> Result<Option<usize>, Errno> {
        let pages: Vec<Box<[u8]>> = data.chunks(PAGE).map(Box::from).collect();
        let pages = pages.iter().map(AsRef::as_ref);
        let transfer = &mut Transfer::new(&self.disk, &mut self.scratch);
        self.file.write_gathered(transfer, pages, offset as u64)
    }

    pub fn set_size(&mut self, size: usize) -> Result<(), Errno> {
        let transfer = &mut Transfer::new(&self.disk, &mut self.scratch);
        self.file.set_size(transfer, size as u64)
    }

    pub fn allocate(&mut self, offset: usize, len: usize) -> Result<(), Errno> {
        let transfer = &mut Transfer::new(&self.disk, &mut self.scratch);
        self.file.allocate(transfer, offset as u64, len as u64)
    }

    /// Checks what holds between any two calls: same bytes through a fresh open file, same size,
    /// and no stored block of zeros that was written.
    pub fn check(&self) {
        let content = self.kind.content(&self.disk);
        assert_eq!(content.len(), self.plain.len(), "size");
        let at = content.iter().zip(&self.plain).position(|(a, b)| a != b);
        assert_eq!(at, None, "first byte that differs");
        let misaligned = self.disk.misaligned.load(Ordering::Relaxed);
        assert!(misaligned == 0 || self.kind.layout == Layout::Keystream);
        if !self.kind.keeps_zeros() && self.kind.layout != Layout::Keystream {
            let from = usize::from(self.kind.layout == Layout::CONTROL); // the clear head
            let zeros = self.disk.written_zero_block(from);
            assert_eq!(zeros, None, "stored block of zeros");
        }
    }
}

/// pwrite on a plain file.
pub fn put(plain: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    let end = offset + data.len();
    if plain.len() < end {
        plain.resize(end, 0);
    }
    plain[offset..end].copy_from_slice(data);
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(digits: &str) -> Vec<u8> {
    let pair = |i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(pair).collect()
}
