#!/usr/bin/env python3
"""Functions of encrypted text: letters by locale, what is plain beside cells, and how long arguments and results are.

That results are those of the plain type is asked by test_differential.py and test_random.py.
"""

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

# Words around each character up to U+2FFF, and words of which locales differ.
LETTERS = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE letters AS SELECT w, encdb.enc_text_encrypt(w) AS e FROM (
    SELECT string_agg(chr(g) || 'aB' || chr(g) || 'Cd ', '' ORDER BY g) AS w FROM generate_series(1, 12287) g GROUP BY g / 16
    UNION ALL SELECT unnest('{"","hello WORLD","o''neil-mc 3D x2y",strasse,İIıi titi,σΣ ς,äb ÄB}'::text[])) v;
CREATE TABLE two (a enc_text COLLATE "C", b enc_text COLLATE "POSIX");
INSERT INTO two SELECT e, e FROM letters LIMIT 1;
"""
SETUP = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE t AS SELECT encdb.enc_text_encrypt('a-b') AS c, encdb.enc_text_encrypt('-') AS part;
"""
# What asks for the rules of a collation.
OF_COLLATION = ["initcap({})", "strpos({0}, {0})", "replace({0}, {0}, {0})", "split_part({}, 'a', 1)", "starts_with({0}, {0})"]
UNTYPED = ["btrim(c, :'cell')", "trim(leading :'cell' from c)", "rtrim(c, :'cell')", "replace(c, :'cell', '+')", "replace(c, '+', :'cell')",
           "split_part(c, :'cell', 1)", "upper(replace(c COLLATE \"C\", :'cell', ''))"]
PLAIN = "an encrypted value is given to a function of encrypted text as a plain text"
LONG = "the plain texts given to a function of encrypted text are too long"


class TextFunctions(Confidential):
    def servers(self, setup):
        for form in FORMS:
            server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "")
            self.as_owner(server, setup)
            with self.subTest(form=form):
                yield server

    def test_letters_are_those_of_the_locale(self):
        for server in self.servers(LETTERS):
            libc = "SELECT quote_ident(collname) FROM pg_collation WHERE collprovider = 'c' AND collencoding IN (-1, 6)"
            collations = server.psql(libc).splitlines()
            self.assertIn('"C"', collations)
            for collation, name in itertools.product(collations, ["initcap", "lower", "upper"]):
                with self.subTest(collation=collation, function=name):
                    differs = f"encdb.decrypt({name}(e COLLATE {collation})) <> {name}(w COLLATE {collation})"
                    counted = self.as_owner(server, f"SELECT count(*), count(*) FILTER (WHERE {differs}) FROM letters")
                    self.assertEqual(counted, f"{12288 // 16 + 7}|0")

    def test_collations_that_cannot_be_followed_are_refused(self):
        for server in self.servers(LETTERS):
            icu = server.psql("SELECT quote_ident(max(collname)) FROM pg_collation WHERE collprovider = 'i'")
            for call in OF_COLLATION if icu else []:
                refused = f"SELECT {call.format(f'e COLLATE {icu}')} FROM letters"
                self.as_owner(server, refused, error="compared under collations of libc only")
            for call in OF_COLLATION:
                refused = f"SELECT {call.format('a || b')} FROM two"
                self.as_owner(server, refused, error="could not determine which collation to use for encrypted text")

    def test_a_cell_is_not_taken_for_a_plain_text(self):
        """A literal or a parameter without a type would be one: its digits would be looked for."""
        for server in self.servers(SETUP):
            cell = "SELECT part AS cell FROM t \\gset\n"
            for call in UNTYPED:
                self.as_owner(server, f"{cell}SELECT {call} FROM t", error=PLAIN)
            typed = "SELECT encdb.decrypt(replace(c, :'cell'::enc_text, part || part)), encdb.decrypt(position(:'cell' IN c)) FROM t"
            self.assertEqual(self.as_owner(server, cell + typed), "a--b|2")
            # What only looks like a cell is a text.
            alike = r"SELECT encdb.decrypt(btrim(c, '\x0011bb')), encdb.decrypt(btrim(c, '\xa')) FROM t"
            self.assertEqual(self.as_owner(server, alike), "a-|-b")
            # What is looked for as LIKE looks for a pattern is never plain.
            for call in ["strpos(c, 'b')", "position('b' IN c)", "starts_with(c, 'a')"]:
                self.as_owner(server, f"SELECT {call} FROM t", error="a value of an encrypted type is a cell in hexadecimal")

    def test_plain_texts_have_a_longest(self):
        """Alone, compiled with others, and where they are computed."""
        for server in self.servers(SETUP):
            ask = "SELECT encdb.decrypt({}) FROM t"
            for times, call in [(230, "replace(c, '-', '{}')"), (110, "upper(replace(c COLLATE \"C\", '{0}', '{0}'))"),
                                (230, "replace(c, '-', repeat('{}', 1 + 0 * length(now()::text)))")]:
                self.as_owner(server, ask.format(call.format("x" * times)))
            for call in ["replace(c, '-', '{}')", "btrim(upper(c COLLATE \"C\"), '{}')", "split_part(c, '{}', 1)"]:
                self.as_owner(server, ask.format(call.format("x" * 300)), error=LONG)
                self.as_owner(server, ask.format(call.format("\u20ac" * 40)), error=LONG)
            longer = "replace(c, part, encdb.enc_text_encrypt(repeat('x', 50000)))"
            self.assertEqual(self.as_owner(server, f"SELECT encdb.decrypt(length({longer})) FROM t"), "50002")

    def test_results_have_a_longest(self):
        """Their memory is not asked for before. PostgreSQL's own bound is one gigabyte."""
        for server in self.servers(SETUP):
            ask = "SELECT encdb.decrypt(length(repeat(c, {}))) FROM t".format
            self.assertEqual(self.as_owner(server, ask(20_000)), "60000")
            self.as_owner(server, ask(30_000), error="the request is larger than the evaluator takes")
            self.as_owner(server, ask(2_000_000_000), error="the value is longer than 1 GB")
            rows = "SELECT length(repeat(c, 20000)) AS l FROM t, generate_series(1, 300) OFFSET 0"
            self.assertEqual(self.as_owner(server, f"SELECT count(*) FROM ({rows}) x WHERE encdb.decrypt(l) = 60000"), "300")


if __name__ == "__main__":
    main(__file__, TOOLS)
