#!/usr/bin/env python3
"""Files that several names lead to are converted once, and files that are not PostgreSQL's are left alone: tablespaces inside
the data directory and inside one another, second links, other people's files on a tablespace's disk."""

import errno
import os
import shutil
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from converting import PLAIN_KEY, ConvertCase
from pgseal_test import Canaries, main

ROWS = "SELECT count(*), count(*) FILTER (WHERE i > 0), count(word) FROM t"


class Layouts(ConvertCase):
    def there_and_back(self, cluster, look):
        """Seals, rekeys and unseals in one run each, and looks after each."""
        look()
        for command in ["seal", "rekey", "unseal"]:
            key = [] if command == "unseal" else PLAIN_KEY
            check = self.convert(command, cluster, *key, "--check")
            self.assertIn("nothing blocks it", check.stdout)
            self.assertNotIn("not encrypted", check.stdout)
            self.convert(command, cluster, *key)
            if cluster.sealed:
                self.assertEqual((self.verify(cluster)["bad"], self.canaries.found(cluster.home)), ([], {}))
            look()

    def setUp(self):
        super().setUp()
        self.canaries = Canaries()

    def filled(self, places):
        """A stopped plain cluster with a tablespace and a table at each of the places; and a function that reads them."""
        cluster = self.cluster(sealed=False, conf="autovacuum = off\n").init().start()
        for number, place in enumerate(places):
            (cluster.home / place).mkdir(parents=True)
            cluster.psql(f"CREATE TABLESPACE s{number} LOCATION '{cluster.home / place}'")
            cluster.psql(f"CREATE TABLE t{number} TABLESPACE s{number} AS SELECT '{self.canaries['row']}' || i AS word "
                         "FROM generate_series(1, 500) i")
        cluster.stop()

        def look():
            cluster.start()
            for number in range(len(places)):
                self.assertEqual(cluster.psql(f"SELECT count(*), count(DISTINCT word) FROM t{number}"), "500|500")
            cluster.stop()

        return cluster, look

    def test_tablespaces_in_the_data_directory(self):
        for place in ["data/ts", "data/pg_spaces/ts", "data/base/ts"]:
            with self.subTest(place=place):
                cluster, look = self.filled([place])
                self.there_and_back(cluster, look)
                cluster.close()
                shutil.rmtree(cluster.home)

    def test_tablespaces_in_tablespaces(self):
        cluster, look = self.filled(["one", "one/b", "one/b/b"])
        (cluster.data / "pg_tblspc/99999").symlink_to(cluster.home / "one")
        self.there_and_back(cluster, look)

    def test_second_names_of_places(self):
        cluster = self.cluster(sealed=False, conf="autovacuum = off\n").init().start()
        cluster.psql(f"CREATE TABLE t (i int, word text DEFAULT '{self.canaries['row']}'); CHECKPOINT")
        one = "INSERT INTO t VALUES (1);"
        undone = "BEGIN; INSERT INTO t VALUES (-1); ROLLBACK;"
        cluster.psql("\n".join((one + undone) for _ in range(200)))
        cluster.stop()
        (cluster.data / "pg_wal").rename(cluster.data / "wal")
        for name, place in [("pg_wal", "wal"), ("pg_clog", "pg_xact"), ("pg_xlog", "pg_wal")]:
            (cluster.data / name).symlink_to(place)

        def look():
            cluster.start()
            self.assertEqual(cluster.psql(ROWS), "200|200|200")
            cluster.stop()

        self.there_and_back(cluster, look)

    def test_other_peoples_files(self):
        """On the disk of a tablespace nothing is touched, or need be open, but the cluster's own directory."""
        cluster, look = self.filled(["disk"])
        disk = cluster.home / "disk"
        text = b"this disk also holds the photos\n" * 1000
        for name in ["README", "backups/photos.tar"]:
            (disk / name).parent.mkdir(exist_ok=True)
            (disk / name).write_bytes(text)
        closed = disk / "lost+found"
        closed.mkdir(mode=0)
        self.addCleanup(os.chmod, closed, 0o700)

        def look_there_too():
            look()
            self.assertEqual([(disk / name).read_bytes() for name in ["README", "backups/photos.tar"]], [text] * 2)

        self.there_and_back(cluster, look_there_too)

    def test_what_a_sealed_server_wrote_beside_its_databases(self):
        """An extension's files, say: rekey and unseal convert them."""
        cluster = self.cluster().init()
        file = cluster.data / "base/extension/words"
        file.parent.mkdir()
        cluster.start()
        cluster.psql(f"COPY (SELECT '{self.canaries['copied']}' FROM generate_series(1, 500)) TO '{file}'")
        read = (f"DO $$ BEGIN PERFORM lo_import('{file}', 4711); END $$; SELECT convert_from(lo_get(4711), 'UTF8'); "
                "DO $$ BEGIN PERFORM lo_unlink(4711); END $$")
        words = cluster.psql(read)
        cluster.stop()
        self.convert("rekey", cluster, *PLAIN_KEY)
        self.assertEqual(self.canaries.found(cluster.data), {})
        cluster.start()
        self.assertEqual(cluster.psql(read), words)
        cluster.stop()
        self.convert("unseal", cluster)
        self.assertEqual(file.read_text().strip(), words.strip())

    def test_attributes_and_access_lists(self):
        cluster = self.cluster(sealed=False).init()
        file = cluster.data / "base/5/1259"
        entries = [(1, 6, -1), (2, 4, os.getuid() + 1), (4, 4, -1), (16, 4, -1), (32, 0, -1)]
        access = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
        given = {"user.backup": b"1", "system.posix_acl_access": access}
        for name, value in given.items():
            try:
                os.setxattr(file, name, value)
            except OSError as error:
                if error.errno != errno.ENOTSUP:
                    raise
                self.skipTest(f"no {name} on the file system of the test's directory")
        mode = file.stat().st_mode
        for command in ["seal", "rekey", "unseal"]:
            inode = file.stat().st_ino
            self.convert(command, cluster, *([] if command == "unseal" else PLAIN_KEY))
            self.assertNotEqual(file.stat().st_ino, inode)
            self.assertEqual({name: os.getxattr(file, name) for name in given}, given)
            self.assertEqual(file.stat().st_mode, mode)


if __name__ == "__main__":
    main(__file__)
