//! Names whose directory is opened before they are judged.
//!
//! A role can remove, rename and link files by SQL (`adminpack` on PostgreSQL 15 and 16, an
//! extension elsewhere), and a user of the machine can exchange a directory on the way for a link.
//! The kernel would follow the path twice: to the file that is judged, and to the one that is
//! removed. So a process that runs SQL opens the directory once, and both go by its descriptor.
//! Only the file's own name is left to look up. The kernel follows no link there.

use super::moving::Name;
use crate::disk::{check, Owned};
use crate::real::libc_call;
use crate::receivers;
use libc::c_int;
use pgseal_storage::Errno;
use std::ffi::{CStr, CString};

/// A name below a directory that stays the same.
pub struct Pinned<'a> {
    name: Name<'a>,
    /// Keeps the directory open.
    _parent: Option<Owned>,
}

impl<'a> Pinned<'a> {
    /// Opens the directory that the name is in, in a process that runs SQL. Any other process
    /// names its own files: its names stay as they are.
    ///
    /// # Errors
    ///
    /// The errno with which the directory cannot be opened. The removal or the rename would fail
    /// with it, too.
    pub fn new(directory: c_int, path: &'a CStr) -> Result<Self, Errno> {
        let given = Name::at(directory, path);
        let split = last_name(path).filter(|_| receivers::runs_sql());
        let Some((parent, last)) = split else {
            return Ok(Self {
                name: given,
                _parent: None,
            });
        };
        let parent = CString::new(parent).map_err(|_| Errno::EINVAL)?;
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let fd = check(libc_call!(openat(directory, parent.as_ptr(), flags, 0)))?;
        let parent = Owned(c_int::try_from(fd).map_err(|_| Errno::EIO)?);
        let name = Name {
            directory: parent.0,
            path: last,
            given: path,
        };
        Ok(Self {
            name,
            _parent: Some(parent),
        })
    }

    /// The name, below the open directory.
    pub fn name(&self) -> &Name<'a> {
        &self.name
    }
}

/// Splits a path into its directory, with the slash, and its last name, with the slashes that end
/// the path. None: the path has no directory.
fn last_name(path: &CStr) -> Option<(&[u8], &CStr)> {
    let bytes = path.to_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/')?;
    let slash = bytes[..end].iter().rposition(|&byte| byte == b'/')?;
    let (parent, _) = bytes.split_at(slash + 1);
    let last = CStr::from_bytes_with_nul(&path.to_bytes_with_nul()[slash + 1..]).ok()?;
    Some((parent, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_keeps_its_slashes() {
        let cases = [
            (c"base/5/16384", Some(("base/5/", c"16384"))),
            (c"/a", Some(("/", c"a"))),
            (c"a//b", Some(("a//", c"b"))),
            (c"a/b//", Some(("a/", c"b//"))),
            (c"a", None),
            (c"a/", None),
            (c"//", None),
        ];
        for (path, split) in cases {
            let split = split.map(|(parent, last): (&str, _)| (parent.as_bytes(), last));
            assert_eq!(last_name(path), split, "{path:?}");
        }
    }
}
