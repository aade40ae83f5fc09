//! The machine's locales, all opened at the start: later no file can be opened.

use std::collections::HashMap;
use std::fs;
use std::sync::OnceLock;

use pgseal_evaluator::engine::SharedCollation;
use pgseal_evaluator::os;

const DIRECTORY: &str = "/usr/lib/locale";
const ARCHIVE: &str = "/usr/lib/locale/locale-archive";

static LOCALES: OnceLock<HashMap<String, SharedCollation>> = OnceLock::new();

/// Opens every locale of the machine whose characters are UTF-8.
pub fn open_all() {
    let mut found = HashMap::new();
    for name in names() {
        if let Some(locale) = os::collation(&name) {
            found.insert(normal(&name), locale);
        }
    }
    // Called once.
    let _ = LOCALES.set(found);
}

/// The rules of a locale, by the name that PostgreSQL has for it.
pub fn find(name: &str) -> Option<SharedCollation> {
    LOCALES.get()?.get(&normal(name)).cloned()
}

/// Returns one spelling for `de_DE.UTF-8` and `de_DE.utf8`.
fn normal(name: &str) -> String {
    match name.split_once('.') {
        None => name.to_owned(),
        Some((language, rest)) => {
            let (charset, modifier) = rest.split_once('@').unwrap_or((rest, ""));
            let charset = charset.to_ascii_lowercase().replace('-', "");
            format!("{language}.{charset}@{modifier}")
        }
    }
}

fn names() -> Vec<String> {
    let mut names = vec!["C.UTF-8".to_owned()];
    let entries = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    names.extend(entries.filter_map(|entry| entry.file_name().into_string().ok()));
    if let Ok(archive) = fs::read(ARCHIVE) {
        names.extend(archived(&archive).unwrap_or_default());
    }
    names
}

/// The names in glibc's archive. Its head is numbers of 4 bytes in the machine's order; the sixth
/// and seventh say where the names lie, each ended by a zero, among hashes that are none.
fn archived(archive: &[u8]) -> Option<Vec<String>> {
    let number = |index: usize| {
        let bytes = archive.get(4 * index..4 * index + 4)?;
        let bytes: [u8; 4] = bytes.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    let (offset, used) = (number(5)?, number(6)?);
    let texts = archive.get(offset..offset.checked_add(used)?)?;
    let texts = texts
        .split(|byte| *byte == 0)
        .filter(|text| !text.is_empty());
    Some(
        texts
            .filter_map(|text| String::from_utf8(text.to_vec()).ok())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_locale_are_one() {
        assert_eq!(normal("de_DE.UTF-8"), normal("de_DE.utf8"));
        assert_ne!(normal("de_DE.UTF-8"), normal("de_DE.UTF-8@euro"));
        assert_ne!(normal("de_DE"), normal("de_DE.utf8"));
        open_all();
        assert!(find("C.utf8").is_some() && find("C.UTF-8").is_some());
        assert!(find("C").is_none() && find("").is_none());
    }

    #[test]
    fn names_of_an_archive_are_read_and_a_torn_one_has_none() {
        let mut archive = vec![0; 64];
        archive[20] = 40;
        archive[24] = 24;
        archive[40..].copy_from_slice(b"de_DE.utf8\0fr_FR.utf8\0\0\0");
        assert_eq!(
            archived(&archive),
            Some(vec!["de_DE.utf8".into(), "fr_FR.utf8".into()])
        );
        assert_eq!(archived(&archive[..50]), None);
        assert_eq!(archived(&[]), None);
    }
}
