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
