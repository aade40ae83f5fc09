#!/usr/bin/env python3
"""LIKE 'abc%' by a B-tree: an index in the order of bytes finds the texts that begin as the pattern does."""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS  # noqa: E402
from pgseal_test import main  # noqa: E402
from proxied import Proxied  # noqa: E402

KEY = "SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL;\n"
ONLY_INDEX, ONLY_SCAN = "SET enable_seqscan = off;\nSET enable_bitmapscan = off;\n", "SET enable_indexscan = off;\nSET enable_bitmapscan = off;\n"
ONLY_BITMAP = "SET enable_seqscan = off;\nSET enable_indexscan = off;\nSET work_mem = '64kB';\n"
ALPHABET = ["a", "b", "A", "ä", "€", "%", "_", "\\", "\U0001f600"]
PATTERNS = ["a%", "ab%", "aba%", "ab", "a_b%", r"a\%%", r"a\_%", r"\\%", "ä%", "ä€%", "\U0001f600%", "zz%", "a%b", "ab%ä_", r"ab\a%"]
NO_PREFIX = ["%a", "_b%", "%", ""]


def quoted(text):
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


class Prefixes(Proxied):
    def servers(self):
        for form in FORMS:
            server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "")
            self.as_owner(server, KEY)
            with self.subTest(form=form):
                yield server

    def fill(self, server, texts, index='CREATE INDEX i ON doc (c COLLATE "C")'):
        rows = ", ".join(f"({n}, {quoted(text)})" for n, text in enumerate(texts))
        self.as_owner(server, f"""CREATE TABLE doc (id int, p text COLLATE "C", c enc_text COLLATE "C.utf8");
            INSERT INTO doc SELECT id, t, encdb.enc_text_encrypt(t) FROM (VALUES {rows}) v (id, t);
            INSERT INTO doc VALUES (-1, NULL, NULL); {index}; ANALYZE doc;""")

    def search(self, pattern, rest, explain=""):
        return (f"SELECT encdb.enc_text_encrypt({quoted(pattern)}) AS pattern \\gset\n"
                f"{explain}SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM doc WHERE c LIKE :'pattern'{rest};\n")

    def test_an_index_finds_what_a_scan_finds(self):
        seed = random.Random(22)
        texts = ["", "a", "ab", "aba"] + ["".join(seed.choices(ALPHABET, weights=[9, 6, 1, 2, 1, 1, 1, 1, 1], k=seed.randrange(9))) for _ in range(800)]
        # Ascending, descending, and with another column before it.
        indexes = (('CREATE INDEX i ON doc (c COLLATE "C")', ""), ('CREATE INDEX i ON doc (c COLLATE "C" DESC)', ""),
                   ('CREATE INDEX i ON doc ((id % 2), c COLLATE "C")', " AND id % 2 = 0"))
        for server in self.servers():
            for index, rest in indexes:
                server.psql("DROP TABLE IF EXISTS doc")
                self.fill(server, texts, index)
                for pattern in PATTERNS:
                    wanted = server.psql(f"SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM doc WHERE p LIKE {quoted(pattern)}{rest}")
                    for before in (ONLY_INDEX, ONLY_BITMAP, ONLY_SCAN):
                        self.assertEqual(self.as_owner(server, before + self.search(pattern, rest)), wanted, (index, before, pattern))
                    self.assertIn("encdb.prefix_operand(", self.as_owner(server, ONLY_INDEX + self.search(pattern, rest, "EXPLAIN ")), pattern)
                for pattern in NO_PREFIX:
                    self.assertNotIn("encdb.prefix_operand(", self.as_owner(server, ONLY_INDEX + self.search(pattern, rest, "EXPLAIN ")), pattern)

    def test_a_search_asks_about_what_it_finds(self):
        texts = [f"customer {n:05} of the shop" for n in range(3000)]
        for server in self.servers():
            self.fill(server, texts)
            count = "SELECT encdb.requests() AS before \\gset\n"
            plan = self.as_owner(server, self.search("customer 0123%", "", "EXPLAIN "))
            self.assertRegex(plan, "Index Scan (using|on) i")
            for before in (ONLY_INDEX, ONLY_BITMAP):
                asked = self.as_owner(server, f"{before}{count}{self.search('customer 0123%', '')}SELECT encdb.requests() - :before").splitlines()
                self.assertEqual(asked[0], " ".join(map(str, range(1230, 1240))))
                self.assertLessEqual(int(asked[1]), 30)

    def test_grants(self):
        for server in self.servers():
            self.fill(server, ["abc", "abd", "b"])
            self.assertEqual(self.as_owner(server, ONLY_INDEX + self.search("ab%", ""), operations="text,convert-in"), "0 1")
            self.as_owner(server, ONLY_INDEX + self.search("ab%", ""), operations="compare-derived,convert-in", error="has not granted text to this session")
            # A pattern that was made here is matched only by those who may compare it.
            derived = "SELECT id FROM doc WHERE c LIKE lower(:'pattern')"
            self.as_owner(server, ONLY_INDEX + self.search("AB%", "") + derived, operations="text,convert-in", error="has not granted compare-derived")
            self.assertEqual(self.as_owner(server, ONLY_INDEX + self.search("AB%", "") + derived).splitlines(), ["0", "1"])
            server.psql("SELECT encdb.prefix_operand(c) FROM doc", error="encdb.prefix_operand is what LIKE is made of for an index, and cannot be called")
            # Without a session nobody knows what a pattern begins with: it is planned without the index, and refused when it is matched.
            cell = server.psql("SELECT c FROM doc WHERE id = 0")
            self.assertNotIn("prefix_operand", server.psql(f"{ONLY_INDEX}EXPLAIN SELECT 1 FROM doc WHERE c LIKE '{cell}'"))
            server.psql(f"{ONLY_INDEX}SELECT 1 FROM doc WHERE c LIKE '{cell}'", error="PE009|no session is open")

    def test_only_the_order_of_bytes(self):
        for server in self.servers():
            self.fill(server, ["abc", "abd", "b"], "CREATE INDEX i ON doc (c); CREATE INDEX h ON doc USING hash (c)")
            for before in (ONLY_INDEX, ONLY_BITMAP):
                self.assertEqual(self.as_owner(server, before + self.search("ab%", "")), "0 1")
            # C.utf8 has the order of code points, which is that of bytes.
            self.assertIn("prefix_operand", self.as_owner(server, ONLY_INDEX + self.search("ab%", "", "EXPLAIN ")))
            server.psql('ALTER TABLE doc ADD d enc_text COLLATE "en_US.utf8"')
            self.as_owner(server, "UPDATE doc SET d = c; CREATE INDEX j ON doc (d)")
            plan = self.as_owner(server, ONLY_INDEX + self.search("ab%", "", "EXPLAIN ").replace("WHERE c", "WHERE d"))
            self.assertNotIn("prefix_operand", plan)

    def test_through_the_proxy(self):
        connection = self.connect(self.shop("isolated"))
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute('CREATE INDEX prefixes ON person (name COLLATE "C")')
            cursor.execute("INSERT INTO person (id, name) SELECT 1, 'Secretada' UNION ALL SELECT 2, 'Hiddenbob' UNION ALL SELECT 3, NULL")
            cursor.execute("SET enable_seqscan = off")
            for condition, parameters, wanted in (("name LIKE %s", ["Secret%"], [1]), ("name LIKE 'Hid%%'", [], [2]), ("name LIKE %s", ["%bob"], [2])):
                cursor.execute(f"SELECT id FROM person WHERE {condition}", parameters)
                self.assertEqual([row[0] for row in cursor], wanted, condition)
        self.assert_never_in_clear("Secret", "Hidden")


if __name__ == "__main__":
    main(__file__, TOOLS)
