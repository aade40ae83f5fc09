#!/usr/bin/env python3
"""What roles without a key may learn from those who have one, and do to them: nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, VERSION, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

TABLE = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE t AS SELECT g AS id, encdb.enc_int4_encrypt(g * 7 % 100) AS k FROM generate_series(1, 100) g;
CREATE ROLE mallory LOGIN REPLICATION;
GRANT SELECT ON t TO mallory;
"""
PARALLEL = f"SET {'debug_parallel_query' if int(VERSION) >= 16 else 'force_parallel_mode'} = {{}};"
# The form of a wrapped key that nobody's master key opens, with this number.
WRAPPED = "decode('01010000000000', 'hex') || int4send({}) || decode(repeat('00', 76), 'hex')"
# Cells of the first turn went with the key that was made there.
TAKEN_BACK = """
DO $$ DECLARE c enc_int4; BEGIN
    FOR i IN 1..2 LOOP
        BEGIN
            IF i = 1 THEN PERFORM encdb.dek_generate('brief'); END IF;
            c := encdb.enc_int4_encrypt(i, 'brief');
            IF i = 1 THEN RAISE EXCEPTION 'taken back'; END IF;
            INSERT INTO kept VALUES (c);
        EXCEPTION WHEN raise_exception THEN NULL;
        END;
    END LOOP;
END $$;
"""
COMPARED = ["SELECT id FROM t ORDER BY k LIMIT 10", "SELECT count(*) FROM t WHERE k < (SELECT k FROM t WHERE id = 50)",
            "SELECT encdb.enc_int4_hash(k) FROM t WHERE id < 3"]


class Roles(Confidential):
    def test_comparisons_left_for_background_work_are_not_a_clients(self):
        """Neither in its backend, nor in a parallel worker of it, nor in a walsender that takes SQL."""
        server = self.server(form="isolated", socket=self.evaluator().socket)
        self.as_owner(server, TABLE, operations="background")
        for database in ["dbname=postgres", "dbname=postgres replication=database"]:
            for mode in ["off", "on"]:
                for question in COMPARED:
                    with self.subTest(database=database, mode=mode, question=question):
                        server.psql(PARALLEL.format(mode) + question, db=database, user="mallory", error="no session is open")
        # Anyone who starts the server for themselves alone is its client.
        server.stop()
        said = server.run("postgres", "--single", "-D", server.data, "postgres", input=COMPARED[0] + "\n", check=False)
        self.assertIn("no session is open", said.stdout + said.stderr)

    def test_workers_of_a_session_are_in_it(self):
        """In queries and in builds of indexes."""
        server = self.server(form="isolated", socket=self.evaluator().socket)
        self.as_owner(server, TABLE, operations="background")
        least = "SELECT id FROM t ORDER BY k LIMIT 1"
        self.assertEqual(self.as_owner(server, PARALLEL.format("on") + least), "100")
        build = "ALTER TABLE t SET (parallel_workers = 2); SET min_parallel_table_scan_size = 0; CREATE INDEX i ON t (k); REINDEX INDEX i;"
        self.as_owner(server, build)
        self.assertEqual(self.as_owner(server, "SET enable_seqscan = off; SET enable_sort = off;" + least), "100")

    def test_what_stands_in_for_a_key_in_analyze_is_for_analyze(self):
        """An index's expression is a function of anybody's: what it writes into another's index there is refused as elsewhere."""
        server = self.server(form="isolated", socket=self.evaluator().socket)
        self.as_owner(server, TABLE + "CREATE TABLE v (c enc_int4 UNIQUE); INSERT INTO v SELECT k FROM t WHERE id < 50 ON CONFLICT DO NOTHING;"
                              "GRANT SELECT, INSERT ON v TO mallory; GRANT CREATE ON SCHEMA public TO mallory")
        rows = server.psql("SELECT count(*) FROM v")
        server.psql("CREATE TABLE lure (x int); INSERT INTO lure SELECT generate_series(1, 3);"
                    "CREATE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1'; CREATE INDEX ON lure (f(x));"
                    "CREATE FUNCTION put() RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.v SELECT c FROM public.v LIMIT 1; END';"
                    "CREATE OR REPLACE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM public.put(); RETURN $1; END'",
                    user="mallory")
        for first in ["", "SELECT count(c) FROM v;"]:  # the library is loaded by the insertion, or before
            server.psql(first + "ANALYZE lure", user="mallory", error="no session is open")
        self.assertEqual(server.psql("SELECT count(*) FROM v"), rows)
        server.psql("ANALYZE v; ANALYZE t")

    def analyzed(self, server, does):
        """Has an index's function do this, once for each row of a table that has statistics on encrypted columns."""
        server.psql("CREATE OR REPLACE FUNCTION g(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1'; DROP TABLE IF EXISTS lure;"
                    "CREATE TABLE lure AS SELECT k, k AS k2, id AS x FROM t WHERE id <= 40; CREATE INDEX ON lure (g(x));"
                    "CREATE STATISTICS lure_statistics ON k, k2 FROM lure;"
                    f"CREATE OR REPLACE FUNCTION g(int) RETURNS int VOLATILE LANGUAGE plpgsql AS $g$ BEGIN {does} RETURN $1; END $g$")
        return "ANALYZE lure; SELECT count(*) FROM pg_statistic_ext_data d JOIN pg_statistic_ext s ON s.oid = stxoid WHERE stxname = 'lure_statistics'"

    def test_an_index_that_is_built_inside_of_analyze_is_in_order(self):
        """By a utility statement of an index's function; some report of their own progress, and some do not."""
        server = self.server(form="isolated", socket=self.evaluator().socket, conf="autovacuum = off")
        self.as_owner(server, TABLE + "CREATE EXTENSION amcheck; CREATE TABLE w AS SELECT id AS x, k FROM t; CREATE INDEX w_k ON w (k);"
                      "CREATE MATERIALIZED VIEW m AS SELECT k FROM w; CREATE INDEX m_k ON m (k);")
        for does in ["REINDEX INDEX public.w_k;", "ALTER TABLE public.w ALTER COLUMN x TYPE bigint;", "REFRESH MATERIALIZED VIEW public.m;",
                     "EXECUTE 'DO $d$ BEGIN ALTER TABLE public.w ALTER COLUMN x TYPE numeric; END $d$';"]:
            with self.subTest(does=does):
                analyze = self.analyzed(server, f"IF $1 = 7 THEN {does} END IF;")
                server.psql(analyze, error="no session is open")
                checked = "SELECT bt_index_check('w_k', true), bt_index_check('m_k', true)"
                self.assertEqual(self.as_owner(server, f"{analyze}; {checked}").split(), ["1", "|"])

    def test_analyze_goes_on_after_what_its_functions_do(self):
        """Neither an error that a function catches nor a statement that reports of its own progress is ANALYZE's end."""
        server = self.server(form="isolated", socket=self.evaluator().socket, conf="autovacuum = off")
        self.as_owner(server, TABLE + "CREATE TABLE plain AS SELECT 1 AS x; CREATE INDEX plain_x ON plain (x);")
        caught = "BEGIN {} PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END;"
        for does in [caught.format(""), caught.format(caught.format("")), "REINDEX INDEX public.plain_x;",
                     caught.format("REINDEX INDEX public.plain_x;"), "BEGIN PERFORM 1; EXCEPTION WHEN division_by_zero THEN NULL; END;"]:
            for first in ["", "SELECT count(*) FROM t WHERE k IS NULL; LOAD 'encdb';"]:
                with self.subTest(does=does, first=first):
                    self.assertEqual(server.psql(first + self.analyzed(server, does)).split()[-1], "1")

    def test_a_call_site_follows_the_role(self):
        """A function's, which lives as long as the transaction, seals under the default key of who calls it now."""
        server = self.server()
        put = "INSERT INTO who VALUES (current_user, put(1));"
        output = self.as_owner(server, "CREATE ROLE alice; CREATE ROLE bob;"
                               "CREATE TABLE who (u text, c enc_int4); GRANT ALL ON who TO alice, bob;"
                               "SELECT encdb.dek_generate('|' || r || '|postgres|') > 0 FROM unnest(ARRAY['alice', 'bob']) r;"
                               "CREATE FUNCTION put(v int) RETURNS enc_int4 LANGUAGE plpgsql AS "
                               "'DECLARE e enc_int4; BEGIN e := encdb.enc_int4_encrypt(v); RETURN e; END';"
                               f"BEGIN; SET ROLE alice; {put} SET ROLE bob; {put} COMMIT; BEGIN; {put} COMMIT; RESET ROLE;"
                               # The key's number is in a cell's bytes 3 to 6.
                               "SELECT u, count(*), count(DISTINCT substring(encdb.enc_int4_send(c)::text FROM 9 FOR 8)) FROM who "
                               "GROUP BY ROLLUP (u) ORDER BY u")
        self.assertEqual(output.split()[-3:], ["alice|1|1", "bob|2|1", "|3|2"])

    def test_a_call_site_forgets_a_key_that_was_taken_back(self):
        """It lives as long as the transaction; a cell under a key that is in no table would be lost with the session."""
        server = self.server()
        self.as_owner(server, TABLE + "CREATE TABLE kept (c enc_int4);")
        self.as_owner(server, TAKEN_BACK, error='there is no data key "brief"')
        self.assertEqual(server.psql("SELECT count(*) FROM kept"), "0")

    def test_who_is_given_a_pools_connection_has_no_session(self):
        """DISCARD ALL, by which a pool makes a connection as if it were new, ends the session; what is less does not."""
        for form in FORMS:
            with self.subTest(form):
                server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "")
                self.as_owner(server, TABLE)
                count = "SELECT count(*) FROM t WHERE k <= k;"
                less = "RESET ALL; DISCARD PLANS; DISCARD TEMP; SET SESSION AUTHORIZATION mallory; SET ROLE mallory;"
                self.assertEqual(self.as_owner(server, less + count), "100")
                self.as_owner(server, count + "DISCARD ALL;" + count, error="no session is open")
                self.assertEqual(self.as_owner(server, "DISCARD ALL;" + self.opening() + count).split()[-1], "100")

    def test_nobody_keeps_an_owner_from_his_keys(self):
        """Rows of encdb.data_key that are long, many or no keys at all: by encdb.dek_insert, and by whatever came before it."""
        for form in FORMS:
            with self.subTest(form):
                server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "")
                self.as_owner(server, TABLE)
                insert = f"SELECT encdb.dek_insert({{}}, {WRAPPED.format(1)}) > 0"
                server.psql(insert.format("repeat('\u00e9', 513)"), user="mallory", error="a key name has at most 1024 bytes in UTF-8")
                self.assertEqual(server.psql(insert.format("repeat('\u00e9', 512)"), user="mallory"), "t")
                server.psql(f"INSERT INTO encdb.data_key SELECT repeat('a', 100000) || n, n, false, {WRAPPED.format('n')} "
                            "FROM generate_series(100, 200) n")
                server.psql(f"INSERT INTO encdb.data_key SELECT n || repeat('b', 1000), n, false, {WRAPPED.format('n')} "
                            "FROM generate_series(1000, 10000) n")
                server.psql("INSERT INTO encdb.data_key VALUES ('', 99, false, ''), ('c', 98, false, decode(repeat('00', 2000000), 'hex'))")
                last = "SELECT encdb.dek_generate('last') > 0; SELECT encdb.decrypt(encdb.enc_int4_encrypt(42, 'last'));"
                self.assertEqual(self.as_owner(server, last), "t\n42")
                self.assertEqual(self.as_owner(server, "SELECT encdb.decrypt(encdb.enc_int4_encrypt(43, 'last'))"), "43")


    def test_a_role_leaves_the_evaluator_to_others(self):
        """The role of the connection counts, whatever it is set to."""
        server = self.server("shares", "isolated", self.evaluator("shares", ["--max-connections", "4"]).socket)
        server.psql("CREATE ROLE one LOGIN; CREATE ROLE other LOGIN; GRANT other TO one")
        # It is answered that this is no message, so the evaluator is reached.
        asked, reached = "SELECT encdb_process_message('\\x00');\n", "the message is malformed"
        share = "this database role has its share of the evaluator's connections"
        sessions = [server.session(user="one") for _ in range(2)]
        for session in sessions:
            session.stdin.write(asked)
            self.assertIn(reached, session.stdout.readline())
        for _ in range(3):
            server.psql(asked, user="one", error=share)
            server.psql("SET ROLE other;\n" + asked, user="one", error=share)
        server.psql(asked, user="other", error=reached)
        sessions[0].stdin.write("\\q\n")
        sessions[0].wait()
        for _ in range(100):
            if reached in server.psql(asked, user="one", error=f"{reached}|{share}"):
                break
        else:
            self.fail("its place is free again")

    def test_a_role_leaves_the_evaluators_memory_to_others(self):
        """Groups' states are there as long as their cursor is open."""
        server = self.server("memory", "isolated", self.evaluator("memory", ["--memory", "256"]).socket)
        self.as_owner(server, TABLE + "CREATE ROLE one LOGIN;"
                      "CREATE TABLE long AS SELECT g, encdb.enc_text_encrypt(repeat('x', 3000000) || g) AS c FROM generate_series(1, 8) g;"
                      "GRANT SELECT ON t, long TO one, mallory")
        grouped = self.opening() + ("SET enable_sort = off; SET max_parallel_workers_per_gather = 0; BEGIN;"
                                    "DECLARE c CURSOR FOR SELECT g, max(c) FROM long, generate_series(1, 3) GROUP BY g; MOVE 1 FROM c;\n")
        sessions = [server.session(user="one") for _ in range(2)]
        for session in sessions:
            session.stdin.write(grouped + "\\echo grouped\n")
            while (line := session.stdout.readline()) != "grouped\n":
                self.assertNotRegex(line, "ERROR|^$")
        server.psql(grouped, user="one", error="this database role has its share of the evaluator's connections, memory or log")
        largest = "SELECT g FROM long ORDER BY c DESC LIMIT 1; SELECT count(max) FROM (SELECT g, max(c) FROM long, generate_series(1, 3) GROUP BY g) s"
        self.assertEqual(server.psql(self.opening() + largest, user="mallory").split()[-2:], ["8", "8"])
        sessions[0].stdin.write("COMMIT;\n\\echo done\n")
        while "done" not in sessions[0].stdout.readline():
            pass
        self.assertEqual(server.psql(self.opening() + largest, user="one").split()[-2:], ["8", "8"])

    def test_a_worker_is_told_of_its_leaders_share(self):
        """The leader asks for its workers' connections, and says as the evaluator does why there is none."""
        server = self.server("workers", "isolated", self.evaluator("workers", ["--max-connections", "4"]).socket)
        self.as_owner(server, TABLE)
        other = server.session()
        other.stdin.write("SELECT encdb_process_message('\\x00');\n")
        self.assertIn("the message is malformed", other.stdout.readline())
        for _ in range(100):  # until the connection that made the table has ended, the leader itself has no place
            said = self.as_owner(server, PARALLEL.format("on") + COMPARED[0], error="this database role has its share|parallel worker")
            if "parallel worker" in said:
                break
        self.assertRegex(said, "(?s)this database role has its share.*CONTEXT:  parallel worker")


if __name__ == "__main__":
    main(__file__, TOOLS)
