//! Flags and contexts of settings (guc.h).

use crate::server::setting;
use libc::c_int;

/// Nobody can set it.
pub const PGC_INTERNAL: c_int = 0;
/// A connection's start can set it.
pub const PGC_BACKEND: c_int = 4;

/// The bits of flags, most of which moved with 16.
pub struct Flags {
    pub no_show_all: c_int,
    pub disallow_in_file: c_int,
    pub superuser_only: c_int,
    not_in_sample: c_int,
}

impl Flags {
    /// Returns the bits of the server that this is.
    pub fn of_this_version() -> Self {
        let version =
            setting(c"server_version_num").and_then(|text| text.to_str().ok()?.parse().ok());
        let (not_in_sample, disallow_in_file, superuser_only) = match version {
            Some(0..160_000) => (0x20, 0x40, 0x100),
            _ => (0x80, 0x100, 0x400),
        };
        Self {
            no_show_all: 0x4,
            disallow_in_file,
            superuser_only,
            not_in_sample,
        }
    }

    /// Returns the flags that PostgreSQL's own internal settings have.
    pub fn shown_only(&self) -> c_int {
        self.not_in_sample | self.disallow_in_file
    }
}
