#!/usr/bin/env python3
"""Sessions write, indexes are rebuilt, statements are cancelled and evaluators die at once: afterwards no index is wrong.

Each encrypted column has a plain reference, which says what an index has to find. PGSEAL_SEED repeats what is drawn, not when it
happens; PGSEAL_TEST_LONG makes the storm ten times as long.
"""

import itertools
import os
import random
import re
import secrets
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

SEED = int(os.environ.get("PGSEAL_SEED") or secrets.randbits(32))
SECONDS = 100 if os.environ.get("PGSEAL_TEST_LONG") else 10
WRITERS = 3
VALUES = 300
STATEMENTS = 20  # of one session, so that one whose evaluator died is soon followed by another
CONF = "max_connections = 40\nrestart_after_crash = off\nlog_error_verbosity = verbose\n"
TABLES = f"""
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE EXTENSION encdb_btree; CREATE EXTENSION amcheck;
CREATE TABLE cells AS SELECT g AS v, encdb.enc_int4_encrypt(g) AS k, md5(g::text) AS w, encdb.enc_text_encrypt(md5(g::text)) AS t
FROM generate_series(1, {VALUES}) g;
CREATE UNIQUE INDEX ON cells (v);
CREATE TABLE c (n int PRIMARY KEY, v int, k enc_int4, w text, t enc_text COLLATE "en_US.utf8")
WITH (autovacuum_vacuum_threshold = 20, autovacuum_vacuum_scale_factor = 0);
CREATE UNIQUE INDEX c_unique ON c (k, n); CREATE UNIQUE INDEX c_only ON c (k) WHERE n % 10 = 0;
CREATE INDEX c_desc ON c (t DESC, k); CREATE INDEX c_include ON c (t) INCLUDE (n); CREATE INDEX c_second ON c (v, t);
CREATE INDEX c_hash ON c USING hash (k); CREATE INDEX c_t ON c USING hash (t);
CREATE TABLE u (k enc_int4 PRIMARY KEY, v int);
CREATE TABLE r (k enc_int4 REFERENCES u ON DELETE CASCADE, v int);
"""
WRITES = [
    "INSERT INTO c SELECT {n}, v, k, w, t FROM cells WHERE v = {v} ON CONFLICT DO NOTHING",
    "INSERT INTO c SELECT {n}, v, k, w, t FROM cells WHERE v = {v} ON CONFLICT (n) DO UPDATE SET v = excluded.v, k = excluded.k",
    "INSERT INTO c SELECT {n} + v, v, k, w, t FROM cells WHERE v % 7 = {v} % 7 ON CONFLICT DO NOTHING",
    "UPDATE c SET v = s.v, k = s.k FROM cells s WHERE s.v = {v} AND c.n BETWEEN {n} AND {n} + 20 AND c.n % 10 > 0",
    "UPDATE c SET w = s.w, t = s.t FROM cells s WHERE s.v = {v} AND c.k = (SELECT k FROM cells WHERE v = {w})",
    "UPDATE c SET k = k, t = t WHERE n = {n}",
    "DELETE FROM c WHERE k = (SELECT k FROM cells WHERE v = {v})",
    "DELETE FROM c WHERE t > (SELECT t FROM cells WHERE v = {v}) AND n BETWEEN {n} AND {n} + 100",
    "INSERT INTO u SELECT k, v FROM cells WHERE v BETWEEN {v} AND {v} + 5 ON CONFLICT DO NOTHING",
    "INSERT INTO r SELECT k, v FROM u WHERE v = {v}",
    "DELETE FROM u WHERE k = (SELECT k FROM cells WHERE v = {v})",
    "BEGIN; UPDATE c SET v = s.v, k = s.k FROM cells s WHERE s.v = {v} AND c.n = {n} + 1; SAVEPOINT s; "
    "DELETE FROM c WHERE n = {n} + 3; ROLLBACK TO s; COMMIT",
]
UPKEEP = ["REINDEX INDEX CONCURRENTLY c_unique", "REINDEX TABLE CONCURRENTLY c", "VACUUM c",
          "VACUUM (FREEZE, INDEX_CLEANUP ON) c", "CLUSTER c USING c_unique", "VACUUM FULL c", "ANALYZE c", "REINDEX INDEX c_hash",
          "DROP INDEX IF EXISTS c_new;\nCREATE INDEX CONCURRENTLY c_new ON c (k DESC, t)"]
# Rows that are not what they should be, then what the indexes do not find.
WRONG = """
SELECT 'torn', n FROM c WHERE encdb.decrypt(k) IS DISTINCT FROM v OR encdb.decrypt(t) IS DISTINCT FROM w;
SELECT 'torn', v FROM u WHERE encdb.decrypt(k) IS DISTINCT FROM v;
SELECT 'alone', r.v FROM r LEFT JOIN u USING (v) WHERE u.v IS NULL;
SELECT 'twice', v FROM u GROUP BY v HAVING count(*) > 1;
SELECT 'twice', v FROM c WHERE n % 10 = 0 GROUP BY v HAVING count(*) > 1;
SELECT bt_index_parent_check(c.oid, true, true) IS NULL
FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
WHERE amname = 'btree' AND relkind = 'i' AND relnamespace = 'public'::regnamespace AND indisvalid;
SET enable_seqscan = off; SET enable_sort = off;
SELECT 'lost', s.v FROM cells s WHERE (SELECT array_agg(n ORDER BY n) FROM c WHERE c.k = s.k)
IS DISTINCT FROM (SELECT array_agg(n ORDER BY n) FROM c WHERE c.v + 0 = s.v);
SET enable_indexscan = off;
SELECT 'lost', s.v FROM cells s WHERE (SELECT array_agg(n ORDER BY n) FROM c WHERE c.t = s.t)
IS DISTINCT FROM (SELECT array_agg(n ORDER BY n) FROM c WHERE c.w || '' = s.w);
"""


class Storm(Confidential):
    def test_inline(self):
        self.storm("inline")

    def test_evaluators_die(self):
        self.storm("isolated", self.evaluator())

    def storm(self, form, evaluator=None):
        server = self.server(form=form, socket=evaluator.socket if evaluator else "", conf=CONF)
        self.as_owner(server, TABLES)
        end = time.monotonic() + SECONDS
        scripts = [writes(f"{SEED} {number}") for number in range(WRITERS)] + [upkeep(f"{SEED} upkeep")]
        with ThreadPoolExecutor(len(scripts)) as pool:
            running = [pool.submit(self.run_until, end, server, script) for script in scripts]
            chance = random.Random(SEED)
            while evaluator and time.monotonic() < end:
                time.sleep(chance.uniform(0.3, 2))
                evaluator.kill9()
                evaluator.start()
        done = sum(one.result() for one in running)
        with self.subTest(PGSEAL_SEED=SEED):
            self.assertGreater(done, 2 * SECONDS)
            self.assertNotRegex(server.log(), "terminated by signal|PANIC|TRAP|ERROR:  XX00[12]")
            self.assertNotRegex(self.as_owner(server, WRONG), "torn|alone|twice|lost")

    def run_until(self, end, server, statements):
        """Sessions of an owner, one after the other; returns how many statements succeeded."""
        succeeded = 0
        while time.monotonic() < end:
            script = self.opening() + "\\set ON_ERROR_STOP 0\n"
            script += "".join(f"{one};\n\\echo SQLSTATE :SQLSTATE\n" for one in itertools.islice(statements, STATEMENTS))
            done = server.run("psql", "-X", "-q", "-A", "-t", "-d", "postgres", "-U", "postgres", input=script, check=False)
            succeeded += len(re.findall("^SQLSTATE 00000$", done.stdout, re.M))
        return succeeded


def writes(seed):
    """Statements without end, some of which have little time."""
    chance = random.Random(seed)
    while True:
        numbers = {"n": chance.randint(1, 2 * VALUES), "v": chance.randint(1, VALUES), "w": chance.randint(1, VALUES)}
        yield f"SET statement_timeout = {chance.choice([0, 0, 0, 5, 40])};\n" + chance.choice(WRITES).format(**numbers)


def upkeep(seed):
    chance = random.Random(seed)
    while True:
        yield f"SET statement_timeout = {chance.choice([0, 0, 300])};\n" + chance.choice(UPKEEP)


if __name__ == "__main__":
    main(__file__, TOOLS)
