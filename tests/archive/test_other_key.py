#!/usr/bin/python3
"""An archive between clusters of different keys, through `pgseal wal-get` and `pgseal wal-put`, by the settings
of docs/operations/archive-and-pitr.md where it has them.

The cluster with another key is made by copying a stopped one file by file through the cipher, so that both have the same
data and the same system identifier. Its archive's key is known to it only by a copy of the key file.
"""

import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from archived import CP_ARCHIVE, Archived  # noqa: E402
from page import Page  # noqa: E402
from pgseal_test import PGSEAL, base_environment, main, run  # noqa: E402
from waiting import eventually

PAGE = "docs/operations/archive-and-pitr.md"
PATH = {"PATH": f"{PGSEAL.parent}:{base_environment()['PATH']}"}
ROWS = "SELECT string_agg(who || n, ' ' ORDER BY who, n) FROM (SELECT who, count(*) AS n FROM t GROUP BY 1) s"


class OtherKey(Archived):
    def copy_under_another_key(self, source, name):
        """The stopped cluster `source`, sealed or not, under a key of its own."""
        copy = self.cluster(name, environment=PATH).init()
        for entry in copy.data.iterdir():
            if entry.is_dir() and entry.name not in ("pg_encryption", "global"):
                shutil.rmtree(entry)
        run([PGSEAL, "exec", "-D", source.data, "-D", copy.data, "--", "/usr/bin/cp", "-a", f"{source.data}/.", copy.data])
        run([PGSEAL, "verify", "-D", copy.data])
        return copy

    def start_primary(self, **options):
        """A primary with one row, and the copy of its key file that others open its archive with."""
        primary = self.primary("a", **options)
        primary.psql("CREATE TABLE t (who text, word text)")
        self.write(primary, "a")
        primary.stop()
        self.key = self.directory / "a.key"
        if primary.sealed:
            shutil.copy(primary.data / "pg_encryption/key.bin", self.key)
        return primary

    def write(self, cluster, who):
        cluster.psql(f"INSERT INTO t VALUES ('{who}', '{self.canaries['row']}')")

    def wal_get(self, *keys):
        named = "".join(f" --key-file-name {key}" for key in keys)
        return f"{PGSEAL} wal-get --from {{archive}}{named} %f %p"

    def wal_put(self, *keys):
        named = "".join(f" --key-file-name {key}" for key in keys)
        return f"archive_mode = on\narchive_command = '{PGSEAL} wal-put --to {self.archive}{named} %p %f'\n"

    def page_settings(self):
        """What the page sets: to restore under another key, to restore so what another tool brings, to archive under the
        archive's key."""
        self.assertTrue(self.key.exists())
        places = {"/archive/primary.key": str(self.key), "/archive": str(self.archive)}
        return Page(PAGE, places).blocks("conf")[:3]

    def standby(self, copy, restore, conf="archive_mode = off\n"):
        """Follows the archive until it has the row that `a` wrote second."""
        self.follow(copy, restore=restore, conf=conf, signal="standby.signal")
        copy.start()
        eventually(lambda: copy.psql(ROWS) == "a2")

    def promote(self, copy):
        copy.psql("SELECT pg_promote()")
        self.write(copy, "b")

    def test_standby_takes_over_the_archive(self):
        """It restores the primary's segments, is promoted, and goes on archiving under the primary's key."""
        primary = self.start_primary()
        copy, base = self.copy_under_another_key(primary, "b"), self.cold_copy(primary, "base")
        primary.start()
        self.write(primary, "a")
        self.archive_all(primary)
        primary.stop()
        restore, _, archive = self.page_settings()
        self.standby(copy, "false", f"archive_mode = on\n{restore}{archive}")
        self.promote(copy)
        self.archive_all(copy)
        self.recover(base, "recovery_target_timeline = latest")
        self.assertEqual(base.psql(ROWS), "a2 b1")
        self.check_sound(base)
        self.check_sound(copy)
        self.assertEqual(self.canaries.found(self.directory), {})

    def test_an_archive_that_another_tool_brings(self):
        """Compressed, under another key; a recovery ends where the archive does."""
        primary = self.start_primary(conf=f"archive_mode = on\narchive_command = 'gzip < %p > {self.archive}/%f.gz'\n")
        copy = self.copy_under_another_key(primary, "b")
        primary.start()
        self.write(primary, "a")
        last = primary.psql("SELECT pg_walfile_name(pg_current_wal_lsn())")
        primary.psql("SELECT pg_switch_wal()")
        eventually(lambda: primary.psql(f"SELECT last_archived_wal >= '{last}' FROM pg_stat_archiver") == "t")
        primary.stop()
        _, fetched, _ = self.page_settings()
        self.recover(copy, restore="false", conf=f"archive_mode = off\n{fetched}")
        self.assertIn(f'restored log file "{last}" from archive', copy.log())
        self.assertEqual(copy.psql(ROWS), "a2")
        self.write(copy, "b")
        self.check_sound(copy)
        self.assertEqual(self.canaries.found(self.directory), {})

    def test_clone_with_a_key_of_its_own(self):
        """As operators make it; what it misses while it does not stream comes from the archive."""
        primary = self.start_primary()
        base, copy = self.cold_copy(primary, "base"), self.cluster("b")
        primary.start()
        token = {**primary.environment, "PGOPTIONS": f"-c pgseal.receiver={primary.token()}"}
        run([PGSEAL, "clone", "--pg", copy.pg, "-D", copy.data, "--new-key", "--no-key-wrap"], token)
        self.assertNotEqual(copy.master_key(), primary.master_key())
        self.write(primary, "a")
        self.archive_all(primary)
        primary.stop()
        self.standby(copy, self.wal_get(self.key), self.wal_put(self.key))
        self.promote(copy)
        self.archive_all(copy)
        self.recover(base, "recovery_target_timeline = latest")
        self.assertEqual(base.psql(ROWS), "a2 b1")
        self.check_sound(base)
        self.check_sound(copy)
        self.assertEqual(self.canaries.found(self.directory), {})

    def test_archive_of_two_keys(self):
        """After the promotion the new primary archives under its own key by cp; who restores names both keys."""
        primary = self.start_primary()
        copy, base = self.copy_under_another_key(primary, "b"), self.cold_copy(primary, "base")
        primary.start()
        self.write(primary, "a")
        self.archive_all(primary)
        primary.stop()
        self.standby(copy, self.wal_get(self.key), CP_ARCHIVE.format(archive=self.archive))
        self.promote(copy)
        self.archive_all(copy)
        self.recover(base, "recovery_target_timeline = latest", self.wal_get(copy.data / "pg_encryption/key.bin"))
        self.assertEqual(base.psql(ROWS), "a2 b1")
        self.check_sound(base)
        self.check_sound(copy)
        self.assertEqual(self.canaries.found(self.directory), {})

    def test_archive_of_a_key_that_was_replaced(self):
        """A backup has a key of its own, so only what rekey keeps opens the archive; and unseal keeps that, too."""
        primary = self.start_primary()
        copies = [self.copy_under_another_key(primary, name) for name in ["b", "c"]]
        old = f"key.bin.{json.loads(run([PGSEAL, 'status', '-D', primary.data, '--json']).stdout)['key_id']}"
        self.key.unlink()
        primary.start()
        self.write(primary, "a")
        self.archive_all(primary)
        primary.stop()
        run([PGSEAL, "rekey", "-D", primary.data, "--no-key-wrap"])
        self.recover(copies[0], restore=self.wal_get(primary.data / "pg_encryption" / old))
        run([PGSEAL, "unseal", "-D", primary.data])
        self.recover(copies[1], restore=self.wal_get(primary.data / old))
        for copy in copies:
            self.assertEqual(copy.psql(ROWS), "a2")
            self.check_sound(copy)

    def test_archive_in_clear(self):
        """A plain primary's, which shows what the test would see of a leak."""
        primary = self.start_primary(sealed=False)
        copy = self.copy_under_another_key(primary, "b")
        primary.start()
        self.write(primary, "a")
        self.archive_all(primary)
        primary.stop()
        self.follow(copy, restore=self.wal_get())
        self.assertEqual(copy.try_start(), 1)
        self.assertRegex(copy.log(), "pgseal: WAL segment [0-9A-F]{24} came in clear, and is refused, because")
        self.assertRegex(copy.log(), "FATAL: .*could not restore file .*: child process exited with exit code 207")
        (copy.data / "recovery.signal").unlink()
        self.standby(copy, self.wal_get() + " --accept-clear", self.wal_put())
        self.assertRegex(copy.log(), "pgseal: WAL segment [0-9A-F]{24} came in clear, and is encrypted and brought, because "
                         "--accept-clear is accept")
        before = set(self.archive.iterdir())
        self.promote(copy)
        self.archive_all(copy)
        self.assertIn("row", self.canaries.found(*before))
        self.assertNotEqual(self.canaries.audit(self.archive), [])
        self.assertEqual(self.canaries.audit(copy.data), [])
        self.assertEqual(self.canaries.found(copy.data, *(set(self.archive.iterdir()) - before)), {})
        self.check_sound(copy)

    def test_plain_primary_with_a_sealed_archive(self):
        """It has a key file beside it, and stores its segments with that key."""
        keeper = self.cluster("keeper").init()
        primary = self.start_primary(sealed=False, conf=self.wal_put(keeper.data / "pg_encryption/key.bin"))
        base = self.cold_copy(primary, "base")
        primary.start()
        self.write(primary, "a")
        self.archive_all(primary)
        primary.stop()
        self.assertIn("row", self.canaries.found(primary.data))
        self.assertEqual(self.canaries.found(self.archive), {})
        copy = self.copy_under_another_key(base, "b")
        self.standby(copy, self.wal_get(keeper.data / "pg_encryption/key.bin"))
        self.promote(copy)
        self.check_sound(copy)

    def test_wrong_key_is_not_the_end_of_the_archive(self):
        """Neither a recovery nor a standby goes on without the segment, and neither is promoted."""
        primary = self.start_primary()
        copy, other = self.copy_under_another_key(primary, "b"), self.cluster("other").init()
        primary.start()
        self.write(primary, "a")
        self.archive_all(primary)
        primary.stop()
        for signal in ["recovery.signal", "standby.signal"]:
            self.follow(copy, restore=self.wal_get(other.data / "pg_encryption/key.bin"), signal=signal)
            self.assertEqual(copy.try_start(), 1)
            (copy.data / signal).unlink()
        self.assertEqual(copy.log().count("give the key file of the cluster that archived it"), 2)
        self.assertRegex(copy.log(), "FATAL: .*could not restore file .*: child process exited with exit code 207")
        self.assertNotIn("selected new timeline", copy.log())
        self.assertEqual(list((copy.data / "pg_wal").glob("0*.history")), [])

    def test_rewind_from_the_archive(self):
        """pg_rewind -c reads segments by their own names, under the target's key."""
        primary = self.start_primary(conf="wal_keep_size = 0\nmax_wal_size = 32MB\nmin_wal_size = 32MB\n")
        copy = self.copy_under_another_key(primary, "b")
        primary.start()
        self.write(primary, "a")
        self.archive_all(primary)
        self.standby(copy, self.wal_get(self.key))
        copy.psql("SELECT pg_promote()")
        copy.psql("CHECKPOINT")
        copy.stop()
        oldest = primary.psql("SELECT pg_walfile_name(pg_current_wal_lsn())")
        self.diverge(primary)
        primary.stop()
        self.assertFalse((primary.data / "pg_wal" / oldest).exists())
        primary.configure("restore_command = '" + self.wal_get(copy.data / "pg_encryption/key.bin")
                          .format(archive=self.archive) + "'")
        done = primary.run("pg_rewind", "-c", "-D", primary.data, "--source-pgdata", copy.data)
        self.assertIn("Done!", done.stderr)
        self.assertEqual(self.canaries.found(primary.data), {})

    def diverge(self, primary):
        """Rows that the new primary lacks, and so many segments that the first are only in the archive."""
        for _ in range(4):
            self.write(primary, "lost")
            self.archive_all(primary)
            primary.psql("CHECKPOINT")


if __name__ == "__main__":
    main(__file__, [PAGE])
