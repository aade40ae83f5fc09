//! Whether a slot is due to be replaced: `key rotate --older-than`.
//!
//! A slot whose age is not known is due, as `doctor --max-age` calls it wrong.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pgseal_format::{Slot, SlotKind};
use pgseal_keys::notes::Notebook;
use pgseal_keys::unlock::SlotError;

/// Returns the sentence why a slot stays, if it is not older than `limit` and its provider has no
/// newer version of the key, which `has_newer` asks.
pub fn stays(
    slot: &Slot,
    notebook: &Notebook,
    limit: Duration,
    has_newer: impl FnOnce() -> Result<bool, SlotError>,
) -> Result<Option<String>, SlotError> {
    let note = notebook.slots().iter().find(|note| note.slot == slot.id);
    let made = note.and_then(|note| Some(note.made.as_ref()?.time));
    let Some((made, due)) = made.and_then(|made| dates(made, limit)) else {
        return Ok(None);
    };
    if SystemTime::now() >= due || has_newer()? {
        return Ok(None);
    }
    let date = humantime::format_rfc3339_seconds;
    let version = match &slot.kind {
        SlotKind::Provider { .. } => "its provider has no newer version of the key, and ",
        _ => "",
    };
    Ok(Some(format!(
        "slot {} stays: {version}it was made at {} and is due at {}\n",
        slot.id,
        date(made),
        date(due)
    )))
}

/// Returns when a slot was made and when it is due; none if these are no dates.
fn dates(made: u64, limit: Duration) -> Option<(SystemTime, SystemTime)> {
    // Later years have no RFC 3339, and nobody wrote them.
    let last = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    let made = UNIX_EPOCH.checked_add(Duration::from_secs(made))?;
    let is_date = made <= SystemTime::now();
    let due = made.checked_add(limit).unwrap_or(last).min(last);
    is_date.then_some((made, due))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_come_is_no_age() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.expect("a clock").as_secs();
        assert!(dates(now + 3600, Duration::ZERO).is_none());
        assert!(dates(u64::MAX, Duration::ZERO).is_none());
        let (made, due) = dates(now - 60, Duration::from_secs(50)).expect("a date");
        assert!(made < due && due < SystemTime::now());
        assert!(dates(now - 60, Duration::MAX).is_some());
    }
}
