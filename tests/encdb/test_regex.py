#!/usr/bin/env python3
"""Regular expressions on encrypted text: letters by locale, what is refused, and how long a pattern may take.

That results are those of the plain type is asked by tests/encdb-values, test_differential.py and test_random.py.
"""

import itertools
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

# Every character up to U+2FFF, with itself as a pattern; surrogates are above.
LETTERS = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE letters AS SELECT c, encdb.enc_text_encrypt(c) AS e, encdb.enc_text_encrypt('***=' || c) AS p, encdb.enc_text_encrypt('a' || c || 'b') AS w
    FROM generate_series(1, 12287) g, chr(g) c;
"""
CLASSES = ["[[:alpha:]]", "[[:alnum:]]", "[[:digit:]]", "[[:graph:]]", "[[:lower:]]", "[[:print:]]", "[[:punct:]]", "[[:space:]]", "[[:upper:]]", "\\w", "\\S",
           "[\u00c0-\u017f]"]
SETUP = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;
CREATE TABLE t AS SELECT encdb.enc_text_encrypt('a-b') AS c;
"""
MATCH = "SELECT c ~ encdb.enc_text_encrypt({}) FROM t".format


class Regex(Confidential):
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
            for collation, (sign, pattern) in itertools.product(collations, [*(("~", name) for name in CLASSES), ("~*", "[\u00e0-\u017f[:lower:]]")]):
                with self.subTest(collation=collation, pattern=pattern):
                    cell = f"SELECT encdb.enc_text_encrypt('{pattern}') AS cell \\gset\n"
                    differs = f"(e COLLATE {collation} {sign} :'cell') <> (c COLLATE {collation} {sign} '{pattern}')"
                    counted = self.as_owner(server, f"{cell}SELECT count(*), count(*) FILTER (WHERE {differs}) FROM letters")
                    self.assertEqual(counted, "12287|0")

    def test_each_character_is_one_as_a_pattern(self):
        for server in self.servers(LETTERS):
            for collation in ['"C"', '"C.utf8"']:
                differs = f"(lower(e COLLATE {collation}) ~* p) <> (lower(c COLLATE {collation}) ~* ('***=' || c))"
                counted = self.as_owner(server, f"SELECT count(*), count(*) FILTER (WHERE {differs}) FROM letters WHERE ascii(c) % 7 = 0 OR ascii(c) < 600")
                self.assertRegex(counted, r"^2\d\d\d\|0$")

    def test_words_of_other_letters_are_refused(self):
        """Those that the locale and Unicode take for letters alike are not."""
        for server in self.servers(LETTERS):
            cell = "SELECT encdb.enc_text_encrypt('\\ya\\y') AS cell \\gset\n"
            alike = "SELECT count(*), count(*) FILTER (WHERE (w COLLATE {0} ~ :'cell') <> ('a' || c || 'b' COLLATE {0} ~ '\\ya\\y')) FROM letters WHERE ascii(c) < {1}"
            self.assertEqual(self.as_owner(server, cell + alike.format('"C"', 20000)), "12287|0")
            self.assertEqual(self.as_owner(server, cell + alike.format('"C.utf8"', 0x2b0)), "687|0")
            refused = "SELECT count(*) FROM letters WHERE w COLLATE \"C.utf8\" ~ :'cell'"
            self.as_owner(server, cell + refused, error="have no word boundaries in a text with letters of the locale or of Unicode alone")

    def test_what_postgresql_has_alone_is_refused(self):
        for server in self.servers(SETUP):
            for pattern, what in {"(a)\\1": "back references", "a(?=-)": "look-around", "(?<!x)a": "look-around", "(?x)a -": "the embedded options b, e and x",
                                  "[[.hyphen.]]": "collating elements by name"}.items():
                self.as_owner(server, MATCH(f"'{pattern}'"), error=f"regular expressions of encrypted text have no {what}")
            self.as_owner(server, MATCH("'a('"), error=r"invalid regular expression: parentheses \(\) not balanced")
            icu = server.psql("SELECT quote_ident(max(collname)) FROM pg_collation WHERE collprovider = 'i'")
            if icu:
                self.as_owner(server, f"SELECT c COLLATE {icu} ~ c FROM t", error="compared under collations of libc only")

    def test_no_pattern_takes_long(self):
        """Neither to be compiled nor to be compared: nobody could stop it."""
        for server in self.servers(SETUP):
            for pattern, error in [("'((a{255}){255}){255}'", "regular expression is too complex"), ("repeat('(', 51) || repeat(')', 51)", "regular expression is too complex"),
                                   ("repeat('a', 300000)", "regular expression is too complex")]:
                self.as_owner(server, MATCH(pattern), error=error)
            long = "SELECT encdb.enc_text_encrypt(repeat('x', {})) ~ encdb.enc_text_encrypt('(xxxxxxxx){{1,255}}y') FROM generate_series(1, 3)".format
            begin = time.monotonic()
            self.assertEqual(self.as_owner(server, long(100_000)).split(), ["f"] * 3)
            self.assertLess(time.monotonic() - begin, 120)
            self.as_owner(server, long(8_000_000), error="the pattern takes too long to be compared with the value")

    def test_a_pattern_that_was_compiled_is_of_its_session(self):
        """Patterns that come one after another, and the same one in another collation."""
        for server in self.servers(SETUP):
            patterns = ["a", "b", "^b", "a", "[[:upper:]]", "A"]
            asked = ", ".join(f"c ~ encdb.enc_text_encrypt('{pattern}'), c ~* encdb.enc_text_encrypt('{pattern}')" for pattern in patterns)
            self.assertEqual(self.as_owner(server, f"SELECT {asked} FROM t"), "t|t|t|t|f|f|t|t|f|t|f|t")
            both = "SELECT u COLLATE \"C\" ~ w, u COLLATE \"C.utf8\" ~ w FROM encdb.enc_text_encrypt('\u00e4') u, encdb.enc_text_encrypt('\\w') w"
            self.assertEqual(self.as_owner(server, both), "f|t")


if __name__ == "__main__":
    main(__file__, TOOLS)
