//! Calls that this program's executable, or a module of it, makes into libraries, led to a function
//! of ours by the caller's own table of addresses.
//!
//! For functions of libraries other than libc that one or two programs may not call unseen: if we
//! exported their names we would take them over in every program that inherits `LD_PRELOAD`, where
//! another copy of the same library may be at work on the other half of its functions.
//!
//! For functions of libc that one kind of process must be watched at, and all others call often.
//!
//! Called when the loader has filled the table and no other thread runs: before `main`, or in a
//! process of the server, which has one thread.

use libc::{c_char, c_int, c_void, dl_phdr_info, size_t};
use std::ffi::CStr;
use std::{ptr, slice};

/// Leads the executable's calls of `name` to `hook`. False if it does not call a function of this
/// name in another object: then there is nothing to lead.
///
/// # Safety
/// No other thread runs; `hook` is a function of the type that the callers expect.
pub unsafe fn lead(name: &CStr, hook: *const c_void) -> bool {
    // SAFETY: no other thread runs, and `hook` has the right type, by this function's contract.
    Object::executable().is_some_and(|executable| unsafe { executable.lead(name, hook) })
}

/// Returns the function that the executable's calls of `name` went to, as one of type `F`.
///
/// # Safety
/// `F` is the type of that function.
pub unsafe fn original<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: `name` is terminated.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: `address` is a function's, of the type that the caller vouches for.
    (!address.is_null()).then(|| unsafe { ptr::read(ptr::from_ref(&address).cast::<F>()) })
}

/// Elf64_Dyn.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// Elf64_Sym.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// Elf64_Rela.
#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

/// The parts of a program's or a library's image that are needed (elf(5)).
#[derive(Clone, Copy)]
pub struct Object {
    base: usize,
    dynamic: usize,
    /// The range that the loader has made read-only: start and length in bytes.
    read_only: (usize, usize),
}

/// Relocations that hold the address of a called function: GLOB_DAT and JUMP_SLOT.
const OF_CALLS: [u64; 2] = if cfg!(target_arch = "aarch64") {
    [1025, 1026]
} else {
    [6, 7]
};

/// A search for an object, with its result.
struct Search<'a> {
    /// the last name of its path; None for the program, which the loader lists first
    file: Option<&'a [u8]>,
    found: Option<Object>,
}

impl Object {
    /// Finds the program.
    pub fn executable() -> Option<Self> {
        Self::search(None)
    }

    /// Finds the library whose file has this name, if it is loaded.
    pub fn library(file: &[u8]) -> Option<Self> {
        Self::search(Some(file))
    }

    fn search(file: Option<&[u8]>) -> Option<Self> {
        unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, out: *mut c_void) -> c_int {
            // SAFETY: `info` is the loader's description of an object; `out` is `search` below.
            let (info, search) = unsafe { (&*info, &mut *out.cast::<Search<'_>>()) };
            let is_it = search.file.is_none_or(|file| {
                // SAFETY: `dlpi_name` is a C string that the loader owns.
                let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
                path.rsplit(|&byte| byte == b'/').next() == Some(file)
            });
            if is_it {
                // SAFETY: `info` is the loader's description; nothing unloads the program or a
                // server's module.
                search.found = Some(unsafe { Object::of(info) });
            }
            c_int::from(is_it)
        }
        let mut search = Search { file, found: None };
        // SAFETY: `look` gets a description from the loader and `search`, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
        search.found.filter(|object| object.dynamic != 0)
    }

    /// # Safety
    /// `info` is the loader's description of an object that stays loaded.
    unsafe fn of(info: &dl_phdr_info) -> Self {
        let number = |value| usize::try_from(value).unwrap_or(0);
        let mut found = Self {
            base: number(info.dlpi_addr),
            dynamic: 0,
            read_only: (0, 0),
        };
        let count = usize::from(info.dlpi_phnum);
        // SAFETY: `dlpi_phdr` points to `dlpi_phnum` headers of an object that stays loaded.
        for header in unsafe { slice::from_raw_parts(info.dlpi_phdr, count) } {
            let start = found.base + number(header.p_vaddr);
            match header.p_type {
                libc::PT_DYNAMIC => found.dynamic = start,
                libc::PT_GNU_RELRO => found.read_only = (start, number(header.p_memsz)),
                _ => {}
            }
        }
        found
    }

    /// Leads this object's calls of `name` to `hook`. False if there are none.
    ///
    /// # Safety
    /// The contract is that of the function [`lead`].
    pub unsafe fn lead(&self, name: &CStr, hook: *const c_void) -> bool {
        let mut led = false;
        for entry in self.entries(name) {
            // SAFETY: `entry` is this object's own; no other thread runs, by this contract.
            led |= unsafe { self.replace(entry, hook) };
        }
        led
    }

    /// Returns a value of the dynamic section.
    fn value(&self, tag: i64) -> Option<usize> {
        const DT_NULL: i64 = 0;
        let section: *const Dynamic = ptr::with_exposed_provenance(self.dynamic);
        // SAFETY: the section ends with DT_NULL.
        (0..)
            .map(|at| unsafe { &*section.add(at) })
            .take_while(|entry| entry.tag != DT_NULL)
            .find(|entry| entry.tag == tag)
            .map(|entry| entry.value)
    }

    /// glibc has added the base to addresses in the section, where it could write to it.
    fn address(&self, tag: i64) -> Option<usize> {
        let value = self.value(tag)?;
        Some(if value < self.base {
            value + self.base
        } else {
            value
        })
    }

    /// Where the table holds the address of `name`.
    fn entries<'a>(&'a self, name: &'a CStr) -> impl Iterator<Item = usize> + 'a {
        const DT_STRTAB: i64 = 5;
        const DT_SYMTAB: i64 = 6;
        let strings = self.address(DT_STRTAB).unwrap_or(0);
        let symbols = self.address(DT_SYMTAB).unwrap_or(0);
        let calls = self
            .relocations()
            .filter(|one| OF_CALLS.contains(&(one.info & 0xffff_ffff)));
        let named = calls.filter(move |one| {
            let symbol: *const Symbol = ptr::with_exposed_provenance(symbols);
            let at = usize::try_from(one.info >> 32).unwrap_or(0);
            // SAFETY: the relocation's symbol, and that symbol's name.
            let text = unsafe {
                let offset = usize::try_from((*symbol.add(at)).name).unwrap_or(0);
                CStr::from_ptr(ptr::with_exposed_provenance::<c_char>(strings + offset))
            };
            text == name
        });
        named.map(|one| self.base + one.offset)
    }

    /// Those of functions that are bound when they are called, and all others.
    fn relocations(&self) -> impl Iterator<Item = &'static Relocation> {
        const DT_PLTRELSZ: i64 = 2;
        const DT_RELA: i64 = 7;
        const DT_RELASZ: i64 = 8;
        const DT_JMPREL: i64 = 23;
        let tables = [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)];
        let tables = tables.map(|(start, size)| Some((self.address(start)?, self.value(size)?)));
        tables.into_iter().flatten().flat_map(|(start, size)| {
            let count = size / size_of::<Relocation>();
            // SAFETY: the table is the object's own, and stays.
            unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(start), count) }
        })
    }

    /// # Safety
    /// `entry` is one of [`Self::entries`]; no other thread runs.
    unsafe fn replace(&self, entry: usize, hook: *const c_void) -> bool {
        // SAFETY: sysconf(3) takes any number.
        let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) });
        let size = size.unwrap_or(4096);
        let page = (entry & !(size - 1), size);
        let (start, len) = self.read_only;
        // glibc protects whole pages: the last one may hold data that is written.
        let protected = (start..(start + len) & !(size - 1)).contains(&entry);
        let protect = |access| {
            // SAFETY: the page holds data of the object's own.
            let answer =
                unsafe { libc::mprotect(ptr::with_exposed_provenance_mut(page.0), page.1, access) };
            answer == 0
        };
        if protected && !protect(libc::PROT_READ | libc::PROT_WRITE) {
            return false;
        }
        // SAFETY: `entry` is an aligned address in the table, writable now.
        unsafe { ptr::with_exposed_provenance_mut::<*const c_void>(entry).write(hook) };
        !protected || protect(libc::PROT_READ)
    }
}
