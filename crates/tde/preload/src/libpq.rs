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

/// Returns libpq's function `name` as a function of type `F`.
///
/// # Safety
/// `F` is the type that libpq-fe.h gives it.
pub unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    let address = find(name)?;
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: `address` is a function's, of the type that the caller vouches for.
    Some(unsafe { ptr::read(ptr::from_ref(&address).cast::<F>()) })
}

/// Finds the program's own function; a libpq that was loaded for a module is not in line.
fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: both names are terminated; the handle's library stays loaded as long as its user.
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

/// The parameters that libpq makes of what it is given, environment, service file and defaults.
pub struct Resolved {
    /// The role to connect as.
    pub role: Vec<u8>,
    /// The options for the server.
    pub options: Vec<u8>,
    /// Whether it is to be a replication connection, as it was written.
    pub replication: Vec<u8>,
    /// How TLS is asked for.
    pub sslmode: Vec<u8>,
    /// How GSS encryption is asked for.
    pub gssencmode: Vec<u8>,
}

/// Connection parameters: keywords and values as `PQconnectdbParams` takes them, and ours, which
/// come last and so override the others.
pub struct Parameters {
    keywords: Vec<*const c_char>,
    values: Vec<*const c_char>,
    expand_dbname: c_int,
}

impl Parameters {
    /// Takes the caller's parameters.
    ///
    /// # Safety
    /// The arguments are arrays of C strings that outlive this, the first with a null at its end;
    /// the second is as long.
    pub unsafe fn new(
        keywords: *const *const c_char,
        values: *const *const c_char,
        expand_dbname: c_int,
    ) -> Self {
        // SAFETY: `at` stops at the null that ends `keywords`, and `values` is as long.
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

    /// Takes those of a connection string.
    pub fn of_string(conninfo: &CStr) -> Self {
        let given = !conninfo.is_empty();
        Self {
            keywords: given.then_some(c"dbname".as_ptr()).into_iter().collect(),
            values: given.then_some(conninfo.as_ptr()).into_iter().collect(),
            expand_dbname: 1,
        }
    }

    /// Asks libpq. It says what it would connect with once it has been told to connect; no server
    /// can listen below /dev/null, so that attempt ends at once.
    pub fn resolve(&self) -> Option<Resolved> {
        let nowhere = [(c"host", c"/dev/null"), (c"hostaddr", c""), (c"port", c"1")];
        // SAFETY: the types are those of libpq-fe.h; the connection is finished once, after all
        // its uses.
        let told = unsafe {
            let start = function::<ConnectParams>(c"PQconnectStartParams")?;
            let finish = function::<Finish>(c"PQfinish")?;
            let connection = self.connect(start, &nowhere);
            let told = Told::of(connection);
            finish(connection);
            told?
        };
        let resolved = Resolved {
            role: told.value(c"user"),
            options: told.value(c"options"),
            replication: told.value(c"replication"),
            sslmode: told.value(c"sslmode"),
            gssencmode: told.value(c"gssencmode"),
        };
        Some(resolved).filter(|resolved| !resolved.role.is_empty())
    }

    /// Would libpq connect over local sockets only? It is told to connect in a way that it does not
    /// know, which it refuses before it connects, and says what it would have connected to.
    pub fn are_local(&self) -> bool {
        let refused = [(c"target_session_attrs", c"none")];
        // SAFETY: as in `resolve`.
        let told = unsafe {
            let (Some(start), Some(finish)) = (
                function::<ConnectParams>(c"PQconnectStartParams"),
                function::<Finish>(c"PQfinish"),
            ) else {
                return false;
            };
            let connection = self.connect(start, &refused);
            let told = Told::of(connection);
            finish(connection);
            told
        };
        told.is_some_and(|told| {
            let (hosts, addresses) = (told.value(c"host"), told.value(c"hostaddr"));
            let mut hosts = hosts.split(|&byte| byte == b',');
            addresses.is_empty() && hosts.all(is_socket)
        })
    }

    /// Connects with `connect`, and with `more`.
    pub fn connect(
        &self,
        connect: ConnectParams,
        more: &[(&CStr, impl AsRef<CStr>)],
    ) -> Connection {
        let ours = more.iter().map(|(keyword, _)| keyword.as_ptr());
        let keywords: Vec<_> = self
            .keywords
            .iter()
            .copied()
            .chain(ours)
            .chain([ptr::null()])
            .collect();
        let ours = more.iter().map(|(_, value)| value.as_ref().as_ptr());
        let values: Vec<_> = self
            .values
            .iter()
            .copied()
            .chain(ours)
            .chain([ptr::null()])
            .collect();
        // SAFETY: both arrays end with a null and hold live strings, as libpq asks.
        unsafe { connect(keywords.as_ptr(), values.as_ptr(), self.expand_dbname) }
    }
}

/// Is a server of this name reached over a local socket? One without a name is.
pub fn is_socket(host: &[u8]) -> bool {
    matches!(host.first(), None | Some(b'/' | b'@'))
}

/// Was libpq built with TLS? Before version 15 it does not say, and is taken to be.
pub fn has_tls() -> bool {
    type Version = unsafe extern "C" fn() -> c_int;
    type Attribute = unsafe extern "C" fn(Connection, *const c_char) -> *const c_char;
    const SAYS_SO: c_int = 150_000;
    // SAFETY: the type is that of libpq-fe.h; from that version on this attribute needs no
    // connection.
    unsafe {
        let version = function::<Version>(c"PQlibVersion").map_or(0, |version| version());
        let attribute = function::<Attribute>(c"PQsslAttribute");
        version < SAYS_SO
            || attribute.is_some_and(|ask| !ask(ptr::null_mut(), c"library".as_ptr()).is_null())
    }
}

/// The array in which libpq gives a connection's parameters.
struct Told {
    first: *mut Info,
    free: unsafe extern "C" fn(*mut Info),
}

impl Told {
    /// # Safety
    /// `connection` is null or valid.
    unsafe fn of(connection: Connection) -> Option<Self> {
        // SAFETY: the types are those of libpq-fe.h; libpq answers null to null.
        let (first, free) = unsafe {
            let tell = function::<Conninfo>(c"PQconninfo")?;
            (tell(connection), function(c"PQconninfoFree")?)
        };
        (!first.is_null()).then_some(Self { first, free })
    }

    /// Returns the value of `keyword`; nothing if it has none.
    fn value(&self, keyword: &CStr) -> Vec<u8> {
        // SAFETY: the array ends with a null keyword; keywords and values are C strings.
        unsafe {
            let found = (0..)
                .map(|at| &*self.first.add(at))
                .take_while(|info| !info.keyword.is_null())
                .find(|info| CStr::from_ptr(info.keyword) == keyword);
            found.map_or(Vec::new(), |info| text(info.val))
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        // SAFETY: the array is libpq's own, and is freed once.
        unsafe { (self.free)(self.first) };
    }
}

/// Returns what libpq says of this connection by its function `name`; empty without one.
///
/// # Safety
/// `connection` is valid for the function, which returns null or a C string.
pub unsafe fn said(name: &CStr, connection: Connection) -> Vec<u8> {
    // SAFETY: the function takes `connection` and returns null or a C string, by this contract.
    unsafe { function::<Text>(name).map_or(Vec::new(), |say| text(say(connection))) }
}

/// # Safety
/// `pointer` is null or a C string.
unsafe fn text(pointer: *const c_char) -> Vec<u8> {
    if pointer.is_null() {
        return Vec::new();
    }
    // SAFETY: `pointer` is not null, so it is a C string, by this function's contract.
    unsafe { CStr::from_ptr(pointer) }.to_bytes().to_vec()
}

/// Is this a connection string, and not a mere name?
pub fn is_conninfo(text: &CStr) -> bool {
    let bytes = text.to_bytes();
    let scheme = |name: &[u8]| bytes.starts_with(name);
    bytes.is_empty() || bytes.contains(&b'=') || scheme(b"postgresql://") || scheme(b"postgres://")
}
