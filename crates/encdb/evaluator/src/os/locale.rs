//! libc's collations: the order and the letters' cases of a locale of this machine.
//!
//! A locale is opened by its name and never closed, because a process knows few. PostgreSQL sorts
//! text of its libc collations by `strcoll` and, where that calls two texts equal, by their bytes;
//! so does [`Locale::compare`]. Cases are changed character by character, as PostgreSQL does it.

use std::cmp::Ordering;
use std::ffi::{CStr, CString};
use std::sync::{Arc, OnceLock};

use pgseal_value::{Class, Collate};

use crate::engine::SharedCollation;

/// The rules of the locale of this name, for an [engine](crate::engine::Config).
pub fn collation(name: &str) -> Option<SharedCollation> {
    let locale = Locale::open(name)?;
    Some(Arc::new(locale))
}

/// An open locale whose characters are UTF-8.
pub struct Locale {
    locale: libc::locale_t,
    /// The members of each class, once they were asked for.
    classes: [OnceLock<Vec<(u32, u32)>>; Class::ALL.len()],
}

// SAFETY: glibc's locale objects do not change after they were made; the functions that take one
// may be called by several threads.
unsafe impl Send for Locale {}
// SAFETY: glibc's locale objects do not change after they were made, so threads may share one.
unsafe impl Sync for Locale {}

extern "C" {
    fn strcoll_l(a: *const libc::c_char, b: *const libc::c_char, locale: libc::locale_t) -> i32;
    fn towlower_l(c: u32, locale: libc::locale_t) -> u32;
    fn towupper_l(c: u32, locale: libc::locale_t) -> u32;
    fn iswalnum_l(c: u32, locale: libc::locale_t) -> libc::c_int;
    fn iswalpha_l(c: u32, locale: libc::locale_t) -> libc::c_int;
    fn iswdigit_l(c: u32, locale: libc::locale_t) -> libc::c_int;
    fn iswgraph_l(c: u32, locale: libc::locale_t) -> libc::c_int;
    fn iswlower_l(c: u32, locale: libc::locale_t) -> libc::c_int;
    fn iswprint_l(c: u32, locale: libc::locale_t) -> libc::c_int;
    fn iswpunct_l(c: u32, locale: libc::locale_t) -> libc::c_int;
    fn iswspace_l(c: u32, locale: libc::locale_t) -> libc::c_int;
    fn iswupper_l(c: u32, locale: libc::locale_t) -> libc::c_int;
}

impl Locale {
    /// The locale of this name; None if the machine has none, or if its characters are not UTF-8.
    pub fn open(name: &str) -> Option<Self> {
        // An empty name is the environment's, one with a slash is a path.
        if name.is_empty() || name.contains('/') {
            return None;
        }
        let name = CString::new(name).ok()?;
        let mask = libc::LC_COLLATE_MASK | libc::LC_CTYPE_MASK;
        // SAFETY: a string that ends in zero; no base locale.
        let locale = unsafe { libc::newlocale(mask, name.as_ptr(), std::ptr::null_mut()) };
        if locale.is_null() {
            return None;
        }
        let open = Self {
            locale,
            classes: Default::default(),
        };
        (open.charset() == c"UTF-8").then_some(open)
    }

    fn charset(&self) -> &CStr {
        // SAFETY: the locale is open; the text belongs to it.
        unsafe { CStr::from_ptr(libc::nl_langinfo_l(libc::CODESET, self.locale)) }
    }

    fn letter(
        &self,
        letter: char,
        change: unsafe extern "C" fn(u32, libc::locale_t) -> u32,
    ) -> char {
        // SAFETY: the locale is open; any code point is an argument of these functions.
        let changed = unsafe { change(u32::from(letter), self.locale) };
        char::from_u32(changed).unwrap_or(letter)
    }

    fn is_of(&self, class: Class, letter: char) -> bool {
        let is_of = match class {
            Class::Alnum => iswalnum_l,
            Class::Alpha => iswalpha_l,
            Class::Digit => iswdigit_l,
            Class::Graph => iswgraph_l,
            Class::Lower => iswlower_l,
            Class::Print => iswprint_l,
            Class::Punct => iswpunct_l,
            Class::Space => iswspace_l,
            Class::Upper => iswupper_l,
        };
        // SAFETY: the locale is open; any code point is an argument of these functions.
        unsafe { is_of(u32::from(letter), self.locale) != 0 }
    }

    /// Looks at every character: milliseconds.
    fn all_of(&self, class: Class) -> Vec<(u32, u32)> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for letter in ('\0'..=char::MAX).filter(|letter| self.is_of(class, *letter)) {
            let code = u32::from(letter);
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == code => *last = code,
                _ => ranges.push((code, code)),
            }
        }
        ranges
    }
}

/// The text, ended by a zero as C wants it: on the stack if it is short, so that comparing small
/// texts allocates nothing.
fn with_zero<T>(text: &str, call: impl FnOnce(*const libc::c_char) -> T) -> T {
    const SHORT: usize = 256;
    let bytes = text.as_bytes();
    let mut short = [0u8; SHORT];
    if bytes.len() < SHORT {
        short[..bytes.len()].copy_from_slice(bytes);
        let result = call(short.as_ptr().cast());
        zeroize::Zeroize::zeroize(&mut short[..bytes.len()]);
        return result;
    }
    let mut long = zeroize::Zeroizing::new(Vec::with_capacity(bytes.len() + 1));
    long.extend_from_slice(bytes);
    long.push(0);
    call(long.as_ptr().cast())
}

impl Collate for Locale {
    fn compare(&self, a: &str, b: &str) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        let order = with_zero(a, |a| {
            // SAFETY: two strings that end in zero, and an open locale.
            with_zero(b, |b| unsafe { strcoll_l(a, b, self.locale) })
        });
        order.cmp(&0).then_with(|| a.as_bytes().cmp(b.as_bytes()))
    }

    fn lower(&self, text: &str) -> String {
        text.chars().map(|c| self.letter(c, towlower_l)).collect()
    }

    fn upper(&self, text: &str) -> String {
        text.chars().map(|c| self.letter(c, towupper_l)).collect()
    }

    fn initcap(&self, text: &str) -> String {
        let mut within = false;
        let letters = text.chars().map(|c| {
            let changed = match within {
                true => self.letter(c, towlower_l),
                false => self.letter(c, towupper_l),
            };
            within = self.is_of(Class::Alnum, changed);
            changed
        });
        letters.collect()
    }

    fn lower_of(&self, letter: char) -> char {
        self.letter(letter, towlower_l)
    }

    fn upper_of(&self, letter: char) -> char {
        self.letter(letter, towupper_l)
    }

    fn members(&self, class: Class) -> Vec<(u32, u32)> {
        let place = Class::ALL.iter().position(|other| *other == class);
        let known = &self.classes[place.expect("it is one of all")];
        known.get_or_init(|| self.all_of(class)).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_code_points_is_that_of_bytes() {
        let locale = Locale::open("C.UTF-8").expect("glibc has it");
        assert_eq!(locale.compare("a", "b"), Ordering::Less);
        assert_eq!(locale.compare("a", "B"), Ordering::Greater);
        let long = "x".repeat(5000);
        assert_eq!(locale.compare(&long, &format!("{long}y")), Ordering::Less);
        assert_eq!(locale.lower("ÄÖx"), "äöx");
        assert_eq!(locale.upper("äöx"), "ÄÖX");
        assert_eq!(locale.initcap("ÄÖ öÄ-x3Y"), "Äö Öä-X3y");
    }

    #[test]
    fn classes_are_those_of_libc() {
        let locale = Locale::open("C.UTF-8").expect("glibc has it");
        let has = |class, letter: char| {
            let code = u32::from(letter);
            let members = locale.members(class);
            members
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&code))
        };
        assert!(has(Class::Alpha, 'ä') && has(Class::Lower, 'ß') && has(Class::Upper, 'Ω'));
        assert!(has(Class::Space, '\u{2003}') && !has(Class::Digit, '٣') && has(Class::Alnum, '٣'));
        assert_eq!(locale.members(Class::Digit), [(0x30, 0x39)]);
        assert_eq!((locale.lower_of('Ä'), locale.upper_of('ä')), ('ä', 'Ä'));
    }

    #[test]
    fn other_charsets_and_unknown_names_are_no_locales() {
        for name in ["C", "POSIX", "xx_YY.utf8", "", "de\0DE", "../C.utf8"] {
            assert!(Locale::open(name).is_none(), "{name:?}");
        }
    }
}
