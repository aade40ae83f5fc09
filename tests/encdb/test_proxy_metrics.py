#!/usr/bin/env python3
"""pgseal proxy --metrics: what Prometheus is told, and whether the server can be reached."""

import http.client
import re
import socket
import stat
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS  # noqa: E402
from pgseal_test import TIME_LIMIT, main  # noqa: E402
from proxied import Proxied, answers  # noqa: E402
from waiting import eventually  # noqa: E402


class AtSocket(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=TIME_LIMIT)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Metrics(Proxied):
    def setUp(self):
        super().setUp()
        self.at = self.directory / "metrics"

    def ask(self, path, method="GET"):
        connection = AtSocket(self.at)
        connection.request(method, path)
        answer = connection.getresponse()
        try:
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def numbers(self):
        status, text = self.ask("/metrics")
        self.assertEqual(status, 200)
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        for line in lines:
            self.assertRegex(line, r'\Apgseal_proxy_[a-z_]+(\{[a-z]+="[^"]*"\})? \d+\Z')
        return {name.removeprefix("pgseal_proxy_"): int(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def test_numbers_are_of_what_happened(self):
        self.shop()
        directory = self.proxy(self.cluster_, "--metrics", self.at)
        eventually(lambda: answers(self.at), process=self.process)
        self.assertEqual(stat.S_IMODE(self.at.stat().st_mode), 0o600)
        before = self.numbers()
        with self.connect(directory) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO person (id, name, age) VALUES (1, 'secretAda', 36), (2, 'secretBob', NULL)")
            cursor.execute("SELECT name, age FROM person ORDER BY id")
            self.assertEqual(cursor.fetchall(), [("secretAda", 36), ("secretBob", None)])
            during = self.numbers()
        connection.close()
        self.psql(directory, "SELECT format('%s secretC', name) FROM person", code=3)
        eventually(lambda: self.numbers()["connections_open"] == 0)
        after = self.numbers()
        self.assertEqual((before["cells_sealed_total"], before["cells_opened_total"]), (0, 0))
        self.assertEqual((during["connections_open"], during["cells_sealed_total"], during["cells_opened_total"]), (1, 3, 3))
        self.assertEqual(after["statements_total"], 5)  # BEGIN and COMMIT are psycopg2's
        self.assertEqual((after["sessions_total"], after["session_failures_total"], after['refused_total{class="0A"}']), (2, 0, 1))
        self.assertGreater(after['received_bytes_total{from="driver"}'], 100)
        self.assertGreater(after['received_bytes_total{from="server"}'], 1000)
        self.assertEqual(after["connections_total"] - before["connections_total"], 2)
        self.assertNotRegex(self.ask("/metrics")[1], "secret|person|postgres")

    def test_sessions_that_are_not_opened_and_servers_that_are_gone(self):
        self.shop()
        directory = self.proxy(self.cluster_, "--metrics", self.at, accept=f"software:{'0' * 64}")
        eventually(lambda: answers(self.at), process=self.process)
        self.assertEqual(self.ask("/healthz"), (200, "the server can be reached\n"))
        self.psql(directory, "SELECT 1", code=2)
        numbers = self.numbers()
        self.assertEqual((numbers["sessions_total"], numbers["session_failures_total"], numbers['refused_total{class="PE"}']), (0, 1, 1))
        self.cluster_.stop()
        status, text = self.ask("/healthz")
        self.assertEqual(status, 503)
        self.assertTrue(re.fullmatch(r"[^\n]+\n", text), text)
        self.assertIn("does not answer", text)

    def test_other_requests(self):
        self.shop()
        self.proxy(self.cluster_, "--metrics", self.at)
        eventually(lambda: answers(self.at), process=self.process)
        self.assertEqual(self.ask("/metrics", "HEAD"), (200, ""))
        self.assertEqual([self.ask(path, method)[0] for path, method in (("/", "GET"), ("/metrics", "POST"))], [404, 405])


if __name__ == "__main__":
    main(__file__, TOOLS)
