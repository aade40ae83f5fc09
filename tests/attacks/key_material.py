#!/usr/bin/env python3
"""The files that open a cluster's key, or say how: the server's user reads them, a role that may read files by SQL does not.

With what it is given of sealed files, which is what is stored, such a role would have every row.
Nor does one that may write files empty them: nobody would open the cluster again.
"""

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import PGSEAL, STAGE, Canaries, Case, main, major_version, run

SPY = """
CREATE ROLE spy LOGIN;
GRANT pg_read_server_files TO spy;
GRANT EXECUTE ON FUNCTION pg_read_file(text), pg_read_binary_file(text) TO spy;
"""
VANDAL = """
CREATE ROLE vandal LOGIN;
GRANT pg_write_server_files TO vandal;
"""


class KeyMaterial(Case):
    def setUp(self):
        super().setUp()
        self.word = Canaries()["passphrase"]
        self.passphrase = self.directory / "passphrase"
        self.passphrase.write_text(self.word + "\n")
        self.key_file = self.directory / "key"

    def sealed(self):
        """A cluster that a passphrase opens, and a file with the key in clear."""
        cluster = self.cluster("sealed", key=("--key-passphrase-file", self.passphrase),
                               environment={"PGSEAL_PASSPHRASE_FILE": str(self.passphrase)}).init()
        run([PGSEAL, "key", "wrap", "-D", cluster.data, "--new-key-file", self.key_file], cluster.environment)
        return cluster

    def ways_to(self, file):
        """Names that lead to it, for a server whose data directory is two below the test's own."""
        link, directory = self.directory / "link", self.directory / "links"
        for path, target in [(link, file), (directory, self.directory)]:
            path.unlink(missing_ok=True)
            path.symlink_to(target)
        return [file, link, directory / file.name, f"../../{file.name}", f"./global/../../../{file.name}",
                f"/proc/self/root{file}"]

    def refuses(self, cluster, file):
        for path in self.ways_to(file):
            with self.subTest(path=path):
                cluster.psql(f"SELECT pg_read_binary_file('{path}')", user="spy", error="Permission denied")
                if str(path).startswith("/"):  # COPY takes no other
                    copy = f"CREATE TEMP TABLE t (a text); COPY t FROM '{path}'"
                    cluster.psql(copy, user="spy", error="Permission denied")
                cluster.psql(f"SELECT lo_import('{path}')", error="Permission denied")

    def test_a_server_reads_them_to_nobody(self):
        cluster = self.sealed().start()
        cluster.psql(SPY)
        self.refuses(cluster, self.passphrase)
        self.refuses(cluster, self.key_file)
        other = self.directory / "other"
        other.write_text("something else")
        self.assertEqual(cluster.psql(f"SELECT pg_read_file('{other}')", user="spy"), "something else")

    def test_a_server_empties_them_for_nobody(self):
        """It is refused before the file is emptied, by `fopen` and by `open`."""
        cluster = self.sealed().start()
        cluster.psql(VANDAL + "SELECT lo_from_bytea(4711, 'gone')")
        for file in [self.passphrase, self.key_file]:
            held = file.read_bytes()
            for path in self.ways_to(file):
                with self.subTest(path=path):
                    if str(path).startswith("/"):
                        cluster.psql(f"COPY (SELECT 'gone') TO '{path}'", user="vandal", error="Permission denied")
                    cluster.psql(f"SELECT lo_export(4711, '{path}')", error="Permission denied")
                    self.assertEqual(file.read_bytes(), held)

    def test_other_files_are_emptied(self):
        """Written again they hold what is new and no more, whatever the server opened them by."""
        cluster = self.sealed().start()
        cluster.psql(VANDAL)
        other, longer = self.directory / "other", "a line that is longer" * 1000
        export = "SELECT lo_unlink(oid) FROM pg_largeobject_metadata; SELECT lo_from_bytea(4711, '{}'); SELECT lo_export(4711, '{}')"
        for user, write in [("vandal", "COPY (SELECT '{}') TO '{}' CSV"), ("postgres", export)]:
            for text in [longer, "short"]:
                cluster.psql(write.format(text, other), user=user)
                self.assertEqual(other.read_text().rstrip("\n"), text)
            other.unlink()
        cluster.psql("COPY (SELECT 1) TO '/dev/null'", user="vandal")

    def test_a_server_renames_them_for_nobody(self):
        """Nor what is on the way to them: by other names it would read them. Functions that rename files went with 17."""
        if major_version() >= 17:
            return
        way = self.directory / "way"
        way.mkdir()
        (self.directory / "link").symlink_to(way)
        self.passphrase = Path(shutil.move(self.passphrase, way))
        cluster = self.cluster("sealed", key=("--key-passphrase-file", self.passphrase),
                               environment={"PGSEAL_PASSPHRASE_FILE": str(self.directory / "link/passphrase")}).init().start()
        cluster.psql(SPY + """
            CREATE EXTENSION adminpack;
            GRANT pg_write_server_files TO spy;
            GRANT EXECUTE ON FUNCTION pg_file_rename(text, text), pg_file_rename(text, text, text) TO spy;
        """)
        other = self.directory / "other"
        other.write_text("something else")
        named = "SELECT pg_file_rename('{}', '{}')"
        for path in [self.passphrase, way, self.directory / "link", self.directory / "link/passphrase"]:
            with self.subTest(path=path):
                cluster.psql(named.format(path, self.directory / "moved"), user="spy", error="Permission denied")
        cluster.psql(named.format(other, self.directory / "moved"), user="spy")
        self.assertEqual((self.directory / "moved").read_text(), "something else")
        self.assertEqual((self.directory / "link/passphrase").read_text(), self.word + "\n")

    def test_a_server_renames_nothing_sealed_to_where_it_would_be_clear(self):
        """Nor relations to where other functions read them; WAL and its temporary files go on as the server has them."""
        if major_version() >= 17:
            return
        cluster = self.sealed().start()
        cluster.psql(SPY + """
            CREATE EXTENSION adminpack;
            GRANT pg_write_server_files TO spy;
            GRANT EXECUTE ON FUNCTION pg_file_rename(text, text), pg_file_rename(text, text, text), pg_file_unlink(text) TO spy;
            CREATE TABLE t AS SELECT 'canary of a row' AS a FROM generate_series(1, 1000);
            CHECKPOINT;
        """)
        relation = cluster.psql("SELECT pg_relation_filepath('t')")
        segment = "pg_wal/" + cluster.psql("SELECT pg_walfile_name(pg_current_wal_lsn())")
        stored = (cluster.data / relation).read_bytes()
        targets = ["x", "log/x", str(self.directory / "x"), "pg_stat/x.stat", "pg_logical/mappings/x", "base/pgsql_tmp/pgsql_tmp1.1"]
        # A rename into a directory that is not there fails for that.
        for directory in ["log", "base/pgsql_tmp"]:
            (cluster.data / directory).mkdir(exist_ok=True)
        for source in [relation, segment, "global/pg_control", "pg_xact/0000"]:
            for target in targets:
                with self.subTest(source=source, target=target):
                    cluster.psql(f"SELECT pg_file_rename('{source}', '{target}')", user="spy", error="Permission denied")
                    self.assertTrue((cluster.data / source).exists() and not (cluster.data / target).exists())
        self.assertEqual((cluster.data / relation).read_bytes(), stored)
        # It says whether it did.
        self.assertEqual(cluster.psql(f"SELECT pg_file_unlink('{self.passphrase}')", user="spy"), "f")
        self.assertEqual(self.passphrase.read_text(), self.word + "\n")
        # A new timeline's history is written aside, sealed, and gets its clear name by a rename.
        cluster.stop()
        (cluster.data / "standby.signal").touch()
        cluster.start()
        cluster.psql("SELECT pg_promote()")
        self.assertTrue((cluster.data / "pg_wal/00000002.history").exists())
        self.assertEqual(cluster.psql("SELECT count(*) FROM t"), "1000")

    def test_below_a_name_that_is_sealed_neither(self):
        """What is where the server seals what it does not know is not emptied, read, or carried along there."""
        cluster = self.sealed()
        below = cluster.data / "pg_stat/secrets"
        below.mkdir()
        inside = Path(shutil.move(self.passphrase, below))
        cluster.environment["PGSEAL_PASSPHRASE_FILE"] = str(inside)
        cluster.start()
        cluster.psql(VANDAL + SPY + "SELECT lo_from_bytea(4711, 'gone')")
        cluster.psql(f"COPY (SELECT 'gone') TO '{inside}'", user="vandal", error="Permission denied")
        cluster.psql(f"SELECT lo_export(4711, '{inside}')", error="Permission denied")
        cluster.psql(f"SELECT lo_import('{inside}')", error="Permission denied")
        cluster.psql(f"SELECT pg_read_binary_file('{inside}')", user="spy", error="Permission denied")
        self.assertEqual(inside.read_text(), self.word + "\n")
        cluster.stop()
        self.assertEqual(inside.read_text(), self.word + "\n")
        cluster.start()

    def test_another_file_in_its_place_neither(self):
        cluster = self.sealed().start()
        cluster.psql(SPY)
        changed = self.directory / "changed"
        changed.write_text("another passphrase\n")
        os.replace(changed, self.passphrase)
        self.refuses(cluster, self.passphrase)

    def test_a_server_that_is_preloaded_without_its_twin(self):
        cluster = self.sealed()
        cluster.bindir = cluster.pg
        cluster.environment["LD_PRELOAD"] = str(STAGE / "dist/lib/libpgseal.so")
        cluster.start()
        cluster.psql(SPY)
        self.refuses(cluster, self.passphrase)
        self.refuses(cluster, self.key_file)

    def test_no_base_backup_takes_one_along(self):
        """In the data directory it is beside the key file that it opens: a raw backup would be a clear one."""
        cluster = self.sealed()
        inside = cluster.data / "passphrase"
        os.rename(self.passphrase, inside)
        cluster.environment["PGSEAL_PASSPHRASE_FILE"] = str(inside)
        cluster.start()
        for options in [["-D", self.directory / "copy"], ["-D", self.directory / "raw", "-F", "tar", "-X", "fetch"]]:
            done = cluster.run("pg_basebackup", "-c", "fast", *options, check=False)
            self.assertIn('could not open file "./passphrase": Permission denied', done.stderr)
            self.assertNotEqual(done.returncode, 0)

    def test_the_passphrase_of_a_command(self):
        """Of openssl's: where pgseal itself reads nothing, it knows no more than that."""
        for number, way in enumerate(["stored", "environment"]):
            code = "openssl enc -{} -aes-256-cbc -pbkdf2 -pass file:{} -{} %p"
            commands = {"PGDATAKEYWRAPCMD": code.format("e", self.passphrase, "out"),
                        "PGDATAKEYUNWRAPCMD": code.format("d", self.passphrase, "in")}
            cluster = self.cluster(f"cluster{number}", key=(), environment=commands).init()
            if way == "stored":
                cluster.environment.pop("PGDATAKEYUNWRAPCMD")
            cluster.start()
            cluster.psql(SPY)
            self.refuses(cluster, self.passphrase)
            cluster.stop()

    def test_what_opens_a_cluster_and_is_no_file(self):
        """A device is every process's own: the server reads what it is given there, and opens it for itself."""
        cluster = self.sealed()
        cluster.environment["PGSEAL_PASSPHRASE_FILE"] = "/dev/null"
        cluster.start()
        cluster.psql(SPY)
        self.assertEqual(cluster.psql("SELECT pg_read_file('/dev/null')", user="spy"), "")

    def test_a_plain_server_reads_them_to_that_role(self):
        plain = self.cluster("plain", sealed=False).init().start()
        plain.psql(SPY)
        for path in self.ways_to(self.passphrase):
            with self.subTest(path=path):
                self.assertEqual(plain.psql(f"SELECT pg_read_file('{path}')", user="spy"), self.word)


if __name__ == "__main__":
    main(__file__)
