//! The table of classes against the names that PostgreSQL gives its files.

use super::*;
use pgseal_crypto::Fork;

fn spec(path: &str) -> Spec {
    match classify(path.as_bytes()).class {
        Class::Sealed(spec) => spec,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn relations_have_one_identity_wherever_they_lie() {
    let here = spec("base/5/16384_vm.2");
    assert_eq!(here.id, FileId::relation(5, 16384, Fork::Vm, 2));
    assert_eq!(here.root, Root::Cluster);
    for elsewhere in [
        "pg_tblspc/16390/PG_15_202209061/5/16384_vm.2",
        "base/moved_for_upgrade/5/16384_vm.2",
        "base/moved_for_upgrade/5_old_catalogs/16384_vm.2",
        "pg_tblspc/16390/PG_18_202506291/moved_for_upgrade/5/16384_vm.2",
    ] {
        assert_eq!(spec(elsewhere), here, "{elsewhere}");
    }
    assert_eq!(
        spec("global/1262").id,
        FileId::relation(0, 1262, Fork::Main, 0)
    );
}

#[test]
fn a_temporary_relation_is_not_the_permanent_one_of_its_number() {
    let temp = spec("base/5/t3_16384");
    assert_eq!(temp.id, FileId::temp_relation(3, 5, 16384, Fork::Main, 0));
    assert_eq!(temp.root, Root::Ephemeral);
    // From version 17 on, backends are counted from 0.
    let first = spec("base/5/t0_16384");
    assert_eq!(first.id, FileId::temp_relation(0, 5, 16384, Fork::Main, 0));
}

#[test]
fn spellings_that_postgres_never_writes_are_unknown_and_sealed() {
    for path in [
        "base/5/016384",
        "base/5/16384.0",
        "base/5/16384_fsm.01",
        "base/05/16384",
        "base/5/4294967296",
        "base/5/1638:",
        "base/5/1638/",
        "base/5/16384_xyz",
        "global/anything",
        "PG_16_1/x",
    ] {
        let answer = classify(path.as_bytes());
        assert_eq!(answer.row, None, "{path}");
        assert_eq!(
            spec(path).id,
            FileId::named(path.as_bytes()).expect("short"),
            "{path}"
        );
    }
}

#[test]
fn unknown_names_at_the_top_are_clear() {
    for path in ["something", "mydir/file", "base", "pg_xact"] {
        assert_eq!(classify(path.as_bytes()).class, Class::Clear, "{path}");
    }
}

#[test]
fn outside_of_the_directories_that_fail_closed_everything_is_clear() {
    for row in TABLE.iter().filter(|row| row.kind != Kind::Clear) {
        assert!(is_inside(row.pattern.as_bytes()), "{}", row.pattern);
    }
    for path in [
        "postgresql.conf",
        "base",
        "data/base/5/16384",
        "log/pg_wal/x",
        "pgsql/base/1",
        "pg_any/x",
    ] {
        assert!(!is_inside(path.as_bytes()), "{path}");
    }
    for path in [
        "base/5/16384",
        "global/1262",
        "pg_wal/x",
        "PG_15_1/5/1",
        "pg_xlog/x",
    ] {
        assert!(is_inside(path.as_bytes()), "{path}");
    }
}

#[test]
fn names_that_are_renamed_into_each_other_share_an_identity() {
    for (from, to) in [
        ("pg_stat/pgstat.tmp", "pg_stat/pgstat.stat"),
        ("pg_twophase/000002EA.tmp", "pg_twophase/000002EA"),
        (
            "pg_stat/pg_stat_statements.stat.tmp",
            "pg_stat/pg_stat_statements.stat",
        ),
        (
            "pg_logical/snapshots/0-16B3F48.snap.4711.tmp",
            "pg_logical/snapshots/0-16B3F48.snap",
        ),
        (
            "pg_wal/summaries/temp.summary",
            "pg_wal/summaries/0000000100000000000000280000000000010000.summary",
        ),
        ("global/pg_control.old", "global/pg_control"),
    ] {
        assert_eq!(spec(from), spec(to), "{from}");
    }
    assert_ne!(
        spec("pg_twophase/0000AB01").id,
        spec("pg_twophase/0000AB02").id
    );
}

#[test]
fn what_swap_moves_aside_stays_as_clear_as_it_was() {
    // pg_upgrade --swap renames directories, then their files: a change of class would spoil them.
    for database in ["base", "pg_tblspc/16390/PG_18_202506291"] {
        for name in [
            "PG_VERSION",
            "pg_filenode.map",
            "pg_internal.init",
            "pg_internal.init.7",
        ] {
            for directory in [
                "5",
                "moved_for_upgrade/5",
                "moved_for_upgrade/5_old_catalogs",
            ] {
                let path = format!("{database}/{directory}/{name}");
                assert_eq!(classify(path.as_bytes()).class, Class::Clear, "{path}");
            }
        }
    }
}

#[test]
fn dumps_of_pg_upgrade_are_sealed_and_logs_are_not() {
    let run = "pg_upgrade_output.d/20261121T180000.123";
    spec(&format!("{run}/dump/pg_upgrade_dump_globals.sql"));
    spec(&format!("{run}/dump/pg_upgrade_dump_16410.custom"));
    for name in ["log/pg_upgrade_internal.log", "loadable_libraries.txt"] {
        let path = format!("{run}/{name}");
        assert_eq!(classify(path.as_bytes()).class, Class::Clear, "{path}");
    }
}

#[test]
fn only_exact_names_are_wal() {
    let wal = |path: &str| matches!(classify(path.as_bytes()).class, Class::WalSegment(_));
    assert!(wal("pg_wal/000000010000000000000001"));
    assert!(wal("pg_wal/000000010000000000000001.partial"));
    assert!(!wal("pg_wal/000000010000000000000001.00000028.backup"));
    assert!(!wal("pg_wal/0000000100000000000000280000000000010000"));
    assert_eq!(classify(b"pg_wal/00000002.history").class, Class::Clear);
    assert_eq!(classify(b"pg_wal/RECOVERYXLOG").class, Class::WalRestored);
}

#[test]
fn what_nobody_reads_after_a_restart_hangs_on_the_postmasters_key() {
    for path in [
        "base/pgsql_tmp/pgsql_tmp123.0",
        "base/pgsql_tmp/pgsql_tmp1.0.fileset/i1of8.p0.0",
        "pg_tblspc/16390/PG_15_202209061/pgsql_tmp/pgsql_tmp9.1",
        "pg_replslot/s/xid-7-lsn-0.spill",
        "pg_stat_tmp/pgss_query_texts.stat",
        "pg_wal/xlogtemp.99",
    ] {
        assert_eq!(spec(path).root, Root::Ephemeral, "{path}");
    }
    assert_eq!(classify(b"pg_replslot/s/state").class, Class::Clear);
}

#[test]
fn what_repmgr_keeps_over_a_restart_is_clear_and_nothing_else_beside_it() {
    assert_eq!(classify(b"pg_stat/repmgrd_state.txt").class, Class::Clear);
    for path in ["pg_stat/repmgrd_state.txt.tmp", "pg_stat/x.txt"] {
        assert_eq!(spec(path).root, Root::Cluster, "{path}");
    }
}

#[test]
fn shared_memory_files_are_refused_and_the_key_directory_is_known() {
    assert!(matches!(
        classify(b"pg_dynshmem/mmap.12").class,
        Class::Refused(_)
    ));
    assert_eq!(
        classify(b"pg_encryption/key.bin").class,
        Class::KeyDirectory
    );
}

#[test]
fn what_lies_in_a_directory_that_postgres_does_not_have_is_foreign() {
    for path in [
        "pg_hba.d/a.conf",
        "pg_hba.d/a.conf.tmp",
        "pg_lists/admins",
        "pg_certs/server.pk8",
        "pg_logs/postgresql.log.2026-11-25",
        "orioledb_data/5/16384",
        "conf.d/x",
        "pg_conf.d/site/b.conf",
        "pg_certs/server.crt",
        "pg_logs/postgresql-Mon.log",
        "pg_logs/postgresql-Mon.csv",
        "pg_logs/postgresql-Mon.json",
    ] {
        assert!(
            classify(path.as_bytes()).is_foreign(path.as_bytes()),
            "{path}"
        );
    }
    for path in [
        "log/x",
        "pg_log/x",
        "postgresql.conf",
        "server.key",
        "base/5/x",
    ] {
        assert!(
            !classify(path.as_bytes()).is_foreign(path.as_bytes()),
            "{path}"
        );
    }
    for path in [
        "pg_stat/x.json",
        "pg_wal/x.log",
        "pg_tblspc/16390/x.conf",
        "pg_tblspc/16390/PG_15_202209061/5/x.csv",
        "pg_logical/x.conf",
        "base/5/x.conf",
        "global/x.key",
        "PG_15_202209061/5/x.log",
    ] {
        spec(path);
    }
}

#[test]
fn every_row_of_the_table_can_be_reached() {
    // A row that an earlier one shadows would never decide anything.
    let example = |pattern: &str| {
        pattern
            .replace("<oid>", "16390")
            .replace("<dbdir>", "5")
            .replace("<rel>", "16384_fsm")
            .replace("<temp>", "t3_16384")
            .replace("<catver>", "PG_15_202209061")
            .replace("<wal>", "000000010000000000000001")
            .replace("<hex>", "0000ABCD")
            .replace("**", "x")
            .replace('*', "x")
    };
    for row in TABLE {
        let path = example(row.pattern);
        assert_eq!(classify(path.as_bytes()).row, Some(row), "{path}");
    }
}
