#!/usr/bin/env python3
"""An evaluator that does not answer for a while, has no place, or is asked for what takes hours: nobody waits for it without an end."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

# Groups of more cells than come to the evaluator at once: it has a state for each until the group was asked for.
TABLE = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE t AS SELECT g % 4 AS g, encdb.enc_int8_encrypt(g) AS v FROM generate_series(1, 1200) g;
"""
COMPARE = "SELECT count(*) FROM t WHERE v < v;\n"
# Each asks the evaluator first in a way of its own.
ASKED = [COMPARE, "SELECT count(v + v) FROM t;\n", "SELECT count(s) FROM (SELECT sum(v) AS s FROM t GROUP BY ctid) x;\n", "SELECT max(v) FROM t;\n"]
CURSOR = "BEGIN; SET LOCAL enable_sort = off; DECLARE c CURSOR FOR SELECT sum(v) IS NULL FROM t GROUP BY g; FETCH 1 FROM c;\n"
NO_SESSION = "ERROR:  no session is open"
TIMEOUT = "ERROR:  canceling statement due to statement timeout"


class Stopped(Confidential):
    def setUp(self):
        super().setUp()
        self.process = self.evaluator()
        self.cluster_of_it = self.server(form="isolated", socket=self.process.socket, conf="max_parallel_workers_per_gather = 0")

    def signal(self, number):
        self.process.process.send_signal(number)

    def said(self, session, sql):
        """What a session says to this."""
        session.stdin.write(sql + "\\echo done\n")
        lines = []
        for line in session.stdout:
            if line == "done\n":
                return lines
            lines.append(line.rstrip("\n"))
        raise AssertionError(lines)

    def test_a_signal_does_not_end_the_wait_for_its_greeting(self):
        """Such as PostgreSQL's processes send each other all the time; a cancel does."""
        self.as_owner(self.cluster_of_it, TABLE)
        session = self.cluster_of_it.session()
        pid = int(self.said(session, "SELECT pg_backend_pid();\n")[-1])
        self.signal(signal.SIGSTOP)
        session.stdin.write(COMPARE)
        for _ in range(10):
            time.sleep(0.1)
            os.kill(pid, signal.SIGUSR1)
        self.signal(signal.SIGCONT)
        self.assertRegex(self.said(session, "")[0], NO_SESSION)
        self.signal(signal.SIGSTOP)
        for statement in ASKED:
            with self.subTest(statement=statement):
                begun = time.monotonic()
                self.assertEqual(self.said(self.cluster_of_it.session(), "SET statement_timeout = '300ms';\n" + statement)[0], TIMEOUT)
                self.assertLess(time.monotonic() - begun, 4)

    def test_what_is_aborted_does_not_wait_for_it(self):
        """Neither for what the evaluator still has of the query."""
        self.as_owner(self.cluster_of_it, TABLE)
        session = self.cluster_of_it.session()
        opened = self.said(session, self.opening().replace("\\set ON_ERROR_STOP 1\n", "") + CURSOR)
        self.assertEqual(opened, ["t", "f"])
        self.signal(signal.SIGSTOP)
        late = threading.Timer(20, self.signal, [signal.SIGCONT])
        self.addCleanup(late.cancel)
        late.start()
        begun = time.monotonic()
        self.assertEqual(self.said(session, "SET LOCAL statement_timeout = '300ms';\n" + COMPARE)[0], TIMEOUT)
        self.assertLess(time.monotonic() - begun, 10)
        self.signal(signal.SIGCONT)
        self.assertEqual(self.said(session, "ROLLBACK;\n" + COMPARE + CURSOR + "COMMIT;\n"), ["0", "f"])

    def test_a_session_that_is_ended_does_not_wait_for_it(self):
        """While the leader's thread asks it to admit parallel workers."""
        self.as_owner(self.cluster_of_it, TABLE + "ALTER TABLE t SET (parallel_workers = 2)")
        session = self.cluster_of_it.session()
        self.assertEqual(self.said(session, self.opening().replace("\\set ON_ERROR_STOP 1\n", "")), ["t"])
        parallel = ("SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;"
                    "SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off;\n")
        self.assertEqual(self.said(session, parallel + COMPARE), ["0"])
        self.signal(signal.SIGSTOP)
        late = threading.Timer(20, self.signal, [signal.SIGCONT])
        self.addCleanup(late.cancel)
        late.start()
        self.assertEqual(self.said(session, "SET statement_timeout = '300ms';\n" + COMPARE)[0], TIMEOUT)
        begun = time.monotonic()
        self.assertEqual(self.said(session, "DISCARD ALL;\n"), [])
        self.assertLess(time.monotonic() - begun, 2)
        self.signal(signal.SIGCONT)
        self.assertRegex(self.said(session, COMPARE)[0], NO_SESSION)

    def test_one_that_is_full_says_so(self):
        full = self.evaluator("full", options=["--max-connections", "1"])
        server = self.server("full_server", form="isolated", socket=full.socket)
        session, ask = server.session(), "SELECT encdb_process_message('\\x01');\n"
        self.assertRegex(self.said(session, ask)[0], "the message is malformed")
        server.psql(ask, error="the evaluator has reached its limit of sessions")

    def test_a_pattern_that_would_take_hours_is_refused(self):
        inline = self.server("inline")
        for form, server in zip(FORMS, [inline, self.cluster_of_it]):
            with self.subTest(form):
                self.as_owner(server, "SELECT encdb.dek_generate(encdb.default_keyname()) > 0; SELECT encdb.enc_text_encrypt(repeat('a', 2000000)) "
                                      "LIKE encdb.enc_text_encrypt('%' || repeat('a', 1000000) || '_b')", error="the pattern takes too long")


if __name__ == "__main__":
    main(__file__, TOOLS)
