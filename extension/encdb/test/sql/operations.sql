-- Arithmetic, text, fields, casts and aggregates: results and errors are PostgreSQL's.
\getenv srcdir PG_ABS_SRCDIR
\set owner 7
\set operations all
\set file :srcdir '/sql/open.psql'
\i :file
SELECT encdb.decrypt(x + y) AS plus, encdb.decrypt(x - y) AS minus, encdb.decrypt(x * y) AS times,
       encdb.decrypt(x / y) AS by, encdb.decrypt(x % y) AS rest, encdb.decrypt(- x) AS sign,
       encdb.decrypt(abs(- x)) AS size, encdb.decrypt(mod(x, y)) AS mod
  FROM (SELECT encdb.enc_int4_encrypt(17) AS x, encdb.enc_int4_encrypt(5) AS y) v;
SELECT encdb.decrypt(x + y), encdb.decrypt(x / y), encdb.decrypt(x % y),
       encdb.decrypt(x ^ y)::text = (17.50 ^ 3.0)::text AS power
  FROM (SELECT encdb.enc_decimal_encrypt(17.50) AS x, encdb.enc_decimal_encrypt(3) AS y) v;
SELECT encdb.decrypt(x * y), encdb.decrypt(x / y), encdb.decrypt(power(x, y))
  FROM (SELECT encdb.enc_float8_encrypt(1.5) AS x, encdb.enc_float8_encrypt(2) AS y) v;
-- Errors
\set VERBOSITY sqlstate
SELECT encdb.enc_int4_encrypt(2147483647) + encdb.enc_int4_encrypt(1);
SELECT encdb.enc_int4_encrypt(1) / encdb.enc_int4_encrypt(0);
SELECT encdb.enc_float8_encrypt(1e308) * encdb.enc_float8_encrypt(1e308);
SELECT encdb.enc_text_encrypt('no number')::enc_int4;
SELECT encdb.enc_int8_encrypt(4294967296)::enc_int4;
\set VERBOSITY default
SELECT encdb.enc_int4_encrypt(2147483647) * encdb.enc_int4_encrypt(2);
SELECT encdb.enc_text_encrypt('no number')::enc_int4;
-- The published write
CREATE TABLE counter (k enc_int4);
INSERT INTO counter VALUES (encdb.enc_int4_encrypt(41));
PREPARE increment AS UPDATE counter SET k = k + $1;
SELECT encdb.enc_int4_encrypt(1) AS one \gset
EXECUTE increment(:'one');
SELECT encdb.decrypt(k) FROM counter;
-- Text
SELECT encdb.decrypt(x || y), encdb.decrypt(substring(x FROM 2 FOR 2)), encdb.decrypt(substring(x, 3)) = U&'cd\00e9' AS rest,
       encdb.decrypt(substr(x, 2, 1)), encdb.decrypt(lower(y)), encdb.decrypt(upper(y)), encdb.decrypt(length(x))
  FROM (SELECT encdb.enc_text_encrypt(U&'abcd\00e9') AS x, encdb.enc_text_encrypt('Xyz') AS y) v;
SELECT encdb.decrypt(btrim(x)) AS both, encdb.decrypt(ltrim(x)) || '.' AS left, encdb.decrypt(trim(trailing FROM x)) AS right,
       encdb.decrypt(trim(both ' ao' FROM x)) AS plain, encdb.decrypt(ltrim(x, y)) || '.' AS sealed, encdb.decrypt(initcap(x)) AS initcap
  FROM (SELECT encdb.enc_text_encrypt('  abc doo ') AS x, encdb.enc_text_encrypt(' ba') AS y) v;
SELECT encdb.decrypt(position(y IN x)) AS position, encdb.decrypt(strpos(x, x)) AS strpos, starts_with(x, y) AS no, starts_with(x, left(x, 2)) AS yes,
       encdb.decrypt(replace(x, y, x)) AS replaced, encdb.decrypt(replace(x, '@', ',")%')) AS plain,
       encdb.decrypt(split_part(x, y, 1)) AS first, encdb.decrypt(split_part(x, '@', -1)) AS last
  FROM (SELECT encdb.enc_text_encrypt('ada@x') AS x, encdb.enc_text_encrypt('@') AS y) v;
SELECT n, encdb.decrypt(left(x, n)) AS left, encdb.decrypt(right(x, n)) AS right, encdb.decrypt(repeat(x, n)) AS repeat, encdb.decrypt(reverse(x)) AS reverse,
       encdb.decrypt(lpad(x, n * 3, 'é')) AS lpad, encdb.decrypt(rpad(x, 5)) || '.' AS rpad
  FROM (SELECT encdb.enc_text_encrypt('abc') AS x) v, unnest('{0,2,-1,-2147}'::int[]) n;
SELECT split_part(encdb.enc_text_encrypt('a'), '@', 0);
-- Without a type, a parameter beside a function's pattern is a cell, and one of its plain text is a text
PREPARE told AS SELECT position($1 IN c), starts_with(c, $2), btrim(c, $3), replace(c, $4, $5), split_part(c, $6::enc_text, $7), left(c, $8) FROM (SELECT NULL::enc_text) v(c);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'told';
SELECT p, x LIKE encdb.enc_text_encrypt(p) AS "like", x NOT LIKE encdb.enc_text_encrypt(p) AS "not",
       x ILIKE encdb.enc_text_encrypt(p) AS ilike, x NOT ILIKE encdb.enc_text_encrypt(p) AS not_i
  FROM (SELECT encdb.enc_text_encrypt('Hello') AS x) v, unnest('{Hel%,hel%,_ello,%l%o,Hello,h,%}'::text[]) p;
-- ESCAPE: a plain character, given to pg_catalog.like_escape by the parser
SELECT n, x LIKE encdb.enc_text_encrypt(p) ESCAPE e AS "like", x NOT LIKE encdb.enc_text_encrypt(p) ESCAPE e AS "not",
       x ILIKE encdb.enc_text_encrypt(p) ESCAPE e AS ilike
  FROM (SELECT encdb.enc_text_encrypt('50%_Off\') AS x) v,
       (VALUES (1, '50#%#_Off\', '#'), (2, '50#%#_off\', '#'), (3, '%\', ''), (4, '%\\', '\'), (5, U&'50\00e9%%', U&'\00e9')) p (n, p, e);
SELECT x LIKE encdb.enc_text_encrypt('a!%') ESCAPE '!' AS literal FROM (SELECT encdb.enc_text_encrypt('a%') AS x) v;
PREPARE escaped AS SELECT NULL::enc_text LIKE $1::enc_text ESCAPE $2;
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'escaped';
-- A pattern whose type is not told would be a plain text: it is refused, not sent
PREPARE untold AS SELECT NULL::enc_text LIKE $1 ESCAPE '#';
SELECT encdb.decrypt(like_escape(encdb.enc_text_encrypt('a#%\'), '#'));
SELECT encdb.enc_text_encrypt('a') LIKE encdb.enc_text_encrypt('a') ESCAPE '##';
SELECT encdb.enc_text_encrypt('ab') LIKE encdb.enc_text_encrypt('a#') ESCAPE '#';
SELECT encdb.enc_text_encrypt('a') LIKE encdb.enc_text_encrypt('a') ESCAPE encdb.enc_text_encrypt('#');
-- Regular expressions, and SIMILAR TO, whose pattern is given to pg_catalog.similar_to_escape by the parser
SELECT p, x ~ encdb.enc_text_encrypt(p) AS "~", x ~* encdb.enc_text_encrypt(p) AS "~*", x !~ encdb.enc_text_encrypt(p) AS "!~",
       x !~* encdb.enc_text_encrypt(p) AS "!~*"
  FROM (SELECT encdb.enc_text_encrypt('Hello') AS x) v, unnest('{^hel,"l{2}",^H.*o$,"[[:upper:]]",hello,""}'::text[]) p;
SELECT p, x SIMILAR TO encdb.enc_text_encrypt(p) AS similar, x NOT SIMILAR TO encdb.enc_text_encrypt(p) AS "not",
       x SIMILAR TO encdb.enc_text_encrypt(p) ESCAPE '#' AS escaped
  FROM (SELECT encdb.enc_text_encrypt('50%') AS x) v, (VALUES ('(5|6)_\%'), ('50#%'), ('5'), ('[0-9]+%')) p (p);
SELECT encdb.decrypt(similar_to_escape(encdb.enc_text_encrypt('a_%(b)'))), encdb.decrypt(similar_to_escape(encdb.enc_text_encrypt('a#_.'), '#'));
PREPARE patterns AS SELECT c ~ $1, c !~* $2, c SIMILAR TO $3::enc_text FROM (SELECT NULL::enc_text) v(c);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'patterns';
PREPARE untold AS SELECT NULL::enc_text SIMILAR TO $1;
SELECT encdb.enc_text_encrypt('a') ~ encdb.enc_text_encrypt('a(');
SELECT encdb.enc_text_encrypt('a') ~ encdb.enc_text_encrypt('(a)\1');
SELECT encdb.enc_text_encrypt('a') SIMILAR TO encdb.enc_text_encrypt('a') ESCAPE '##';
EXPLAIN (COSTS OFF, VERBOSE) SELECT c SIMILAR TO p, c NOT SIMILAR TO p, c SIMILAR TO p ESCAPE '#' FROM (SELECT NULL::enc_text, NULL::enc_text OFFSET 0) v(c, p);
-- Texts that are joined: NULL is left out, and so is the delimiter before the first one
CREATE TEMP TABLE parts AS SELECT n, encdb.enc_text_encrypt(x) AS x, encdb.enc_text_encrypt(d) AS d
  FROM (VALUES (1, NULL, '-'), (2, 'a', '/'), (3, 'b', ', '), (4, 'c', NULL), (5, NULL, ';'), (6, '', '.')) v(n, x, d);
SELECT encdb.decrypt(string_agg(x, d ORDER BY n)), encdb.decrypt(string_agg(x, d ORDER BY n DESC)), encdb.decrypt(string_agg(x, d) FILTER (WHERE n = 2)),
       string_agg(x, d) FILTER (WHERE n = 1) IS NULL AS none FROM parts;
SELECT n, encdb.decrypt(string_agg(x, d) OVER (ORDER BY n)) AS so_far FROM parts ORDER BY n;
SELECT encdb.decrypt(string_agg(encdb.enc_text_encrypt(g::text), encdb.enc_text_encrypt(', ') ORDER BY g)) = string_agg(g::text, ', ' ORDER BY g) AS many
  FROM generate_series(1, 200) g;
SELECT encdb.decrypt(encdb.concat(x, NULL, x)) AS concat, encdb.decrypt(encdb.concat_ws(d, x, NULL, x, x)) AS concat_ws, encdb.decrypt(encdb.concat_ws(d, NULL::enc_text)) AS empty,
       encdb.decrypt(encdb.concat(VARIADIC ARRAY[x, d])) AS "array", encdb.concat_ws(NULL::enc_text, x) IS NULL AS "null" FROM parts WHERE n = 3;
SELECT encdb.concat(NULL::enc_text, NULL);
-- Variances, standard deviations, and truths of all rows
SELECT n, encdb.decrypt(variance(i)) AS variance, encdb.decrypt(var_pop(i)) AS var_pop, encdb.decrypt(stddev(d)) AS stddev, encdb.decrypt(stddev_pop(f)) AS stddev_pop,
       encdb.decrypt(bool_and(b)) AS bool_and, encdb.decrypt(bool_or(b)) AS bool_or, encdb.decrypt(every(b)) AS every
  FROM (SELECT g, encdb.enc_int4_encrypt(g) AS i, encdb.enc_decimal_encrypt(g / 3.0) AS d, encdb.enc_float4_encrypt(g) AS f, encdb.enc_bool_encrypt(g > 1) AS b
          FROM generate_series(1, 5) g) v, generate_series(0, 3) n WHERE g <= n OR n = 3 GROUP BY n
 UNION ALL SELECT 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL ORDER BY n;
-- Intervals, which are plain; times with a zone are UTC's, whatever the session's zone is
SET datestyle = ISO;
SELECT encdb.decrypt(d + i) AS date, encdb.decrypt(i + t) AS timestamp, encdb.decrypt(z + i) AS timestamptz,
       encdb.decrypt(d - i) = date '2024-02-29' - i AND encdb.decrypt(t - i) = timestamp '2024-01-31 12:30' - i AS minus
  FROM (SELECT encdb.enc_date_encrypt('2024-02-29') AS d, encdb.enc_timestamp_encrypt('2024-01-31 12:30') AS t,
               encdb.enc_timestamptz_encrypt('2024-03-09 12:00+00') AS z) v,
       unnest('{1 day,1 mon,-1 year 25:00:00.5}'::interval[]) i;
SELECT x + '1 day' > x AS later, encdb.decrypt(x - interval '1 century') FROM (SELECT encdb.enc_timestamp_encrypt('infinity') AS x) v;
SELECT encdb.enc_timestamp_encrypt('294276-12-31') + interval '1 day';
SELECT encdb.enc_int4_encrypt(1) + interval '1 day';
PREPARE shifted AS SELECT NULL::enc_timestamp - $1, NULL::enc_date - $2;
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'shifted';
-- A number of days or an interval?
SELECT x + '1' FROM (SELECT encdb.enc_date_encrypt('2024-01-01') AS x) v;
-- Encrypted intervals
SET intervalstyle = postgres;
SELECT encdb.decrypt(x - y) AS minus, encdb.decrypt(y - x) AS sign, encdb.decrypt(encdb.age(x, y)) AS age, encdb.decrypt(y + (x - y)) = encdb.decrypt(x) AS back,
       encdb.decrypt(d - y) AS date, encdb.decrypt(encdb.age(d, x)) AS of_date, x - y > i AS longer
  FROM (SELECT encdb.enc_timestamp_encrypt('2024-03-01 12:00') AS x, encdb.enc_timestamp_encrypt('2024-01-31 13:30') AS y, encdb.enc_date_encrypt('2024-02-29') AS d,
               encdb.enc_interval_encrypt('29 days') AS i) v;
SELECT encdb.decrypt(x - y) AS minus, encdb.decrypt(encdb.age(x, y)) AS age, encdb.decrypt(x - i) AS moved, encdb.decrypt(i + y) AS commuted
  FROM (SELECT encdb.enc_timestamptz_encrypt('2024-03-01 12:00+00') AS x, encdb.enc_timestamptz_encrypt('2024-01-31 13:30+02') AS y,
               encdb.enc_interval_encrypt('1 mon 1 day') AS i) v;
SELECT encdb.decrypt(i + j) AS plus, encdb.decrypt(i - j) AS minus, encdb.decrypt(- i) AS sign, encdb.decrypt(i * f) AS times, encdb.decrypt(f * j) AS commuted,
       encdb.decrypt(i / f) AS by, encdb.decrypt(extract(day FROM i)) AS day, encdb.decrypt(date_part('epoch', j)) AS epoch, encdb.decrypt(i::enc_text) AS text,
       encdb.decrypt(encdb.enc_text_encrypt('P1DT2H')::enc_interval) AS iso, i > interval '36 days' AS plain
  FROM (SELECT encdb.enc_interval_encrypt('1 mon 5 days') AS i, encdb.enc_interval_encrypt('-02:30') AS j, encdb.enc_float8_encrypt(1.5) AS f) v;
SELECT encdb.decrypt(sum(i)) AS sum, encdb.decrypt(avg(i)) AS avg, encdb.decrypt(min(i)) AS min, encdb.decrypt(max(i)) AS max, count(DISTINCT i)
  FROM (SELECT encdb.enc_interval_encrypt(p) FROM unnest('{1 mon,30 days,2 days 12:00}'::interval[]) p) v(i);
\set VERBOSITY sqlstate
SELECT encdb.enc_timestamp_encrypt('infinity') - encdb.enc_timestamp_encrypt('2024-01-01');
SELECT encdb.age(encdb.enc_timestamp_encrypt('2024-01-01'), encdb.enc_timestamp_encrypt('-infinity'));
SELECT encdb.enc_interval_encrypt('2147483647 days') + encdb.enc_interval_encrypt('1 day');
SELECT encdb.enc_interval_encrypt('1 day') / encdb.enc_float8_encrypt(0);
SELECT encdb.enc_text_encrypt('1 dya')::enc_interval;
SELECT extract(dow FROM encdb.enc_interval_encrypt('1 day'));
SELECT age(encdb.enc_timestamp_encrypt('2024-01-01'));
\set VERBOSITY default
-- Beside an encrypted interval a parameter is one; beside + and a time it is plain, as a literal is
PREPARE spans AS SELECT i > $1, i - $2, t - $3, t + $4, $5 * i FROM (SELECT NULL::enc_interval, NULL::enc_timestamptz) v(i, t);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'spans';
-- Fields
SELECT encdb.decrypt(extract(year FROM x)) AS year, encdb.decrypt(extract(month FROM x)) AS month,
       encdb.decrypt(extract(day FROM x)) AS day, encdb.decrypt(extract(hour FROM x)) AS hour,
       encdb.decrypt(extract(second FROM x)) AS second, encdb.decrypt(extract(epoch FROM x)) AS epoch
  FROM (SELECT encdb.enc_timestamp_encrypt('2024-02-29 12:34:56.789') AS x) v;
SELECT encdb.decrypt(extract(year FROM encdb.enc_date_encrypt('2024-02-29')));
SELECT encdb.decrypt(extract(year FROM x)) AS year, extract(month FROM x) IS NULL AS no_month
  FROM (SELECT encdb.enc_timestamp_encrypt('infinity') AS x) v;
SELECT extract(fortnight FROM encdb.enc_date_encrypt('2024-02-29'));
-- Casts
SELECT encdb.decrypt(encdb.enc_int4_encrypt(7)::enc_int8) AS i8, encdb.decrypt(encdb.enc_int4_encrypt(7)::enc_decimal) AS d,
       encdb.decrypt(encdb.enc_float8_encrypt(2.5)::enc_int4) AS i4, encdb.decrypt(encdb.enc_decimal_encrypt(2.5)::enc_int4) AS n4,
       encdb.decrypt(encdb.enc_int4_encrypt(7)::enc_text) AS t, encdb.decrypt(encdb.enc_text_encrypt('12')::enc_int4) AS i,
       encdb.decrypt(encdb.enc_date_encrypt('2024-02-29')::enc_timestamp) AS ts, encdb.decrypt(encdb.enc_bool_encrypt(true)::enc_int4) AS b;
SELECT encdb.enc_int4_encrypt(7) = encdb.enc_int8_encrypt(7) AS across;
-- Casts of times: by UTC
SELECT encdb.decrypt(z::enc_timestamp) AS timestamp, encdb.decrypt(z::enc_date) AS date, encdb.decrypt(z::enc_text) AS text,
       encdb.decrypt(z::enc_text)::timestamptz = encdb.decrypt(z) AS same
  FROM (SELECT encdb.enc_timestamptz_encrypt('2024-01-01 00:30+01') AS z) v;
SELECT encdb.decrypt(encdb.enc_timestamp_encrypt('2024-01-01')::enc_timestamptz) AT TIME ZONE 'UTC' AS "timestamp",
       encdb.decrypt(encdb.enc_date_encrypt('2024-01-01')::enc_timestamptz) AT TIME ZONE 'UTC' AS date,
       encdb.decrypt(encdb.enc_text_encrypt('2024-01-01 12:00+02')::enc_timestamptz) AT TIME ZONE 'UTC' AS text;
SELECT encdb.enc_date_encrypt('2024-01-01') = encdb.enc_timestamp_encrypt('2024-01-01') AS date_timestamp,
       encdb.enc_date_encrypt('2024-01-01') < encdb.enc_timestamptz_encrypt('2024-01-01 00:00:01+00') AS date_timestamptz,
       encdb.enc_timestamp_encrypt('2024-01-01') = encdb.enc_timestamptz_encrypt('2024-01-01 01:00+01') AS timestamp_timestamptz;
SELECT castsource::regtype, casttarget::regtype, casttarget FROM pg_cast c
 WHERE castsource::regtype::text LIKE 'enc\_%' AND castmethod <> 'f';
-- As PostgreSQL has them: each cast of two plain types in its catalogue, in the same context, by a function as volatile, and none beside; 18 has more of bytea
CREATE TEMP TABLE twin (sealed regtype, plain regtype);
INSERT INTO twin SELECT prorettype, proargtypes[0] FROM pg_proc WHERE pronamespace = 'encdb'::regnamespace AND proname LIKE '%\_encrypt' AND pronargs = 1;
SELECT count(*) FROM twin;
WITH casts AS (SELECT castsource, casttarget, castcontext, provolatile FROM pg_cast LEFT JOIN pg_proc f ON f.oid = castfunc),
     ours AS (SELECT a.plain AS source, b.plain AS target, castcontext, provolatile FROM casts, twin a, twin b WHERE castsource = a.sealed AND casttarget = b.sealed),
     theirs AS (SELECT a.plain AS source, b.plain AS target, castcontext, provolatile FROM casts, twin a, twin b WHERE castsource = a.plain AND casttarget = b.plain)
SELECT * FROM ours FULL JOIN theirs t USING (source, target)
 WHERE (ours.castcontext IS DISTINCT FROM t.castcontext OR ours.provolatile <> t.provolatile)
   AND source <> target AND 'text'::regtype NOT IN (source, target) AND 'bytea'::regtype NOT IN (source, target);
-- @@ has words of its own, whatever default_text_search_config says.
SELECT o.oid::regoperator FROM pg_operator o JOIN pg_proc f ON f.oid = o.oprcode LEFT JOIN twin l ON l.sealed = oprleft LEFT JOIN twin r ON r.sealed = oprright,
    pg_operator p JOIN pg_proc g ON g.oid = p.oprcode
 WHERE p.oprname = o.oprname AND p.oprleft = coalesce(l.plain, o.oprleft) AND p.oprright = coalesce(r.plain, o.oprright) AND p.oid <> o.oid AND f.provolatile <> g.provolatile;
-- Aggregates agree with those of the plain types
CREATE TABLE numbers AS SELECT g % 3 AS part, g AS i, g::bigint * 1000000007 AS l, (g::float4 / 4)::float4 AS s, g::float8 / 8 AS d, g * 0.01 AS n,
    encdb.enc_int4_encrypt(g) AS ei, encdb.enc_int8_encrypt(g::bigint * 1000000007) AS el, encdb.enc_float4_encrypt((g::float4 / 4)::float4) AS es,
    encdb.enc_float8_encrypt(g::float8 / 8) AS ed, encdb.enc_decimal_encrypt(g * 0.01) AS en FROM generate_series(1, 1000) g;
SELECT part, sum(i) = encdb.decrypt(sum(ei)) AND avg(i) = encdb.decrypt(avg(ei)) AS int4,
    sum(l) = encdb.decrypt(sum(el)) AND avg(l) = encdb.decrypt(avg(el)) AS int8,
    sum(s) = encdb.decrypt(sum(es)) AND avg(s) = encdb.decrypt(avg(es)) AS float4,
    sum(d) = encdb.decrypt(sum(ed)) AND avg(d) = encdb.decrypt(avg(ed)) AS float8,
    sum(n) = encdb.decrypt(sum(en)) AND avg(n) = encdb.decrypt(avg(en)) AS numeric,
    min(n) = encdb.decrypt(min(en)) AND max(n) = encdb.decrypt(max(en)) AS extremes
  FROM numbers GROUP BY part ORDER BY part;
-- Aggregates of two numbers
SELECT part, corr(i, n) = encdb.decrypt(corr(ei, en)) AND regr_slope(s, l) = encdb.decrypt(regr_slope(es, el)) AS slopes,
    regr_intercept(d, i) = encdb.decrypt(regr_intercept(ed, ei)) AND covar_samp(l, n) = encdb.decrypt(covar_samp(el, en)) AS others,
    regr_count(ei, ed) FILTER (WHERE i < 10) AS count
  FROM numbers GROUP BY part ORDER BY part;
-- Percentiles
SELECT encdb.decrypt(percentile_cont(0.3) WITHIN GROUP (ORDER BY ei)) AS between, encdb.decrypt(percentile_disc(0.3) WITHIN GROUP (ORDER BY en DESC)) AS place,
    encdb.decrypt((percentile_cont('{0,0.5}'::float8[]) WITHIN GROUP (ORDER BY ed))[2]) AS middle,
    rank(encdb.enc_int4_encrypt(7)) WITHIN GROUP (ORDER BY ei) AS rank FROM numbers;
-- Numbers as text
SELECT encdb.decrypt(to_char(ei, '0000')) AS int4, encdb.decrypt(to_char(el, '9G999G999G999')) AS int8, encdb.decrypt(to_char(es, 'S9D99')) AS float4,
    encdb.decrypt(to_char(ed, '9.9EEEE')) AS float8, encdb.decrypt(to_char(en, 'FM999.0PR')) AS numeric FROM numbers WHERE i = 3;
SELECT to_char(ei, 'S9S') FROM numbers WHERE i = 3;
-- PostgreSQL has them of bytea since 18
SELECT encdb.decrypt(min(b)), encdb.decrypt(max(b)) FROM (VALUES (encdb.enc_bytea_encrypt('\x02')), (encdb.enc_bytea_encrypt('\x0101')), (NULL)) v(b);
SELECT sum(ei) IS NULL AS none, encdb.decrypt(sum(ei)) FROM numbers WHERE i < 0;
-- A cursor that was opened before the library was loaded finds equal values too
CREATE TABLE often AS SELECT encdb.enc_int4_encrypt(v) AS k FROM (VALUES (1), (2), (2), (2)) v(v);
\c -
BEGIN;
DECLARE early CURSOR FOR SELECT mode() WITHIN GROUP (ORDER BY k) AS often FROM often;
\i :file
FETCH early \gset
COMMIT;
SELECT encdb.decrypt(:'often'::enc_int4) AS often;
SELECT encdb.decrypt(sum(ei) FILTER (WHERE i <= 2)), count(ei), encdb.decrypt(sum(DISTINCT ei)) FROM numbers;
SELECT avg(i)::text = encdb.decrypt(avg(ei))::text AS same_scale FROM numbers;
-- In parallel
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off;
EXPLAIN (COSTS OFF) SELECT sum(ei) FROM numbers;
SELECT encdb.decrypt(sum(ei)), encdb.decrypt(avg(en)), encdb.decrypt(max(el)) FROM numbers;
SELECT count(*) FROM numbers WHERE ei > (SELECT encdb.enc_int4_encrypt(500));
