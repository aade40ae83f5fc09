#!/usr/bin/env python3
"""django-oscar, a shop, with personal data and amounts encrypted: its own test suite ends as it does with plain columns.

The suite is in django-oscar's repository only: PGSEAL_OSCAR names a copy of it. Tests that end otherwise for other reasons, such as
files that a build of its front end makes, do so in both.
"""

import os
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / name) for name in ("encdb", "drivers", "lib")]
from confidential import TOOLS  # noqa: E402
from pgseal_test import base_environment, main  # noqa: E402
from places import place  # noqa: E402
from proxied import PORT, Proxied  # noqa: E402

SOURCE = Path(os.environ.get("PGSEAL_OSCAR", "/nonexistent"))
DATABASE = "test_oscar"
LIMIT = 1800
PATTERN_INDEXES = """SELECT format('DROP INDEX %s;', indexrelid::regclass) FROM pg_index i, pg_opclass o
    WHERE indrelid = '{}'::regclass AND o.oid = ANY (indclass::oid[]) AND opcname LIKE '%pattern_ops'"""
PERSON = ("first_name", "last_name", "line1", "line2", "line3", "line4", "state", "postcode")
TOTALS = ("total_incl_tax", "total_excl_tax")
ENCRYPTED = {
    "myauth_user": ("email", "last_login"),
    "address_useraddress": (*PERSON, "phone_number", "notes"),
    "order_shippingaddress": (*PERSON, "phone_number", "notes"),
    "order_billingaddress": PERSON,
    "partner_partneraddress": PERSON,
    "order_order": ("guest_email", *TOTALS, "shipping_incl_tax", "shipping_excl_tax"),
    "order_line": ("line_price_incl_tax", "line_price_excl_tax", "unit_price_incl_tax", "unit_price_excl_tax"),
    "order_orderdiscount": ("amount", "voucher_code"),
    "order_paymentevent": ("amount",),
    "payment_source": ("amount_allocated", "amount_debited", "amount_refunded"),
    "payment_transaction": ("amount",),
    "partner_stockrecord": ("price",),
    "analytics_userrecord": ("total_spent",),
    "analytics_usersearch": ("query",),
    "communication_email": ("email", "subject", "body_text"),
    "payment_bankcard": ("name", "number"),
    "voucher_voucher": ("name",),
    "reviews_productreview": ("name", "email"),
}


@unittest.skipUnless(SOURCE.exists(), "django-oscar's packages do not have its tests: PGSEAL_OSCAR names a copy of its repository")
class Oscar(Proxied):
    def environment(self, directory, port):
        return {**base_environment(), "DATABASE_HOST": str(directory), "DATABASE_PORT": str(port), "DATABASE_USER": "postgres",
                "PYTHONPATH": f"{self.copy}:{self.copy}/sandbox", "PYTHONDONTWRITEBYTECODE": "1"}

    def pytest(self, name, directory, port, *options):
        """The result of each test, by its name."""
        report = self.directory / f"{name}.xml"
        command = [place("oscar") / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--reuse-db", f"--junitxml={report}", *options]
        log = self.directory / f"{name}.log"
        with open(log, "w") as file:
            subprocess.run(command, env=self.environment(directory, port), stdout=file, stderr=file, cwd=self.copy, timeout=LIMIT, check=False)
        self.assertTrue(report.exists(), log.read_text()[-3000:])
        return {f"{case.get('classname')}.{case.get('name')}": result(case) for case in xml.etree.ElementTree.parse(report).iter("testcase")}

    def prepared(self, name, form="inline"):
        """A cluster with the tables of the shop's tests."""
        at = self.evaluator().socket if form == "isolated" else ""
        cluster = self.server(name, form=form, socket=at)
        self.pytest(f"{name}-made", cluster.home, 5432, "tests/integration/address")
        return cluster

    def encrypt(self, cluster):
        cluster.psql("CREATE EXTENSION encdb", DATABASE)
        self.client(cluster, "init")
        self.lists_nothing(cluster)
        cluster.environment["PGDATABASE"] = DATABASE
        for command in (["key", "new"], ["grant", "add", "--this-database", "--allow", "all"]):
            self.client(cluster, *command)
        for table, columns in ENCRYPTED.items():
            # Those of Django's for LIKE, which no encrypted type has.
            cluster.psql(cluster.psql(PATTERN_INDEXES.format(table), DATABASE), DATABASE)
            self.client(cluster, "protect", "--table", table, "--columns", ",".join(columns), "--drop-limits", "--disconnect")

    def test_inline(self):
        self.is_used("inline")

    def test_isolated(self):
        self.is_used("isolated")

    def is_used(self, form):
        self.copy = self.directory / "oscar"
        shutil.copytree(SOURCE, self.copy)
        plain = self.prepared("plain")
        expected = self.pytest("plain", plain.home, 5432)
        self.assertGreater(list(expected.values()).count("passed"), 1500)
        plain.stop()
        cluster = self.prepared("encrypted", form)
        self.encrypt(cluster)
        found = self.pytest("encrypted", self.proxy(cluster), PORT)
        changed = {test: (expected[test], found.get(test)) for test in expected if expected[test] != found.get(test)}
        print(f"django-oscar: {len(expected) - len(changed)} of {len(expected)} tests end as they do with plain columns")
        self.assertEqual(changed, {})


def result(case):
    found = [part.tag for part in case if part.tag in ("failure", "error", "skipped")]
    return found[0] if found else "passed"


if __name__ == "__main__":
    main(__file__, TOOLS)
