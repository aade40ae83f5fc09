-- What the other files begin with: the extension, and the owner's keys.
CREATE EXTENSION encdb;
\getenv srcdir PG_ABS_SRCDIR
\set owner 7
\set operations all
\set file :srcdir '/sql/open.psql'
\i :file
SELECT encdb.keyname_generate('u', 'd'), encdb.keyname_generate('u', 'd', 's', 't', 'c');
SELECT encdb.default_keyname() = format('|%s|%s|', current_user, current_database()) AS ours;
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL AS made;
SELECT encdb.dek_generate('det', '{"flags": "DET", "group": 3}') IS NOT NULL AS made;
SELECT encdb.dek_generate('det') IS NOT NULL AS made_again;
SELECT keyname = encdb.default_keyname() AS is_default, deterministic FROM encdb.data_key ORDER BY 1;
SELECT opcintype::regtype, string_agg(amname, ' ' ORDER BY amname) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
 WHERE opcintype::regtype::text ~ '^(enc_|det_type)' AND opcdefault GROUP BY 1 ORDER BY opcintype::regtype::text;
-- A user's names are its own; the tables are written through functions, and read by everybody
CREATE ROLE regress_encdb_user;
SET ROLE regress_encdb_user;
SELECT encdb.dek_generate('|somebody else|x|');
SELECT encdb.dek_generate('|regress_encdb_user|x|') IS NOT NULL AS made;
SELECT encdb.dek_insert('|regress_encdb_user|y|', '\x00');
INSERT INTO encdb.data_key (keyname, key_id, deterministic, wrapped) VALUES ('z', 1, false, '');
SELECT count(*) FROM encdb.data_key;
SELECT encdb.grant_insert('\x00');
SELECT encdb.revocation_insert('\x00');
-- What owners signed is kept, of lists the latest; no operator of the user's own runs with the functions' rights
\set grant `$ENCDB_OWNER grant 7 arithmetic`
\set first `$ENCDB_OWNER revoke 7 1`
\set second `$ENCDB_OWNER revoke 7 2`
SELECT length(encdb.grant_insert(:'grant'));
RESET ROLE;
CREATE SCHEMA evil AUTHORIZATION regress_encdb_user;
SET ROLE regress_encdb_user;
CREATE FUNCTION evil.less(bigint, bigint) RETURNS boolean LANGUAGE plpgsql
  AS $$ BEGIN RAISE EXCEPTION 'evil runs as %', current_user; END $$;
CREATE OPERATOR evil.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.less);
SET search_path = evil, pg_catalog;
SELECT encdb.revocation_insert(:'first');
SELECT encdb.revocation_insert(:'second');
SELECT encdb.revocation_insert(:'first');
RESET search_path;
SELECT sequence FROM encdb.revocation;
RESET ROLE;
\set VERBOSITY terse
DELETE FROM encdb.data_key WHERE keyname LIKE '|regress_encdb_user|%';
DELETE FROM encdb.revocation;
DELETE FROM encdb.grant_;
DROP SCHEMA evil CASCADE;
DROP ROLE regress_encdb_user;
