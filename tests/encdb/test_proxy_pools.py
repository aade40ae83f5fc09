#!/usr/bin/env python3
"""PgBouncer before pgseal proxy, and behind it, in both of its modes."""

import shutil
import subprocess
import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS  # noqa: E402
from pgseal_test import base_environment, main  # noqa: E402
from proxied import PORT, Proxied, answers  # noqa: E402
from waiting import eventually  # noqa: E402

INI = """[databases]
* = host={host} port={port}
[pgbouncer]
unix_socket_dir = {home}
listen_port = {listen}
auth_type = trust
auth_file = {home}/users
pool_mode = {mode}
default_pool_size = {size}
"""
FIND = "SELECT name FROM person WHERE name = %s"


class Pools(Proxied):
    def pool(self, server, port, mode, size=1, listen=5432):
        """A PgBouncer before a server's socket; the directory of its own."""
        home = self.directory / f"pool{len(list(self.directory.glob('pool*')))}"
        home.mkdir()
        (home / "users").write_text('"postgres" ""\n')
        (home / "ini").write_text(INI.format(host=server, port=port, home=home, listen=listen, mode=mode, size=size))
        log = open(home / "log", "w")
        self.addCleanup(log.close)
        program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin")
        process = subprocess.Popen([program, home / "ini"], env=base_environment(), stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        eventually(lambda: answers(home / f".s.PGSQL.{listen}"), (home / "log").read_text, process=process)
        return home

    def behind(self, mode, *options, size=1):
        """A proxy whose server is behind a pool."""
        self.shop()
        self.pool_ = self.pool(self.cluster_.home, 5432, mode, size)
        return self.proxy(self.cluster_, *options, server=f"host={self.pool_}")

    def exchanges(self):
        """How often the server has been sent something for its evaluator."""
        return (self.cluster_.home / "log").read_text().count("process_message")

    def session(self, directory):
        connection = self.connect(directory)
        connection.autocommit = True
        return connection, connection.cursor()


class BeforeTheProxy(Pools):
    def test_by_session(self):
        self.shares("session")

    def test_by_transaction(self):
        self.shares("transaction")

    def shares(self, mode):
        """Users of the pool have one connection of the proxy's, one after the other."""
        directory = self.pool(self.shop(), PORT, mode, listen=PORT)
        for number in range(3):
            connection = self.connect(directory)
            with connection, connection.cursor() as cursor:
                cursor.execute("INSERT INTO person (id, name) VALUES (%s, %s)", (number, f"secret{number}"))
                cursor.execute(FIND, (f"secret{number}",))
                self.assertEqual(cursor.fetchall(), [(f"secret{number}",)])
            connection.close()
        if mode == "transaction":
            (_, one), (_, other) = self.session(directory), self.session(directory)
            for cursor, name in ((one, "secret0"), (other, "secret1"), (one, "secret2")):
                cursor.execute(FIND, (name,))
                self.assertEqual(cursor.fetchall(), [(name,)])
        self.assert_never_in_clear("secret")


class BehindTheProxy(Pools):
    def test_a_pool_is_refused_unless_its_owner_says_how_it_is(self):
        directory = self.behind("session")
        before = self.exchanges()
        said = self.psql(directory, "SELECT 1", code=2)
        self.assertIn("a pool is between pgseal and the server", said)
        self.assertIn("--session-pool", said)
        self.assertEqual(self.exchanges(), before, "keys have gone there")

    def test_by_session(self):
        directory = self.behind("session", "--session-pool")
        for number in range(3):
            connection, cursor = self.session(directory)
            cursor.execute("INSERT INTO person (id, name) VALUES (%s, %s)", (number, f"secret{number}"))
            cursor.execute(FIND, (f"secret{number}",))
            self.assertEqual(cursor.fetchall(), [(f"secret{number}",)])
            cursor.execute("DISCARD ALL")
            cursor.execute(FIND, (f"secret{number}",))
            self.assertEqual(cursor.fetchall(), [(f"secret{number}",)])
            connection.close()
        # The pool's next client, on the same connection of the server, has no session of the owner's.
        direct = psycopg2.connect(host=str(self.pool_), port=5432, user="postgres", dbname="postgres")
        self.addCleanup(direct.close)
        with direct.cursor() as cursor, self.assertRaisesRegex(psycopg2.Error, "no session is open"):
            cursor.execute("SELECT 1 FROM person ORDER BY name")
        self.assert_never_in_clear("secret")

    def test_by_transaction_the_session_is_missed(self):
        """The owner has said otherwise. Where another connection of the server answers, that is one clear error."""
        directory = self.behind("transaction", "--session-pool", size=2)
        _, cursor = self.session(directory)
        cursor.execute("INSERT INTO person (id, name) VALUES (1, 'secretAda')")
        cursor.execute(FIND, ("secretAda",))
        direct = psycopg2.connect(host=str(self.pool_), port=5432, user="postgres", dbname="postgres")
        self.addCleanup(direct.close)
        with direct.cursor() as other:
            other.execute("SELECT 1")  # the transaction is open, and keeps the connection
            for _ in range(2):
                with self.assertRaisesRegex(psycopg2.Error, "hands out connections by transaction") as refused:
                    cursor.execute(FIND, ("secretAda",))
                self.assertEqual(refused.exception.pgcode, "PE009")
            direct.rollback()
        self.assert_never_in_clear("secret")

    def test_where_nothing_is_encrypted_any_pool_will_do(self):
        self.cluster_ = cluster = self.server("plain", extension=False)
        self.client(cluster, "init")
        self.lists_nothing(cluster)
        directory = self.proxy(cluster, server=f"host={self.pool(cluster.home, 5432, 'transaction')}")
        self.assertEqual(self.psql(directory, "SELECT 6 * 7"), ["42"])


if __name__ == "__main__":
    main(__file__, TOOLS)
