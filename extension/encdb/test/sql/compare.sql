-- Every operator of every type agrees with the plain type, for all pairs of these values.
\getenv srcdir PG_ABS_SRCDIR
\set owner 7
\set operations all
\set file :srcdir '/sql/open.psql'
\i :file
CREATE TABLE sample (type text, value text);
INSERT INTO sample
SELECT type, unnest(vals) FROM (VALUES
  ('int4', '{0,1,-1,7,2147483647,-2147483648}'::text[]),
  ('int8', '{0,1,-1,4294967296,9223372036854775807,-9223372036854775808}'),
  ('float4', '{0,-0,1,-1,1.5e-30,3e38,NaN,Infinity,-Infinity}'),
  ('float8', '{0,-0,1,-1,1e-300,1e300,NaN,Infinity,-Infinity}'),
  ('numeric', '{0,1,1.0,1.00,-1,0.1,1e-20,123456789012345678901234567890,NaN,Infinity,-Infinity}'),
  ('bool', '{true,false}'),
  ('date', '{2000-01-01,1999-12-31,2024-02-29,infinity,-infinity}'),
  ('timestamp', '{2000-01-01,1999-12-31 23:59:59.999999,2024-02-29 12:00,infinity,-infinity}'),
  ('timestamptz', '{2000-01-01 00:00+00,2000-01-01 00:00+02,2024-02-29 12:00+00,infinity,-infinity}'),
  ('uuid', '{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff,12345678-1234-1234-1234-123456789012}'),
  ('interval', '{0,1 day,24:00,1 mon,30 days,-1 mon,"-1 mon +720:00:00.000001",2147483647 days,-178956970 years}'),
  ('bytea', '{"","\\x00","\\x0001","\\xff","\\x6162"}'),
  ('text', '{"",a,A,b,ab,"a ",z}')) AS t (type, vals);
INSERT INTO sample VALUES ('text', U&'z\00e9'), ('text', U&'\00e9'), ('text', U&'\20ac');
SELECT format($$CREATE TABLE %1$s_pairs AS
  SELECT a.value::%1$s AS a, b.value::%1$s AS b,
         encdb.enc_%2$s_encrypt(a.value::%1$s) AS x, encdb.enc_%2$s_encrypt(b.value::%1$s) AS y
    FROM sample a, sample b WHERE a.type = '%1$s' AND b.type = '%1$s'$$,
  type, replace(type, 'numeric', 'decimal'))
  FROM sample GROUP BY type ORDER BY type COLLATE "C" \gexec
SELECT format($$SELECT %1$L AS type, count(*) AS pairs, count(*) FILTER (WHERE
    (a = b) IS DISTINCT FROM (x = y) OR (a <> b) IS DISTINCT FROM (x <> y) OR
    (a < b) IS DISTINCT FROM (x < y) OR (a <= b) IS DISTINCT FROM (x <= y) OR
    (a > b) IS DISTINCT FROM (x > y) OR (a >= b) IS DISTINCT FROM (x >= y)) AS wrong,
    count(*) FILTER (WHERE a = b AND encdb.enc_%2$s_hash(x) <> encdb.enc_%2$s_hash(y)) AS wrong_hashes,
    count(*) FILTER (WHERE encdb.decrypt(x)::text <> a::text) AS wrong_values
    FROM %1$s_pairs$$, type, replace(type, 'numeric', 'decimal'))
  FROM sample GROUP BY type ORDER BY type COLLATE "C" \gexec
-- NULL is what it is
SELECT x = NULL AS e, NULL < x AS l, x IS DISTINCT FROM NULL AS d FROM int4_pairs LIMIT 1;
-- Collations: libc's, and none other
CREATE TABLE words AS SELECT w, encdb.enc_text_encrypt(w) AS c FROM unnest('{a,B,c,A,b,C}'::text[]) w;
SELECT string_agg(w, '' ORDER BY c COLLATE "C") AS c, string_agg(w, '' ORDER BY c COLLATE "POSIX") AS posix FROM words;
SELECT string_agg(w, '' ORDER BY c) = string_agg(w, '' ORDER BY w) AS as_default FROM words;
SELECT string_agg(w, '' ORDER BY c COLLATE "und-x-icu") FROM words;
CREATE COLLATION alike (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
SET enable_sort = off;
SELECT count(*) FROM (SELECT DISTINCT c COLLATE alike FROM words) d;
RESET enable_sort;
CREATE TABLE exclusive (c enc_text COLLATE alike, EXCLUDE USING hash (c WITH =));
INSERT INTO exclusive SELECT c FROM words;
SELECT encdb.enc_text_hash(c COLLATE alike, 0) FROM words;
SELECT count(*) FROM words WHERE c COLLATE alike LIKE c;
SELECT count(*) FROM words WHERE c COLLATE alike NOT LIKE c;
SELECT count(*) AS all, count(*) FILTER (WHERE c COLLATE "C" LIKE c) AS alike, count(DISTINCT encdb.enc_text_hash(c COLLATE "C")) AS hashes FROM words;
-- Cells of different types do not meet
SELECT 'x' FROM int4_pairs i, text_pairs j WHERE i.x = j.x LIMIT 1;
-- But integers do, and floats, and times; joins of the first two hash, those of times merge
SELECT count(*) FILTER (WHERE (i.a = j.a) IS DISTINCT FROM (i.x = j.x) OR (i.a < j.a) IS DISTINCT FROM (i.x < j.x) OR
    (j.b <= i.b) IS DISTINCT FROM (j.y <= i.y)) AS wrong, count(*) FILTER (WHERE i.x = j.x) AS alike FROM float4_pairs i, float8_pairs j;
SELECT encdb.enc_date_encrypt('5874897-12-31') > encdb.enc_timestamp_encrypt('2000-01-01') AS later,
       encdb.enc_timestamptz_encrypt('infinity') > encdb.enc_date_encrypt('5874897-12-31') AS latest;
SELECT count(*) FILTER (WHERE (i.a = j.a) IS DISTINCT FROM (i.x = j.x) OR (i.a < j.a) IS DISTINCT FROM (i.x < j.x) OR
    (j.b <= i.b) IS DISTINCT FROM (j.y <= i.y)) AS wrong, count(*) FILTER (WHERE i.x = j.x) AS alike FROM int4_pairs i, int8_pairs j;
SET encdb.read_ahead = off; SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT FROM float4_pairs i FULL JOIN float8_pairs j ON i.x = j.x;
EXPLAIN (COSTS OFF) SELECT FROM int8_pairs i FULL JOIN int4_pairs j ON i.x = j.x;
RESET enable_mergejoin;
EXPLAIN (COSTS OFF) SELECT FROM date_pairs i FULL JOIN timestamp_pairs j ON i.x = j.x;
RESET encdb.read_ahead;
-- A foreign key from one integer type to the other
CREATE TABLE wide (k enc_int8 PRIMARY KEY);
CREATE TABLE narrow (r enc_int4 REFERENCES wide);
INSERT INTO wide SELECT encdb.enc_int8_encrypt(g) FROM generate_series(1, 3) g;
INSERT INTO narrow VALUES (encdb.enc_int4_encrypt(2));
\set VERBOSITY terse
INSERT INTO narrow VALUES (encdb.enc_int4_encrypt(4));
\set VERBOSITY default
SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan;
PREPARE narrowly AS SELECT FROM wide WHERE k = $1::enc_int4;
EXPLAIN (COSTS OFF) EXECUTE narrowly(NULL);
SELECT encdb.decrypt(k) FROM wide WHERE k = (SELECT r FROM narrow);
RESET enable_seqscan; RESET enable_bitmapscan; RESET plan_cache_mode;
CREATE TABLE days AS SELECT g AS n, encdb.enc_date_encrypt(date '2024-01-01' + g) AS d FROM generate_series(1, 1000) g;
CREATE INDEX days_d ON days (d);
SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan;
PREPARE later AS SELECT n FROM days WHERE d > $1::enc_timestamp;
EXPLAIN (COSTS OFF) EXECUTE later(NULL);
SELECT n FROM days WHERE d > (SELECT encdb.enc_timestamp_encrypt('2026-09-25 12:00')) ORDER BY d;
RESET enable_seqscan; RESET enable_bitmapscan; RESET plan_cache_mode;
SELECT opcname FROM pg_opclass WHERE opcname ~ '^(enc|det)_' AND NOT amvalidate(oid);
-- What the parser prefers is what it prefers of the plain types
SELECT typcategory, string_agg(typname || CASE WHEN typispreferred THEN ' *' ELSE '' END, ', ' ORDER BY typname) AS types
  FROM pg_type WHERE typname ~ '^(enc|det|rnd)_[^_]+$' AND typtype = 'b' GROUP BY typcategory ORDER BY typcategory;
-- Frames of a distance
SELECT n, count(*) OVER (ORDER BY d RANGE BETWEEN '3 days' PRECEDING AND '1 day' FOLLOWING) AS near,
       count(*) OVER (ORDER BY d RANGE BETWEEN '1 month' FOLLOWING AND UNBOUNDED FOLLOWING) AS later FROM days WHERE n <= 33 ORDER BY n LIMIT 5;
SELECT DISTINCT encdb.decrypt(x), count(*) OVER (ORDER BY x RANGE BETWEEN encdb.enc_int8_encrypt(1) PRECEDING AND encdb.enc_int8_encrypt(2) FOLLOWING)
  FROM int4_pairs ORDER BY 1;
SELECT count(*) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM int4_pairs;
