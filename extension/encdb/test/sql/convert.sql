-- Conversions in place, both ways; deterministic keys; keys by name.
\getenv srcdir PG_ABS_SRCDIR
\set owner 7
\set operations all
\set file :srcdir '/sql/open.psql'
\i :file
CREATE TABLE plain AS SELECT g AS id, g % 5 AS k, 'row ' || g AS c, date '2024-01-01' + g AS d FROM generate_series(1, 100) g;
ALTER TABLE plain ADD PRIMARY KEY (id);
CREATE INDEX ON plain (k);
ALTER TABLE plain ALTER COLUMN k TYPE enc_int4 USING encdb.enc_int4_encrypt(k);
ALTER TABLE plain ALTER COLUMN c SET DATA TYPE enc_text USING encdb.enc_text_encrypt(c, 'det'),
                  ALTER COLUMN d TYPE enc_date USING encdb.enc_date_encrypt(d);
ALTER TABLE plain ALTER COLUMN id TYPE enc_int4 USING encdb.enc_int4_encrypt(id);
SELECT count(*) FROM plain WHERE k = (SELECT encdb.enc_int4_encrypt(3));
SELECT encdb.decrypt(c) FROM plain WHERE id = (SELECT encdb.enc_int4_encrypt(42));
ALTER TABLE plain ALTER COLUMN id TYPE integer USING encdb.decrypt(id), ALTER COLUMN k TYPE integer USING encdb.decrypt(k),
                  ALTER COLUMN c TYPE text USING encdb.decrypt(c), ALTER COLUMN d TYPE date USING encdb.decrypt(d);
SELECT count(*) FROM plain p JOIN generate_series(1, 100) g ON (p.id, p.k, p.c, p.d) = (g, g % 5, 'row ' || g, date '2024-01-01' + g);
-- Random cells differ, deterministic ones do not
SELECT encdb.enc_int4_send(encdb.enc_int4_encrypt(1)) = encdb.enc_int4_send(encdb.enc_int4_encrypt(1)) AS random,
       encdb.enc_int4_send(encdb.enc_int4_encrypt(1, 'det')) = encdb.enc_int4_send(encdb.enc_int4_encrypt(1, 'det')) AS deterministic;
SELECT encdb.enc_int4_encrypt(1) = encdb.enc_int4_encrypt(1, 'det') AS across_keys,
       encdb.enc_int4_hash(encdb.enc_int4_encrypt(1)) = encdb.enc_int4_hash(encdb.enc_int4_encrypt(1, 'det')) AS hashes;
SELECT encdb.enc_int4_encrypt(1, 'nobody has made it');
SELECT encdb.enc_int4_encrypt(NULL) IS NULL AS n, encdb.decrypt(NULL::enc_int4) IS NULL AS m;
-- The column that holds only equality
CREATE TABLE looked_up (d det_type UNIQUE, r rnd_type);
INSERT INTO looked_up SELECT encdb.enc_text_encrypt('k' || g, 'det'), encdb.enc_int4_encrypt(g) FROM generate_series(1, 50) g;
SELECT encdb.decrypt(d::enc_text), encdb.decrypt(r::enc_int4) FROM looked_up WHERE d = (SELECT encdb.enc_text_encrypt('k7', 'det')::det_type);
INSERT INTO looked_up SELECT encdb.enc_text_encrypt('k7', 'det') ON CONFLICT DO NOTHING;
SELECT count(*) FROM looked_up;
-- In place, both ways
ALTER TABLE looked_up ALTER COLUMN r TYPE enc_int4 USING r::enc_int4;
ALTER TABLE looked_up ALTER COLUMN r TYPE rnd_type, ALTER COLUMN d TYPE text USING encdb.decrypt(d::enc_text);
ALTER TABLE looked_up ALTER COLUMN d TYPE det_type USING encdb.enc_text_encrypt(d, 'det')::det_type;
SELECT count(*) FROM looked_up WHERE d = (SELECT encdb.enc_text_encrypt('k7', 'det')::det_type) AND r::enc_int4 = encdb.enc_int4_encrypt(7);
-- A cell is of one type, whatever the column; and det_type takes none that differs from its equals
SELECT r::enc_text FROM looked_up LIMIT 1;
SELECT d::enc_int4 FROM looked_up LIMIT 1;
SELECT encdb.enc_int4_encrypt(1)::det_type;
SELECT (encdb.enc_int4_encrypt(1, 'det') + encdb.enc_int4_encrypt(1, 'det'))::det_type;
SELECT encdb.enc_int4_send(encdb.enc_int4_encrypt(1))::text::det_type;
SELECT encdb.enc_int4_encrypt(1) = NULL::rnd_type;
-- Every type has the ways there and back
SELECT count(*) FROM pg_cast WHERE casttarget IN ('det_type'::regtype, 'rnd_type'::regtype) AND castcontext = 'a';
SELECT count(*) FROM pg_cast WHERE castsource IN ('det_type'::regtype, 'rnd_type'::regtype) AND castcontext = 'e';
-- A text of half a megabyte, twice
SELECT length(encdb.decrypt(x || x)), x = x AS itself FROM (SELECT encdb.enc_text_encrypt(repeat('x', 500000)) AS x) v;
