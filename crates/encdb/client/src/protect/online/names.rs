//! The names of what a run of the online form makes. They are made of OIDs and numbers, so that
//! the next run finds them, and no name of a user is like them by chance.

/// The trigger. Triggers run in the order of their names: this one sees what others have made.
pub(crate) const TRIGGER: &str = "~pgseal_protect";

/// The beginning of all other names.
pub(crate) const KEPT: &str = "pgseal_protect_";

/// Returns the name of the trigger's function, by the table's OID.
pub(crate) fn function(table: u32) -> String {
    format!("{KEPT}{table}")
}

/// Returns the name of the index of dirty rows, by the table's OID.
pub(crate) fn dirty(table: u32) -> String {
    format!("{KEPT}{table}_dirty")
}

/// Returns the name of the index that serves until the final one is there, by the OID of the one
/// of the plain columns.
pub(crate) fn interim(plain: u32) -> String {
    format!("{KEPT}i{plain}")
}

/// Returns the name that the final index has until it gets its own, by the OID of the one of the
/// plain columns.
pub(crate) fn finished(plain: u32) -> String {
    format!("{KEPT}f{plain}")
}

/// Returns the name of the final index that belongs to an interim one.
pub(crate) fn finished_of(interim: &str) -> Option<String> {
    let plain = interim.strip_prefix(KEPT)?.strip_prefix('i')?;
    Some(format!("{KEPT}f{plain}"))
}

/// Returns the name of the new column, by the number of the plain one.
pub(crate) fn column(plain: i16) -> String {
    format!("{KEPT}c{plain}")
}

/// The beginning of the names of constraints that stand for `NOT NULL`; the number of the plain
/// column follows.
pub(crate) const REQUIRED: &str = "pgseal_protect_n";

/// The beginning of the names of `CHECK` constraints that are not proved; the OID of the one of the
/// plain columns follows.
pub(crate) const CHECK: &str = "pgseal_protect_k";
