-- Statements, each with cells that are sent in it. Its literals 'a' to 'd' are not.

SELECT 1 FROM person p JOIN pet ON pet.nick = 'a' WHERE p.name = 'b'
-- <n:text:a> <n:text:b>

WITH q AS (SELECT name AS n FROM person) SELECT n FROM q WHERE n = 'a'
-- <n:text:a>

SELECT 1 FROM (SELECT name AS n, id FROM person) q (m) WHERE q.m = 'a' AND id = 1
-- <n:text:a>

SELECT 1 FROM u WHERE x IN (SELECT age FROM person) AND 5 = ANY (SELECT age FROM person)
-- <a:integer:5>

SELECT 1 FROM person WHERE EXISTS (SELECT 1 FROM u WHERE u.y = person.name AND person.name < 'a')
-- <n:text:a>

SELECT max(name) FROM person GROUP BY id HAVING max(name) > 'a'
-- <n:text:a>

INSERT INTO person AS p (id, name) VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET name = 'b' WHERE p.name <> 'c' RETURNING p.name = 'd'
-- <n:text:a> <n:text:b> <n:text:c> <n:text:d>

MERGE INTO person p USING u ON p.id = u.id WHEN MATCHED THEN UPDATE SET name = 'a' WHEN NOT MATCHED THEN INSERT (id, name) VALUES (1, 'b')
-- <n:text:a> <n:text:b>

SELECT CASE name WHEN 'a' THEN 1 END, CASE WHEN id = 1 THEN name ELSE 'b' END FROM person
-- <n:text:a> <n:text:b>

SELECT 1 FROM person WHERE (name, id) = ('a', 1) AND (id, name) IN ((2, 'b'))
-- <n:text:a> <n:text:b>

SELECT 1 FROM person WHERE lower(name) = 'a' AND substr(name, 1, 2) = 'b'
-- <n:text:a> <n:text:b>

SELECT store(1, 'a')
-- <f:text:a>

CALL store(1, 'a')
-- <f:text:a>

CREATE TABLE v (id int DEFAULT 1, note enc_text DEFAULT 'a' CHECK (note <> 'b'))
-- <d:text:a> <d:text:b>

ALTER TABLE person ALTER name SET DEFAULT 'a', ADD note enc_text DEFAULT 'b'
-- <n:text:a> <d:text:b>

EXPLAIN SELECT 1 FROM person WHERE name = 'a'
-- <n:text:a>

DECLARE c CURSOR FOR SELECT 1 FROM person WHERE name = 'a'
-- <n:text:a>

PREPARE p (text) AS SELECT 1 FROM person WHERE name = $1; EXECUTE p('a')
-- p(enc_text) <n:text:a>

SELECT 'a'::enc_text FROM person
-- <d:text:a>

UPDATE person SET tags = ARRAY['a', NULL, 'b'], name = CASE WHEN id = 1 THEN 'c' ELSE 'd' END
-- <t:text:a> <t:text:b> <n:text:c> <n:text:d>

SELECT 1 FROM person TABLESAMPLE SYSTEM (9) WHERE name = 'a'
-- <n:text:a>

WITH person AS (SELECT id FROM person WHERE name = 'a') SELECT id FROM person
-- <n:text:a>

WITH person AS (SELECT 1) UPDATE person SET name = 'a'
-- <n:text:a>

SELECT 1 FROM person WHERE ('a', $1) = (name, id) AND (name, id) IN (SELECT 'b', 1) AND ('c', 2) IN (SELECT name, id FROM person)
-- <n:text:a> <n:text:b> <n:text:c>

SELECT 1 FROM person WHERE 'a' BETWEEN name AND 'b' AND 'c' IN (name, 'd')
-- <n:text:a> <n:text:b> <n:text:c> <n:text:d>

SELECT 1 FROM person WHERE 'a' = ANY (ARRAY[name, 'b'])
-- <n:text:a> <n:text:b>

SELECT ARRAY[name, 'a'], CASE 'b' WHEN name THEN 1 END FROM person
-- <n:text:a> <n:text:b>

SELECT 1 FROM plain.person, public.person WHERE public.person.name = 'a'
-- <n:text:a>

UPDATE person SET name = 'a' RETURNING old.name = 'b', new.name = 'c'
-- <n:text:a> <n:text:b> <n:text:c>

ALTER TABLE person ADD CHECK (person.name <> 'a')
-- <n:text:a>

CREATE TABLE k (CHECK (name <> 'a')) INHERITS (person)
-- <n:text:a>

SELECT '{a}'::_enc_text FROM person
-- <d:text:a>

SELECT name FROM person WHERE name = 'a' UNION SELECT nick FROM pet WHERE nick = 'b' UNION VALUES ('c')
-- <n:text:a> <n:text:b> <n:text:c>

VALUES ((SELECT name FROM person), 1), ('a', 2)
-- <n:text:a>

SELECT 1 FROM person p WHERE p.name = (SELECT q.name FROM person q WHERE q.name > 'a' LIMIT 1) OR p.name = lower('b')
-- <n:text:a> <n:text:b>

WITH RECURSIVE r AS (SELECT id, name FROM person WHERE name = 'a' UNION ALL SELECT p.id, p.name FROM person p JOIN r ON p.name > r.name WHERE r.name < 'b') SELECT * FROM r WHERE name = 'c'
-- <n:text:a> <n:text:b> <n:text:c>

SELECT lag(name, 1, 'a') OVER (ORDER BY id) FROM person
-- <n:text:a>

CREATE TABLE k (LIKE person, CHECK (name <> 'a'))
-- <n:text:a>

ALTER TABLE t ADD c enc_text CHECK (c <> 'a'), ALTER c SET DEFAULT 'b'
-- <d:text:a> <d:text:b>

ALTER TABLE person SET SCHEMA arch; INSERT INTO arch.person (name) VALUES ('a')
-- <n:text:a>

SELECT 1 FROM old.person WHERE name = 'a'
-- <n:text:a>

CREATE TABLE k (LIKE person); INSERT INTO k (name) VALUES ('a')
-- <n:text:a>

CREATE TABLE h (name enc_text) PARTITION BY LIST ((name = 'a'))
-- <d:text:a>

SELECT 1 FROM person p WHERE EXISTS (SELECT 1 FROM (SELECT p.name = 'a') q, u p)
-- <n:text:a>

SELECT 1 FROM person WHERE tags = '{a}'::text[] AND name = ANY ('{b}'::varchar[])
-- <t:text:a> <n:text:b>

UPDATE person SET tags[1] = 'a'
-- <t:text:a>

SELECT 1 FROM (SELECT tags[1] FROM person) q WHERE q.tags = 'a'
-- <t:text:a>

SELECT 1 FROM (SELECT (SELECT name FROM person LIMIT 1) FROM u) q WHERE q.name = 'a'
-- <n:text:a>

SELECT 1 FROM (SELECT CASE WHEN id = 1 THEN name ELSE nick END FROM person, pet) q WHERE q.nick = 'a'
-- <n:text:a>

SELECT 1 FROM (SELECT CASE WHEN id = 1 THEN name END FROM person) q WHERE q."case" = 'a'
-- <n:text:a>

SELECT 1 FROM (SELECT greatest(name, nick), nullif(age, age), coalesce(paid, paid) FROM person, pet) q WHERE q.greatest = 'a' AND q.nullif = 5 AND q.coalesce = 6
-- <n:text:a> <a:integer:5> <p:numeric:6>

SELECT 1 FROM (SELECT ARRAY[name] FROM person) q WHERE 'a' = ANY(q.array)
-- <n:text:a>

SELECT 1 FROM (SELECT NULL::enc_text, 5::enc_int4 FROM person) q WHERE q.enc_text = 'a' AND q.enc_int4 = 6
-- <d:text:a> <d:integer:5> <d:integer:6>

SELECT 1 FROM (SELECT name || nick FROM person, pet) q WHERE q."?column?" = 'a'
-- <n:text:a>

SELECT 1 FROM (SELECT (array_agg(name))[1] FROM person) q WHERE q.array_agg = 'a'
-- <n:text:a>

CREATE TABLE k AS SELECT id, tags[1] FROM person; INSERT INTO k (id, tags) VALUES (1, 'a')
-- <t:text:a>

CREATE VIEW k AS SELECT id, greatest(name, 'a') FROM person; SELECT 1 FROM k WHERE "greatest" = 'b'
-- <n:text:a> <n:text:b>

SELECT name INTO k FROM person UNION SELECT nick FROM pet; INSERT INTO k (name) VALUES ('a')
-- <n:text:a>

CREATE TABLE k AS SELECT id, encdb.enc_text_encrypt(x) AS email FROM u; INSERT INTO k (id, email) VALUES (1, 'a')
-- <d:text:a>

CREATE VIEW k AS SELECT id, encdb.enc_text_encrypt(x) FROM u; SELECT * FROM k WHERE enc_text_encrypt = 'a'
-- <d:text:a>

SELECT 1 FROM u WHERE encdb.enc_text_encrypt(u.x) = 'a'
-- <d:text:a>

WITH RECURSIVE a AS (SELECT n FROM b WHERE n = 'a'), b AS (SELECT n FROM c), c AS (SELECT n FROM d), d AS (SELECT name AS n FROM person) SELECT * FROM a
-- <n:text:a>

WITH q AS (WITH z AS (SELECT name AS n FROM person) UPDATE u SET x = 1 FROM z RETURNING z.n) SELECT 1 FROM q WHERE n = 'a'
-- <n:text:a>

WITH q AS (WITH z AS (SELECT name AS n FROM person) DELETE FROM u USING z RETURNING z.n) SELECT 1 FROM q WHERE n = 'a'
-- <n:text:a>

SELECT 1 FROM (SELECT 'x' AS name FROM u) q, person p WHERE p.name = 'a'
-- <n:text:a>

SELECT 1 FROM u p, (SELECT 1 FROM person p WHERE p.name = 'a') q
-- <n:text:a>

SELECT 1 FROM person p JOIN u q ON p.name = 'a' JOIN (u JOIN pet ON pet.nick = 'b') j ON j.nick = 'c'
-- <n:text:a> <n:text:b> <n:text:c>

SELECT 1 FROM person WHERE EXISTS (SELECT 1 FROM u, LATERAL (SELECT person.name AS n) l WHERE l.n = 'a' AND name = 'b')
-- <n:text:a> <n:text:b>

SELECT name FROM person, unnest(ARRAY[1,2]) WITH ORDINALITY AS t(id, ord) WHERE t.id = person.id AND name = 'a' ORDER BY ord
-- <n:text:a>

UPDATE person SET name = 'a', note = x.note FROM json_to_recordset('[]') AS x(id int, note text) WHERE person.id = x.id
-- <n:text:a>

SELECT 1 FROM person WHERE ('a', 1) IN (('b', 2), (name, 1))
-- <n:text:a> <n:text:b>

CREATE TABLE kid () INHERITS (person); ALTER TABLE person ADD secret enc_text; INSERT INTO kid (secret) VALUES ('a')
-- <d:text:a>

CREATE TABLE kid () INHERITS (person); ALTER TABLE person RENAME name TO nom; INSERT INTO kid (nom) VALUES ('a')
-- <n:text:a>

CREATE TABLE kid () INHERITS (u); CREATE TABLE kin () INHERITS (kid); ALTER TABLE kin RENAME TO k; ALTER TABLE u ALTER secret TYPE enc_text USING NULL; INSERT INTO k (secret) VALUES ('a')
-- <d:text:a>

ALTER TABLE kid INHERIT u; ALTER TABLE u ADD secret enc_text; INSERT INTO kid (secret) VALUES ('a')
-- <d:text:a>

CREATE TABLE a.t5 (c enc_text); CREATE TABLE b.t5 (d enc_text); ALTER SCHEMA b RENAME TO old; ALTER SCHEMA a RENAME TO b; INSERT INTO b.t5 (c) VALUES ('a')
-- <d:text:a>

SELECT 1 FROM pet WHERE system_user = 'a'
-- <s:text:a>

CREATE TABLE k AS SELECT name::text, id FROM person; INSERT INTO k (name) VALUES ('b')
-- <n:text:b>

SELECT 1 FROM (SELECT 'a' UNION SELECT name FROM person) q(n) WHERE q.n = 'b'
-- <n:text:a> <n:text:b>
