//! Data directories of sealed files: real pages of PostgreSQL 15, sealed by pgseal-storage.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use pgseal_crypto::{FileCipher, KeyLength, MasterKey, UNIT};
use pgseal_storage::classify::{classify, Class};
use pgseal_storage::layout::Spec;
use pgseal_storage::scratch::Scratch;
use pgseal_storage::{Disk, Errno, Lock, SealedFile, Transfer};
use serde_json::Value;

use super::{master, plain, Cluster};

pub const RELATION: &str = "base/5/16384";
pub const WAL: &str = "pg_wal/000000010000000000000001";
pub const WAL_SIZE: u64 = 16 << 20;
/// The blocks of [`RELATION`]; those between hold zeros that were written.
pub const HEAP_BLOCKS: [u64; 2] = [0, 5];

/// Returns page `index` of pages15.bin; crates/tde/check/src/pages/samples.rs says what each is.
pub fn sample(index: usize) -> Vec<u8> {
    let all = include_bytes!("../../../tde/check/tests/data/pages15.bin");
    all[index * UNIT..(index + 1) * UNIT].to_vec()
}

/// `pg_control` of case `index` of vectors/control.json.
pub fn control(index: usize) -> Vec<u8> {
    let text = include_str!("../../../../vectors/control.json");
    let vectors: Value = serde_json::from_str(text).expect("JSON");
    let digits = vectors["cases"][index]["page"].as_str().expect("a page");
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
    let mut page: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
    page.resize(UNIT, 0);
    page
}

struct OnDisk(File);

impl Disk for OnDisk {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.0.read_at(buf, offset).map_err(|_| Errno::EIO)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize, Errno> {
        self.0.write_at(buf, offset).map_err(|_| Errno::EIO)
    }
    fn size(&self) -> Result<u64, Errno> {
        let metadata = self.0.metadata().map_err(|_| Errno::EIO)?;
        Ok(metadata.len())
    }
    fn set_size(&self, size: u64) -> Result<(), Errno> {
        self.0.set_len(size).map_err(|_| Errno::EIO)
    }
    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.set_size(offset + len)
    }
    fn lock(&self, _: Lock) -> Result<(), Errno> {
        Ok(())
    }
}

/// A sealed cluster of a few files, all of them good.
pub struct Data(pub Cluster);

impl Data {
    pub fn new() -> Self {
        let data = Self(Cluster::new([plain()]));
        data.seal("global/pg_control", &control(0));
        data.clear("PG_VERSION", b"15\n");
        data.seal(RELATION, &heap());
        data.seal("base/5/16384_fsm", &sample(2));
        data.seal("pg_xact/0000", &sample(10));
        let system_id = control(0)[..8].to_vec();
        data.seal(WAL, &wal(&system_id));
        let wal = OpenOptions::new().write(true).open(data.path(WAL));
        wal.and_then(|wal| wal.set_len(WAL_SIZE)).expect("a hole");
        data
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.data().join(name)
    }

    /// A file as the library would store it.
    pub fn seal(&self, name: &str, bytes: &[u8]) {
        self.seal_as(name, name, bytes);
    }

    /// The bytes that belong to the name `identity`, under another name.
    pub fn seal_as(&self, name: &str, identity: &str, bytes: &[u8]) {
        self.seal_with(&master(), name, identity, bytes);
    }

    /// Seals `bytes` with `key` in the file `name`.
    pub fn seal_with(&self, key: &MasterKey, name: &str, identity: &str, bytes: &[u8]) {
        self.clear(name, b"");
        let spec = spec(identity);
        let cipher = FileCipher::new(key, KeyLength::Bits256, &spec.id);
        let sealed = SealedFile::new(cipher, spec.layout);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(self.path(name));
        let (disk, mut scratch) = (OnDisk(file.expect("a file")), Box::new(Scratch::new()));
        let mut done = 0;
        while done < bytes.len() {
            let written = sealed.write_at(
                &mut Transfer::new(&disk, &mut scratch),
                &bytes[done..],
                done as u64,
            );
            done += written.expect("it can be written");
        }
    }

    /// A file as it is.
    pub fn clear(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, bytes).expect("a file");
    }

    pub fn stored(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("a file")
    }

    /// Changes the stored bytes of a file.
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.stored(name);
        change(&mut bytes);
        self.clear(name, &bytes);
    }

    pub fn flip(&self, name: &str, at: usize) {
        self.change(name, |bytes| bytes[at] ^= 1);
    }
}

fn spec(name: &str) -> Spec {
    match classify(name.as_bytes()).class {
        Class::Sealed(spec) => spec,
        Class::WalSegment(wal) => wal.spec(WAL_SIZE).expect("a segment"),
        other => panic!("{name} is not sealed: {other:?}"),
    }
}

/// Blocks 0 and 5 of a real table, and zeros between them.
pub fn heap() -> Vec<u8> {
    let mut heap = sample(0);
    heap.resize(5 * UNIT, 0);
    heap.extend(sample(1));
    heap
}

/// The first three pages of a segment; the third has its own address.
pub fn wal(system_id: &[u8]) -> Vec<u8> {
    let (mut first, second, mut third) = (sample(11), sample(12), sample(12));
    first[24..32].copy_from_slice(system_id);
    third[8..16].copy_from_slice(&(WAL_SIZE + 2 * UNIT as u64).to_le_bytes());
    [first, second, third].concat()
}
