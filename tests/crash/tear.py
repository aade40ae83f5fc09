"""A 4 kB tear: pages of which the medium kept half of the old and half of the new version.

Without checksums PostgreSQL lets hint bits change a page without a WAL record of it, and a torn write of such a page must
harm nothing. Encryption must keep that: a cipher whose output mixed the two halves would turn a lost hint into lost rows.
Here the files of a table are composed of halves from before and after a rewrite that only set hint bits, old below new
and new below old, on a cluster that was shut down cleanly, so that no recovery repairs anything. Plain and sealed must agree.
"""

import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from pgseal_test import COMPLAINT, PGSEAL, Case, main, run  # noqa: E402

PAGE, HALF = 8192, 4096
CONF = "autovacuum = off\nwal_log_hints = {}\nshared_buffers = 16MB\n"
# Committed, deleted, updated, rolled back, and in a subtransaction that was rolled back: every kind of hint bit.
ROWS = """
CREATE TABLE t (id int, b text);
INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 50000) i;
DELETE FROM t WHERE id % 7 = 0;
UPDATE t SET b = 'new ' || id WHERE id % 11 = 0;
BEGIN; INSERT INTO t SELECT i, 'never' FROM generate_series(1, 5000) i; ROLLBACK;
BEGIN; SAVEPOINT a; DELETE FROM t WHERE id % 13 = 0; ROLLBACK TO a; DELETE FROM t WHERE id % 17 = 0; COMMIT;
"""
SHOW = "SELECT count(*), sum(id), md5(string_agg(id || b, ',' ORDER BY id, b)) FROM t"


class Tear(Case):
    def test_halves_of_hint_bit_rewrites(self):
        sealed = self.torn(self.cluster("sealed"), "on")
        plain = self.torn(self.cluster("plain", sealed=False), "off")
        self.assertEqual(sealed, plain)

    def test_halves_of_an_extension(self):
        self.assertEqual(self.extended(self.cluster("sealed")), self.extended(self.cluster("plain", sealed=False)))

    def extended(self, cluster):
        """What a table holds before and after it is used with six such pages at its end."""
        cluster.init()
        cluster.start()
        cluster.psql("CREATE TABLE t AS SELECT i AS id, 'row ' || i AS b FROM generate_series(1, 5000) i; "
                     "CREATE EXTENSION amcheck")
        intact = cluster.psql(SHOW)
        path = cluster.psql("SELECT pg_relation_filepath('t')")
        cluster.stop()
        file = cluster.data / path
        size = file.stat().st_size
        extend(cluster, path, size // PAGE)
        stored = bytearray(file.read_bytes())
        self.assertEqual(any(stored[size:]), cluster.sealed)
        for at in range(size, len(stored), 2 * PAGE):
            stored[at:at + HALF] = stored[at + PAGE + HALF:at + 2 * PAGE] = bytes(HALF)
        file.write_bytes(stored)
        if cluster.sealed:
            run([PGSEAL, "audit", cluster.data])
        cluster.start()
        self.assertEqual(cluster.psql(SHOW), intact)
        cluster.psql("VACUUM t; INSERT INTO t SELECT i, 'new ' || i FROM generate_series(5001, 9000) i; CHECKPOINT")
        self.assertEqual(cluster.psql("SELECT * FROM verify_heapam('t')"), "")
        self.assertIsNone(re.search(f"invalid page|page verification failed|{COMPLAINT}", cluster.log()))
        after = cluster.psql(SHOW)
        cluster.stop()
        if cluster.sealed:
            run([PGSEAL, "verify", "-D", cluster.data])
        return intact, after

    def torn(self, cluster, log_hints):
        """What the table holds, intact and with either kind of tear: all the same. Returns it."""
        cluster.conf = CONF.format(log_hints)
        cluster.init()
        cluster.run("pg_checksums", "--disable", "-D", cluster.data)
        cluster.start()
        cluster.psql(ROWS)
        file = cluster.data / cluster.psql("SELECT pg_relation_filepath('t')")
        cluster.stop()
        before = file.read_bytes()
        cluster.start()
        intact = cluster.psql(SHOW)
        cluster.stop()
        after = file.read_bytes()
        self.assert_only_hints(before, after)
        shutil.copytree(cluster.data, cluster.home / "kept", symlinks=True)
        for name, order in [("old below new", (before, after)), ("new below old", (after, before))]:
            with self.subTest(name):
                shutil.rmtree(cluster.data)
                shutil.copytree(cluster.home / "kept", cluster.data, symlinks=True)
                file.write_bytes(composed(*order))
                cluster.start()
                self.assertEqual(cluster.psql(SHOW), intact)
                cluster.psql("VACUUM t; CREATE EXTENSION IF NOT EXISTS amcheck")
                self.assertEqual(cluster.psql("SELECT * FROM verify_heapam('t')"), "")
                self.assertEqual(cluster.psql(SHOW), intact)
                self.assertIsNone(re.search(f"invalid page|PANIC|{COMPLAINT}", cluster.log()))
                cluster.stop()
        if cluster.sealed:
            run([PGSEAL, "verify", "-D", cluster.data])
        return intact

    def assert_only_hints(self, before, after):
        """The rewrite changed both halves of nearly every page, and the file's size stayed."""
        self.assertEqual(len(before), len(after))
        halves = range(0, len(before), HALF)
        changed = sum(before[at:at + HALF] != after[at:at + HALF] for at in halves)
        self.assertGreater(changed, 0.9 * len(halves))


def extend(cluster, path, pages):
    """Six pages of zeros behind those that there are, written as the server would."""
    within = [PGSEAL, "exec", "-D", cluster.data, "--"] if cluster.sealed else []
    run([*within, "dd", "if=/dev/zero", f"of={cluster.data / path}", f"bs={PAGE}", f"seek={pages}", "count=6", "conv=notrunc"])


def composed(first, second):
    """A file whose pages have their first half from one version and their second from the other."""
    pages = range(0, len(first), PAGE)
    return b"".join(first[at:at + HALF] + second[at + HALF:at + PAGE] for at in pages)


if __name__ == "__main__":
    main(__file__)
