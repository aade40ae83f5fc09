//! libpq itself, as far as connections are concerned: found in the process when it is needed, for
//! most programs that the library is loaded into have none.

use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::ptr;

/// A connection; libpq's own business.
pub type Connection = *mut c_void;

/// `PQconninfoOption`, in all of libpq 9.0 to 18.
#[repr(C)]
#[allow(missing_docs)] // libpq-fe.h
pub struct Info {
    pub keyword: *mut c_char,
    envvar: *mut c_char,
    compiled: *mut c_char,
    pub val: *mut c_char,
    label: *mut c_char,
    dispchar: *mut c_char,
    dispsize: c_int,
}

/// `PQconnectStartParams`, and `PQconnectdbParams` too.
pub type ConnectParams =
    unsafe extern "C" fn(*const *const c_char, *const *const c_char, c_int) -> Connection;
/// `PQconnectdb`.
pub type Connect = unsafe extern "C" fn(*const c_char) -> Connection;
/// `PQconninfo`.
pub type Conninfo = unsafe extern "C" fn(Connection) -> *mut Info;
type Text = unsafe extern "C" fn(Connection) -> *mut c_char;
type Finish = unsafe extern "C" fn(Connection);

/// libpq's function `name` as a function of type `F`.
///
/// # Safety
/// `F` is the type that libpq-fe.h gives it.
pub unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    let address = find(name)?;
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a function's address, of the type that the caller vouches for.
    Some(unsafe { ptr::read(ptr::from_ref(&address).cast::<F>()) })
}

/// The next one after ours; a libpq that was loaded for one module only is not in line.
fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: terminated names; the handle is of a library that stays loaded as long as its caller.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if !next.is_null() {
            return Some(next);
        }
        let flags = libc::RTLD_NOLOAD | libc::RTLD_LAZY;
        let handle = libc::dlopen(c"libpq.so.5".as_ptr(), flags);
        if handle.is_null() {
            return None;
        }
        let address = libc::dlsym(handle, name.as_ptr());
        libc::dlclose(handle);
        (!address.is_null()).then_some(address)
    }
}

/// What libpq makes of parameters together with environment, service file and defaults.
pub struct Resolved {
    /// The role to connect as.
    pub role: Vec<u8>,
    /// The options for the server.
    pub options: Vec<u8>,
    /// Whether it is to be a replication connection, as it was written.
    pub replication: Vec<u8>,
}

/// Connection parameters: keywords and values as `PQconnectdbParams` takes them, and ours, which
/// come last and so override the others.
pub struct Parameters {
    keywords: Vec<*const c_char>,
    values: Vec<*const c_char>,
    expand_dbname: c_int,
}

impl Parameters {
    /// The caller's.
    ///
    /// # Safety
    /// Two arrays of C strings that outlive this, the first with a null at its end.
    pub unsafe fn new(
        keywords: *const *const c_char,
        values: *const *const c_char,
        expand_dbname: c_int,
    ) -> Self {
        // SAFETY: as above.
        let given = |array: *const *const c_char, at| unsafe { *array.add(at) };
        let count = (0..)
            .take_while(|&at| !given(keywords, at).is_null())
            .count();
        Self {
            keywords: (0..count).map(|at| given(keywords, at)).collect(),
            values: (0..count).map(|at| given(values, at)).collect(),
            expand_dbname,
        }
    }

    /// Those of a connection string.
    pub fn of_string(conninfo: &CStr) -> Self {
        let given = !conninfo.is_empty();
        Self {
            keywords: given.then_some(c"dbname".as_ptr()).into_iter().collect(),
            values: given.then_some(conninfo.as_ptr()).into_iter().collect(),
            expand_dbname: 1,
        }
    }

    /// Connects with `connect`, and with other options.
    pub fn connect(&self, connect: ConnectParams, options: &CStr) -> Connection {
        self.connect_with(connect, &[(c"options", options)])
    }

    /// Asks libpq. It tells what it would connect with once it has been told to connect; nobody can
    /// listen below /dev/null, so that attempt ends at once.
    pub fn resolve(&self) -> Option<Resolved> {
        let nowhere = [(c"host", c"/dev/null"), (c"hostaddr", c""), (c"port", c"1")];
        // SAFETY: the types of libpq-fe.h; the connection is finished once, after its last use.
        unsafe {
            let start = function::<ConnectParams>(c"PQconnectStartParams")?;
            let user = function::<Text>(c"PQuser")?;
            let options = function::<Text>(c"PQoptions")?;
            let replication = function::<Conninfo>(c"PQconninfo")?;
            let finish = function::<Finish>(c"PQfinish")?;
            let connection = self.connect_with(start, &nowhere);
            let role = text(user(connection));
            let options = text(options(connection)).unwrap_or_default();
            let replication = value(replication(connection), c"replication").unwrap_or_default();
            finish(connection);
            let role = role.filter(|role| !role.is_empty())?;
            Some(Resolved {
                role,
                options,
                replication,
            })
        }
    }

    /// Does a keyword or value contain `word`?
    pub fn mention(&self, word: &str) -> bool {
        let contains = |&pointer: &*const c_char| {
            // SAFETY: the caller's strings, and null for a value that was not given.
            unsafe { text(pointer) }
                .is_some_and(|text| text.windows(word.len()).any(|part| part == word.as_bytes()))
        };
        self.keywords.iter().chain(&self.values).any(contains)
    }

    fn connect_with(&self, connect: ConnectParams, more: &[(&CStr, &CStr)]) -> Connection {
        let ours = more.iter().map(|(keyword, _)| keyword.as_ptr());
        let keywords: Vec<_> = self
            .keywords
            .iter()
            .copied()
            .chain(ours)
            .chain([ptr::null()])
            .collect();
        let ours = more.iter().map(|(_, value)| value.as_ptr());
        let values: Vec<_> = self
            .values
            .iter()
            .copied()
            .chain(ours)
            .chain([ptr::null()])
            .collect();
        // SAFETY: terminated arrays of live strings, as libpq asks.
        unsafe { connect(keywords.as_ptr(), values.as_ptr(), self.expand_dbname) }
    }
}

/// The value of `keyword` in libpq's array, which is freed.
///
/// # Safety
/// Null, or what `PQconninfo` gave.
unsafe fn value(infos: *mut Info, keyword: &CStr) -> Option<Vec<u8>> {
    if infos.is_null() {
        return None;
    }
    // SAFETY: the array ends with a null keyword, and is freed once.
    unsafe {
        let free = function::<unsafe extern "C" fn(*mut Info)>(c"PQconninfoFree")?;
        let found = (0..)
            .map(|at| infos.add(at))
            .take_while(|info| !(**info).keyword.is_null())
            .find(|info| CStr::from_ptr((**info).keyword) == keyword);
        let value = found.and_then(|info| text((*info).val));
        free(infos);
        value
    }
}

/// # Safety
/// Null or a C string.
unsafe fn text(pointer: *const c_char) -> Option<Vec<u8>> {
    // SAFETY: as above.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_bytes().to_vec())
}

/// Is this a connection string, and not a mere name?
pub fn is_conninfo(text: &CStr) -> bool {
    let bytes = text.to_bytes();
    let scheme = |name: &[u8]| bytes.starts_with(name);
    bytes.is_empty() || bytes.contains(&b'=') || scheme(b"postgresql://") || scheme(b"postgres://")
}
