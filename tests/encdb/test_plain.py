#!/usr/bin/env python3
"""No plain type takes a cell for its digits: every encrypted type with every plain one, by SQL's casts and by PL/pgSQL's assignment.

What applications say is refused with PE028, or not found at all; what sends, dumps and copies cells goes on to work.
So are expressions that are in no query: those that objects keep, and those that utility statements execute.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, VERSION, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

NAMES = ["int4", "int8", "float4", "float8", "decimal", "bool", "date", "timestamp", "timestamptz", "uuid", "bytea", "interval", "text"]
TYPES = [*(f"enc_{name}" for name in NAMES), "rnd_type", "det_type"]
REFUSED = ["text", "varchar", "bpchar", "name", '"char"', "bytea", "json", "jsonb", "xml"]
VALUES = {"bool": "true", "interval": "'1 day'", "uuid": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "bytea": "'x'", "text": "'ada'",
          **dict.fromkeys(["date", "timestamp", "timestamptz"], "'2024-02-29'")}
MADE = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL, encdb.dek_generate('det', '{"flags": "DET"}') IS NOT NULL;
CREATE TABLE t AS SELECT """ + ", ".join(f"encdb.enc_{name}_encrypt({VALUES.get(name, '7')}) AS {name}_" for name in NAMES) + """,
    encdb.enc_int4_encrypt(7)::rnd_type AS rnd_type_, encdb.enc_text_encrypt('ada', 'det')::det_type AS det_type_;
CREATE TABLE empty AS SELECT * FROM t WITH NO DATA;
CREATE DOMAIN email AS enc_text;
CREATE TABLE noted (note text, short varchar(5));
CREATE VIEW v AS SELECT upper(text_::text) AS u FROM t;
"""
# Every plain type of PostgreSQL's that has values and an input of its own.
PLAIN = """
SELECT format_type(oid, NULL) FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typcategory NOT IN ('A', 'Z')
UNION SELECT '"char"' ORDER BY 1"""
ASSIGNED = "DO $$ DECLARE c {from_}; v {to}; BEGIN SELECT {column} INTO c FROM t; v := c; RAISE NOTICE 'taken'; END $$;"
# What applications and ORMs say.
STATEMENTS = [
    """SELECT 1 FROM empty WHERE UPPER("text_"::text) = UPPER('ada')""",
    """SELECT 1 FROM empty WHERE UPPER("text_"::text) LIKE UPPER('%a%')""",
    "PREPARE q AS SELECT 1 FROM empty WHERE upper(text_::text) = upper($1); EXECUTE q('ada')",
    "SELECT ' '::text || text_ FROM empty", "SELECT text_ || ' '::text FROM empty", "SELECT text_ || ' '::varchar FROM empty",
    "SELECT text_::email::text FROM empty", "SELECT text_::email::varchar(3) FROM empty", "SELECT CAST(text_ AS char(4)) FROM empty",
    "SELECT text_::information_schema.sql_identifier FROM empty",
    "SELECT (ARRAY[text_])::text[] FROM empty", "SELECT (ARRAY[text_])::text FROM empty", "SELECT (ARRAY[int4_])::varchar[] FROM empty",
    "SELECT (ARRAY[text_::email])::text[] FROM t", "SELECT (ARRAY[text_::email])::text FROM t",
    "SELECT to_json(text_) FROM t", "SELECT to_jsonb(text_) FROM t", "SELECT row_to_json(t) FROM t", "SELECT to_jsonb(t)->>'text_' FROM t",
    "SELECT json_build_object('a', int4_) FROM t", "SELECT jsonb_build_array(int4_) FROM t", "SELECT json_agg(text_) FROM t",
    "SELECT json_agg(ARRAY[text_]) FROM t", "SELECT jsonb_object_agg('a', text_) FROM t", "SELECT to_json(text_::email) FROM t",
    "SELECT string_agg(text_::text, ',') FROM empty", "SELECT quote_literal(text_) FROM empty", "SELECT quote_nullable(int4_) FROM empty",
    "INSERT INTO noted (note) SELECT text_ FROM empty", "INSERT INTO noted (short) SELECT text_ FROM empty", "UPDATE noted SET note = text_ FROM t",
    "ALTER TABLE empty ALTER COLUMN text_ TYPE text", "CREATE INDEX ON empty (upper(text_::text))",
    "SELECT * FROM v",
    "DO $$ DECLARE a text; BEGIN SELECT text_ INTO a FROM t; END $$",
    "DO $$ DECLARE a text; BEGIN a := (SELECT text_ FROM t); END $$",
    "CREATE FUNCTION f(c enc_text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN c; END'; SELECT f(text_) FROM t",
    "CREATE FUNCTION g(c enc_text) RETURNS text LANGUAGE sql AS 'SELECT c::text'; SELECT g(text_) FROM empty",
]
STATEMENTS += ["SELECT json_object('a': text_) FROM t", "SELECT json_array(text_) FROM t",
               "SELECT json_arrayagg(text_) FROM t"] * (int(VERSION) >= 16) + ["SELECT json_scalar(text_) FROM t"] * (int(VERSION) >= 17)
# These call output functions by themselves: found in a session in which the library is there.
WRITTEN = [
    "SELECT concat(1, text_) FROM empty", "SELECT concat_ws(',', 'a', int4_) FROM empty", "SELECT format('%s', text_) FROM empty",
    "SELECT format('%s', VARIADIC ARRAY[text_]) FROM empty", "SELECT array_to_string(ARRAY[text_], ',') FROM empty",
    "SELECT array_to_string(ARRAY[text_], ',', '-') FROM empty", "SELECT xmlelement(name a, text_) FROM empty",
    "SELECT xmlelement(name a, xmlattributes(text_ AS b)) FROM empty", "SELECT xmlforest(text_) FROM empty",
    "WITH w AS (SELECT concat(text_, 1) AS c FROM t) SELECT count(c) FROM w", "SELECT 1 WHERE EXISTS (SELECT FROM t WHERE concat(text_, 1) LIKE '%a%')",
    "SELECT concat(text_::email, 1) FROM t", "EXPLAIN SELECT concat(text_, 1) FROM t", "CREATE TABLE c AS SELECT concat(text_, 1) FROM t",
    "DO $$ DECLARE a text; BEGIN a := concat((SELECT text_ FROM t), 1); END $$",
    "SELECT to_json(text_) FROM empty", "SELECT to_jsonb(text_) FROM empty", "SELECT array_to_json(ARRAY[text_]) FROM empty",
    "SELECT array_to_json(ARRAY[text_], true) FROM empty", "SELECT json_build_array(text_) FROM empty", "SELECT json_build_object('a', text_) FROM empty",
    "SELECT jsonb_build_array(text_) FROM empty", "SELECT jsonb_build_object('a', text_) FROM empty",
]
WRITTEN += ["SELECT json_object('a': text_) FROM empty", "SELECT json_array(text_) FROM empty"] * (int(VERSION) >= 16)
# Ways to take a value for its text. The first three are of functions that are not immutable.
WAYS = ["concat({}, 1)", "to_json({})::text", "json_build_object('a', ARRAY[{}])::text", "{}::text", "(ARRAY[{}])::text", "({} || ' '::text)",
        "quote_literal({})", "xmlelement(name a, {})::text"]
CELL = "encdb.enc_text_encrypt('x')"
# Statements, and a value for one of the ways. Each would keep the expression, or execute it at once.
KEPT = {
    "CREATE TABLE made (text_ enc_text, CHECK ({} <> ''))": "text_", "ALTER TABLE empty ADD CHECK ({} <> '') NOT VALID": "text_",
    "ALTER TABLE clear ALTER note TYPE enc_text USING NULL::enc_text, ADD CHECK ({} <> '')": "note",
    "CREATE TABLE made (note text DEFAULT {})": CELL, "ALTER TABLE noted ALTER note SET DEFAULT {}": CELL,
    "ALTER TABLE noted ADD more text DEFAULT {}": CELL, "CREATE DOMAIN made AS text DEFAULT {}": CELL,
    "ALTER DOMAIN words SET DEFAULT {}": CELL, "CREATE DOMAIN made AS enc_text CHECK ({} <> '')": "VALUE",
    "ALTER DOMAIN email ADD CHECK ({} <> '') NOT VALID": "VALUE", "CREATE STATISTICS made ON int4_, ({}) FROM empty": "text_",
    "CREATE TRIGGER made BEFORE INSERT ON empty FOR EACH ROW WHEN ({} <> '') EXECUTE FUNCTION fired()": "NEW.text_",
    "CREATE OR REPLACE TRIGGER fires BEFORE DELETE ON empty FOR EACH ROW WHEN ({} <> '') EXECUTE FUNCTION fired()": "OLD.text_",
    "CREATE POLICY made ON empty USING ({} <> '')": "text_", "CREATE POLICY made ON empty WITH CHECK ({} <> '')": "text_",
    "ALTER POLICY own ON empty USING ({} <> '')": "text_", "ALTER POLICY own ON empty WITH CHECK ({} <> '')": "text_",
    "CREATE FUNCTION made(note text DEFAULT {}) RETURNS text RETURN note": CELL,
    "CREATE FUNCTION made(c enc_text) RETURNS text RETURN {}": "c",
    "CREATE OR REPLACE FUNCTION replaced(c enc_text) RETURNS text BEGIN ATOMIC SELECT {} FROM empty; END": "c",
    "ALTER TABLE empty ALTER text_ TYPE text USING {}": "text_",
    "ALTER TABLE empty ALTER int4_ TYPE int USING 1, ALTER text_ TYPE boolean USING {} LIKE '%a%'": "text_",
    "COPY empty FROM '/dev/null' WHERE {} LIKE '%a%'": "text_", "CALL called({})": CELL, "EXECUTE prepared({})": CELL,
    "EXPLAIN EXECUTE prepared({})": CELL, "CREATE TABLE made AS EXECUTE prepared({})": CELL,
    "EXPLAIN CREATE TABLE made AS EXECUTE prepared({})": CELL,
    "DO $$ DECLARE c enc_text; BEGIN SELECT text_ INTO c FROM t; CALL called({}); END $$": "c",
}
# Those that PostgreSQL has for immutable expressions only.
KEPT_IMMUTABLE = {
    "CREATE TABLE made (text_ enc_text, note text GENERATED ALWAYS AS ({}) STORED)": "text_", "CREATE INDEX made ON empty (({}))": "text_",
    "CREATE INDEX made ON empty (int4_) WHERE {} <> ''": "text_", "ALTER TABLE empty ADD EXCLUDE (int4_ WITH =) WHERE ({} <> '')": "text_",
    "CREATE TABLE made (text_ enc_text) PARTITION BY LIST (({}))": "text_",
    "CREATE TABLE made PARTITION OF parted DEFAULT PARTITION BY RANGE (({}))": "text_",
    "CREATE SCHEMA made CREATE TABLE made (text_ enc_text) PARTITION BY LIST (({}))": "text_",
} | ({"ALTER TABLE derived ALTER note SET EXPRESSION AS ({})": "text_"} if int(VERSION) >= 17 else {})
KEPT_MADE = MADE + """
CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER fires BEFORE DELETE ON empty FOR EACH ROW EXECUTE FUNCTION fired();
CREATE FUNCTION replaced(c enc_text) RETURNS text RETURN NULL;
CREATE PROCEDURE called(note text) LANGUAGE plpgsql AS 'BEGIN END';
CREATE POLICY own ON empty USING (true);
CREATE DOMAIN words AS text;
CREATE TABLE clear (note text);
CREATE TABLE derived (text_ enc_text, note text GENERATED ALWAYS AS ('') STORED);
CREATE TABLE parted (LIKE t) PARTITION BY LIST (int4_);
CREATE ROLE other;
"""
# The same of expressions that are not refused, and what PostgreSQL says of some.
ACCEPTED = {
    "CREATE TABLE accepted (text_ enc_text, CHECK (text_ <> lower(text_) AND concat(1) = '1'), note text DEFAULT concat('a', 1))": "00000",
    "CREATE POLICY accepted ON empty USING (lower(text_) = text_)": "00000", "ALTER POLICY own ON empty USING (text_ IS NOT NULL)": "00000",
    "CREATE STATISTICS accepted ON int4_, lower(text_) FROM empty": "00000", "CREATE INDEX ON empty (lower(text_)) WHERE text_ IS NOT NULL": "00000",
    "CREATE DOMAIN accepted_d AS enc_text CHECK (VALUE IS NOT NULL)": "00000", "CREATE VIEW accepted_v AS SELECT concat(text_, 1) FROM t": "00000",
    "COPY noted FROM '/dev/null' WHERE concat(note) = short || ' '": "00000", "COPY noted FROM '/dev/null' WHERE missing": "42703",
    "CALL called(concat('a', 1))": "00000", "EXECUTE prepared(concat('a', 1))": "00000", "EXECUTE prepared('a', concat(1))": "42601",
    "ALTER TABLE IF EXISTS missing ALTER a TYPE text USING concat(a)": "00000", "ALTER TABLE noted ALTER note TYPE text USING concat(short)": "00000",
    "SET ROLE other; ALTER TABLE empty ALTER text_ TYPE text USING concat(text_, 1)": "42501", "RESET ROLE": "00000",
    "BEGIN READ ONLY; ALTER TABLE empty ALTER text_ TYPE text USING concat(text_, 1)": "25006", "ROLLBACK": "00000",
}
# Made in a session without the library, which finds nothing.
MADE_BEFORE = """
CREATE TABLE before (text_ enc_text, CHECK (concat(text_, 1) <> ''));
CREATE POLICY before ON before USING (concat(text_, 1) <> '');
CREATE DOMAIN words_before AS text DEFAULT concat(encdb.enc_text_encrypt('x'), 1);
"""
# They stay, and nothing like them is made of them.
AFTERWARDS = {
    "ALTER POLICY before ON before RENAME TO after": "00000", "ALTER POLICY after ON before TO other": "00000",
    "ALTER DOMAIN words_before RENAME TO words_after": "00000", "ALTER TABLE before RENAME TO after": "00000",
    "ALTER TABLE after RENAME CONSTRAINT before_text__check TO after_check": "00000", "VACUUM FULL pg_index": "00000",
    "CREATE TABLE child () INHERITS (after)": "PE028", "CREATE TABLE child (LIKE after INCLUDING ALL)": "PE028",
    "ALTER POLICY after ON after USING (concat(text_, 2) <> '')": "PE028", "DROP OWNED BY other": "00000", "DROP TABLE after": "00000",
}
# Of documents alone: nothing distinguishes these from what is meant.
UNSEEN = ["SELECT t::text LIKE '(%' FROM t"]


class Plain(Confidential):
    maxDiff = None

    def asked(self, server, statements, prologue=""):
        """The SQLSTATE of each statement, in one session."""
        script = "\\set ON_ERROR_STOP 0\n" + "".join(f"{one.removesuffix(';')};\n\\echo state :SQLSTATE\n" for one in statements)
        done = server.run("psql", "-X", "-q", "-A", "-t", "-d", "postgres", "-U", "postgres", input=prologue + script, check=False)
        states = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("state ")]
        self.assertEqual(len(states), len(statements), done.stderr[-2000:])
        return dict(zip(statements, states))

    def made(self, made=MADE):
        server = self.server()
        self.as_owner(server, made)
        return server

    def test_every_type_to_every_plain_type(self):
        server = self.made()
        plain = server.psql(PLAIN).splitlines()
        self.assertLessEqual({"text", "name", "tsvector", "bit", "regclass"}, {*plain})
        casts, arrays, assigned = {}, {}, {}
        for ty in TYPES:
            column = f"{ty.removeprefix('enc_')}_"
            casts |= {f"SELECT {column}::{to} FROM empty": to for to in [*plain, *REFUSED]}
            arrays |= {f"SELECT (ARRAY[{column}])::{to} FROM empty": to for to in REFUSED}
            assigned |= {ASSIGNED.format(from_=ty, column=column, to=to): to for to in [*plain, *REFUSED]}
        for what, statements in [("cast", casts), ("array", arrays), ("assignment", assigned)]:
            states = self.asked(server, list(statements))
            taken = [one for one, state in states.items() if state == "00000"]
            self.assertEqual(taken, [], what)
            self.assertEqual([one for one, to in statements.items() if to in REFUSED and states[one] != "PE028"], [], what)

    def test_statements(self):
        server = self.made()
        for statements, prologue in [(STATEMENTS, ""), (WRITTEN, "LOAD 'encdb';\n")]:
            states = self.asked(server, statements, prologue)
            self.assertEqual([one for one, state in states.items() if state != "PE028"], [])
        self.assertEqual(set(self.asked(server, UNSEEN).values()), {"00000"})

    def test_kept_expressions(self):
        server = self.made(KEPT_MADE)
        loaded = "LOAD 'encdb'; PREPARE prepared(text) AS SELECT $1;\n"
        statements = [template.format(way.format(value)) for kept, ways in [(KEPT, WAYS), (KEPT_IMMUTABLE, WAYS[3:])]
                      for template, value in kept.items() for way in ways]
        states = self.asked(server, statements, loaded)
        self.assertEqual([(one, state) for one, state in states.items() if state != "PE028"], [])
        self.assertEqual(server.psql("SELECT relname FROM pg_class WHERE relname = 'made'"), "")
        self.assertEqual(self.asked(server, list(ACCEPTED), loaded), ACCEPTED)

    def test_expressions_that_were_kept_before(self):
        server = self.made(KEPT_MADE)
        server.psql(MADE_BEFORE)
        self.assertEqual(self.asked(server, list(AFTERWARDS), "LOAD 'encdb';\n"), AFTERWARDS)

    def test_an_upgrade_keeps_expressions(self):
        """pg_upgrade makes the objects of the old cluster in such a server."""
        server = self.made()
        server.stop()
        server.start("-b")
        upgraded = {"ALTER TABLE empty ADD CHECK (concat(text_, 1) <> '') NOT VALID": "00000", "CREATE POLICY p ON empty USING (concat(text_, 1) <> '')": "00000"}
        self.assertEqual(self.asked(server, list(upgraded), "LOAD 'encdb';\n"), upgraded)

    def test_cells_are_sent_dumped_and_copied(self):
        server = self.made()
        everything = "SELECT * FROM t"
        cells = server.psql(everything)
        self.assertTrue(all(cell.startswith("\\x") for cell in cells.split("|")))
        server.psql("CREATE TABLE copied (LIKE t); CREATE TABLE arrays (a enc_text[]); INSERT INTO arrays SELECT ARRAY[text_] FROM t;"
                    f"COPY (SELECT * FROM t) TO '{server.home}/cells'; COPY copied FROM '{server.home}/cells';")
        self.assertEqual(server.psql("SELECT * FROM copied"), cells)
        server.psql("CREATE DATABASE again")
        dump = server.run("pg_dump", "-U", "postgres", "--inserts", "-T", "arrays", "postgres").stdout
        server.psql(dump, db="again")
        self.assertEqual(server.psql(everything, db="again"), cells)
        self.assertEqual(server.psql("SELECT a[1] FROM arrays"), server.psql("SELECT text_ FROM t"))
        self.assertEqual(self.as_owner(server, "DO $$ DECLARE a enc_text; BEGIN SELECT text_ INTO a FROM t; EXECUTE 'UPDATE t SET text_ = $1' USING a; END $$;"
                                       "SELECT encdb.decrypt(text_), encdb.decrypt(int4_::enc_text) FROM t"), "ada|7")


if __name__ == "__main__":
    main(__file__, TOOLS)
