-- Statements, each with the one that is sent: <key:type:value> is a cell.

SELECT * FROM person WHERE name = 'ada'
-- SELECT * FROM person WHERE name = '<n:text:ada>'

SELECT 1 FROM person WHERE 'ada' = name AND id = 7
-- SELECT 1 FROM person WHERE '<n:text:ada>' = name AND id = 7

SELECT p.id FROM person p WHERE p.name LIKE 'ada'
-- SELECT p.id FROM person p WHERE p.name LIKE '<n:text:ada>'

DELETE FROM public.person WHERE age > 41
-- DELETE FROM public.person WHERE age > '<a:integer:41>'

DELETE FROM person WHERE age > -41
-- DELETE FROM person WHERE age > '<a:integer:-41>'

DELETE FROM person WHERE age IN (1, 2)
-- DELETE FROM person WHERE age IN ('<a:integer:1>', '<a:integer:2>')

DELETE FROM person WHERE age BETWEEN 1 AND 2
-- DELETE FROM person WHERE age BETWEEN '<a:integer:1>' AND '<a:integer:2>'

DELETE FROM person WHERE name = 'ada'::varchar
-- DELETE FROM person WHERE name = '<n:text:ada>'

DELETE FROM person WHERE name = 'adamant'::varchar(3) AND paid = 1.255::numeric(4, 2)
-- DELETE FROM person WHERE name = '<n:text:ada>' AND paid = '<p:numeric:1.26>'

SELECT 1 FROM person WHERE name LIKE '%' || 'a/%' || '%' ESCAPE '/' AND note LIKE 'x' ESCAPE '!'
-- SELECT 1 FROM person WHERE name LIKE pg_catalog.like_escape('<n:text:%>' || '<n:text:a/%>' || '<n:text:%>', '/') AND note LIKE pg_catalog.like_escape('x', '!')

SELECT 1 FROM person WHERE name ~ '^a' AND name !~* $1 AND name SIMILAR TO 'a%' AND name NOT SIMILAR TO 'b#%' ESCAPE '#'
-- SELECT 1 FROM person WHERE name ~ '<n:text:^a>' AND name !~* $1 AND name SIMILAR TO '<n:text:a%>' AND name NOT SIMILAR TO '<n:text:b#%>' ESCAPE '#'

SELECT 1 FROM person WHERE upper(name::text) LIKE upper('%ada%')
-- SELECT 1 FROM person WHERE upper(name::enc_text) LIKE upper('<n:text:%ada%>')

SELECT 1 FROM person WHERE age::bigint = 3000000000 AND CAST(age AS varchar) = '7'
-- SELECT 1 FROM person WHERE age::enc_int8 = '<a:bigint:3000000000>' AND age::enc_text = '<a:text:7>'

UPDATE person SET name = (CASE WHEN flag THEN 'adamant' ELSE NULL END)::varchar(3), tags = NULL::text[]
-- UPDATE person SET name = CASE WHEN flag = '<f:boolean:t>' THEN '<n:text:ada>' ELSE NULL END::enc_text, tags = NULL::enc_text[]

UPDATE person SET name = ('ada' || $1)::text, age = coalesce(7, NULL)::int
-- UPDATE person SET name = ('<n:text:ada>' || $1)::enc_text, age = COALESCE('<a:integer:7>', NULL)::enc_int4

SELECT 1 FROM person WHERE flag AND NOT flag OR flag IS NOT TRUE
-- SELECT 1 FROM person WHERE (flag = '<f:boolean:t>' AND NOT flag = '<f:boolean:t>') OR flag = '<f:boolean:t>' IS NOT TRUE

SELECT count(*) FILTER (WHERE p.flag) FROM person p JOIN pet ON p.flag WHERE p.flag
-- SELECT count(*) FILTER (WHERE p.flag = '<f:boolean:t>') FROM person p JOIN pet ON p.flag = '<f:boolean:t>' WHERE p.flag = '<f:boolean:t>'

INSERT INTO person (id, name) SELECT * FROM unnest(ARRAY[1, 2]::int[], ARRAY['ada', NULL]::varchar(9)[])
-- INSERT INTO person (id, name) SELECT * FROM unnest(ARRAY[1, 2]::int[], ARRAY['<n:text:ada>', NULL]::enc_text[])

DELETE FROM person WHERE born = date '2024-01-02'
-- DELETE FROM person WHERE born = '<b:date:2024-01-02>'

DELETE FROM person WHERE paid > 1.50
-- DELETE FROM person WHERE paid > '<p:numeric:1.50>'

UPDATE person SET age = age + 1, note = 'x' WHERE id = 3
-- UPDATE person SET age = age + '<a:integer:1>', note = 'x' WHERE id = 3

UPDATE person SET (name, id) = ('ada', 4)
-- UPDATE person SET (name, id) = ('<n:text:ada>', 4)

INSERT INTO person (id, name) VALUES (1, 'ada'), (2, NULL), (3, DEFAULT)
-- INSERT INTO person (id, name) VALUES (1, '<n:text:ada>'), (2, NULL), (3, DEFAULT)

INSERT INTO person (name, id) SELECT 'ada', 5
-- INSERT INTO person (name, id) SELECT '<n:text:ada>', 5

SELECT coalesce(name, 'ada') FROM person
-- SELECT COALESCE(name, '<n:text:ada>') FROM person

SELECT name FROM person UNION SELECT 'ada'
-- SELECT name FROM person UNION SELECT '<n:text:ada>'

SELECT 1 FROM person WHERE tags @> '{a,b}' AND 'c' = ANY(tags)
-- SELECT 1 FROM person WHERE tags @> '{"<t:text:a>","<t:text:b>"}' AND '<t:text:c>' = ANY(tags)

SELECT 1 FROM person WHERE ('ada' IS NULL OR name = 'ada') AND ('ada'::text IS NOT NULL)
-- SELECT 1 FROM person WHERE (false OR name = '<n:text:ada>') AND true

SELECT 1 FROM person WHERE ($1::text[] IS NULL OR name = $2) AND ($3::int IS NULL OR age = $3) AND ($4::date IS NULL OR day = $4)
-- SELECT 1 FROM person WHERE ($1 IS NULL OR name = $2) AND ($3 IS NULL OR age = $3) AND ($4::date IS NULL OR day = $4)

PREPARE p (text, text) AS SELECT 1 FROM person WHERE $1 IS NULL OR name = $2; EXECUTE p('ada', 'bob'); EXECUTE p(NULL, NULL)
-- PREPARE p(bool, enc_text) AS SELECT 1 FROM person WHERE $1 IS NULL OR name = $2; EXECUTE p(true, '<n:text:bob>'); EXECUTE p(NULL, NULL)

INSERT INTO person (id, note, name) VALUES (nextval('s'), 'ada', 'ada')
-- INSERT INTO person (id, note, name) VALUES (nextval('s'), 'ada', '<n:text:ada>')

INSERT INTO log SELECT 'ada' FROM person WHERE name = 'ada'
-- INSERT INTO log SELECT 'ada' FROM person WHERE name = '<n:text:ada>'

SELECT 1 AS a FROM person WHERE age = 1 AND 1 = 1 AND id = 5 ORDER BY 2 LIMIT 1
-- SELECT 1 AS a FROM person WHERE age = '<a:integer:1>' AND 1 = 1 AND id = 5 ORDER BY 2 LIMIT 1

SELECT note = 'ada', lower('ada') = lower(note), coalesce(note, 'ada') FROM person WHERE name = 'ada'
-- SELECT note = 'ada', lower('ada') = lower(note), COALESCE(note, 'ada') FROM person WHERE name = '<n:text:ada>'

SELECT 1 FROM person WHERE name = 'ada'::enc_text AND coalesce(name, 'bob'::enc_text) IN ('eve'::enc_text, nick) AND 'x'::enc_text = 'y'
-- SELECT 1 FROM person WHERE name = '<n:text:ada>' AND COALESCE(name, '<n:text:bob>') IN ('<n:text:eve>', nick) AND '<d:text:x>'::enc_text = '<d:text:y>'

ALTER TABLE person ALTER name TYPE enc_text USING coalesce(name, 'ada'); INSERT INTO person (name) VALUES ('bob')
-- ALTER TABLE person ALTER COLUMN name TYPE enc_text USING COALESCE(name, '<n:text:ada>'); INSERT INTO person (name) VALUES ('<n:text:bob>')

SELECT * FROM person WHERE ('ada' = '' OR name = 'ada') AND ('x' <> 'x'::text OR 'ada' NOT IN ('', 'all'))
-- SELECT * FROM person WHERE (1 = 0 OR name = '<n:text:ada>') AND (1 = 0 OR 1 = 1)

SELECT id FROM person WHERE 5 = 7 OR 0 = 0 OR age = 5
-- SELECT id FROM person WHERE 1 = 0 OR 1 = 1 OR age = '<a:integer:5>'

UPDATE person SET note = 'b', draft = ('ada' = '') WHERE name = 'ada'
-- UPDATE person SET note = 'b', draft = 1 = 0 WHERE name = '<n:text:ada>'

SELECT sum(CASE WHEN age = 1 THEN 1 ELSE 0 END), count(*) FROM person JOIN LATERAL (SELECT 1) q ON true WHERE flag = true AND EXISTS (SELECT 1 FROM pet)
-- SELECT sum(CASE WHEN age = '<a:integer:1>' THEN 1 ELSE 0 END), count(*) FROM person JOIN LATERAL (SELECT 1) q ON true WHERE flag = '<f:boolean:t>' AND EXISTS (SELECT 1 FROM pet)

SELECT id, true AS shown FROM person WHERE flag
-- SELECT id, true AS shown FROM person WHERE flag = '<f:boolean:t>'

SELECT left(name, 20), right(note, 3) FROM person WHERE left(name, -3) = 'ada' AND name = right('adamant', 3) GROUP BY left(name, 20)
-- SELECT "left"(name, 20), "right"(note, 3) FROM person WHERE "left"(name, -3) = '<n:text:ada>' AND name = "right"('<n:text:adamant>', 3) GROUP BY "left"(name, 20)

DELETE FROM person RETURNING left(name, $1::int), repeat(name, 2), lpad(name, 5), rpad(name, $2, '0')
-- DELETE FROM person RETURNING left(name, $1::int), repeat(name, 2), lpad(name, 5), rpad(name, $2, '0')

SELECT trim(name), ltrim(name, '+'), trim(trailing 'x' from name), rtrim(note, 'x') FROM person WHERE trim(both 'y' from name) = 'ada'
-- SELECT TRIM (BOTH  FROM name), ltrim(name, '<n:text:+>'), TRIM (TRAILING '<n:text:x>' FROM name), rtrim(note, 'x') FROM person WHERE TRIM (BOTH '<n:text:y>' FROM name) = '<n:text:ada>'

SELECT 1 FROM person WHERE position('@' IN name) > 1 AND strpos(name, 'a' || 'b') = 0 AND strpos(note, 'x') = 3 AND (starts_with(name, 'a') OR NOT starts_with(name, $1))
-- SELECT 1 FROM person WHERE POSITION('<n:text:@>' IN name) > '<n:integer:1>' AND strpos(name, '<n:text:a>' || '<n:text:b>') = '<n:integer:0>' AND strpos(note, 'x') = 3 AND (starts_with(name, '<n:text:a>') OR NOT starts_with(name, $1))

UPDATE person SET name = replace(replace(name, '-', ''), ' ', $1), note = replace(note, '-', '') WHERE split_part(name, '@', -1) = 'b' AND initcap(reverse(name)) <> upper('c')
-- UPDATE person SET name = replace(replace(name, '<n:text:->', '<n:text:>'), '<n:text: >', $1), note = replace(note, '-', '') WHERE split_part(name, '<n:text:@>', -1) = '<n:text:b>' AND initcap(reverse(name)) <> upper('<n:text:c>')

UPDATE person SET name = replace('a-b', '-', nick) || split_part(name, nick, 2) FROM pet
-- UPDATE person SET name = replace('<n:text:a-b>', '<n:text:->', nick) || split_part(name, nick, 2) FROM pet

SELECT sum(paid * (1 - paid)), sum(paid * (1 - paid) * (1 + paid)), avg(paid / 7.0) FROM person
-- SELECT sum(paid * ('<p:numeric:1>' - paid)), sum(paid * ('<p:numeric:1>' - paid) * ('<p:numeric:1>' + paid)), avg(paid / '<p:numeric:7.0>') FROM person

SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age), percentile_disc($1::float8) WITHIN GROUP (ORDER BY name), percentile_cont('{0.25, .75}'::float8[]) WITHIN GROUP (ORDER BY paid) FROM person HAVING percentile_cont(0.5) WITHIN GROUP (ORDER BY age) > 7 AND percentile_disc(1) WITHIN GROUP (ORDER BY name) <> 'x'
-- SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age), percentile_disc($1::float8) WITHIN GROUP (ORDER BY name), percentile_cont('{0.25, .75}'::float8[]) WITHIN GROUP (ORDER BY paid) FROM person HAVING percentile_cont(0.5) WITHIN GROUP (ORDER BY age) > '<a:double precision:7>' AND percentile_disc(1) WITHIN GROUP (ORDER BY name) <> '<n:text:x>'

SELECT to_char(paid, 'FM999G990D00'), to_char(age, '000') FROM person WHERE to_char(paid, '9.9') = ' 1.5'
-- SELECT to_char(paid, 'FM999G990D00'), to_char(age, '000') FROM person WHERE to_char(paid, '9.9') = '<p:text: 1.5>'

SELECT id FROM person GROUP BY id HAVING corr(paid, age) > 0.5 AND regr_count(paid, age) > 3 AND regr_sxy(age, paid) < 7
-- SELECT id FROM person GROUP BY id HAVING corr(paid, age) > '<p:double precision:0.5>' AND regr_count(paid, age) > 3 AND regr_sxy(age, paid) < '<a:double precision:7>'

SELECT concat_ws(' ', name, name), concat(name, ' ', $1), string_agg(name, ', ' ORDER BY id) FROM person GROUP BY name
-- SELECT encdb.concat_ws('<n:text: >', name, name), encdb.concat(name, '<n:text: >', $1), string_agg(name, '<n:text:, >' ORDER BY id) FROM person GROUP BY name

SELECT id FROM person GROUP BY id HAVING stddev(paid) > 1.5 AND variance(age) > 2 AND every(flag) = true
-- SELECT id FROM person GROUP BY id HAVING stddev(paid) > '<p:numeric:1.5>' AND variance(age) > '<a:numeric:2>' AND every(flag) = '<f:boolean:t>'

SELECT 100.00 * sum(CASE WHEN name LIKE 'PROMO%' THEN paid * (1 - paid) ELSE 0 END) / sum(paid) FROM person
-- SELECT '<p:numeric:100.00>' * sum(CASE WHEN name LIKE '<n:text:PROMO%>' THEN paid * ('<p:numeric:1>' - paid) ELSE '<p:numeric:0>' END) / sum(paid) FROM person

SELECT extract(YEAR FROM born) AS y, count(*) FROM person WHERE extract(month FROM born) = 7 GROUP BY extract(YEAR FROM born)
-- SELECT extract ('year' FROM born) AS y, count(*) FROM person WHERE extract ('month' FROM born) = '<b:numeric:7>' GROUP BY extract ('year' FROM born)

SELECT 1 FROM person WHERE born >= date '1994-01-31' AND born < date '1994-01-31' + interval '1' month AND born <= date '1998-12-01' - interval '90' day
-- SELECT 1 FROM person WHERE born >= '<b:date:1994-01-31>' AND born < '<b:date:1994-02-28>' AND born <= '<b:date:1998-09-02>'

SELECT 1 FROM person WHERE born < '2024-01-31'::date + '1 month 1 day 06:00'::interval OR born < interval '1 month 6 hours' + '2024-01-31'::date
-- SELECT 1 FROM person WHERE born < '<b:date:2024-01-31>' + '1 month 1 day 06:00'::interval OR born < '<b:timestamp without time zone:2024-02-29 06:00:00>'

SELECT 1 FROM person WHERE born IN (date '2024-01-01' + 7, date '2024-01-01' - 7 * 2) AND born BETWEEN '2024-01-01' AND date '2024-01-01' + interval '1 year'
-- SELECT 1 FROM person WHERE born IN ('<b:date:2024-01-08>', '<b:date:2023-12-18>') AND born BETWEEN '<b:date:2024-01-01>' AND '<b:date:2025-01-01>'

SELECT 1 FROM person WHERE born > '2024-01-01 10:00'::timestamp AND born > '2024-01-01'::timestamp AND born + interval '1 day' > '2024-01-01 10:00'
-- SELECT 1 FROM person WHERE born > '<b:timestamp without time zone:2024-01-01 10:00:00>' AND born > '<b:date:2024-01-01>' AND born + '1 day'::interval > '<b:timestamp without time zone:2024-01-01 10:00:00>'

SELECT 1 FROM person WHERE paid BETWEEN .06 - 0.01 AND .06 + 0.01 AND paid = 7 / 2 AND paid < -(1.5 * 2) AND paid > 3000000000 * 2
-- SELECT 1 FROM person WHERE paid BETWEEN '<p:numeric:0.05>' AND '<p:numeric:0.07>' AND paid = '<p:numeric:3>' AND paid < '<p:numeric:-3.0>' AND paid > '<p:numeric:6000000000>'

SELECT 1 FROM person WHERE age < 1 + 10 AND age > 1.5 AND age IN (2.5, 3.0, 4) AND age * 0.5 > 7.5 AND 0.2 * avg(age) < age
-- SELECT 1 FROM person WHERE age < '<a:integer:11>' AND age > '<a:numeric:1.5>' AND age IN ('<a:numeric:2.5>', '<a:integer:3>', '<a:integer:4>') AND age * '<a:numeric:0.5>' > '<a:numeric:7.5>' AND '<a:numeric:0.2>' * avg(age) < age

UPDATE person SET age = age * 2 + 3 * 4, paid = paid + 7 % 4, born = born + 7 * 2
-- UPDATE person SET age = age * '<a:integer:2>' + '<a:integer:12>', paid = paid + '<p:numeric:3>', born = born + '<b:integer:14>'

UPDATE person SET born = born - 7 * 2, paid = coalesce(paid, 7 / 2), age = 5 / 2 WHERE born - date '2024-01-01' > 5
-- UPDATE person SET born = born - '<b:integer:14>', paid = COALESCE(paid, '<p:numeric:3>'), age = '<a:integer:2>' WHERE born - '<b:date:2024-01-01>' > '<b:integer:5>'

UPDATE person SET born = date '2024-01-31' + interval '1 month' WHERE born + make_interval(days => 3) < born + 2 * interval '1 day'
-- UPDATE person SET born = '<b:date:2024-01-31>' + '1 month'::interval WHERE born + make_interval(days := 3) < born + 2 * '1 day'::interval

SELECT upper(name || 'x'), concat(name || 'ada', note) FROM person
-- SELECT upper(name || '<n:text:x>'), concat(name || '<n:text:ada>', note) FROM person

SELECT coalesce(age, 7 / 2.0), (7 / 2)::enc_decimal, coalesce(paid, $1 - 7 / 2) FROM person
-- SELECT COALESCE(age, '<a:integer:7>' / '<a:numeric:2.0>'), '<d:numeric:3>'::enc_decimal, COALESCE(paid, $1 - '<p:numeric:3>') FROM person

SELECT date_trunc('month', born), round(paid * 1.5, 2) FROM person WHERE ceil(age) > 7 AND trunc(paid, $1) = 2 AND date_trunc('day', born) < '2026-01-01'
-- SELECT date_trunc('month', born), round(paid * '<p:numeric:1.5>', 2) FROM person WHERE ceil(age) > '<a:double precision:7>' AND trunc(paid, $1) = '<p:numeric:2>' AND date_trunc('day', born) < '<b:timestamp with time zone:2026-01-01 00:00:00+00>'

SELECT to_char(born, 'YYYY-MM-DD"T"') FROM person WHERE to_char(born, 'YYYY') = '2024' GROUP BY to_char(born, 'YYYY-MM-DD"T"')
-- SELECT to_char(born, 'YYYY-MM-DD"T"') FROM person WHERE to_char(born, 'YYYY') = '<b:text:2024>' GROUP BY to_char(born, 'YYYY-MM-DD"T"')

SELECT date_part('year', born) FROM person WHERE date_part('month', born) = 7
-- SELECT date_part('year', born) FROM person WHERE date_part('month', born) = '<b:double precision:7>'

SELECT born AT TIME ZONE 'UTC', now() AT TIME ZONE 'Asia/Tokyo' FROM person WHERE date_trunc('day', born AT TIME ZONE 'Europe/Berlin') = '2026-07-02'
-- SELECT encdb.timezone('UTC', born), now() AT TIME ZONE 'Asia/Tokyo' FROM person WHERE date_trunc('day', encdb.timezone('Europe/Berlin', born)) = '<b:timestamp without time zone:2026-07-02 00:00:00>'

SELECT encdb.timezone('UTC', born) FROM person WHERE timezone('UTC', born) > '2026-07-02'
-- SELECT encdb.timezone('UTC', born) FROM person WHERE encdb.timezone('UTC', born) > '<b:timestamp without time zone:2026-07-02 00:00:00>'

SELECT sum(age) OVER (ORDER BY age RANGE 5 PRECEDING) FROM person
-- SELECT sum(age) OVER (ORDER BY age RANGE '<a:integer:5>' PRECEDING) FROM person

SELECT count(*) OVER (PARTITION BY note ORDER BY paid DESC RANGE BETWEEN 1.5 PRECEDING AND 2 FOLLOWING) FROM person WINDOW w AS (ORDER BY age RANGE 7 PRECEDING)
-- SELECT count(*) OVER (PARTITION BY note ORDER BY paid DESC RANGE BETWEEN '<p:numeric:1.5>' PRECEDING AND '<p:numeric:2>' FOLLOWING) FROM person WINDOW w AS (ORDER BY age RANGE '<a:integer:7>' PRECEDING)

SELECT count(*) OVER (ORDER BY born RANGE '7 days' PRECEDING), count(*) OVER (ORDER BY age ROWS 5 PRECEDING), count(*) OVER (ORDER BY name GROUPS 2 PRECEDING) FROM person WHERE name = 'x'
-- SELECT count(*) OVER (ORDER BY born RANGE '7 days' PRECEDING), count(*) OVER (ORDER BY age ROWS 5 PRECEDING), count(*) OVER (ORDER BY name GROUPS 2 PRECEDING) FROM person WHERE name = '<n:text:x>'

SELECT 1 FROM shift WHERE lasts > '1 day' AND lasts < interval '90' minute AND lasts = 'PT8H'::interval AND lasts <> timestamp '2024-01-02' - timestamp '2024-01-01'
-- SELECT 1 FROM shift WHERE lasts > '<l:interval:1 day>' AND lasts < '<l:interval:01:30:00>' AND lasts = '<l:interval:08:00:00>' AND lasts <> '<l:interval:1 day>'

SELECT ends - starts, age(ends, '2024-01-01 00:00Z'), lasts * 2, 0.5 * lasts, lasts / 3, -lasts FROM shift WHERE ends - starts > interval '8 hours' AND ends - '2024-01-01 00:00Z' < '1 day'
-- SELECT ends - starts, encdb.age(ends, '<e:timestamp with time zone:2024-01-01 00:00:00+00>'), lasts * '<l:double precision:2>', '<l:double precision:0.5>' * lasts, lasts / '<l:double precision:3>', - lasts FROM shift WHERE ends - starts > '<e:interval:08:00:00>' AND ends - '<e:timestamp with time zone:2024-01-01 00:00:00+00>' < '<e:interval:1 day>'

SELECT 1 FROM shift WHERE starts + lasts + interval '1 hour' < '2024-01-01 00:00Z' AND lasts + '2024-01-01'::date > '2024-01-02' AND starts + '1 day'::enc_interval < ends
-- SELECT 1 FROM shift WHERE starts + lasts + '1 hour'::interval < '<s:timestamp with time zone:2024-01-01 00:00:00+00>' AND lasts + '<l:date:2024-01-01>' > '<l:timestamp without time zone:2024-01-02 00:00:00>' AND starts + '<s:interval:1 day>' < ends

SELECT avg(ends - starts) FROM shift WHERE age(starts, ends) = '1 mon' OR extract(epoch FROM lasts) > 3600 GROUP BY lasts HAVING sum(lasts) > '1 day'
-- SELECT avg(ends - starts) FROM shift WHERE encdb.age(starts, ends) = '<s:interval:1 mon>' OR extract ('epoch' FROM lasts) > '<l:numeric:3600>' GROUP BY lasts HAVING sum(lasts) > '<l:interval:1 day>'

INSERT INTO shift (starts, ends, lasts) VALUES ('2024-01-01 00:00Z', NULL, '-1 day +02:00') RETURNING (ends - starts)::interval, lasts::text
-- INSERT INTO shift (starts, ends, lasts) VALUES ('<s:timestamp with time zone:2024-01-01 00:00:00+00>', NULL, '<l:interval:-1 days +02:00:00>') RETURNING (ends - starts)::enc_interval, lasts::enc_text

SELECT 1 FROM shift, u WHERE ends - u.kept < '2024-01-01 00:00Z'
-- SELECT 1 FROM shift, u WHERE ends - u.kept < '<e:timestamp with time zone:2024-01-01 00:00:00+00>'
