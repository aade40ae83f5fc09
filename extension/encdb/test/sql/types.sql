-- Cells come in and go out; their form is checked, and nothing of a session is needed.
CREATE TABLE cells (k enc_int4, c enc_text);
INSERT INTO cells VALUES
  ('\xa509008855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbee4',
   '\x9d39006e340b9cffb37a989ca544e69e6e9c0bdb0b6500a91dcc433dc5df0496'),
  (NULL, NULL);
SELECT * FROM cells;
COPY cells TO STDOUT;
-- Not a cell
SELECT '1'::enc_int4;
SELECT ''::enc_int4;
SELECT 'x'::enc_text;
SELECT '\x'::enc_int4;
SELECT '\x0'::enc_int4;
SELECT '\xzz'::enc_int4;
SELECT '\x0900'::enc_int4;
-- A byte too few, and one too many
SELECT '\xa509008855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbe'::enc_int4;
SELECT '\xa509008855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbee400'::enc_int4;
-- One bit of each byte of the head: check, type, version, algorithm
SELECT '\xa409008855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbee4'::enc_int4;
SELECT '\xa508008855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbee4'::enc_int4;
SELECT '\xa509408855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbee4'::enc_int4;
SELECT '\xa5090f8855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbee4'::enc_int4;
-- Of another type than its place
SELECT '\x9d39006e340b9cffb37a989ca544e69e6e9c0bdb0b6500a91dcc433dc5df0496'::enc_int4;
SELECT '\xa509008855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbee4'::enc_text;
-- The storage types take cells of every type
SELECT '\xa509008855508aade16ec573d21e6aca47ab5e490d7044e748161a6635a5d939c5bbbee4'::rnd_type IS NOT NULL AS r,
       '\x9d39006e340b9cffb37a989ca544e69e6e9c0bdb0b6500a91dcc433dc5df0496'::det_type IS NOT NULL AS d;
-- No operators but equality of the deterministic one, which needs no key
SELECT '\x9d39006e340b9cffb37a989ca544e69e6e9c0bdb0b6500a91dcc433dc5df0496'::det_type =
       '\x9d39006e340b9cffb37a989ca544e69e6e9c0bdb0b6500a91dcc433dc5df0496' AS equal;
SELECT r < r FROM (SELECT NULL::rnd_type r) x;
SELECT d < d FROM (SELECT NULL::det_type d) x;
-- Without a session nothing is compared
SELECT k = k FROM cells;
SELECT k + k FROM cells;
SELECT c LIKE c FROM cells;
SELECT sum(k) FROM cells;
SELECT encdb.decrypt(k) FROM cells;
SELECT encdb_process_message('\x00');
-- What has no operator says so before anything is asked
SELECT k + 1 FROM cells;
SELECT k = 1 FROM cells;
SELECT k = '1' FROM cells;
-- Parameters are of the column's type
PREPARE point AS SELECT c FROM cells WHERE k = $1;
PREPARE span AS SELECT sum(k) FROM cells WHERE k BETWEEN $1 AND $2;
PREPARE write AS UPDATE cells SET k = k + $1 WHERE c LIKE $2;
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY name;
