//! Time zones by their names.
//!
//! They are the machine's, whose database PostgreSQL uses, too, where it was built so. An
//! evaluator's process opens no file once it serves, so it reads all of them before.

use std::collections::HashMap;
use std::sync::OnceLock;

use pgseal_value::NamedZone;

static READ: OnceLock<HashMap<String, NamedZone>> = OnceLock::new();

/// Reads the machine's database. Zones of later versions of it are not seen.
pub fn read_zones() {
    READ.get_or_init(NamedZone::all);
}

/// Returns a zone by PostgreSQL's name for it.
pub(super) fn zone(name: &str) -> Option<NamedZone> {
    match READ.get() {
        Some(read) => { read.get(name).cloned() }.or_else(|| NamedZone::built_in(name)),
        None => NamedZone::new(name),
    }
}
