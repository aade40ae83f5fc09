#!/usr/bin/python3
"""The extension pgseal: what a server knows of its encryption, as views that pg_monitor may read.

The server is the copy that scripts/encdb-server.sh made below target/encdb; PGSEAL_TEST_PG says of which PostgreSQL.
"""

import os
import re
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from copied import wrappers_of_copy
from pgseal_test import PGSEAL, STAGE, Case, Canaries, main, major_version, run
from waiting import eventually

SERVER = f"target/encdb/{major_version()}"
INSTALLED = STAGE / SERVER
VIEWS = ["pgseal_status", "pgseal_slots", "pgseal_io", "pgseal_receivers", "pgseal_files()"]
SLOTS = ("SELECT slot, kind, label, opened_server, created_by IS NOT NULL, proved_at - created_at < '1 hour', provider_key "
         "FROM pgseal_slots ORDER BY slot")


def programs():
    """Where the copy's PostgreSQL is."""
    return INSTALLED / (INSTALLED / "bindir").read_text().strip()


def wrappers(pg):
    """The wrappers of the copy's programs."""
    return wrappers_of_copy(pg, INSTALLED)


class Extension(Case):
    def server(self, **options):
        """A running cluster of the copy, with the extension."""
        options = {"wrappers": wrappers, "pg": programs(), **options}
        cluster = self.cluster(**options).init().start()
        cluster.psql("CREATE EXTENSION pgseal; CREATE ROLE watcher LOGIN IN ROLE pg_monitor; CREATE ROLE nobody LOGIN")
        return cluster

    def status(self, cluster, *columns, user="watcher"):
        return cluster.psql(f"SELECT {', '.join(columns)} FROM pgseal_status", user=user).split("|")


class Status(Extension):
    def test_it_is_what_the_command_says(self):
        cluster = self.server()
        said = run([PGSEAL, "status", "-D", cluster.data]).stdout
        lines = dict(re.split(r":\s+", line, maxsplit=1) for line in said.splitlines())
        columns = ["sealed", "key_id", "cluster_id", "suite", "key_bits", "opened_by_slot", "opened_by", "key_file", "library_version",
                   "restart_pending"]
        self.assertEqual(self.status(cluster, *columns),
                         ["t", lines["key id"], lines["cluster id"], "AES-XTS", "256", "1", "plain", "ok", lines["server library"], "f"])
        self.assertEqual(self.status(cluster, "running_since >= sealed_since - interval '1 s'", "now() - sealed_since < '1 hour'"),
                         ["t", "t"])

    def test_who_may_read(self):
        cluster = self.server()
        for view in VIEWS:
            with self.subTest(view):
                cluster.psql(f"SELECT * FROM {view}", user="watcher")
                cluster.psql(f"SELECT * FROM {view}", user="nobody", error="permission denied for ")
        for function in ["status", "slots", "io", "receivers"]:
            cluster.psql(f"SELECT * FROM pgseal_{function}_rows()", user="nobody", error="permission denied for function")

    def test_a_key_file_that_goes_away_is_seen(self):
        cluster = self.server()
        key, aside = cluster.data / "pg_encryption/key.bin", cluster.home / "aside"
        shutil.copy2(key, aside)
        for content, word in [(None, "missing"), (b"", "damaged"), (aside.read_bytes()[:-1] + b"\0", "altered"),
                              (self.other_key(cluster), "of another key"), (aside.read_bytes(), "ok")]:
            with self.subTest(word):
                key.unlink(missing_ok=True)
                if content is not None:
                    key.write_bytes(content)
                self.assertEqual(self.status(cluster, "key_file"), [word])
        self.assertEqual(cluster.psql("SELECT count(*) FROM pgseal_slots"), "1")

    def other_key(self, cluster):
        other = self.cluster("other", pg=cluster.pg, wrappers=wrappers).init()
        return (other.data / "pg_encryption/key.bin").read_bytes()

    def test_lines_in_the_log_are_counted(self):
        cluster = self.server()
        before = int(self.status(cluster, "log_lines")[0])
        cluster.psql("ALTER SYSTEM SET log_directory = 'x'")
        cluster.psql("COPY (SELECT 1) TO PROGRAM 'cat'")
        self.assertEqual(self.status(cluster, "log_lines"), [str(before)])
        cluster.psql(f"COPY (SELECT 1) TO '{cluster.data}/notes/x'", error="could not open")
        (cluster.data / "notes").mkdir()
        cluster.psql(f"COPY (SELECT 1) TO '{cluster.data}/notes/x'", error="could not open")
        self.assertEqual(self.status(cluster, "log_lines"), [str(before + cluster.log().count("\npgseal: "))])
        self.assertGreater(int(self.status(cluster, "log_lines")[0]), before)

    def test_another_library_on_disk_is_seen(self):
        installed = self.directory / "dist"
        shutil.copytree(STAGE / "dist", installed, ignore=shutil.ignore_patterns("wheels", "libpgseal_*"))
        cluster = self.server(wrappers=lambda pg: wrappers_of_copy(pg, INSTALLED, installed / "bin/pgseal", "others"))
        self.assertEqual(self.status(cluster, "restart_pending"), ["f"])
        library, new = installed / "lib/libpgseal.so", installed / "new"
        shutil.copy2(library, new)
        os.replace(new, library)
        self.assertEqual(self.status(cluster, "restart_pending"), ["t"])

    def test_a_plain_cluster(self):
        for wrapped in [False, True]:
            with self.subTest(wrapped=wrapped):
                cluster = self.plain(wrapped)
                self.assertEqual(self.status(cluster, "sealed", "key_id IS NULL", "key_file IS NULL"), ["f", "t", "t"])
                self.assertEqual(self.status(cluster, "library_version IS NULL"), ["f" if wrapped else "t"])
                for view in VIEWS[1:]:
                    self.assertEqual(cluster.psql(f"SELECT count(*) FROM {view}"), "0", view)
                cluster.stop()

    def plain(self, wrapped):
        cluster = self.cluster(f"plain{wrapped}", sealed=False, pg=programs()).init()
        if wrapped:
            cluster.bindir = wrappers(programs())
        cluster.start()
        cluster.psql("CREATE EXTENSION pgseal; CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
        return cluster


class Slots(Extension):
    def test_labels_and_dates(self):
        cluster = self.server()
        secret = cluster.home / "passphrase"
        secret.write_text("correct horse battery staple\n")
        run([PGSEAL, "key", "add", "-D", cluster.data, "--new-passphrase-file", secret, "--argon2-memory", "64MB", "--label", "in the säfe"])
        cluster.psql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
        cluster.psql("CREATE EXTENSION pgseal", db="latin")
        for db, label in [("postgres", "in the säfe"), ("latin", "in the s??fe")]:
            self.assertEqual(cluster.psql(SLOTS, db=db, user="watcher").splitlines(),
                             ["1|plain||t|t|t|", f"2|passphrase|{label}|f|t|t|"])

    def test_no_command_and_no_secret_is_shown(self):
        word = Canaries().mark
        cluster = self.server(key=(f"--key-wrap-command=cat > %p # {word}", f"--key-unwrap-command=cat %p # {word}"))
        shown = "".join(cluster.psql(f"SELECT v::text FROM {view} AS v") for view in VIEWS)
        self.assertIn("command", shown)
        self.assertNotIn(word, shown)


class Counted(Extension):
    def io(self, cluster, column, kind):
        return float(cluster.psql(f"SELECT {column} FROM pgseal_io WHERE object = '{kind}'"))

    def test_pages_are_counted_by_kind(self):
        cluster = self.server(conf="shared_buffers = 16MB\nautovacuum = off")
        cluster.psql("CREATE TABLE t AS SELECT i, repeat('x', 200) AS x FROM generate_series(1, 100000) i; CHECKPOINT")
        size = int(cluster.psql("SELECT pg_relation_size('t')"))
        written = self.io(cluster, "bytes_written", "relation")
        self.assertGreaterEqual(written, size)
        self.assertEqual(self.io(cluster, "pages_written * 8192", "relation"), written)
        self.assertGreaterEqual(self.io(cluster, "bytes_written", "wal"), size)
        before = self.io(cluster, "pages_read", "relation")
        cluster.psql("SET max_parallel_workers_per_gather = 0; SELECT count(*) FROM t")
        self.assertGreaterEqual(self.io(cluster, "pages_read", "relation") - before, size / 8192 - 2048)
        temporary = self.io(cluster, "bytes_written", "temporary")
        cluster.psql("SET work_mem = '64kB'; SELECT count(*) FROM (SELECT DISTINCT x || i FROM t) AS d")
        self.assertGreater(self.io(cluster, "bytes_written", "temporary"), temporary)
        self.assertGreater(self.io(cluster, "files_opened", "slru"), 0)

    def test_times_are_taken_when_the_server_takes_them(self):
        cluster = self.server(conf="shared_buffers = 16MB\nautovacuum = off")
        cluster.psql("CREATE TABLE t AS SELECT i, repeat('x', 200) AS x FROM generate_series(1, 50000) i; CHECKPOINT")
        self.assertEqual(cluster.psql("SELECT sum(encrypt_time) + sum(decrypt_time) FROM pgseal_io"), "0")
        start = time.monotonic()
        cluster.psql("SET track_io_timing = on; SET max_parallel_workers_per_gather = 0; UPDATE t SET i = i; SELECT count(*) FROM t")
        elapsed = 1000 * (time.monotonic() - start)
        decrypted, encrypted = self.io(cluster, "decrypt_time", "relation"), self.io(cluster, "encrypt_time", "relation")
        self.assertGreater(decrypted, 0)
        self.assertGreater(encrypted, 0)
        self.assertLess(decrypted + encrypted, elapsed)


class Receivers(Extension):
    def test_connections_that_show_something(self):
        cluster = self.server()
        shown = "SELECT receives, usename, token_id IS NOT NULL, expires_at - now() BETWEEN '59 min' AND '1 hour' FROM pgseal_receivers"
        self.assertEqual(cluster.psql(shown), "")
        self.assertEqual(cluster.psql(shown, receiver=cluster.token()), "clear pages|postgres|t|t")
        self.assertEqual(cluster.psql(shown, receiver="v1.1.postgres.00"), "")
        receiver = cluster.session(db="dbname=postgres replication=true options='-c pgseal.receiver=raw'")
        eventually(lambda: cluster.psql(shown) == "stored bytes|postgres|f|", lambda: cluster.psql(shown), process=receiver)
        receiver.kill()
        receiver.wait()
        eventually(lambda: cluster.psql(shown) == "", lambda: cluster.psql(shown))


class Files(Extension):
    def test_clear_files_have_reasons(self):
        cluster = self.server(tablespaces=["space"])
        cluster.psql(f"CREATE TABLESPACE space LOCATION '{cluster.home}/space'; CREATE TABLE t TABLESPACE space AS SELECT 1")
        (cluster.data / "mine").mkdir()
        (cluster.data / "mine/list.txt").write_text("a list")
        (cluster.data / "elsewhere").symlink_to("/usr")
        rows = [line.split("|") for line in cluster.psql("SELECT * FROM pgseal_files()", user="watcher").splitlines()]
        found = {path: (int(size), reason) for path, size, reason in rows}
        self.assertEqual(found["mine/list.txt"], (6, "not a file of PostgreSQL's: stored as it is"))
        self.assertEqual(found["postgresql.conf"][1], "configuration")
        self.assertIn("PG_VERSION", found)
        sealed = [path for path in found if re.search(r"/(t\d+_)?\d+(_[a-z]+)?(\.\d+)?$|pg_wal/[0-9A-F]{24}$|pg_xact/", path)]
        self.assertEqual(sealed, [])
        self.assertFalse(any(path.startswith(("pg_encryption", "elsewhere")) for path in found))


if __name__ == "__main__":
    main(__file__, [SERVER])
