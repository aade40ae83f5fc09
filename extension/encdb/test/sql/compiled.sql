-- Operators and casts one on another are one call, with the results, NULLs and errors that each has alone.
\getenv srcdir PG_ABS_SRCDIR
\set owner 7
\set operations all
\set file :srcdir '/sql/open.psql'
\i :file
CREATE TABLE terms AS SELECT a, b, c, encdb.enc_int4_encrypt(a) AS ea, encdb.enc_int4_encrypt(b) AS eb, encdb.enc_int4_encrypt(c) AS ec
  FROM (SELECT g AS a, g % 4 AS b, nullif(g % 5, 0) AS c FROM generate_series(1, 20) g) v;
CREATE TABLE letters AS SELECT encdb.enc_text_encrypt('1') AS one, encdb.enc_text_encrypt('5') AS five,
       encdb.enc_date_encrypt('2026-11-24') AS day, encdb.enc_decimal_encrypt(2.50) AS price;
-- The isolated form alone reads ahead, and its plans show it
SET encdb.read_ahead = off;
-- What is compiled: more than one; comparisons stay; what is no step, or has plain arguments that change, is an operand
EXPLAIN (VERBOSE, COSTS OFF) SELECT ea + eb, (ea + eb) * ec - ea, abs(- ea), mod(ea, eb) % ec FROM terms WHERE ea + eb > ec * ec;
EXPLAIN (VERBOSE, COSTS OFF) SELECT (one || five)::enc_int4 + length(one), lower(one || five || one COLLATE "C"), five::enc_int4::enc_decimal / price,
  upper(substring(five || one COLLATE "C", 1, 2)), upper(substr(one, length(id::text)) || lower(one COLLATE "C")) FROM letters, generate_series(1, 1) id;
-- Other texts, plain and encrypted
EXPLAIN (VERBOSE, COSTS OFF) SELECT length(trim(replace(one || five COLLATE "C", '(,)', 'é%'))), split_part(btrim(one COLLATE "C", five), five || one, -1),
  position(upper(five COLLATE "C") IN initcap(one COLLATE "C")), starts_with(left(one || five, 1), reverse(one)), ltrim(repeat(one, 2), id::text) FROM letters, generate_series(1, 1) id;
-- A cast that is stable makes a call that is
EXPLAIN (VERBOSE, COSTS OFF) SELECT (day + (one::enc_int4))::enc_timestamptz FROM letters;
CREATE INDEX ON letters (((day + (one::enc_int4))::enc_timestamptz));
SELECT encdb.decrypt((one || five)::enc_int4 + five::enc_int4), encdb.decrypt(lower(one || five || one)), encdb.decrypt(five::enc_int4::enc_decimal / price),
       encdb.decrypt(price ^ five::enc_decimal)::text = (2.50 ^ 5)::text AS power, encdb.decrypt((day + one::enc_int4)::enc_timestamptz) FROM letters;
SELECT count(*), count(*) FILTER (WHERE encdb.decrypt((ea + eb) * ec - ea) IS DISTINCT FROM (a + b) * c - a) AS others,
       encdb.decrypt(sum((ea + eb) * ec - ea)) = sum((a + b) * c - a) AS sum FROM terms;
-- An error beside a NULL, and of a step whose result nobody would have seen
\set VERBOSITY sqlstate
SELECT a / b + c FROM terms WHERE a = 20;
SELECT ea / eb + ec FROM terms WHERE a = 20;
SELECT ec + ea / eb FROM terms WHERE a = 20;
SELECT ea * ea * ea * ea * ea * ea * ea * ea FROM terms WHERE a = 20;
-- Of two errors that which PostgreSQL meets first
SELECT ea / eb + length(substring(one, 1, -1)) FROM terms, letters WHERE a = 20;
SELECT length(substring(one, 1, -1)) + ea / eb FROM terms, letters WHERE a = 20;
SELECT ea * ea * (length(substring(one, 1, -1)) + ea / eb) FROM terms, letters WHERE a = 20;
\set VERBOSITY default
SELECT CASE WHEN b > 0 THEN encdb.decrypt(ea / eb * ea) END AS guarded FROM terms WHERE a IN (7, 20) ORDER BY a;
-- An index is found by what it was made of
CREATE UNIQUE INDEX terms_value ON terms (((ea + ea) * ea));
SET plan_cache_mode = force_generic_plan;
PREPARE by_value AS SELECT a FROM terms WHERE (ea + ea) * ea = $1;
SELECT encdb.enc_int4_encrypt(98) AS value \gset
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) EXECUTE by_value(NULL);
EXECUTE by_value(:'value');
INSERT INTO terms (a, ea) SELECT a, ea FROM terms WHERE a = 7 ON CONFLICT ((((ea + ea) * ea))) DO UPDATE SET b = 100;
SELECT a, b FROM terms WHERE b > 3;
ANALYZE terms;
RESET enable_seqscan;
-- Groups, of which expressions are made again
SELECT encdb.decrypt((ec - ec) + ec) AS c, encdb.decrypt((ec - ec) * ec), count(*) FROM terms WHERE b < 2 GROUP BY ec - ec, ec ORDER BY 1;
SELECT encdb.decrypt(ec + ec) AS twice, encdb.decrypt((ec + ec) * ec) AS product, count(*) FROM terms GROUP BY ROLLUP (ec + ec, ec) ORDER BY 1, 2, 3;
SELECT b, encdb.decrypt(sum(ea * ea + ec)) = sum(a * a + c) AS sum FROM terms GROUP BY ROLLUP (b) ORDER BY 1;
-- More operands than a call takes: as many calls as needed
SELECT string_agg('ea', ' + ') AS many FROM generate_series(1, 80) \gset
SELECT encdb.decrypt(:many) AS "80" FROM terms WHERE a = 1;
EXPLAIN (VERBOSE, COSTS OFF) SELECT :many FROM terms;
-- PL/pgSQL plans a cast without a query
DO $$ DECLARE a enc_int4; b enc_int8 := a; BEGIN SELECT ea INTO a FROM terms WHERE terms.a = 7; b := a; b := a + a;
  RAISE NOTICE '%', encdb.decrypt(b + b); END $$;
CREATE FUNCTION widened(a enc_int4) RETURNS enc_decimal LANGUAGE plpgsql AS 'BEGIN RETURN a + a; END';
SELECT encdb.decrypt(widened(ea)) AS widened FROM terms WHERE a = 7;
-- Whose right to an operator was taken away has none by what was compiled, before it was taken either
CREATE ROLE regress_reader;
GRANT SELECT ON terms TO regress_reader;
PREPARE product AS SELECT count((ea * ea) * eb) FROM terms;
SET ROLE regress_reader;
EXECUTE product;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION encdb.enc_int4_mul(enc_int4, enc_int4) FROM PUBLIC;
SET ROLE regress_reader;
EXECUTE product;
SELECT count(ea + eb - ec) FROM terms;
RESET ROLE;
GRANT EXECUTE ON FUNCTION encdb.enc_int4_mul(enc_int4, enc_int4) TO PUBLIC;
-- Given back, it goes in again
EXPLAIN (VERBOSE, COSTS OFF) SELECT (ea * ea) * eb FROM terms;
DROP OWNED BY regress_reader;
DROP ROLE regress_reader;
-- Nothing is compiled where somebody set who may execute it
REVOKE EXECUTE ON FUNCTION encdb.computed(text, "any") FROM PUBLIC;
EXPLAIN (VERBOSE, COSTS OFF) SELECT ea + eb - ec FROM terms;
-- No statement calls it: neither with an operator that it may not execute, nor with what is no cell
SELECT encdb.computed('$$*', ea, eb) FROM terms;
SELECT encdb.computed('$$+', 1, 2), encdb.computed_stable(NULL, NULL);
SELECT encdb.computed('$$+', VARIADIC ARRAY[ea, eb])::enc_int4 * ea FROM terms;
