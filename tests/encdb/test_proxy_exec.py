#!/usr/bin/env python3
"""pgseal client exec: one program with a proxy of its own. psql, pg_dump and psycopg2 are run as they are."""

import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS  # noqa: E402
from executed import ClientExec  # noqa: E402
from owners_client import IO, USAGE  # noqa: E402
from pgseal_test import TIME_LIMIT, main  # noqa: E402
from proxied import PGSEAL  # noqa: E402

PSYCOPG2 = """
import os, psycopg2
for place in ("", os.environ["DATABASE_URL"]):
    with psycopg2.connect(place) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO person (id, name) SELECT coalesce(max(id), 0) + 1, %s FROM person", ("secretAda",))
        cursor.execute("SELECT count(*), current_user FROM person WHERE name = %s", ("secretAda",))
        print(*cursor.fetchone())
"""


class Programs(ClientExec):
    def test_psql_and_pg_dump(self):
        self.shop()
        cluster = self.cluster_
        script = "INSERT INTO person (id, name, age) VALUES (1, 'secretAda', 36); SELECT name, age FROM person WHERE name LIKE 'secret%'"
        self.assertEqual(self.run_with(cluster, "psql", "-XAtq", stdin=script), "secretAda|36\n")
        self.assertEqual(self.run_with(cluster, "psql", "-XAtqc", "SELECT name FROM person", "postgres"), "secretAda\n")
        dumped = self.run_with(cluster, "pg_dump", "-s")
        self.assertIn("name public.enc_text", dumped)
        self.assert_never_in_clear("secret")

    def test_a_missing_list_is_said_to_the_program(self):
        """In a proxy and inside the program."""
        self.shop()
        self.client(self.cluster_, "init", identity="other")
        asked = ["psql", "-XAtqc", "SELECT count(*) FROM person"]
        other = {"PGSEAL_IDENTITY": str(self.directory / "other")}
        for options in ([], ["--in-process"]):
            self.assertIn("has no list of", self.run_with(self.cluster_, *asked, options=options, code=2, **other))
            trusting = [*options, "--trust-server-types"]
            self.assertEqual(self.run_with(self.cluster_, *asked, options=trusting, **other), "0\n")

    def test_psycopg2_by_variables_and_by_url(self):
        self.shop()
        script = self.directory / "script.py"
        script.write_text(PSYCOPG2)
        elsewhere = "postgres://postgres@db.invalid:7/postgres?sslmode=require"
        printed = self.run_with(self.cluster_, sys.executable, script, DATABASE_URL=elsewhere)
        self.assertEqual(printed, "1 postgres\n2 postgres\n")
        self.assert_never_in_clear("secret")

    def test_the_connection_is_that_of_the_options(self):
        cluster = self.bare()
        cluster.psql("CREATE ROLE ada LOGIN; CREATE DATABASE shop")
        self.lists_nothing(cluster, "-d", "shop")
        asked = ["psql", "-XAtqc", "SELECT current_user, current_database()"]
        self.assertEqual(self.run_with(cluster, *asked, options=["-U", "ada", "-d", "shop"]), "ada|shop\n")
        string = f"postgresql://ada@/shop?host={cluster.home}"
        self.assertEqual(self.run_with(cluster, *asked, options=["-d", string], PGHOST="db.invalid", PGHOSTADDR="127.0.0.1"), "ada|shop\n")
        printed = self.run_with(cluster, "sh", "-c", "echo $PGHOST $PGPORT $DATABASE_URL")
        host, port, url = printed.split()
        self.assertEqual((Path(host).parent, port), (self.runtime, "5432"))
        self.assertEqual(url, f"postgresql://postgres@{host.replace('/', '%2F')}/postgres")

    def test_passwords_of_the_servers_are_found(self):
        cluster = self.bare()
        cluster.psql("CREATE ROLE ada LOGIN PASSWORD 'a:b\\c'")
        hba = cluster.data / "pg_hba.conf"
        hba.write_text("local all ada scram-sha-256\n" + hba.read_text())
        cluster.psql("SELECT pg_reload_conf()")
        file = self.directory / "pgpass"
        file.write_text(f"{cluster.home}:5432:postgres:ada:a\\:b\\\\c\n")
        file.chmod(0o600)
        asked = ["psql", "-wXAtqc", "SELECT current_user"]
        self.assertEqual(self.run_with(cluster, *asked, PGUSER="ada", PGPASSFILE=str(file)), "ada\n")
        self.assertEqual(self.run_with(cluster, *asked, PGUSER="ada", PGPASSWORD="a:b\\c"), "ada\n")
        self.assertIn("no password", self.run_with(cluster, *asked, PGUSER="ada", code=2))

    def test_exit_codes(self):
        cluster = self.bare()
        self.run_with(cluster, "sh", "-c", "exit 7", code=7)
        self.run_with(cluster, "sh", "-c", "kill -9 $$", code=137)
        self.run_with(cluster, "true")
        self.assertIn("nosuch cannot be started", self.run_with(cluster, "nosuch", code=IO))
        self.assertIn("DATABASE_URL", self.run_with(cluster, "true", code=USAGE, DATABASE_URL="jdbc:postgresql://db/shop"))
        self.assertIn("PGSERVICE", self.run_with(cluster, "true", code=USAGE, PGSERVICE="shop"))
        said = self.run_with(cluster, "psql", "-c", "SELECT 1", code=2, PGHOST="/nonexistent")
        self.assertIn("pgseal has no connection: the server does not answer", said)
        done = subprocess.run([PGSEAL, "client", "exec"], env=self.environment(cluster), text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, USAGE)


class Alone(ClientExec):
    def test_the_socket_is_for_its_user(self):
        cluster = self.bare()
        modes = self.run_with(cluster, "sh", "-c", "stat -c %a $PGHOST $PGHOST/.s.PGSQL.5432; ls -A $PGHOST").split()
        self.assertEqual(modes, ["700", "600", ".s.PGSQL.5432"])

    def test_signals_reach_the_program_and_nothing_is_left(self):
        cluster = self.bare()
        trapped = "trap 'kill $!; exit 5' TERM; sleep 60 & echo; wait"
        for number, command, code in ((signal.SIGTERM, trapped, 5), (signal.SIGHUP, "echo; exec sleep 60", 129),
                                      (signal.SIGTERM, "echo; exec sleep 60", 143)):
            process = self.start_with(cluster, "sh", "-c", command, stdout=subprocess.PIPE)
            process.stdout.readline()
            self.assertEqual(len(list(self.runtime.iterdir())), 1)
            process.send_signal(number)
            self.assertEqual(process.wait(TIME_LIMIT), code)
            process.stdout.close()
            self.assertEqual(list(self.runtime.iterdir()), [])

    def test_what_a_killed_one_leaves_is_removed_by_the_next(self):
        cluster = self.bare()
        with_password = ["-d", f"user=postgres password=secretAda host={cluster.home}"]
        process = subprocess.Popen([PGSEAL, "client", "exec", *with_password, "--", "sh", "-c", "echo $$; exec sleep 60"],
                                   env=self.environment(cluster), text=True, stdout=subprocess.PIPE)
        program = int(process.stdout.readline())
        self.addCleanup(os.kill, program, signal.SIGKILL)
        process.kill()
        process.wait()
        process.stdout.close()
        left, = self.runtime.iterdir()
        self.assertIn("secretAda", (left / "passwords").read_text())
        self.run_with(cluster, "true")  # which looks that nothing is left

    def test_what_is_ignored_stays_so(self):
        """As nohup starts a program."""
        process = self.start_with(self.bare(), "sh", "-c", "grep SigIgn /proc/$$/status", stdout=subprocess.PIPE,
                                  preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        mask = int(process.communicate(timeout=TIME_LIMIT)[0].split()[1], 16)
        self.assertEqual(mask & 1, 1)

    def test_the_terminal_is_the_programs(self):
        """Ctrl-C ends the statement in psql, and neither psql nor the proxy."""
        self.ctrl_c_ends_a_statement()
        self.assertEqual(list(self.runtime.iterdir()), [])


if __name__ == "__main__":
    main(__file__, TOOLS)
