-- Statements that are sent as they are.

SELECT id, note FROM person WHERE note = 'x' AND id IN (1, 2) ORDER BY id LIMIT 10 OFFSET 5

COPY person (id, note) FROM STDIN

COPY person TO STDOUT

INSERT INTO person SELECT * FROM person

INSERT INTO person DEFAULT VALUES

INSERT INTO person (id, note) VALUES (1, 'x'), (2, 'y') ON CONFLICT (id) DO UPDATE SET note = excluded.note || '!'

UPDATE person SET note = 'x', name = NULL WHERE id = 1 AND name IS NOT NULL

SELECT count(*), date_trunc('day', now()) FROM person WHERE name = name

SELECT p.name, o.total FROM person p LEFT JOIN orders o ON o.person = p.id AND o.state = 'open' WHERE o.total > 10.5

SELECT substr(name, 1, 3), lag(name, 1) OVER (PARTITION BY note ORDER BY id) FROM person

SELECT name FROM person WHERE born > born + '1 day'::interval

WITH q AS (SELECT id, 'x' AS tag FROM orders) SELECT person.name, q.tag FROM person JOIN q ON q.id = person.id WHERE q.tag = 'x'

SELECT name FROM person WHERE id = ANY('{1,2}') AND EXISTS (SELECT 1 FROM orders WHERE orders.person = person.id AND state = 'x')

BEGIN; SAVEPOINT a; LOCK TABLE person; TRUNCATE person; COMMIT

CREATE INDEX ON person (name) WHERE note = 'x'

ALTER TABLE person RENAME COLUMN name TO nom

GRANT SELECT ON person TO joe

COMMENT ON TABLE person IS 'people'

EXPLAIN (COSTS OFF) SELECT name FROM person WHERE id = 1

SELECT 'x' AS label, name FROM person UNION ALL SELECT 'y', nick FROM pet

SELECT name FROM person WHERE age BETWEEN age AND age AND (id, note) = (1, 'x')

DECLARE c CURSOR FOR SELECT name FROM person WHERE id < 100

SELECT 1 FROM person p WHERE EXISTS (SELECT 1 FROM u AS new WHERE new.name = 'abc' AND new.id = p.id)

UPDATE person SET note = new.x FROM u AS new WHERE new.id = person.id AND new.name = 'abc'

SELECT json_agg(p) FROM (SELECT id, name FROM person WHERE id = 5) p

SELECT q.name FROM (SELECT note AS name FROM person) q WHERE name = 'x'

SELECT 1; DO $$ BEGIN RAISE NOTICE 'hello, %', 5; END $$ LANGUAGE plpgsql; SELECT pg_sleep(1)

CREATE FUNCTION pg_temp.g("it's 1" int) RETURNS int AS 'SELECT $1 * 2' LANGUAGE sql

CREATE PROCEDURE g(IN a int, INOUT b int) LANGUAGE plpgsql AS $$ BEGIN b := b + 1; INSERT INTO log VALUES ('x'); END $$

CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.n = 4 THEN RAISE EXCEPTION 'no'; END IF; RETURN new; END $$

CREATE FUNCTION g(a text) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT length(a) + 1 FROM log WHERE message = 'x'; END

CREATE TRIGGER t BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION g('x')

CREATE FUNCTION g(name text) RETURNS int LANGUAGE sql AS $$ SELECT length(name) + 1 $$

SELECT run('SELECT 1 FROM u WHERE x = ''y'''), 'Select a person, 1 of 7', 'SELECT name FROM person'

SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY; SET search_path = a, 'b'; SET TIME ZONE INTERVAL '1:00' HOUR TO MINUTE; SELECT 1 FROM person

SELECT 1 FROM person WHERE born < CURRENT_DATE AND note = 'x'

SELECT 1 FROM person WHERE now()::date - 30 > born

SELECT 1 FROM person WHERE born <= now() - '30 days'::interval AND born >= date_trunc('month', now())

SELECT 1 FROM person WHERE name = CURRENT_USER OR name IN (note, CURRENT_USER)

SELECT 1 FROM person WHERE born BETWEEN CURRENT_DATE - 7 AND CURRENT_DATE

SELECT 1 FROM person p JOIN orders o ON p.age = o.amount AND o.placed + '1 day'::interval > p.born

SELECT 1 FROM person WHERE age IS DISTINCT FROM id

SELECT CASE WHEN born = now()::date THEN 1 END FROM person

SELECT 1 FROM person WHERE name = note AND NOT born > (SELECT max(placed) FROM orders)
