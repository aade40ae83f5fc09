-- What the server does on its own account needs no key.
\getenv srcdir PG_ABS_SRCDIR
\set owner 7
\set operations all
\set file :srcdir '/sql/open.psql'
\i :file
CREATE TABLE busy (id integer, k enc_int4, c enc_text);
INSERT INTO busy SELECT g, encdb.enc_int4_encrypt(g * 7919 % 20011), encdb.enc_text_encrypt(md5(g::text)) FROM generate_series(1, 20000) g;
CREATE INDEX busy_k ON busy (k);
CREATE INDEX busy_desc ON busy (k DESC);
CREATE INDEX busy_both ON busy (id, k DESC);
CREATE UNIQUE INDEX busy_c ON busy (c);
CREATE STATISTICS busy_statistics ON k, c FROM busy;
DELETE FROM busy WHERE id > 2000 OR id * 7919 % 20011 > 2000;
\c -
-- Without a session: pages are deleted, statistics are gathered, and an index is not built
SELECT count(*) FROM busy WHERE k < k;
VACUUM (INDEX_CLEANUP ON) busy;
ANALYZE busy;
REINDEX INDEX busy_k;
CREATE EXTENSION amcheck;
CREATE EXTENSION pageinspect;
-- Pages that were emptied are deleted
SELECT c.relname, count(*) FILTER (WHERE s.type IN ('d', 'e')) > 50 AS emptied
  FROM pg_class c, LATERAL generate_series(1, pg_relation_size(c.oid)::int / 8192 - 1) n, LATERAL bt_page_stats(c.relname, n) s
 WHERE relname IN ('busy_k', 'busy_desc', 'busy_both', 'busy_c') GROUP BY 1 ORDER BY 1;
-- With one: nothing was harmed
\i :file
SELECT count(bt_index_parent_check(c.oid, true)::text) FROM pg_class c WHERE relname IN ('busy_k', 'busy_desc', 'busy_both', 'busy_c');
SET enable_seqscan = off;
SELECT count(*) FROM busy WHERE k >= (SELECT encdb.enc_int4_encrypt(0));
SELECT id FROM busy WHERE k = (SELECT encdb.enc_int4_encrypt(28 * 7919 % 20011));
REINDEX INDEX busy_k;
CLUSTER busy USING busy_k;
INSERT INTO busy SELECT g, encdb.enc_int4_encrypt(g), encdb.enc_text_encrypt(md5(g::text || 'x')) FROM generate_series(1, 5000) g;
SELECT count(bt_index_parent_check(c.oid, true)::text) FROM pg_class c WHERE relname IN ('busy_k', 'busy_desc', 'busy_both', 'busy_c');
-- Indexes on arrays, records and ranges of cells: of ascending B-trees alone pages are deleted too
CREATE TYPE pair AS (id integer, k enc_int4);
CREATE TYPE span AS RANGE (subtype = enc_int4);
CREATE TABLE boxed AS SELECT g AS id, ARRAY[NULL, v, v] AS a, ROW(1, v)::pair AS r, span(v, NULL) AS s
  FROM generate_series(1, 20000) g, LATERAL encdb.enc_int4_encrypt(g * 7919 % 20011) v;
CREATE INDEX boxed_a ON boxed (a);
CREATE INDEX boxed_r ON boxed (r);
CREATE INDEX boxed_s ON boxed (s);
CREATE TABLE boxed_desc AS SELECT * FROM boxed;
CREATE INDEX boxed_desc_a ON boxed_desc (a DESC);
CREATE TABLE boxed_gin AS SELECT id, a FROM boxed;
CREATE INDEX boxed_gin_a ON boxed_gin USING gin (a);
DELETE FROM boxed WHERE id > 2000 OR id * 7919 % 20011 > 2000;
DELETE FROM boxed_desc WHERE id * 7919 % 20011 > 2000;
INSERT INTO boxed_gin SELECT id + 20000, a FROM boxed LIMIT 20;
\c -
VACUUM (INDEX_CLEANUP ON) boxed;
VACUUM (INDEX_CLEANUP ON) boxed_desc;
VACUUM (INDEX_CLEANUP OFF) boxed_desc;
VACUUM (INDEX_CLEANUP ON) boxed_gin;
SELECT c.relname, count(*) FILTER (WHERE s.type IN ('d', 'e')) > 50 AS emptied
  FROM pg_class c, LATERAL generate_series(1, pg_relation_size(c.oid)::int / 8192 - 1) n, LATERAL bt_page_stats(c.relname, n) s
 WHERE relname IN ('boxed_a', 'boxed_r', 'boxed_s') GROUP BY 1 ORDER BY 1;
\i :file
VACUUM (INDEX_CLEANUP ON) boxed_desc, boxed_gin;
SELECT count(bt_index_parent_check(c.oid, true)::text) FROM pg_class c WHERE relname IN ('boxed_a', 'boxed_r', 'boxed_s', 'boxed_desc_a');
SET enable_seqscan = off;
SELECT count(*) FROM boxed WHERE a >= ARRAY[NULL, encdb.enc_int4_encrypt(0)];
-- A GIN index without pending entries
ALTER INDEX boxed_gin_a SET (fastupdate = off);
INSERT INTO boxed_gin SELECT id + 30000, a FROM boxed LIMIT 20;
DELETE FROM boxed_gin WHERE id < 1000;
\c -
VACUUM (INDEX_CLEANUP ON) boxed_gin;
