#!/usr/bin/env python3
"""to_char of encrypted numbers: PostgreSQL's number formats, with the signs of the locale C.

That results are PostgreSQL's for formats of all kinds is asked by tests/encdb-values too, of many thousand; here the statements go
through the extension, in both forms.
"""

import os
import random
import re
import secrets
import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, VERSION, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402
from proxied import Proxied  # noqa: E402

SEED = int(os.environ.get("PGSEAL_SEED") or secrets.randbits(32))
# Of each plain type: its encrypted one, and values.
TYPES = {
    "int4": ("enc_int4", ["0", "7", "-485", "12345", "2147483647", "-2147483648"]),
    "int8": ("enc_int8", ["0", "-1", "1234567", f"{2**63 - 1}", f"{-2**63}"]),
    "float4": ("enc_float4", ["0", "-0.1", "485.8", "3e38", "NaN", "-Infinity", "1e-30"]),
    "float8": ("enc_float8", ["0", "-0", "0.1", "-12345.678", "1e300", "NaN", "Infinity", "0.00048"]),
    "numeric": ("enc_decimal", ["0", "0.00", "0.1", "-485.79", "148.5", "12345678901234567890.12345", "NaN", "-Infinity", "9.995"]),
}
FORMATS = ["999", "9,999", "9G999D99", "000", "0999.90", "FM999.99", "FM0.0", "S999", "999S", "MI999", "999MI", "PL999", "SG999.9", "999PR", "FM999PR", "9.99EEEE", "RN", "FMrn",
           "999th", "FM999TH", "99V99", "B9.9", "\"Good number:\"999", "999\" %\"", "", "x", "FM9999999999999999999999D099", "L", "9.9.9", "S9S", "9PR9", "RN9"]
PIECES = ["9", "9", "9", "0", "0", ",", ".", "D", "G", "S", "MI", "PL", "SG", "PR", "FM", "TH", "th", "V", "EEEE", "B", " ", "-", '"a 9"', "\u00e4", "\\\""]
TRY = """
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text; BEGIN EXECUTE statement INTO result; RETURN '>' || result; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
"""


class NumberFormats(Confidential):
    def pairs(self):
        """Statements for each side: every format of every type's values, and formats of any patterns."""
        draw = random.Random(SEED)
        asked = [(ty, value, form) for ty, (_, values) in TYPES.items() for form in FORMATS for value in values if form != "L"]
        for _ in range(600):
            ty = draw.choice(list(TYPES))
            form = "".join(draw.choice(PIECES) for _ in range(draw.randrange(1, 9)))
            # "SPL" is SP and L, which is refused.
            asked.append((ty, draw.choice(TYPES[ty][1]), re.sub("S+PL", "PL", form)))
        # Since 18 Roman numerals take no other patterns, and numbers that have none are no error.
        asked = [it for it in asked if int(VERSION) < 18 or "RN" not in it[2].upper()]
        # Since 16 an int4 that V makes too large is another number.
        asked = [it for it in asked if int(VERSION) < 16 or it[0] != "int4" or "V" not in it[2].upper()]
        for ty, value, form in asked:
            yield (f"SELECT to_char('{value}'::{ty}, $f${form}$f$)",
                   f"SELECT encdb.decrypt(to_char(encdb.{TYPES[ty][0]}_encrypt('{value}'::{ty}), $f${form}$f$))")

    def test_formats_are_postgresqls(self):
        pairs = list(self.pairs())
        asked = "".join("SELECT coalesce(pg_temp.try('{}'), '(null)');\n".format(it.replace("'", "''")) for pair in pairs for it in pair)
        for server in self.servers():
            found = self.as_owner(server, TRY + asked).splitlines()
            self.assertEqual(len(found), 2 * len(pairs))
            wrong = [it for it in zip(pairs, found[0::2], found[1::2]) if it[1] != it[2]]
            self.assertEqual(wrong[:2], [], f"{len(wrong)} of {len(pairs)} differ; PGSEAL_SEED={SEED}")
            roman = [">cdlxxxvi"] if int(VERSION) < 18 else []
            for outcome in ("42601", "22003", ">-485.79", ">Good number:-485", "> 4.86e+02", "><486>", *roman):
                self.assertIn(outcome, found)

    def test_signs_are_those_of_the_locale_c(self):
        """PostgreSQL's are those of the server's locale, which the evaluator does not have."""
        for server in self.servers():
            german = "SET lc_numeric = 'de_DE.UTF-8';" if server.psql("SELECT count(*) FROM pg_collation WHERE collname = 'de_DE.utf8'") == "1" else ""
            self.assertEqual(self.as_owner(server, f"{german} SELECT encdb.decrypt(to_char(encdb.enc_int4_encrypt(1234), 'S9G999D9'))"), "+1,234.0")
            self.as_owner(server, "SELECT to_char(encdb.enc_int4_encrypt(1), 'L9')", error="0A000|to_char of encrypted numbers has no currency sign")

    def test_formats_of_rows(self):
        """A format that is an expression, NULL, and one that is too long or is a cell."""
        setup = "CREATE TABLE t AS SELECT g, encdb.enc_int4_encrypt(g) AS i, CASE g % 3 WHEN 0 THEN '0000' WHEN 1 THEN 'FM99' END AS f FROM generate_series(1, 9) g;"
        for server in self.servers(setup):
            self.assertEqual(self.as_owner(server, "SELECT count(*), string_agg(encdb.decrypt(to_char(i, f)), ',' ORDER BY g), string_agg(to_char(g, f), ',' ORDER BY g) FROM t"),
                             "9|1, 0003,4, 0006,7, 0009|1, 0003,4, 0006,7, 0009")
            self.as_owner(server, "SELECT to_char(i, repeat('9', 300)) FROM t", error="54000|too long")
            self.as_owner(server, "SELECT to_char(i, (SELECT encdb.enc_text_encrypt('9'))) FROM t", error="42883|function to_char.enc_int4, enc_text. does not exist")
            server.psql("SELECT to_char(i, '9') FROM t", error="PE009|no session is open")
            self.as_owner(server, "SELECT to_char(i, '9') FROM t", operations="convert-in,text,arithmetic,aggregate,compare-derived,extract", error="has not granted cast to this session")
            # One text of many steps.
            self.assertEqual(self.as_owner(server, "SELECT encdb.decrypt(upper(to_char(i + i, 'FMrn'))) FROM t WHERE g = 9"), "XVIII")
            self.assertIn("computed", self.as_owner(server, "EXPLAIN (VERBOSE, COSTS OFF) SELECT to_char(i + i, 'FMrn') FROM t"))

    def test_requests(self):
        setup = "CREATE TABLE t AS SELECT encdb.enc_int4_encrypt(g) AS i FROM generate_series(1, 2000) g;"
        for server in self.servers(setup):
            if server.psql("SHOW encdb.evaluator") == "inline":
                continue
            asked = self.as_owner(server, """SET max_parallel_workers_per_gather = 0; SELECT encdb.requests() AS before \\gset
                SELECT to_char(i, '9999') FROM t \\g /dev/null
                SELECT encdb.requests() - :before""")
            self.assertTrue(1 <= int(asked) <= 40, asked)


class ThroughTheProxy(Proxied):
    def test_results_are_opened(self):
        for form in FORMS:
            with self.subTest(form=form):
                connection = self.connect(self.shop(form))
                connection.autocommit = True
                cursor = connection.cursor()
                cursor.execute("INSERT INTO person (id, age, paid) VALUES (1, 70001, '1234.5')")
                cursor.execute("SELECT to_char(age, '999G999'), to_char(paid, 'FM9,999.00') FROM person WHERE to_char(age, 'FM00000') = '70001'")
                self.assertEqual(cursor.fetchall(), [("  70,001", "1,234.50")])
                # Neither a text nor what is no format goes to the server.
                for wrong in ('"secret words" 999', "9PR9"):
                    with self.assertRaisesRegex(psycopg2.errors.FeatureNotSupported, "nothing was sent"):
                        cursor.execute(f"SELECT to_char(age, '{wrong}') FROM person")
                self.assert_never_in_clear("70001", "70,001", "1234.5", "1,234.50", "secret words")
                (self.directory / "owner").unlink()


if __name__ == "__main__":
    main(__file__, TOOLS)
