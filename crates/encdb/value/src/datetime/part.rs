//! Parts of times in double precision: timestamp_part and timestamptz_part in UTC.

use super::calendar::{EPOCH, UNIX_EPOCH};
use super::extract::Field;
use super::{DAY, SECOND};
use crate::float;

/// Returns a field of a finite instant that PostgreSQL computes in double precision; none for
/// fields that are whole numbers.
pub(crate) fn fraction_of(field: Field, instant: i64) -> Option<f64> {
    let micros = instant.rem_euclid(DAY) % (60 * SECOND);
    let seconds = float::from_int8(micros / SECOND);
    let fraction = float::from_int8(micros % SECOND);
    Some(match field {
        Field::Microseconds => float::from_int8(micros),
        Field::Milliseconds => seconds * 1000.0 + fraction / 1000.0,
        Field::Second => seconds + fraction / 1_000_000.0,
        Field::Epoch => epoch(instant) / 1_000_000.0,
        Field::Julian => {
            let whole = instant.rem_euclid(DAY) / SECOND;
            let passed = float::from_int8(whole) + fraction / 1_000_000.0;
            float::from_int8(instant.div_euclid(DAY) + EPOCH) + passed / 86_400.0
        }
        _ => return None,
    })
}

/// Microseconds since 1970.
fn epoch(instant: i64) -> f64 {
    let between = (EPOCH - UNIX_EPOCH) * DAY;
    match instant.checked_add(between) {
        Some(micros) => float::from_int8(micros),
        None => float::from_int8(instant) + float::from_int8(between),
    }
}
