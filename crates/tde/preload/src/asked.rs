//! The answer to a question that `pgseal` asks of a program before it relies on it: is the library
//! in it? The loader drops a library that it cannot map, with a warning at best, and the program
//! would write in clear. A server also says where it looks for its files when it is started as
//! another file, and the library says its version.

use crate::real::libc_call;
use crate::{server, version};
use libc::{c_char, c_int};
use pgseal_contract::variable;
use std::ffi::{CStr, CString};

/// The descriptor that takes the answer.
const ANSWER: &CStr = variable::ANSWER_FD.as_c_str();
/// The file that a server shall take itself for.
const STARTED_AS: &CStr = variable::STARTED_AS.as_c_str();

/// Answers if the variable asks for it: two paths, or two empty ones, and the library's version,
/// each with a null byte behind it. Called once, before `main`.
pub fn answer() {
    let fd = value(server::take_out(ANSWER)).and_then(|fd| fd.to_str().ok()?.parse::<c_int>().ok());
    let started_as = value(server::take_out(STARTED_AS)).unwrap_or_default();
    let Some(fd) = fd else {
        return;
    };
    let paths = [c"get_share_path", c"get_pkglib_path"].map(|name| path(name, &started_as));
    let [share, library] = paths.map(|path| path.unwrap_or_default().into_bytes_with_nul());
    let text = [&share[..], &library, version::VERSION.as_bytes(), b"\0"].concat();
    libc_call!(write(fd, text.as_ptr().cast(), text.len()));
    libc_call!(close(fd));
}

fn value(setting: Option<CString>) -> Option<CString> {
    let setting = setting?.into_bytes();
    let start = setting.iter().position(|&byte| byte == b'=')? + 1;
    CString::new(&setting[start..]).ok()
}

/// Returns the path that this function of the server finds for a start as `started_as`.
fn path(function: &CStr, started_as: &CStr) -> Option<CString> {
    type PathOf = unsafe extern "C" fn(*const c_char, *mut c_char);
    /// MAXPGPATH, and room.
    const MAX_LEN: usize = 4096;
    if started_as.count_bytes() >= 1000 {
        return None;
    }
    let address = server::symbol(function)?;
    let mut found = [0u8; MAX_LEN];
    // SAFETY: exported by every server with this type (port.h): it takes a path shorter than
    // MAXPGPATH (1024) and fills a buffer of that size with a terminated one.
    unsafe {
        let path_of: PathOf = std::mem::transmute(address);
        path_of(started_as.as_ptr(), found.as_mut_ptr().cast());
    }
    CStr::from_bytes_until_nul(&found).ok().map(CStr::to_owned)
}
