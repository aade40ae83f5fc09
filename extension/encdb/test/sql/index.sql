-- Indexes are PostgreSQL's own, and so is what stands on them.
\getenv srcdir PG_ABS_SRCDIR
\set owner 7
\set operations all
\set file :srcdir '/sql/open.psql'
\i :file
CREATE FUNCTION e(integer) RETURNS enc_int4 LANGUAGE SQL AS 'SELECT encdb.enc_int4_encrypt($1)';
\set SHOW_CONTEXT never
CREATE TABLE t (id enc_int4 PRIMARY KEY, v integer);
INSERT INTO t SELECT e(g), g FROM generate_series(1, 2000) g ORDER BY md5(g::text);
INSERT INTO t VALUES (e(5), 5) ON CONFLICT (id) DO UPDATE SET v = -5 RETURNING v;
INSERT INTO t VALUES (e(5), 5) ON CONFLICT DO NOTHING;
DO $$ BEGIN INSERT INTO t VALUES (e(6), 6);
EXCEPTION WHEN unique_violation THEN RAISE NOTICE 'refused: %', SQLERRM; END $$;
ANALYZE t;
SELECT null_frac, avg_width, n_distinct, most_common_vals IS NULL AND histogram_bounds IS NULL
       AND correlation IS NULL AS nothing_else FROM pg_stats WHERE tablename = 't' AND attname = 'id';
PREPARE by_id AS SELECT v FROM t WHERE id = $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_id(NULL);
RESET plan_cache_mode;
SELECT v FROM t WHERE id = (SELECT e(77));
SELECT v FROM t WHERE id = (SELECT e(0));
SELECT count(*), min(v), max(v) FROM t WHERE id BETWEEN (SELECT e(100)) AND (SELECT e(199));
SELECT count(*) FROM t WHERE id IN (e(1), e(2), e(2), e(5000));
SELECT v FROM t ORDER BY id LIMIT 3;
SELECT v FROM t ORDER BY id DESC LIMIT 3;
SELECT encdb.decrypt(min(id)), encdb.decrypt(max(id)), count(id) FROM t;
EXPLAIN (COSTS OFF) SELECT id FROM t ORDER BY id DESC LIMIT 1;
-- Descending, several columns, NULLs, a hash index, an index over an expression, a partial one
CREATE TABLE u (a enc_int4, b enc_text, c integer);
INSERT INTO u SELECT CASE WHEN g % 10 > 0 THEN e(g % 50) END, encdb.enc_text_encrypt('w' || g % 7), g
  FROM generate_series(1, 1000) g;
SELECT e(45) AS bound \gset
CREATE INDEX u_ab ON u (a DESC NULLS LAST, b);
CREATE INDEX u_ca ON u (c, a);
CREATE INDEX u_hash ON u USING hash (b);
CREATE INDEX u_sum ON u ((a + a));
CREATE INDEX u_some ON u (b) WHERE a > :'bound';
SET enable_seqscan = off;
SELECT count(*) FROM u WHERE a = (SELECT e(7)) AND b = (SELECT encdb.enc_text_encrypt('w3'));
SELECT count(*) FROM u WHERE a IS NULL;
SELECT count(*) FROM u WHERE a >= (SELECT e(40));
SELECT count(*) FROM u WHERE b = (SELECT encdb.enc_text_encrypt('w0'));
SELECT count(*) FROM u WHERE a + a = (SELECT e(14));
SELECT count(*) FROM u WHERE a > :'bound' AND b >= (SELECT encdb.enc_text_encrypt('w5'));
SELECT c FROM u WHERE a < (SELECT e(3)) ORDER BY a DESC NULLS LAST, b, c LIMIT 5;
RESET enable_seqscan;
-- Foreign keys
CREATE TABLE child (id enc_int4 REFERENCES t ON DELETE CASCADE);
INSERT INTO child SELECT e(g) FROM generate_series(1, 20) g;
DO $$ BEGIN INSERT INTO child VALUES (e(3000));
EXCEPTION WHEN foreign_key_violation THEN RAISE NOTICE 'refused: %', SQLERRM; END $$;
DELETE FROM t WHERE id = (SELECT e(3));
SELECT count(*) FROM child;
-- Joins of every kind, groups, distinct values, windows
ANALYZE child;
SET enable_mergejoin = off; SET enable_nestloop = off;
SET encdb.read_ahead = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t JOIN child USING (id);
RESET encdb.read_ahead;
SELECT count(*) FROM t JOIN child USING (id);
RESET enable_mergejoin; SET enable_hashjoin = off;
SELECT count(*) FROM t JOIN child USING (id);
RESET enable_nestloop; SET enable_mergejoin = off;
SELECT count(*) FROM t JOIN child USING (id);
RESET enable_mergejoin; RESET enable_hashjoin;
SELECT count(*) FROM (SELECT a FROM u GROUP BY a) g;
SET enable_hashagg = off;
SELECT count(*) FROM (SELECT a FROM u GROUP BY a) g;
RESET enable_hashagg;
SELECT count(DISTINCT b), count(DISTINCT a) FROM u;
-- These compare the abbreviated keys of what was sorted
SELECT dense_rank(e(3)) WITHIN GROUP (ORDER BY x) FROM (SELECT e(g / 3) AS x FROM generate_series(1, 12) g) v;
CREATE FUNCTION count_one(n integer, enc_int4, integer) RETURNS integer LANGUAGE SQL AS 'SELECT n + 1';
CREATE AGGREGATE count_both(enc_int4, integer) (SFUNC = count_one, STYPE = integer, INITCOND = '0');
SELECT count_both(DISTINCT x, 1) FROM (SELECT e(g / 3) AS x FROM generate_series(1, 12) g) v;
SELECT string_agg(encdb.decrypt(b), ' ' ORDER BY b COLLATE "C") FROM (SELECT DISTINCT b FROM u) d;
SELECT v, rank() OVER (ORDER BY id DESC), encdb.decrypt(sum(id) OVER (ORDER BY id ROWS 1 PRECEDING))
  FROM t WHERE v BETWEEN 10 AND 13 ORDER BY v;
SELECT count(*) FROM (SELECT id FROM t INTERSECT SELECT id FROM child) i;
-- Partitions
CREATE TABLE h (id enc_int4, v integer) PARTITION BY HASH (id);
CREATE TABLE h0 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE h1 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO h SELECT e(g), g FROM generate_series(1, 100) g;
SELECT count(*) FILTER (WHERE tableoid = 'h0'::regclass) BETWEEN 20 AND 80 AS both_used, count(*) FROM h;
SELECT v FROM h WHERE id = (SELECT e(42));
CREATE TABLE r (id enc_int4, v integer) PARTITION BY RANGE (id);
CREATE TABLE r_low PARTITION OF r FOR VALUES FROM (MINVALUE) TO (:'bound');
CREATE TABLE r_high PARTITION OF r FOR VALUES FROM (:'bound') TO (MAXVALUE);
INSERT INTO r SELECT e(g), g FROM generate_series(1, 300) g;
SELECT tableoid::regclass, min(v), max(v) FROM r GROUP BY 1 ORDER BY 1;
