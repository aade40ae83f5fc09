#!/usr/bin/env python3
"""One cluster by many paths, and paths into one cluster from inside another."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from pgseal_test import PGSEAL, STAGE, Canaries, Case, main, major_version, run

# Acts in Python, and knows no cluster.
PRELOADED = ["env", f"LD_PRELOAD={STAGE}/dist/lib/libpgseal.so", "PGSEAL_PROGRAMS=python3:python3.11"]

# Reads the table, and writes a file, through each of the links.
OPEN_ALL = """
import errno, sys
directory, table, word = sys.argv[1:]

def attempt(call):
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno]

def write(name):
    with open(name, "wb") as file:
        return file.write(word.encode()) == len(word)

for number in range(300):
    link = f"{directory}/link{number}/"
    read = attempt(lambda: word.encode() in open(link + table, "rb").read())
    print(read, attempt(lambda: write(f"{link}base/5/99999_{number}")))
"""

# Opens names in a directory that is removed, and below descriptors that are no directories.
OPEN_IN_NOTHING = """
import errno, os, sys

def attempt(name, **place):
    try:
        opener = lambda path, flags: os.open(path, flags, 0o600, **place)
        with open(name, "wb", opener=opener) as file:
            return file.write(b"word")
    except OSError as error:
        return errno.errorcode[error.errno]

os.mkdir("gone")
os.chdir("gone")
here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
os.rmdir("../gone")
places = [{}, {"dir_fd": here}, {"dir_fd": os.pipe()[0]}, {"dir_fd": os.open(sys.executable, os.O_RDONLY)}, {"dir_fd": 999}]
print(*(attempt(name, **place) for place in places for name in ["name", "../base/5/16384"]))
"""


class TwoClusters(Case):
    """Tools work on the cluster that a path leads to, wherever they stand."""

    def setUp(self):
        super().setUp()
        self.here = self.cluster("here").init()
        self.there = self.cluster("there").init()
        self.there.start().psql("CREATE TABLE t AS SELECT i FROM generate_series(1, 1000) i")
        self.there.stop()
        self.relative = "../../there/data"

    def from_here(self, program, *arguments):
        return self.there.run(program, *arguments, cwd=self.here.data).stdout

    def test_pg_controldata(self):
        line = "Database system identifier:"
        shown = [[text for text in output.splitlines() if line in text] for output in
                 (self.from_here("pg_controldata", "-D", self.relative), self.from_here("pg_controldata", self.relative),
                  self.there.run("pg_controldata", self.there.data).stdout,
                  self.here.run("pg_controldata", self.here.data).stdout)]
        self.assertEqual(shown[0], shown[2])
        self.assertEqual(shown[1], shown[2])
        self.assertNotEqual(shown[0], shown[3])

    def test_pg_checksums(self):
        self.assertRegex(self.from_here("pg_checksums", "--check", "-D", self.relative), r"Bad checksums:\s+0\n")

    def test_pg_waldump(self):
        segment = sorted(file.name for file in (self.there.data / "pg_wal").glob("0*"))[0]
        lsn = self.there.run("pg_controldata", self.there.data).stdout.split("Latest checkpoint location:")[1].split()[0]
        dumped = self.there.run("pg_waldump", f"{self.relative}/pg_wal/{segment}", "-s", lsn, cwd=self.here.data,
                                check=False)
        self.assertIn("CHECKPOINT_SHUTDOWN", dumped.stdout, dumped.stderr)

    def test_pg_resetwal(self):
        self.assertIn("Latest checkpoint's TimeLineID:       1", self.from_here("pg_resetwal", "-n", self.relative))
        self.from_here("pg_resetwal", "-f", self.relative)
        self.there.start()
        self.assertEqual(self.there.psql("SELECT count(*) FROM t"), "1000")

    def test_postgres(self):
        self.there.start(data=self.relative, directory=self.here.data)
        self.assertEqual(self.there.psql("SELECT count(*) FROM t"), "1000")
        self.there.stop()
        self.here.start(data="../data/.", directory=self.here.data)
        self.here.stop()

    def at(self, name):
        """Where `../../NAME/data` leads from here: a cluster that is not made yet."""
        cluster = self.cluster(name, environment={"PGHOST": str(self.there.home)})
        self.addCleanup(self.assert_nothing_of_here_changed, self.contents())
        return cluster, f"../../{name}/data"

    def contents(self):
        return {file: file.read_bytes() for file in self.here.data.rglob("*") if file.is_file()}

    def assert_nothing_of_here_changed(self, before):
        self.assertEqual(before, self.contents())

    def assert_rows(self, cluster):
        cluster.start("-k", str(cluster.home))
        cluster.environment["PGHOST"] = str(cluster.home)
        self.assertEqual(cluster.psql("SELECT count(*), sum(i) FROM t"), "1000|500500")
        cluster.stop()
        run([PGSEAL, "verify", "-D", cluster.data])

    def test_initdb(self):
        new, relative = self.at("new")
        self.from_here("initdb", "-N", "-U", "postgres", "--data-encryption", "--no-key-wrap", "-D", relative)
        self.assertNotEqual(new.master_key(), self.here.master_key())
        run([PGSEAL, "verify", "-D", relative], cwd=self.here.data)
        run([PGSEAL, "verify", "-D", new.data])

    def test_base_backups(self):
        """And what is made of them: targets, inputs and the output are relative, and the server is there."""
        if major_version() >= 17:
            self.there.configure("summarize_wal = on")
        self.there.start()
        full, relative = self.at("full")
        self.from_here("pg_basebackup", "-c", "fast", "-D", relative)
        self.assertIn("backup successfully verified", self.from_here("pg_verifybackup", relative))
        self.assertEqual(full.master_key(), self.there.master_key())
        if major_version() >= 17:
            (last, second), (whole, output) = self.at("last"), self.at("whole")
            self.from_here("pg_basebackup", "-c", "fast", "-i", f"{relative}/backup_manifest", "-D", second)
            self.from_here("pg_combinebackup", relative, second, "-o", output)
            self.there.stop()
            self.assertTrue(list(last.data.rglob("INCREMENTAL.*")))
            self.assert_rows(whole)
        else:
            self.there.stop()
        self.assert_rows(full)

    def test_pg_receivewal(self):
        """What it writes is what the server has stored."""
        self.addCleanup(self.assert_nothing_of_here_changed, self.contents())
        (self.directory / "received").mkdir()
        self.there.start()
        self.there.psql("SELECT pg_switch_wal(); INSERT INTO t SELECT generate_series(1, 1000)")
        end = self.there.psql("SELECT pg_current_wal_flush_lsn()")
        self.there.psql("INSERT INTO t VALUES (0)")  # it stops when it sees WAL behind the end
        self.from_here("pg_receivewal", "-D", "../../received", "--no-loop", "--endpos", end)
        received, = (self.directory / "received").iterdir()
        length = int(end.partition("/")[2], 16) % (16 << 20) // 16 * 16
        self.assertGreater(length, 8192)
        stored = (self.there.data / "pg_wal" / received.name.removesuffix(".partial")).read_bytes()
        self.assertEqual(received.read_bytes()[:length], stored[:length])

    def test_pg_rewind(self):
        """Both clusters are elsewhere, have the same key, and have parted."""
        other, relative = self.at("other")
        run(["cp", "-a", self.there.data, other.data])
        (other.data / "standby.signal").touch()
        other.environment["PGHOST"] = str(other.home)
        other.start("-k", str(other.home))
        other.psql("SELECT pg_promote()")
        other.psql("CHECKPOINT")
        other.stop()
        self.there.start().psql("INSERT INTO t VALUES (-1)")
        self.there.stop()
        done = self.there.run("pg_rewind", "-D", self.relative, "--source-pgdata", relative, cwd=self.here.data)
        self.assertIn("Done!", done.stderr)
        self.assert_rows(self.there)


class ServerAndStrangers(Case):
    """What unlocks a cluster may be a command in it; and who is connected says which paths a server opens."""

    def test_no_command_of_another_cluster_is_run(self):
        ran = self.directory / "ran"
        command = f'touch {ran}; cat "%p"'
        there = self.cluster("there", key=['--key-wrap-command=cat > "%p"', f"--key-unwrap-command={command}"]).init()
        ran.unlink()
        here = self.cluster("here").init().start()
        here.psql("CREATE ROLE reader LOGIN IN ROLE pg_read_server_files; GRANT EXECUTE ON FUNCTION pg_read_binary_file(text) TO reader")
        for name in ["global/pg_control", "base/1/1259"]:
            read, stored = f"SELECT pg_read_binary_file('{there.data}/{name}')", (there.data / name).read_bytes()
            self.assertEqual(here.psql(read, user="reader"), "\\x" + stored.hex())
            self.assertNotIn("opens no other cluster", here.log())
        self.assertIn("wal_level", here.psql(f"SELECT pg_read_file('{there.data}/postgresql.conf')"))
        here.psql(f"SELECT pg_read_binary_file('{there.data}/pg_encryption/key.bin')", error="Permission denied")
        for way in ["pg_read_binary_file", "lo_import"] * 2:
            here.psql(f"SELECT {way}('{there.data}/base/1/1259')", receiver=here.token(), error="Input/output error")
        self.assertFalse(ran.exists())
        self.assertIn(f"opens no other cluster than its own, and not the one at {there.data}: nothing in it is opened", here.log())
        here.psql("CREATE TABLE t AS SELECT 'own'; CHECKPOINT")
        here.stop()
        here.start()
        self.assertEqual(here.psql("SELECT * FROM t"), "own")

    def test_a_path_adds_no_line_to_the_log(self):
        here = self.cluster("here").init().start()
        here.psql("CREATE ROLE writer LOGIN IN ROLE pg_write_server_files")
        write = f"COPY (SELECT 1) TO E'{here.data}/pg_dynshmem/x\\n2026-01-01 00:00:00 UTC FATAL: forged'"
        here.psql(write, user="writer", error="Operation not supported")
        self.assertIn("pg_dynshmem/x?2026-01-01 00:00:00 UTC FATAL: forged cannot be sealed", here.log())
        self.assertNotIn("\n2026-01-01", here.log())


class ManyPaths(Case):
    def test_the_data_directory_by_other_names(self):
        cluster = self.cluster().init()
        data, home = cluster.data, cluster.home
        (home / "link").symlink_to(data)
        (home / "up").symlink_to(home)
        names = [home / "link", f"{home}//up/./link/", f"{data}/base/../global/..", "link",
                 "./up/data", data]
        for count, name in enumerate(names):
            cluster.start(data=name)
            cluster.psql(f"CREATE TABLE t{count} AS SELECT i FROM generate_series(1, 1000) i; CHECKPOINT")
            for before in range(count + 1):
                self.assertEqual(cluster.psql(f"SELECT count(*) FROM t{before}"), "1000")
            cluster.kill9()
        cluster.start().stop()
        self.assertRegex(cluster.run("pg_checksums", "-D", home / "up/link").stdout, r"Bad checksums:\s+0\n")

    def test_more_paths_than_a_process_knows(self):
        """Beyond 256 of one process, a path leads to no clear bytes, and to no stored ones either."""
        cluster, canaries = self.cluster().init().start(), Canaries()
        cluster.psql(f"CREATE TABLE t AS SELECT '{canaries['row']}' AS word")
        table = cluster.psql("SELECT pg_relation_filepath('t')")
        cluster.stop()
        for number in range(300):
            (self.directory / f"link{number}").symlink_to(cluster.data)
        done = run([PGSEAL, "exec", "-D", cluster.data, "--", "/usr/bin/python3", "-c", OPEN_ALL, self.directory, table,
                    canaries["row"]])
        self.assertEqual(done.stdout.splitlines(), ["True True"] * 255 + ["EIO EIO"] * 45)
        self.assertEqual(canaries.found(cluster.data), {})
        self.assertEqual(len(list(cluster.data.glob("base/5/99999_*"))), 255)

    def test_a_directory_that_is_gone(self):
        """Nothing opens there, with the errno of the kernel; but where a name leads out of it cannot be seen."""
        cluster = self.cluster().init()
        options = ["-c", OPEN_IN_NOTHING]
        for directory, first in [(self.directory, "ENOENT EIO ENOENT EIO"), (cluster.data, "ENOENT EIO ENOENT EIO")]:
            with self.subTest(directory=directory):
                done = run([PGSEAL, "exec", "-D", cluster.data, "--", "/usr/bin/python3", *options], cwd=directory)
                self.assertEqual(done.stdout, first + " ENOTDIR" * 4 + " EBADF" * 2 + "\n")
        plain = self.directory / "plain"
        (plain / "base/5").mkdir(parents=True)
        done = run([*PRELOADED, "/usr/bin/python3", *options], cwd=plain)
        self.assertEqual(done.stdout, "ENOENT 4 ENOENT 4" + " ENOTDIR" * 4 + " EBADF" * 2 + "\n")

    def test_relocated_wal(self):
        canaries = Canaries()
        wal = self.directory / "wal"
        cluster = self.cluster(initdb=[f"--waldir={wal}"]).init().start()
        self.assertTrue((cluster.data / "pg_wal").is_symlink())
        start = cluster.psql("SELECT pg_current_wal_lsn()")
        cluster.psql(f"CREATE TABLE t AS SELECT '{canaries['row']}' AS word FROM generate_series(1, 1000)")
        segment = cluster.psql("SELECT pg_walfile_name(pg_current_wal_lsn())")
        cluster.kill9()
        self.assertEqual(canaries.found(cluster.data, wal), {})
        expected = self.dump(cluster, cluster.data / "pg_wal" / segment, start)
        self.assertIn("COMMIT", expected)
        self.assertEqual(self.dump(cluster, wal / segment, start), expected)
        cluster.start()
        self.assertEqual(cluster.psql("SELECT count(*) FROM t"), "1000")
        cluster.stop()

    def dump(self, cluster, segment, start):
        """pg_waldump, told of its cluster by PGDATA alone."""
        environment = {"PGDATA": str(cluster.data)}
        return cluster.run("pg_waldump", segment, "-s", start, environment=environment, check=False).stdout

    def test_tablespace_by_its_own_location(self):
        canaries = Canaries()
        cluster = self.cluster(tablespaces=["apart"]).init().start()
        apart = cluster.home / "apart"
        cluster.psql(f"CREATE TABLESPACE apart LOCATION '{apart}'")
        cluster.psql(f"CREATE TABLE t TABLESPACE apart AS SELECT '{canaries['row']}' AS word; CHECKPOINT")
        path = cluster.psql("SELECT pg_relation_filepath('t')")
        location = apart / path.split("/", 2)[2]
        self.assertTrue(location.is_file())
        self.assertEqual(canaries.found(apart), {})
        read = [bytes.fromhex(cluster.psql(f"SELECT pg_read_binary_file('{name}')", receiver=cluster.token())[2:])
                for name in (path, location)]
        self.assertEqual(read[0], read[1])
        self.assertIn(canaries["row"].encode(), read[0])
        cluster.psql("ALTER TABLE t SET TABLESPACE pg_default; CHECKPOINT")
        self.assertEqual(cluster.psql("SELECT word FROM t"), canaries["row"])
        self.assertEqual(canaries.found(cluster.data), {})
        cluster.stop()

    def test_adminpack_renames(self):
        """SQL functions of 15 and 16 that write and rename files of any class."""
        if major_version() > 16:
            self.skipTest("adminpack ended with 16")
        canaries = Canaries()
        cluster = self.cluster().init().start()
        cluster.psql("CREATE EXTENSION adminpack")
        word = canaries["word"] * 999 + "odd"
        cluster.psql(f"SELECT pg_file_write('pg_stat/one', '{word}', false)")
        self.assertEqual(canaries.found(cluster.data), {})
        for source, target in [("pg_stat/one", "pg_stat_tmp/two"), ("pg_stat_tmp/two", "pg_replslot/three"),
                               ("pg_replslot/three", "base/four"), ("base/four", "pg_stat/five")]:
            cluster.psql(f"SELECT pg_file_rename('{source}', '{target}')")
            self.assertEqual(cluster.psql(f"SELECT pg_read_file('{target}')", receiver=cluster.token()), word)
            self.assertFalse((cluster.data / source).exists())
            self.assertEqual(canaries.found(cluster.data), {})
        self.by_way_of_new_wal(cluster, canaries["word"])
        self.assertEqual(canaries.found(cluster.data), {})
        cluster.stop()

    def by_way_of_new_wal(self, cluster, word):
        """A server renames new WAL to segments, and new histories, which are clear, from the same names. A session may not."""
        cluster.psql("SELECT pg_file_rename('pg_stat/five', 'pg_wal/xlogtemp.1')")
        for target in ["shown", "pg_wal/00000009.history", "pg_stat/shown"]:
            cluster.psql(f"SELECT pg_file_rename('pg_wal/xlogtemp.1', '{target}')", error="Permission denied")
            self.assertFalse((cluster.data / target).exists())
        imported = cluster.psql("SELECT lo_import('pg_wal/xlogtemp.1', 4711) AS number; SELECT lo_get(4711)")
        self.assertNotIn(word.encode().hex(), imported)


if __name__ == "__main__":
    main(__file__)
