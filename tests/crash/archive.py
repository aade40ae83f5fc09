"""Recovery from an archive, cut short by kill -9: the archive holds what is stored, so ciphertext goes out and comes back.

A cold copy of the cluster, made before the load, recovers from the archive to a new timeline. Recovery is killed in the
middle, several times, and so is the new timeline under a load of its own: WAL segments are brought, renamed, copied into
the first segment of the timeline, and recycled all the while. What comes out is what the origin has.
"""

import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import COMPLAINT, PGSEAL, Canaries, Case, base_environment, main, run  # noqa: E402
from waiting import eventually

KILLS = 4
BAD_LOG = re.compile(rf"^.*(?:PANIC|{COMPLAINT}|invalid page|verification failed).*$", re.MULTILINE)
CONF = """
archive_mode = on
archive_command = 'test ! -e {archive}/%f && cp %p {archive}/%f'
max_wal_size = {most}
min_wal_size = {least}
shared_buffers = 4MB
"""
SUMS = ("SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(delta) FROM pgbench_history),"
        " (SELECT count(*) FROM pgbench_history), (SELECT md5(string_agg(b, '' ORDER BY i)) FROM kept)")


class Archive(Case):
    def test_segments_of_16_megabytes(self):
        self.recover("48MB", "32MB", [])

    def test_segments_of_1_megabyte(self):
        self.recover("4MB", "2MB", ["--wal-segsize=1"])

    def recover(self, most, least, initdb):
        self.random, canaries = random.Random(5), Canaries()
        archive = self.directory / "archive"
        archive.mkdir()
        conf = CONF.format(archive=archive, most=most, least=least)
        origin, copy = self.cluster("origin", conf=conf, initdb=initdb), self.cluster("copy")
        origin.init().start()
        origin.psql(f"CREATE TABLE kept AS SELECT i, '{canaries['row']}' || i AS b FROM generate_series(1, 9000) i")
        origin.run("pgbench", "-i", "-q", "-s", "2")
        origin.stop()
        shutil.copytree(origin.data, copy.data, symlinks=True)
        expected = self.load_and_archive(origin)
        self.configure_copy(copy, archive)
        self.kill_in_recovery(copy)
        copy.start()
        eventually(lambda: copy.psql("SELECT pg_is_in_recovery()") == "f")
        self.assertEqual(copy.psql(SUMS), expected)
        self.assertIn("restored log file", copy.log())
        self.kill_under_load(copy)
        self.assertEqual(canaries.found(archive, origin.data, copy.data), {})
        self.assertEqual(BAD_LOG.findall(copy.log()), [])
        copy.stop()
        run([PGSEAL, "verify", "-D", copy.data])

    def load_and_archive(self, origin):
        """Runs a load, waits until its WAL is in the archive, and returns what there is; the origin is killed then."""
        origin.start()
        origin.run("pgbench", "-n", "-c", "2", "-T", "3")
        origin.psql("UPDATE kept SET b = b || 'again'; CHECKPOINT")
        expected = origin.psql(SUMS)
        last = origin.psql("SELECT pg_walfile_name(pg_switch_wal())")
        eventually(lambda: origin.psql("SELECT last_archived_wal FROM pg_stat_archiver") >= last)
        origin.kill9()
        return expected

    def configure_copy(self, copy, archive):
        mine = copy.home / "archive"
        mine.mkdir()
        copy.configure(f"unix_socket_directories = '{copy.home}'\nrestore_command = 'cp {archive}/%f %p'\n"
                       f"archive_command = 'cp %p {mine}/%f'")
        shutil.rmtree(copy.data / "pg_wal/archive_status")
        (copy.data / "pg_wal/archive_status").mkdir()
        (copy.data / "recovery.signal").touch()

    def kill_in_recovery(self, copy):
        for _ in range(KILLS):
            command = [copy.bindir / "postgres", "-D", copy.data]
            with open(copy.log_file, "a") as log:
                copy.server = subprocess.Popen(command, stdout=log, stderr=log, cwd=copy.home, start_new_session=True,
                                               env={**base_environment(), **copy.environment})
            time.sleep(self.random.uniform(0.1, 0.7))
            copy.kill9()

    def kill_under_load(self, copy):
        for _ in range(KILLS):
            pgbench = [copy.pg / "pgbench", "-n", "-c", "2", "-T", "60"]
            with subprocess.Popen(pgbench, env={**base_environment(), **copy.environment}, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL):
                time.sleep(self.random.uniform(0.3, 1.2))
                copy.kill9()
            copy.start()
            copy.run("pg_amcheck", "--heapallindexed", "--install-missing", "-d", "postgres")


if __name__ == "__main__":
    main(__file__)
