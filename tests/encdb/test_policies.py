#!/usr/bin/env python3
"""Row-level security on tables with encrypted columns: an index is used under a policy, and what a policy hides stays hidden."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from confidential import FORMS, TOOLS, Confidential  # noqa: E402
from pgseal_test import main  # noqa: E402

TABLE = """
SELECT encdb.dek_generate(encdb.default_keyname()) IS NOT NULL, encdb.dek_generate('det', '{"flags": "DET"}') IS NOT NULL;
CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN;
CREATE TABLE t AS SELECT g, CASE WHEN g % 2 = 0 THEN 'alice' ELSE 'bob' END AS tenant, encdb.enc_int4_encrypt(g) AS k,
    encdb.enc_text_encrypt('word ' || g) AS c, encdb.enc_text_encrypt('tag ' || g, 'det')::det_type AS d FROM generate_series(1, 2000) g;
CREATE INDEX t_k ON t (k); CREATE INDEX t_c ON t (c); CREATE INDEX t_d ON t (d); CREATE INDEX t_c_hash ON t USING hash (c);
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON t USING (tenant = current_user);
GRANT SELECT, UPDATE ON t TO alice, bob;
CREATE TABLE two AS SELECT 'alice' AS tenant, encdb.enc_int4_encrypt(g) AS k FROM generate_series(1, 10) g;
ALTER TABLE two ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON two USING (tenant = current_user);
GRANT SELECT ON two TO alice, bob;
ANALYZE t;
"""
OTHER = """
SELECT encdb.dek_generate('other') IS NOT NULL;
INSERT INTO two SELECT 'bob', encdb.enc_int4_encrypt(g, 'other') FROM generate_series(1, 10) g;
"""
NUMBERS = ("SELECT encdb.enc_int4_encrypt(1000, '|postgres|postgres|') AS n, encdb.enc_int4_encrypt(1003, '|postgres|postgres|') AS m,"
           " encdb.enc_text_encrypt('word 1000', '|postgres|postgres|') AS w, encdb.enc_text_encrypt('tag 1000', 'det')::det_type AS d \\gset\n")
# By what the index is asked, and what alice gets.
LOOKUPS = {
    "k = :'n'": ("t_k", "1000"),
    "k = :'m'": ("t_k", ""),
    "k >= :'n' AND k <= :'m'": ("t_k", "1000\n1002"),
    "k > :'n' AND k < :'m'": ("t_k", "1002"),
    "c = :'w'": ("t_c", "1000"),
    "d = :'d'": ("t_d", "1000"),
    "k = :'n'::enc_int4::enc_int8": ("t_k", "1000"),
}
LEAKPROOF = """
SELECT count(*) FILTER (WHERE proleakproof), count(*) FILTER (WHERE proleakproof <> (oprname IN ('=', '<>', '<', '<=', '>', '>=', '~<~', '~<=~', '~>~', '~>=~')))
FROM pg_operator o JOIN pg_proc p ON p.oid = oprcode WHERE (oprleft::regtype::text ~ '^(enc_|det_type)' AND oprright::regtype::text ~ '^(enc_|det_type)')"""


class Policies(Confidential):
    def test_indexes_serve_under_a_policy(self):
        for form in FORMS:
            server = self.server(form, form=form, socket=self.evaluator().socket if form == "isolated" else "", conf="autovacuum = off")
            self.as_owner(server, TABLE)
            for where, (index, found) in LOOKUPS.items():
                with self.subTest(form=form, where=where):
                    setup = f"{NUMBERS}SET ROLE alice; SET enable_seqscan = off;"
                    plan = self.as_owner(server, f"{setup}EXPLAIN (COSTS OFF) SELECT g FROM t WHERE {where}")
                    self.assertRegex(plan, rf"(?s)Scan (using|on) {index}.*Index Cond: \(+{index[2:]} ")
                    self.assertEqual(self.as_owner(server, f"{setup}SELECT g FROM t WHERE {where} ORDER BY g"), found)
            # Where the planner is free, too.
            plan = self.as_owner(server, f"{NUMBERS}SET ROLE alice;EXPLAIN (COSTS OFF) SELECT g FROM t WHERE k = :'n'")
            self.assertIn("Index Cond", plan)
            update = "UPDATE t SET g = g WHERE k >= :'n' AND k <= :'m' RETURNING g"
            self.assertEqual(self.as_owner(server, f"{NUMBERS}SET ROLE bob;{update}"), "1001\n1003")

    def test_another_owners_hidden_rows_are_not_met(self):
        """A policy's cheap condition is asked before a comparison, which would be refused for the other owner's cells."""
        server = self.server()
        self.as_owner(server, TABLE)
        server.psql(self.opening(owner=8) + OTHER)
        cell = "SELECT encdb.enc_int4_encrypt(7, '{}') AS n \\gset\n"
        ask = "SELECT count(*) FROM two WHERE k = :'n'"
        self.assertEqual(self.as_owner(server, cell.format("|postgres|postgres|") + f"SET ROLE alice; {ask}"), "1")
        self.assertEqual(server.psql(self.opening(owner=8) + cell.format("other") + f"SET ROLE bob; {ask}").split()[-1], "1")
        self.as_owner(server, cell.format("|postgres|postgres|") + ask, error="the data key of the encrypted value is not loaded")

    def test_comparisons_alone_are_leakproof(self):
        server = self.server()
        of_types, of_two, of_det = 13 * 6, 10 * 6, 6
        self.assertEqual(server.psql(LEAKPROOF), f"{of_types + of_two + of_det}|0")
        others = "SELECT count(*) FROM pg_proc WHERE proleakproof AND probin LIKE '%encdb' AND oid NOT IN (SELECT oprcode FROM pg_operator)"
        self.assertEqual(server.psql(others), "0")


if __name__ == "__main__":
    main(__file__, TOOLS)
