//! The forms of values in reports, for people and for JSON.

use std::path::Path;

use serde::Serializer;

/// Writes a path as JSON can have it, which is UTF-8 throughout.
pub fn lossy<S: Serializer>(path: impl AsRef<Path>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.as_ref().to_string_lossy())
}

/// Returns a speed for people, who get sizes in MiB and GiB; JSON has powers of ten.
pub fn gibibytes(gigabytes: f64) -> f64 {
    gigabytes * 1e9 / f64::from(1 << 30)
}
