-- Statements that are not sent.

SELECT 1 FROM person WHERE name = upper_('xyzzy')

SELECT 1 FROM person WHERE name = format('xyzzy', $1)

SELECT format(name, 'xyzzy') FROM person

SELECT concat_ws('xyzzy', name, note) FROM person

SELECT 1 FROM person WHERE f(name) = 'xyzzy'

SELECT twice(1, 'xyzzy')

SELECT 1 FROM person WHERE name = 'xyzzy'::char(3)

SELECT 1 FROM person WHERE paid = 'xyzzy'::numeric(4, -2)

SELECT 1 FROM person WHERE name LIKE 'xyzzy' ESCAPE 'xyzzy'

SELECT 1 FROM person WHERE name LIKE $1 ESCAPE $2

SELECT 1 FROM person WHERE name LIKE 'xyzzy' ESCAPE note

SELECT 1 FROM person WHERE name::varchar(3) = 'xyzzy'

SELECT 1 FROM person WHERE tags::text = '{xyzzy}'

UPDATE person SET name = ('xyzzy' || note)::varchar(3)

UPDATE person SET name = (CASE WHEN f(name) THEN format('xyzzy', 'b') END)::text

SELECT 1 FROM person WHERE flag AND name = f('xyzzy')

SELECT 1 FROM person WHERE name::mail = 'xyzzy'

SELECT 1 FROM person WHERE name SIMILAR TO 'xyzzy' ESCAPE note

SELECT 1 FROM person WHERE person = ROW(1, 'xyzzy')

DO $$ BEGIN INSERT INTO person (name) VALUES ('xyzzy'); END $$

SELECT 1; DO $$ BEGIN INSERT INTO person (name) VALUES ('xyzzy'); END $$

CREATE FUNCTION g() RETURNS int LANGUAGE sql AS 'SELECT 1 FROM person'

CREATE RULE r AS ON INSERT TO person DO ALSO INSERT INTO log VALUES ('xyzzy')

INSERT INTO person VALUES (1, 'xyzzy')

INSERT INTO person SELECT 1, 'xyzzy'

COPY person FROM STDIN

COPY person (id, name) FROM '/tmp/rows'

COPY person (id, name) FROM PROGRAM 'cat'

COPY person (id, any_) FROM STDIN

COPY person (id, name) FROM STDIN (FORMAT csv, FORCE_NULL (name))

COPY person (id, name) FROM STDIN (DEFAULT 'x')

COPY person (id, name) FROM STDIN (ENCODING 'LATIN1')

INSERT INTO person (id, any_) VALUES (1, 'xyzzy')

SELECT 1 FROM person WHERE name = 5

SELECT 1 FROM person WHERE age = 'xyzzy'

SELECT 1 FROM person WHERE age = 3000000000

SELECT 1 FROM person WHERE name = $1 OR note = $1

SELECT 1 FROM person WHERE name = 'xyzzy

SELECT 1 FROM person WHERE name = (SELECT concat('xyzzy', note) FROM u)

SELECT 1 FROM person WHERE name || 'b' || note = 'a' || $1::name || lower2('c')

INSERT INTO person (name) SELECT p0::varchar FROM (VALUES ('xyzzy', 0)) v(p0, n)

INSERT INTO person (name) SELECT p0::varchar FROM (VALUES ($1, 0)) v(p0, n)

MERGE INTO person p USING (SELECT 1 AS id, 'xyzzy' AS name) s ON p.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name

INSERT INTO person (id, name) SELECT * FROM unnest($1::int[], $2::text[]) WHERE true

INSERT INTO person (id, name) SELECT * FROM unnest($1::int[], $2::text[]) LIMIT 5

INSERT INTO person (id, name) SELECT * FROM unnest($1::int[], $2::text[]) WITH ORDINALITY

INSERT INTO person (id, name) SELECT * FROM unnest($1::int[], $2::text[], $3::text[])

INSERT INTO person (id, name) SELECT a, b FROM unnest($1::int[], $2::text[]) AS u(a, b)

INSERT INTO person (id, tags) SELECT * FROM unnest($1::int[], $2::text[])

INSERT INTO person SELECT * FROM unnest($1::int[], '{xyzzy}'::text[])

INSERT INTO person (id, name) SELECT * FROM unnest('{1}'::int[], ARRAY[f('xyzzy')]::text[])

UPDATE person SET name = v.n FROM (VALUES (1, 'xyzzy')) v(id, n) WHERE person.id = v.id

SELECT 1 FROM person JOIN (VALUES ('xyzzy')) v(n) ON name = v.n

SELECT 1 FROM person WHERE name IN (SELECT x FROM (VALUES ('xyzzy')) v(x))

WITH q AS (SELECT 'xyzzy' AS s) SELECT 1 FROM person, q WHERE name = q.s

WITH q AS (SELECT 'xyzzy' AS s) SELECT 1 FROM person, q WHERE name = s

WITH q AS (SELECT 'xyzzy' || note AS s FROM u) UPDATE person SET name = q.s FROM q

SELECT id, name FROM json_populate_recordset(NULL::person, 'xyzzy')

SELECT 1 FROM person AS p(i, n) WHERE n = 'xyzzy'

SELECT 1 FROM (person JOIN pet ON true) AS j(a, b) WHERE b = 'xyzzy'

WITH q(i, n) AS (SELECT * FROM person) SELECT 1 FROM q WHERE n = 'xyzzy'

SELECT * FROM person UNION SELECT 1, 'xyzzy'

INSERT INTO person (id, name) SELECT t.*, 'xyzzy' FROM t

SELECT 1 FROM person p, unnest(p.tags) t WHERE t = 'xyzzy'

SELECT 1 FROM person_like() g WHERE g.name = 'xyzzy'

SELECT 1 FROM person WHERE (id, name) IN (SELECT 1, concat('xyzzy', note) FROM u)

SELECT 1 FROM person WHERE COALESCE((p).name, 'xyzzy') IS NULL AND p IS NULL OR (person).name = 'xyzzy'

SELECT 1 FROM person WHERE paid ^ 2 > 100

SELECT 1 FROM person WHERE person.* = ROW(1, 'xyzzy')

SELECT f(name, upper('xyzzy')) FROM person

SELECT f(name, 'a' || $1) FROM person

SELECT substring(name FROM 'xyzzy') FROM person

SELECT rank('xyzzy') WITHIN GROUP (ORDER BY name) FROM person

SELECT enc_text('xyzzy')

SELECT encdb.enc_text_encrypt('xyzzy') FROM person

SELECT store(note => 'xyzzy', id => 1)

SELECT store('xyzzy')

SELECT store(VARIADIC ARRAY['xyzzy'])

INSERT INTO v SELECT 'xyzzy'::mail

SELECT ROW(1, 'xyzzy')::person

SELECT '(1,xyzzy)'::person

UPDATE person SET addr.street = 'xyzzy'

CREATE TABLE k PARTITION OF person FOR VALUES IN ('xyzzy')

ALTER TABLE person ATTACH PARTITION k FOR VALUES IN ('xyzzy')

SELECT CASE f(name) WHEN 'xyzzy' THEN 1 END FROM person

SELECT 1 FROM person WHERE name = (SELECT max(n) FROM (SELECT 'xyzzy' AS n) q)

EXECUTE unknown_here('xyzzy', (SELECT name FROM person))

SELECT name FROM person ORDER BY name USING < LIMIT (SELECT length('xyzzy') FROM person WHERE f(name) = 'xyzzy')

SELECT 1 FROM person WHERE xmlexists('xyzzy' PASSING name)

SELECT 1 FROM person JOIN LATERAL (SELECT 'xyzzy' AS name) l USING (name)

SELECT 1 FROM person NATURAL JOIN (SELECT 'xyzzy' AS name) l

SELECT concat(name, v.s) FROM person, (VALUES ('xyzzy')) v(s)

SELECT enc_text(v.s) FROM (VALUES ('xyzzy')) v(s)

SELECT v.s::mail FROM (VALUES ('xyzzy')) v(s)

SELECT twice(1, v.s) FROM (VALUES ('xyzzy')) v(s)

SELECT 1 FROM person p, unnest(p.tags) t, (VALUES ('xyzzy')) v(s) WHERE t = v.s

SELECT 1 FROM person, (VALUES ('xyzzy')) v(s) WHERE f(name) = v.s

INSERT INTO person (id, name) SELECT t.*, v.s FROM t, (VALUES ('xyzzy')) v(s)

WITH v(s) AS (VALUES ('xyzzy')) INSERT INTO person SELECT 1, s FROM v

MERGE INTO person p USING s ON p.id = s.id WHEN NOT MATCHED THEN INSERT (id, note, name) VALUES (s.*, 'xyzzy')

UPDATE person SET (id, note, name) = ROW(u.*, 'xyzzy') FROM u

INSERT INTO person (id, note, name) SELECT (u).*, 'xyzzy' FROM u

SELECT 1 FROM (SELECT (u).*, name FROM person, u) q(a, b, n) WHERE n = 'xyzzy'

SELECT mode() WITHIN GROUP (ORDER BY name) = 'xyzzy' FROM person

SELECT substring(name FROM $1) FROM person

CREATE TABLE k (m mail DEFAULT 'xyzzy')

CREATE TABLE k OF person (name DEFAULT 'xyzzy')

ALTER DOMAIN mail RENAME TO m2

ALTER FUNCTION store(int, enc_text) RENAME TO s2

CREATE VIEW v AS SELECT (p).name AS x FROM person p

CREATE TABLE t2 AS SELECT unnest(tags) AS t FROM person

UPDATE person SET id = 1 RETURNING WITH (OLD AS o) o.name = 'xyzzy'

UPDATE person SET flag = NOT $1

SELECT 1 FROM person WHERE flag = ('xyzzy' = 'b')

SELECT 1 FROM person p WHERE p.person_like = 'xyzzy'

INSERT INTO person (addr) VALUES (ROW('xyzzy'))

SELECT 1 FROM person WHERE addr = '(xyzzy)' OR (addr).street = 'xyzzy'

SELECT 1 FROM person WHERE name = $2147483647

UPDATE person SET name = new.name FROM (VALUES (1, 'xyzzy')) AS new(id, name) WHERE person.id = new.id

WITH new(id, name) AS (VALUES (1, 'xyzzy')) UPDATE person SET name = new.name FROM new WHERE person.id = new.id

MERGE INTO person p USING (VALUES (1, 'xyzzy')) AS new(id, name) ON p.id = new.id WHEN MATCHED THEN UPDATE SET name = new.name

DELETE FROM person USING (VALUES ('xyzzy')) AS old(name) WHERE person.name = old.name

UPDATE person SET name = old.name FROM (SELECT 1 AS id, $1 AS name) AS old WHERE person.id = old.id

UPDATE person SET name = (SELECT name FROM (VALUES (1, 'xyzzy')) v(id, name) WHERE v.id = person.id)

UPDATE person SET (name, note) = (SELECT name, 'n' FROM (VALUES (1, 'xyzzy')) v(id, name) WHERE v.id = person.id)

SELECT 1 FROM person JOIN (SELECT name FROM (VALUES ('xyzzy')) v(name)) q ON person.name = q.name

SELECT 1 FROM person JOIN (SELECT name FROM (VALUES ('xyzzy')) v(name)) q USING (name)

SELECT 1 FROM person NATURAL JOIN (SELECT name FROM (VALUES ('xyzzy')) v(name)) q

SELECT 1 FROM person p JOIN LATERAL (SELECT name FROM (SELECT 'xyzzy' AS name) z) l ON p.name = l.name

SELECT 1 FROM person LEFT JOIN LATERAL (SELECT name FROM (SELECT 'xyzzy' AS name) s) l ON person.name IS NOT DISTINCT FROM l.name

SELECT 1 FROM person WHERE name IN (SELECT name FROM (VALUES ('xyzzy')) v(name))

SELECT 1 FROM person WHERE name IN (SELECT name FROM unnest(ARRAY['xyzzy']) AS name)

SELECT 1 FROM person WHERE name IN (SELECT name FROM regexp_split_to_table('xyzzy', ',') AS name)

SELECT 1 FROM person WHERE name IN (SELECT name FROM json_to_recordset('[{"name":"xyzzy"}]') AS t(name text))

SELECT 1 FROM person WHERE name = ANY (SELECT name FROM unnest(ARRAY['xyzzy']) AS t(name))

SELECT 1 FROM person p JOIN (SELECT DISTINCT name FROM unnest(ARRAY['xyzzy']) AS name) q ON p.name = q.name

SELECT 1 FROM person p WHERE name = (SELECT p.name FROM (VALUES ('xyzzy')) p(name))

SELECT 1 FROM person p WHERE EXISTS (SELECT 1 FROM unnest(ARRAY['xyzzy']) AS name WHERE name = p.name)

SELECT 1 FROM person p, unnest(ARRAY['xyzzy']) AS x(name) WHERE p.name = x.name

UPDATE person SET name = CASE WHEN id = 1 THEN (SELECT name FROM (SELECT 'xyzzy' AS name) s) END

SELECT store(1, (SELECT name FROM (VALUES ('xyzzy')) v(name)))

WITH src AS (SELECT 1 AS id, 'xyzzy' AS name, tags FROM person) INSERT INTO person (id, name, tags) SELECT * FROM src

INSERT INTO person (id, name, tags) SELECT q.* FROM (SELECT id, 'xyzzy' AS n, tags FROM person) q

SELECT id, name, tags FROM person EXCEPT SELECT * FROM (SELECT id, 'xyzzy' AS n, tags FROM person) q

WITH src AS (SELECT 'xyzzy' AS n, tags FROM person) INSERT INTO person (name, tags) TABLE src

WITH src AS (SELECT 'xyzzy' AS n, tags FROM person) SELECT name, tags FROM person UNION ALL TABLE src

WITH q AS (SELECT 'xyzzy' AS n, nick FROM pet) INSERT INTO person SELECT (q).* FROM q

SELECT 1 FROM person WHERE (name, tags) IN (SELECT * FROM (SELECT 'xyzzy' AS n, tags FROM person) q)

SELECT 1 FROM person p, (SELECT 'xyzzy' AS n, p.tags FROM person p) q WHERE (p.name, p.tags) = (SELECT q.*)

SELECT 1 FROM person p, (SELECT 1 AS id, 'xyzzy' AS name, tags FROM person) q WHERE p = q

SELECT coalesce(q, p) FROM person p, (SELECT 1 AS id, 'xyzzy' AS name, tags FROM person) q

CREATE TABLE k AS SELECT CASE WHEN id = 1 THEN flag ELSE true END FROM person

CREATE TABLE k AS SELECT id, XMLFOREST(name) FROM person

SELECT 1 FROM person, (SELECT NOT 'xyzzy' AS b) q WHERE flag = q.b

UPDATE person SET flag = q.b FROM (SELECT 'xyzzy' = x AS b FROM u) q

SELECT 1 FROM person WHERE ~age = 'xyzzy'

SELECT 1 FROM person WHERE app.count(name) = 'xyzzy'

SELECT 1 FROM person WHERE app.lower(name) = 'xyzzy'

SELECT app.lower(name, 'xyzzy') FROM person

SELECT det_type('xyzzy')

SELECT rnd_type(v.s) FROM (VALUES ('xyzzy')) v(s)

SELECT _enc_text('{xyzzy}')

SELECT ('xyzzy').enc_text

SELECT (v.s).enc_text FROM (VALUES ('xyzzy')) v(s)

SELECT 1 FROM u WHERE encdb.enc_text_cmp(u.x, u.y) = 'xyzzy'

SELECT 1 FROM person, u, LATERAL (VALUES (u.*, person.name), ('a', 'b', 'xyzzy')) v

SELECT * FROM jsonb_to_recordset('[{"name":"xyzzy"}]') AS r(id int, name enc_text)

SELECT 1 FROM ROWS FROM (jsonb_to_recordset('[{"name":"xyzzy"}]') AS (name enc_text)) g

SELECT 1 FROM ROWS FROM (f() AS (id int, name enc_text)) AS g WHERE g.name = 'xyzzy'

SELECT 1 FROM f() AS g(id int, name enc_text) WHERE g.name = 'xyzzy'

CREATE TABLE k AS SELECT * FROM ROWS FROM (f() AS (id int, name enc_text)) AS g

SELECT 1 FROM (SELECT ROW(name) FROM person) q WHERE q.row = ROW('xyzzy')

SELECT 1 FROM person p, unnest(ARRAY['xyzzy']) AS name WHERE p.name = name

SELECT * FROM person WHERE ($1 = '' OR name = $2)

SELECT * FROM person WHERE length('xyzzy') > 0 AND name LIKE '%xyzzyb%'

SELECT * FROM person WHERE CASE 'xyzzy' WHEN '' THEN true ELSE name = 'xyzzy' END

SELECT * FROM person WHERE CASE WHEN lower('xyzzy') <> '' THEN name = 'b' ELSE true END

SELECT id, 'xyzzy' AS term FROM person WHERE name = 'xyzzy'

SELECT id, '%XYZZY%' AS term FROM person WHERE name LIKE '%xyzzy%'

SELECT id FROM person WHERE name = 'xyzzy' AND starts_with('xyzzy', 'x')

SELECT id FROM person WHERE tags @> '{b,xyzzy}' AND pg_notify('c', 'xyzzy') IS NULL

WITH q AS (SELECT 'xyzzy' AS term) SELECT id FROM person, q WHERE q.term = '' OR name = 'xyzzy'

PREPARE p (text, text) AS SELECT 1 FROM person WHERE ($1 = '' OR name = $2)

PREPARE p (text, text) AS SELECT $1, name FROM person WHERE name = $2; EXECUTE p('xyzzy', 'xyzzy')

PREPARE p AS SELECT 1 FROM person WHERE ($1 IS NULL OR name = $2)

SELECT age - 'xyzzy'::interval FROM person

SELECT 1 FROM person WHERE ('x', 1) IN (('xyzzy', f(name)), (name, 1))

ALTER TYPE addr2 ADD ATTRIBUTE street enc_text

SELECT query_to_xml('SELECT 1 FROM person WHERE name = ''xyzzy''', true, false, '')

SELECT * FROM dblink('host=x', $1) AS t(a int)

SELECT E'a'
'b\'', 1 FROM person WHERE name = f('xyzzy')

CREATE TABLE "käufer" (name enc_text); INSERT INTO KÄUFER (name) VALUES ('xyzzy')

CREATE TABLE "ééééééééééééééééééééééééééééééééééééé" (name enc_text); INSERT INTO ééééééééééééééééééééééééééééééééééééé (name) VALUES ('xyzzy')

SELECT 'xyzzy'::text AS term FROM person WHERE name = 'xyzzy'

CREATE TABLE k AS SELECT (name || 'b')::text FROM person

CREATE TABLE k AS SELECT 'b' UNION SELECT name FROM person

SELECT 1 FROM (SELECT 'b'::text UNION SELECT name FROM person) q WHERE q.enc_text = f('xyzzy')

SELECT * FROM person WHERE ('xyzzy' > '' OR name = 'xyzzy')

SELECT * FROM person WHERE ('xyzzy'::varchar(3) = '' OR name = 'xyzzy')

SELECT id, '' AS term FROM person WHERE name = ''

SELECT id, '1' AS term FROM person WHERE name = '1'

SELECT id, 1 AS wanted FROM person WHERE age = 1

SELECT id, 0 AS wanted FROM person WHERE age IN (0, 7)

SELECT '1' FROM person WHERE age = 1

SELECT abs(1) FROM person WHERE age = 1

SELECT 5.0 FROM person WHERE age = 5

SELECT id, '05' AS wanted FROM person WHERE age = 5

SELECT id, true AS wanted FROM person WHERE flag = true

SELECT id FROM person WHERE (false OR flag = false)

SELECT 'Results for Xyzzy' AS title FROM person WHERE name = 'xyzzy'

SELECT '{b,xyzzy}' AS shown FROM person WHERE name = 'xyzzy'

SELECT '{b,eve}' AS shown FROM person WHERE name = 'eve'

SELECT 'eve' AS shown FROM person WHERE tags && '{b,eve}'

SELECT 'eve' AS shown FROM person WHERE tags && ARRAY['b', 'eve']

SELECT 'xyzzy' AS shown FROM person WHERE name = 'xyzzy'::varchar(2)

SELECT '20240102' AS shown FROM person WHERE born = '2024-01-02'

SET app.term = 'xyzzy'; SELECT id FROM person WHERE name = 'xyzzy'

COMMENT ON TABLE person IS 'xyzzy'; SELECT id FROM person WHERE name = 'xyzzy'

PREPARE p (text) AS SELECT 'xyzzy' AS term, id FROM person WHERE name = $1; EXECUTE p('xyzzy')

PREPARE p (text) AS SELECT $1 AS term, id FROM person WHERE name = 'xyzzy'; EXECUTE p('xyzzy')

SELECT left(name, 'xyzzy') FROM person

SELECT split_part(name, '@', 'xyzzy') FROM person

SELECT lpad(name, 7, 'xyzzy') FROM person

SELECT position(name IN 'xyzzy') FROM person

SELECT translate(name, 'xyzzy', '') FROM person

SELECT encdb.replace(name, 'xyzzy', '') FROM person

SELECT app.replace(name, 'xyzzy', '') FROM person

SELECT replace(name, 'xyzzy', ''), 'xyzzy' FROM person

DO $$ BEGIN EXECUTE 'xyzzy'; END $$

DO $$ BEGIN PERFORM run('INSERT INTO person (name) VALUES (''xyzzy'')'); END $$

DO $$ BEGIN PERFORM store(1, 'xyzzy'); END $$

DO $$ DECLARE c enc_text; BEGIN c := 'xyzzy'; END $$

DO $$ BEGIN PERFORM query_to_xml('xyzzy', true, false, ''); END $$

DO $$ BEGIN PERFORM 1 FROM U&"perso\006e" WHERE x = 'xyzzy'; END $$

DO LANGUAGE plpython3u $$ plpy.run("xyzzy") $$

SELECT 1; DO $$ BEGIN RAISE NOTICE 'xyzzy'; END $$; DO $$ BEGIN EXECUTE 'xyzzy'; END $$

CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.name := 'xyzzy'; RETURN NEW; END $$

CREATE FUNCTION g(r anyelement) RETURNS bool LANGUAGE sql AS $$ SELECT (r).nick = 'xyzzy' $$

CREATE FUNCTION g(r record) RETURNS bool LANGUAGE sql BEGIN ATOMIC SELECT (r).tags = 'xyzzy'; END

CREATE FUNCTION g() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1 FROM person WHERE note = 'xyzzy'; END

CREATE FUNCTION g() RETURNS int LANGUAGE plperl AS 'xyzzy'

CREATE PROCEDURE g(a text) LANGUAGE plpgsql AS $$ BEGIN EXECUTE a USING 'xyzzy'; END $$


SELECT run('INSERT INTO person (name) VALUES (''xyzzy'')')

SELECT run($x$ select 1 from "person" where name = 'xyzzy' $x$)

SELECT run(E'UPDATE person\nSET name = \'xyzzy\'')

INSERT INTO queries (text) VALUES ('SELECT run(''DELETE FROM person WHERE name = ''''xyzzy'''''')')

SELECT id FROM person WHERE note = 'SELECT ''xyzzy''::enc_text'

SELECT run('EXECUTE p(''xyzzy''::enc_text)')

SELECT note = coalesce(note, string_agg(note, ',') FILTER (WHERE note = note AND 'xyzzy')) FROM person WHERE name = 'xyzzy'

SELECT move_to('b', '(xyzzy)')

DO $$ DECLARE c refcursor := 'cur'; r record; BEGIN FETCH c INTO r; IF r.name = 'xyzzy' THEN RETURN; END IF; END $$

SELECT run('/* all */ EXPLAIN ANALYZE DELETE FROM person WHERE name = ''xyzzy''')

SELECT run('BEGIN; DELETE FROM person WHERE name = ''xyzzy''')

SELECT U&"query\005fto_xml"('xyzzy', true, true, '')

SELECT * FROM U&"ts\005fstat"('SELECT ' || 'xyzzy')

SELECT run('DEL'
    'ETE FROM person WHERE name = ''xyzzy''')

SELECT run(E'\x44ELETE FROM person WHERE name = \'xyzzy\'')

SELECT run(U&'\0044ELETE FROM person WHERE name = ''xyzzy''')

SELECT extract('xyzzy' FROM born) FROM person

SELECT extract('microsecondsxyzzy' FROM born) FROM person

SELECT app.extract('year', born || 'xyzzy') FROM person, u WHERE f(born, 'xyzzy') = 1

SELECT age, 1234567 AS shown FROM person WHERE age = 1234567 + 1

SELECT age, 1234568 AS shown FROM person WHERE age = 1234567 + 1

SELECT '1994-01-01' AS shown FROM person WHERE born < date '1993-01-01' + interval '1' year

SELECT age FROM person WHERE age = 2147483647 + 1

SELECT age FROM person WHERE age = 1 / 0

SELECT json_object_agg(name || 'a', 'xyzzy') FROM person

SELECT format(name || 'a', upper('xyzzy')) FROM person

SELECT 1 FROM person WHERE born < now()::date - 1234567 * 2

SELECT 1 FROM person WHERE born < CURRENT_DATE - '1234567'

SELECT 1 FROM person WHERE born < now() - $1

SELECT 1 FROM person WHERE born < now() - age

SELECT 1 FROM person WHERE born < coalesce($1, now())

SELECT 1 FROM person WHERE born < greatest(now(), '1994-01-01')

SELECT 1 FROM person WHERE born < date_trunc('xyzzy', now())

SELECT 1 FROM person WHERE name = CURRENT_USER || 'xyzzy'

SELECT 1 FROM person WHERE name LIKE CURRENT_USER

SELECT born - now() FROM person

UPDATE person SET born = CURRENT_DATE WHERE id = 1

INSERT INTO person (id, born) VALUES (1, now())

SELECT born FROM person WHERE timezone('xyzzy', born) IS NULL

SELECT to_char(born, '"xyzzy" YYYY') FROM person

SELECT born AT TIME ZONE 'xyzzy' FROM person

SELECT encdb.timezone('UTC', 'xyzzy') FROM person

SELECT encdb.timezone('UTC', $1 || 'xyzzy') FROM person

SELECT to_char(born, 'YYYY', 'xyzzy') FROM person

SELECT to_char(born, 'YYYY', $1) FROM person WHERE name = 'xyzzy'

SELECT encdb.date_part('year', $1) FROM person WHERE name = 'xyzzy'

SELECT born AT TIME ZONE 'xyzzy5' FROM person

SELECT count(*) OVER (w RANGE 'xyzzy' PRECEDING) FROM person WINDOW w AS (ORDER BY age)

SELECT count(*) OVER (ORDER BY name RANGE 'xyzzy' PRECEDING) FROM person

SELECT count(*) OVER (ORDER BY age, id RANGE 'xyzzy' PRECEDING) FROM person

SELECT count(*) OVER (ORDER BY age, age RANGE 'xyzzy' PRECEDING) FROM person

SELECT count(*) OVER (ORDER BY born - $1 RANGE 'xyzzy' PRECEDING) FROM person

SELECT count(*) OVER (ORDER BY born RANGE 'xyzzy'::int PRECEDING) FROM person

SELECT corr(age, 'xyzzy') FROM person

SELECT regr_count(age, 'xyzzy') FROM person

SELECT to_char(paid, '"xyzzy" 999') FROM person

SELECT to_char(paid, '99 xyzzy') FROM person

SELECT to_char(age, 'YYYY xyzzy') FROM person

SELECT percentile_disc('xyzzy') WITHIN GROUP (ORDER BY name) FROM person

SELECT percentile_disc('xyzzy'::float8) WITHIN GROUP (ORDER BY name) FROM person

SELECT rank('xyzzy') WITHIN GROUP (ORDER BY name) FROM person

SELECT percentile_cont($1) WITHIN GROUP (ORDER BY age) FROM person WHERE name = 'xyzzy'
SELECT 1 FROM shift, u WHERE lasts > u.pause + interval '10 min'
SELECT 1 FROM shift, u WHERE lasts BETWEEN u.pause - interval '5 min' AND u.pause
SELECT 1 FROM shift WHERE lasts = (now() - now()) + interval '8 hours'
UPDATE shift SET lasts = interval '8 hours', ends = starts + interval '8 hours'
SELECT percentile_disc(70003) WITHIN GROUP (ORDER BY age) FROM person
SELECT percentile_disc('70003'::float8) WITHIN GROUP (ORDER BY age) FROM person
SELECT percentile_cont('{0.5,70003}'::float8[]) WITHIN GROUP (ORDER BY age) FROM person
SELECT percentile_disc(0.5, 1) WITHIN GROUP (ORDER BY age, id) FROM person
