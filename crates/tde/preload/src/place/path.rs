//! Absolute, normalised paths in a buffer on the stack: looking a path up allocates nothing.

use super::direct;
use libc::{c_int, PATH_MAX};
use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

const MAX: usize = PATH_MAX as usize;

/// A path without `.`, `..`, doubled or trailing slashes. Below a data directory also used without
/// the leading slash. Every open makes one: its 4 kB are neither cleared nor moved on that way.
///
/// Invariant: the first `len` bytes and a NUL behind them are initialised.
pub struct Absolute {
    len: usize,
    buf: [MaybeUninit<u8>; MAX],
}

impl Absolute {
    /// The root directory.
    pub const fn empty() -> Self {
        let mut buf = [MaybeUninit::uninit(); MAX];
        buf[0] = MaybeUninit::new(0);
        Self { len: 0, buf }
    }

    /// Becomes `path` as seen from the working directory. None if it gets too long, or if that
    /// directory has no path any more.
    pub fn set(&mut self, path: &CStr) -> Option<()> {
        let path = path.to_bytes();
        self.set_len(0);
        if !path.starts_with(b"/") {
            self.append_working_directory()?;
        }
        self.append(path)
    }

    /// Becomes `path` as seen from an open directory. None also if that has no path any more: what
    /// the kernel then gives for one leads elsewhere, or nowhere.
    pub fn set_below(&mut self, directory: c_int, path: &CStr) -> Option<()> {
        let link = CString::new(format!("/proc/self/fd/{directory}")).ok()?;
        self.read_link(&link)?;
        if !self.leads_where(&link) {
            return None;
        }
        self.append(path.to_bytes())
    }

    /// A path that is absolute and normalised already.
    pub fn from_bytes(path: &[u8]) -> Option<Self> {
        let mut absolute = Self::empty();
        absolute.push(path)?;
        Some(absolute)
    }

    /// Its bytes, without a NUL.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialised, by the type's invariant.
        unsafe { std::slice::from_raw_parts(self.buf.as_ptr().cast(), self.len) }
    }

    /// As a C string of its own.
    pub fn to_c(&self) -> CString {
        CString::new(self.bytes()).unwrap_or_default()
    }

    /// Is this a path below the directory `root`?
    pub fn is_below(&self, root: &[u8]) -> bool {
        self.bytes()
            .strip_prefix(root)
            .is_some_and(|rest| rest.starts_with(b"/"))
    }

    /// Returns what follows the directory `root` and its slash; empty if the path is not below it.
    pub fn after(&self, root: &[u8]) -> &[u8] {
        let rest = self.bytes().strip_prefix(root);
        rest.and_then(|rest| rest.strip_prefix(b"/"))
            .unwrap_or_default()
    }

    /// `self/name`.
    pub fn join(&self, name: &[u8]) -> Option<Self> {
        let mut joined = Self::from_bytes(self.bytes())?;
        joined.push(b"/")?;
        joined.push(name)?;
        Some(joined)
    }

    /// The directories above, nearest first, without the root directory.
    pub fn ancestors(&self) -> impl Iterator<Item = &[u8]> {
        let mut path = self.bytes();
        std::iter::from_fn(move || {
            path = parent(path)?;
            Some(path)
        })
    }

    /// Returns the path without symbolic links. The last name need not exist yet; the directory
    /// above it must, if a link leads to it.
    pub fn real(&self) -> Option<Self> {
        let path = self.terminated()?;
        if direct::is_direct(path) {
            return Self::from_bytes(self.bytes());
        }
        real_path(path).or_else(|| self.real_of_missing())
    }

    /// Returns the real path of a file that is not there. A link that hangs leads to where `open`
    /// makes one.
    #[inline(never)]
    fn real_of_missing(&self) -> Option<Self> {
        const MAX_LINKS: usize = 40; // as many as the kernel follows
        let mut path = Self::from_bytes(self.bytes())?;
        for _ in 0..=MAX_LINKS {
            path = path.in_real_directory()?;
            let Ok(target) = std::fs::read_link(OsStr::from_bytes(path.bytes())) else {
                return Some(path);
            };
            let start = parent(path.bytes()).filter(|_| target.is_relative());
            path = Self::from_bytes(start.unwrap_or_default())?;
            path.append(target.as_os_str().as_bytes())?;
        }
        None
    }

    fn in_real_directory(&self) -> Option<Self> {
        let Some(directory) = parent(self.bytes()) else {
            return Self::from_bytes(self.bytes());
        };
        let above = Self::from_bytes(directory)?;
        real_path(above.terminated()?)?.join(self.after(directory))
    }

    /// The path below `name` if `link` leads to a directory above this one, which is a real path.
    pub fn through_link(&self, link: &Self, name: &[u8]) -> Option<Self> {
        let target = real_path(link.terminated()?)?;
        if !self.is_below(target.bytes()) {
            return None;
        }
        Self::from_bytes(name)?.join(self.after(target.bytes()))
    }

    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        // One byte stays for the NUL.
        let end = self.len.checked_add(bytes.len()).filter(|&end| end < MAX)?;
        // SAFETY: the range is within the buffer, as just checked; the two do not overlap.
        unsafe {
            let target = self.buf.as_mut_ptr().add(self.len).cast();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        self.set_len(end);
        Some(())
    }

    fn append(&mut self, path: &[u8]) -> Option<()> {
        for part in path.split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => self.ascend(),
                name => {
                    self.push(b"/")?;
                    self.push(name)?;
                }
            }
        }
        Some(())
    }

    /// `..` leads out of where a symbolic link leads to, not out of where it is.
    #[inline(never)]
    fn ascend(&mut self) {
        if let Some(real) = self.terminated().and_then(real_path) {
            *self = real;
        }
        self.set_len(
            self.bytes()
                .iter()
                .rposition(|&byte| byte == b'/')
                .unwrap_or(0),
        );
    }

    /// Keeps the NUL behind the last byte; what is before it must be initialised.
    fn set_len(&mut self, len: usize) {
        self.len = len;
        self.buf[len] = MaybeUninit::new(0);
    }

    fn append_working_directory(&mut self) -> Option<()> {
        // SAFETY: the pointer and the length are the buffer's own.
        let len = unsafe { libc::syscall(libc::SYS_getcwd, self.buf.as_mut_ptr(), MAX) };
        // The length counts the NUL; "(unreachable)" is no path.
        let len = usize::try_from(len).ok().filter(|&len| len > 1)? - 1;
        self.set_len(len);
        let absolute = self.bytes().starts_with(b"/");
        if len == 1 {
            self.set_len(0);
        }
        absolute.then_some(())
    }

    fn read_link(&mut self, link: &CStr) -> Option<()> {
        // SAFETY: the pointer and the length are the buffer's own.
        let len = unsafe { libc::readlink(link.as_ptr(), self.buf.as_mut_ptr().cast(), MAX) };
        self.set_len(usize::try_from(len).ok().filter(|&len| len < MAX)?);
        self.bytes().starts_with(b"/").then_some(())
    }

    /// Does this path lead where the link does? Not if what the link names was moved out of sight.
    #[inline(never)]
    fn leads_where(&self, link: &CStr) -> bool {
        identity(&[self.bytes()]) == identity(&[link.to_bytes()])
    }

    fn terminated(&self) -> Option<&CStr> {
        // SAFETY: a NUL follows the first `len` bytes, by the type's invariant.
        let bytes = unsafe { std::slice::from_raw_parts(self.buf.as_ptr().cast(), self.len + 1) };
        CStr::from_bytes_with_nul(bytes).ok()
    }
}

/// Device and inode of what the path of these pieces leads to, if there is something.
pub fn identity(pieces: &[&[u8]]) -> Option<(u64, u64)> {
    let mut path = Absolute::empty();
    pieces.iter().try_for_each(|piece| path.push(piece))?;
    let path = path.terminated()?;
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path is terminated; stat fills the structure when it returns 0.
    unsafe {
        (libc::stat(path.as_ptr(), stat.as_mut_ptr()) == 0).then(|| {
            let stat = stat.assume_init();
            (stat.st_dev, stat.st_ino)
        })
    }
}

/// Does this name lead nowhere, because what it starts from is no directory, or one that was
/// removed? Out of that `..` still leads.
pub fn leads_nowhere(directory: c_int, path: &CStr) -> bool {
    let mut names = path.to_bytes().split(|&byte| byte == b'/');
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path is terminated; fstatat fills the structure when it returns 0.
    unsafe {
        let flags = libc::AT_EMPTY_PATH;
        let found = libc::fstatat(directory, c"".as_ptr(), stat.as_mut_ptr(), flags) == 0;
        !found || {
            let stat = stat.assume_init();
            let is_directory = stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
            !is_directory || (stat.st_nlink == 0 && !names.any(|name| name == b".."))
        }
    }
}

/// The name of the link in `directory` that leads to `location`, a real path.
pub fn link_to(location: &[u8], directory: &Absolute) -> Option<Vec<u8>> {
    let entries = std::fs::read_dir(OsStr::from_bytes(directory.bytes())).ok()?;
    let mut names = entries.flatten().map(|entry| entry.file_name().into_vec());
    names.find(|name| {
        let target = directory.join(name);
        let target = target.and_then(|link| real_path(link.terminated()?));
        target.is_some_and(|target| target.bytes() == location)
    })
}

/// The last name of a path.
pub fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// The directory that an absolute path is in, but not the root directory.
pub fn parent(path: &[u8]) -> Option<&[u8]> {
    let slash = path
        .iter()
        .rposition(|&byte| byte == b'/')
        .filter(|&at| at > 0)?;
    path.get(..slash)
}

fn real_path(path: &CStr) -> Option<Absolute> {
    let mut real = Absolute::empty();
    // SAFETY: realpath writes at most PATH_MAX bytes, NUL included.
    let found = unsafe { libc::realpath(path.as_ptr(), real.buf.as_mut_ptr().cast()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: realpath wrote a terminated path.
    let len = unsafe { CStr::from_ptr(found) }.to_bytes().len();
    real.set_len(if len == 1 { 0 } else { len });
    Some(real)
}
