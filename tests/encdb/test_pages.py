#!/usr/bin/env python3
"""Page requests on indexes that grow under them: no answer is of a page as it was, and a descent asks once."""

import re
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

# As many rows as make an index of three levels.
ROWS = 36_000
LOOKUPS = 200

TABLE = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE EXTENSION amcheck;
CREATE TABLE t (id enc_int4 PRIMARY KEY, g int);
"""
# Every second number from {first} on, in no order, in batches of a statement each; then each is looked for.
GROW = """
SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan;
CREATE TEMP TABLE mine AS SELECT encdb.enc_int4_encrypt(g, '|postgres|postgres|') AS id, g, g * 7919::bigint % 40 AS batch
    FROM generate_series({first}, {rows}, 2) g;
SELECT 'INSERT INTO t SELECT id, g FROM mine WHERE batch = ' || b || ' ORDER BY g * 104729::bigint % 15485863' FROM generate_series(0, 39) b \\gexec
SELECT count(*) FROM mine JOIN t USING (id) WHERE mine.g = t.g;
DO $$
DECLARE
    one record;
    found int;
BEGIN
    FOR one IN SELECT * FROM mine WHERE batch = 3 LOOP
        UPDATE t SET id = one.id, g = t.g WHERE id = one.id RETURNING t.g INTO found;
        IF found IS DISTINCT FROM one.g THEN
            RAISE EXCEPTION 'looked for %, found %', one.g, found;
        END IF;
    END LOOP;
END $$;
"""
# Pages of different keys and pages of one key alone; ranges that begin and end on either, and between them.
RANGES = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE r AS SELECT v, encdb.enc_int4_encrypt(v) AS k
    FROM (SELECT CASE WHEN g % 3 = 0 THEN 2 * g WHEN g % 3 = 1 THEN 2 * (g % 7) * 500 END AS v FROM generate_series(1, 6000) g) s;
CREATE INDEX ON r (k {order});
VACUUM ANALYZE r;
SET enable_seqscan = off; SET enable_bitmapscan = off;
CREATE TEMP TABLE bounds AS SELECT low, low + width AS high, encdb.enc_int4_encrypt(low) AS a, encdb.enc_int4_encrypt(low + width) AS b
    FROM generate_series(-3, 12003, 1201) low, unnest(ARRAY[0, 40, 3000]) width
    UNION ALL SELECT v, v + 3000, encdb.enc_int4_encrypt(v), encdb.enc_int4_encrypt(v + 3000) FROM generate_series(0, 6000, 1000) v;
SELECT 'wrong', low, high FROM bounds, LATERAL (SELECT array_agg(v) AS there FROM (SELECT v FROM r WHERE k BETWEEN a AND b ORDER BY k {scan}) f) found
    WHERE there IS DISTINCT FROM (SELECT array_agg(v ORDER BY v {scan}) FROM r WHERE v BETWEEN low AND high);
SELECT 'ranges ' || count(*) FROM bounds;
"""


# Two orders of one column: the cells of one index are in the other too, before further ones that the first order has among them.
# There are so few buffers that what held a page of the one soon holds one of the other. Who went too far to the left on a wrong
# answer would go right again; these answers would lead too far to the right.
TWO_ORDERS = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE filler AS SELECT g AS id, repeat('x', 60) AS f FROM generate_series(1, 30000) g;
ALTER TABLE filler ADD PRIMARY KEY (id);
CREATE TABLE plain AS SELECT g AS n, chr(65 + g * 7919 % 26) || g * 104729 % 1000 AS v FROM generate_series(1, 500) g
    UNION ALL SELECT g, chr(97 + g * 7919 % 26) || g * 104729 % 10000 FROM generate_series(501, 3000) g;
CREATE TABLE t (n int, c enc_text COLLATE "C");
CREATE INDEX t_all ON t (c); CREATE INDEX t_few ON t (c COLLATE "en_US.utf8") WHERE n <= 500;
INSERT INTO t SELECT n, encdb.enc_text_encrypt(v) FROM plain ORDER BY n;
CREATE TABLE probes AS SELECT n, encdb.enc_text_encrypt(v) AS p FROM plain WHERE n <= 500 ORDER BY md5(n::text);
CREATE TABLE lost (n int, index text);
SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan;
DO $$
DECLARE one record;
BEGIN
    FOR one IN SELECT * FROM probes LOOP
        IF NOT EXISTS (SELECT FROM t WHERE c COLLATE "C" = one.p) THEN INSERT INTO lost VALUES (one.n, 't_all'); END IF;
        PERFORM f FROM generate_series(1, 40) g JOIN filler ON id = 1 + one.n * 7919::bigint * g % 30000;
        IF NOT EXISTS (SELECT FROM t WHERE c COLLATE "en_US.utf8" = one.p AND n <= 500) THEN INSERT INTO lost VALUES (one.n, 't_few'); END IF;
        PERFORM f FROM generate_series(1, 40) g JOIN filler ON id = 1 + one.n * 104729::bigint * g % 30000;
    END LOOP;
END $$;
SELECT count(*) FROM probes; SELECT count(*) FROM lost;
"""


class Pages(Confidential):
    def test_a_buffer_holds_another_indexs_page(self):
        server = self.server(form="isolated", socket=self.evaluator().socket, conf="shared_buffers = 128kB\nautovacuum = off")
        self.assertEqual(self.as_owner(server, TWO_ORDERS).split()[-2:], ["500", "0"])

    def grown(self, form):
        """A server whose index two sessions have made grow at once."""
        socket = self.evaluator().socket if form == "isolated" else ""
        server = self.server(form, form=form, socket=socket, conf="max_parallel_workers_per_gather = 0\nautovacuum = off")
        self.as_owner(server, TABLE)
        found = {}

        def grow(first):
            found[first] = self.as_owner(server, GROW.format(first=first, rows=ROWS))

        writers = [threading.Thread(target=grow, args=(first,)) for first in (1, 2)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        for first in (1, 2):
            self.assertIn(str(ROWS // 2), found[first].split())
        return server

    def test_an_index_grows_under_its_readers(self):
        for form in FORMS:
            with self.subTest(form=form):
                server = self.grown(form)
                checked = self.as_owner(server, "SELECT bt_index_check('t_pkey', true); SELECT count(*) FROM t;")
                self.assertEqual(checked.split()[-1], str(ROWS))
                server.psql("CREATE EXTENSION pageinspect")
                self.assertEqual(server.psql("SELECT level FROM bt_metap('t_pkey')").strip(), "2")
                if form == "isolated":
                    self.a_descent_asks_once(server)

    def test_ranges_are_those_of_the_plain_column(self):
        for form in FORMS:
            server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "")
            for number, order in enumerate(["ASC", "ASC NULLS FIRST", "DESC", "DESC NULLS LAST"]):
                for scan in ["ASC", "DESC"]:
                    with self.subTest(form=form, order=order, scan=scan):
                        db = f"ranges_{number}_{scan.lower()}"
                        server.psql(f"CREATE DATABASE {db}")
                        server.psql("CREATE EXTENSION encdb", db=db)
                        output = self.as_owner(server, RANGES.format(order=order, scan=scan), db=db)
                        self.assertNotIn("wrong", output)
                        self.assertIn("ranges 37", output)

    def a_descent_asks_once(self, server):
        lookups = "".join(f"SELECT g FROM t WHERE id = (SELECT encdb.enc_int4_encrypt({g}, '|postgres|postgres|'));\n"
                          for g in range(1, ROWS, ROWS // LOOKUPS))
        output = self.as_owner(server, "SET enable_seqscan = off;\n" + lookups +
                               "SELECT requests AS before FROM encdb.page_statistics() \\gset\n" + lookups +
                               "SELECT 'requests ' || requests - :before FROM encdb.page_statistics();\n")
        requests = int(re.search(r"requests (\d+)", output)[1])
        # The leaves were handed over by the lookups before; now and then a neighbour is looked at, too.
        self.assertGreaterEqual(requests, LOOKUPS)
        self.assertLessEqual(requests, 1.1 * LOOKUPS)


if __name__ == "__main__":
    main(__file__, TOOLS)
