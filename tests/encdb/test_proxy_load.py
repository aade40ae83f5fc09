#!/usr/bin/env python3
"""pgseal proxy under load: slow drivers and servers, connections that are cut, a stop in the middle, a thousand connections."""

import os
import re
import resource
import signal
import socket
import struct
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS  # noqa: E402
from pgseal_test import TIME_LIMIT, main  # noqa: E402
from proxied import PORT, Proxied  # noqa: E402
from waiting import eventually  # noqa: E402

MIB = 1 << 20
GIB = 1 << 30
# What a proxy may take more for one connection, whatever passes through it.
FEW = 16 * MIB
MANY = 1000
SELF_TERMINATED = "SELECT pg_terminate_backend(pg_backend_pid())"


class Plain:
    """A driver that speaks the protocol and holds nothing of what it reads."""

    def __init__(self, directory):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIME_LIMIT)
        self.socket.connect(str(directory / f".s.PGSQL.{PORT}"))
        body = struct.pack("!I", 196608) + b"user\0postgres\0database\0postgres\0\0"
        self.socket.sendall(struct.pack("!I", len(body) + 4) + body)
        self.read_to_ready()

    def query(self, sql):
        body = sql.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!I", len(body) + 4) + body)

    def read_to_ready(self, pause=0.0):
        """Reads up to the end of a cycle: how many rows came, and how many bytes."""
        rows, total, buffer, skipped = 0, 0, b"", 0
        while True:
            bytes_ = self.socket.recv(MIB)
            if not bytes_:
                raise AssertionError("the connection has ended")
            time.sleep(pause)
            total += len(bytes_)
            skipping = min(skipped, len(bytes_))
            skipped -= skipping
            buffer += bytes_[skipping:]
            while len(buffer) >= 5:
                tag, length = buffer[:1], struct.unpack("!I", buffer[1:5])[0] + 1
                rows += tag == b"D"
                skipped = max(length - len(buffer), 0)
                buffer = buffer[length:]
                if tag == b"Z":
                    return rows, total


class Load(Proxied):
    def bare(self, conf=""):
        cluster = self.server("bare", extension=False, conf=conf)
        self.client(cluster, "init")
        self.lists_nothing(cluster)
        self.cluster_ = cluster
        # The backends of these commands end a moment after them.
        eventually(lambda: self.backends() == 0)
        return self.proxy(cluster)

    def memory(self):
        """The most that the proxy has had in memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024

    def backends(self):
        """The server's connections of drivers: not those of psql, which asks, and which may not have ended since it last asked."""
        drivers = "backend_type = 'client backend' AND application_name <> 'psql'"
        return int(self.cluster_.psql(f"SELECT count(*) FROM pg_stat_activity WHERE {drivers}"))


class Memory(Load):
    def test_a_result_of_a_gibibyte_for_a_slow_driver(self):
        driver = Plain(self.bare())
        self.addCleanup(driver.socket.close)
        before = self.memory()
        driver.query(f"SELECT repeat('x', {MIB}) FROM generate_series(1, 1024)")
        time.sleep(2)  # nothing is read
        rows, total = driver.read_to_ready(pause=0.001)
        self.assertEqual((rows, total // GIB), (1024, 1))
        self.assertLess(self.memory() - before, FEW)

    def test_a_million_cells_for_a_slow_driver(self):
        directory = self.shop()
        self.psql(directory, "INSERT INTO person (id, name) VALUES (1, 'secretAda')")
        driver = Plain(directory)
        self.addCleanup(driver.socket.close)
        before = self.memory()
        driver.query("SELECT name FROM person, generate_series(1, 1000000)")
        time.sleep(2)
        self.assertEqual(driver.read_to_ready()[0], 1000000)
        self.assertLess(self.memory() - before, FEW)

    def test_rows_for_a_server_that_does_not_take_them(self):
        directory = self.bare()
        self.cluster_.psql("CREATE TABLE t (a text)")
        driver = Plain(directory)
        self.addCleanup(driver.socket.close)
        others = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> 'psql'"
        backend = int(self.cluster_.psql(others))
        before = self.memory()
        driver.query("COPY t FROM STDIN")
        self.assertEqual(driver.socket.recv(1), b"G")
        os.kill(backend, signal.SIGSTOP)
        self.addCleanup(os.kill, backend, signal.SIGCONT)
        driver.socket.settimeout(1)
        block, sent = b"d" + struct.pack("!I", 64 * 1024 + 4) + b"x" * (64 * 1024 - 1) + b"\n", 0
        with self.assertRaises(TimeoutError):
            while sent < GIB:
                driver.socket.sendall(block)
                sent += len(block)
        self.assertLess(sent, FEW)
        self.assertLess(self.memory() - before, FEW)


class Cut(Load):
    def test_a_driver_that_goes_away_ends_its_backend(self):
        directory = self.bare()
        for sql in (f"SELECT repeat('x', {MIB}) FROM generate_series(1, 1024)", "SELECT 1"):
            driver = Plain(directory)
            driver.query(sql)
            self.assertEqual(driver.socket.recv(1), b"T")
            self.assertEqual(self.backends(), 1)
            driver.socket.close()
            eventually(lambda: self.backends() == 0, process=self.process)
        self.assertEqual(self.psql(directory, "SELECT 1"), ["1"])

    def test_the_last_words_of_a_server_are_passed_on(self):
        directory = self.bare()
        for _ in range(30):
            driver, said = Plain(directory), b""
            driver.query(SELF_TERMINATED)
            while bytes_ := driver.socket.recv(MIB):
                said += bytes_
            driver.socket.close()
            self.assertIn(b"SFATAL\0VFATAL\0C57P01\0Mterminating connection", said)

    def test_the_last_words_of_a_driver_are_passed_on(self):
        directory = self.bare("log_disconnections = on\nlog_min_messages = debug1\n")
        before = len(self.cluster_.log())  # other commands have connected without the proxy
        for _ in range(30):
            self.connect(directory).close()
        eventually(lambda: self.backends() == 0)
        said = self.cluster_.log()[before:]
        self.assertGreaterEqual(said.count("disconnection: "), 30)
        self.assertNotIn("unexpected EOF", said)

    def test_a_server_that_dies_takes_no_other_connection_along(self):
        directory = self.bare()
        connection = self.connect(directory)
        self.cluster_.kill9()
        with self.assertRaises(psycopg2.OperationalError):
            connection.cursor().execute("SELECT 1")
        self.assertIn("pgseal has no connection", self.psql(directory, "SELECT 1", code=2))
        self.cluster_.start()
        self.assertEqual(self.psql(directory, "SELECT 1"), ["1"])


class Stop(Load):
    def test_a_statement_that_runs_is_answered(self):
        connection = self.connect(self.bare())
        threading.Timer(0.5, self.process.send_signal, [signal.SIGTERM]).start()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(2), 42")
            self.assertEqual(cursor.fetchone()[1], 42)
        connection.close()
        self.assertEqual(self.process.wait(20), 0)

    def test_a_connection_that_stays_is_cut_after_ten_seconds(self):
        connection = self.connect(self.bare())
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(30), 0)
        self.assertGreater(time.monotonic() - began, 9)
        with self.assertRaises(psycopg2.OperationalError):
            connection.cursor().execute("SELECT 1")
        eventually(lambda: self.backends() == 0)


@unittest.skipUnless(os.environ.get("PGSEAL_TEST_LONG") == "1", "a thousand backends: make test-world")
class Thousand(Load):
    def test_a_thousand_connections_at_once(self):
        """The proxy is started with the usual limit of 1024 descriptors, and raises it."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self.assertGreater(hard, 3 * MANY)
        directory = self.shop_for_many()
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.psql(directory, "INSERT INTO person (id, name) VALUES (1, 'secretAda')")
        began, before = time.monotonic(), self.memory()
        with ThreadPoolExecutor(50) as pool:
            connections = list(pool.map(lambda _: self.connect(directory), range(MANY)))
            opened = time.monotonic() - began
            self.assertEqual(self.backends(), MANY)
            answers = list(pool.map(self.ask, connections))
        self.assertEqual(answers, [("secretAda",)] * MANY)
        more = self.memory() - before
        print(f"{MANY} connections in {opened:.1f} s, {more / MANY / 1024:.0f} KiB each", file=sys.stderr)
        self.assertLess(more, MANY * MIB)
        for connection in connections:
            connection.close()
        eventually(lambda: self.backends() == 0)
        self.assertEqual(self.psql(directory, "SELECT name FROM person"), ["secretAda"])

    def shop_for_many(self):
        self.cluster_ = cluster = self.server("main", conf=f"max_connections = {MANY + 50}\nshared_buffers = 64MB\n")
        for command in (["init"], ["key", "new"], ["grant", "add", "--allow", "all"]):
            self.client(cluster, *command)
        cluster.psql("CREATE TABLE person (id int PRIMARY KEY, name enc_text)")
        self.client(cluster, "column", "add", "--all")
        return self.proxy(cluster)

    def ask(self, connection):
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM person WHERE name = %s", ("secretAda",))
            return cursor.fetchone()


if __name__ == "__main__":
    main(__file__, TOOLS)
