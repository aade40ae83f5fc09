//! Real pages of PostgreSQL 15 for the tests (tests/data/pages15.bin).

use super::Page;

/// The samples: the name of each, and its block number if it is a page of a relation.
pub const SAMPLES: [(&str, Option<u32>); 13] = [
    ("heap", Some(0)),
    ("heap", Some(5)),
    ("free space map", Some(0)),
    ("visibility map", Some(0)),
    ("btree metapage", Some(0)),
    ("btree leaf", Some(3)),
    ("sequence", Some(0)),
    ("TOAST of random bytes", Some(2)),
    ("heap with one random value of 8096 bytes", Some(0)),
    ("pg_attribute", Some(7)),
    ("pg_xact", None),
    ("WAL, first page of segment 000000010000000000000001", None),
    ("WAL, second page", None),
];

/// The page of sample `index`.
pub fn sample(index: usize) -> Page {
    const ALL: &[u8; 13 * 8192] = include_bytes!("../../tests/data/pages15.bin");
    std::array::from_fn(|i| ALL[index * 8192 + i])
}

/// The samples that are pages of relations.
pub fn relation_pages() -> impl Iterator<Item = (&'static str, u32, Page)> {
    let pages = SAMPLES.iter().enumerate();
    pages.filter_map(|(i, (name, block))| Some((*name, (*block)?, sample(i))))
}
