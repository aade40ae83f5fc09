#!/usr/bin/env python3
"""Every program that `pgseal-divert add` puts a wrapper over does on a plain cluster what it did before, and works on a sealed one.

The version is the one that PGSEAL_TEST_PG leads to, or Debian's 15. All runs by the path of the package, as scripts and people call it.
A program that is diverted and has no test here is a failure.
"""

import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

from machine import Machine, as_postgres, blocks, main
from waiting import eventually

PG = Path(os.environ.get("PGSEAL_TEST_PG", "/usr/lib/postgresql/15/bin"))
VERSION = re.search(r"\d+", subprocess.run([PG / "pg_config", "--version"], text=True, capture_output=True, check=True).stdout)[0]
BIN, STOCK = Path(f"/usr/lib/postgresql/{VERSION}/bin"), Path(f"/usr/lib/postgresql/{VERSION}/stock")
HOME = Path("/var/lib/postgresql")
SECRET = "/etc/pgseal/passphrase"
KEY = ["--data-encryption", f"--key-passphrase-file={SECRET}"]
PORTS = {"plain": "5601", "sealed": "5602"}
INSTALL = blocks("docs/operations/debian.md")[0].replace("add 15", f"add {VERSION}")
# What is run by another program's test.
WITH_OTHERS = {"pg_ctl", "postgres", "initdb"}
# Of other packages; their own tests are in tests/extensions and tests/repmgr.
ELSEWHERE = {"pg_checksums_ext", "repmgr"}


class Programs(Machine):
    def test_0_clusters(self):
        if not BIN.exists():
            shutil.copytree(PG.parent, BIN.parent, symlinks=True)
        self.run_block(INSTALL)
        Path(SECRET).parent.mkdir()
        Path(SECRET).write_text("a long enough passphrase\n")
        self.run_as_root(["chown", "postgres", SECRET])
        Path(SECRET).chmod(0o600)
        for kind, port in PORTS.items():
            self.out("initdb", "-D", HOME / kind, "-A", "trust", "-N", "-k", *(KEY if kind == "sealed" else []))
            with open(HOME / kind / "postgresql.conf", "a") as conf:
                conf.write(f"port = {port}\nlisten_addresses = ''\nunix_socket_directories = '/run/postgresql'\nwal_level = logical\n")
                conf.write("summarize_wal = on\n" if int(VERSION) >= 17 else "")
            self.start(kind)
            self.psql("CREATE TABLE t AS SELECT 42 AS answer", port)

    def test_1_all_that_are_diverted_are_tested(self):
        """By name."""
        tested = {name.removeprefix("test_2_") for name in dir(self) if name.startswith("test_2_")}
        there = {path.name for path in STOCK.iterdir()}
        self.assertEqual(there - tested - WITH_OTHERS - ELSEWHERE, set())
        self.assertIn("pg_basebackup", there)

    def test_2_pg_basebackup(self):
        for kind, port in PORTS.items():
            with self.subTest(kind):
                self.out("pg_basebackup", "-D", HOME / f"{kind}.copy", "-c", "fast", *self.server(port))
                self.assertEqual((HOME / f"{kind}.copy/pg_encryption").exists(), kind == "sealed")
                self.out("pg_basebackup", "-D", HOME / f"{kind}.tar", "-Ft", "-X", "fetch", "-c", "fast", *self.server(port))
                self.assertTrue((HOME / f"{kind}.tar/base.tar").exists())
                self.on_another_port(HOME / f"{kind}.copy")

    def test_2_pg_checksums(self):
        for kind in PORTS:
            with self.subTest(kind), self.stopped(kind):
                self.assertRegex(self.out("pg_checksums", "--check", "-D", HOME / kind), r"Bad checksums:  0\n")

    def test_2_pg_combinebackup(self):
        if not (STOCK / "pg_combinebackup").exists():
            return
        for kind, port in PORTS.items():
            with self.subTest(kind):
                full, more, whole = (HOME / f"{kind}.{name}" for name in ("full", "more", "whole"))
                self.out("pg_basebackup", "-D", full, "-c", "fast", *self.server(port))
                self.out("pg_basebackup", "-D", more, "-c", "fast", f"--incremental={full}/backup_manifest", *self.server(port))
                self.out("pg_combinebackup", full, more, "-o", whole)
                self.on_another_port(whole)

    def test_2_pg_config(self):
        self.assertRegex(self.out("pg_config", "--version"), rf"^PostgreSQL {VERSION}\.")
        self.assertTrue(Path(self.out("pg_config", "--sharedir").strip()).is_dir())

    def test_2_pg_controldata(self):
        for kind in PORTS:
            with self.subTest(kind):
                self.assertRegex(self.out("pg_controldata", "-D", HOME / kind), r"Database cluster state: +in production\n")

    def test_2_pg_createsubscriber(self):
        if not (STOCK / "pg_createsubscriber").exists():
            return
        for kind, port in PORTS.items():
            with self.subTest(kind):
                copy = HOME / f"{kind}.subscriber"
                self.out("pg_basebackup", "-R", "-D", copy, "-c", "fast", *self.server(port))
                self.out("pg_createsubscriber", "--dry-run", "-D", copy, "-P", f"host=/run/postgresql port={port} dbname=postgres",
                         "-d", "postgres", "-s", "/run/postgresql", "-p", "5699")

    def test_2_pg_receivewal(self):
        for kind, port in PORTS.items():
            with self.subTest(kind):
                place = HOME / f"{kind}.wal"
                self.run_as_root(as_postgres(["mkdir", place]))
                self.psql("SELECT pg_switch_wal()", port)
                self.psql("INSERT INTO t VALUES (43)", port)
                end = self.psql("SELECT pg_current_wal_lsn()", port)
                self.psql("INSERT INTO t VALUES (43)", port)
                self.out("pg_receivewal", "-D", place, "--no-loop", "-E", end, *self.server(port))
                self.assertNotEqual(list(place.iterdir()), [])

    def test_2_pg_resetwal(self):
        for kind in PORTS:
            with self.subTest(kind), self.stopped(kind):
                self.assertRegex(self.out("pg_resetwal", "-n", "-D", HOME / kind), r"First log segment after reset:")

    def test_2_pg_rewind(self):
        for kind, port in PORTS.items():
            with self.subTest(kind):
                with self.stopped(kind):
                    self.run_as_root(["cp", "-a", HOME / kind, HOME / f"{kind}.old"])
                done = self.tool("pg_rewind", "-D", HOME / f"{kind}.old", f"--source-server=host=/run/postgresql port={port} dbname=postgres")
                self.assertEqual((done.returncode, "no rewind required" in done.stderr), (0, True), done.stderr)

    def test_2_pg_upgrade(self):
        """A cluster that is made for it becomes another one of its version, in a directory where the logs of it may lie."""
        for kind in PORTS:
            with self.subTest(kind):
                old, new = HOME / f"{kind}.before", HOME / f"{kind}.after"
                for data in (old, new):
                    self.out("initdb", "-D", data, "-A", "trust", "-N", "-k", *(KEY if kind == "sealed" else []))
                self.out("pg_upgrade", "-b", BIN, "-B", BIN, "-d", old, "-D", new, "-s", "/tmp")
                self.assertEqual((new / "pg_encryption").exists(), kind == "sealed")

    def test_2_pg_verifybackup(self):
        for kind, port in PORTS.items():
            with self.subTest(kind):
                copy = HOME / f"{kind}.verified"
                self.out("pg_basebackup", "-D", copy, "-c", "fast", *self.server(port))
                self.assertEqual(self.out("pg_verifybackup", copy), "backup successfully verified\n")

    def test_2_pg_waldump(self):
        for kind, port in PORTS.items():
            with self.subTest(kind):
                start = self.psql("SELECT pg_current_wal_lsn()", port)
                self.psql("INSERT INTO t VALUES (43)", port)
                dumped = self.out("pg_waldump", "-p", HOME / kind / "pg_wal", "-s", start, "-n", "1")
                self.assertRegex(dumped, r"^rmgr: ")

    def test_2_pg_walsummary(self):
        if not (STOCK / "pg_walsummary").exists():
            return
        for kind, port in PORTS.items():
            with self.subTest(kind):
                self.psql("CREATE TABLE summed AS SELECT 1 AS a", port)
                self.psql("CHECKPOINT", port)
                places = (HOME / kind / "pg_wal/summaries").iterdir
                eventually(lambda: list(places()))
                self.assertRegex(self.out("pg_walsummary", *sorted(places())), r"TS \d+, DB \d+, REL \d+")

    def test_3_root_is_refused_by_postgresql_and_asked_nothing(self):
        """There is no passphrase, so a wrapper that asked for one would say that."""
        data, new = HOME / "sealed", HOME / "root"
        server = '"root" execution of the PostgreSQL server is not permitted.'
        cannot, executed = "{}: cannot be run as root", '{}: error: cannot be executed by "root"'
        key = ["--data-encryption", "--key-passphrase"]
        for command, said in [
            (["postgres", "-D", data], server), (["postgres", "--single", "-D", data, "postgres"], server),
            (["pg_ctl", "-D", data, "start"], cannot), (["pg_ctl", "-D", data, "restart"], cannot),
            (["initdb", "-D", new, *key], "{}: error: cannot be run as root"), (["pg_resetwal", "-D", data], executed),
            (["pg_rewind", "-D", data, "--source-pgdata", data], executed),
            (["pg_upgrade", "-b", BIN, "-B", BIN, "-d", data, "-D", data], cannot),
            (["pg_createsubscriber", "-D", data, "-d", "postgres", "-P", "port=1"], executed),
        ]:
            program = command[0]
            if not (STOCK / program).exists():
                continue
            with self.subTest(program):
                done = self.run_as_root([BIN / program, *command[1:]], check=False)
                self.assertEqual(done.returncode, 1)
                lines = [line for line in (done.stdout + done.stderr).splitlines() if line]
                self.assertEqual(lines[0], said.format(program))
                self.assertEqual(self.run_as_root([BIN / program, "--version"]).returncode, 0)
        self.assertFalse(new.exists())
        self.assertRegex(self.run_as_root([BIN / "postgres", "-C", "port", "-D", data]).stdout, r"^5602$")

    def test_3_pgseal_clone(self):
        """Of the programs that the page names."""
        for kind, port in PORTS.items():
            with self.subTest(kind):
                copy = HOME / f"{kind}.standby"
                key = ["--new-key", f"--key-passphrase-file={SECRET}"] if kind == "plain" else []
                done = self.as_postgres(["pgseal", "clone", "--pg", STOCK, "-D", copy, *self.server(port), *key])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.on_another_port(copy)

    def server(self, port):
        return ["-h", "/run/postgresql", "-p", port]

    def as_postgres(self, command):
        words = ["bash", "-c", 'cd /tmp && exec "$@"', "bash", *map(str, command)]
        return self.run_as_root(as_postgres(words), check=False, PGSEAL_PASSPHRASE_FILE=SECRET)

    def tool(self, program, *arguments):
        return self.as_postgres([BIN / program, *arguments])

    def out(self, program, *arguments):
        """What it prints."""
        done = self.tool(program, *arguments)
        self.assertEqual(done.returncode, 0, f"{program} {arguments}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def start(self, kind):
        self.out("pg_ctl", "-w", "-D", HOME / kind, "-l", HOME / f"{kind}.log", "start")

    def stop(self, kind):
        self.out("pg_ctl", "-w", "-D", HOME / kind, "stop")

    @contextmanager
    def stopped(self, kind):
        """While it lasts the server is not running."""
        self.stop(kind)
        yield
        self.start(kind)

    def on_another_port(self, copy):
        """The copy starts, has the rows, and stops."""
        self.out("pg_ctl", "-w", "-D", copy, "-l", f"{copy}.log", "-o", "-p 5690", "start")
        self.assertEqual(self.psql("SELECT min(answer) FROM t", 5690), "42")
        self.out("pg_ctl", "-w", "-D", copy, "stop")



if __name__ == "__main__":
    main(__file__)
