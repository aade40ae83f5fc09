#!/usr/bin/env python3
"""Every file of a data directory is named by a row of the class table: none is stored by the rule for unknown names.

A short workload that writes nearly every kind of file; regression.py does the same after PostgreSQL's regression suite.
"""

from walk import CLASSIFY, Walk  # finds the harness

from pgseal_test import Canaries, Case, main, major_version
from workload import CONF, Workload

MORE = """
logging_collector = on
archive_mode = on
archive_command = 'true'
"""

MORE_SQL = """
VACUUM FULL pg_class;
SELECT autoprewarm_dump_now();
CHECKPOINT;
"""

# Rows that the workload must have met, else the walk saw too little.
EXPECTED = {
    "base/<oid>/<rel>", "global/<rel>", "pg_tblspc/<oid>/<catver>/<oid>/<rel>", "base/<oid>/<temp>", "base/pgsql_tmp/**",
    "pg_tblspc/<oid>/<catver>/pgsql_tmp/**", "base/<oid>/PG_VERSION", "base/<oid>/pg_filenode.map",
    "base/<oid>/pg_internal.init*", "global/pg_filenode.map", "global/pg_internal.init*", "global/pg_control",
    "pg_wal/<wal>", "pg_wal/<wal>.partial", "pg_wal/*.history", "pg_wal/*.backup", "pg_wal/archive_status/*",
    "pg_xact/<hex>", "pg_multixact/offsets/<hex>", "pg_multixact/members/<hex>", "pg_subtrans/<hex>", "pg_commit_ts/<hex>",
    "pg_notify/<hex>", "pg_twophase/<hex>", "pg_stat/**", "pg_stat_tmp/**", "pg_logical/snapshots/*",
    "pg_logical/mappings/*", "pg_logical/replorigin_checkpoint", "pg_replslot/*/state", "pg_replslot/*/*", "pg_snapshots/*",
    "pg_ident.conf", "pg_hba.conf", "PG_VERSION*", "postgresql.*", "postmaster.*", "current_logfiles*",
    "autoprewarm.blocks*", "*.signal", "log/**", "pg_encryption/**", "SEALED.README",
}
EXPECTED_17 = {"pg_wal/summaries/*"}


class FileClasses(Case):
    def test_every_file_is_in_the_table(self):
        version = major_version()
        more = MORE + ("summarize_wal = on\n" if version >= 17 else "")
        cluster = self.cluster(conf=CONF + more, tablespaces=["apart"]).init()
        walk = Walk()
        walk.look(cluster.data)
        self.live(cluster.start(), walk)
        self.change_timeline(cluster, walk)
        self.assertEqual(walk.unknown, set())
        expected = EXPECTED | (EXPECTED_17 if version >= 17 else set())
        self.assertEqual(expected - walk.rows.keys(), set())

    def live(self, cluster, walk):
        workload = Workload(cluster, Canaries())
        workload.run()
        cluster.psql("CREATE EXTENSION pg_prewarm")
        workload.hold("BEGIN; SELECT pg_export_snapshot();")
        cluster.psql(MORE_SQL)
        self.back_up(cluster)
        walk.look(cluster.data)
        cluster.kill9()
        cluster.end_sessions()
        walk.look(cluster.data)
        cluster.start()
        walk.look(cluster.data)
        cluster.stop()
        walk.look(cluster.data)

    def back_up(self, cluster):
        """An online backup's marks in pg_wal, without the copy."""
        cluster.psql("SELECT pg_backup_start('x', true); SELECT pg_backup_stop(false);")

    def change_timeline(self, cluster, walk):
        """A standby that is promoted at once."""
        (cluster.data / "standby.signal").touch()
        cluster.start()
        walk.look(cluster.data)
        cluster.psql("SELECT pg_promote()")
        walk.look(cluster.data)
        cluster.stop()


if __name__ == "__main__":
    main(__file__, tools=[CLASSIFY])
