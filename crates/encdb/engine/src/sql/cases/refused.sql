-- Statements that are not sent.

SELECT 1 FROM person WHERE name = upper_('xyzzy')

SELECT 1 FROM person WHERE name = concat('xyzzy', $1)

SELECT concat(name, 'xyzzy') FROM person

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

UPDATE person SET name = (CASE WHEN f(name) THEN concat('xyzzy', 'b') END)::text

SELECT 1 FROM person WHERE flag AND name = f('xyzzy')

SELECT 1 FROM person WHERE name::mail = 'xyzzy'

SELECT 1 FROM person WHERE name SIMILAR TO 'xyzzy'

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
