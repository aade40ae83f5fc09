//! The header that starts every page of a relation, as PostgreSQL checks it when it reads a page.
//!
//! A page that is not all zeros is accepted if no unknown flag is set, `24 <= pd_lower <= pd_upper
//! <= pd_special <= 8192`, `pd_special` is a multiple of 8, and page size and layout version are
//! 8192 and 4. Random bytes pass with a probability below 2^-40: 13 flags, 16 bits of size and
//! version, 3 of alignment, and three ordered numbers out of 65536 that lie in 24..=8192.

use super::Page;

const HEADER: u16 = 24;
const UNKNOWN_FLAGS: u16 = !0x0007;
const SIZE_AND_VERSION: u16 = 8192 | 4;

/// Can this be a page of a relation?
pub fn is_plausible(page: &Page) -> bool {
    let field = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
    let (flags, lower, upper, special) = (field(10), field(12), field(14), field(16));
    flags & UNKNOWN_FLAGS == 0
        && HEADER <= lower
        && lower <= upper
        && upper <= special
        && usize::from(special) <= page.len()
        && special % 8 == 0
        && field(18) == SIZE_AND_VERSION
}

#[cfg(test)]
mod tests {
    use super::super::samples::{relation_pages, sample};
    use super::*;

    #[test]
    fn real_pages_pass_and_others_do_not() {
        for (name, _, page) in relation_pages() {
            assert!(is_plausible(&page), "{name}");
        }
        for other in 10..13 {
            assert!(!is_plausible(&sample(other)), "sample {other}");
        }
        assert!(!is_plausible(&[0; 8192]));
    }

    #[test]
    fn each_field_counts() {
        let (_, _, page) = relation_pages().next().expect("there are samples");
        for (at, value, field) in [
            (10, 8u16, "flags"),
            (12, 23, "lower before the header's end"),
            (12, 8191, "lower above upper"),
            (14, 8193, "upper above special"),
            (16, 8200, "special beyond the page"),
            (16, 8191, "special not aligned"),
            (18, 8192 | 3, "layout version"),
            (18, 4096 | 4, "page size"),
        ] {
            let mut page = page;
            page[at..at + 2].copy_from_slice(&value.to_le_bytes());
            assert!(!is_plausible(&page), "{field}");
        }
    }
}
