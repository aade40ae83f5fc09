-- Without a grant the owner's session compares and hashes what was stored, and nothing else.
\getenv srcdir PG_ABS_SRCDIR
\set owner 7
\set operations all
\set file :srcdir '/sql/open.psql'
\i :file
CREATE TABLE secret AS SELECT g AS id, encdb.enc_int4_encrypt(g) AS x, encdb.enc_text_encrypt('t' || g) AS c,
    encdb.enc_timestamp_encrypt('2024-01-01') AS d FROM generate_series(1, 9) g;
CREATE TABLE derived AS SELECT x + x AS y FROM secret;
SELECT encdb.enc_int4_encrypt(5) AS cell, encdb.enc_text_encrypt('t#1') AS pattern \gset
\set operations none
\i :file
SELECT count(*) FROM secret a JOIN secret b ON a.x = b.x;
SELECT id FROM secret ORDER BY x DESC LIMIT 2;
SELECT max(x) IS NOT NULL AS greatest FROM secret;
-- The oracle that arithmetic is: one by x / x, two by doubling, and so on
SELECT x / x FROM secret;
SELECT x + x FROM secret;
SELECT sum(x) FROM secret;
SELECT x::enc_int8 FROM secret;
SELECT c || c FROM secret;
SELECT c LIKE c FROM secret;
SELECT c LIKE c ESCAPE '#' FROM secret;
SELECT starts_with(c, c) FROM secret;
SELECT btrim(c) FROM secret;
SELECT replace(c, c, c) FROM secret;
SELECT d + interval '1 day' FROM secret;
SELECT extract(year FROM d) FROM secret;
SELECT encdb.enc_int4_encrypt(1);
SELECT encdb.decrypt(x) FROM secret;
SELECT encdb.dek_generate('more');
SELECT count(*) FROM secret, derived WHERE x = y;
SELECT count(*) FROM derived a, derived b WHERE a.y < b.y;
SELECT encdb.enc_int4_hash(y) FROM derived;
SELECT count(*) FROM secret WHERE x < id;
SELECT count(*) FROM secret WHERE now() > d;
-- Each right by its name
\set operations arithmetic
\i :file
SELECT count(x + x) FROM secret;
SELECT x + x = x FROM secret;
SELECT string_agg(c, c) FROM secret;
SELECT encdb.concat(c, c) FROM secret;
SELECT variance(x) FROM secret;
\set operations compare-derived,arithmetic
\i :file
SELECT count(*) FROM secret a JOIN secret b ON a.x + a.x = b.x;
SELECT encdb.decrypt(x) FROM secret;
-- A pattern with another escape is a new one, and what it tells a comparison
\set operations text
\i :file
SELECT count(*) FROM secret WHERE c LIKE :'pattern';
SELECT count(*) FROM secret WHERE c LIKE :'pattern'::enc_text ESCAPE '\';
SELECT count(*) FROM secret WHERE c LIKE :'pattern'::enc_text ESCAPE '#';
SELECT count(*) FROM secret WHERE c ~ :'pattern' OR c !~* :'pattern';
SELECT count(*) FROM secret WHERE c SIMILAR TO :'pattern'::enc_text OR c NOT SIMILAR TO :'pattern'::enc_text;
SELECT count(*) FROM secret WHERE c SIMILAR TO :'pattern'::enc_text ESCAPE '#';
SELECT count(*) FROM secret WHERE c ~ left(c, 1);
SELECT string_agg(c, c) IS NOT NULL AS joined, count(encdb.concat(c, c)), count(encdb.concat_ws(c, c, c)) FROM secret;
SELECT stddev(x) FROM secret;
-- So is a text that is replaced, or cut off, by what it leaves, if it is plain or was made here
SELECT count(replace(c, :'pattern'::enc_text, c)), count(split_part(c, c, 1)), count(btrim(c)), count(left(c, 1)), count(position(c IN c)) FROM secret;
SELECT count(*) FROM secret WHERE starts_with(c, :'pattern');
SELECT count(replace(c, 't', '')) FROM secret;
SELECT count(btrim(c, 't')) FROM secret;
SELECT count(split_part(c, 't', 1)) FROM secret;
SELECT count(btrim(c, left(c, 1))) FROM secret;
SELECT count(*) FROM secret WHERE starts_with(c, left(c, 1));
\set operations text,compare-derived
\i :file
SELECT count(*) FROM secret WHERE c LIKE :'pattern'::enc_text ESCAPE '#';
SELECT count(*) FROM secret WHERE c SIMILAR TO :'pattern'::enc_text ESCAPE 't' OR c ~ left(c, 1);
SELECT count(*) FROM secret WHERE starts_with(replace(c, 't', 't#'), :'pattern') AND length(btrim(c, left(c, 1))) = length(split_part(c, 't', 2));
-- Values that the server has, by a right of their own; of what was computed it is not enough
\set operations compare-plain
\i :file
SELECT count(*) FROM secret WHERE x = id AND d < now() AND c <> CURRENT_USER;
SELECT count(*) FROM secret JOIN derived ON y > id;
SELECT x + x FROM secret;
SELECT count(*) FROM secret WHERE x = 5::integer;
SELECT count(*) FROM secret WHERE x = encdb.plain_operand(id);
\set operations compare-plain,compare-derived
\i :file
SELECT count(*) FROM secret JOIN derived ON y > id;
-- Another owner opens a session, and has nothing of this one's
\set owner 8
\set operations all
\i :file
SELECT count(*) FROM secret a JOIN secret b ON a.x = b.x;
SELECT encdb.decrypt(x) FROM secret;
-- Replayed messages
SELECT encdb_process_message(:'open');
SELECT encdb_process_message(:'hello') IS NOT NULL AS again;
SELECT encdb_process_message(:'open');
-- A cell that was altered: in its check byte alone, then in the nonce, the tag, the ciphertext
\set owner 7
\i :file
SELECT encdb.decrypt(:'cell'::enc_int4);
SELECT set_byte(:'cell'::bytea, 0, get_byte(:'cell'::bytea, 0) # 1)::text::enc_int4 IS NULL AS check_byte;
CREATE FUNCTION flip(cell bytea, place integer) RETURNS enc_int4 LANGUAGE SQL AS
  'SELECT set_byte(set_byte($1, 0, get_byte($1, 0) # 1), $2, get_byte($1, $2) # 1)::text::enc_int4';
\set VERBOSITY terse
SELECT encdb.decrypt(flip(:'cell', 8));
SELECT encdb.decrypt(flip(:'cell', 20));
SELECT encdb.decrypt(flip(:'cell', 38));
SELECT flip(:'cell', 38) = :'cell';
SELECT flip(:'cell', 38) < x FROM secret;
