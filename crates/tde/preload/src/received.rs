//! WAL that a receiver stores in another form than as files of segments, sealed on its way there.
//!
//! pg_basebackup puts it into `pg_wal.tar`, beside a raw copy of a sealed server, or compresses
//! that tar; pg_receivewal compresses segments. What they receive is clear. The tar's file is
//! written through the descriptor table ([`crate::files::Stored`]); what is compressed is sealed
//! before, where the program calls its compressor ([`crate::hooks::compressors`]). So what is
//! compressed, and what is in the tar, are the very bytes that the segments' files would hold.
//!
//! Invariants:
//! 1. It applies where a wrapper has said how long the segments of a sealed server are.
//! 2. A file for compressed WAL is opened only if the program's calls of that compressor lead here.
//! 3. Both programs write one such file at a time; what comes out of order is refused.

use crate::clusters::{self, Cluster};
use crate::disk::FdDisk;
use crate::hooks::compressors::{self, Calls, Compressor};
use crate::memory::MEMORY;
use crate::packed::{Decompressor, Packed};
use crate::{packed, programs, wal};
use libc::c_int;
use pgseal_storage::layout::Spec;
use pgseal_storage::passing::Passing;
use pgseal_storage::tar::{Keys, TarFile, TarStream};
use pgseal_storage::wal::WalName;
use pgseal_storage::{Errno, SealedFile};
use std::ffi::CStr;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The WAL that this process receives.
pub static RECEIVED: Received = Received {
    receiver: OnceLock::new(),
    flow: Mutex::new(Flow::Nothing),
    compressors: Calls::new(),
    packed: Packed::new(),
};

/// The receiver of WAL, and what becomes of it.
pub struct Received {
    /// The program, if it receives the WAL of a sealed server.
    receiver: OnceLock<Receiver>,
    flow: Mutex<Flow>,
    /// The program's calls of compressors.
    pub compressors: Calls,
    /// The tar that it reads.
    pub packed: Packed,
}

#[derive(Clone, Copy, PartialEq)]
enum Receiver {
    BaseBackup,
    ReceiveWal,
}

/// How a file stores WAL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// A tar.
    Tar,
    /// A tar that is compressed.
    TarStream,
    /// One segment, compressed.
    Segment(WalName, Compressor),
    /// Timeline history, compressed: clear.
    History,
    /// A tar that is read ([`crate::packed`]), and how it is compressed.
    Packed(Option<Decompressor>),
}

/// The content that the file that is being written takes next.
#[derive(Default)]
enum Flow {
    #[default]
    Nothing,
    Clear,
    Tar(TarFile<'static>),
    TarStream(TarStream<'static>),
    Segment(Passing<'static>),
}

/// Called once, before `main`.
pub fn start() {
    if wal::announced_segment_size().is_none() {
        return;
    }
    if programs::is("pg_basebackup") {
        // What it compresses by gzwrite is the raw copy.
        compressors::take_deflate();
        let _ = RECEIVED.receiver.set(Receiver::BaseBackup);
    } else if programs::is("pg_receivewal") {
        compressors::take_gzip();
        compressors::take_lz4();
        let _ = RECEIVED.receiver.set(Receiver::ReceiveWal);
    }
}

/// The form of the WAL in the file that is about to be made or read, if it is another one than a
/// segment's.
pub fn form(path: &CStr, flags: c_int) -> Option<Form> {
    if let Some(by) = packed::form(path, flags) {
        return Some(Form::Packed(by));
    }
    let receiver = RECEIVED.receiver.get()?;
    if flags & libc::O_CREAT == 0 || flags & libc::O_ACCMODE == libc::O_RDONLY {
        return None;
    }
    let name = path.to_bytes().rsplit(|&byte| byte == b'/').next()?;
    match receiver {
        Receiver::BaseBackup => match name {
            b"pg_wal.tar" => Some(Form::Tar),
            b"pg_wal.tar.gz" => Some(Form::TarStream),
            _ => None,
        },
        Receiver::ReceiveWal => compressed(name),
    }
}

fn compressed(name: &[u8]) -> Option<Form> {
    let unfinished = [&b".partial"[..], b".tmp"];
    let end = unfinished.iter().find(|end| name.ends_with(end));
    let name = &name[..name.len() - end.map_or(0, |end| end.len())];
    let kinds = [(&b".gz"[..], Compressor::Gzip), (b".lz4", Compressor::Lz4)];
    kinds.into_iter().find_map(|(end, compressor)| {
        let name = name.strip_suffix(end)?;
        if name.ends_with(b".history") {
            return Some(Form::History);
        }
        Some(Form::Segment(WalName::parse(name)?, compressor))
    })
}

/// The file of this form is next.
pub fn begin(form: Form) -> Result<(), &'static str> {
    if let Form::Packed(by) = form {
        return packed::begin(by);
    }
    let seen = match form {
        Form::Tar | Form::History | Form::Packed(_) => true,
        Form::TarStream => Compressor::Deflate.leads_here(),
        Form::Segment(_, compressor) => compressor.leads_here(),
    };
    if !seen {
        return Err("this program compresses WAL before it can be sealed");
    }
    let keys = Ours::find().ok_or("there is no one key for the WAL that it is to hold")?;
    let flow = match form {
        Form::Tar => Flow::Tar(TarFile::default()),
        Form::TarStream => Flow::TarStream(TarStream::default()),
        Form::History | Form::Packed(_) => Flow::Clear,
        Form::Segment(name, _) => {
            let spec = name.spec(keys.segment_size());
            let spec = spec.ok_or("no segment of the server has this name")?;
            Flow::Segment(Passing::new(keys.open(&spec)))
        }
    };
    put(flow);
    Ok(())
}

/// Writes to the tar.
pub fn write_tar(disk: &FdDisk, data: &[u8], offset: u64) -> Result<usize, Errno> {
    with(|keys, flow| match flow {
        Flow::Tar(tar) => disk.transfer(|transfer| tar.write_at(keys, transfer, data, offset)),
        _ => Err(Errno::EIO),
    })
}

/// Cuts the tar.
pub fn cut_tar(disk: &FdDisk, size: u64) -> Result<(), Errno> {
    with(|_, flow| match flow {
        Flow::Tar(tar) => tar.cut(disk, size),
        _ => Err(Errno::EIO),
    })
}

/// Appends to `out` what of `data` may be compressed now.
pub fn pass(data: &[u8], out: &mut Vec<u8>) -> Result<(), Errno> {
    with(|keys, flow| {
        MEMORY.with_scratch(|scratch| match flow {
            Flow::TarStream(tar) => tar.push(keys, scratch, data, out),
            Flow::Segment(segment) => segment.push(scratch, data, out),
            Flow::Clear => {
                out.extend_from_slice(data);
                Ok(())
            }
            Flow::Nothing | Flow::Tar(_) => Err(Errno::EIO),
        })
    })
}

/// Appends to `out` what was held back of the file that ends here.
pub fn finish(out: &mut Vec<u8>) -> Result<(), Errno> {
    with(|_, flow| match std::mem::take(flow) {
        Flow::Segment(mut segment) => MEMORY.with_scratch(|scratch| segment.finish(scratch, out)),
        _ => Ok(()),
    })
}

/// The lock is not held while `work` runs, because that may call libc; what meanwhile comes from a
/// signal handler finds nothing and is refused.
fn with<T>(work: impl FnOnce(&Ours, &mut Flow) -> Result<T, Errno>) -> Result<T, Errno> {
    let keys = Ours::find().ok_or(Errno::EIO)?;
    let mut flow =
        std::mem::take(&mut *RECEIVED.flow.lock().unwrap_or_else(PoisonError::into_inner));
    let result = work(&keys, &mut flow);
    put(flow);
    result
}

fn put(flow: Flow) {
    *RECEIVED.flow.lock().unwrap_or_else(PoisonError::into_inner) = flow;
}

/// The server's key, and the size of its segments.
struct Ours {
    cluster: &'static Cluster,
    segment_size: u64,
}

impl Ours {
    fn find() -> Option<Self> {
        Some(Self {
            cluster: clusters::sole()?,
            segment_size: wal::announced_segment_size()?,
        })
    }
}

impl Keys<'static> for Ours {
    fn segment_size(&self) -> u64 {
        self.segment_size
    }

    fn open(&self, spec: &Spec) -> SealedFile<'static> {
        self.cluster.open(spec)
    }
}
