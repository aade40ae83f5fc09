//! Classification of any name at all: it answers, and what it does not know fails closed.

mod support;

use pgseal_storage::classify::{classify, is_inside, Class, TABLE};
use proptest::prelude::*;
use support::cases;

/// Paths from pieces that the table knows, and from anything.
fn paths() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "base",
        "global",
        "pg_wal",
        "pg_xact",
        "pg_stat",
        "pg_tblspc",
        "PG_15_202209061",
        "5",
        "16384",
        "16384_vm.1",
        "t3_7",
        "000000010000000000000001",
        "0000",
        "pgsql_tmp",
        "state",
        "pg_replslot",
        "pg_logical",
        "mappings",
        "snapshots",
        "x.snap.1.tmp",
        ".tmp",
        "",
        "..",
    ]);
    let piece = prop_oneof![
        4 => known.prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.join(&b'/'))
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn what_no_row_names_is_sealed_where_postgres_keeps_data(path in paths()) {
        let answer = classify(&path);
        let below = path.contains(&b'/');
        if answer.row.is_none() {
            let clear = answer.class == Class::Clear;
            prop_assert_eq!(clear, !is_inside(&path));
            prop_assert_eq!(clear && below, answer.is_foreign(&path));
        }
    }
}

/// Clear by a row is a decision: this is the list of them below the data directories.
#[test]
fn what_is_clear_is_named() {
    let patterns: Vec<&str> = TABLE
        .iter()
        .map(|row| row.pattern)
        .filter(|pattern| pattern.contains('/') && !pattern.starts_with("pg_tblspc/"))
        .filter(|pattern| {
            let example = pattern
                .replace("<oid>", "5")
                .replace("**", "x")
                .replace('*', "x");
            classify(example.as_bytes()).class == Class::Clear
        })
        .collect();
    assert_eq!(
        patterns,
        [
            "base/<oid>/PG_VERSION",
            "base/<oid>/pg_filenode.map",
            "base/<oid>/pg_filenode.map.tmp",
            "base/<oid>/pg_internal.init*",
            "global/pg_filenode.map",
            "global/pg_filenode.map.tmp",
            "global/pg_internal.init*",
            "pg_wal/RECOVERYHISTORY",
            "pg_wal/*.history",
            "pg_wal/*.backup",
            "pg_wal/archive_status/*",
            "pg_stat/repmgrd_state.txt",
            "pg_logical/replorigin_checkpoint",
            "pg_logical/replorigin_checkpoint.tmp",
            "pg_replslot/*/state",
            "pg_replslot/*/state.tmp",
            "pg_snapshots/*",
            "pg_log/**",
            "pg_upgrade_output.d/**",
            "log/**",
            "pg_bulkload/*.loadstatus",
        ]
    );
}

#[test]
fn a_name_too_long_for_an_identity_is_refused() {
    let name = |len: usize| [b"pg_stat/", &vec![b'x'; len - 8][..]].concat();
    assert!(matches!(classify(&name(255)).class, Class::Sealed(_)));
    assert!(matches!(classify(&name(256)).class, Class::Refused(_)));
}
