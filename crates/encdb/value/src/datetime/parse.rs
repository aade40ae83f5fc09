//! Dates and instants from text: date_in, timestamp_in, timestamptz_in.
//!
//! All of PostgreSQL's forms are read (DateStyle MDY) but two: words that mean the
//! clock (`now`, `today`), because a value must not depend on when it is read, and zones by name
//! other than UTC's, because their offsets are a matter of politics.

use super::calendar::EPOCH;
use super::decode::{decode, Decoded, Fault, Moment};
use super::fields::split;
use super::{checked_instant, Zone, DAY, END_DATE, MIN_DATE, SECOND};
use crate::{Type, ValueError};

const UNIX_EPOCH_DATE: i32 = -10_957;
/// The room that PostgreSQL has for the fields.
const ROOM_OF_DATE: usize = 129;
const ROOM_OF_INSTANT: usize = 153;

/// Reads a date; a time and a zone behind it are ignored.
pub(crate) fn parse_date(text: &str) -> Result<i32, ValueError> {
    let error = ValueError::OutOfRange(Type::Date);
    let moment = match read(text, ROOM_OF_DATE, Type::Date)? {
        Decoded::Moment(moment) => moment,
        Decoded::Epoch => return Ok(UNIX_EPOCH_DATE),
        Decoded::Infinity => return Ok(i32::MAX),
        Decoded::NegativeInfinity => return Ok(i32::MIN),
    };
    let date = moment.day().julian() - EPOCH;
    if is_near(&moment) && (MIN_DATE..END_DATE).contains(&date) {
        return i32::try_from(date).map_err(|_| error);
    }
    Err(error)
}

/// Reads an instant; a timestamp's zone is ignored, a timestamptz without one is in this zone.
pub(crate) fn parse_instant(text: &str, ty: Type, zone: &dyn Zone) -> Result<i64, ValueError> {
    let moment = match read(text, ROOM_OF_INSTANT, ty)? {
        Decoded::Moment(moment) => moment,
        Decoded::Epoch => return Ok(i64::from(UNIX_EPOCH_DATE) * DAY),
        Decoded::Infinity => return Ok(i64::MAX),
        Decoded::NegativeInfinity => return Ok(i64::MIN),
    };
    let error = ValueError::OutOfRange(ty);
    if !is_near(&moment) {
        return Err(error);
    }
    let day = (moment.day().julian() - EPOCH).checked_mul(DAY);
    let local = day.and_then(|day| day.checked_add(moment.time()));
    let west = match ty {
        Type::TimestampTz if moment.has_zone => moment.zone,
        Type::TimestampTz => -zone
            .at_local(local.ok_or(error)?)
            .ok_or(ValueError::ZoneName)?,
        _ => 0,
    };
    let instant = local.and_then(|local| local.checked_add(i64::from(west) * SECOND));
    match instant {
        Some(instant) if instant != i64::MIN && instant != i64::MAX => checked_instant(instant, ty),
        _ => Err(error),
    }
}

fn read(text: &str, room: usize, ty: Type) -> Result<Decoded, ValueError> {
    let fields = split(text, room);
    let decoded = fields.and_then(|fields| decode(&fields));
    decoded.map_err(|fault| match fault {
        Fault::Format => ValueError::DatetimeSyntax(ty),
        Fault::Range => ValueError::DatetimeRange(ty),
        Fault::Zone => ValueError::ZoneRange,
        Fault::Name => ValueError::ZoneName,
    })
}

/// Is the day within what Julian numbers are made for?
fn is_near(moment: &Moment) -> bool {
    let month = (moment.year, moment.month);
    ((-4713, 11)..(5_874_898, 6)).contains(&month)
}

#[cfg(test)]
mod tests {
    use super::super::{print_date, print_instant, Utc};
    use super::*;

    #[test]
    fn dates_of_many_forms_are_read() {
        let cases = [
            ("2024-02-29", "2024-02-29"),
            (" 2024-2-9 ", "2024-02-09"),
            ("20240229", "2024-02-29"),
            ("240229", "2024-02-29"),
            ("Feb 29, 2024", "2024-02-29"),
            ("29-Feb-2024", "2024-02-29"),
            ("2/29/24", "2024-02-29"),
            ("2024.060", "2024-02-29"),
            ("J2451545", "2000-01-01"),
            ("y2001m02d04", "2001-02-04"),
            ("0044-03-15 BC", "0044-03-15 BC"),
            ("2024-02-29 25 January", "?"),
            ("epoch", "1970-01-01"),
            ("-infinity", "-infinity"),
            ("5874897-12-31", "5874897-12-31"),
        ];
        for (text, printed) in cases {
            let date = parse_date(text).map_or_else(|_| "?".to_owned(), print_date);
            assert_eq!(date, printed, "{text}");
        }
    }

    #[test]
    fn instants_are_read_with_their_zones() {
        let cases = [
            ("2024-02-29T12:30", "2024-02-29 12:30:00+00"),
            (
                "2024-02-29 12:30:00.1234567+02",
                "2024-02-29 10:30:00.123457+00",
            ),
            ("2024-02-29 123000-0130", "2024-02-29 14:00:00+00"),
            ("2024-02-29 12:30:60 Z", "2024-02-29 12:31:00+00"),
            ("2024-02-29 24:00", "2024-03-01 00:00:00+00"),
            ("2024-02-29 12:00 am UTC", "2024-02-29 00:00:00+00"),
            ("4714-11-24 00:00+00 BC", "4714-11-24 00:00:00+00 BC"),
        ];
        for (text, printed) in cases {
            let instant = parse_instant(text, Type::TimestampTz, &Utc);
            let instant = instant.map(|instant| print_instant(instant, "+00"));
            assert_eq!(instant, Ok(printed.to_owned()), "{text}");
        }
    }

    #[test]
    fn refusals_have_postgresqls_codes() {
        let cases = [
            ("", "22007"),
            ("now", "22007"),
            ("2024-02-29 12:30 America/New_York", "22023"),
            ("2024-02-29 12:30 EST", "22007"),
            ("2024-13-01", "22008"),
            ("2023-02-29", "22008"),
            ("2024-02-29 25:00", "22008"),
            ("0000-01-01", "22008"),
            ("294277-01-01", "22008"),
            ("2024-02-29 12:30+16", "22009"),
            ("2024-02-29 12:30:00.5x", "22007"),
            ("\u{e4}", "22007"),
        ];
        for (text, state) in cases {
            let instant = parse_instant(text, Type::TimestampTz, &Utc);
            assert_eq!(instant.map_err(ValueError::sqlstate), Err(state), "{text}");
        }
    }
}
