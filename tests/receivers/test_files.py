#!/usr/bin/env python3
"""SQL that reads the server's files gives what is stored, unless the session shows a token."""

import itertools
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from receivers import Receivers
from pgseal_test import STAGE, main, major_version, run

PAGE = 8192


class Files(Receivers):
    def files(self, cluster):
        """One file of each class that SQL could read."""
        cluster.psql("BEGIN; INSERT INTO t VALUES (-1, 'x'); PREPARE TRANSACTION 'pending'; CHECKPOINT")
        relation = cluster.psql("SELECT pg_relation_filepath('t')")
        segment = cluster.psql("SELECT pg_walfile_name(pg_current_wal_lsn() - 1)")
        [twophase] = (cluster.data / "pg_twophase").iterdir()
        return [relation, f"pg_wal/{segment}", "pg_xact/0000", "global/pg_control", f"pg_twophase/{twophase.name}"]

    def serve_files(self):
        cluster = self.serve(conf="max_prepared_transactions = 2\nautovacuum = off\n")
        return cluster, self.files(cluster)

    def read(self, cluster, file, function="pg_read_binary_file", **session):
        return bytes.fromhex(cluster.psql(f"SELECT {function}('{file}')", **session)[2:])

    def test_what_each_session_is_given(self):
        cluster, files = self.serve_files()
        given = {"nothing": None, "raw": "raw", "expired": cluster.token(expiry=int(time.time()) - 1),
                 "another role's": cluster.token(role="repl"), "another key's": cluster.token(master=bytes(32))}
        for file in files:
            stored = (cluster.data / file).read_bytes()
            for name, receiver in given.items():
                with self.subTest(file=file, given=name):
                    self.assertEqual(self.read(cluster, file, receiver=receiver)[:PAGE], stored[:PAGE])
            with self.subTest(file=file, given="a good token"):
                clear = self.read(cluster, file, receiver=cluster.token())
                self.assertEqual(len(clear), len(stored))
                self.assertNotEqual(clear[:PAGE], stored[:PAGE])
        self.assertIn(self.mark, self.read(cluster, files[0], receiver=cluster.token()))

    def test_a_token_over_an_open_network(self):
        cluster, files = self.serve_files()
        shown = self.receive(cluster, "psql", "-X", "-A", "-t", "-c", f"SELECT pg_read_binary_file('{files[0]}')",
                             receiver=cluster.token(), PGHOST="127.0.0.1", PGSSLMODE="disable", check=True).stdout
        self.assertNotIn(self.mark, bytes.fromhex(shown.strip()[2:]))

    def test_a_token_that_expires_in_a_session(self):
        """What a connection may have is found out when it starts: pg_rewind reads for hours over one."""
        cluster, files = self.serve_files()
        expiry = int(time.time()) + 15
        read = f"SELECT pg_read_binary_file('{files[0]}');\n"
        wait = f"SELECT pg_sleep(greatest(0, {expiry + 1} - extract(epoch FROM clock_timestamp())));\n"
        token = cluster.token(expiry=expiry)
        clear, _, later = cluster.psql(read + wait + read, receiver=token).splitlines()
        self.assertIn(self.mark, bytes.fromhex(clear[2:]))
        self.assertEqual(later, clear)
        stored = (cluster.data / files[0]).read_bytes()
        self.assertEqual(self.read(cluster, files[0], receiver=token)[:PAGE], stored[:PAGE])

    def test_query_texts_and_unknown_names(self):
        cluster = self.serve(conf="shared_preload_libraries = 'pg_stat_statements'\n")
        cluster.psql(f"CREATE EXTENSION pg_stat_statements; ALTER ROLE repl PASSWORD '{self.canaries['password']}'")
        texts = "pg_stat_tmp/pgss_query_texts.stat"
        self.assertIn(self.mark, self.read(cluster, texts, receiver=cluster.token()))
        cluster.psql(f"COPY (SELECT '{self.canaries['unknown']}') TO '{cluster.data}/pg_replslot/unknown'")
        self.assertIn(self.mark, self.read(cluster, "pg_replslot/unknown", receiver=cluster.token()))
        for file in [texts, "pg_replslot/unknown"]:
            with self.subTest(file=file):
                shown = self.read(cluster, file)
                self.assertNotEqual(shown, b"")
                self.assertNotIn(self.mark, shown)

    def test_in_a_parallel_worker(self):
        """A worker is given what its leader is given: a token that its leader did not get by with is none."""
        cluster, files = self.serve_files()
        force = "debug_parallel_query" if major_version() >= 16 else "force_parallel_mode"
        cluster.psql("CREATE FUNCTION slurp(text) RETURNS bytea LANGUAGE sql PARALLEL SAFE "
                     "AS 'SELECT pg_read_binary_file($1)'; ALTER FUNCTION pg_read_binary_file(text) PARALLEL SAFE")
        plan = cluster.psql(f"SET {force} = on; EXPLAIN SELECT slurp('{files[0]}')")
        self.assertIn("Gather", plan)
        slurp = f"SET {force} = on; SELECT slurp('{files[0]}')"
        clear = self.read(cluster, files[0], receiver=cluster.token())
        self.assertIn(self.mark, clear)
        self.assertEqual(bytes.fromhex(cluster.psql(slurp, receiver=cluster.token())[2:]), clear)
        stored = self.read(cluster, files[0])
        self.assertNotIn(self.mark, stored)
        given = {"nothing": None, "raw": "raw", "expired": cluster.token(expiry=int(time.time()) - 1)}
        for name, receiver in given.items():
            with self.subTest(given=name):
                self.assertEqual(bytes.fromhex(cluster.psql(slurp, receiver=receiver)[2:]), stored)
        over_network = self.receive(cluster, "psql", "-X", "-q", "-A", "-t", "-c", slurp, receiver=cluster.token(), PGHOST="127.0.0.1",
                                    PGSSLMODE="disable", check=True).stdout
        self.assertEqual(bytes.fromhex(over_network.strip()[2:]), stored)

    def test_copy(self):
        cluster, files = self.serve_files()
        cluster.psql("CREATE TABLE lines (line text)")
        copy = f"COPY lines FROM '{files[0]}' (FORMAT csv, DELIMITER E'\\x01', QUOTE E'\\x02', ENCODING 'LATIN1')"
        done = self.receive(cluster, "psql", "-X", "-c", copy)
        self.assertNotIn(self.canaries.mark, done.stderr + cluster.psql("SELECT string_agg(line, ' ') FROM lines"))
        self.assertNotIn(self.canaries.mark, cluster.log())

    def serve_changing_link(self):
        """A server under which a link changes while it is looked at."""
        library, link = self.directory / "flip.so", self.directory / "link"
        run(["cc", "-O2", "-shared", "-fPIC", "-o", library, STAGE / "tests/lib/flip.c", "-ldl"])
        cluster = self.cluster(environment={"LD_PRELOAD": str(library), "PGSEAL_TEST_LINK": str(link)}).init().start()
        return cluster, link

    def test_a_link_that_changes_under_a_writer(self):
        """COPY TO by a name that leads elsewhere after each look-up of it: whatever class its file had, no key file is written."""
        cluster, link = self.serve_changing_link()
        names = {"harmless": self.directory / "harmless", "pages": cluster.data / "base/5/99999", "wal": cluster.data / "pg_wal/RECOVERYXLOG",
                 "stream": cluster.data / "pg_replslot/unknown"}
        for name in names.values():
            name.write_bytes(b"")
        keys = [cluster.data / "pg_encryption" / name for name in ("key.bin", "key.bin.0123", "pgseal.toml")]
        keys[1].write_bytes(b"another")
        before = [key.read_bytes() for key in keys]
        for (first, place), key in itertools.product(names.items(), keys):
            for look_up in range(1, 5):
                with self.subTest(first=first, key=key.name, look_up=look_up):
                    self.flip(link, place, key, look_up)
                    self.receive(cluster, "psql", "-X", "-c", f"COPY (SELECT 'gone') TO '{link}'")
                    self.assertEqual([key.read_bytes() for key in keys], before)

    @unittest.skipIf(major_version() >= 17, "adminpack, which removes files by SQL, left with 17")
    def test_a_link_to_the_key_directory(self):
        cluster = self.cluster().init().start()
        (cluster.data / "linked").symlink_to("pg_encryption")
        cluster.psql("CREATE EXTENSION adminpack")
        for command in ["pg_file_unlink('linked/key.bin')", "pg_file_rename('linked/key.bin', 'gone')", "pg_file_sync('linked/key.bin')"]:
            with self.subTest(command=command):
                self.receive(cluster, "psql", "-X", "-c", f"SELECT {command}")
                self.assertTrue((cluster.data / "pg_encryption/key.bin").exists())

    @unittest.skipIf(major_version() >= 17, "adminpack, which removes files by SQL, left with 17")
    def test_a_directory_that_changes_under_a_removal(self):
        """The directory that a name goes through leads elsewhere after each look-up of it, to that of the keys."""
        library, link, ordinary = self.directory / "flip.so", self.directory / "link", self.directory / "ordinary"
        run(["cc", "-O2", "-shared", "-fPIC", "-o", library, STAGE / "tests/lib/flip.c", "-ldl"])
        cluster = self.cluster(environment={"LD_PRELOAD": str(library), "PGSEAL_TEST_DIRECTORY": str(link)}).init().start()
        cluster.psql("CREATE EXTENSION adminpack")
        keys = cluster.data / "pg_encryption"
        before = (keys / "key.bin").read_bytes()
        ordinary.mkdir()
        commands = [f"pg_file_unlink('{link}/key.bin')", f"pg_file_rename('{link}/key.bin', '{self.directory}/gone')",
                    f"pg_file_rename('{self.directory}/another', '{link}/key.bin')"]
        changed = 0
        for command, look_up in itertools.product(commands, range(1, 6)):
            with self.subTest(command=command, look_up=look_up):
                (ordinary / "key.bin").write_bytes(b"ordinary")
                (self.directory / "another").write_bytes(b"another")
                self.flip(link, ordinary, keys, look_up)
                self.receive(cluster, "psql", "-X", "-c", f"SELECT {command}")
                changed += link.readlink() == keys
                self.assertEqual((keys / "key.bin").read_bytes(), before)
        self.assertGreater(changed, 0)

    def linked_keys(self):
        """A cluster whose key directory is a link, as PostgreSQL's pg_wal may be."""
        cluster = self.cluster().init()
        keys = self.directory / "keys"
        (cluster.data / "pg_encryption").rename(keys)
        (cluster.data / "pg_encryption").symlink_to(keys)
        return cluster.start(), keys

    def test_the_real_name_of_a_linked_key_directory(self):
        cluster, keys = self.linked_keys()
        before = {file.name: file.read_bytes() for file in keys.iterdir()}
        for name in ["key.bin", "pgseal.toml"]:
            with self.subTest(name=name):
                done = self.receive(cluster, "psql", "-X", "-c", f"COPY (SELECT 1) TO '{keys / name}'")
                self.assertRegex(done.stderr, "could not open file .*: Permission denied")
        if major_version() < 17:
            cluster.psql("CREATE EXTENSION adminpack")
            for command in [f"pg_file_unlink('{keys}/key.bin')", f"pg_file_rename('{keys}/key.bin', '{self.directory}/gone')",
                            f"pg_file_rename('{cluster.data}/PG_VERSION', '{keys}/key.bin')"]:
                with self.subTest(command=command):
                    self.receive(cluster, "psql", "-X", "-c", f"SELECT {command}")
        self.assertEqual({file.name: file.read_bytes() for file in keys.iterdir()}, before)
        self.assertTrue((cluster.data / "PG_VERSION").exists())
        cluster.stop()
        cluster.start()

    @unittest.skipIf(major_version() >= 17, "adminpack, which renames files by SQL, left with 17")
    def test_a_link_where_a_renamed_file_is_stored_first(self):
        """A rename into the cluster stores the file under a name of its own beside the old one, in a directory of anybody's."""
        cluster = self.cluster().init().start()
        cluster.psql("CREATE EXTENSION adminpack")
        key = cluster.data / "pg_encryption/key.bin"
        before = key.read_bytes()
        (self.directory / "a").write_bytes(b"clear")
        (self.directory / "a.pgseal").symlink_to(key)
        self.receive(cluster, "psql", "-X", "-c", f"SELECT pg_file_rename('{self.directory}/a', '{cluster.data}/base/5/99998')")
        self.assertEqual(key.read_bytes(), before)
        stored = cluster.data / "base/5/99998"
        self.assertFalse(stored.is_symlink())
        self.assertNotIn(b"clear", stored.read_bytes())

    def test_a_link_that_changes(self):
        """The name leads elsewhere after each look-up of it: what is given is what is stored, or nothing. What is refused by its
        name is refused by any."""
        cluster, link = self.serve_changing_link()
        cluster.psql(f"CREATE TABLE t AS SELECT '{self.canaries['row']}' || i AS word FROM generate_series(1, 20000) i; CHECKPOINT")
        files = {"harmless": self.directory / "harmless", "pages": cluster.data / cluster.psql("SELECT pg_relation_filepath('t')"),
                 "stream": cluster.data / "pg_replslot/unknown", "key": cluster.data / "pg_encryption/key.bin",
                 "memory": Path(f"/proc/{cluster.server.pid}/environ")}
        files["harmless"].write_bytes(b"harmless" * 4096)
        cluster.psql(f"COPY (SELECT '{self.canaries['unknown']}') TO '{files['stream']}'")
        given = {name: files[name].read_bytes()[: 2 * PAGE] for name in ("harmless", "pages", "stream")}
        self.assertNotIn(self.mark, given["pages"] + given["stream"])
        for first, second in itertools.permutations(files, 2):
            for look_up in range(1, 5):
                with self.subTest(first=first, second=second, look_up=look_up):
                    self.flip(link, files[first], files[second], look_up)
                    done = self.receive(cluster, "psql", "-X", "-A", "-t", "-c", f"SELECT pg_read_binary_file('{link}', 0, {2 * PAGE})")
                    if done.returncode == 0:
                        self.assertIn(bytes.fromhex(done.stdout.strip()[2:]), [given.get(first), given.get(second)])
                    else:
                        self.assertRegex(done.stderr, "could not open file .*: Permission denied")
                        self.assertTrue({"key", "memory"} & {first, second})

    def flip(self, link, first, second, look_up):
        """A link that leads to the second file after so many look-ups in one process."""
        for old in link.parent.glob("link*"):
            old.unlink()
        link.symlink_to(first)
        link.with_name(f"link.{look_up}").symlink_to(second)

    def imported(self, cluster, file, **session):
        oid = cluster.psql(f"SELECT lo_import('{file}')", **session)
        return bytes.fromhex(cluster.psql(f"SELECT lo_get({oid})")[2:])

    def test_lo_import(self):
        cluster, files = self.serve_files()
        for file in files[:4]:
            stored = (cluster.data / file).read_bytes()
            with self.subTest(file=file):
                self.assertEqual(self.imported(cluster, file)[:PAGE], stored[:PAGE])
                clear = self.imported(cluster, file, receiver=cluster.token())
                self.assertNotEqual(clear[:PAGE], stored[:PAGE])
        self.assertIn(self.mark, self.imported(cluster, files[0], receiver=cluster.token()))

    def test_what_the_server_reads_for_itself_stays_clear(self):
        cluster = self.serve(conf="shared_preload_libraries = 'pg_stat_statements'\n")
        cluster.psql("CREATE EXTENSION pg_stat_statements")
        cluster.psql("SELECT 1 AS remembered")
        counted = "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 't'"
        self.assertEqual(cluster.psql(counted), "20000")
        cluster.stop()
        cluster.start()
        self.assertEqual(cluster.psql(counted), "20000")
        self.assertIn("remembered", cluster.psql("SELECT query FROM pg_stat_statements"))
        cluster.psql("CREATE DATABASE copied TEMPLATE postgres STRATEGY file_copy")
        self.assertEqual(cluster.psql("SELECT count(*), sum(i) FROM t", db="copied"), "20000|200010000")


if __name__ == "__main__":
    main(__file__)
