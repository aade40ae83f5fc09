//! The wrappers' knowledge of PostgreSQL's programs.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use nix::unistd::geteuid;
use pgseal_contract::program;

/// Whether `program`, which is called `name`, will refuse its user because that is root. A script
/// in its place may become another user first.
pub fn refuses_user(name: &str, program: &Path) -> bool {
    let known = program::find(name.as_bytes());
    known.is_some_and(|known| known.refuses_root) && geteuid().is_root() && is_elf(program)
}

/// Returns the short options of `name` that take a value, in all of PostgreSQL 15 to 19.
pub fn short_with_value(name: &str) -> &'static str {
    program::find(name.as_bytes()).map_or("", |program| program.short_with_value)
}

/// Whether `option`, a long one of `name` without a value, takes the next word for another
/// program's options, which may be spelt like pgseal's. getopt takes a beginning for the whole.
pub fn passes_options_on(name: &str, option: &[u8]) -> bool {
    let (shortest, whole): (&[u8], &[u8]) = match (name, option.first()) {
        ("pg_ctl", _) => (b"o", b"options"),
        ("pg_upgrade", Some(b'o')) => (b"old-o", b"old-options"),
        ("pg_upgrade", _) => (b"new-o", b"new-options"),
        _ => return false,
    };
    whole.starts_with(option) && option.starts_with(shortest)
}

/// Whether `program` is a program itself, and no wrapper or script, through which a preloaded
/// library does not come.
pub fn is_elf(program: &Path) -> bool {
    let mut magic = [0; 4];
    let read = File::open(program).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}
