#!/usr/bin/env python3
"""Indexes of words and of trigrams: GIN over tokens that the evaluator makes of texts by the owner's key.

What an index finds is what a scan finds, and for LIKE what PostgreSQL finds in the plain column. The index needs a session for
what goes in and for what is looked for; VACUUM, recovery and dumps need none. Tokens have grants of their own.
"""

import random
import re
import sys
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import KEY, TOOLS, programs, quoted  # noqa: E402
from pgseal_test import main, run  # noqa: E402
from proxied import Proxied  # noqa: E402
from waiting import eventually  # noqa: E402

INDEXES = "CREATE INDEX parts ON doc USING gin (c enc_text_trgm_ops); CREATE INDEX words ON doc USING gin (c enc_text_words_ops);\n"
ONLY_INDEX, ONLY_SCAN = "SET enable_seqscan = off;\n", "SET enable_bitmapscan = off;\n"
ALPHABET = ["a", "b", "A", "B", "ä", "Ä", "€", " ", "-", "%", "_", "\\", "7", "\U0001f600"]
PATTERNS = ["", "%", "_", "___", "%ab%", "%aba%", "%ABA%", "%Äb7%", "aba%", "%aba", "%a%b%a%", "%ab_ba%", r"%a\%b%", r"%\\ab%", r"%a\_a%", "%€ä%", "%aba%bab%",
            "aba", "%7 a%b-%", "%\U0001f600a%", "%zzz%", "%abab_bab%"]
QUERIES = ["", " - ", "a", "ab", "AB aB", "ä", "b7 a", "aba bab", "zzz", "a zzz", "\U0001f600 a", "7-7"]


def words(text):
    return set(re.findall(r"[^\W_]+", text.lower()))


class Tokens(Proxied):
    def fill(self, server, texts, indexes=INDEXES):
        rows = ", ".join(f"({n}, {quoted(text)})" for n, text in enumerate(texts))
        self.as_owner(server, f"""CREATE TABLE doc (id int, p text COLLATE "C.utf8", c enc_text COLLATE "C.utf8");
            INSERT INTO doc SELECT id, t, encdb.enc_text_encrypt(t) FROM (VALUES {rows}) v (id, t);
            INSERT INTO doc VALUES (-1, NULL, NULL); {indexes} ANALYZE doc;""")

    def found(self, server, condition, before, operations="all"):
        return self.as_owner(server, f"{before}SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM doc WHERE {condition}", operations=operations)

    def test_an_index_finds_what_a_scan_finds(self):
        seed = random.Random(21)
        texts = ["", "a", "ab", "aba"] + ["".join(seed.choices(ALPHABET, k=seed.randrange(24))) for _ in range(300)]
        for server in self.servers():
            self.fill(server, texts)
            hits = 0
            for pattern in PATTERNS:
                for operator in ("LIKE", "ILIKE"):
                    wanted = self.found(server, f"p {operator} {quoted(pattern)}", "")
                    condition = f"c {operator} encdb.enc_text_encrypt({quoted(pattern)})"
                    for before in (ONLY_INDEX, ONLY_SCAN):
                        self.assertEqual(self.found(server, condition, before), wanted, (before, operator, pattern))
                    hits += bool(wanted)
            self.assertGreater(hits, len(PATTERNS))
            for query in QUERIES:
                wanted = " ".join(str(n) for n, text in enumerate(texts) if words(query) and words(query) <= words(text))
                for before in (ONLY_INDEX, ONLY_SCAN):
                    self.assertEqual(self.found(server, f"c @@ encdb.enc_text_encrypt({quoted(query)})", before), wanted, (before, query))
            for condition, index in (("c ILIKE encdb.enc_text_encrypt('%aba%')", "parts"), ("c @@ encdb.enc_text_encrypt('a')", "words")):
                self.assertIn(f"Bitmap Index Scan on {index}", self.as_owner(server, f"{ONLY_INDEX}EXPLAIN SELECT 1 FROM doc WHERE {condition}"))

    def test_a_search_asks_about_what_it_finds(self):
        texts = [f"customer number {n} of the shop in street {n % 7}" for n in range(3000)]
        for server in self.servers():
            self.fill(server, texts)
            for operator, pattern, rows, matched in (("LIKE", "%number 1234 %", "1234", 1), ("@@", "shop 1234", "1234", 1),
                                                     ("ILIKE", "%NUMBER 299_ %", " ".join(map(str, range(2990, 3000))), 11)):
                asked = self.as_owner(server, f"""{ONLY_INDEX}SELECT encdb.enc_text_encrypt('{pattern}') AS pattern \\gset
                    SELECT encdb.requests() AS before \\gset
                    SELECT string_agg(id::text, ' ' ORDER BY id) FROM doc WHERE c {operator} :'pattern'; SELECT encdb.requests() - :before""").splitlines()
                self.assertEqual(asked[0], rows)
                # The pattern is asked about when it is planned with and when it is looked for. What has its trigrams is matched, 299 too.
                self.assertLessEqual(int(asked[1]), 2 + matched, (operator, pattern))
            # The planner takes it by itself.
            self.assertIn("Bitmap Index Scan on parts", self.as_owner(server, "EXPLAIN SELECT 1 FROM doc WHERE c LIKE encdb.enc_text_encrypt('%number 1234 %')"))

    def test_grants(self):
        with_text = "text,convert-in"
        for server in self.servers():
            self.fill(server, ["the quick fox", "lazy dog"])
            word, pattern = "encdb.enc_text_encrypt('fox')", "encdb.enc_text_encrypt('%fox%')"
            for before in (ONLY_INDEX, ONLY_SCAN):
                # LIKE needs what it needed before there was an index, and no more. Without a session it is planned, and refused when it meets a text.
                self.assertEqual(self.found(server, f"c LIKE {pattern}", before, with_text), "0")
                self.as_owner(server, f"{before}SELECT 1 FROM doc WHERE c LIKE {pattern}", operations="trigrams,words,convert-in", error="has not granted text")
                self.as_owner(server, f"{before}SELECT 1 FROM doc WHERE c @@ {word}", operations="text,trigrams,compare-derived,convert-in",
                              error="PE011|has not granted words to this session")
                self.assertEqual(self.found(server, f"c @@ {word}", before, "words,convert-in"), "0")
            cell = server.psql("SELECT c FROM doc WHERE id = 0")
            for operator in ("LIKE", "@@"):
                self.assertIn("Bitmap Index Scan", server.psql(f"{ONLY_INDEX}EXPLAIN SELECT 1 FROM doc WHERE c {operator} '{cell}'"))
                server.psql(f"{ONLY_INDEX}SELECT 1 FROM doc WHERE c {operator} '{cell}'", error="PE009|no session is open")
            for granted, missing in (("words", "trigrams"), ("trigrams", "words")):
                self.as_owner(server, "INSERT INTO doc SELECT 9, p, c FROM doc WHERE id = 0", operations=granted, error=f"has not granted {missing} to this session")
            self.as_owner(server, "INSERT INTO doc SELECT 9, p, c FROM doc WHERE id = 0", operations="words,trigrams")
            server.psql("INSERT INTO doc SELECT 10, p, c FROM doc WHERE id = 0", error="PE009|no session is open")
            # What is not in the index needs nothing, and neither does NULL.
            server.psql("UPDATE doc SET id = 11 WHERE id = -1; INSERT INTO doc VALUES (12, NULL, NULL); DELETE FROM doc WHERE id = 9")
            derived = "c @@ lower(encdb.enc_text_encrypt('FOX'))"
            self.as_owner(server, f"SELECT 1 FROM doc WHERE {derived}", operations="words,text,convert-in", error="has not granted compare-derived")
            self.assertEqual(self.found(server, derived, ONLY_INDEX), "0")

    def test_upkeep_needs_no_session(self):
        for server in self.servers():
            self.fill(server, [f"canary{n} sings" for n in range(400)])
            self.as_owner(server, "INSERT INTO doc SELECT id + 1000, p, c FROM doc WHERE id < 50; DELETE FROM doc WHERE id < 40")
            server.psql("SELECT gin_clean_pending_list('parts'); VACUUM (INDEX_CLEANUP on) doc; ANALYZE doc")
            server.stop("immediate")
            server.start()
            sings = "c LIKE encdb.enc_text_encrypt('%canary4_ sings%')"
            expected = " ".join([*map(str, range(40, 50)), *map(str, range(1040, 1050))])
            self.assertEqual(self.found(server, sings, ONLY_INDEX), expected)
            self.assertEqual(self.found(server, "c @@ encdb.enc_text_encrypt('CANARY41')", ONLY_INDEX), "41 1041")
            server.psql("REINDEX INDEX parts", error="PE009|no session is open")
            self.as_owner(server, "REINDEX INDEX parts; REINDEX INDEX CONCURRENTLY words; CREATE INDEX CONCURRENTLY lowered ON doc USING gin (lower(c) enc_text_trgm_ops)")
            self.assertEqual(self.found(server, sings, ONLY_INDEX), expected)
            # From 18 on workers build such an index; they have their leader's session.
            self.as_owner(server, "ALTER TABLE doc SET (parallel_workers = 2); SET min_parallel_table_scan_size = 0; REINDEX INDEX parts")
            self.assertEqual(self.found(server, sings, ONLY_INDEX), expected)
            if int(server.psql("SHOW server_version_num")) >= 180000:
                server.psql("CREATE EXTENSION amcheck; SELECT gin_index_check('parts'), gin_index_check('words')")
            self.assertIn("Bitmap Index Scan on lowered", self.as_owner(server, f"{ONLY_INDEX}EXPLAIN SELECT 1 FROM doc WHERE lower(c) LIKE encdb.enc_text_encrypt('%canary4_ %')"))
            self.assertEqual(self.found(server, "lower(c) LIKE encdb.enc_text_encrypt('%canary41 %')", ONLY_INDEX), "41 1041")

    def test_dump_and_restore(self):
        server = self.server()
        self.as_owner(server, KEY)
        self.fill(server, ["the quick fox", "lazy dog"])
        dump = run([programs() / "pg_dump", "--section=post-data", "-h", server.home, "-U", "postgres", "postgres"]).stdout
        for made in ("USING gin (c public.enc_text_trgm_ops)", "USING gin (c public.enc_text_words_ops)"):
            self.assertIn(made, dump)
        server.psql("DROP INDEX parts, words")
        self.as_owner(server, dump)
        self.assertEqual(self.found(server, "c @@ encdb.enc_text_encrypt('dog')", ONLY_INDEX), "1")

    def test_background_work_cannot_have_tokens(self):
        """A subscriber of such a table stops, whatever its owner granted to background work."""
        table = "CREATE TABLE doc (n int, c enc_text);"
        server = self.server(conf="wal_level = logical\n")
        self.as_owner(server, KEY + table + "INSERT INTO doc VALUES (1, encdb.enc_text_encrypt('the quick fox')); CREATE PUBLICATION p FOR TABLE doc")
        subscriber = self.server("subscriber", form="isolated", socket=self.evaluator().socket)
        subscriber.psql(table + f"CREATE INDEX ON doc USING gin (c enc_text_trgm_ops); COPY encdb.data_key FROM STDIN;\n{server.psql('COPY encdb.data_key TO STDOUT')}\n\\.\n")
        self.as_owner(subscriber, "SELECT 1", operations="background")
        subscriber.psql(f"CREATE SUBSCRIPTION s CONNECTION 'host={server.home} user=postgres dbname=postgres' PUBLICATION p WITH (disable_on_error = true)")
        eventually(lambda: subscriber.psql("SELECT subenabled FROM pg_subscription") == "f")
        self.assertIn("has not granted trigrams to this session", subscriber.log())
        subscriber.psql("DROP INDEX doc_c_idx; ALTER SUBSCRIPTION s ENABLE")
        eventually(lambda: subscriber.psql("SELECT count(*) FROM doc") == "1")
        subscriber.psql("DROP SUBSCRIPTION s")

    def test_collations(self):
        for server in self.servers():
            self.fill(server, ["ÄPFEL und birnen", "äpfel", "apfel"])
            for collation, wanted in (("C.utf8", "0 1"), ("C", "1")):
                condition = f"""c COLLATE "{collation}" ILIKE encdb.enc_text_encrypt('%äpf%')"""
                self.assertEqual(self.found(server, condition, ONLY_INDEX), wanted)
            # Another collation is another order of letters: that index does not serve it.
            plan = self.as_owner(server, f"""{ONLY_INDEX}EXPLAIN SELECT 1 FROM doc WHERE c COLLATE "C" ILIKE encdb.enc_text_encrypt('%äpf%')""")
            self.assertNotIn("Bitmap Index Scan", plan)

    def test_parameters_and_literals_through_the_proxy(self):
        self.search("inline")

    def test_parameters_and_literals_through_the_proxy_isolated(self):
        self.search("isolated")

    def search(self, form):
        connection = self.connect(self.shop(form))
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("CREATE INDEX ON person USING gin (name enc_text_trgm_ops); CREATE INDEX ON person USING gin (name enc_text_words_ops)")
            cursor.execute("INSERT INTO person (id, name) SELECT 1, 'Ada Secretlace' UNION ALL SELECT 2, 'Bob Hiddenson' UNION ALL SELECT 3, NULL")
            cursor.execute("SET enable_seqscan = off")
            for condition, parameters, wanted in (("name @@ %s", ["secretlace"], [1]), ("name @@ 'bob HIDDENSON'", [], [2]), ("name ILIKE %s", ["%hidden%"], [2]),
                                                  ("name LIKE '%%cretla%%'", [], [1]), ("NOT name @@ 'ada'", [], [2]), ("name @@ %s", [""], [])):
                cursor.execute(f"SELECT id FROM person WHERE {condition} ORDER BY id", parameters)
                self.assertEqual([row[0] for row in cursor], wanted, condition)
            with self.assertRaises(psycopg2.Error):
                cursor.execute("SELECT id FROM person WHERE name @@ note")
        self.assert_never_in_clear("Secretlace", "secretlace", "Hiddenson", "HIDDENSON", "cretla", "hidden")


if __name__ == "__main__":
    main(__file__, TOOLS)
