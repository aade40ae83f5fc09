#!/usr/bin/env python3
"""How a session reaches the parallel workers of its backend, on plain and on encrypted clusters: they are in it, the log counts them,
and nobody else gets at it, be it a role that reads files or a program of the server's own user."""

import hashlib
import re
import socket
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, VERSION, Confidential  # noqa: E402
from pgseal_test import STAGE, main  # noqa: E402
from waiting import eventually

# 400 pages, so that there is work for two.
TABLE = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE t WITH (fillfactor = 10, parallel_workers = 2) AS
    SELECT g AS id, encdb.enc_int4_encrypt(g * 7 % 1000) AS k FROM generate_series(1, 3000) g;
"""
PARALLEL = "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;"
# One worker runs all of a statement.
ONE_WORKER = f"SET {'debug_parallel_query' if int(VERSION) >= 16 else 'force_parallel_mode'} = on;"
LEAST = "SELECT id FROM t ORDER BY k, id LIMIT 1"
SUM = "SELECT encdb.decrypt(sum(k)), encdb.decrypt(max(k)), count(*) FROM t WHERE k >= k"
# The tests' owner 7 has this master key.
KEY = "decode(repeat('07', 32), 'hex')"
# Whether the key is in a file of a process, opened by name: of those that nobody may read, in the moment in which somebody may.
READ = """
DO $$ DECLARE name text; closed text[] := '{{}}'; found bytea; tries int := 0; BEGIN
    FOREACH name IN ARRAY ARRAY(SELECT '/proc/{pid}/fd/' || n FROM generate_series(3, 63) n) LOOP
        BEGIN
            PERFORM pg_read_binary_file(name, 0, 10, true);
        EXCEPTION WHEN insufficient_privilege THEN
            closed := closed || name;
        WHEN OTHERS THEN
        END;
    END LOOP;
    WHILE clock_timestamp() < now() + interval '3 s' LOOP
        FOREACH name IN ARRAY closed LOOP
            BEGIN
                found := pg_read_binary_file(name, 0, 10000, true);
                tries := tries + 1;
                IF position({key} IN found) > 0 THEN
                    RAISE NOTICE 'the master key, at try %', tries;
                    RETURN;
                END IF;
            EXCEPTION WHEN insufficient_privilege THEN
                tries := tries + 1;
            END;
        END LOOP;
    END LOOP;
    RAISE NOTICE 'nothing in % files', cardinality(closed);
END $$;
"""

PLACES = [(form, kind) for form in FORMS for kind in ["plain", "encrypted"]]


class Handover(Confidential):
    def at(self, form, kind, options=()):
        """A server of this form on a cluster of this kind."""
        name = f"{form}-{kind}"
        socket = self.evaluator(name, options).socket if form == "isolated" else ""
        return self.server(f"server-{name}", form=form, socket=socket, sealed=kind == "encrypted")

    def leader(self, server):
        """A session of the owner, and its process."""
        session = server.session()
        self.assertEqual(self.said(session, self.opening()), ["t"])
        return session, int(self.said(session, "SELECT pg_backend_pid();")[0])

    def said(self, session, sql):
        """What an open session answers."""
        session.stdin.write(f"{sql}\n\\echo done\n")
        lines = []
        for line in session.stdout:
            if line == "done\n":
                return lines
            lines.append(line.rstrip("\n"))
        raise AssertionError(lines)

    def test_workers_are_in_the_session(self):
        """Of queries, of aggregates whose states go between them, and of a build of an index."""
        for place in PLACES:
            with self.subTest(place):
                server = self.at(*place)
                self.as_owner(server, TABLE)
                explained = self.as_owner(server, PARALLEL + "EXPLAIN (ANALYZE) " + SUM)
                self.assertIn("Workers Launched: 2", explained)
                for mode in [PARALLEL, ONE_WORKER]:
                    self.assertEqual(self.as_owner(server, mode + SUM), "1498500|999|3000")
                    self.assertEqual(self.as_owner(server, mode + LEAST), "1000")
                self.as_owner(server, PARALLEL + "CREATE INDEX i ON t (k); REINDEX INDEX i;")
                self.assertEqual(self.as_owner(server, "SET enable_seqscan = off; SET enable_sort = off;" + LEAST), "1000")

    def test_workers_without_a_session_have_none(self):
        """Their leader had none, or has closed it."""
        for place in [(form, "plain") for form in FORMS]:
            with self.subTest(place):
                server = self.at(*place)
                self.as_owner(server, TABLE)
                server.psql(ONE_WORKER + LEAST, error="no session is open")
                self.as_owner(server, f"{ONE_WORKER} {LEAST}; DISCARD ALL; {ONE_WORKER} {LEAST};", error="no session is open")
                self.assertEqual(self.as_owner(server, f"DISCARD ALL; {self.opening()} {ONE_WORKER} {LEAST}").split()[-1], "1000")

    def test_workers_find_a_leader_that_came_after_others(self):
        """Backend IDs have gaps where earlier sessions have ended; the worker itself takes one of them."""
        for form in FORMS:
            with self.subTest(form):
                server = self.at(form, "plain")
                self.as_owner(server, TABLE)
                *earlier, (last, _) = [self.leader(server) for _ in range(4)]
                for session, _ in earlier:
                    session.stdin.write("\\q\n")
                of_them = f"FROM pg_stat_activity WHERE pid IN ({','.join(str(pid) for _, pid in earlier)})"
                eventually(lambda: self.said(last, f"SELECT count(*) {of_them};") == ["0"], "the end of three sessions")
                self.assertEqual(self.said(last, f"{ONE_WORKER} {LEAST};"), ["1000"])

    def test_a_key_of_another_session_shuts_no_worker_out(self):
        """The leader meets its first cell and loads all keys, while workers are on their way."""
        for form in FORMS:
            with self.subTest(form):
                server = self.at(form, "plain")
                self.as_owner(server, TABLE)
                (one, _), (other, _) = self.leader(server), self.leader(server)
                self.said(one, PARALLEL)
                for number in range(1, 121):
                    self.said(other, f"SELECT encdb.dek_generate('key {number}');")
                    self.said(other, f"UPDATE t SET k = encdb.enc_int4_encrypt(0, 'key {number}') WHERE id = {number};")
                    self.assertEqual(self.said(one, "SELECT count(*) FROM t WHERE k >= k;"), ["3000"], number)

    def test_workers_of_a_session_that_is_lost_say_so(self):
        """Where the leader takes no part it does not ask the evaluator itself; clients open anew where the evaluator is said to be gone."""
        evaluator = self.evaluator()
        server = self.server(form="isolated", socket=evaluator.socket)
        self.as_owner(server, TABLE)
        leader, _ = self.leader(server)
        self.said(leader, f"{PARALLEL} SET parallel_leader_participation = off;\n\\set VERBOSITY sqlstate\n\\set ON_ERROR_STOP 0")
        count = "SELECT count(*) FROM t WHERE k >= k;"
        self.assertEqual(self.said(leader, count), ["3000"])
        evaluator.kill9()
        evaluator.start()
        for _ in range(2):
            self.assertEqual(set(self.said(leader, count)), {"ERROR:  PE015"})
        # The leader itself learns it from its own next request, and is then attached anew.
        self.assertEqual(self.said(leader, f"SET max_parallel_workers_per_gather = 0; {count}"), ["ERROR:  PE015"])
        self.assertEqual(self.said(leader, self.opening()), ["t"])
        self.assertEqual(self.said(leader, count), ["3000"])

    def test_the_log_says_why_workers_have_no_session(self):
        """Once: here somebody has taken the name of where they meet."""
        server = self.at("inline", "plain")
        self.as_owner(server, TABLE)
        session = server.session()
        pid, started = map(int, self.said(session, "SELECT pg_backend_pid() || '|' || (extract(epoch FROM backend_start) * 1000000)::bigint"
                                                   " FROM pg_stat_activity WHERE pid = pg_backend_pid();")[0].split("|"))
        # PostgreSQL counts from 2000.
        started -= 946684800 * 1000000
        shown = re.search(r"Mock authentication nonce: +([0-9a-f]{64})", server.run("pg_controldata", server.data).stdout)
        name = hashlib.sha256(b"pgseal encdb meeting\0" + bytes.fromhex(shown[1]) + struct.pack("<qi", started, pid)).hexdigest()[:32]
        with socket.socket(socket.AF_UNIX) as taken:
            taken.bind(f"\0pgseal-encdb-{name}")
            for _ in range(2):
                self.assertEqual(self.said(session, self.opening()), ["t"])
        reason = "parallel workers of this backend have no session and are refused: Address already in use"
        self.assertEqual(server.log().count(reason), 1)

    def test_each_worker_is_in_the_log(self):
        logs = self.directory / "logs"
        logs.mkdir()
        server = self.at("isolated", "plain", ["--log", logs])
        self.as_owner(server, TABLE)
        self.as_owner(server, ONE_WORKER + 3 * f"{LEAST};")
        log = next(logs.iterdir())
        workers = r'"event":"worker","session":2,"count":(\d+)'
        eventually(lambda: sum(map(int, re.findall(workers, log.read_text()))) == 3, log.read_text)
        events = re.findall(r'"event":"(worker|open)","session":(\d+)', log.read_text())
        self.assertEqual(events[:3], [("open", "1"), ("open", "2"), ("worker", "2")])

    def test_a_role_that_reads_files_does_not_find_the_key(self):
        """By whatever name, while workers are given their leader's session."""
        for place in [("inline", "plain"), ("inline", "encrypted")]:
            with self.subTest(place):
                server = self.at(*place)
                self.as_owner(server, TABLE + "CREATE ROLE reader LOGIN IN ROLE pg_read_server_files;"
                              "GRANT EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean), pg_read_file(text) TO reader")
                owner, pid = self.leader(server)
                self.said(owner, "CREATE TABLE one AS SELECT k FROM t LIMIT 1;")
                owner.stdin.write(ONE_WORKER + 400 * "SELECT count(*) FROM one WHERE k <= k;" + "\n")
                reader = server.session(user="reader")
                self.assertEqual(self.said(reader, READ.format(pid=pid, key=KEY)), ["NOTICE:  nothing in 61 files"])
                self.assertEqual(self.said(owner, "")[-1], "1")
                for name in ["maps", "environ"]:
                    answer = self.said(reader, f"SELECT pg_read_file('/proc/{pid}/{name}');")
                    self.assertRegex(answer[0], f'ERROR: .*"/proc/{pid}/{name}".*Permission denied')

    def test_a_program_of_the_servers_user_gets_nothing(self):
        """It is no worker, whatever it says, and does not look into a backend."""
        for place in PLACES:
            with self.subTest(place):
                server = self.at(*place)
                self.as_owner(server, TABLE + "CREATE ROLE prog LOGIN IN ROLE pg_execute_server_program;")
                owner, pid = self.leader(server)
                program = f"/usr/bin/python3 {STAGE}/tests/encdb/intruder.py {pid}"
                got = server.psql(f"CREATE TEMP TABLE got (what text); COPY got FROM PROGRAM '{program}'; SELECT * FROM got", user="prog")
                self.assertEqual(got.split("\n"), ["files: Permission denied", "memory: Permission denied", "trace: Operation not permitted",
                                                   "descriptors: nothing", "worker: asked a leader"])
                # And the leader is there for its workers after that.
                self.assertEqual(self.said(owner, f"{ONE_WORKER} {LEAST};"), ["1000"])


if __name__ == "__main__":
    main(__file__, TOOLS)
