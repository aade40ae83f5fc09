"""What the tests of archives share: a primary that archives by cp, copies of it, and recovery from the archive.

`Archived` has one archive directory. A base is made in one of the ways that docs/operations/archive-and-pitr.md names:
cold (the stopped cluster, cp -a), online (cp between pg_backup_start and pg_backup_stop), or pg_basebackup. The first two
copy what is stored, so they hold ciphertext and the wrapped key; nothing reads them but a server with the key.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import COMPLAINT, Canaries, Case, run  # noqa: E402
from waiting import eventually

CP_ARCHIVE = "archive_mode = on\narchive_command = 'test ! -f {archive}/%f && cp %p {archive}/%f'\n"
CP_RESTORE = "cp {archive}/%f %p"
BAD_LOG = re.compile(rf"^.*(?:PANIC|{COMPLAINT}(?!WAL segment \w+ came in clear)|invalid page|verification failed).*$", re.MULTILINE)


class Archived(Case):
    def setUp(self):
        super().setUp()
        self.archive = self.directory / "archive"
        self.archive.mkdir()
        self.canaries = Canaries()

    def primary(self, name="primary", conf="", **options):
        """A started cluster that archives, by cp unless `conf` says how."""
        conf = conf if "archive_command" in conf else CP_ARCHIVE + conf
        cluster = self.cluster(name, conf=conf.format(archive=self.archive), **options)
        return cluster.init().start()

    def cold_copy(self, source, name):
        """A copy of a stopped cluster."""
        copy = self.cluster(name, sealed=source.sealed, pg=source.pg)
        run(["cp", "-a", source.data, copy.data])
        return copy

    def online_copy(self, source, name, during=None):
        """A copy of the running cluster by cp; `during` runs in the middle of it. WAL comes from the archive."""
        session = source.session()
        session.stdin.write("SET client_min_messages = warning; SELECT pg_backup_start('copy', true);\n")
        session.stdout.readline()
        copy = self.cluster(name, sealed=source.sealed, pg=source.pg)
        # Files that go while they are copied make cp fail, and are none of the backup's business.
        run(["cp", "-a", source.data, copy.data], check=False)
        if during:
            during()
        session.stdin.write("SELECT encode(labelfile::bytea, 'hex') FROM pg_backup_stop(true);\n")
        (copy.data / "backup_label").write_bytes(bytes.fromhex(session.stdout.readline()))
        (copy.data / "postmaster.pid").unlink()
        for segment in (copy.data / "pg_wal").glob("0*"):
            segment.unlink()
        return copy

    def recover(self, copy, target="", restore=CP_RESTORE, conf="archive_mode = off\n", signal="recovery.signal"):
        """Starts the copy on the archive and waits until it has left recovery."""
        self.follow(copy, target, restore, conf, signal)
        copy.start()
        eventually(lambda: copy.psql("SELECT pg_is_in_recovery()") == "f")
        return copy

    def follow(self, copy, target="", restore=CP_RESTORE, conf="archive_mode = off\n", signal="recovery.signal"):
        """Configures the copy to read the archive."""
        restore = restore.format(archive=self.archive)
        copy.configure(f"unix_socket_directories = '{copy.home}'\nrestore_command = '{restore}'\n{conf}")
        if target:
            copy.configure(f"{target}\nrecovery_target_action = promote\n")
        (copy.data / signal).touch()

    def archive_all(self, cluster):
        """Waits until everything so far is in the archive; returns the last segment's name."""
        last = cluster.psql("SELECT pg_walfile_name(pg_current_wal_lsn())")
        cluster.psql("SELECT pg_switch_wal()")
        eventually((self.archive / last).exists)
        eventually(lambda: cluster.psql(f"SELECT last_archived_wal >= '{last}' FROM pg_stat_archiver") == "t")
        return last

    def check_sound(self, cluster, stop=True):
        """Every page and index of the running cluster is sound, its log shows no damage, and it verifies."""
        cluster.run("pg_amcheck", "--all", "--heapallindexed", "--install-missing")
        self.assertEqual(BAD_LOG.findall(cluster.log()), [])
        if stop:
            cluster.stop()
            self.assertRegex(cluster.run("pg_checksums", "-D", cluster.data).stdout, r"Bad checksums:\s+0\n")
