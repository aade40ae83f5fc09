//! Extensions that keep files of their own in the data directory, by the names that their sources
//! give them. Such files are not encrypted: nothing in a name distinguishes them from an
//! administrator's. A sealed server refuses to write them; they are there from before it was
//! sealed.

use std::collections::BTreeSet;

use super::Finding;

/// A directory of an extension.
struct Known {
    /// The name at the top of the data directory.
    name: &'static str,
    extension: &'static str,
    /// The data in it, as objects of a sentence.
    holds: &'static str,
    /// The thing to do.
    remedy: &'static str,
}

const TABLES: &str =
    "store them as tables of PostgreSQL's own, then drop the extension and remove the directory";
const COPIES: &str = "drop the extension and remove the directory";

const KNOWN: [Known; 9] = [
    Known {
        name: "cstore_fdw/",
        extension: "cstore_fdw",
        holds: "columnar tables",
        remedy: TABLES,
    },
    Known {
        name: "mooncake_cache/",
        extension: "pg_mooncake",
        holds: "copies of columnstore tables",
        remedy: COPIES,
    },
    Known {
        name: "mooncake_local_cache/",
        extension: "pg_mooncake",
        holds: "copies of columnstore tables",
        remedy: COPIES,
    },
    Known {
        name: "mooncake_local_tables/",
        extension: "pg_mooncake",
        holds: "columnstore tables",
        remedy: TABLES,
    },
    Known {
        name: "orioledb_data/",
        extension: "OrioleDB",
        holds: "tables and indexes",
        remedy: TABLES,
    },
    Known {
        name: "orioledb_undo/",
        extension: "OrioleDB",
        holds: "earlier versions of rows",
        remedy: TABLES,
    },
    Known {
        name: "pg_duckdb/",
        extension: "pg_duckdb",
        holds: "what DuckDB's queries spill, and DuckDB's extensions",
        remedy: "set duckdb.temporary_directory and duckdb.extension_directory to directories of \
                 an encrypted file system, and remove this one",
    },
    Known {
        name: "pg_vectors/",
        extension: "pgvecto.rs",
        holds: "indexes with the vectors of their rows",
        remedy: COPIES,
    },
    Known {
        name: "pgsodium_root.key",
        extension: "pgsodium",
        holds: "the root key of its column keys",
        remedy: "move it out of the data directory, and change the script that \
                 pgsodium.getkey_script names",
    },
];

/// Divides the names that are none of PostgreSQL's: a finding for each that an extension is known
/// to make, and the others.
pub fn known(names: BTreeSet<String>) -> (Vec<Finding>, BTreeSet<String>) {
    let mut findings = Vec::new();
    let others = names.into_iter().filter(|name| {
        let known = KNOWN.iter().find(|known| known.name == name);
        findings.extend(known.map(Known::finding));
        known.is_none()
    });
    let others = others.collect();
    (findings, others)
}

impl Known {
    fn finding(&self) -> Finding {
        let Self {
            name,
            extension,
            holds,
            remedy,
        } = self;
        Finding::advice(
            "clear files",
            format_args!("{extension} keeps {holds} in {name}, not encrypted: {remedy}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(names: &[&str]) -> (Vec<String>, Vec<String>) {
        let (findings, others) = known(names.iter().map(ToString::to_string).collect());
        let texts = findings.into_iter().map(|finding| finding.text);
        (texts.collect(), others.into_iter().collect())
    }

    #[test]
    fn an_extension_has_a_sentence_and_its_name_is_listed_no_more() {
        let (texts, others) = divided(&["certs/", "orioledb_data/", "orioledb_data"]);
        assert_eq!(texts, ["OrioleDB keeps tables and indexes in orioledb_data/, not encrypted: store them as tables of PostgreSQL's own, then drop the extension and remove the directory"]);
        assert_eq!(others, ["certs/", "orioledb_data"]);
    }

    #[test]
    fn each_name_is_there_once_and_in_order() {
        assert!(KNOWN.is_sorted_by(|one, next| one.name < next.name));
    }
}
