#!/usr/bin/env python3
"""examples/shop in a browser: the application shows clear values, finds, sorts, adds and edits; its database has cells only."""

import json
import re
import socket
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / name) for name in ("encdb", "drivers", "lib")]
from browser import Browser  # noqa: E402
from confidential import TOOLS, programs  # noqa: E402
from harness import Watch  # noqa: E402
from pgseal_test import PGSEAL, STAGE, base_environment, files_below, main, read_raw, run  # noqa: E402
from places import place  # noqa: E402
from proxied import LOG_ALL, Proxied  # noqa: E402
from waiting import eventually  # noqa: E402

EXAMPLE = "examples/shop"
SAMPLE = "shop/fixtures/sample.json"
ENCRYPTED = {"shop.customer": ["name", "email", "phone", "birthday", "credit_limit"], "shop.order": ["item", "amount"]}
# Shorter ones, such as 17.25, are in times of the log by chance.
SHORTEST_SECRET = 6
VAT = "XX-4711-0815"
PHONE = 360
PLAIN_WORD = "Erewhon"
GRANTED = "aggregate,text,compare-derived"

ROWS = """table => [...document.querySelectorAll(`${table} tbody tr`)].map(row => [...row.cells].map(cell => cell.textContent))"""
TEXT = "selector => document.querySelector(selector)?.textContent"
SET = "(selector, value) => { document.querySelector(selector).value = value; }"
NEW = {"name": "Yorick Newcomer", "email": "yorick.newcomer@example.org", "phone": "+1 202 555 0199", "birthday": "1969-07-21",
       "credit_limit": "4242.42", "city": "Laputa"}
EDITED = {"name": "Yorick Settled", "email": "yorick.settled@example.org", "phone": "+1 202 555 0198", "birthday": "1971-08-22",
          "credit_limit": "5151.51"}
ORDER = {"item": "Teapot without a spout", "amount": "131.70", "placed": "2026-02-03"}


def reached(port):
    """Whether somebody listens at the port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Shop(Proxied):
    def setUp(self):
        super().setUp()
        self.example = STAGE / EXAMPLE
        self.python = place("python") / "bin/python"
        self.assertTrue(self.python.exists(), "run scripts/fetch-drivers.sh python")
        sample = json.loads((self.example / SAMPLE).read_text())
        self.customers = [each["fields"] for each in sample if each["model"] == "shop.customer"]
        self.orders = [each["fields"] for each in sample if each["model"] == "shop.order"]
        values = [each["fields"][name] for each in sample for name in ENCRYPTED[each["model"]]]
        typed = [value for each in (NEW, EDITED) for name, value in each.items() if name != "city"] + [ORDER["item"], ORDER["amount"], VAT]
        self.secrets = {value for value in values + typed if value and len(value) >= SHORTEST_SECRET}

    def test_inline(self):
        self.is_used("inline")

    def test_isolated(self):
        self.is_used("isolated")

    def is_used(self, form):
        self.open_shop(form)
        self.browser = Browser(self.directory / "profile")
        self.addCleanup(self.browser.close)
        with Watch(self.cluster_) as watch:
            self.shows_finds_and_sorts()
            self.adds_and_edits()
            self.fits_a_phone()
        self.assertEqual(self.browser.complaints(), [])
        foreign = [url for url in self.browser.requested() if not url.startswith((self.url, "data:"))]
        self.assertEqual(foreign, [])
        self.adds_a_column()
        self.has_cells_only(watch.seen)

    def open_shop(self, form):
        """What examples/shop/serve.sh does, with the harness' server."""
        at = self.evaluator().socket if form == "isolated" else ""
        self.cluster_ = cluster = self.server(form, form=form, socket=at, conf=LOG_ALL, extension=False)
        cluster.psql("CREATE ROLE shop LOGIN; CREATE DATABASE shop OWNER shop")
        cluster.environment |= {"PGDATABASE": "shop", "PGUSER": "shop"}
        self.manage("migrate")
        cluster.run("psql", "-qX1", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-f", self.example / "dba.sql")
        for command in (["init"], ["key", "new"], ["column", "add", "--all"], ["grant", "add", "--this-database", "--allow", GRANTED]):
            self.client(cluster, *command)
        self.manage("loaddata", "sample", through=self.through_proxy())
        cluster.psql("ANALYZE", "shop")
        self.start_application()

    def through_proxy(self):
        return [PGSEAL, "client", "exec", "--identity", self.directory / "owner", "--accept", "software", "--"]

    def environment(self):
        return {**base_environment(), **self.cluster_.environment, "TMPDIR": str(self.directory), "PYTHONDONTWRITEBYTECODE": "1"}

    def manage(self, *arguments, through=()):
        run([*through, self.python, self.example / "manage.py", *arguments], self.environment())

    def start_application(self):
        port = self.reserved_port()
        self.url = f"http://127.0.0.1:{port}/"
        command = [*self.through_proxy(), self.python, self.example / "manage.py", "runserver", "--noreload", f"127.0.0.1:{port}"]
        self.log = self.directory / "application.log"
        with open(self.log, "w") as log:
            process = subprocess.Popen(command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        eventually(lambda: reached(port), self.log.read_text, process=process)

    def row(self, customer):
        """As the list shows a customer."""
        number = self.customers.index(customer) + 1
        amounts = [Decimal(order["amount"]) for order in self.orders if order["customer"] == number]
        ordered = f"{len(amounts)} · {sum(amounts)}" if amounts else "–"
        return [customer["name"], customer["email"], customer["birthday"] or "", customer["city"], customer["credit_limit"], ordered]

    def assert_listed(self, customers):
        shown = self.browser.evaluate(ROWS, "#customers")
        self.assertEqual(shown, [self.row(customer) for customer in customers], self.log.read_text())
        self.assertEqual(self.browser.evaluate(TEXT, "#credit"), str(sum(Decimal(customer["credit_limit"]) for customer in customers)))

    def shows_finds_and_sorts(self):
        by_name = sorted(self.customers, key=lambda customer: customer["name"])
        self.browser.open(self.url)
        self.assert_listed(by_name)
        self.browser.follow("th:nth-child(1) a")
        self.assert_listed(by_name[::-1])

        born = [customer for customer in self.customers if "1968-09-17" <= (customer["birthday"] or "") <= "1991-07-25"]
        self.browser.evaluate(SET, "[name=born_from]", "1968-09-17")
        self.browser.evaluate(SET, "[name=born_to]", "1991-07-25")
        self.browser.follow(".search button")
        self.browser.follow("th:nth-child(3) a")
        by_birthday = sorted(born, key=lambda customer: customer["birthday"])
        self.assertEqual([each["birthday"] for each in by_birthday][::len(born) - 1], ["1968-09-17", "1991-07-25"])
        self.assert_listed(by_birthday)

        self.browser.open(self.url)
        self.browser.type(".search [name=name]", "TESTCASE")
        self.browser.follow(".search button")
        self.assert_listed([customer for customer in by_name if customer["name"].endswith("Testcase")])
        self.find(self.customers[7])

    def find(self, customer):
        """By its e-mail."""
        self.browser.open(self.url)
        self.browser.type(".search [name=email]", customer["email"])
        self.browser.follow(".search button")
        self.assert_listed([customer])

    def fill(self, form, values):
        for name, value in values.items():
            field = f"{form} [name={name}]"
            if name in ("birthday", "placed"):
                self.browser.evaluate(SET, field, value)
            else:
                self.browser.type(field, value)
        self.browser.follow(f"{form} button")

    def adds_and_edits(self):
        self.browser.open(self.url)
        self.browser.follow("#new")
        self.fill("#edit", NEW | {"email": self.customers[0]["email"]})
        self.assertIn("Another customer has this e-mail.", self.browser.evaluate(TEXT, "#edit"))
        self.fill("#edit", NEW)
        self.customers.append(NEW)
        self.find(NEW)

        self.browser.follow("#customers tbody a")
        self.fill("#edit", EDITED)
        self.customers[-1] = edited = NEW | EDITED
        self.fill("#order", ORDER)
        self.assertEqual(self.browser.evaluate(ROWS, "#orders"), [[ORDER["placed"], ORDER["item"], ORDER["amount"]]])
        self.orders.append({"customer": len(self.customers), **ORDER})
        self.find(edited)
        self.browser.open(self.url)
        self.assert_listed(sorted(self.customers, key=lambda customer: customer["name"]))

    def adds_a_column(self):
        """By the command of the example's page."""
        self.cluster_.psql("ALTER TABLE shop_customer ADD COLUMN vat varchar(30)", "shop", "shop")
        command, = re.findall(r"^    pgseal client exec -- psql -c '(.*)'$", (self.example / "README.md").read_text(), re.M)
        self.cluster_.psql(command, "shop", error="no session is open")
        psql = [*self.through_proxy(), programs() / "psql", "-XAtqc"]
        run([*psql, command], self.environment())
        self.client(self.cluster_, "column", "add", "--all")
        asked = f"UPDATE shop_customer SET vat = '{VAT}' WHERE name = '{EDITED['name']}' RETURNING vat"
        self.assertEqual(run([*psql, asked], self.environment()).stdout.strip(), VAT)

    def fits_a_phone(self):
        self.browser.width(PHONE, mobile=True)
        for path in ("", "new", "customer/4"):
            self.browser.open(self.url + path)
            self.assertEqual(self.browser.evaluate("() => document.documentElement.scrollWidth"), PHONE, path)

    def has_cells_only(self, activity):
        """As the server's superuser sees it, and anyone who reads its files."""
        cluster = self.cluster_
        cells = cluster.psql("SELECT name, email, phone, birthday, credit_limit FROM shop_customer", "shop").splitlines()
        self.assertEqual(len(cells), len(self.customers))
        for row in cells:
            self.assertRegex(row, r"^(\|?(\\x[0-9a-f]{60,})?){5}$")
        cluster.psql("CHECKPOINT")
        seen = {"log": cluster.log().encode(), "pg_stat_activity": "\n".join(activity).encode()}
        self.assertIn(b'"shop_customer"', seen["pg_stat_activity"])
        cluster.stop()
        kept = {str(path.relative_to(cluster.data)): read_raw(path) for path in files_below(cluster.data)}
        self.assertIn(PLAIN_WORD.encode(), seen["log"])
        for area in ("base/", "pg_wal/"):
            found = any(PLAIN_WORD.encode() in content for name, content in kept.items() if name.startswith(area))
            self.assertEqual(found, not cluster.sealed, area)
        self.assertGreater(len(self.secrets), 100)
        found = [(name, secret) for name, content in (seen | kept).items() for secret in self.secrets if secret.encode() in content]
        self.assertEqual(found, [])


if __name__ == "__main__":
    main(__file__, [*TOOLS, EXAMPLE])
