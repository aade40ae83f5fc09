//! A moment to come, as `--until` takes it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time to come, in seconds since 1970: `12h`, `30days`, or `2027-01-31T12:00:00Z`.
pub fn parse_until(text: &str) -> Result<u64, String> {
    let now = SystemTime::now();
    let until = match humantime::parse_duration(text) {
        Ok(after) => now.checked_add(after),
        Err(_) => humantime::parse_rfc3339_weak(text).ok(),
    };
    until
        .filter(|until| *until > now)
        .and_then(|until| until.duration_since(UNIX_EPOCH).ok())
        .as_ref()
        .map(Duration::as_secs)
        .ok_or_else(|| {
            "give a time to come, such as 12h, 30days or 2027-01-31T12:00:00Z".to_owned()
        })
}
