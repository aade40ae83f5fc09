//! The one list of PostgreSQL's versions that may run a sealed cluster. The library checks its
//! server against it, and `pgseal` checks programs and data directories.
//!
//! Invariant: a version that the list lacks is refused. Another version writes other files and
//! other fields of `pg_control`, and reads them in other ways: 14 loses its statistics.

/// Major versions: those that the tests run on. Before one is added, its sources are held against
/// the list of PostgreSQL's habits (`habits.rs` of the preloaded library).
pub const MAJORS: [u32; 5] = [15, 16, 17, 18, 19];

/// A PostgreSQL that is not in the list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is PostgreSQL {0}, and pgseal encrypts clusters of {majors} only: use one of these, and \
     move data there by pg_upgrade or pg_dump (of a sealed cluster after pgseal unseal)",
    majors = majors()
)]
pub struct Unsupported(String);

/// Is this version in the list, as a server (`server_version`), a program (the last part of what
/// `--version` says) or a data directory (`PG_VERSION`) says it? The first number counts: `15.8`,
/// `17`, `18beta1`.
pub fn check(version: &str) -> Result<(), Unsupported> {
    let digits = version.find(|letter: char| !letter.is_ascii_digit());
    let major = &version[..digits.unwrap_or(version.len())];
    match major.parse() {
        Ok(major) if MAJORS.contains(&major) => Ok(()),
        _ => Err(Unsupported(version.to_owned())),
    }
}

/// Returns the list as text: `15, 16, 17, 18 and 19`.
#[must_use]
pub fn majors() -> String {
    let [first @ .., last] = MAJORS.map(|major| major.to_string());
    format!("{} and {last}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_counts() {
        for known in [
            "15",
            "15.8",
            "16.14",
            "17.12 (Debian 17.12-1)",
            "18.6",
            "19rc1",
        ] {
            assert_eq!(check(known), Ok(()), "{known}");
        }
        for unknown in ["", "x", "9.6", "1", "14.23", "20devel", "150", "4294967311"] {
            assert_eq!(
                check(unknown),
                Err(Unsupported(unknown.into())),
                "{unknown}"
            );
        }
    }

    #[test]
    fn the_sentence_names_the_list() {
        let said = Unsupported("20devel".into()).to_string();
        assert!(said.contains(
            "PostgreSQL 20devel, and pgseal encrypts clusters of 15, 16, 17, 18 and 19 only"
        ));
    }
}
