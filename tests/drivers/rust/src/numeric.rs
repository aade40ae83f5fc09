//! `numeric` for tokio-postgres, which has no decimals of any length: a text with its digits.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{accepts, to_sql_checked, FromSql, IsNull, ToSql, Type};

const NEGATIVE: u16 = 0x4000;

/// A finite number in digits.
#[derive(Debug)]
pub(crate) struct Numeric(pub(crate) String);

impl<'m> FromSql<'m> for Numeric {
    fn from_sql(_: &Type, bytes: &'m [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let words: Vec<u16> = bytes
            .chunks(2)
            .map(|it| u16::from_be_bytes([it[0], it[1]]))
            .collect();
        let [count, weight, sign, scale, digits @ ..] = &words[..] else {
            return Err("no numeric".into());
        };
        let (weight, scale) = (i32::from(weight.cast_signed()), usize::from(*scale));
        let digit = |at: i32| {
            usize::try_from(at)
                .ok()
                .and_then(|at| digits.get(at))
                .copied()
                .unwrap_or(0)
        };
        let whole: String = (0..=weight).map(|at| format!("{:04}", digit(at))).collect();
        let groups = i32::try_from(scale.div_ceil(4))?;
        let behind: String = (1..=groups)
            .map(|at| format!("{:04}", digit(weight + at)))
            .collect();
        let whole = whole.trim_start_matches('0');
        let sign = if *sign == NEGATIVE && *count > 0 {
            "-"
        } else {
            ""
        };
        let whole = if whole.is_empty() { "0" } else { whole };
        Ok(Self(match scale {
            0 => format!("{sign}{whole}"),
            _ => format!("{sign}{whole}.{}", &behind[..scale]),
        }))
    }

    accepts!(NUMERIC);
}

impl ToSql for Numeric {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let (sign, digits) = match self.0.strip_prefix('-') {
            Some(digits) => (NEGATIVE, digits),
            None => (0, self.0.as_str()),
        };
        let (whole, behind) = digits.split_once('.').unwrap_or((digits, ""));
        let pad = |length: usize| "0".repeat((4 - length % 4) % 4);
        let all = format!("{}{whole}{behind}{}", pad(whole.len()), pad(behind.len()));
        let groups: Vec<u16> = (0..all.len())
            .step_by(4)
            .map(|at| all[at..at + 4].parse())
            .collect::<Result<_, _>>()?;
        out.put_u16(u16::try_from(groups.len())?);
        out.put_i16(i16::try_from(whole.len().div_ceil(4))? - 1);
        out.put_u16(sign);
        out.put_u16(u16::try_from(behind.len())?);
        groups.iter().for_each(|group| out.put_u16(*group));
        Ok(IsNull::No)
    }

    accepts!(NUMERIC);
    to_sql_checked!();
}
