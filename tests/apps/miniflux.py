#!/usr/bin/env python3
"""Miniflux, a feed reader in Go, with what is sensitive in it encrypted: its own tests of its API end as they do with plain columns.

All of its statements on tables with encrypted columns run unchanged. The server's log, which has each statement with its parameters,
has no name of a user, address of a feed or author.
Titles and texts of entries stay plain: the application has the server search them by tsvector.
"""

import json
import re
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / name) for name in ("encdb", "drivers", "lib")]
from confidential import TOOLS  # noqa: E402
from pgseal_test import base_environment, main, run  # noqa: E402
from places import place  # noqa: E402
from proxied import PORT, Proxied, Raw  # noqa: E402

ENCRYPTED = {
    "users": "username, password",
    "api_keys": "token, description",
    "categories": "title",
    "feeds": "title, feed_url, site_url, username, password, user_agent, webhook_url, proxy_url, ntfy_topic, parsing_error_msg",
    "entries": "url, author, comments_url",
    "web_sessions": "user_agent",
    "webauthn_credentials": "name",
    "integrations": None,  # all that are text
}
LOGGED = ("logging_collector = on\nlog_destination = jsonlog\nlog_directory = '{}'\nlog_statement = all\n"
          "log_parameter_max_length = -1\nlog_parameter_max_length_on_error = -1\n")
RESULT = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+)", re.M)
SENT = re.compile(r"(?:statement|execute [^:]+): (.*)", re.S)
ONE = re.compile(r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE)\b[^;]*;?\s*", re.I)
# Tests that ask for a site on the Internet, of which there is none here.
NEED_INTERNET = {"TestCannotHaveDuplicateFeedWhenUpdatingFeed"}
# Parts of values that the tests and the site bring into encrypted columns: names of users, addresses of feeds, authors.
SECRETS = {"regular_test_user", "/feed.xml", "writer1@example.org"}


class Miniflux(Proxied):
    def prepared(self, name, form="inline"):
        """A cluster with the application's tables, and where its statements are logged."""
        self.programs = place("miniflux")
        self.assertTrue((self.programs / "miniflux").exists(), "run scripts/fetch-drivers.sh miniflux")
        logs = self.directory / f"{name}-logs"
        logs.mkdir()
        at = self.evaluator().socket if form == "isolated" else ""
        cluster = self.server(name, form=form, socket=at, conf=LOGGED.format(logs))
        cluster.psql("CREATE DATABASE miniflux")
        run([self.programs / "miniflux", "-migrate"], self.environment(cluster.home, 5432))
        return cluster, logs

    def environment(self, directory, port):
        return {**base_environment(), "DATABASE_URL": f"host={directory} port={port} user=postgres dbname=miniflux sslmode=disable"}

    def results(self, name, directory, port):
        """The result of each of the application's tests, by its name."""
        log = self.directory / f"{name}.log"
        done = run(["unshare", "--user", "--map-root-user", "--net", TESTS / "apps/inside.py", self.programs / "miniflux",
                    self.programs / "api.test", log], self.environment(directory, port), check=False)
        found = {test: result for result, test in RESULT.findall(done.stdout)}
        self.assertGreater(len(found), 50, done.stdout[-2000:] + done.stderr + log.read_text()[-2000:])
        return found, done.stdout

    def encrypt(self, cluster):
        """By the command that an owner of such a database runs."""
        cluster.environment["PGDATABASE"] = "miniflux"
        cluster.psql("CREATE EXTENSION encdb", "miniflux")
        for command in (["init"], ["key", "new"], ["grant", "add", "--this-database", "--allow", "all"]):
            self.client(cluster, *command)
        for table, columns in ENCRYPTED.items():
            columns = columns or cluster.psql(f"SELECT string_agg(attname, ',') FROM pg_attribute WHERE attrelid = '{table}'::regclass "
                                              "AND atttypid = 'text'::regtype AND NOT attisdropped", "miniflux")
            self.client(cluster, "protect", "--table", table, "--columns", columns.replace(" ", ""), "--disconnect")

    def test_inline(self):
        self.is_used("inline")

    def test_isolated(self):
        self.is_used("isolated")

    def is_used(self, form):
        plain, logs = self.prepared("plain")
        expected, _ = self.results("plain", plain.home, 5432)
        failed = {test for test, result in expected.items() if result != "PASS"}
        self.assertLessEqual(failed, NEED_INTERNET)
        cluster, seen = self.prepared("encrypted", form)
        self.encrypt(cluster)
        directory = self.proxy(cluster)
        self.share(directory, statements(logs))
        found, output = self.results("encrypted", directory, PORT)
        self.assertEqual(found, expected, output + (directory / "log").read_text()[-4000:])
        self.assertEqual(secrets_in(logs), SECRETS)
        self.assertEqual(secrets_in(seen), set())

    def share(self, directory, asked):
        """Prints how many of the statements the proxy and the server take as they are."""
        refused = {}
        with Raw(directory, "miniflux") as driver:
            for statement in asked:
                answer = driver.cycle(b"P", b"\0" + statement.encode() + b"\0\0\0")
                errors = [body for tag, body in answer if tag == b"E"]
                if errors:
                    refused[statement] = errors[0].replace(b"\0", b" ").decode()
        share = 1 - len(refused) / len(asked)
        print(f"Miniflux: {len(asked) - len(refused)} of {len(asked)} statements on tables with encrypted columns run unchanged ({share:.1%})")
        self.assertGreater(len(asked), 50)
        self.assertEqual(refused, {})


def secrets_in(logs):
    """Those that the server's log has."""
    text = "".join(file.read_text() for file in logs.glob("*.json"))
    return {secret for secret in SECRETS if secret in text}


def statements(logs):
    """The distinct statements on tables with encrypted columns that the application sent, without the texts of its migrations."""
    tables = re.compile(rf"\b({'|'.join(ENCRYPTED)})\b")
    found = set()
    for file in logs.glob("*.json"):
        for line in file.read_text().splitlines():
            sent = SENT.fullmatch(json.loads(line).get("message", ""))
            if sent and tables.search(sent[1]) and ONE.fullmatch(sent[1]):
                found.add(sent[1])
    return sorted(found)


if __name__ == "__main__":
    main(__file__, TOOLS)
