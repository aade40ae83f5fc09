#!/usr/bin/env python3
"""LIKE 'abc%' by a B-tree: an index in the order of bytes finds the texts that begin as the pattern does."""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS, quoted  # noqa: E402
from pgseal_test import main  # noqa: E402
from proxied import Proxied  # noqa: E402

ONLY_INDEX, ONLY_SCAN = "SET enable_seqscan = off;\nSET enable_bitmapscan = off;\n", "SET enable_indexscan = off;\nSET enable_bitmapscan = off;\n"
ONLY_BITMAP = "SET enable_seqscan = off;\nSET enable_indexscan = off;\nSET work_mem = '64kB';\n"
ALPHABET = ["a", "b", "A", "ä", "€", "%", "_", "\\", "\U0001f600"]
PATTERNS = ["a%", "ab%", "aba%", "ab", "a_b%", r"a\%%", r"a\_%", r"\\%", "ä%", "ä€%", "\U0001f600%", "zz%", "a%b", "ab%ä_", r"ab\a%"]
NO_PREFIX = ["%a", "_b%", "%", ""]


class Prefixes(Proxied):
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
                    self.assertIn("encdb.prefix_low(", self.as_owner(server, ONLY_INDEX + self.search(pattern, rest, "EXPLAIN ")), pattern)
                for pattern in NO_PREFIX:
                    self.assertNotIn("encdb.prefix_low(", self.as_owner(server, ONLY_INDEX + self.search(pattern, rest, "EXPLAIN ")), pattern)

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
            # What an index scan finds is read ahead, and matched by the hundred.
            many = f"{ONLY_INDEX}{count}{self.search('customer 00%', '')}SELECT encdb.requests() - :before"
            found, asked = self.as_owner(server, many).splitlines()
            self.assertEqual(len(found.split()), 1000)
            self.assertLessEqual(int(asked), 40)

    def test_grants(self):
        for server in self.servers():
            self.fill(server, ["abc", "abd", "b"])
            self.assertEqual(self.as_owner(server, ONLY_INDEX + self.search("ab%", ""), operations="text,convert-in"), "0 1")
            self.as_owner(server, ONLY_INDEX + self.search("ab%", ""), operations="compare-derived,convert-in", error="has not granted text to this session")
            # A pattern that was made here is matched only by those who may compare it.
            derived = "SELECT id FROM doc WHERE c LIKE lower(:'pattern'::enc_text)"
            self.as_owner(server, ONLY_INDEX + self.search("AB%", "") + derived, operations="text,convert-in", error="has not granted compare-derived")
            self.assertEqual(self.as_owner(server, ONLY_INDEX + self.search("AB%", "") + derived).splitlines(), ["0", "1"])
            for end in ("low", "high"):
                server.psql(f"SELECT encdb.prefix_{end}(c) FROM doc", error="are what LIKE is made of for an index, and cannot be called")
            # Rights that somebody has set: it is planned without the index.
            server.psql("CREATE ROLE other; GRANT SELECT ON doc TO other; REVOKE EXECUTE ON FUNCTION encdb.prefix_low(enc_text) FROM PUBLIC")
            asked = self.search("ab%", "")
            planned = f"SET ROLE other;\nEXPLAIN {asked.splitlines()[1]}\n{asked.splitlines()[1]}"
            plan = self.as_owner(server, f"{ONLY_INDEX}{asked}{planned}")
            self.assertNotIn("prefix_high", plan)
            self.assertTrue(plan.endswith("0 1"), plan)
            server.psql("GRANT EXECUTE ON FUNCTION encdb.prefix_low(enc_text) TO PUBLIC")
            # Without a session nobody knows what a pattern begins with: it is planned without the index, and refused when it is matched.
            cell = server.psql("SELECT c FROM doc WHERE id = 0")
            self.assertNotIn("prefix_low", server.psql(f"{ONLY_INDEX}EXPLAIN SELECT 1 FROM doc WHERE c LIKE '{cell}'"))
            server.psql(f"{ONLY_INDEX}SELECT 1 FROM doc WHERE c LIKE '{cell}'", error="PE009|no session is open")

    def test_only_the_order_of_bytes(self):
        for server in self.servers():
            self.fill(server, ["abc", "abd", "b"], "CREATE INDEX i ON doc (c); CREATE INDEX h ON doc USING hash (c)")
            server.psql('ALTER TABLE doc ADD d enc_text COLLATE "en_US.utf8", ADD e enc_text COLLATE "C"')
            self.as_owner(server, "UPDATE doc SET d = c, e = c; CREATE INDEX j ON doc (d); CREATE INDEX k ON doc (e)")
            self.as_owner(server, 'ALTER TABLE doc ADD f enc_text COLLATE "und-x-icu"; UPDATE doc SET f = c; CREATE INDEX l ON doc (f COLLATE "C")')
            for before in (ONLY_INDEX, ONLY_SCAN):
                self.as_owner(server, before + self.search("zz%", "").replace("WHERE c", "WHERE f"), error="compared under collations of libc only")
            for column, serves in (("c", False), ("d", False), ("e", True)):
                for before in (ONLY_INDEX, ONLY_BITMAP):
                    self.assertEqual(self.as_owner(server, before + self.search("ab%", "").replace("WHERE c", f"WHERE {column}")), "0 1")
                plan = self.as_owner(server, ONLY_INDEX + self.search("ab%", "", "EXPLAIN ").replace("WHERE c", f"WHERE {column}"))
                self.assertEqual("prefix_low" in plan, serves, column)

    def test_other_conditions_of_the_same_index(self):
        """What nbtree concludes of the conditions that a search has: which one is stricter, and that none can hold."""
        texts = [a + b + c for a in "ab" for b in "abc" for c in ["", "a", "m", "z"]]
        conditions = ["{c} LIKE {ab} AND {c} > {abm}", "{c} LIKE {ab} AND {c} < {abm}", "{c} LIKE {ab} AND {c} >= {abm}", "{c} <= {abm} AND {c} LIKE {ab}",
                      "{c} LIKE {ab} AND {c} LIKE {abm}", "{c} LIKE {ab} AND {c} LIKE {a}", "{c} LIKE {ab} AND {c} LIKE {b}", "{c} LIKE {ab} AND {c} = {abm}",
                      "{c} IN ({abm}, {b}) AND {c} LIKE {ab}", "{c} LIKE {ab} AND {c} BETWEEN {a} AND {abm}", "{c} LIKE {ab} AND id = 6", "{c} LIKE {ab} AND id > 6",
                      "{c} LIKE {ab} AND id < 6", "{c} LIKE {ab} AND id IN (5, 7, 9)", "{c} LIKE {ab} AND {c} > plain", "{c} < plain AND {c} LIKE {ab}"]
        cells = {"ab": "ab%", "abm": "abm", "a": "a%", "b": "b%"}
        for server in self.servers():
            self.fill(server, texts, "ALTER TABLE doc ADD plain text COLLATE \"C\" DEFAULT 'abc'; ALTER TABLE doc ALTER c TYPE enc_text COLLATE \"C\"")
            for index in ('(c COLLATE "C")', '(c COLLATE "C" DESC)', '(c COLLATE "C", id)', '(c COLLATE "C" DESC, id DESC)'):
                self.as_owner(server, f"DROP INDEX IF EXISTS i; CREATE INDEX i ON doc {index}")
                for pages in ("on", "off"):
                    known = f"SET encdb.page_requests = {pages};\n" + ONLY_INDEX
                    known += "".join(f"SELECT encdb.enc_text_encrypt('{text}') AS {name} \\gset\n" for name, text in cells.items())
                    ask = "SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') || '|' FROM doc WHERE {};\n".format
                    wanted = server.psql("".join(ask(it.format(c="p", **{name: f"'{text}'" for name, text in cells.items()})) for it in conditions))
                    found = self.as_owner(server, known + "".join(ask(it.format(c="c", **{name: f":'{name}'" for name in cells})) for it in conditions))
                    for condition, one, other in zip(conditions, wanted.split("|"), found.split("|"), strict=False):
                        self.assertEqual(other, one, (index, pages, condition))
                    self.assertEqual(found, wanted)

    def test_a_search_leaves_the_index_sound(self):
        """What a search was told of a page serves the rows that it finds, when they are put in again and joined."""
        texts = [f"ab{n:03}" for n in range(400)] + [f"b{n:03}" for n in range(400)]
        for server in self.servers("CREATE EXTENSION amcheck;"):
            self.fill(server, texts, 'CREATE UNIQUE INDEX i ON doc (c COLLATE "C"); ALTER TABLE doc ADD note text; CREATE INDEX n ON doc (note)')
            for pages in ("on", "off", "auto"):
                before = f"SET encdb.page_requests = {pages};\n{ONLY_INDEX}SET enable_hashjoin = off;\nSET enable_mergejoin = off;\n" + \
                    "SELECT encdb.enc_text_encrypt('ab%') AS ab \\gset\n"
                self.as_owner(server, before + "UPDATE doc SET note = coalesce(note, '') || 'x' WHERE c LIKE :'ab';")
                self.as_owner(server, before + "DELETE FROM doc WHERE id >= 1000; INSERT INTO doc (id, c) SELECT id + 1000, c || c FROM doc WHERE c LIKE :'ab';")
                joined = self.as_owner(server, before + 'SELECT count(*) FROM doc a JOIN doc b ON a.c = b.c COLLATE "C" WHERE a.c LIKE :\'ab\'')
                self.assertEqual(joined, "800")
                self.assertEqual(self.as_owner(server, "SELECT bt_index_parent_check('i', true, true)"), "")
                again = "INSERT INTO doc (id, c) SELECT 5000, c FROM doc WHERE c LIKE :'ab' LIMIT 1"
                self.as_owner(server, before + again, error="duplicate key value violates unique constraint")

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
