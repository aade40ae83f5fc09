-- The published tables and statements, verbatim but for values, which a client seals.
\getenv srcdir PG_ABS_SRCDIR
\set owner 7
\set operations all
\set file :srcdir '/sql/open.psql'
\i :file
CREATE TABLE test1(id INTEGER NOT NULL,
  k enc_int4 DEFAULT '\xa509008855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbee4' NOT NULL,
  c enc_text DEFAULT '\x9d39006e340b9cffb37a989ca544e69e6e9c0bdb0b6500a91dcc433dc5df0496' NOT NULL,
  pad enc_text DEFAULT '\x9d39006e340b9cffb37a989ca544e69e6e9c0bdb0b6500a91dcc433dc5df0496' NOT NULL,
  PRIMARY KEY (id));
CREATE INDEX k_1 on test1(k);
CREATE TABLE test2(id enc_int4 NOT NULL,
  k enc_int4 DEFAULT '\xa509008855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbee4' NOT NULL,
  c enc_text DEFAULT '\x9d39006e340b9cffb37a989ca544e69e6e9c0bdb0b6500a91dcc433dc5df0496' NOT NULL,
  pad enc_text DEFAULT '\x9d39006e340b9cffb37a989ca544e69e6e9c0bdb0b6500a91dcc433dc5df0496' NOT NULL,
  PRIMARY KEY (id));
CREATE INDEX k_2 on test2(k);
INSERT INTO test1 (id) VALUES (0);
SELECT k, c FROM test1;
-- The default's key is nobody's here: what it would be compared with goes first, and the index is built without it
DELETE FROM test1;
REINDEX TABLE test1;
VACUUM test1;
INSERT INTO test1 SELECT g, encdb.enc_int4_encrypt(g % 1000), encdb.enc_text_encrypt('c' || g), encdb.enc_text_encrypt('pad' || g) FROM generate_series(1, 3000) g;
INSERT INTO test2 SELECT encdb.enc_int4_encrypt(id), k, c, pad FROM test1;
ANALYZE test1, test2;
PREPARE point1 AS SELECT c FROM test1 WHERE id=$1;
PREPARE range1 AS SELECT SUM(k) FROM test1 WHERE id BETWEEN $1 AND $2;
PREPARE add1 AS UPDATE test1 SET k=k+$1 WHERE id=$2;
PREPARE set1 AS UPDATE test1 SET c=$1 WHERE id=$2;
PREPARE delete1 AS DELETE FROM test1 WHERE id=$1;
PREPARE insert1 AS INSERT INTO test1 (id, k, c, pad) VALUES ($1, $2, $3, $4);
PREPARE point2 AS SELECT c FROM test2 WHERE id=$1;
PREPARE range2 AS SELECT SUM(k) FROM test2 WHERE id BETWEEN $1 AND $2;
PREPARE point3 AS SELECT c FROM test2 WHERE k=$1;
PREPARE range3 AS SELECT SUM(k) FROM test2 WHERE k BETWEEN $1 AND $2;
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY name;
SELECT encdb.enc_int4_encrypt(1) AS one, encdb.enc_int4_encrypt(100) AS hundred, encdb.enc_int4_encrypt(199) AS more, encdb.enc_text_encrypt('new') AS new \gset
SELECT encdb.decrypt(c) FROM test1 WHERE id = 7;
SELECT encdb.decrypt(sum(k)) FROM test1 WHERE id BETWEEN 100 AND 199;
EXECUTE add1(:'one', 7);
EXECUTE set1(:'new', 8);
EXECUTE delete1(9);
EXECUTE insert1(9, :'hundred', :'new', :'new');
SELECT id, encdb.decrypt(k), encdb.decrypt(c) FROM test1 WHERE id BETWEEN 7 AND 9 ORDER BY id;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE point2(NULL);
EXPLAIN (COSTS OFF) EXECUTE range2(NULL, NULL);
EXPLAIN (COSTS OFF) EXECUTE point3(NULL);
SELECT encdb.decrypt(c) FROM test2 WHERE id = :'hundred';
SELECT encdb.decrypt(sum(k)) FROM test2 WHERE id BETWEEN :'hundred' AND :'more';
SELECT count(*), encdb.decrypt(sum(k)) FROM test2 WHERE k BETWEEN :'hundred' AND :'more';
-- The same by pages; the extension that is published for it is empty
CREATE EXTENSION encdb_btree;
SET encdb.page_requests = on;
SELECT requests AS r, answered AS a FROM encdb.page_statistics() \gset
SELECT encdb.decrypt(c) FROM test2 WHERE id = :'hundred';
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*), encdb.decrypt(sum(k)) FROM test2 WHERE k BETWEEN :'hundred' AND :'more';
SELECT requests > :r AS asked, answered - :a > 10 * (requests - :r) AS answered FROM encdb.page_statistics();
INSERT INTO test2 SELECT encdb.enc_int4_encrypt(id + 3000), k, c, pad FROM test1 WHERE id <= 1000;
INSERT INTO test2 SELECT encdb.enc_int4_encrypt(5), k, c, pad FROM test1 WHERE id = 5 ON CONFLICT DO NOTHING;
SELECT count(*) FROM test2;
SELECT count(*) FROM test2 WHERE id >= (SELECT encdb.enc_int4_encrypt(3990));
CREATE INDEX k_desc ON test2 (k DESC, id);
DROP INDEX k_2;
SELECT count(*) FROM test2 WHERE k = :'hundred';
SELECT count(*) FROM test2 WHERE k BETWEEN :'hundred' AND :'more' AND id > :'hundred';
SELECT count(*) FROM test2 a JOIN test2 b ON a.k = b.k AND a.id = b.id WHERE a.id < :'hundred';
DROP EXTENSION encdb_btree;
SELECT encdb.decrypt(c) FROM test2 WHERE id = :'hundred';
