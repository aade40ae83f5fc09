#!/usr/bin/env python3
"""What pgseal client sends: what is encrypted leaves sealed or not at all, whatever the server calls it, in statements and by COPY."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import TOOLS  # noqa: E402
from owners_client import NOT_TRUSTED, REFUSED, USAGE, OwnersClient  # noqa: E402
from pgseal_test import main  # noqa: E402


class Sent(OwnersClient):
    def test_what_must_be_sealed_is_not_sent_in_clear(self):
        """Whatever the server calls it: the log has what it was sent."""
        cluster = self.logged("CREATE TABLE t (c enc_text, n int)", "CREATE DOMAIN mail AS enc_text", "CREATE TABLE dom (m mail)",
                              "CREATE TYPE pair AS (a enc_text, b int)", "CREATE TABLE comp (p pair)",
                              "CREATE TYPE span AS RANGE (subtype = enc_int4)")
        self.client(cluster, "sql", "INSERT INTO t (c) VALUES ($1)", "secretPlaced")
        self.client(cluster, "sql", "INSERT INTO dom VALUES ($1)", "secretDomain")
        self.assertEqual(self.rows(cluster, "SELECT m FROM dom WHERE m = $1", "secretDomain"), ["secretDomain"])
        self.assertEqual(self.rows(cluster, "SELECT c FROM t WHERE c = ANY($1)", '{secretAny,NULL,"secretPlaced"}'), ["secretPlaced"])
        for statement, value, said in (("INSERT INTO comp VALUES ($1)", "(secretPair,1)", "is a composite"),
                                       ("SELECT $1::span", "[secretSpan,]", "is a composite"),
                                       ("SELECT c FROM t WHERE upper(encdb.decrypt(c)) = upper($1)", "secretIexact", "--plain 1"),
                                       ("SELECT NULL::enc_text WHERE $1::text IS NULL", "secretText", "--plain 1"),
                                       ("SELECT c FROM t WHERE $1 = ANY(ARRAY[NULL]::text[])", "secretItem", "--plain 1"),
                                       ("SELECT c FROM t WHERE n = ANY($1)", "{1}", "--plain 1"),
                                       ("INSERT INTO t (c) VALUES ($1)", "secretCalledPlain", "do not call its value plain")):
            plain = ["--plain", "1"] if "CalledPlain" in value else []
            refused = self.client(cluster, "sql", *plain, statement, value, code=USAGE)
            self.assertIn(said, refused)
            self.assertNotIn(value, refused)
        self.assertEqual(self.rows(cluster, "--plain", "1", "SELECT $1::int + 1", "41"), ["42"])
        self.assert_unseen(cluster, "secret")
        # The test would see it.
        self.client(cluster, "sql", "--plain", "1", "SELECT $1::text", "secretSaidToBePlain")
        self.assertIn("secretSaidToBePlain", (cluster.home / "log").read_text())

    def test_a_column_that_became_plain_is_sent_nothing(self):
        cluster = self.logged("CREATE TABLE t (c enc_text)", "CREATE TABLE u (c enc_text)")
        self.client(cluster, "sql", "INSERT INTO t VALUES ($1)", "secretSealed")
        cluster.psql("ALTER TABLE t ALTER COLUMN c TYPE text USING NULL")
        self.assertIn("--plain 1", self.client(cluster, "sql", "INSERT INTO t VALUES ($1)", "secretInserted", code=USAGE))
        cluster.psql("CREATE SCHEMA postgres CREATE TABLE u (c text)")  # "$user" comes before public
        self.assertIn("--plain 1", self.client(cluster, "sql", "INSERT INTO u VALUES ($1)", "secretPathed", code=USAGE))
        self.assert_unseen(cluster, "secret")

    def test_copy_seals_and_opens(self):
        cluster = self.logged("CREATE TABLE t (id int, c enc_text, a enc_int4[], n interval, g int GENERATED ALWAYS AS (id) STORED)",
                              "CREATE TABLE plain (c text)")
        rows = "1\tsecret\\tOne\t{1,NULL}\t1 day\n2\t\\N\t\\N\t\\N\n3\tsecretThree\t{}\t02:00:00\n"
        copy = ["sql", "--plain", "1,4", "COPY t FROM STDIN"]
        self.assertEqual(self.client(cluster, *copy, stdin=rows), "COPY 3\n")
        self.assertEqual(self.client(cluster, "sql", "COPY t TO STDOUT"), rows)
        self.assertEqual(self.client(cluster, "sql", "COPY (SELECT c, a FROM t WHERE id = ANY(ARRAY(SELECT max(id) FROM t))) TO STDOUT"),
                         "secretThree\t{}\n")
        self.assertRegex(cluster.psql("COPY t (c) TO STDOUT").splitlines()[0], r"^\\\\x[0-9a-f]{70,}$")
        # Nothing of a COPY whose last line is refused is stored.
        said = self.client(cluster, *copy, stdin=rows + "4\tsecret\t{x}\t\\N\n", code=USAGE)
        self.assertIn("line 4: ", said)
        self.assertIn("line 2: the row has 1 fields", self.client(cluster, *copy, stdin="1\t\\N\t\\N\t\\N\n2\n", code=USAGE))
        self.assertEqual(self.rows(cluster, "SELECT count(*) FROM t"), ["3"])
        self.assertIn("--plain 1", self.client(cluster, "sql", "COPY plain FROM STDIN", stdin="secretPlain\n", code=USAGE))
        self.assertIn("--plain 1", self.client(cluster, "sql", "COPY t (n) FROM STDIN", stdin="1 day\n", code=USAGE))
        self.assertIn("do not call", self.client(cluster, "sql", "--plain", "1", "COPY t (c) FROM STDIN", stdin="x\n", code=USAGE))
        self.assertIn("--sealed-only", self.client(cluster, "sql", "--sealed-only", "COPY t TO STDOUT", code=USAGE))
        self.assertIn("without options", self.client(cluster, "sql", "COPY t TO STDOUT (FORMAT csv)", code=USAGE))
        cluster.psql("ALTER TABLE t ALTER c TYPE text USING NULL")
        self.assertIn("--plain 2", self.client(cluster, *copy, stdin=rows, code=USAGE))
        self.assert_unseen(cluster, "secret")
        # The key of a column is the list's.
        cluster.psql("CREATE TABLE listed (c enc_text)")
        self.client(cluster, "key", "new", "other")
        self.client(cluster, "column", "add", "--key", "other", "public.listed.c")
        self.client(cluster, "sql", "COPY listed FROM STDIN", stdin="x\n")
        cluster.psql("CREATE TABLE reordered (note text, c enc_text)")
        self.client(cluster, "column", "add", "public.reordered.c")
        cluster.psql("ALTER TABLE reordered DROP note; ALTER TABLE reordered ADD note text")
        copy = ["sql", "--plain", "1", "COPY reordered FROM STDIN"]  # note, the user means
        said = self.client(cluster, *copy, stdin="secretNote\tx\n", code=NOT_TRUSTED)
        self.assertIn("public.reordered has other columns on the server than in the owner's list, or another order", said)
        self.client(cluster, "sql", "--plain", "1", "COPY reordered (note, c) FROM STDIN", stdin="open\tx\n")
        self.assert_unseen(cluster, "secret")
        self.assertEqual(self.key_of(cluster, "listed"), "other")

    def test_copy_knows_columns_by_their_names_alone(self):
        """Names that are key words of SQL, and a list that a server's word does not weaken."""
        cluster = self.logged('CREATE TABLE t ("user" enc_text, "order" enc_int4, "a ""b" enc_text, "select" int)',
                              "CREATE TABLE p (id int)", "CREATE SCHEMA a CREATE TABLE two (c enc_text, n enc_text)",
                              "CREATE SCHEMA b CREATE TABLE two (c enc_text, n text)")
        rows = "secretUser\t7\tsecretQuoted\t1\n"
        copy = ["sql", "--plain", "4", "COPY t FROM STDIN"]
        self.assertEqual(self.client(cluster, *copy, stdin=rows), "COPY 1\n")
        self.assertEqual(self.client(cluster, "sql", 'COPY t ("user", "order") TO STDOUT'), "secretUser\t7\n")
        self.assertEqual(self.client(cluster, "sql", "COPY t TO STDOUT"), rows)
        for told in (False, True):  # by the server, and by the owner's list
            said = self.client(cluster, "sql", "--plain", "1", 'COPY t ("user") FROM STDIN', stdin="secretPlain\n", code=USAGE)
            self.assertIn('column public.t.user is encrypted by' if told else "do not call its value plain", said)
            self.client(cluster, "column", "add", "public.t.user")
        self.assert_unseen(cluster, "secret")
        # The table that the search path finds has the key, not the first of that name.
        for schema in ("a", "b"):
            self.client(cluster, "key", "new", f"of {schema}")
            self.client(cluster, "column", "add", "--key", f"of {schema}", f"{schema}.two.c")
        for path in ("b", "a"):
            cluster.psql(f"ALTER DATABASE postgres SET search_path = {path}, public")
            self.client(cluster, "sql", "COPY two (c) FROM STDIN", stdin="x\n")
            self.assertEqual(self.key_of(cluster, f"{path}.two"), f"of {path}")
            self.client(cluster, "sql", "COPY postgres.b.two (c) FROM STDIN", stdin="x\n")
        self.assertEqual(cluster.psql("SELECT count(*) FROM a.two"), "1")

    def test_the_last_row_may_be_empty(self):
        cluster = self.ready("inline")
        cluster.psql("CREATE TABLE t (c enc_text)")
        for rows, count in (("a\n\n", 2), ("\n", 1), ("a", 1), ("", 0)):
            self.assertEqual(self.client(cluster, "sql", "COPY t FROM STDIN", stdin=rows), f"COPY {count}\n", repr(rows))
            told = self.client(cluster, "sql", "--each-line", "INSERT INTO t VALUES ($1)", stdin=rows)
            self.assertEqual(told, f"INSERT {count}\n", repr(rows))
            end = "\n" * (rows == "a")
            self.assertEqual(self.client(cluster, "sql", stdin=f"COPY t FROM STDIN;\n{rows}{end}\\.\n"), f"COPY {count}\n", repr(rows))
        self.assertEqual(self.rows(cluster, "SELECT count(*) FROM t"), ["12"])
        self.assertEqual(self.rows(cluster, "SELECT count(*) FROM t WHERE c = $1", ""), ["6"])

    def test_literals_beside_encrypted_columns_are_not_sent(self):
        """The statement of a PREPARE that fails is in the log as it was sent."""
        cluster = self.logged("CREATE TABLE t (c enc_text, n int)", "CREATE VIEW v AS SELECT c FROM t", "CREATE TABLE u (n int)")
        self.client(cluster, "column", "add", "public.t.c")
        for statement in ("SELECT c FROM t WHERE c = 'secretQuoted'", "INSERT INTO t VALUES (E'secret\\'Escaped')",
                          "SELECT * FROM v WHERE c = $$secretDollar$$", "SELECT 'secretCast'::enc_text", "SELECT * FROM t WHERE c = 41",
                          "SELECT encdb.enc_text_encrypt('secretConverted')", 'SELECT * FROM U&"\\0074" WHERE U&"\\0063" = \'secretUnicode\'',
                          "SELECT c /* 'x' */ FROM T WHERE c LIKE U&'secret%'"):
            refused = self.client(cluster, "sql", statement, code=USAGE)
            self.assertIn("--literals", refused)
            self.assertNotRegex(refused, "secret[A-Z]")
        self.assert_unseen(cluster, "secret[A-Z%]")
        self.assertEqual(self.rows(cluster, "SELECT c FROM t WHERE c = $1 LIMIT 3", "x"), [])
        self.assertEqual(self.rows(cluster, "SELECT count(*) FROM u WHERE n > 41"), ["0"])
        self.assertEqual(self.rows(cluster, "--literals", "SELECT count(*) FROM t WHERE n > 41"), ["0"])
        self.client(cluster, "sql", "--literals", "SELECT c FROM t WHERE c = 'secretSent'", code=REFUSED)
        self.assertRegex((cluster.home / "log").read_text(), "STATEMENT: .*secretSent")

    def test_literals_that_reach_encrypted_columns_unnamed_are_not_sent(self):
        cluster = self.logged("CREATE TABLE t (b enc_bool, n int)", "CREATE TYPE pair AS (a enc_text, b int)", "CREATE TABLE comp (p pair)",
                              "CREATE DOMAIN mail AS enc_text", "CREATE TABLE mails (m mail[])",
                              "CREATE TYPE span AS RANGE (subtype = enc_int4)", "CREATE TABLE spans (s span)",
                              "CREATE FUNCTION f(enc_text) RETURNS int LANGUAGE sql AS 'SELECT 1'",
                              "CREATE FUNCTION g(VARIADIC mail[]) RETURNS int LANGUAGE sql AS 'SELECT 1'",
                              "CREATE PROCEDURE p(mail) LANGUAGE sql AS 'SELECT 1'", "CREATE TABLE u (n int, b bool)")
        for statement in ("SELECT n /* secretTrue */ FROM t WHERE b = true", "UPDATE t /* secretFalse */ SET b = FALSE",
                          "DO $$ BEGIN UPDATE x SET c = 'secretDo'; END $$", "CALL p('secretCall')", "CALL q('secretOther')",
                          "EXECUTE q('secretExecute')", "EXPLAIN EXECUTE q('secretExplain')", "CREATE TABLE x AS EXECUTE q('secretTable')",
                          "CREATE FUNCTION h() RETURNS int LANGUAGE sql AS $$ SELECT 'secretBody' $$",
                          "CREATE OR REPLACE PROCEDURE h() LANGUAGE sql AS 'secretProcedure'", "SELECT f('secretFunction')", "SELECT g('secretVariadic')",
                          "PREPARE q AS SELECT f('secretPrepared')", "INSERT INTO comp VALUES (ROW('secretPair', 1))", "SELECT 'secretDomain'::mail",
                          "SELECT '{secretArray}'::_mail", "SELECT '{secretArrays}'::_enc_text", "INSERT INTO mails VALUES ('{secretMails}')",
                          "SELECT * FROM spans WHERE s = '[secretSpan,]'", "SELECT '(secretRow,1)'::pair"):
            self.assertIn("--literals", self.client(cluster, "sql", statement, code=USAGE), statement)
        said = self.client(cluster, "sql", code=USAGE, stdin="CREATE TEMP TABLE mine (c enc_text);\nINSERT INTO mine VALUES ('secretTemporary');\n")
        self.assertIn("--literals", said)
        self.assert_unseen(cluster, "secret[A-Z]")
        self.assertEqual(self.rows(cluster, "SELECT count(*) FROM u WHERE n > 41 AND b = true AND lower('A') = 'a'"), ["0"])
        self.client(cluster, "sql", "--literals", "DO $$ BEGIN END $$")
        # Temporary tables and what is not sealed as a whole are in no owner's list.
        added = self.client(cluster, "sql", stdin="CREATE TEMP TABLE mine (c enc_text); SELECT count(*) FROM mine;")
        self.assertIn("mine" if "mine" in added else "count", added)
        added = self.client(cluster, "column", "add", "--all")
        self.assertEqual(len(re.findall(r"^ *public\.", added, re.MULTILINE)), 2)
        for listed in ("column public.comp.p ", "column public.spans.s ", "type public.mail ", "type public.pair ", "type public.span ",
                       "function public.f(enc_text) ", "function public.g(enc_text[]) ", "function public.p(enc_text) "):
            self.assertIn(listed, added)
            self.assertIn(listed, self.client(cluster, "column", "list"))
        self.client(cluster, "column", "forget", "--object", "type public.pair", "--object", "function public.f(enc_text)")
        self.assertNotIn("type public.pair ", self.client(cluster, "column", "list"))
        self.client(cluster, "column", "forget", "--object", "type public.pair", code=USAGE)
        self.assertEqual(len(re.findall("public", self.client(cluster, "column", "add", "--all"))), 2)
        # Nothing is refused where nothing is encrypted.
        cluster.psql("CREATE DATABASE bare")
        cluster.psql("CREATE EXTENSION encdb", db="bare")
        self.client(cluster, "sql", "-d", "bare", "DO $$ BEGIN END $$")

    def test_a_missing_list_is_an_error(self):
        cluster = self.logged("CREATE TABLE t (c enc_text)")
        insert = ["sql", "INSERT INTO t (c) VALUES ($1)", "secretUnlisted"]
        said = self.client(cluster, *insert, code=NOT_TRUSTED, listed=True)
        self.assertIn("has no list of the encrypted columns of the database: make it with pgseal client column add --all", said)
        self.client(cluster, "connect")  # no value is sent
        self.client(cluster, *insert)  # --trust-server-types
        self.client(cluster, "column", "add", "--all")
        self.client(cluster, *insert, listed=True)
        self.client(cluster, "column", "forget", "public.t.c")
        self.client(cluster, *insert, listed=True)  # the list is there, and has no column
        self.assertEqual(self.rows(cluster, "SELECT count(*) FROM t"), ["3"])
        self.assert_unseen(cluster, "secret")

    def test_the_owners_list_decides_what_is_encrypted(self):
        """And a server that says otherwise is handed no keys, and no statement."""
        cluster = self.logged("CREATE TABLE t (c enc_text, n int)", "CREATE SCHEMA s",
                              "CREATE TABLE s.u (d enc_int4[])", "CREATE DOMAIN mail AS enc_text", "CREATE TABLE s.v (e mail)")
        self.assertIn("of int4", self.client(cluster, "column", "add", "public.t.n", code=USAGE))
        self.assertIn("no column", self.client(cluster, "column", "add", "public.t.x", code=NOT_TRUSTED))
        self.client(cluster, "column", "add", "--key", "other", "public.t.c")
        added = self.client(cluster, "column", "add", "--all")
        self.assertNotIn("public.t.c", added)
        listed = [re.split(r" +\| ", line.strip()) for line in self.client(cluster, "column", "list").splitlines()[2:5]]
        self.assertEqual(listed, [["public.t.c", "enc_text", "other"], ["s.u.d", "enc_int4[]", "|postgres|postgres|"],
                                  ["s.v.e", "enc_text", "|postgres|postgres|"]])
        self.assertEqual((self.directory / "owner").stat().st_mode & 0o777, 0o600)
        self.client(cluster, "sql", "INSERT INTO t (c) VALUES ($1)", "secretFirst")
        ask = ["sql", "-tA", "SELECT c FROM t"]
        self.assertEqual(self.client(cluster, *ask), "secretFirst\n")
        for change, undo, said in (
                ("ALTER TABLE t ALTER c TYPE text USING NULL", "ALTER TABLE t ALTER c TYPE enc_text USING NULL", "of type text on"),
                ("ALTER TABLE t RENAME c TO b", "ALTER TABLE t RENAME b TO c", "no column public.t.c"),
                ("ALTER TABLE t RENAME TO t_; CREATE VIEW t AS SELECT 'made up' AS c FROM t_",
                 "DROP VIEW t; ALTER TABLE t_ RENAME TO t", "of type text on"),
                ("ALTER TABLE s.u ALTER d TYPE enc_int4 USING NULL", "ALTER TABLE s.u ALTER d TYPE enc_int4[] USING NULL",
                 "of type enc_int4 on the server, and of type enc_int4[]"),
                ("ALTER TABLE s.v RENAME TO w; DROP DOMAIN mail CASCADE; CREATE DOMAIN mail AS text; CREATE TABLE s.v (e mail)",
                 "DROP TABLE s.v; DROP DOMAIN mail; CREATE DOMAIN mail AS enc_text; CREATE TABLE s.v (e mail)", "s.v.e is of type text")):
            cluster.psql(change)
            asked = (cluster.home / "log").read_text().count("process_message")
            refused = self.client(cluster, *ask, code=NOT_TRUSTED)
            self.assertIn(said, refused)
            self.assertIn("pgseal client column forget", refused)
            self.assertEqual((cluster.home / "log").read_text().count("process_message"), asked, "it was handed keys")
            cluster.psql(undo)
        # Another table is found first: only statements that name the table without its schema are refused.
        cluster.psql("CREATE SCHEMA postgres CREATE TABLE t (c text)")
        self.assertIn("another table than public.t", self.client(cluster, *ask, code=NOT_TRUSTED))
        self.client(cluster, "sql", "SELECT c FROM public.t AS found")
        cluster.psql("DROP SCHEMA postgres CASCADE; DROP TABLE t")
        self.client(cluster, "connect", code=NOT_TRUSTED)
        self.assertIn("not a column that this identity keeps", self.client(cluster, "column", "forget", "public.x.c", code=USAGE))
        self.client(cluster, "column", "forget", "public.t.c")
        self.client(cluster, "connect")
        # An application's identity knows what its owner's did.
        self.client(cluster, "init", str(self.directory / "application"), "--application-of", str(self.directory / "owner"))
        self.assertIn("s.u.d", self.client(cluster, "column", "list", identity="application"))


if __name__ == "__main__":
    main(__file__, TOOLS)
