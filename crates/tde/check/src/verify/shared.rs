//! Relations that are stored under one key, because PostgreSQL gave one number to two of them: it
//! asks for a free one in the tablespace and not in the database (docs/format/keys.md).

use std::collections::BTreeMap;

use serde::Serialize;

/// The relations of one key, by their first files.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Shared {
    pub files: Vec<String>,
}

/// Finds them among the names of relations' files.
pub fn among<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Shared> {
    let mut by_number = BTreeMap::<_, Vec<_>>::new();
    for name in names {
        // The rest of a relation, its forks and segments, is where its first file is.
        if let Some(number) = number(name).filter(|number| !number.contains(['_', '.'])) {
            by_number.entry(number).or_default().push(name.to_owned());
        }
    }
    let shared = by_number.into_values().filter(|files| files.len() > 1);
    shared.map(|files| Shared { files }).collect()
}

/// Database and number: `5/16384`.
fn number(name: &str) -> Option<&str> {
    let (directory, _) = name.rsplit_once('/')?;
    let database = directory
        .rsplit_once('/')
        .map_or(0, |(above, _)| above.len() + 1);
    name.get(database..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_in_two_tablespaces_of_a_database() {
        let names = [
            "base/5/16384",
            "base/5/16384.1",
            "base/5/16384_vm",
            "base/6/16385",
            "global/16384",
            "pg_tblspc/16390/PG_15_202209061/5/16384",
            "pg_tblspc/16390/PG_15_202209061/5/16384_vm",
            "pg_tblspc/16390/PG_15_202209061/5/16385",
        ];
        let files = ["base/5/16384", "pg_tblspc/16390/PG_15_202209061/5/16384"];
        let files = files.map(str::to_owned).to_vec();
        assert_eq!(among(names.into_iter()), [Shared { files }]);
    }
}
