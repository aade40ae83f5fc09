#!/usr/bin/env python3
"""pgseal client on a real server, in both forms of the evaluator: identities, keys, grants, values, statements."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, INSTALLED, TOOLS  # noqa: E402
from owners_client import (IO, KEY_FILE, NO_ENCDB, NOT_TRUSTED, PGSEAL, REFUSED, USAGE, WRONG_KEY,  # noqa: E402
                           OwnersClient)
from page import Page  # noqa: E402
from pgseal_test import STAGE, TIME_LIMIT, base_environment, main, run  # noqa: E402
from waiting import eventually

PAGE = "docs/confidential/client.md"
SERVERS_PAGE = "docs/confidential/encdb.md"


class Client(OwnersClient):
    def test_a_key_that_is_rolled_back_seals_nothing_more(self):
        """The session would have it until its end, and nobody what it sealed."""
        cluster = self.server_with_encdb("isolated")
        cluster.psql("CREATE TABLE t (c enc_int4)")
        environment = {**cluster.environment, "PGHOST": str(cluster.home), "PGUSER": "postgres", "PGDATABASE": "postgres"}
        said = run([INSTALLED / "taken_back"], environment).stdout.splitlines()
        gone = 'there is no data key "taken back" of this owner: make it with pgseal client key, or encdb.dek_generate'
        self.assertEqual(said, ["in the transaction: sealed", f"after ROLLBACK TO made; COMMIT: {gone}", f"again: {gone}",
                                "in the transaction: sealed", f"after ROLLBACK: {gone}", f"again: {gone}",
                                "in the transaction: sealed", "after COMMIT: sealed", "again: sealed"])
        # Of the rows that stayed each names the key that is there, in bytes 3 to 6 of its cell.
        keys = "SELECT count(*), count(DISTINCT key_id) FROM t LEFT JOIN encdb.data_key ON to_hex(key_id) = ltrim(substring(encdb.enc_int4_send(c)::text FROM 9 FOR 8), '0')"
        self.assertEqual(cluster.psql(keys), "3|1")

    def test_values_go_in_and_come_out_and_the_server_sees_cells(self):
        for form in FORMS:
            with self.subTest(form=form):
                cluster = self.ready(form)
                self.client(cluster, "sql", "CREATE TABLE t (id enc_int4 PRIMARY KEY, c enc_text, n numeric, d enc_decimal)")
                lines = "1\tadalovelace\t1.50\t0.10\n2\t\\N\t\\N\t\\N\n"
                self.assertEqual(self.client(cluster, "sql", "--each-line", "--plain", "3", "INSERT INTO t VALUES ($1, $2, $3, $4)",
                                             stdin=lines),
                                 "INSERT 2\n")
                self.assertEqual(self.rows(cluster, "SELECT * FROM t WHERE id BETWEEN $1 AND $2 ORDER BY id", "1", "2"),
                                 ["1|adalovelace|1.50|0.10", "2|||"])
                self.assertEqual(self.rows(cluster, "SELECT sum(id), max(c), count(*) FROM t"), ["3|adalovelace|2"])
                self.assertEqual(self.client(cluster, "sql", "UPDATE t SET id = id + $1", "10"), "UPDATE 2\n")
                self.assertEqual(self.rows(cluster, "SELECT id FROM t WHERE c LIKE $1", "ada%"), ["11"])
                seen = cluster.psql("SELECT * FROM t")
                for clear in ("adalovelace", b"adalovelace".hex()):  # longer than chance: cells are shown in hexadecimal digits
                    self.assertNotIn(clear, seen)
                self.assertIn("\\x", seen)
                cluster.psql("SELECT sum(id) FROM t", error="no session is open")
                os.unlink(self.directory / "owner")

    def test_one_value(self):
        cluster = self.ready("inline", allow=None)
        first, second = (self.client(cluster, "seal", "-t", "integer", stdin="42\n").strip() for _ in range(2))
        self.assertNotEqual(first, second)
        self.assertEqual(len(first), 2 + 2 * 39)
        self.assertEqual(self.client(cluster, "open", first), "42\n")
        self.assertEqual(self.client(cluster, "open", "-t", "enc_int4", stdin=second), "42\n")
        self.assertIn("type", self.client(cluster, "open", "-t", "text", first, code=WRONG_KEY))
        flipped = first[:-1] + ("0" if first[-1] != "0" else "1")
        self.assertIn("check byte", self.client(cluster, "open", flipped, code=WRONG_KEY))
        said = self.client(cluster, "seal", "-t", "integer", stdin="forty-two", code=USAGE)
        self.assertNotIn("forty", said)
        self.client(cluster, "key", "new", "det", "--deterministic", "--group", "3")
        self.assertEqual(*(self.client(cluster, "seal", "-t", "text", "-k", "det", stdin="x") for _ in range(2)))
        self.assertIn(" | 3     | deterministic\n", self.client(cluster, "key", "list"))
        self.assertIn("no data key", self.client(cluster, "seal", "-t", "text", "-k", "none", stdin="x", code=WRONG_KEY))

    def test_grants_are_made_listed_and_taken_back(self):
        for form in FORMS:
            with self.subTest(form=form):
                cluster = self.ready(form, allow=None)
                add = ["SELECT $1::enc_int4 + $2::enc_int4", "1", "2"]
                self.assertIn("has not granted", self.client(cluster, "sql", *add, code=REFUSED))
                subject = self.client(cluster, "init", str(self.directory / "application"), "--application-of",
                                      str(self.directory / "owner")).split()[-1]
                granted = self.client(cluster, "grant", "add", "--to", subject, "--allow", "arithmetic", "--valid-until", "1h")
                serial = granted.split()[1]
                self.assertEqual(self.rows(cluster, *add, identity="application"), ["3"])
                self.assertIn("has not granted", self.client(cluster, "sql", *add, code=REFUSED))
                listed = self.client(cluster, "grant", "list")
                self.assertRegex(listed, rf"{serial} \| {subject} \| arithmetic +\| all .*\| holds")
                said = self.client(cluster, "grant", "add", "--allow", "all", identity="application", code=USAGE)
                self.assertIn("owner's identity", said)
                self.client(cluster, "grant", "revoke", serial)
                self.assertIn("revoked", self.client(cluster, "grant", "list"))
                self.client(cluster, "sql", *add, identity="application", code=REFUSED)
                for name in ("owner", "application"):
                    os.unlink(self.directory / name)

    def test_who_answers_in_the_evaluators_place_gets_nothing(self):
        """A superuser leads the owner's client to evaluators of their own; the owner has named the right one's key."""
        right = self.evaluator(options=["--identity", self.directory / "right"])
        cluster = self.server("main", form="isolated", socket=right.socket)
        self.client(cluster, "init")
        key, = re.findall(r"signed by ([0-9a-f]{64})\n", right.log_file.read_text())
        shown = self.client(cluster, "connect", "--accept", f"software:{key}", trusts=False)
        self.assertRegex(shown, rf"signed by +{key}\n")
        own = self.evaluator("own", ["--identity", self.directory / "own"])
        for evaluator, said in ((own, "which the policy does not name"), (self.evaluator("bare"), "is not signed")):
            cluster.psql(f"ALTER DATABASE postgres SET encdb.socket = '{evaluator.socket}'")
            refused = self.client(cluster, "connect", "--accept", f"software:{key}", code=NOT_TRUSTED, trusts=False)
            self.assertRegex(refused, f"{said}.*nothing was sent to it")
            self.client(cluster, "connect")  # who names no key takes any
        right.kill9()
        right.start()
        cluster.psql("ALTER DATABASE postgres RESET encdb.socket")
        self.client(cluster, "connect", "--accept", f"software:{key}", trusts=False)
        for text in ("software:", f"software:{key[:-1]}", "hardware"):
            self.assertIn("64 digits", self.client(cluster, "connect", "--accept", text, code=USAGE, trusts=False))

    def test_the_commands_of_the_page(self):
        """As printed, from an owner's first to the first value that they seal."""
        evaluator = self.evaluator(options=["--identity", self.directory / "evaluator.key"])
        cluster = self.server("main", form="isolated", socket=evaluator.socket)
        cluster.psql("CREATE DATABASE shop")
        cluster.psql("CREATE EXTENSION encdb; CREATE TABLE test1 (id enc_int4, c enc_text)", db="shop")
        key, = re.findall(r"signed by ([0-9a-f]{64})\n", evaluator.log_file.read_text())
        block = Page(PAGE, {"software:KEY": f"software:{key}"}).blocks("sh")[0]
        home = {"HOME": str(self.directory), "PATH": f"{PGSEAL.parent}:{base_environment()['PATH']}"}
        printed = run(["bash", "-euo", "pipefail", "-c", block], {**cluster.environment, **home}).stdout
        self.assertEqual((self.directory / "owner.identity").stat().st_mode & 0o777, 0o600)
        self.assertRegex(printed, rf"signed by +{key}\n")
        cell = printed.splitlines()[-1]
        self.assertEqual(self.client(cluster, "open", "-d", "shop", cell, identity="owner.identity"), "42\n")
        self.client(cluster, "sql", "-d", "shop", "INSERT INTO test1 VALUES ($1, $2)", "42", "x", identity="owner.identity")
        select = [line for line in block.splitlines() if "SELECT" in line][0].split("'")[1]
        self.assertEqual(self.rows(cluster, "-d", "shop", select, "42", identity="owner.identity"), ["42|x"])

    def test_a_list_of_revocations_acts_beside_that_of_another_database(self):
        cluster = self.ready("isolated", allow=None)
        cluster.psql("CREATE DATABASE crm")
        cluster.psql("CREATE EXTENSION encdb", db="crm")
        subject = self.client(cluster, "init", str(self.directory / "application"), "--application-of",
                              str(self.directory / "owner")).split()[-1]
        grant = ["--to", subject, "--allow", "convert-out"]
        first = self.client(cluster, "grant", "add", *grant).split()[1]
        second = self.client(cluster, "grant", "add", "-d", "crm", *grant).split()[1]
        self.client(cluster, "key", "new", "-d", "crm")
        self.client(cluster, "sql", "-d", "crm", "CREATE TABLE t (c enc_int4)")
        self.client(cluster, "sql", "-d", "crm", "INSERT INTO t VALUES ($1)", "42")
        self.client(cluster, "sql", "-d", "crm", "CREATE TABLE seen (what text)")
        open_session = self.waiting(cluster, "-d", "crm", "--plain", "1",
                                    "INSERT INTO seen SELECT encdb.decrypt(c)::text || $1 FROM t")
        self.client(cluster, "grant", "revoke", first)
        self.client(cluster, "grant", "revoke", "-d", "crm", second)
        said = open_session.communicate("x\n", timeout=TIME_LIMIT)[1]
        self.assertIn("revoked", said)
        self.assertEqual(open_session.returncode, REFUSED, said)

    def waiting(self, cluster, *arguments):
        """The application's client with a session that is open, and its statement prepared; it waits for its lines."""
        environment = {**base_environment(), **cluster.environment, "PGSEAL_IDENTITY": str(self.directory / "application"),
                       "PGSEAL_ACCEPT": "software"}
        started = subprocess.Popen([PGSEAL, "client", "sql", "--trust-server-types", "--each-line", *arguments], env=environment, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(started.kill)
        prepared = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgseal' AND query LIKE 'INSERT%'"
        eventually(lambda: cluster.psql(prepared).strip() == "1", "the session is not opened")
        return started

    def test_nothing_goes_to_whom_it_does_not_trust(self):
        cluster = self.ready("inline", allow=None)
        policy = self.directory / "policy.toml"
        policy.write_text("[software]\nallowed = false\n")
        self.assertIn("no table [software]", self.client(cluster, "connect", "--policy", policy, trusts=False, code=NOT_TRUSTED))
        self.assertIn("--policy", self.client(cluster, "connect", trusts=False, code=USAGE))
        rules = ["--rules", "00" * 32]
        self.assertIn("rules", self.client(cluster, "connect", *rules, code=NOT_TRUSTED))
        shown = self.client(cluster, "connect")
        self.assertIn("proves nothing", shown)
        rules = shown.split("rules")[1].split()[0]
        self.client(cluster, "connect", "--rules", rules)

    def test_what_cannot_be_done_has_a_code_and_a_sentence(self):
        cluster = self.server("plain")
        cluster.psql("DROP EXTENSION encdb CASCADE")
        self.client(cluster, "init")
        self.assertIn("CREATE EXTENSION encdb", self.client(cluster, "connect", code=NO_ENCDB))
        self.assertIn("exists", self.client(cluster, "init", code=USAGE))
        self.client(cluster, "connect", identity="missing", code=KEY_FILE)
        os.chmod(self.directory / "owner", 0o640)
        self.assertIn("chmod 600", self.client(cluster, "connect", code=KEY_FILE))
        os.chmod(self.directory / "owner", 0o600)
        self.client(cluster, "connect", "-p", "1", code=IO)

    def test_statements_of_one_session(self):
        cluster = self.ready("isolated")
        cluster.psql("CREATE TABLE t (id int, c enc_text, tag det_type)")
        script = ["sql", "-tA"]
        self.client(cluster, "key", "new", "det", "--deterministic")
        told = self.client(cluster, *script, stdin="""
            BEGIN;
            INSERT INTO t (id, c) VALUES ($1, $2) \\plain 1 \\bind 1 'it''s; ada';
            SAVEPOINT s;
            INSERT INTO t (id, c) VALUES ($1, $2) \\bind 2 \\N \\plain 1 \\g
            ROLLBACK TO s; -- the second is gone
            COPY t (id, c) FROM STDIN \\plain 1;
3\tb\\\\c
4\t\\N
\\.
            COMMIT;
            SELECT id, c FROM t ORDER BY id;
        """)
        self.assertEqual(told.splitlines(), ["BEGIN", "INSERT 1", "SAVEPOINT", "INSERT 1", "ROLLBACK", "COPY 2", "COMMIT",
                                             "1|it's; ada", "3|b\\c", "4|"])
        said = self.client(cluster, *script, stdin="BEGIN; DELETE FROM t; SELECT 1 / $1 \\bind 0 \\plain 1; COMMIT;", code=REFUSED)
        self.assertIn("22012", said)
        self.assertEqual(self.rows(cluster, "SELECT count(*) FROM t"), ["3"])
        self.client(cluster, *script, "--key", "det", stdin="INSERT INTO t (tag) VALUES ($1) \\type 1=integer \\bind 5;")
        self.assertIn("semicolon", self.client(cluster, *script, stdin="SELECT 1", code=USAGE))
        self.assertIn("\\bind", self.client(cluster, *script, stdin="SELECT 1 \\watch 1;", code=USAGE))
        self.assertIn("--literals", self.client(cluster, *script, stdin="SELECT FROM t WHERE c = 'x';", code=USAGE))

    def test_the_first_example_of_the_servers_page(self):
        """docs/confidential/encdb.md, by the commands that it names."""
        text = (STAGE / SERVERS_PAGE).read_text()
        commands, = re.findall(r"^```sh\n(pgseal client .*?)^```$", text, re.M | re.S)
        example = re.findall(r"^```sql\n(.*?)^```$", text, re.M | re.S)[1]
        cluster = self.server_with_encdb("isolated")
        self.client(cluster, "init")
        (self.directory / "account.sql").write_text(example)
        environment = {**base_environment(), **cluster.environment, "PGSEAL_IDENTITY": str(self.directory / "owner"),
                       "PGSEAL_ACCEPT": "software", "PATH": f"{PGSEAL.parent}:{base_environment()['PATH']}"}
        script = f"cd {self.directory}\n{commands}"
        printed = run(["bash", "-euo", "pipefail", "-c", script], environment).stdout
        self.assertRegex(printed, r"10 +\| 577\.50\n\(1 row\)\n\Z")

    def test_a_second_owner_of_one_role_is_told_what_to_do(self):
        cluster = self.ready("inline", allow=None)
        self.client(cluster, "init", identity="second")
        said = self.client(cluster, "key", "new", identity="second", code=REFUSED)
        self.assertIn('there is a data key "|postgres|postgres|" already', said)
        self.assertIn("--key NAME", said)
        self.client(cluster, "key", "new", "mine", identity="second")
        self.assertEqual(self.rows(cluster, "--key", "mine", "SELECT $1::enc_text", "x", identity="second"), ["x"])

    def test_a_revocation_does_not_come_undone_unseen(self):
        """A superuser deletes it, and the evaluator is started again."""
        evaluator = self.evaluator()
        cluster = self.server("main", form="isolated", socket=evaluator.socket)
        self.client(cluster, "init")
        self.client(cluster, "key", "new")
        subject = self.client(cluster, "init", str(self.directory / "application"), "--application-of",
                              str(self.directory / "owner")).split()[-1]
        serial = self.client(cluster, "grant", "add", "--to", subject, "--allow", "arithmetic").split()[1]
        add = ["sql", "SELECT $1::enc_int4 + $2::enc_int4", "1", "2"]
        self.client(cluster, *add, identity="application")
        self.assertRegex(self.client(cluster, "connect"), r"revocations +0\n")
        self.client(cluster, "grant", "revoke", serial)
        self.assertRegex(self.client(cluster, "connect"), r"revocations +1\n")
        self.client(cluster, *add, identity="application", code=REFUSED)
        cluster.psql("CREATE TABLE kept AS TABLE encdb.revocation; DELETE FROM encdb.revocation")
        evaluator.kill9()
        evaluator.start()
        self.client(cluster, *add, identity="application")  # as documented: it is withheld from the evaluator
        for command in (["connect"], ["sql", "SELECT 1"], ["grant", "revoke", serial]):
            said = self.client(cluster, *command, code=NOT_TRUSTED)
            self.assertIn("shows list 0 of revoked grants, and this identity has seen list 1", said)
        self.assertRegex(self.client(cluster, "grant", "list"), "revoked")
        self.client(cluster, "grant", "restore")
        self.client(cluster, *add, identity="application", code=REFUSED)
        self.assertRegex(self.client(cluster, "connect"), r"revocations +1\n")
        cluster.psql("DELETE FROM encdb.revocation; INSERT INTO encdb.revocation TABLE kept")
        self.client(cluster, "connect")

    def without_evaluator(self, form):
        """A server with encdb, and two functions: no evaluator answers after the first, and one does after the second."""
        if form == "isolated":
            evaluator = self.evaluator()
            return self.server(form, form=form, socket=evaluator.socket), evaluator.kill9, evaluator.start
        cluster = self.server(form, form=form, socket=self.directory / "nobody.sock")
        setting = "ALTER DATABASE postgres {} encdb.evaluator"
        return (cluster, lambda: cluster.psql(setting.format("SET") + " = isolated"), lambda: cluster.psql(setting.format("RESET")))

    def test_a_grant_is_revoked_while_no_evaluator_answers(self):
        """The list is in the database before a session is opened: later sessions of the application are refused."""
        for form in FORMS:
            with self.subTest(form=form):
                cluster, stop, start = self.without_evaluator(form)
                self.client(cluster, "init")
                self.client(cluster, "key", "new")
                subject = self.client(cluster, "init", str(self.directory / "application"), "--application-of",
                                      str(self.directory / "owner")).split()[-1]
                serial = self.client(cluster, "grant", "add", "--to", subject, "--allow", "arithmetic").split()[1]
                add = ["sql", "SELECT $1::enc_int4 + $2::enc_int4", "1", "2"]
                self.client(cluster, *add, identity="application")
                stop()
                said = self.client(cluster, "grant", "revoke", serial, code=REFUSED)
                self.assertIn("the grants are revoked in the database, but the evaluator does not know yet", said)
                self.assertRegex(self.client(cluster, "grant", "list"), "revoked")
                start()
                self.client(cluster, *add, identity="application", code=REFUSED)
                self.client(cluster, "grant", "revoke", serial)
                self.assertRegex(self.client(cluster, "connect"), r"revocations +1\n")
                for identity in ("owner", "application"):
                    os.unlink(self.directory / identity)

    def test_another_list_of_the_same_number_is_not_taken(self):
        """Two copies of an identity signed them, and the database kept one of them only."""
        evaluator = self.evaluator()
        cluster = self.server("main", form="isolated", socket=evaluator.socket)
        self.client(cluster, "init")
        self.client(cluster, "key", "new")
        subject = self.client(cluster, "init", str(self.directory / "application"), "--application-of",
                              str(self.directory / "owner")).split()[-1]
        add = ["sql", "SELECT $1::enc_int4 + $2::enc_int4", "1", "2"]
        first, second = (self.client(cluster, "grant", "add", "--to", subject, "--allow", "arithmetic").split()[1] for _ in range(2))
        shutil.copy(self.directory / "owner", self.directory / "copy")
        self.client(cluster, "grant", "revoke", first)
        cluster.psql("DELETE FROM encdb.revocation")
        evaluator.kill9()
        evaluator.start()
        self.client(cluster, "grant", "revoke", second, identity="copy")
        self.client(cluster, *add, identity="application")  # by the first, as documented
        for command in (["connect"], ["grant", "revoke", second]):
            said = self.client(cluster, *command, code=NOT_TRUSTED)
            self.assertIn("shows another list 1 of revoked grants than this identity has seen", said)
        self.client(cluster, "grant", "restore")
        for identity in ("owner", "copy"):
            self.assertRegex(self.client(cluster, "connect", identity=identity), r"revocations +2\n")
        self.assertEqual(self.client(cluster, "grant", "list").count("revoked"), 2)
        self.client(cluster, *add, identity="application", code=REFUSED)

    def test_an_identity_that_cannot_be_written_is_used(self):
        cluster = self.ready("inline")
        closed = self.directory / "closed"
        closed.mkdir()
        shutil.copy(self.directory / "owner", closed)
        serial = self.client(cluster, "grant", "add", "--allow", "text").split()[1]
        self.client(cluster, "grant", "revoke", serial)
        closed.chmod(0o500)
        self.addCleanup(closed.chmod, 0o700)
        for _ in range(2):
            shown = self.client(cluster, "connect", identity="closed/owner", warned="cannot be written.*which grants were revoked")
            self.assertRegex(shown, r"revocations +1\n")
        self.assertEqual(self.rows(cluster, "SELECT $1::enc_int4", "1", identity="closed/owner", warned="cannot be written"), ["1"])
        closed.chmod(0o700)
        self.client(cluster, "connect", identity="closed/owner")
        closed.chmod(0o500)
        self.client(cluster, "connect", identity="closed/owner")

    def test_arrays_are_sealed_and_opened_element_by_element(self):
        for form in FORMS:
            with self.subTest(form=form):
                cluster = self.ready(form)
                cluster.psql("CREATE TABLE t (id int, a enc_text[], n enc_int4[])")
                insert = "INSERT INTO t VALUES ($1, $2, $3)"
                rows = ["1|{ada,NULL,\"b c\",\"\"}|{{1,2},{3,NULL}}", "2|{}|{}", "3||[0:1]={7,8}"]
                lines = "".join("\t".join(field or "\\N" for field in row.split("|")) + "\n" for row in rows)
                self.client(cluster, "sql", "--each-line", "--plain", "1", insert, stdin=lines)
                self.assertEqual(self.rows(cluster, "SELECT * FROM t ORDER BY id"), rows)
                self.assertEqual(self.rows(cluster, "--literals", "SELECT id FROM t WHERE a[1] = ANY($1)", "{x,ada}"), ["1"])
                self.assertEqual(self.rows(cluster, "SELECT ARRAY[1,NULL], ARRAY['a b'], jsonb '[1]'"), ['{1,NULL}|{"a b"}|[1]'])
                seen = cluster.psql("SELECT a[1], a[2] IS NULL, array_dims(n) FROM t WHERE id = 1").split("|")
                self.assertRegex(seen[0], r"^\\x[0-9a-f]{70,}$")
                self.assertEqual(seen[1:], ["t", "[1:2][1:2]"])
                self.assertIn("malformed", self.client(cluster, "sql", insert, "--plain", "1", "4", "{a,", "{}", code=USAGE))
                said = self.client(cluster, "sql", "SELECT t FROM t", code=USAGE)
                self.assertIn("select its parts one by one", said)
                os.unlink(self.directory / "owner")

    def test_columns_of_cells_of_any_type_take_what_is_named(self):
        cluster = self.ready("inline")
        self.client(cluster, "key", "new", "det", "--deterministic")
        cluster.psql("CREATE TABLE t (tag det_type UNIQUE, note rnd_type)")
        insert = ["INSERT INTO t VALUES ($1, $2)", "blue", "7"]
        self.assertIn("--type 1=", self.client(cluster, "sql", *insert, code=USAGE))
        self.client(cluster, "sql", "--key", "det", "--type", "1=text,2=integer", *insert)
        found = ["SELECT note, tag FROM t WHERE tag = $1", "blue"]
        self.assertEqual(self.rows(cluster, "--key", "det", "--type", "1=text", *found), ["7|blue"])
        self.client(cluster, "sql", "--type", "1=colour", *found, code=USAGE)

    def test_a_plain_column_does_not_pass_for_a_sealed_one(self):
        cluster = self.ready("inline")
        self.client(cluster, "sql", "CREATE TABLE t (c enc_int4)")
        self.client(cluster, "sql", "--sealed-only", "INSERT INTO t VALUES ($1)", "100")
        self.assertEqual(self.rows(cluster, "--sealed-only", "SELECT c FROM t"), ["100"])
        cluster.psql("ALTER TABLE t RENAME TO t_; CREATE VIEW t AS SELECT 999999 AS c FROM t_")
        said = self.client(cluster, "sql", "--sealed-only", "SELECT c FROM t", code=USAGE)
        self.assertIn('column "c" is of a plain type', said)

    def test_the_server_does_not_choose_the_key_that_seals(self):
        cluster = self.ready("inline", allow=None)
        self.client(cluster, "key", "new", "det", "--deterministic")
        self.client(cluster, "sql", "CREATE TABLE t (c enc_text)")
        cluster.psql("CREATE OR REPLACE FUNCTION encdb.default_keyname() RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'det' $$")
        for _ in range(2):
            self.client(cluster, "sql", "--sealed-only", "INSERT INTO t VALUES ($1)", "yes")
        self.assertNotEqual(*cluster.psql("COPY t TO STDOUT").splitlines())
        self.assertNotEqual(*(self.client(cluster, "seal", "-t", "text", stdin="yes") for _ in range(2)))


if __name__ == "__main__":
    main(__file__, [*TOOLS, PAGE, SERVERS_PAGE])
